"""Checks of what a selector needs in a portfolio that stays up: availability, rounds without evidence, a changing pool.

A selector without the optional members that these checks call is not checked for them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from math import isclose
from typing import Any

from equipoise.bounds import Power
from equipoise.errors import EquipoiseError
from equipoise.selector import Selector
from equipoise.testing.checks import generator, require, require_error
from equipoise.testing.comparing import require_same_arrays
from equipoise.testing.simulated import (
    N_ROUNDS,
    Subject,
    credit,
    finish,
    n_learners,
    observe,
    open_round,
    play,
    reward_range,
    same_number,
    state_of,
)


def only_available_learners_are_chosen(subject: Subject) -> None:
    selector = subject.make()
    for t in range(N_ROUNDS):
        active = selector.active
        available = {i for i in range(n_learners(selector)) if generator(t, i, 5).random() < 0.5}
        if available.isdisjoint(active):
            before = state_of(selector)
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
        available = {i for i in everyone if t % 2 == 0 or generator(t, i, 6).random() < 0.7}
        if not available.isdisjoint(selector.active):
            given = available if t % 2 else None
            chances, before = selector.choice_probabilities(given), state_of(selector)
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


def rounds_without_evidence_prove_nothing(subject: Subject) -> None:
    selector = subject.make()
    play(subject, selector, 0, N_ROUNDS // 4)
    before, resolved = selector.standing(), selector.certificate().resolved_rounds
    for t in range(N_ROUNDS // 4, N_ROUNDS):
        choice = selector.choose(generator(t, 3))._replace(evidence=False)
        observe(subject, selector, choice)
        if t % 2:
            credit(subject, selector, choice)
    after, certificate = selector.standing(), selector.certificate()
    require(sum(row.plays for row in after) == N_ROUNDS, f"plays are {[row.plays for row in after]}, not {N_ROUNDS}")
    same = all(same_number(old.mean_reward, new.mean_reward) for old, new in zip(before, after, strict=True))
    require(same, "mean rewards changed by rounds without evidence")
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
    successor.restore(state_of(selector))
    require(finish(subject, successor) == finish(subject, selector), "the restored copy chose differently")
    require_same_arrays(state_of(selector), successor.state(), "of the restored copy with a window")


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
    before, n = state_of(selector), n_learners(selector)
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
    successor.restore(state_of(selector))
    require(finish(subject, successor) == finish(subject, selector), "the restored copy chose differently")


def takes_available(selector: Selector) -> bool:
    return "available" in inspect.signature(selector.choose).parameters


def has(name: str) -> Callable[[Selector], bool]:
    """The condition that a selector has an optional method."""
    return lambda selector: callable(getattr(selector, name, None))


LIVE_CHECKS: dict[Callable[[Subject], None], Callable[[Selector], bool]] = {
    only_available_learners_are_chosen: takes_available,
    its_choice_probabilities_are_those_of_its_choices: has("choice_probabilities"),
    rounds_without_evidence_prove_nothing: has("configure"),
    a_window_of_evidence_survives_saving: has("configure"),
    learners_come_and_go_or_are_refused_with_a_reason: has("add_learner"),
}
