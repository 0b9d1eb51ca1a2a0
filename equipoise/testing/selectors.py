"""Checks that every selector must pass, yours included, with simulated learners.

The rewards and regrets of learner i depend only on i and on the number of its play. Learners with even numbers are far
better than those with odd numbers. A selector without the capability that a check is about is not checked for it.

>>> from equipoise.bounds import Power
>>> from equipoise.selectors import BalancedElimination
>>> len(check_selector(lambda: BalancedElimination([Power(0.1), Power(0.2), Power(0.4)]))) == len(CHECKS)
True
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable, Iterable
from copy import deepcopy
from functools import partial
from math import inf, isclose, isfinite, isnan, nan
from typing import Any, NamedTuple

from equipoise.bounds import Power
from equipoise.certificates import AnyElimination, Certificate, Standing
from equipoise.errors import EquipoiseError
from equipoise.learner import Proposal, implements
from equipoise.selector import (
    ChangesPool,
    Choice,
    Configures,
    KnowsChances,
    LeavesOut,
    Selector,
    needs_of,
    takes_available,
    traits_of,
)
from equipoise.testing import checks
from equipoise.testing.checks import always, generator, require, require_error, require_same_arrays, saved, uniform

N_ROUNDS, N_ROUNDS_FOR_MEMORY, N_PENDING = 200, 400, 30
ABSURD = (nan, inf, -inf, 1e155, None, "1")


class Subject(NamedTuple):
    """What is checked: a factory of equal selectors, and the simulated learner at each index."""

    make: Callable[[], Selector]
    places: tuple[int, ...]

    def reward(self, limits: tuple[float, float], choice: Choice) -> float:
        low, high = limits
        more = 0.2 * uniform(self.places[choice.learner], choice.play, 0)
        return self.lower(limits, choice.learner) + (high - low) * more

    def lower(self, limits: tuple[float, float], learner: int) -> float:
        low, high = limits
        return low + (high - low) * (0.8 if self.places[learner] % 2 == 0 else 0.0)

    def regret(self, limits: tuple[float, float], choice: Choice) -> float:
        low, high = limits
        return (high - low) * 0.1 * uniform(self.places[choice.learner], choice.play, 1)


def check_selector(factory: Callable[[], Selector]) -> list[str]:
    """Run all checks of a selector; raises an AssertionError that names the first check that fails, and why.

    Parameters
    ----------
    factory
        Returns a new selector for at least two learners, each time with the same settings.

    Returns
    -------
    list of str
        The names of the checks that were run.
    """
    return checks.run_checks(CHECKS, Subject(factory, tuple(range(1000))), factory)


def declares_only_known_needs(subject: Subject) -> None:
    needs_of(subject.make())  # an unknown word is an error


def choosing_takes_no_context(subject: Subject) -> None:
    parameters = list(inspect.signature(subject.make().choose).parameters.values())
    optional = all(parameter.default is not parameter.empty for parameter in parameters)
    named = [parameter.name for parameter in parameters]
    possible = named in (["rng"], ["rng", "available"])
    require(possible and optional, f"choose() takes {named}, but may take nothing but an optional rng and available")


def chooses_before_any_reward(subject: Subject) -> None:
    selector = subject.make()
    for t in range(2 * n_learners(selector)):
        open_round(subject, selector, t)


def choices_are_well_formed_and_their_tickets_unique(subject: Subject) -> None:
    selector, tickets = subject.make(), Counter[int]()
    for t in range(N_ROUNDS):
        active = selector.active
        choice = open_round(subject, selector, t)
        require(choice.learner in active, f"learner {choice.learner} was chosen, but only {active} are active")
        require(0.0 < choice.probability <= 1.0, f"probability is {choice.probability}, not in (0, 1]")
        tickets[choice.learner] += 1
        expected = tickets[choice.learner]
        require(choice.play == expected, f"play is {choice.play} in play {expected} of learner {choice.learner}")
        if t % 3:
            credit(subject, selector, choice)


def every_learner_is_played(subject: Subject) -> None:
    selector = subject.make()
    play(subject, selector)
    unplayed = [row.learner for row in selector.standing() if row.plays == 0 and row.learner not in excluded(selector)]
    require(not unplayed, f"learners {unplayed} had no play in {N_ROUNDS} rounds")


def plays_add_up_to_the_rounds(subject: Subject) -> None:
    selector, open_plays = subject.make(), Counter[int]()
    for t in range(N_ROUNDS):
        choice = open_round(subject, selector, t)
        if t % 3:
            credit(subject, selector, choice)
        else:
            open_plays[choice.learner] += 1
        rows = selector.standing()
        require(sum(row.plays for row in rows) == t + 1, f"plays are {[row.plays for row in rows]} in round {t + 1}")
        few = [row.learner for row in rows if row.pending < open_plays[row.learner]]
        require(not few, f"learners {few} have more plays without a reward than are pending")


def the_active_set_never_empties_and_never_grows(subject: Subject) -> None:
    selector = subject.make()
    everyone = active = tuple(i for i in range(n_learners(selector)) if i not in excluded(selector))
    require(tuple(selector.active) == everyone, f"active is {selector.active} at the start, not {everyone}")
    eliminated: list[int] = []
    for t in range(N_ROUNDS):
        eliminations = credit(subject, selector, open_round(subject, selector, t))
        eliminated += [elimination.learner.index for elimination in eliminations]
        now = tuple(selector.active)
        require(len(now) > 0, f"no learner is active after round {t + 1}")
        if traits_of(selector).readmits:
            require(set(now) <= set(everyone), f"active is {now} after round {t + 1}, but only {everyone} may be")
            continue
        require(set(now) <= set(active), f"active grew from {active} to {now} in round {t + 1}")
        active = now
        complete = sorted([*eliminated, *active]) == list(everyone)
        require(complete, f"learners {active} are active and {eliminated} eliminated after round {t + 1}")


def every_elimination_carries_its_proof(subject: Subject) -> None:
    selector = subject.make()
    eliminations: list[AnyElimination] = []
    for t in range(N_ROUNDS):
        eliminations += credit(subject, selector, open_round(subject, selector, t))
    for elimination in eliminations:
        learner, witness = elimination.learner, elimination.witness
        proved = learner.mean_upper < witness.mean_lower
        require(proved, f"{learner} was eliminated, but its mean_upper is not below the mean_lower of {witness}")
        require(1 <= elimination.round <= N_ROUNDS, f"round is {elimination.round}, but {N_ROUNDS} were played")


def unknown_and_repeated_tickets_are_refused_and_change_nothing(subject: Subject) -> None:
    selector = subject.make()
    play(subject, selector)
    credited, withdrawn = open_round(subject, selector, N_ROUNDS), open_round(subject, selector, N_ROUNDS + 1)
    credit(subject, selector, credited)
    selector.withdraw(withdrawn)
    before = saved(selector)
    invalid = {"credited": credited, "withdrawn": withdrawn, "never opened": credited._replace(play=10**6)}
    for what, choice in [*invalid.items(), ("of no learner", credited._replace(learner=10**6))]:
        require_error(partial(selector.credit, choice, reward_range(selector)[0]), f"the reward of a play {what}")
        require_error(partial(selector.withdraw, choice), f"withdrawing a play {what}")
    require_same_arrays(before, selector.state(), "after refusing tickets")


def bad_rewards_are_refused_and_change_nothing(subject: Subject) -> None:
    selector = subject.make()
    play(subject, selector)
    choice = open_round(subject, selector, N_ROUNDS)
    before = saved(selector)
    low, high = reward_range(selector)
    outside = (low - 0.01 * (high - low), high + 0.01 * (high - low)) if traits_of(selector).noise is None else ()
    for bad in (*ABSURD, *outside):
        require_error(partial(selector.credit, choice, bad), f"a reward of {bad!r}")
    require_same_arrays(before, selector.state(), "after refusing rewards")
    credit(subject, selector, choice)


def rewards_may_come_late_and_in_any_order(subject: Subject) -> None:
    selectors = subject.make(), subject.make()
    rows = []
    orders = list(range(N_PENDING)), generator(0).permutation(N_PENDING).tolist()
    for selector, order in zip(selectors, orders, strict=True):
        choices = [open_round(subject, selector, t) for t in range(N_PENDING)]
        waiting = sum(row.pending for row in selector.standing())
        require(waiting == N_PENDING, f"{waiting} plays are pending of {N_PENDING} without a reward")
        for position in order:
            credit(subject, selector, choices[position])
        rows.append(selector.standing())
    for in_order, reordered in zip(*rows, strict=True):
        counts = (in_order.plays, in_order.pending), (reordered.plays, reordered.pending)
        require(counts[0] == counts[1] == (in_order.plays, 0), f"(plays, pending) are {counts} in and out of order")
        same = same_number(in_order.mean_reward, reordered.mean_reward)
        require(same, f"mean rewards are {in_order.mean_reward} in order and {reordered.mean_reward} out of order")


def withdrawing_the_newest_play_restores_the_state(subject: Subject) -> None:
    selector = pending_run(subject)
    before = saved(selector)
    for observed in (True, False):
        choice = open_round(subject, selector, N_ROUNDS) if observed else selector.choose(generator(N_ROUNDS, 3))
        selector.withdraw(choice)
        require_same_arrays(before, selector.state(), "after a play was opened and withdrawn")
        again = selector.choose(generator(N_ROUNDS, 3))
        require(again == choice, f"{choice} was withdrawn, and then {again} chosen")
        selector.withdraw(again)


def state_survives_a_round_trip_in_mid_run(subject: Subject) -> None:
    selector, successor = pending_run(subject), subject.make()
    state = selector.state()
    snapshot = checks.copied(state)
    checks.hand_over(state, successor)
    require_same_arrays(snapshot, successor.state(), "of the restored copy")
    later = finish(subject, selector)
    require_same_arrays(snapshot, state, "of an earlier moment, while the selector went on,")
    require(finish(subject, successor) == later, "the selector and its restored copy chose or eliminated differently")
    require_same_arrays(saved(selector), successor.state(), "of the restored copy at the end")


def a_deep_copy_is_independent_and_goes_on_identically(subject: Subject) -> None:
    selector = pending_run(subject)
    snapshot, copy = saved(selector), deepcopy(selector)
    later = finish(subject, copy)
    require_same_arrays(snapshot, selector.state(), "while its deep copy went on")
    require(finish(subject, selector) == later, "the selector and its deep copy chose or eliminated differently")
    require_same_arrays(saved(selector), copy.state(), "of the deep copy at the end")


def replaying_its_choices_gives_the_same_state(subject: Subject) -> None:
    selector, successor = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        choice = open_round(subject, selector, t)
        successor.replay(choice)
        observe(subject, successor, choice)
        if t % 10 or t < N_ROUNDS // 2:
            credit(subject, selector, choice)
            credit(subject, successor, choice)
        elif t % 20:
            selector.withdraw(choice)
            successor.withdraw(choice)
    require_same_arrays(saved(selector), successor.state(), "after replaying the choices of another one")
    require(
        finish(subject, successor) == finish(subject, selector), "after a replay it chose or eliminated differently"
    )


def states_that_do_not_fit_are_refused_and_change_nothing(subject: Subject) -> None:
    state, other = saved(pending_run(subject)), subject.make()
    play(subject, other)
    before = saved(other)
    for what, incompatible in checks.incompatibilities(state):
        require_error(partial(other.restore, incompatible), what)
        require_same_arrays(before, other.state(), f"after refusing {what}")


def the_same_seed_gives_the_same_run(subject: Subject) -> None:
    one, other = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        # Without a generator a selector draws from its own stream.
        rngs = [None, None] if t % 2 else [generator(t, 3), generator(t, 3)]
        choices = [selector.choose(rng) for selector, rng in zip((one, other), rngs, strict=True)]
        require(choices[0] == choices[1], f"two equal selectors chose {choices[0]} and {choices[1]} in round {t + 1}")
        for selector, choice in zip((one, other), choices, strict=True):
            observe(subject, selector, choice)
            credit(subject, selector, choice)


def instances_share_nothing(subject: Subject) -> None:
    unused = subject.make()
    before, standing = saved(unused), as_text(unused.standing())
    play(subject, subject.make())
    fresh: dict[str, Callable[[], Selector]] = {"an instance": lambda: unused, "a new instance": subject.make}
    for who, find in fresh.items():
        selector = find()
        require_same_arrays(before, selector.state(), f"of {who} after another one played")
        require(as_text(selector.standing()) == standing, f"the standing of {who} changed while another one played")


def standing_is_complete(subject: Subject) -> None:
    selector = subject.make()
    everyone = sorted([*selector.active, *excluded(selector)])
    for t in range(2 * N_ROUNDS):
        rows = selector.standing()
        order = [row.learner for row in rows]
        require(order == everyone, f"standing has rows of learners {order}, not {everyone}")
        for row in rows:
            require_sound_row(row, row.learner in selector.active)
        choice = open_round(subject, selector, t)
        if t < N_ROUNDS or t % 7:
            credit(subject, selector, choice)


def the_certificate_is_well_formed_or_refused_with_a_reason(subject: Subject) -> None:
    selector = subject.make()
    for t in range(N_ROUNDS):
        choice = open_round(subject, selector, t)
        if t < N_ROUNDS // 2:
            credit(subject, selector, choice)
        try:
            certificate = selector.certificate()
        except EquipoiseError as error:
            require(bool(str(error)), "the certificate was refused without a reason")
        else:
            require_sound_certificate(selector, certificate, t + 1, min(t + 1, N_ROUNDS // 2))


def config_rebuilds_an_equal_selector(subject: Subject) -> None:
    selector = subject.make()
    rebuilt = checks.made_again(selector, type(selector).from_config)
    require(play(subject, selector) == play(subject, rebuilt), "the selector and one rebuilt from its config() differ")
    require_same_arrays(saved(selector), rebuilt.state(), "of a selector rebuilt from config()")


def reordering_learners_changes_no_more_than_how_ties_break(subject: Subject) -> None:
    selector = subject.make()
    config = selector.config()
    entries = [name for name in traits_of(selector).per_learner if config.get(name) is not None]
    reordered = type(selector).from_config({**config, **{name: config[name][::-1] for name in entries}})
    mirrored = Subject(subject.make, tuple(reversed(range(n_learners(selector)))))
    play(subject, selector)
    play(mirrored, reordered)
    plays = [row.plays for row in selector.standing()]
    mirrored_plays = [row.plays for row in reordered.standing()][::-1]
    # Without bounds, equally good learners alternate, so the run may end between two of their turns.
    slack = 0 if config.get("bounds") else 1
    same = all(abs(one - other) <= slack for one, other in zip(plays, mirrored_plays, strict=True))
    require(same, f"learners had {plays} plays, but {mirrored_plays} when their order was reversed")
    same = [row.active for row in selector.standing()] == [row.active for row in reordered.standing()][::-1]
    require(same, "other learners were eliminated when the order was reversed")


def memory_does_not_grow_with_resolved_rounds(subject: Subject) -> None:
    selector = subject.make()
    checks.require_constant_size(selector, partial(play, subject, selector), N_ROUNDS_FOR_MEMORY)


def only_available_learners_are_chosen(subject: Subject) -> None:
    selector = subject.make()
    for t in range(N_ROUNDS):
        active = selector.active
        available = {i for i in range(n_learners(selector)) if uniform(t, i, 5) < 0.5}
        if available.isdisjoint(active):
            before = saved(selector)
            require_error(partial(selector.choose, generator(t, 3), available), f"choosing among {sorted(available)}")
            require_same_arrays(before, selector.state(), "after refusing to choose among inactive learners")
            continue
        choice = selector.choose(generator(t, 3), available)
        require(choice.learner in available, f"{choice.learner} was chosen, but only {sorted(available)} are available")
        require(choice.learner in active, f"{choice.learner} was chosen, but only {active} are active")
        observe(subject, selector, choice)
        if t % 3:
            credit(subject, selector, choice)


def its_choice_probabilities_are_those_of_its_choices(subject: Subject) -> None:
    selector: Any = subject.make()
    for t in range(N_ROUNDS):
        everyone = range(n_learners(selector))
        available = {i for i in everyone if t % 2 == 0 or uniform(t, i, 6) < 0.7}
        if not available.isdisjoint(selector.active):
            given = available if t % 2 else None
            chances, before = selector.choice_probabilities(given), saved(selector)
            selector.choice_probabilities(given)
            require_same_arrays(before, selector.state(), "after asking for probabilities")
            require(isclose(sum(chances), 1.0, abs_tol=1e-9), f"choice_probabilities() are {chances}, which is not 1")
            outside = [i for i in everyone if chances[i] > 0.0 and (i not in available or i not in selector.active)]
            require(not outside, f"choice_probabilities() are {chances}, but {outside} cannot be chosen")
            choice = selector.choose(generator(t, 3), given)
            stated, chance = choice.probability, chances[choice.learner]
            require(isclose(stated, chance, rel_tol=1e-9), f"probability is {stated}, but {chance} was announced")
            observe(subject, selector, choice)
            if t % 3:
                credit(subject, selector, choice)


def rounds_that_are_left_out_prove_nothing(subject: Subject) -> None:
    selector: Any = subject.make()
    play(subject, selector, 0, N_ROUNDS // 4)
    before, resolved = selector.standing(), selector.certificate().resolved_rounds
    for t in range(N_ROUNDS // 4, N_ROUNDS):
        choice = selector.choose(generator(t, 3))
        observe(subject, selector, choice)
        selector.leave_out(choice)
        if t % 2:
            credit(subject, selector, choice)
    after, certificate = selector.standing(), selector.certificate()
    require(sum(row.plays for row in after) == N_ROUNDS, f"plays are {[row.plays for row in after]}, not {N_ROUNDS}")
    same = all(same_number(old.mean_reward, new.mean_reward) for old, new in zip(before, after, strict=True))
    require(same, "mean rewards changed by rounds that were left out")
    counts = certificate.rounds, certificate.resolved_rounds
    require(counts == (N_ROUNDS, resolved), f"(rounds, resolved_rounds) are {counts}, not {(N_ROUNDS, resolved)}")


def a_window_of_evidence_survives_saving(subject: Subject) -> None:
    selector: Any = subject.make()
    require_error(partial(selector.configure, delays="exogenous"), "exogenous delays without a window")
    require_error(partial(selector.configure, delays="sometimes"), "delays 'sometimes'")
    low, high = reward_range(selector)
    another_range_is_adopted_or_refused(subject.make(), (low, high + 1.0))
    selector.configure(reward_range=(low, high), delays="exogenous", window=5)
    for t in range(N_ROUNDS):
        choice = open_round(subject, selector, t)
        if t % 4:  # a quarter of the rewards never arrive
            credit(subject, selector, choice)
    resolved = selector.certificate().resolved_rounds
    require(resolved >= N_ROUNDS // 2, f"resolved_rounds is {resolved}, though losses must not hold up other rounds")
    require_error(partial(selector.configure, delays="any"), "configuring a selector after its first play")
    successor = subject.make()
    successor.restore(saved(selector))
    require(finish(subject, successor) == finish(subject, selector), "the restored copy chose differently")
    require_same_arrays(saved(selector), successor.state(), "of the restored copy with a window")


def another_range_is_adopted_or_refused(selector: Any, other: tuple[float, float]) -> None:
    """A selector whose range is not stated adopts the one of its portfolio; any other refuses it."""
    before = reward_range(selector)
    try:
        selector.configure(reward_range=other)
    except EquipoiseError:
        other = before
    now = reward_range(selector)
    require(now == other, f"reward_range is {now} after configure(), but must be {other}")


def learners_come_and_go_or_are_refused_with_a_reason(subject: Subject) -> None:
    selector: Any = subject.make()
    play(subject, selector)
    before, n = saved(selector), n_learners(selector)
    bound = Power(1.0) if selector.certificate().assumes_bounds else None
    try:
        added = selector.add_learner(bound)
    except EquipoiseError as error:
        require(type(selector).__name__ in str(error), f"the error {error} does not name the selector")
        require_same_arrays(before, selector.state(), "after refusing a learner")
        return
    require(added == n and added in selector.active, f"add_learner() returned {added}, with {n} learners before")
    total = selector.certificate().delta
    play(subject, selector, N_ROUNDS, 2 * N_ROUNDS)
    rows = selector.standing()
    require(len(rows) == n + 1 and rows[n].plays > 0, f"the added learner had no play: {rows}")
    gone = next(i for i in selector.active)
    if len(selector.active) > 1:
        selector.remove_learner(gone)
        require(gone not in selector.active, f"learner {gone} is active after it was removed")
        require(
            all(elimination.learner.index != gone for elimination in selector.eliminations), "removed and eliminated"
        )
    require(selector.certificate().delta == total, "delta changed when a learner was removed")
    successor = subject.make()
    successor.restore(saved(selector))
    require(finish(subject, successor) == finish(subject, selector), "the restored copy chose differently")


def runs_live(selector: Selector) -> bool:
    """Whether it runs in portfolios, where it is rebuilt from a log."""
    return not traits_of(selector).simulation_only


def has(protocol: type) -> Callable[[Selector], bool]:
    """Return the condition that a selector has a capability."""
    return lambda selector: implements(selector, protocol)


def can_be_rebuilt(selector: Selector) -> bool:
    """False if a setting is a function."""
    try:
        type(selector).from_config(selector.config())
    except checks.ERRORS:
        return False
    return True


def can_be_rebuilt_in_another_order(selector: Selector) -> bool:
    traits = traits_of(selector)
    # If learners are left out, or are copies of each other, their order matters.
    if traits.randomized or traits.excluded or traits.copies > 1 or not can_be_rebuilt(selector):
        return False
    # Learners with equal closed forms are always tied.
    bounds = [json.dumps(bound) for bound in selector.config().get("bounds") or () if bound != {"bound": "Observed"}]
    return len(set(bounds)) == len(bounds)


# Every check with the condition under which it is run.
CHECKS: dict[Callable[[Subject], None], Callable[[Selector], bool]] = {
    declares_only_known_needs: always,
    choosing_takes_no_context: always,
    chooses_before_any_reward: always,
    choices_are_well_formed_and_their_tickets_unique: always,
    every_learner_is_played: always,
    plays_add_up_to_the_rounds: always,
    the_active_set_never_empties_and_never_grows: always,
    every_elimination_carries_its_proof: always,
    unknown_and_repeated_tickets_are_refused_and_change_nothing: always,
    bad_rewards_are_refused_and_change_nothing: always,
    rewards_may_come_late_and_in_any_order: always,
    withdrawing_the_newest_play_restores_the_state: always,
    instances_share_nothing: always,
    state_survives_a_round_trip_in_mid_run: always,
    states_that_do_not_fit_are_refused_and_change_nothing: always,
    the_same_seed_gives_the_same_run: always,
    a_deep_copy_is_independent_and_goes_on_identically: always,
    replaying_its_choices_gives_the_same_state: runs_live,
    standing_is_complete: always,
    the_certificate_is_well_formed_or_refused_with_a_reason: always,
    config_rebuilds_an_equal_selector: can_be_rebuilt,
    reordering_learners_changes_no_more_than_how_ties_break: can_be_rebuilt_in_another_order,
    memory_does_not_grow_with_resolved_rounds: always,
    only_available_learners_are_chosen: takes_available,
    its_choice_probabilities_are_those_of_its_choices: has(KnowsChances),
    rounds_that_are_left_out_prove_nothing: has(LeavesOut),
    a_window_of_evidence_survives_saving: has(Configures),
    learners_come_and_go_or_are_refused_with_a_reason: has(ChangesPool),
}


def n_learners(selector: Selector) -> int:
    return len(selector.standing())


def reward_range(selector: Selector) -> tuple[float, float]:
    return traits_of(selector).reward_range or (0.0, 1.0)


def excluded(selector: Selector) -> tuple[int, ...]:
    return traits_of(selector).excluded


def open_round(subject: Subject, selector: Selector, t: int) -> Choice:
    choice: Choice = selector.choose(generator(t, 3))
    observe(subject, selector, choice)
    return choice


def observe(subject: Subject, selector: Selector, choice: Choice) -> None:
    """Pass the proposals of the chosen learner, or of all active ones if the selector needs them."""
    asked = {choice.learner, *(selector.active if "actions" in needs_of(selector) else ())}
    limits = reward_range(selector)
    regret = subject.regret(limits, choice)
    proposals = {
        i: Proposal(subject.places[i] % 2, lower=subject.lower(limits, i), regret=regret, greedy=0)
        for i in sorted(asked)
    }
    selector.observe(choice, proposals)


def credit(subject: Subject, selector: Selector, choice: Choice) -> tuple[AnyElimination, ...]:
    eliminations = selector.credit(choice, subject.reward(reward_range(selector), choice))
    require(isinstance(eliminations, tuple), f"credit() returned {eliminations!r}, not a tuple of eliminations")
    return eliminations


def play(subject: Subject, selector: Selector, start: int = 0, stop: int = N_ROUNDS) -> list[Choice]:
    choices = []
    for t in range(start, stop):
        choices.append(open_round(subject, selector, t))
        credit(subject, selector, choices[-1])
    return choices


def pending_run(subject: Subject) -> Selector:
    """A selector in the middle of a run: some plays have no reward, though later ones do."""
    selector = subject.make()
    for t in range(N_ROUNDS):
        choice = open_round(subject, selector, t)
        if t % 10 or t < N_ROUNDS // 2:
            credit(subject, selector, choice)
    return selector


def finish(subject: Subject, selector: Selector) -> tuple[list[Choice], list[AnyElimination]]:
    """Play more rounds, whose rewards arrive two rounds late; returns choices and eliminations."""
    choices: list[Choice] = []
    eliminations: list[AnyElimination] = []
    for t in range(N_ROUNDS, 2 * N_ROUNDS):
        choices.append(open_round(subject, selector, t))
        if len(choices) > 2:
            eliminations += credit(subject, selector, choices[-3])
    return choices, eliminations


def as_text(rows: Iterable[Standing]) -> list[str]:
    """As text, so that nan equals nan."""
    return [str(row) for row in rows]


def same_number(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-12, abs_tol=1e-12) or (isnan(one) and isnan(other))


def require_sound_row(row: Standing, active: bool) -> None:
    require(0 <= row.pending <= row.plays, f"{row} has more pending plays than plays")
    require(row.active == active, f"{row} contradicts active")
    means = (row.mean_reward, row.mean_radius, row.mean_bound, row.mean_lower, row.mean_upper)
    if row.pending == row.plays:
        require(all(map(isnan, means)), f"{row} has means without a resolved play")
        return
    require(not isnan(row.mean_reward), f"{row} has resolved plays but no mean reward")
    lower, upper = row.mean_reward - row.mean_radius, row.mean_reward + row.mean_radius + row.mean_bound
    # A separate radius of one side may be narrower than `mean_radius`.
    valid = same_number(row.mean_lower, lower) or row.mean_lower > lower
    require(valid, f"{row} has a mean_lower below mean_reward - mean_radius")
    valid = same_number(row.mean_upper, upper) or row.mean_upper < upper
    require(valid, f"{row} has a mean_upper above the sum of its parts")


def require_sound_certificate(selector: Selector, certificate: Certificate, rounds: int, resolved: int) -> None:
    low, high = reward_range(selector)
    counts = certificate.rounds, certificate.resolved_rounds
    require(counts == (rounds, resolved), f"(rounds, resolved_rounds) are {counts}, not {(rounds, resolved)}")
    optimum = certificate.optimum_lower, certificate.optimum_upper
    require(all(low <= bound <= high for bound in optimum), f"the optimum lies in {optimum}, outside {(low, high)}")
    ordered = optimum[0] <= optimum[1] or not certificate.consistent
    require(ordered, f"the optimum lies in {optimum}, which is empty, but consistent is True")
    regrets = certificate.regret_lower, certificate.regret_upper
    possible = all(0.0 <= regret <= (high - low) * rounds * (1 + 1e-12) for regret in regrets)
    require(possible, f"the regret lies in {regrets}, but {rounds} rounds cannot have that regret")
    proved = certificate.learner_regret_lowers
    sound = len(proved) == n_learners(selector) and all(isfinite(regret) and regret >= 0.0 for regret in proved)
    require(sound, f"learner_regret_lowers is {proved}, not one number per learner, each at least 0")
    require(0.0 < certificate.delta < 1.0, f"delta is {certificate.delta}, not in (0, 1)")
    require(bool(certificate.describe()), "describe() of the certificate returns nothing")
