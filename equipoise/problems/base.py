"""Base class of problems made of kernels: reward noise, and the problem contract in terms of two kernels.

A kernel problem has K actions per round. `draw` returns the offered actions and their expected rewards, `reward` draws
a reward given its expectation. Regret is computed from the expected rewards, so it does not depend on the noise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidArgument
from equipoise.features import offers
from equipoise.kernels.marks import kernel
from equipoise.settings import Configured, configurable, setting
from equipoise.settings.checks import LARGEST, count, one_of, positive
from equipoise.types import Action, Array, Context, Integers

ParamsT = TypeVar("ParamsT", covariant=True)
NOISES = ("bernoulli", "uniform", "gaussian", "pareto")
BERNOULLI, UNIFORM, GAUSSIAN, PARETO = 0, 1, 2, 3
ROUNDING_TOLERANCE = 1e-9  # by which expected rewards may exceed [0, 1]


@kernel
def skip_record(params: object, learner: int, action: int, reward: float) -> None:
    """Record nothing: the problem does not depend on earlier plays."""


@kernel
def skip_completion(params: object, workspace: object, action: int) -> None:
    """Draw nothing: `draw` draws all columns."""


class Kernels(NamedTuple):
    draw: Callable[..., tuple[Array, Array]]  # (params, workspace, generator) -> actions, their expected rewards
    reward: Callable[..., float]  # (noise, mean, generator)
    record: Callable[..., None] = skip_record  # (params, learner, action, reward): end of a round
    complete: Callable[..., None] = skip_completion  # (params, workspace, action): draw the action's omitted columns


class Workspace(NamedTuple):
    """Preallocated arrays for `draw`, so that a round allocates nothing."""

    actions: Array  # (K, columns)
    means: Array  # (K,)
    numbers: Array  # (K, all columns - 1) for random numbers
    seeds: NDArray[np.uint64]  # (3,) of the streams of the rows of numbers
    n_columns: Integers  # (1,) number of columns needed in this round


class Noise(NamedTuple):
    kind: int
    scale: float


@kernel
def reward(noise: Noise, mean: float, rng: np.random.Generator) -> float:
    """Draw a reward with expectation `mean` in [0, 1]; all but Gaussian rewards lie in [0, 1].

    Pareto: min(1, s X) with P(X > x) = 1/x^2 for x >= 1, of infinite variance. Its expectation is 1 - (1 - s)^2.
    """
    if noise.kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    if noise.kind == UNIFORM:
        mean = min(max(mean, 0.0), 1.0)  # it may exceed the interval by rounding
        return mean + noise.scale * min(mean, 1.0 - mean) * (2.0 * rng.random() - 1.0)
    if noise.kind == PARETO:
        smallest = 1.0 - sqrt(1.0 - min(max(mean, 0.0), 1.0))
        return min(1.0, smallest / sqrt(1.0 - rng.random()))
    return mean + noise.scale * rng.standard_normal()


@kernel
def draw_stored(table: Array, table_means: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw one of the action sets of a table uniformly, with its expected rewards."""
    row = int(rng.random() * len(table))
    return table[row], table_means[row]


def check_array(name: str, value: ArrayLike, ndim: int) -> Array:
    """Return a copy of `value` as an array with `ndim` axes; raise an error unless all entries are finite."""
    array = np.ascontiguousarray(offers.as_numbers(value, name, "an array of numbers"))
    if array.ndim != ndim:
        raise InvalidArgument(f"{name} has shape {array.shape}, but must have {ndim} axes")
    if not np.all(np.abs(array) <= LARGEST):
        raise InvalidArgument(
            f"{name} has invalid entries, but all must be finite and at most {LARGEST:g} in magnitude"
        )
    return array


as_vector, as_matrix, as_tensor = (partial(check_array, ndim=ndim) for ndim in (1, 2, 3))


