"""A learner and its copy in another unit of rewards: a r + b instead of r, with the range mapped alike."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import pytest

from equipoise.learner import Proposal
from equipoise.learners import Ball
from equipoise.testing.learners import ContextSource


class Unit(NamedTuple):
    """The change of unit r -> factor * r + shift."""

    factor: float
    shift: float

    def of(self, reward: float) -> float:
        return self.factor * reward + self.shift


# The cases of the guide on rewards, a symmetric range, and units with a large offset.
UNITS = (Unit(120.0, 0.0), Unit(120.0, 100.0), Unit(0.01, 0.0), Unit(2.0, -1.0), Unit(0.37, -41.3), Unit(3e3, 2e5))


def in_unit(make: Callable[..., Any], unit: Unit, in_units_of_rewards: tuple[str, ...] = ()) -> tuple[Any, Any]:
    """Return a learner, and one whose range and other settings in units of rewards are stated in another unit."""
    plain = make()
    low, high = getattr(plain, "reward_range", (0.0, 1.0))
    mapped = unit.of(low), unit.of(high)
    stated = {name: unit.factor * plain.config()[name] for name in in_units_of_rewards if plain.config().get(name)}
    if plain.config().get("reward_range"):
        return plain, make(reward_range=mapped, **stated)
    other = make(**stated)
    if hasattr(other, "configure"):
        other.configure(reward_range=mapped)
    return plain, other


def differences(
    plain: Any, other: Any, unit: Unit, contexts: ContextSource, *, rounds: int = 60, rtol: float = 1e-6
) -> list[str]:
    """Return what the two do differently in `rounds` rounds: actions, probabilities, and statements in their units."""
    rng, found = np.random.default_rng(17), list[str]()
    low, high = getattr(plain, "reward_range", (0.0, 1.0))
    close: Callable[[Any, Any], bool] = lambda one, two: two == pytest.approx(one, rel=rtol, abs=rtol, nan_ok=True)  # noqa: E731
    for t in range(rounds):
        context = contexts(rng)
        one, two = (learner.decide(context, np.random.default_rng([3, t])) for learner in (plain, other))
        exact = not isinstance(context, Ball)
        if not (one.action == two.action if exact else close(one.action, two.action)):
            found.append(f"round {t}: action {one.action!r} is {two.action!r}")
            break
        if exact and one.greedy != two.greedy:
            found.append(f"round {t}: greedy {one.greedy!r} is {two.greedy!r}")
        found += [f"round {t}: {words}" for words in _statements(one, two, unit, close)]
        if exact and "pmf" in plain.provides and not close(plain.pmf(context), other.pmf(context)):
            found.append(f"round {t}: pmf {plain.pmf(context)} is {other.pmf(context)}")
        _learn((plain, other), context, one, low + (high - low) * float(rng.random()), unit, t, rng)
    return found


def _statements(one: Proposal, two: Proposal, unit: Unit, close: Callable[[Any, Any], bool]) -> list[str]:
    """What differs in the numbers of two proposals, all in the unit of the first."""
    found = []
    for name in ("lower", "value", "regret"):
        first, second = float(getattr(one, name)), float(getattr(two, name))
        back = second / unit.factor if name == "regret" else (second - unit.shift) / unit.factor
        if not (close(first, back) if isfinite(first) else close(first, second)):
            found.append(f"{name} {first} is {back}")
    if not close(one.probability, two.probability):
        found.append(f"probability {one.probability} is {two.probability}")
    return found


def _learn(
    learners: tuple[Any, Any], context: Any, proposal: Proposal, reward: float, unit: Unit, t: int, rng: Any
) -> None:
    """Teach both the same round: mostly the proposed action, and where accepted others, with weights."""
    accepts, action, more = learners[0].accepts, proposal.action, dict[str, Any]()
    if "off_policy" in accepts and t % 3 == 2 and isinstance(context, np.ndarray) and context.ndim == 2:
        action = int(rng.integers(len(context)))
        more = {"probability": 0.25} if "probability" in accepts else {}
    if "weight" in accepts and t % 4 == 1:
        more["weight"] = 2.5
    for learner, number in zip(learners, (reward, unit.of(reward)), strict=True):
        learner.learn(context, action, number, **more)
