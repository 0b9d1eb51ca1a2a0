"""Checks that every selector must pass, yours included, with the simulated learners of `equipoise.testing.simulated`.

>>> from equipoise.bounds import Power
>>> from equipoise.selectors import BalancedElimination
>>> len(check_selector(lambda: BalancedElimination([Power(0.1), Power(0.2), Power(0.4)]))) == len(CHECKS)
True
"""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from math import inf, nan

import numpy as np

from equipoise.certificates import AnyElimination
from equipoise.compatibility import NEEDS
from equipoise.errors import EquipoiseError
from equipoise.selector import Selector, traits_of
from equipoise.testing.checks import ERRORS, always, generator, require, require_error, run_checks, size_in_bytes
from equipoise.testing.comparing import require_plain, require_same_arrays
from equipoise.testing.live import LIVE_CHECKS
from equipoise.testing.simulated import (
    N_ROUNDS,
    Subject,
    as_text,
    credit,
    excluded,
    finish,
    n_learners,
    observe,
    open_round,
    pending_run,
    play,
    require_sound_certificate,
    require_sound_row,
    reward_range,
    same_number,
    state_of,
)

N_ROUNDS_FOR_MEMORY, N_PENDING = 400, 30
ABSURD = (nan, inf, -inf, 1e155, None, "1")


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
    return run_checks(CHECKS, Subject(factory, tuple(range(1000))), factory)


def declares_only_known_needs(subject: Subject) -> None:
    needs = set(subject.make().needs)
    require(needs <= NEEDS.keys(), f"needs is {sorted(needs)}, but only {sorted(NEEDS)} have a meaning")


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
    before = state_of(selector)
    invalid = {"credited": credited, "withdrawn": withdrawn, "never opened": credited._replace(play=10**6)}
    for what, choice in [*invalid.items(), ("of no learner", credited._replace(learner=10**6))]:
        require_error(partial(selector.credit, choice, reward_range(selector)[0]), f"the reward of a play {what}")
        require_error(partial(selector.withdraw, choice), f"withdrawing a play {what}")
    require_same_arrays(before, selector.state(), "after refusing tickets")


def bad_rewards_are_refused_and_change_nothing(subject: Subject) -> None:
    selector = subject.make()
    play(subject, selector)
    choice = open_round(subject, selector, N_ROUNDS)
    before = state_of(selector)
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
    before = state_of(selector)
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
    require_plain(state)
    snapshot = state_of(selector)
    handed_over = {name: array.copy() for name, array in state.items()}
    successor.restore(handed_over)
    for array in handed_over.values():
        array[...] = 0
    require_same_arrays(snapshot, successor.state(), "of the restored copy")
    later = finish(subject, selector)
    require_same_arrays(snapshot, state, "of an earlier moment, while the selector went on,")
    require(finish(subject, successor) == later, "the selector and its restored copy chose or eliminated differently")
    require_same_arrays(state_of(selector), successor.state(), "of the restored copy at the end")


def a_deep_copy_is_independent_and_goes_on_identically(subject: Subject) -> None:
    selector = pending_run(subject)
    snapshot, copy = state_of(selector), deepcopy(selector)
    later = finish(subject, copy)
    require_same_arrays(snapshot, selector.state(), "while its deep copy went on")
    require(finish(subject, selector) == later, "the selector and its deep copy chose or eliminated differently")
    require_same_arrays(state_of(selector), copy.state(), "of the deep copy at the end")


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
    require_same_arrays(state_of(selector), successor.state(), "after replaying the choices of another one")
    require(
        finish(subject, successor) == finish(subject, selector), "after a replay it chose or eliminated differently"
    )


def states_that_do_not_fit_are_refused_and_change_nothing(subject: Subject) -> None:
    selector = pending_run(subject)
    state = state_of(selector)
    other = subject.make()
    play(subject, other)
    before = state_of(other)
    for name, array in state.items():
        rest = {key: value for key, value in state.items() if key != name}
        require_error(partial(other.restore, rest), f"a state without {name!r}")
        misfit = {**state, name: np.zeros((*array.shape, 2), array.dtype)}
        require_error(partial(other.restore, misfit), f"a state whose {name!r} has another shape")
        require_same_arrays(before, other.state(), f"after refusing states without {name!r} or of another shape")


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
    before, standing = state_of(unused), as_text(unused.standing())
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
    config = selector.config()
    require(json.loads(json.dumps(config)) == config, f"config() is {config}, not plain data")
    rebuilt = type(selector).from_config(config)
    require(rebuilt.config() == config, f"config() is {config}, but {rebuilt.config()} once rebuilt from it")
    require(play(subject, selector) == play(subject, rebuilt), "the selector and one rebuilt from its config() differ")
    require_same_arrays(state_of(selector), rebuilt.state(), "of a selector rebuilt from config()")


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
    play(subject, selector, 0, N_ROUNDS_FOR_MEMORY)
    before = size_in_bytes(selector)
    play(subject, selector, N_ROUNDS_FOR_MEMORY, 2 * N_ROUNDS_FOR_MEMORY)
    growth = (size_in_bytes(selector) - before) / N_ROUNDS_FOR_MEMORY
    require(growth < 1.0, f"it grew by {growth:.1f} bytes per round")


def can_be_rebuilt(selector: Selector) -> bool:
    """False if a setting is a function."""
    try:
        type(selector).from_config(selector.config())
    except ERRORS:
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
    replaying_its_choices_gives_the_same_state: always,
    standing_is_complete: always,
    the_certificate_is_well_formed_or_refused_with_a_reason: always,
    config_rebuilds_an_equal_selector: can_be_rebuilt,
    reordering_learners_changes_no_more_than_how_ties_break: can_be_rebuilt_in_another_order,
    memory_does_not_grow_with_resolved_rounds: always,
    **LIVE_CHECKS,
}
