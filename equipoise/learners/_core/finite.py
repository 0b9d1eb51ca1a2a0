"""Base classes of learners that ignore features: with any number of actions, and with one estimate per arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.features.offers import as_matrix, check_entries
from equipoise.kernels.marks import kernel
from equipoise.learners._core.arms import Arms, block_of, window_setting
from equipoise.learners._core.ball import Ball
from equipoise.learners._core.base import KernelLearner, MemoryT, ParamsT
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.settings.sizes import check_array
from equipoise.types import Action, Array, Context, Integers

AnyMemory = TypeVar("AnyMemory")


class FeaturelessLearner(KernelLearner[ParamsT, MemoryT]):
    """A learner that uses only the number of offered actions.

    A context is a matrix with one offered action per row or `Offers`; features are ignored. Any other context (None, a
    dictionary, an object) offers `_all_actions`.
    """

    ignores_contexts = True  # its rounds are a fair sample only if they are not selected by their contexts
    _all_actions: Array

    @property
    def n_columns(self) -> int:
        return 0

    def check_context(self, context: Context) -> Array:
        if isinstance(context, Offers):
            self.check_offers(context)
        return offered_rows(context, self.check_n_actions, self._all_actions)

    def check_offers(self, offers: Offers) -> None:
        """Raise an error if the learner cannot use these offers."""
        self.check_n_actions(len(offers))

    def check_n_actions(self, n_actions: int) -> None:
        """Raise an error if the learner cannot use this number of actions."""
        raise NotImplementedError  # abstract


def offered_rows(context: Context, check_n_actions: Callable[[int], None], all_actions: Array) -> Array:
    """The offered actions of a matrix or of `Offers`; `all_actions` for any other context (None, a dictionary, ...)."""
    if isinstance(context, Offers):
        return context.offered_actions
    if isinstance(context, Ball):
        raise InvalidArgument(f"context is {context}, but must offer finitely many actions")
    if not _is_array(context):
        return all_actions
    actions = as_matrix(context)
    check_n_actions(len(actions))
    check_entries(actions)
    return actions


def _is_array(context: Context) -> bool:
    return isinstance(context, np.ndarray | list | tuple) or (
        hasattr(context, "__array__") and not isinstance(context, np.generic)
    )


@configurable
class FiniteLearner(KernelLearner[ParamsT, MemoryT]):
    """A learner with one estimate per arm.

    Row k of a context is arm k, of at most `arms`; the arms of `Offers` with ids are addressed by id, and there may be
    any number of them. A context that is neither a matrix nor `Offers` offers all arms.
    """

    arms: int = setting(
        "Number of arms; with ids, the number that is expected in total.",
        partial(count, maximum=1_000_000),
        kw_only=False,
    )

    window: int = window_setting()

    ignores_contexts = True  # as in `FeaturelessLearner`
    _arms: Arms[Any] = field(init=False)

    def _set_up(self) -> None:
        super()._set_up()
        check_array(f"arms = {self.arms}", self.arms)
        self._all_actions = np.empty((self.arms, 0))
        self.memory = self.new_memory(self.arms)
        self._arms = Arms(self.new_memory(1), self.window)

    @property
    def n_columns(self) -> int:
        return 0

    def new_memory(self, n_arms: int) -> Any:
        """The memory of arms about which nothing is known."""
        raise NotImplementedError  # abstract

    def params_of(self, block: int) -> ParamsT:
        """The parameters of a new arm in a block of `arms`; see `equipoise.learners._core.arms`."""
        return self.params

    def check_context(self, context: Context) -> Array:
        by_id = isinstance(context, Offers) and context.ids is not None
        if not by_id and self._arms.n_new > 0:
            raise InvalidArgument(f"context has no ids, but {self.name} has learned arms by id")
        if by_id and self._arms.n_new == 0 and self.memory.plays.any():  # type: ignore[attr-defined]
            raise InvalidArgument(f"context has ids, but {self.name} has learned arms by row")
        if isinstance(context, Offers) and not by_id:
            self._check_n_actions(len(context))
        return offered_rows(context, self._check_n_actions, self._all_actions)

    def _check_n_actions(self, n_actions: int) -> None:
        if n_actions > self.arms:
            raise InvalidArgument(f"context has {n_actions} rows, but must have at most arms = {self.arms}")

    def memory_for(self, context: Context) -> MemoryT:
        if not isinstance(context, Offers) or (context.ids is None and context.mask is None):
            return self.memory
        if context.ids is None:
            return _gather(self.memory, context.offered)
        return _gather(cast(MemoryT, self._arms.memory), self._arms.find(context.offered_ids))

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        if not isinstance(context, Offers):
            super().learn(context, action, reward, weight)
            return
        actions, position = self.check_offered(context, action)
        number = self.check_reward(reward, weight)
        if context.ids is None:
            row = int(context.offered[position])
            self.kernels.learn(self.params, self.memory, actions, row, number, float(weight))
        elif weight > 0.0:
            self._arms.see(context.offered_ids)
            row = self._arms.open(context.offered_ids[position])
            params = self.params_of(block_of(int(self._arms.orders[row]), self.arms))
            self.kernels.learn(params, self._arms.memory, actions, row, number, float(weight))


@kernel
def count_play(memory: Any, action: int, reward: float, weight: float) -> float:
    """Add a play of an arm to its sums; return its mean reward, weighted."""
    weight_sum = float(memory.weight_sums[action]) + weight
    reward_sum = float(memory.reward_sums[action]) + weight * reward
    memory.plays[action] += 1
    memory.weight_sums[action], memory.reward_sums[action] = weight_sum, reward_sum
    return reward_sum / weight_sum


def _gather(memory: AnyMemory, rows: Integers) -> AnyMemory:
    """The rows of every array of a memory."""
    arrays: Any = memory
    return type(memory)(*(array[rows] for array in arrays))
