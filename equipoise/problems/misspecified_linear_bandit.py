"""A bandit whose expected rewards are linear up to an error of size eps*, placed where it is most misleading.

Each round offers one of two menus, equally likely. Both have two actions per axis j = 1..d-1, (1/sqrt(2), +x e_j) and
(1/sqrt(2), -x e_j), with x = 0.1 on the near menu and x = 0.7 on the far one. The expected reward is <theta, a> plus an
error of size eps*: it raises the slope along each axis on the far menu and lowers it on the near one, where it
reverses its sign for eps* > 0.1 |slope|. The far actions outweigh the near ones in a regression, so a learner that
relies on the linear model fits the far menu and keeps playing the worst near actions; one that allows for enough
misspecification finds the best. theta is (sqrt(2)/2, slopes), slopes from 0.05 to 0.35 in random order with random
signs.

eps* is the exact distance of the expected rewards from the linear functions: along an axis the error has the
signs -, +, -, + at -0.7, -0.1, 0.1, 0.7, so by Chebyshev's alternation theorem no affine function comes closer.
Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Bandits and MDPs with Unknown Approximation
Error", where eps* is the absolute approximation error of expected rewards.
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import ClassVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.streams import INSTANCE, generator_at
from equipoise.problems.base import NOISES, KernelProblem, Kernels, reward
from equipoise.problems.linear_bandit import Params, complete, draw
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, one_of, real
from equipoise.types import Array, Context

NEAR_DISTANCE, FAR_DISTANCE = 0.1, 0.7
MIN_SLOPE, MAX_SLOPE = 0.05, 0.35
MAX_ERROR = 0.25  # with a larger error, expected rewards would exceed [0, 1]


def check_error(name: str, value: object) -> float:
    error = real(name, value)
    if not 0.0 <= error <= MAX_ERROR:
        raise InvalidArgument(f"{name} is {value!r}, but must lie in [0, {MAX_ERROR}]")
    return error


@configurable
class MisspecifiedLinearBandit(KernelProblem[Params]):
    """A linear bandit with an error of known size in its expected rewards.

    Examples
    --------
    >>> problem = MisspecifiedLinearBandit(dim=3, misspecification=0.1)
    >>> linear = problem.params.table @ problem.theta
    >>> round(float(abs(problem.params.table_means - linear).max()), 12)
    0.1
    """

    dim: int = setting(
        "Number of features d, at least 2; there are 2 (d - 1) actions.",
        partial(count, minimum=2, maximum=1000),
        default=4,
        kw_only=False,
    )
    misspecification: float = setting("Size eps* of the error, in [0, 0.25].", check_error, default=0.1, kw_only=False)
    noise_kind: str = setting(
        'Distribution of a reward given its expectation: "bernoulli", "uniform" or "gaussian".',
        partial(one_of, options=NOISES),
        default="gaussian",
        alias="noise",
    )
    seed: int = setting("Seed of theta.", partial(count, minimum=0), default=0)

    kernels: ClassVar[Kernels] = Kernels(draw, reward, complete=complete)  # on stored contexts: the two menus

    def _set_up(self) -> None:
        super()._set_up()
        self.n_columns, self.n_actions = self.dim, 2 * (self.dim - 1)
        self.name = f"MisspecifiedLinearBandit(d={self.dim}, eps*={self.misspecification:g})"
        self.theta = draw_theta(self.dim, generator_at(self.seed, INSTANCE))
        table = np.stack([_menu(self.dim, NEAR_DISTANCE), _menu(self.dim, FAR_DISTANCE)])
        towards_theta = np.sign(table[:, :, 1:] @ self.theta[1:])
        errors = self.misspecification * np.array([[-1.0], [1.0]]) * towards_theta
        self.params = Params(self.theta, self.dim, table, table @ self.theta + errors)

    @property
    def norm(self) -> float:
        """||theta|| of the nearest linear function."""
        return float(np.linalg.norm(self.theta))

    def means(self, context: Context) -> Array:
        for menu, means in zip(self.params.table, self.params.table_means, strict=True):
            if np.array_equal(context, menu):
                offered: Array = means
                return offered
        raise InvalidArgument(f"context is {context!r:.80}, but must be one of the two menus of {self.name}")


def draw_theta(dim: int, rng: np.random.Generator) -> Array:
    slopes = rng.permutation(np.linspace(MIN_SLOPE, MAX_SLOPE, dim - 1))
    signs = np.where(rng.random(dim - 1) < 0.5, -1.0, 1.0)
    return np.concatenate([[sqrt(2.0) / 2], signs * slopes])


def _menu(dim: int, distance: float) -> Array:
    """Both actions of every axis, axis by axis."""
    steps = np.repeat(np.eye(dim - 1), 2, axis=0) * distance
    steps[1::2] *= -1.0
    return np.column_stack([np.full(len(steps), 1 / sqrt(2.0)), steps])
