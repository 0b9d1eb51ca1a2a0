"""Constant: always the same action. It learns nothing; a portfolio holds it as a fixed rule to beat, or as the rule
that is in use today."""

from __future__ import annotations

from math import inf, nan
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.learner import Proposal
from equipoise.learners.base import KernelLearner, Kernels, as_matrix, check_entries
from equipoise.validation import count

MOST_ACTIONS = 2**31


class Params(NamedTuple):
    action: int


class Memory(NamedTuple):
    """Nothing is remembered."""


@kernel
def decide(
    params: Params, memory: Memory, actions: NDArray[np.float64], rng: np.random.Generator
) -> Proposal:
    return Proposal(params.action, -inf, nan, 1.0, params.action, nan)


@kernel
def learn(
    params: Params, memory: Memory, actions: NDArray[np.float64], action: int, reward: float, weight: float
) -> None:
    return


class Constant(KernelLearner):
    """Plays action number `action` of whatever is offered.

    A context is None, which offers every action, or a K x d matrix of K > action offered actions.
    """

    accepts = frozenset({"off_policy", "weight"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def __init__(self, action: int, *, name: str | None = None) -> None:
        self.action = count("action", action, least=0, most=MOST_ACTIONS - 1)
        self.params, self.memory = Params(self.action), Memory()
        self._all_actions = np.empty((MOST_ACTIONS, 0))  # without columns it takes no room
        super().__init__(default_name=f"Constant({self.action})", name=name)

    def check_context(self, context: Any) -> NDArray[np.float64]:
        if context is None:
            return self._all_actions
        actions = as_matrix(context)
        if len(actions) <= self.action:
            raise InvalidArgument(f"context has {len(actions)} rows, but must have more than action = {self.action}")
        check_entries(actions)
        return actions
