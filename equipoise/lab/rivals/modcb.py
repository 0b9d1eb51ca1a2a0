"""ModCB: finds the smallest sufficient class among nested linear classes by estimating square loss gaps.

Class i assumes that expected rewards are linear in the first d_i features. The learner plays optimistic least squares
in the current class m, and plays uniformly random actions in t^{1 - kappa} of the first t rounds. From those rounds it
estimates how much better each larger class j predicts; that square loss gap can be estimated to accuracy sqrt(d_j) / n
after n exploration rounds, long before the parameters of class j can be. Once a gap is shown to be positive, the
learner moves to that class and restarts its regression.

Reference: Foster, Krishnamurthy and Luo (2019), "Model selection for contextual bandits", algorithms 1 (ModCB) and 2
(EstimateResidual).
Symbols: kappa exploration, Sigma second_moments / n_rows over all offered actions, n explored, x and y features and
reward of an exploration round, R = D^+ - Sigma^+ with D the class-m block of Sigma padded by zeros.
The estimate is the paper's U-statistic, 2 / (n (n - 1)) sum_{s < t} <Sigma^{1/2} R x_s y_s, Sigma^{1/2} R x_t y_t>. As
R Sigma R = Sigma^{-1} - D^+ and the Cholesky factor of a leading block is the leading block of the factor, with
Sigma = L L^T, g = sum x y and G = sum y^2 x x^T it is the sum over coordinates d_m < i <= d_j of

    ((L^{-1} g)_i^2 - (L^{-1} G L^{-T})_ii) / (n (n - 1)),

for all classes from one factorization and without storing rounds.
Departures: the learner of a class is OFUL, as in the authors' experiments, not Exp4-IX. Exploration rounds are spaced
deterministically instead of randomly, as `learn` is not told how the action was chosen. Gaps are tested
when n has grown by an eighth, at the threshold v (2 sqrt(k t) + 2 t) / n with k = d_j - d_m, v the largest squared
reward and t = ln(classes * (pi c)^2 / (6 delta)) in test c, which has the order of the paper's and explicit constants:
if class m is sufficient, n times the estimate is asymptotically at most v (chi^2_k - k), and the threshold is a tail
bound of that distribution (Laurent and Massart 2000, lemma 1). So the probability of ever leaving a sufficient class is
about delta; for finite n this is an approximation, not a theorem.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from math import log, pi, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.lab.rivals.selecting import (
    SelectingLearner,
    mask_features,
    optimistic_proposal,
    uniform_pmf,
    uniform_proposal,
)
from equipoise.learner import Proposal
from equipoise.learners._core.base import Kernels, seed_setting
from equipoise.learners._core.linear import MIN_REGULARIZATION, check_dim, delta_setting
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, new_ridge, restart, update_offered
from equipoise.settings import configurable, describe, setting
from equipoise.settings.checks import probability
from equipoise.settings.units import noise_setting, rewards_setting
from equipoise.types import Array, Context, Integers


class Params(NamedTuple):
    dims: Integers  # d_1 < d_2 < ...
    ellipsoid: Ellipsoid
    regularization: float
    exploration: float  # kappa
    delta: float
    largest_square: float  # v
    low: float  # origin of rewards
    jitter: float  # added to the diagonal of Sigma, so that it is invertible if features never vary


class Memory(NamedTuple):
    ridge: Ridge  # on the features of the current class, since the learner moved to it
    kept: Array  # (d,) 1 for the features of the current class, else 0
    current: Integers  # (1,) index of the class
    rounds: Integers  # (1,)
    explored: Integers  # (1,) n
    tests: Integers  # (2,) number of tests so far, and the n of the next one
    n_rows: Integers  # (1,) offered actions in second_moments
    second_moments: Array  # (d, d) sum of a a^T over all offered actions
    moments: Array  # (d,) sum of x y over exploration rounds
    squares: Array  # (d, d) sum of y^2 x x^T over exploration rounds


@kernel
def decide(params: Params, memory: Memory, actions: Array, rng: np.random.Generator) -> Proposal:
    if explores(params, memory):
        return uniform_proposal(memory.ridge, actions, params.low, rng)
    return optimistic_proposal(params.ellipsoid, memory.ridge, mask_features(actions, memory.kept), params.low)


@kernel
def explores(params: Params, memory: Memory) -> bool:
    """Whether the number of exploration rounds is below t^{1 - kappa}."""
    return bool(memory.explored[0] < (memory.rounds[0] + 1.0) ** (1.0 - params.exploration))


@kernel
def learn(params: Params, memory: Memory, actions: Array, action: int, reward: float, weight: float) -> None:
    explored, dim, target = explores(params, memory), len(memory.kept), reward - params.low
    add_outer(memory.second_moments, actions, 0, len(actions), 1.0)
    memory.n_rows[0] += len(actions)
    memory.rounds[0] += 1
    if explored:
        memory.explored[0] += 1
        for i in range(dim):
            memory.moments[i] += target * actions[action, i]
        add_outer(memory.squares, actions, action, action + 1, target * target)
    update_offered(memory.ridge, mask_features(actions, memory.kept), action, target)
    if explored and memory.explored[0] == memory.tests[1]:
        memory.tests[0] += 1
        memory.tests[1] += 1 + memory.tests[1] // 8
        switch_class(params, memory)


@kernel
def add_outer(sums: Array, rows: Array, first: int, last: int, weight: float) -> None:
    """Add weight a a^T for the rows a from first to last - 1, on their first d entries."""
    used = rows[first:last, : len(sums)]
    sums += weight * used.T.dot(used)


@native(add_outer)
def _add_outer(sums: Array, rows: Array, first: int, last: int, weight: float) -> None:
    for k in range(first, last):
        for i in range(len(sums)):
            for j in range(len(sums)):
                sums[i, j] += weight * rows[k, i] * rows[k, j]


@kernel
def switch_class(params: Params, memory: Memory) -> None:
    """Switch to the smallest class that is shown to predict better than the current one, if any."""
    increments = gap_increments(params, memory)
    n_classes, d_current = len(params.dims), params.dims[memory.current[0]]
    gap, i = 0.0, d_current
    for j in range(memory.current[0] + 1, n_classes):
        while i < params.dims[j]:
            gap += increments[i]
            i += 1
        if gap > threshold(params, memory, params.dims[j] - d_current):
            memory.current[0] = j
            memory.kept[: params.dims[j]] = 1.0
            restart(memory.ridge, params.regularization)
            return


@kernel
def gap_increments(params: Params, memory: Memory) -> Array:
    """Contribution of each coordinate to the estimated square loss gap of a class that contains it."""
    sigma = memory.second_moments / memory.n_rows[0] + params.jitter * np.eye(len(memory.kept))
    inverse = np.linalg.inv(np.linalg.cholesky(sigma))
    scores, own = inverse.dot(memory.moments), np.vecdot(inverse.dot(memory.squares), inverse)
    n = float(memory.explored[0])
    increments: Array = (scores * scores - own) / (n * (n - 1.0))
    return increments


@native(gap_increments)
def _gap_increments(params: Params, memory: Memory) -> Array:
    dim, n = len(memory.kept), float(memory.explored[0])
    lower, inverse, increments = np.zeros((dim, dim)), np.zeros((dim, dim)), np.empty(dim)
    for i in range(dim):
        for j in range(i + 1):
            entry = memory.second_moments[i, j] / memory.n_rows[0] + (params.jitter if i == j else 0.0)
            for k in range(j):
                entry -= lower[i, k] * lower[j, k]
            lower[i, j] = sqrt(entry) if i == j else entry / lower[j, j]
        # Row i of L^{-1}, by forward substitution.
        for j in range(i + 1):
            entry = 1.0 if i == j else 0.0
            for k in range(j, i):
                entry -= lower[i, k] * inverse[k, j]
            inverse[i, j] = entry / lower[i, i]
        score = own = 0.0
        for j in range(i + 1):
            score += inverse[i, j] * memory.moments[j]
            for k in range(i + 1):
                own += inverse[i, j] * memory.squares[j, k] * inverse[i, k]
        increments[i] = (score * score - own) / (n * (n - 1.0))
    return increments


@kernel
def threshold(params: Params, memory: Memory, degrees: int) -> float:
    """Upper bound on the estimated gap to a class with `degrees` more features if the current class is sufficient."""
    scaled = pi * memory.tests[0]
    tail = log(len(params.dims) * (scaled * scaled) / (6.0 * params.delta))
    return float(params.largest_square * (2.0 * sqrt(degrees * tail) + 2.0 * tail) / memory.explored[0])


def check_dims(name: str, dims: object) -> tuple[int, ...]:
    """Return increasing numbers of features as a tuple."""
    if isinstance(dims, str) or not isinstance(dims, Sequence) or len(dims) == 0:
        raise InvalidArgument(f"{name} is {dims!r}, but must be a nonempty list of numbers of features")
    checked = tuple(check_dim(f"{name}[{i}]", dim) for i, dim in enumerate(dims))
    if any(later <= earlier for earlier, later in pairwise(checked)):
        raise InvalidArgument(f"{name} is {dims!r}, but must increase")
    return checked


@describe(
    features=(
        "Feature map to use instead of the columns, with as many features as the last of `dims`; see "
        "`equipoise.features`. Default: none."
    )
)
@configurable
class ModCB(SelectingLearner[Params, Memory]):
    """Optimistic least squares on the smallest of several nested sets of features that suffices.

    A context is `Offers`, or a K x d matrix with one offered action per row and as many columns as the largest of
    `dims`, or more; K may change from round to round.

    Examples
    --------
    >>> learner = ModCB([1, 2])
    >>> learner.decide([[1.0, 0.0], [0.0, 1.0]]).probability
    0.5
    """

    dims: Sequence[int] = setting(
        "Increasing numbers of features; class i uses the first d_i columns of a context.", check_dims, kw_only=False
    )
    dim: int = field(init=False)  # the largest of them
    exploration: float = setting(
        "Exponent kappa in (0, 1): t^(1 - kappa) of t rounds explore. Default: 1/3.", probability, default=1 / 3
    )

    noise: float = noise_setting()
    reward_range: tuple[float, float] = rewards_setting()
    delta: float = delta_setting(
        doc="Approximate probability in (0, 1) of leaving a sufficient class, and of a failure of a class's ellipsoid."
    )
    seed: int = seed_setting()

    randomized = True
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        self.dim = self.dims[-1]
        super()._set_up()
        low, high = self.reward_range
        self.params = Params(
            np.array(self.dims),
            self.ellipsoid(self.noise, self.delta),
            self.regularization,
            self.exploration,
            self.delta,
            (high - low) ** 2,
            low,
            MIN_REGULARIZATION * self.action_bound**2,
        )
        kept = np.zeros(self.dim)
        kept[: self.dims[0]] = 1.0
        self.memory = Memory(
            ridge=new_ridge(self.dim, self.regularization),
            kept=kept,
            current=np.zeros(1, np.int64),
            rounds=np.zeros(1, np.int64),
            explored=np.zeros(1, np.int64),
            tests=np.array([0, max(2, self.dim)]),
            n_rows=np.zeros(1, np.int64),
            second_moments=np.zeros((self.dim, self.dim)),
            moments=np.zeros(self.dim),
            squares=np.zeros((self.dim, self.dim)),
        )

    def _pmf(self, context: Context, actions: Array) -> Array:
        return uniform_pmf(actions) if explores(self.params, self.memory) else super()._pmf(context, actions)

    def model_class(self) -> LinearClass:
        """The class of rewards that the learner assumes."""
        return self.linear_class(self.noise, self.delta)
