"""Base class of learners that other libraries compute: checks, random numbers, copies and state.

Libraries have settings in the unit of rewards that they expect: step sizes, penalties, widths. A learner therefore
gives them rewards as shares of the reward range, scaled to that unit, and decides alike in any unit of the caller.

Such a learner cannot be copied by copying its memory, which lies in the library. Copies and pickles are made from its
settings and its state, and are therefore exact where the state is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Self

import numpy as np

from equipoise.features import Default, FeatureMap, Schema
from equipoise.kernels.records import check_layout
from equipoise.kernels.streams import LEARNERS, generator_at
from equipoise.learner import Proposal
from equipoise.learners._core.base import check_update, name_setting, seed_setting
from equipoise.learners._core.rows import Choices, RowReader, adopt, features_in, features_setting, resolved_dim
from equipoise.settings import Configured, configurable
from equipoise.settings.units import Units, rewards_setting, units_columns
from equipoise.types import Action, AnyArray, Array, Context, State


@configurable
class OutsideLearner(Configured, Units):
    """A learner of another library, with a random stream of its own for decisions without a generator."""

    reward_range: tuple[float, float] = rewards_setting()
    name: str = name_setting()
    seed: int = seed_setting()

    accepts: ClassVar[frozenset[str]] = frozenset()
    provides: ClassVar[frozenset[str]] = frozenset()
    randomized: ClassVar[bool] = True

    def _set_up(self) -> None:
        self._fill_in_units()
        super()._set_up()
        self._n_draws = 0  # generators taken from the learner's own random stream

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose an action. Changes nothing, except the learner's own random stream if no `rng` is given."""
        checked = self.check_context(context)
        if rng is None:
            rng = generator_at(self.seed, LEARNERS, self._n_draws)
            self._n_draws += 1
        return self._propose(checked, rng)

    def _propose(self, context: Any, rng: np.random.Generator) -> Proposal:
        raise NotImplementedError  # abstract

    def check_context(self, context: Context) -> Any:
        """Return the context in the form that the learner uses; raise an error if it cannot use it."""
        raise NotImplementedError  # abstract

    def check_reward(self, reward: float, weight: float) -> float:
        return check_update(self, reward, weight)

    def share(self, reward: float) -> float:
        """The reward as a share of the reward range: 0 at its low end, 1 at its high end."""
        low, high = self.reward_range
        return (reward - low) / (high - low)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        raise NotImplementedError  # abstract

    def state(self) -> State:
        """The learned state as a dictionary of arrays."""
        return {"n_draws": np.array([self._n_draws]), **self._learned(), **units_columns(self._adopted)}

    def restore(self, state: State) -> None:
        """Restore a state returned by `state`. Any other state raises an error and changes nothing."""
        learner = self._in_units_of(state)
        own = learner.state()
        check_layout(state, own, self.name, [name for name, array in own.items() if is_bytes(array)])
        if learner is not self:
            vars(self).update(vars(learner))
        self._set_learned({name: state[name] for name in own if name in self._learned()})
        self._n_draws = int(state["n_draws"][0])

    def _learned(self) -> State:
        raise NotImplementedError  # abstract

    def _set_learned(self, learned: State) -> None:
        raise NotImplementedError  # abstract

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        copy = self.clone()
        copy.restore(self.state())
        return copy

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return _rebuild, (type(self), self.config(), self.state())


def _rebuild(cls: type[OutsideLearner], config: dict[str, Any], state: State) -> OutsideLearner:
    learner = cls.from_config(config)
    learner.restore(state)
    return learner


@configurable
class OffersLearner(OutsideLearner):
    """A learner whose contexts are offers: it sees the first columns of each, or the features of a map.

    A subclass says how many features it has by `_n_features`, which is None if its settings do not say, and computes
    among the rows of the offers that the learner takes.
    """

    features: FeatureMap | None = features_setting(added=True)

    def _set_up(self) -> None:
        super()._set_up()
        dim = resolved_dim(self._n_features(), self.features)
        self._dim = 1 if dim is None else dim  # a schema tells before it is asked, or it says so
        self._reader = RowReader(self.name, self._dim, self.features, complete=dim is not None)

    def _n_features(self) -> int | None:
        raise NotImplementedError  # abstract

    def adopt_schema(self, schema: Schema | None, action_names: Sequence[str] | None) -> None:
        """Take features from the schema of a portfolio, if they are not stated."""
        if schema is None:
            self._reader.check_complete()
        elif not self._reader.complete or isinstance(self.features, Default):
            adopt(self, {"features": features_in(schema, self.features, lambda: schema.default_map(action_names))})

    @property
    def n_columns(self) -> int | None:
        """Number of leading columns of the offers that the learner uses; None if it may use all of them."""
        return self._reader.n_columns

    def check_context(self, context: Context) -> Choices:
        return self._reader.read(context)

    def pmf(self, context: Context) -> Array:
        """The probability of every offered action; sums to 1."""
        choices = self.check_context(context)
        return choices.spread(self._pmf(choices.rows))

    def _propose(self, context: Choices, rng: np.random.Generator) -> Proposal:
        return context.among_all(self._propose_row(context.rows, rng))

    def _pmf(self, rows: Array) -> Array:
        """The probabilities of rows."""
        raise NotImplementedError  # abstract

    def _propose_row(self, rows: Array, rng: np.random.Generator) -> Proposal:
        """A proposal among rows."""
        raise NotImplementedError  # abstract


def draw(probabilities: list[float], greedy: int, number: float) -> int:
    """The action of a uniform number in [0, 1); the greedy one for what rounding leaves over.

    >>> [draw([0.25, 0.0, 0.75], 2, number) for number in (0.0, 0.24, 0.25, 0.99)]
    [0, 0, 2, 2]
    """
    action = bisect_right(list(accumulate(probabilities)), number)
    return action if action < len(probabilities) else greedy


def as_array(data: bytes) -> AnyArray:
    """Bytes as an array, the form in which a state holds them."""
    return np.frombuffer(data, np.uint8).copy()


def is_bytes(array: AnyArray) -> bool:
    return array.dtype == np.uint8 and array.ndim == 1
