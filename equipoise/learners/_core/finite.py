"""Base classes of learners that ignore features, and of learners with finitely many arms."""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.learners._core.base import KernelLearner, MemoryT, ParamsT, as_matrix, check_entries
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Array, Context


class FeaturelessLearner(KernelLearner[ParamsT, MemoryT]):
    """A learner that uses only the number of offered actions.

    A context is None, which offers `_all_actions`, or a matrix with one offered action per row; its columns are
    ignored.
    """

    ignores_contexts = True  # its rounds are a fair sample only if they are not selected by their contexts
    _all_actions: Array

    @property
    def n_columns(self) -> int:
        return 0

    def check_context(self, context: Context) -> Array:
        if context is None:
            return self._all_actions
        actions = as_matrix(context)
        self.check_n_actions(len(actions))
        check_entries(actions)
        return actions

    def check_n_actions(self, n_actions: int) -> None:
        """Raise an error if the learner cannot use this number of actions."""
        raise NotImplementedError  # abstract


@configurable
class FiniteLearner(FeaturelessLearner[ParamsT, MemoryT]):
    """A learner with one estimate per arm.

    A context is None, which offers all arms, or a K x d matrix, whose rows stand for the first K arms; K may change
    from round to round, and the columns are ignored.
    """

    arms: int = setting(check=partial(count, most=1_000_000), kw_only=False)

    def _set_up(self) -> None:
        super()._set_up()
        self._all_actions = np.empty((self.arms, 0))

    def check_n_actions(self, n_actions: int) -> None:
        if n_actions > self.arms:
            raise InvalidArgument(f"context has {n_actions} rows, but must have at most arms = {self.arms}")
