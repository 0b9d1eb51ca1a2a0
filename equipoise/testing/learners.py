"""Checks that every learner must pass, yours included.

Each check is a function whose name says what it checks. Checks that need an optional member (`state`, `config`) or
contexts that are arrays are skipped if the learner has none, so a learner with only `decide` and `learn` can pass.

>>> from equipoise.learners import UCB
>>> check_learner(lambda: UCB(arms=6))[:3]
['has a name and declares only known words', 'decides before any learning', 'proposals are well formed']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from math import inf, isnan, log, nan, sqrt
from numbers import Real
from typing import NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learner import (
    AdaptedLearner,
    HasSettings,
    Learner,
    Proposal,
    accepts,
    can_be_restored,
    declared_name,
    implements,
    provides,
)
from equipoise.learners import Ball
from equipoise.testing import checks
from equipoise.testing.checks import (
    always,
    equal,
    generator,
    require,
    require_error,
    require_same_arrays,
    saved,
    uniform,
)
from equipoise.types import Action, Array, Context, Outcome, State

N_ROUNDS = 40
# Rounds (first, last) before decisions are repeated: at the start, and after the learner has learned something.
STATES = ((0, 0), (0, N_ROUNDS), (N_ROUNDS, 2 * N_ROUNDS))
N_DECISIONS = 300  # in the same context and state, of a learner that draws random numbers
N_CERTAIN_DECISIONS = 10  # of one that says it does not

ContextSource = Callable[[np.random.Generator], Context]
OutcomeSource = Callable[[Context, Action, np.random.Generator], Outcome]
N_ROUNDS_FOR_MEMORY = 300
ABSURD = (nan, inf, -inf, 1e155)


class Subject(NamedTuple):
    """What is checked: a factory of equal learners, with the contexts and outcomes that they get."""

    make: Callable[[], Learner]
    contexts: ContextSource
    outcomes: OutcomeSource
    canonical: bool = True  # whether equal learners have equal states


class Example(NamedTuple):
    """A learner and a context, which determine the checks that apply."""

    learner: Learner
    context: Context


def check_learner(
    factory: Callable[[], Learner],
    context_source: ContextSource | None = None,
    outcome_source: OutcomeSource | None = None,
    *,
    exempt: Mapping[str, str] | None = None,
    canonical: bool = True,
) -> list[str]:
    """Run all checks of a learner; raises an AssertionError that names the first check that fails, and why.

    Rewards are in [0, 1].

    Parameters
    ----------
    factory
        Returns a new learner, each time with the same settings.
    context_source
        Returns a context, given a random generator; by default a matrix of 2 to 6 actions with 8 features and norms of
        at most 1.
    outcome_source
        Returns what the learner learns from, given context, action and random generator; by default the action.
    exempt
        Names of checks that are not run, each with the reason; by default none.
    canonical
        Whether equal learners have equal states. If not, states are compared by what learners restored from them do.

    Returns
    -------
    list of str
        The names of the checks that were run.
    """
    outcomes = outcome_source or (lambda _, action, __: action)
    subject = Subject(factory, context_source or random_actions, outcomes, canonical)
    return checks.run_checks(
        checks.without(CHECKS, exempt or {}), subject, lambda: Example(factory(), context_at(subject, 0))
    )


def has_a_name_and_declares_only_known_words(subject: Subject) -> None:
    learner = subject.make()
    name = declared_name(learner)
    require(isinstance(name, str) and bool(name), f"name is {name!r}, not a nonempty string")
    for declared in (accepts, provides):
        declared(learner)  # an unknown word is an error


def decides_before_any_learning(subject: Subject) -> None:
    for t in range(5):
        decision_at(subject, subject.make(), t)


def proposals_are_well_formed(subject: Subject) -> None:
    for context, proposal in play(subject, subject.make()):
        require_offered(context, proposal.action)
        lower, regret, probability, value = proposal.lower, proposal.regret, proposal.probability, proposal.value
        numbers = (lower, regret, probability, value)
        require(all(isinstance(number, Real) for number in numbers), f"{proposal} has fields that are not numbers")
        require(not isnan(lower), f"lower is {lower}, not a bound")
        require(isnan(regret) or 0.0 <= regret < inf, f"regret is {regret}, neither nan nor a nonnegative number")
        require(isnan(probability) or 0.0 < probability <= 1.0, f"probability is {probability}, not in (0, 1]")
        if proposal.greedy is not None:
            require_offered(context, proposal.greedy)


def what_it_provides_is_filled_in(subject: Subject) -> None:
    learner = subject.make()
    adapted = AdaptedLearner(learner)
    for t, (context, proposal) in enumerate(play(subject, learner)):
        regret = adapted.regret_after(proposal.regret, outcome_at(subject, context, proposal, t))
        filled = {
            "lower": np.isfinite(proposal.lower),
            "regret": np.isfinite(regret),
            "greedy": proposal.greedy is not None,
            "value": np.isfinite(proposal.value),
            "pmf": adapted.can.pmf is not None,
        }
        for word in sorted(adapted.provides):
            require(bool(filled[word]), f"it provides {word!r}, but a play has none: {proposal}")


def stated_probabilities_are_those_of_its_decisions(subject: Subject) -> None:
    learner = subject.make()
    for start, stop in STATES:
        play(subject, learner, start, stop)
        drawn = decisions_at(subject, learner, stop)[1]
        for proposal in drawn:
            if not isnan(proposal.probability):
                times = sum(equal(proposal.action, other.action) for other in drawn)
                finding = f"action {proposal.action} was proposed {times} times in {len(drawn)} decisions"
                known = is_frequency(times, len(drawn), proposal.probability)
                require(known, f"{finding} with a stated probability of {proposal.probability}")


def pmf_is_the_distribution_of_its_decisions(subject: Subject) -> None:
    learner = subject.make()
    for start, stop in STATES:
        play(subject, learner, start, stop)
        context, drawn = decisions_at(subject, learner, stop)
        before = saved(learner) if can_be_restored(learner) else {}
        probabilities = AdaptedLearner(learner).pmf(context)
        if before:
            require_same_state(subject, before, learner, "after pmf()")
        assert probabilities is not None  # as the check applies to learners that provide it
        if checks.is_matrix(context) or isinstance(context, Offers):
            rows = len(context)
            require(len(probabilities) == rows, f"pmf has {len(probabilities)} entries for {rows} offered actions")
        for proposal in drawn:
            # Equal up to the rounding of a sum; nan agrees with everything.
            differs = abs(proposal.probability - probabilities[proposal.action]) > 1e-9
            require(not differs, f"pmf is {probabilities}, but the proposal says {proposal}")
        times = np.bincount([proposal.action for proposal in drawn], minlength=len(probabilities))
        for n, probability in zip(times, probabilities, strict=True):
            fits = is_frequency(n, len(drawn), probability)
            require(fits, f"pmf is {probabilities}, but {len(drawn)} decisions proposed the actions {times} times")


def probabilities_are_learned_or_refused(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    context, proposal = decision_at(subject, learner, 0)
    outcome = outcome_at(subject, context, proposal, 0)
    learn = partial(AdaptedLearner(learner).learn, context, outcome, 0.5)
    for probability in (1.0, 0.25):
        learn(probability=probability)
    before = saved(learner) if can_be_restored(learner) else {}
    for bad in (0.0, -0.5, 1.5, inf):
        require_error(partial(learn, probability=bad), f"an action of probability {bad}")
    if before:
        require_same_state(subject, before, learner, "after refusing probabilities")
    try:
        learn(probability=nan)
    except InvalidArgument:
        if before:
            require_same_state(subject, before, learner, "after refusing an unknown probability")


def deciding_changes_nothing(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    before = saved(learner)
    for t in range(5):
        decision_at(subject, learner, t)
    require_same_state(subject, before, learner, "after deciding")


def the_same_seed_gives_the_same_run(subject: Subject) -> None:
    # Side by side, so that two learners that share memory still agree: another check finds that.
    one, other = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        context, proposal = decision_at(subject, one, t)
        require_same_proposal(proposal, decision_at(subject, other, t)[1], f"of two equal learners in round {t}")
        for learner in (one, other):
            teach(learner, context, outcome_at(subject, context, proposal, t), t, proposal.probability)


def instances_share_nothing(subject: Subject) -> None:
    trained, untrained = subject.make(), subject.make()
    before = [decision_at(subject, untrained, t)[1] for t in range(N_ROUNDS)]
    play(subject, trained)
    for who, learner in (("an instance", untrained), ("a new instance", subject.make())):
        for t, proposal in enumerate(before):
            seen = decision_at(subject, learner, t)[1]
            require_same_proposal(proposal, seen, f"of {who} before and after another one learned")


def inputs_are_neither_kept_nor_changed(subject: Subject) -> None:
    learner, control = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        context, proposal = decision_at(subject, learner, t)
        expected = decision_at(subject, control, t)[1]
        require_same_proposal(expected, proposal, "after earlier inputs were overwritten")
        action = outcome_at(subject, context, proposal, t)
        untouched = outcome_at(subject, context, expected, t)
        teach(control, context_at(subject, t), untouched, t, proposal.probability)
        teach(learner, context, action, t, proposal.probability)
        for what, given, original in (("context", context, context_at(subject, t)), *parts(action, untouched)):
            if isinstance(given, np.ndarray):
                require(np.array_equal(given, original), f"decide() or learn() changed the {what} it was given")
                given *= -1


def memory_does_not_grow_with_rounds(subject: Subject) -> None:
    learner = subject.make()
    checks.require_constant_size(learner, partial(play, subject, learner), N_ROUNDS_FOR_MEMORY)


def state_survives_a_round_trip_in_mid_run(subject: Subject) -> None:
    learner, successor = subject.make(), subject.make()
    play(subject, learner)
    state = learner.state()
    snapshot = checks.copied(state)
    checks.hand_over(state, successor)
    later = play(subject, learner, N_ROUNDS, 2 * N_ROUNDS)
    require_same_arrays(snapshot, state, "of an earlier moment, while the learner went on,")
    for (_, expected), (_, seen) in zip(later, play(subject, successor, N_ROUNDS, 2 * N_ROUNDS), strict=True):
        require_same_proposal(expected, seen, "of the learner and of its restored copy")
    require_same_state(subject, saved(learner), successor, "of the restored copy at the end")


def a_deep_copy_is_independent_and_goes_on_identically(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    copy = deepcopy(learner)
    later = play(subject, copy, N_ROUNDS, 2 * N_ROUNDS)
    for (_, expected), (_, seen) in zip(later, play(subject, learner, N_ROUNDS, 2 * N_ROUNDS), strict=True):
        require_same_proposal(expected, seen, "of the learner and of its deep copy")


def states_that_do_not_fit_are_refused(subject: Subject) -> None:
    learner, other = subject.make(), subject.make()
    play(subject, learner)
    play(subject, other, N_ROUNDS, 2 * N_ROUNDS)
    before = saved(learner)
    for what, incompatible in checks.incompatibilities(saved(other)):
        require_error(partial(learner.restore, incompatible), what)
    require_same_state(subject, before, learner, "after refusing states")


def bad_contexts_are_refused_and_change_nothing(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    before, context = saved(learner), context_at(subject, 0)
    action = decision_at(subject, learner, 0)[1].action
    corrupted = [(f"full of {number}", np.full(context.shape, number)) for number in ABSURD]
    for what, bad in [*corrupted, ("with one dimension", context[0]), ("without rows", context[:0])]:
        require_error(partial(AdaptedLearner(learner).decide, bad, generator(0)), f"deciding in a context {what}")
        require_error(partial(learner.learn, bad, action, 0.5), f"learning from a context {what}")
    require_same_state(subject, before, learner, "after refusing contexts")


def bad_actions_are_refused_and_change_nothing(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    before, context = saved(learner), context_at(subject, 0)
    for bad in (-1, len(context), None):
        require_error(partial(learner.learn, context, bad, 0.5), f"learning of action {bad}")
    require_same_state(subject, before, learner, "after refusing actions")


def bad_rewards_are_refused_and_change_nothing(subject: Subject) -> None:
    learner = subject.make()
    play(subject, learner)
    before = saved(learner)
    context, proposal = decision_at(subject, learner, 0)
    outcome = outcome_at(subject, context, proposal, 0)
    learn: Callable[..., None] = learner.learn
    for bad in (*ABSURD, None, "1"):
        require_error(partial(learn, context, outcome, bad), f"a reward of {bad!r}")
    require_same_state(subject, before, learner, "after refusing rewards")


def config_rebuilds_an_equal_learner(subject: Subject) -> None:
    learner = subject.make()
    rebuilt = checks.made_again(learner, lambda config: type(learner)(**config))
    for (_, expected), (_, seen) in zip(play(subject, learner), play(subject, rebuilt), strict=True):
        require_same_proposal(expected, seen, "of the learner and of one rebuilt from its config()")


def offers_are_their_matrix(subject: Subject) -> None:
    learner, other = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        context, expected = decision_at(subject, learner, t)
        offers = Offers(context, shared=[0.5, -0.25])
        seen = AdaptedLearner(other).decide(offers, generator(t, 1))
        require_same_proposal(expected, seen, f"on a matrix and on offers of its rows in round {t}")
        if "pmf" in provides(learner):
            pmfs = [AdaptedLearner(each).pmf(given) for each, given in ((learner, context), (other, offers))]
            require(equal(*pmfs), f"pmf is {pmfs[0]} on a matrix, but {pmfs[1]} on offers of its rows")
        teach(learner, context, outcome_at(subject, context, expected, t), t, expected.probability)
        teach(other, offers, outcome_at(subject, offers, expected, t), t, expected.probability)


def a_mask_leaves_offers_out(subject: Subject) -> None:
    subject = subject._replace(contexts=partial(masked_offers, subject.contexts))
    learner = subject.make()
    for t in range(N_ROUNDS):
        try:
            offers, proposal = decision_at(subject, learner, t)
        except InvalidArgument:  # it refuses what the mask leaves, and sits the round out
            continue
        require_offered(offers, proposal.action)
        if proposal.greedy is not None:
            require_offered(offers, proposal.greedy)
        if "pmf" in provides(learner):
            probabilities = AdaptedLearner(learner).pmf(offers)
            assert probabilities is not None  # as it provides "pmf"
            require(len(probabilities) == len(offers), f"pmf has {len(probabilities)} entries for {len(offers)} offers")
            require(not probabilities[~offers.mask].any(), "pmf is positive for an offer that the mask leaves out")
        teach(learner, offers, outcome_at(subject, offers, proposal, t), t, proposal.probability)
        if not offers.mask.all():
            before = saved(learner) if can_be_restored(learner) else {}
            left_out = partial(learner.learn, offers, int(offers.mask.argmin()), 0.5)
            require_error(left_out, "learning of an offer that the mask leaves out")
            if before:
                require_same_state(subject, before, learner, "after refusing an offer that the mask leaves out")


def masked_offers(contexts: ContextSource, rng: np.random.Generator) -> Offers:
    """Offers of the rows of a matrix, with ids, shared features and a mask that leaves at least one."""
    rows = contexts(rng)
    mask = rng.random(len(rows)) < 0.6
    mask[int(rng.integers(len(rows)))] = True
    return Offers(rows, [0.5, -0.25], [f"offer {k}" for k in range(len(rows))], mask=mask)


def can_be_saved(example: Example) -> bool:
    return can_be_restored(example.learner)


def can_be_saved_and_takes_a_matrix(example: Example) -> bool:
    return can_be_saved(example) and checks.is_matrix(example.context)


def takes_offers(example: Example) -> bool:
    """Whether it takes offers where it takes matrices."""
    return can_be_saved_and_takes_a_matrix(example) and _decides(example.learner, Offers(example.context))


def takes_masks(example: Example) -> bool:
    return takes_offers(example) and _decides(example.learner, masked_offers(lambda rng: example.context, generator(0)))


def _decides(learner: Learner, context: Context) -> bool:
    try:
        AdaptedLearner(learner).decide(context, generator(0))
    except checks.ERRORS:
        return False
    return True


def accepts_probability(example: Example) -> bool:
    return "probability" in accepts(example.learner)


def provides_pmf(example: Example) -> bool:
    return "pmf" in provides(example.learner) and not isinstance(example.context, Ball)


def has_config(example: Example) -> bool:
    return implements(example.learner, HasSettings)


# Every check with the condition under which it is run.
CHECKS: dict[Callable[[Subject], None], Callable[[Example], bool]] = {
    has_a_name_and_declares_only_known_words: always,
    decides_before_any_learning: always,
    proposals_are_well_formed: always,
    what_it_provides_is_filled_in: always,
    the_same_seed_gives_the_same_run: always,
    stated_probabilities_are_those_of_its_decisions: always,
    pmf_is_the_distribution_of_its_decisions: provides_pmf,
    instances_share_nothing: always,
    a_deep_copy_is_independent_and_goes_on_identically: always,
    inputs_are_neither_kept_nor_changed: always,
    memory_does_not_grow_with_rounds: always,
    deciding_changes_nothing: can_be_saved,
    state_survives_a_round_trip_in_mid_run: can_be_saved,
    states_that_do_not_fit_are_refused: can_be_saved,
    bad_contexts_are_refused_and_change_nothing: can_be_saved_and_takes_a_matrix,
    bad_actions_are_refused_and_change_nothing: can_be_saved_and_takes_a_matrix,
    bad_rewards_are_refused_and_change_nothing: can_be_saved,
    offers_are_their_matrix: takes_offers,
    a_mask_leaves_offers_out: takes_masks,
    probabilities_are_learned_or_refused: accepts_probability,
    config_rebuilds_an_equal_learner: has_config,
}


def random_actions(rng: np.random.Generator) -> Array:
    """2 to 6 actions with 8 features, of norm at most 1."""
    rows = rng.standard_normal((int(rng.integers(2, 7)), 8))
    rows *= rng.random((len(rows), 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def context_at(subject: Subject, t: int) -> Context:
    return subject.contexts(generator(t, 0))


def decision_at(subject: Subject, learner: Learner, t: int) -> tuple[Context, Proposal]:
    """The context of round t and the learner's proposal."""
    context = context_at(subject, t)
    return context, AdaptedLearner(learner).decide(context, generator(t, 1))


