"""OFUL: optimism in the face of uncertainty for linear rewards.

The expected reward of an action a is <theta*, a> with ||theta*|| <= S. The learner keeps a ridge estimate and an
ellipsoid around it that contains theta* at all times with probability 1 - delta, and plays the action with the
largest expected reward over the ellipsoid. Twice the width of the played action bounds the regret of the play, which
gives the observed regret bound; estimate minus width is a lower bound on the expected reward of the action.

Reference: Abbasi-Yadkori, Pal and Szepesvari (2011), "Improved algorithms for linear stochastic bandits", figure 1 and
theorems 2 and 3.
Symbols: Sigma, theta and beta as in `ridge`, S norm_bound, L action_bound, lambda regularization, kappa scale
(confidence tuning), eps misspecification; norms of actions are those in Sigma^{-1}. Rewards count from the low end of
their range; see `equipoise.learners._core.linear`.
With rewards only within eps of linear, |a^T Sigma^{-1} sum a_s e_s| <= eps sqrt(n) ||a|| for n rows in Sigma (for rows
of total weight n), so the width grows by eps sqrt(n) ||a||, the regret of a play by 2 eps, and its lower bound
decreases by eps (selection paper, "Unknown Approximation Error").
Discount. With `discount` gamma < 1 the row learned s updates ago has the weight gamma^s, so that rewards may change
with time: Sigma = sum gamma^s a a^T + Lambda, with a penalty Lambda of about lambda I (see `ridge`), and the width is
beta ||a|| as before, beta with the determinant of this Sigma. D-LinUCB of Russac, Vernade and Cappe (2019), "Weighted
linear bandits for non-stationary environments", has the width of Sigma^{-1} Sigma_2 Sigma^{-1}, where Sigma_2 has the
squares of the weights. As these are at most the weights, the width here is the larger one, from one matrix instead of
two. Their regret bound, for known total change of theta*, was not proved for this form, and no bound holds after an
unknown change: with gamma < 1 the stated lower bound is the low end of the reward range, and the stated regret is the
width of the range. Selectors that need classes of rewards refuse such a learner.

A ball contains -a with every a, so the middle of any range of <theta*, a> is 0: with a ball as context, rewards count
from the middle of their range.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.ball import Ball, check_ball_action, farthest_point
from equipoise.learners._core.base import Kernels
from equipoise.learners._core.linear import LinearLearner, delta_setting, discount_setting, discount_text
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import (
    Ellipsoid,
    Forgetting,
    Ridge,
    ellipsoid_radius,
    evaluate,
    forget,
    forgetting,
    most_optimistic,
    update,
    update_offered,
)
from equipoise.settings import configurable, setting
from equipoise.settings.checks import non_negative, positive
from equipoise.settings.units import noise_setting, range_setting
from equipoise.types import Action, Array, Context


class Params(NamedTuple):
    dim: int
    ellipsoid: Ellipsoid
    scale: float
    misspecification: float
    low: float
    high: float
    forgetting: Forgetting


@kernel
def learn(params: Params, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """Add the row of the action to the regression, after earlier rows were discounted."""
    if weight > 0.0:
        forget(ridge, params.forgetting, ridge.updates.item())
    update_offered(ridge, actions, action, reward - params.low, weight)


@kernel
def decide(params: Params, ridge: Ridge, actions: Array, rng: np.random.Generator | None) -> Proposal:
    means, squared_norms = evaluate(ridge, actions)
    radius = optimistic_radius(params, ridge)
    action, greedy = most_optimistic(means, squared_norms, radius)
    mean = params.low + float(means[action])
    lower, regret = lower_and_regret(params, mean, radius * sqrt(squared_norms[action]))
    return Proposal(action, lower, regret, 1.0, greedy, mean)


@kernel
def optimistic_radius(params: Params, ridge: Ridge) -> float:
    """kappa beta + eps sqrt(n): the half-width of an action is this times its norm in Sigma^{-1}."""
    radius = params.scale * ellipsoid_radius(params.ellipsoid, ridge)
    if params.misspecification > 0.0:
        radius += params.misspecification * sqrt(ridge.weights[0])
    return radius


@kernel
def lower_and_regret(params: Params, mean: float, half_width: float) -> tuple[float, float]:
    """(lower, regret): a lower bound on the expected reward of an action, and an upper bound on its regret."""
    low, high, misspecification = params.low, params.high, params.misspecification
    if params.forgetting.discount < 1.0:
        half_width = inf
    lower, regret = mean - half_width - misspecification, 2.0 * (half_width + misspecification)
    lower = low if lower < low else high if lower > high else lower
    return lower, high - low if regret > high - low else regret


@configurable
class OFUL(LinearLearner[Params, Ridge]):
    """Optimistic least squares for rewards that are linear in the features of the actions.

    A context is `Offers`, or a K x d matrix with one offered action per row and d >= dim columns; K may change from
    round to round. A `Ball` as context offers all vectors up to its radius; actions are then vectors that are zero
    beyond the first `dim` entries.

    Examples
    --------
    >>> learner = OFUL(dim=2)
    >>> learner.learn([[1.0, 0.0], [0.0, 1.0]], action=1, reward=1.0)
    >>> learner.decide([[0.6, 0.0], [0.0, 0.6], [0.0, 1.0]]).action
    2
    """

    noise: float = noise_setting()
    reward_range: tuple[float, float] = range_setting()
    delta: float = delta_setting()
    scale: float = setting(
        "Factor of the radius of the ellipsoid, positive; below 1 nothing is guaranteed.", positive, default=1.0
    )
    misspecification: float = setting(
        "Upper bound on the error of a linear function of the features, not negative.", non_negative, default=0.0
    )

    discount: float = discount_setting()

    accepts = frozenset({"off_policy", "agreed", "weight"})
    provides = frozenset({"lower", "regret", "greedy", "value", "pmf"})
    kernels: ClassVar[Kernels] = Kernels(decide, learn)

    def _set_up(self) -> None:
        super()._set_up()
        ellipsoid = self.ellipsoid(self.noise, self.delta)
        rows = forgetting(self.discount, self.dim, self.regularization)
        self.params = Params(self.dim, ellipsoid, self.scale, self.misspecification, *self.reward_range, rows)
        self.memory = self.new_ridge()

    def default_name(self) -> str:
        more = f", eps={self.misspecification:.3g}" if self.misspecification else ""
        return self._name_with(self.scale, more + discount_text(self.discount))

    def model_class(self) -> LinearClass:
        if self.discount < 1.0:
            raise IncompatibleLearner(
                f"discount of {self.name} is {self.discount:g}, but must be 1 for a class of fixed rewards"
            )
        linear = self.linear_class(self.noise, self.delta)
        return linear._replace(scale=self.scale, misspecification=self.misspecification)

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the action with the highest upper confidence bound, with its lower bound and its observed regret."""
        if isinstance(context, Ball):
            return self._decide_on(context)
        choices = self.offered(context)
        proposal = decide(self.params, self.memory, choices.rows, rng)
        return proposal if choices.indices is None else self.among_all(proposal, choices)

    def pmf(self, context: Context) -> Array:
        """1 for the proposed action and 0 for the others; a `Ball` offers too many to list."""
        if isinstance(context, Ball):
            raise InvalidArgument(f"context is {context}, but must offer finitely many actions for pmf")
        return super().pmf(context)

    def origin(self, context: Context) -> float:
        return sum(self.reward_range) / 2 if isinstance(context, Ball) else super().origin(context)

    def _update(self, ridge: Ridge, row: Array, reward: float, weight: float) -> None:
        if weight > 0.0:
            forget(ridge, self.params.forgetting, ridge.updates.item())
        update(ridge, row, reward, weight)

    def _decide_on(self, ball: Ball) -> Proposal:
        ball.check_for(self.dim, self.action_bound)
        radius = optimistic_radius(self.params, self.memory)
        point = farthest_point(self.memory.theta, self.memory.factor, radius)
        point /= np.abs(point).max()  # so that squares of tiny entries do not underflow
        action = np.zeros(ball.dim)
        action[: self.dim] = point * (ball.radius / sqrt(float(point @ point)))
        means, squared_norms = evaluate(self.memory, action[None, :])
        mean = self.origin(ball) + float(means[0])
        lower, regret = lower_and_regret(self.params, mean, radius * sqrt(squared_norms[0]))
        return Proposal(action, lower, regret, 1.0, self._greedy_on(ball, action), mean)

    def _greedy_on(self, ball: Ball, action: Array) -> Array:
        """The vector of the ball in the direction of the estimate; `action` itself while the estimate is zero."""
        length = float(np.linalg.norm(self.memory.theta))
        if length == 0.0:
            return action
        greedy = np.zeros(ball.dim)
        greedy[: self.dim] = self.memory.theta * (ball.radius / length)
        return greedy

    def check_row(self, context: Context, action: Action) -> tuple[Array, bool]:
        if not isinstance(context, Ball):
            return super().check_row(context, action)
        context.check_for(self.dim, self.action_bound)
        return check_ball_action(context, action)[: self.dim], False


def closed_form_constant(
    rounds: int,
    *,
    noise: float = 0.5,
    norm_bound: float = 1.0,
    action_bound: float = 1.0,
    regularization: float = 1.0,
    delta: float = 0.01,
) -> float:
    """C of the selection paper's closed form d C sqrt(n) for OFUL's regret over `rounds` rounds.

    Section "Linear Bandits with Nested Model Classes", with L^2 in place of the L in its last logarithm (a misprint:
    the appendix has L^2).

    >>> round(closed_form_constant(20_000, noise=0.3), 1)
    44.1
    """
    growth = 1 + rounds * action_bound**2 / regularization
    logs = log(growth / delta) * log(growth)
    return 2 * (noise + sqrt(regularization) * norm_bound) * sqrt((1 + action_bound**2 / regularization) * logs)
