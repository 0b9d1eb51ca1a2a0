"""Ridge regression by rank-one updates, and the ellipsoid around its estimate.

After rows a_1..a_n with rewards r_1..r_n: Sigma = lambda I + sum a a^T and theta = Sigma^{-1} sum a r. The
state holds a factor F with Sigma^{-1} = F F^T instead of Sigma^{-1}: a new row a turns F into F (I - p p^T / (s + sqrt
s)) with p = F^T a and s = 1 + ||p||^2. That costs O(d^2), like an update of Sigma^{-1} itself, but squared norms
||F^T a||^2 are never negative, rounding acts on square roots (after 1e6 updates the result is within 1e-10 of a direct
solve, so no periodic recomputation is needed), and F z is a sample from N(0, Sigma^{-1}).

A row may have a weight w, as if it had been observed w times with the same reward: Sigma = lambda I + sum w a a^T and
theta = Sigma^{-1} sum w a r, which is the least-squares fit with squared errors multiplied by w. Its noise sqrt(w) e
has the sub-Gaussian factor sqrt(w) sigma. For weights known before their reward and at most rho the ellipsoid therefore
holds with sqrt(rho) sigma in place of sigma; as rho is not known in advance, it is rounded up to a power of two 2^j,
and level j >= 1 has failure probability delta / (j (j + 1)), so that all weighted levels together fail with probability
delta in addition.

Rows may be forgotten: before a row is added, `forget` multiplies the weights of all rows so far by gamma < 1, which
turns F into F / sqrt(gamma). That also shrinks the penalty lambda I, so `forget` adds lambda (1 - gamma^d) to the
penalty of one coordinate, another one each time: a rank-one update instead of d. The penalty of every coordinate then
stays between lambda gamma^d and 2 lambda; gamma is at least max(1/2, 1 - 1/d), so gamma^d at least 1/4.

References: Potter's square-root update, in Bierman (1977), "Factorization methods for discrete sequential estimation",
chapter II; Abbasi-Yadkori, Pal and Szepesvari (2011), "Improved algorithms for linear stochastic bandits", theorem 2
(the ellipsoid in its determinant form; the simplified form fails for d = 1).
Interpreted code uses NumPy's matrix products; compiled code uses loops over preallocated arrays, so that a round
allocates nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, log, log1p, log2, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel, native
from equipoise.kernels.powers import power
from equipoise.types import Array, Integers

REFRESH_INTERVAL = 512  # updates after which cached means and norms of a fixed action set are recomputed
BLAS_FROM = 48  # dimension from which a BLAS matrix product is faster than plain loops in compiled code
MAX_LOOPED_ROWS = 12  # rows up to which a plain loop over lists takes less time than five calls of NumPy


class Scratch(NamedTuple):
    """Preallocated arrays for intermediate results of compiled code."""

    means: Array  # (K,)
    squared_norms: Array  # (K,)
    rows: Array  # (K, d)
    images: Array  # (K, d)
    image: Array  # (d,)
    direction: Array  # (d,) Sigma^{-1} a of the last row
    last_step: Array  # (2,) of the last row: the step of theta along direction, and w / (1 + w ||a||^2)
    refresh: Integers  # (2,) if every round offers the same actions: REFRESH_INTERVAL, and updates left until means and
    # squared norms are recomputed; zeros if actions change


class Ridge(NamedTuple):
    """The regression; arrays change in place."""

    factor: Array  # (d, d) F with Sigma^{-1} = F F^T; in column-major order, as products with it run down columns
    theta: Array  # (d,)
    log_determinant: Array  # (1,) ln det Sigma - d ln lambda
    updates: Integers  # (1,) number of rows in Sigma
    weights: Array  # (2,) sum and maximum of the weights of the rows in Sigma
    scratch: Scratch


def new_ridge(dim: int, regularization: float) -> Ridge:
    return Ridge(
        factor=np.asfortranarray(np.eye(dim) / sqrt(regularization)),
        theta=np.zeros(dim),
        log_determinant=np.zeros(1),
        updates=np.zeros(1, np.int64),
        weights=np.zeros(2),
        scratch=new_scratch(dim, 0),
    )


def new_scratch(dim: int, n_actions: int, same_actions: bool = False) -> Scratch:
    """Arrays for up to `n_actions` offered actions, the same in every round or not; interpreted code needs none."""
    return Scratch(
        means=np.empty(n_actions),
        squared_norms=np.empty(n_actions),
        rows=np.empty((n_actions, dim)),
        images=np.empty((n_actions, dim)),
        image=np.empty(dim),
        direction=np.empty(dim),
        last_step=np.empty(2),
        refresh=np.array([REFRESH_INTERVAL if same_actions else 0, 0]),
    )


class Ellipsoid(NamedTuple):
    """The parameters of the ellipsoid that do not depend on data."""

    noise: float  # sub-Gaussian factor sigma of the rewards
    log_term: float  # 2 ln(1 / delta)
    bias: float  # sqrt(lambda) S, S a bound on ||theta*||


@kernel
def ellipsoid_radius(ellipsoid: Ellipsoid, ridge: Ridge) -> float:
    """beta with ||theta - theta*|| <= beta in the norm of Sigma, simultaneously at all times with probability 1 - delta
    (1 - 2 delta with weights above 1)."""
    spread = ridge.log_determinant.item() + ellipsoid.log_term  # floats of Python are faster than those of NumPy
    if ridge.weights[1] > 1.0:
        level = ceil(log2(ridge.weights[1]))
        spread = power(2.0, level) * (spread + 2.0 * log(level * (level + 1.0)))
    return ellipsoid.noise * sqrt(spread) + ellipsoid.bias


@kernel
def update(ridge: Ridge, row: Array, reward: float, weight: float = 1.0) -> None:
    """Add one row with its reward; a row of weight 0 changes nothing."""
    if weight > 0.0:
        count_row(ridge, weight, rank_one(ridge, row, reward, weight))


@kernel
def count_row(ridge: Ridge, weight: float, squared_norm: float) -> None:
    """Count a row whose weight times its squared norm in the previous Sigma^{-1} is `squared_norm`."""
    updates, weights = ridge.updates, ridge.weights
    ridge.log_determinant[0] = ridge.log_determinant.item() + log1p(squared_norm)
    updates[0] = updates.item() + 1
    weights[0] += weight
    if weight > weights[1]:
        weights[1] = weight


class Forgetting(NamedTuple):
    """How fast rows are forgotten; a discount of 1 and empty arrays if they are not."""

    discount: float  # gamma
    refill: float  # lambda (1 - gamma^d)
    units: Array  # (d, d) the unit vectors


def forgetting(discount: float, dim: int, regularization: float) -> Forgetting:
    """Return the parameters of `forget`; raise an error if rows are forgotten faster than features can be learned."""
    minimum = max(0.5, 1.0 - 1.0 / dim)
    if discount < minimum:
        raise InvalidArgument(f"discount is {discount!r}, but must be at least {minimum:g} with dim = {dim}")
    if discount == 1.0:
        return Forgetting(1.0, 0.0, np.empty((0, 0)))
    return Forgetting(discount, regularization * (1.0 - power(discount, dim)), np.eye(dim))


@kernel
def forget(ridge: Ridge, forgetting: Forgetting, update: int) -> None:
    """Multiply the weights of all rows by the discount; `update` is the number of updates before this one."""
    if forgetting.discount == 1.0:
        return
    factor, dim = ridge.factor, len(ridge.theta)
    factor /= sqrt(forgetting.discount)
    squared_norm = rank_one_offered(ridge, forgetting.units, update % dim, 0.0, forgetting.refill)
    ridge.log_determinant[0] += dim * log(forgetting.discount) + log1p(squared_norm)
    ridge.weights[0] *= forgetting.discount
    ridge.scratch.refresh[1] = 0


@kernel
def update_offered(ridge: Ridge, actions: Array, action: int, reward: float, weight: float = 1.0) -> None:
    """Add the row of an offered action with its reward, on its first d entries; weight 0 changes nothing."""
    if weight > 0.0:
        count_row(ridge, weight, rank_one_offered(ridge, actions, action, reward, weight))
        update_cached(ridge, actions)


@kernel
def rank_one_offered(ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> float:
    """`rank_one` with the row of an offered action."""
    return rank_one(ridge, actions[action, : len(ridge.theta)], reward, weight)


@kernel
def update_cached(ridge: Ridge, rows: Array) -> None:
    """Update the means and norms of a fixed action set that compiled code caches; interpreted code caches none."""


@native(update_cached, reassociate=True)
def _update_cached(ridge: Ridge, rows: Array) -> None:
    # O(K d) instead of O(K d^2): with v = Sigma^{-1} a of the row a just added, the mean of x changes by <x, v> times
    # the step of theta, and its squared norm decreases by w <x, v>^2 / (1 + w ||a||^2).
    scratch = ridge.scratch
    if scratch.refresh[1] == 0:
        return
    for k in range(len(rows)):
        along = 0.0
        for i in range(len(ridge.theta)):
            along += rows[k, i] * scratch.direction[i]
        scratch.means[k] += scratch.last_step[0] * along
        scratch.squared_norms[k] = max(scratch.squared_norms[k] - scratch.last_step[1] * along * along, 0.0)
    scratch.refresh[1] -= 1


@kernel
def rank_one(ridge: Ridge, row: Array, reward: float, weight: float) -> float:
    """Update factor and estimate with one row; return its weight times its squared norm in the previous Sigma^{-1}."""
    factor, theta = ridge.factor, ridge.theta
    image = row.dot(factor)
    squared_norm = weight * float(image.dot(image))
    scale = 1.0 + squared_norm
    direction = factor.dot(image)
    theta += direction * (weight * (reward - float(theta.dot(row))) / scale)
    direction *= weight / (scale + sqrt(scale))
    columns = factor.T
    columns -= image[:, None].dot(direction[None, :])  # faster than a product that broadcasts
    return squared_norm


@kernel
def evaluate(ridge: Ridge, rows: Array) -> tuple[Array, Array]:
    """For each row its estimate <theta, a> and its squared norm ||a||^2 in Sigma^{-1}, on its first d entries."""
    theta = ridge.theta
    if rows.shape[1] > len(theta) or not rows.flags.c_contiguous:
        rows = np.ascontiguousarray(rows[:, : len(theta)])  # two products with strided rows take longer than a copy
    images = rows.dot(ridge.factor)
    return rows.dot(theta), np.vecdot(images, images)


@kernel
def predict(ridge: Ridge, rows: Array) -> Array:
    """For each row its estimate <theta, a>, on its first d entries."""
    means: Array = rows[:, : len(ridge.theta)].dot(ridge.theta)
    return means


@kernel
def restart(ridge: Ridge, regularization: float) -> None:
    ridge.factor[:, :] = 0.0
    for i in range(len(ridge.theta)):
        ridge.factor[i, i] = 1.0 / sqrt(regularization)
    ridge.theta[:] = 0.0
    ridge.log_determinant[0] = 0.0
    ridge.updates[0] = 0
    ridge.weights[:] = 0.0
    ridge.scratch.refresh[1] = 0


@kernel
def most_optimistic(means: Array, squared_norms: Array, radius: float) -> tuple[int, int]:
    """The first row that maximizes mean + radius * norm, and the first that maximizes the mean; all are finite."""
    if len(means) <= MAX_LOOPED_ROWS:
        return _most_optimistic(means.tolist(), squared_norms.tolist(), radius)
    optimistic = np.sqrt(squared_norms)
    optimistic *= radius
    optimistic += means
    return int(optimistic.argmax()), int(means.argmax())


@native(rank_one_offered, reassociate=True)
def _rank_one_offered(ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> float:
    factor, theta, image, direction = ridge.factor, ridge.theta, ridge.scratch.image, ridge.scratch.direction
    dim = len(theta)
    error, squared_norm = reward, 0.0
    for i in range(dim):
        error -= theta[i] * actions[action, i]
        direction[i] = 0.0
    for j in range(dim):
        entry = 0.0
        for i in range(dim):
            entry += factor[i, j] * actions[action, i]
        image[j] = entry
        squared_norm += entry * entry
        for i in range(dim):
            direction[i] += entry * factor[i, j]
    squared_norm *= weight
    scale = 1.0 + squared_norm
    step, shrink = weight * error / scale, weight / (scale + sqrt(scale))
    ridge.scratch.last_step[0], ridge.scratch.last_step[1] = step, weight / scale
    for i in range(dim):
        theta[i] += step * direction[i]
    for j in range(dim):
        entry = shrink * image[j]
        for i in range(dim):
            factor[i, j] -= entry * direction[i]
    return squared_norm


@native(predict, reassociate=True)
def _predict(ridge: Ridge, rows: Array) -> Array:
    means = ridge.scratch.means[: len(rows)]
    for k in range(len(rows)):
        mean = 0.0
        for i in range(len(ridge.theta)):
            mean += ridge.theta[i] * rows[k, i]
        means[k] = mean
    return means


@native(evaluate, reassociate=True)
def _evaluate(ridge: Ridge, rows: Array) -> tuple[Array, Array]:
    factor, theta, scratch = ridge.factor, ridge.theta, ridge.scratch
    dim, n_actions = len(theta), len(rows)
    means, squared_norms = scratch.means[:n_actions], scratch.squared_norms[:n_actions]
    if scratch.refresh[1] > 0:
        return means, squared_norms
    scratch.refresh[1] = scratch.refresh[0]
    for k in range(n_actions):
        mean = squared_norm = 0.0
        for i in range(dim):
            mean += theta[i] * rows[k, i]
        if dim < BLAS_FROM:
            # Four columns at a time: each entry of the row is loaded once for four sums.
            for j in range(0, dim - 3, 4):
                first = second = third = fourth = 0.0
                for i in range(dim):
                    entry = rows[k, i]
                    first += entry * factor[i, j]
                    second += entry * factor[i, j + 1]
                    third += entry * factor[i, j + 2]
                    fourth += entry * factor[i, j + 3]
                squared_norm += (first * first + second * second) + (third * third + fourth * fourth)
            for j in range(dim - dim % 4, dim):
                first = 0.0
                for i in range(dim):
                    first += rows[k, i] * factor[i, j]
                squared_norm += first * first
        means[k], squared_norms[k] = mean, squared_norm
    if dim >= BLAS_FROM:
        _squared_norms_by_blas(ridge, rows)
    return means, squared_norms


@kernel
def _squared_norms_by_blas(ridge: Ridge, rows: Array) -> None:
    scratch, dim, n_actions = ridge.scratch, len(ridge.theta), len(rows)
    if rows.shape[1] != dim:  # matrix products need contiguous operands
        for k in range(n_actions):
            for j in range(dim):
                scratch.rows[k, j] = rows[k, j]
        rows = scratch.rows[:n_actions]
    images = scratch.images[:n_actions]
    np.dot(rows, ridge.factor, images)
    for k in range(n_actions):
        scratch.squared_norms[k] = squared_length(images, k)


@kernel
def squared_length(rows: Array, k: int) -> float:
    return float(rows[k].dot(rows[k]))


@native(squared_length, reassociate=True)
def _squared_length(rows: Array, k: int) -> float:
    total = 0.0
    for j in range(rows.shape[1]):
        total += rows[k, j] * rows[k, j]
    return total


@native(most_optimistic)
def _most_optimistic(means: Sequence[float], squared_norms: Sequence[float], radius: float) -> tuple[int, int]:
    best, best_index, greedy, best_mean = 0, -inf, 0, -inf
    for k, mean in enumerate(means):
        index = mean + radius * sqrt(squared_norms[k])
        if index > best_index:
            best, best_index = k, index
        if mean > best_mean:
            greedy, best_mean = k, mean
    return best, greedy