def decisions_at(subject: Subject, learner: Learner, t: int) -> tuple[Context, list[Proposal]]:
    """The context of round t and what the learner proposes in it with different random numbers."""
    adapted, context = AdaptedLearner(learner), context_at(subject, t)
    n_decisions = N_DECISIONS if adapted.randomized else N_CERTAIN_DECISIONS
    return context, [adapted.decide(context, generator(t, 4 + k)) for k in range(n_decisions)]


def is_frequency(times: int, n: int, probability: float) -> bool:
    """Whether an event of this probability may occur so often among n; wrongly False with probability below 1e-9."""
    if probability in (0.0, 1.0):
        return times == n * probability
    return abs(times - n * probability) <= sqrt(n * log(2e9) / 2)


def outcome_at(subject: Subject, context: Context, proposal: Proposal, t: int) -> Outcome:
    return subject.outcomes(context, proposal.action, generator(t, 3))


def parts(outcome: Outcome, original: Outcome) -> list[tuple[str, Outcome, Outcome]]:
    """The parts of an outcome: an action has one, an episode several."""
    if isinstance(outcome, tuple):
        return [("outcome", piece, kept) for piece, kept in zip(outcome, original, strict=True)]
    return [("action", outcome, original)]


def reward_at(t: int) -> float:
    return uniform(t, 2)


