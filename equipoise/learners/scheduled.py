"""Scheduled: a learner whose regret is known exactly in advance, for tests of the guarantees of selectors.

The best action must always be offered first and one that is worse by `gap` second, as `GapBandit` does. The learner
plays the worse one whenever that keeps its regret within f(n), a function of its number of plays n, and the best one
otherwise. So after n plays its regret is gap floor(f(n)/gap), if f grows by at most `gap` per play, whatever the
rewards: nothing is learned and nothing is random.

Symbols: f is c n^s ("power"), c sqrt(n ln_+(n/s)) ("sqrt-log") or c sqrt(n) + s n ("linear-sqrt"), c `coefficient` and
s `shape`, as in `equipoise.bounds`.
"""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound, LinearSqrt, Power, SqrtLog, bound_code, closed_form
from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.finite import FeaturelessLearner
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, one_of, positive, real
from equipoise.types import Array, Integers

FAMILIES = ("power", "sqrt-log", "linear-sqrt")


class Params(NamedTuple):
    kind: int
    coefficient: float
    shape: float
    gap: float


class Memory(NamedTuple):
    plays: Integers  # one cell each
    losses: Integers  # plays that cost `gap`


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    allowed = closed_form(params.kind, params.coefficient, params.shape, memory.plays[0] + 1)
    if params.gap * (memory.losses[0] + 1) <= allowed:
        return Proposal(1, -inf, params.gap, 1.0, 0, nan)
    return Proposal(0, -inf, 0.0, 1.0, 0, nan)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    memory.plays[0] += 1
    if action != 0:
        memory.losses[0] += 1


@configurable
class Scheduled(FeaturelessLearner[Params, Memory]):
    """A learner with a regret that is fixed in advance, for tests of selectors.

    A context is a K x d matrix of K >= 2 actions, `Offers` of as many, or anything else. Each proposal states the
    regret of the play, so the bound `Observed()` is true and tight.

    Examples
    --------
    >>> learner = Scheduled("power", 1.0, 0.5, gap=0.4)
    >>> [round(learner.regret(n), 1) for n in (1, 4, 100)]
    [0.4, 1.6, 10.0]
    """

    family: str = setting(
        'Family of f: "power", "sqrt-log" or "linear-sqrt".', partial(one_of, options=FAMILIES), kw_only=False
    )
    coefficient: float = setting("Coefficient c of f, positive.", positive, kw_only=False)
    shape: float = setting("Second parameter s of f: exponent, delta or slope.", real, kw_only=False)
    gap: float = setting("Regret of a play of the second action, positive.", positive, default=0.4)

    provides = frozenset({"regret", "greedy", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params = Params(*bound_code(self.bound()), self.gap)
        self.memory = Memory(np.zeros(1, np.int64), np.zeros(1, np.int64))
        self._all_actions = np.empty((2, 0))

    def default_name(self) -> str:
        return f"Scheduled({self.family}, {self.coefficient:g}, {self.shape:.3g})"

    def bound(self, scale: float = 1.0) -> Bound:
        """f as a candidate bound: true for any width of at least `gap`, and false if `scale` is below 1."""
        match self.family:
            case "power":
                return Power(scale * self.coefficient, self.shape)
            case "sqrt-log":
                return SqrtLog(scale * self.coefficient, self.shape)
            case _:
                return LinearSqrt(scale * self.shape, scale * self.coefficient)

    def regret(self, plays: int) -> float:
        """The regret after `plays` plays, alone on a problem as described in the module docstring."""
        kind, coefficient, shape, _ = self.params
        losses = 0
        for n in range(1, count("plays", plays, minimum=0) + 1):
            losses += self.gap * (losses + 1) <= closed_form(kind, coefficient, shape, n)
        return self.gap * losses

    def check_offers(self, offers: Offers) -> None:
        super().check_offers(offers)
        if offers.mask is not None:
            raise InvalidArgument(f"context has a mask, but must have none for {self.name}, which needs both actions")

    def check_n_actions(self, n_actions: int) -> None:
        if n_actions < 2:
            raise InvalidArgument(f"context has {n_actions} rows, but must have at least 2")
