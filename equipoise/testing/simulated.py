"""Simulated learners for the checks of selectors, and checks of standings and certificates.

The rewards and regrets of learner i depend only on i and on the number of its play. Learners with even numbers are far
better than those with odd numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isclose, isfinite, isnan
from typing import NamedTuple

import numpy as np

from equipoise.certificates import AnyElimination, Certificate, Standing
from equipoise.learner import Proposal
from equipoise.selector import Choice, Selector, traits_of
from equipoise.testing.checks import generator, require
from equipoise.types import State

N_ROUNDS = 200


class Subject(NamedTuple):
    """What is checked: a factory of equal selectors, and the simulated learner at each index."""

    make: Callable[[], Selector]
    places: tuple[int, ...]

    def reward(self, selector: Selector, choice: Choice) -> float:
        low, high = reward_range(selector)
        more = 0.2 * float(generator(self.places[choice.learner], choice.play, 0).random())
        return self.lower(selector, choice.learner) + (high - low) * more

    def lower(self, selector: Selector, learner: int) -> float:
        """A lower bound on every reward of the learner."""
        low, high = reward_range(selector)
        return low + (high - low) * (0.8 if self.places[learner] % 2 == 0 else 0.0)

    def regret(self, selector: Selector, choice: Choice) -> float:
        low, high = reward_range(selector)
        return (high - low) * 0.1 * float(generator(self.places[choice.learner], choice.play, 1).random())


def n_learners(selector: Selector) -> int:
    return len(selector.standing())


def reward_range(selector: Selector) -> tuple[float, float]:
    return traits_of(selector).reward_range or (0.0, 1.0)


def excluded(selector: Selector) -> tuple[int, ...]:
    """The learners that the selector never plays."""
    return traits_of(selector).excluded


def open_round(subject: Subject, selector: Selector, t: int) -> Choice:
    choice: Choice = selector.choose(generator(t, 3))
    observe(subject, selector, choice)
    return choice


def observe(subject: Subject, selector: Selector, choice: Choice) -> None:
    """Pass the proposals of the chosen learner, or of all active ones if the selector needs them."""
    asked = {choice.learner, *(selector.active if "actions" in selector.needs else ())}
    regret = subject.regret(selector, choice)
    proposals = {
        i: Proposal(subject.places[i] % 2, lower=subject.lower(selector, i), regret=regret, greedy=0)
        for i in sorted(asked)
    }
    selector.observe(choice, proposals)


def credit(subject: Subject, selector: Selector, choice: Choice) -> tuple[AnyElimination, ...]:
    eliminations = selector.credit(choice, subject.reward(selector, choice))
    require(isinstance(eliminations, tuple), f"credit() returned {eliminations!r}, not a tuple of eliminations")
    return eliminations


def play(subject: Subject, selector: Selector, start: int = 0, stop: int = N_ROUNDS) -> list[Choice]:
    """Play rounds whose rewards arrive at once."""
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


def state_of(selector: Selector) -> State:
    return {name: np.array(array) for name, array in selector.state().items()}


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
