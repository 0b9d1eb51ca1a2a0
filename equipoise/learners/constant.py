"""Constant: always plays the same action, as a baseline in a portfolio or as the rule in use today."""

from __future__ import annotations

from functools import partial
from math import inf, nan
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal, one_hot
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.finite import FeaturelessLearner
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Array, Context

MAX_ACTIONS = 2**31


class Params(NamedTuple):
    action: int


class Memory(NamedTuple):
    """Empty: nothing is learned."""


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator | None) -> Proposal:
    return Proposal(params.action, -inf, nan, 1.0, params.action, nan)


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    return


@configurable
class Constant(FeaturelessLearner[Params, Memory]):
    """Always plays the same action and learns nothing.

    A context is a K x d matrix with more than `action` rows, `Offers` that include the action, or anything else.

    Examples
    --------
    >>> Constant(2).decide(None).action
    2
    """

    action: int = setting(
        "Index of the action to play, from 0.", partial(count, minimum=0, maximum=MAX_ACTIONS - 1), kw_only=False
    )

    learns = False
    accepts = frozenset({"off_policy", "weight"})
    provides = frozenset({"greedy", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        self.params, self.memory = Params(self.action), Memory()
        self._all_actions = np.empty((MAX_ACTIONS, 0))  # without columns it takes no memory

    def default_name(self) -> str:
        return f"Constant({self.action})"

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the action, whatever the context."""
        self.check_context(context)
        return decide(self.params, self.memory, self._all_actions, None)

    def pmf(self, context: Context) -> Array:
        """1 for the action and 0 for the others. If the number of offers is unknown, the action has the last entry."""
        actions = self.check_context(context)
        n_actions = len(context) if isinstance(context, Offers) else len(actions)
        return one_hot(self.action, self.action + 1 if actions is self._all_actions else n_actions)

    def check_offers(self, offers: Offers) -> None:
        super().check_offers(offers)
        offers.position(self.action)

    def check_n_actions(self, n_actions: int) -> None:
        if n_actions <= self.action:
            raise InvalidArgument(f"context has {n_actions} rows, but must have more than action = {self.action}")
