"""What every problem made of kernels has in common: noise, and the methods of the contract over two kernels.

A kernel problem has K actions per round. `draw` makes the offered actions and their expected rewards, `reward` draws
one reward around an expected reward; regret follows from the expected rewards alone, however noisy the rewards are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.settings import Configured, configurable, setting
from equipoise.settings.checks import LARGEST, count, one_of, positive
from equipoise.types import Action, Array, Context, Integers

ParamsT = TypeVar("ParamsT", covariant=True)
NOISES = ("bernoulli", "uniform", "gaussian")
BERNOULLI, UNIFORM, GAUSSIAN = 0, 1, 2
ROUNDING = 1e-9  # by which expected rewards may leave [0, 1]


@kernel
def forget(params: object, learner: int, action: int, reward: float) -> None:
    """What was played changes nothing."""


@kernel
def leave(params: object, room: object, action: int) -> None:
    """Every draw is complete."""


class Kernels(NamedTuple):
    """The functions of a problem."""

    draw: Callable[..., tuple[Array, Array]]  # (params, room, generator) -> offered actions, their expected rewards
    reward: Callable[..., float]  # (noise, mean, generator)
    record: Callable[..., None] = forget  # (params, learner, action, reward): a round is over
    complete: Callable[..., None] = leave  # (params, room, action): draw what `draw` left out of one action


class Room(NamedTuple):
    """Arrays that a draw may fill, laid out once so that a round allocates nothing."""

    actions: Array  # (K, columns)
    means: Array  # (K,)
    numbers: Array  # (K, all columns - 1) for random numbers
    seeds: NDArray[np.uint64]  # (3,) that the rows of numbers are started from
    n_columns: Integers  # (1,) how many columns somebody will look at in this round


class Noise(NamedTuple):
    """The law of a reward given its expectation."""

    kind: int
    scale: float


@kernel
def reward(noise: Noise, mean: float, rng: np.random.Generator) -> float:
    """A reward of expectation `mean`, which lies in [0, 1]; Bernoulli and uniform rewards stay in [0, 1]."""
    if noise.kind == BERNOULLI:
        return 1.0 if rng.random() < mean else 0.0
    if noise.kind == UNIFORM:
        mean = min(max(mean, 0.0), 1.0)  # rounding may have carried it over an end
        return mean + noise.scale * min(mean, 1.0 - mean) * (2.0 * rng.random() - 1.0)
    return mean + noise.scale * rng.standard_normal()


@kernel
def stored(table: Array, table_means: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """One of the action sets of a table with its expected rewards, each as likely as any other."""
    row = int(rng.random() * len(table))
    return table[row], table_means[row]


def numbers(name: str, value: ArrayLike, ndim: int) -> Array:
    """A copy as an array of so many axes, all of it finite and of sane magnitude."""
    try:
        array = np.array(value, np.float64, order="C")
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be an array of numbers") from None
    if array.ndim != ndim:
        raise InvalidArgument(f"{name} has shape {array.shape}, but must have {ndim} axes")
    if not np.all(np.abs(array) <= LARGEST):
        raise InvalidArgument(f"{name} has entries that are not finite or above {LARGEST:g} in magnitude")
    return array


def linear_means(name: str, actions: ArrayLike, shape: tuple[int, ...], theta: Array) -> Array:
    """Expected rewards that are products of theta with the first features of each action; `name` is for complaints."""
    try:
        rows = np.asarray(actions, float)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name} is {actions!r:.80}, but must be a matrix of numbers") from None
    if rows.shape != shape:
        raise InvalidArgument(f"{name} has shape {rows.shape}, but must have {shape}")
    means: Array = rows[:, : len(theta)].dot(theta)
    if not (means.min() >= -ROUNDING and means.max() <= 1.0 + ROUNDING):
        raise InvalidArgument(
            f"{name} has expected rewards from {means.min():g} to {means.max():g}, but they must lie in [0, 1]"
        )
    return means


@configurable
class NoisyRewards(Configured):
    """The law of rewards given their expectation: bounded ("bernoulli", "uniform") or "gaussian".

    `noise_scale` is the standard deviation if Gaussian, the share of the admissible half-width if uniform.
    """

    noise_kind: str = setting(default="bernoulli", alias="noise", check=partial(one_of, options=NOISES))
    noise_scale: float = setting(default=0.1, check=positive)

    def _set_up(self) -> None:
        super()._set_up()
        if self.noise_kind == "uniform" and self.noise_scale > 1.0:
            raise InvalidArgument(f"noise_scale is {self.noise_scale!r}, but must lie in (0, 1] for uniform noise")
        self.reward_law = Noise(NOISES.index(self.noise_kind), self.noise_scale)
        self.noise = self.noise_scale if self.noise_kind == "gaussian" else None


class ColumnReader(Protocol):
    """A learner, as far as a problem has to know it so as to draw no more than it looks at."""

    @property
    def n_columns(self) -> int | None:
        """How many of the first columns of a context it looks at; None: it may look at all of them."""
        ...


class KernelProblem(NoisyRewards, Generic[ParamsT]):
    """A problem with finitely many actions per round and expected rewards in [0, 1]."""

    name: str
    kernels: ClassVar[Kernels]
    params: ParamsT  # what `draw` takes first
    n_actions: int
    n_columns: int  # of the offered actions
    reward_range = (0.0, 1.0)
    iid: ClassVar[bool] = True  # whether contexts are independent and identically distributed

    def observe(self, rng: np.random.Generator) -> Context:
        """The offered actions of the next round, one row each."""
        room = self.room()
        actions = self.kernels.draw(self.params, room, rng)[0]
        return actions if actions is room.actions else actions.copy()  # what is stored is not handed out

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        """The reward of an offered action."""
        return float(self.kernels.reward(self.reward_law, self.means(context)[self._offered(action)], rng))

    def gap(self, context: Context, action: Action) -> float:
        """The expected reward of the best offered action minus that of `action`."""
        means = self.means(context)
        return float(means.max() - means[self._offered(action)])

    def room(self, n_columns: int | None = None) -> Room:
        """Arrays for the first `n_columns` columns of the offered actions (all, if not said)."""
        columns, n_actions = self.n_columns if n_columns is None else n_columns, self.n_actions
        numbers = np.empty((n_actions, max(self.n_columns - 1, 0)))
        actions, means = np.empty((n_actions, columns)), np.empty(n_actions)
        return Room(actions, means, numbers, np.zeros(3, np.uint64), np.array([columns]))

    @property
    def same_actions(self) -> bool:
        """Whether the same actions, with the same features, are offered in every round."""
        return False

    def columns_for(self, learner: ColumnReader) -> int:
        """How many columns of the offered actions have to be drawn for a learner that plays alone."""
        return self.n_columns

    def means(self, context: Context) -> Array:
        """The expected rewards of the offered actions."""
        raise NotImplementedError  # an abstract method

    def _offered(self, action: Action) -> int:
        return count("action", action, least=0, most=self.n_actions - 1)