def play(subject: Subject, learner: Learner, start: int = 0, stop: int = N_ROUNDS) -> list[tuple[Context, Proposal]]:
    """Play the rounds from `start` to `stop`; contexts and rewards depend on the number of the round only."""
    adapted, rounds = AdaptedLearner(learner), []
    for t in range(start, stop):
        context = context_at(subject, t)
        proposal = adapted.decide(context, generator(t, 1))
        outcome = outcome_at(subject, context, proposal, t)
        adapted.learn(context, outcome, reward_at(t), probability=proposal.probability)
        rounds.append((context, proposal))
    return rounds


def teach(learner: Learner, context: Context, outcome: Outcome, t: int, probability: float) -> None:
    AdaptedLearner(learner).learn(context, outcome, reward_at(t), probability=probability)


def require_offered(context: Context, action: Action) -> None:
    index = hasattr(action, "__index__") and not isinstance(action, bool | np.ndarray)
    if checks.is_matrix(context):
        require(index and 0 <= action < len(context), f"action is {action!r}, not an index below {len(context)}")
    elif isinstance(context, Offers):
        require(index and action in context.offered, f"action is {action!r}, not one of {context.offered.tolist()}")
    elif isinstance(context, Ball):
        norm = float(np.linalg.norm(action))
        fits = np.shape(action) == (context.dim,) and norm <= context.radius * (1 + 1e-9)
        require(fits, f"action has shape {np.shape(action)} and norm {norm:.6g}, but {context} was offered")


def require_same_proposal(expected: Proposal, seen: Proposal, whose: str) -> None:
    same = all(equal(one, other) for one, other in zip(expected, seen, strict=True))
    require(same, f"proposals {whose} differ: {expected} and {seen}")


def require_same_state(subject: Subject, expected: State, learner: Learner, when: str) -> None:
    if subject.canonical:
        require_same_arrays(expected, learner.state(), when)
        return
    original = subject.make()
    original.restore(checks.copied(expected))
    for t in range(N_ROUNDS):
        one, other = (decision_at(subject, each, t)[1] for each in (original, learner))
        require_same_proposal(one, other, f"by states {when}")
