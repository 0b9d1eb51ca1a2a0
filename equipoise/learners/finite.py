"""What the learners of finitely many arms have in common: which arms are offered, and how often each was played."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.learners.base import KernelLearner, as_matrix, check_entries
from equipoise.validation import count


class FiniteLearner(KernelLearner):
    """One estimate per arm.

    A context is None, which offers all arms, or a K x d matrix, whose rows stand for the first K arms; K may change
    every round, and the columns are ignored.
    """

    def __init__(self, arms: int, *, default_name: str, name: str | None, seed: int = 0) -> None:
        self.arms = count("arms", arms, most=1_000_000)
        self._all_arms = np.empty((self.arms, 0))
        super().__init__(default_name=default_name, name=name, seed=seed)

    def check_context(self, context: Any) -> NDArray[np.float64]:
        if context is None:
            return self._all_arms
        actions = as_matrix(context)
        if len(actions) > self.arms:
            raise InvalidArgument(f"context has {len(actions)} rows, but must have at most arms = {self.arms}")
        check_entries(actions)
        return actions