def linear_means(name: str, actions: ArrayLike, shape: tuple[int, ...], theta: Array) -> Array:
    """Expected rewards: products of theta with the first features of each action. `name` is for error messages."""
    rows = offers.as_matrix(actions, name=name)
    if rows.shape != shape:
        raise InvalidArgument(f"{name} has shape {rows.shape}, but must have {shape}")
    means: Array = rows[:, : len(theta)].dot(theta)
    if not (means.min() >= -ROUNDING_TOLERANCE and means.max() <= 1.0 + ROUNDING_TOLERANCE):
        raise InvalidArgument(
            f"{name} has expected rewards from {means.min():g} to {means.max():g}, but they must lie in [0, 1]"
        )
    return means


class ColumnReader(Protocol):
    """The part of a learner that a problem needs in order to draw no more columns than the learner uses."""

    @property
    def n_columns(self) -> int | None:
        """Number of leading columns of a context that the learner uses; None if it may use all of them."""


class Parts(Generic[ParamsT]):
    """The attributes that a kernel problem sets in `_set_up` or declares as settings."""

    name: str
    params: ParamsT  # what `draw` takes first
    n_actions: int
    n_columns: int  # of the offered actions


@configurable
class KernelProblem(Configured, Parts[ParamsT]):
    """A problem with finitely many actions per round and expected rewards in [0, 1]."""

    noise_kind: str = setting(
        'Distribution of a reward given its expectation: "bernoulli", "uniform", "gaussian" or "pareto".',
        partial(one_of, options=NOISES),
        default="bernoulli",
        alias="noise",
    )
    noise_scale: float = setting(
        "Standard deviation if Gaussian; if uniform, the fraction in (0, 1] of the half-width that keeps "
        "rewards in [0, 1]; otherwise unused.",
        positive,
        default=0.1,
    )

    kernels: ClassVar[Kernels]
    reward_range = (0.0, 1.0)
    iid: ClassVar[bool] = True  # whether contexts are independent and identically distributed

    def _set_up(self) -> None:
        super()._set_up()
        if self.noise_kind == "uniform" and self.noise_scale > 1.0:
            raise InvalidArgument(f"noise_scale is {self.noise_scale!r}, but must lie in (0, 1] for uniform noise")
        self.reward_law = Noise(NOISES.index(self.noise_kind), self.noise_scale)
        self.noise = self.noise_scale if self.noise_kind == "gaussian" else None

    def observe(self, rng: np.random.Generator) -> Context:
        """The offered actions of the next round, one row each."""
        workspace = self.workspace()
        actions = self.kernels.draw(self.params, workspace, rng)[0]
        return actions if actions is workspace.actions else actions.copy()  # do not expose stored arrays

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        """The reward of an offered action."""
        return float(self.kernels.reward(self.reward_law, self.means(context)[self._offered(action)], rng))

    def gap(self, context: Context, action: Action) -> float:
        """The expected reward of the best offered action minus that of `action`."""
        means = self.means(context)
        return float(means.max() - means[self._offered(action)])

    def workspace(self, n_columns: int | None = None) -> Workspace:
        """Arrays for the first `n_columns` columns of the offered actions (default: all)."""
        columns, n_actions = self.n_columns if n_columns is None else n_columns, self.n_actions
        numbers = np.empty((n_actions, max(self.n_columns - 1, 0)))
        actions, means = np.empty((n_actions, columns)), np.empty(n_actions)
        return Workspace(actions, means, numbers, np.zeros(3, np.uint64), np.array([columns]))

    @property
    def same_actions(self) -> bool:
        """Whether the same actions, with the same features, are offered in every round."""
        return False

    def columns_for(self, learner: ColumnReader) -> int:
        """Number of columns of the offered actions that must be drawn for a learner that plays alone."""
        return self.n_columns

    def means(self, context: Context) -> Array:
        """The expected rewards of the offered actions."""
        raise NotImplementedError  # abstract

    def _offered(self, action: Action) -> int:
        return count("action", action, minimum=0, maximum=self.n_actions - 1)
