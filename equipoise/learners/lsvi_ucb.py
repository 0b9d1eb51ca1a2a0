"""LSVI-UCB: optimistic least-squares value iteration for linear Markov decision processes.

Rewards and transitions of step h are linear in features phi(s, a) of norm at most 1. Backwards in h, ridge regression
of r + max_a Q_{h+1}(s', a) on the features of all past steps estimates Q_h, and the bonus beta ||phi|| in Lambda_h^{-1}
makes it optimistic; the policy is greedy. On a finite state space the targets of all past steps enter through the sums
of phi by successor state, so an episode costs O(H (S A d + d^2)), independent of the number of past episodes.

Reference: Jin, Yang, Wang and Jordan (2020), "Provably efficient reinforcement learning with linear function
approximation", algorithm 1, theorem 3.1, and theorem 3.2 for zeta.
Symbols: Lambda^{-1} inverses, w weights, c_b bonus, iota log_term, p the share of delta for optimism, zeta
misspecification, K episodes, beta = c_b H (d sqrt(iota) + zeta sqrt(k d)), iota = ln(2 d K H / p), lambda = 1.
Departures: Q_h is also clipped at 0, as the proof assumes, and at H - h + 1 instead of H, which is at least as tight.
The value of the theorem's absolute constant c_b is not published, so it is a setting. `low_switching` replans only when
the determinant of some Lambda_h has doubled since the last plan (the rule of Abbasi-Yadkori, Pal and Szepesvari (2011),
section 5.1, in every step); that is a different algorithm, with O(d H ln K) plans and a larger constant in its regret.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import LinearSqrt, Power
from equipoise.kernels.boundaries import STITCHED_FACTOR, stitched_bracket, stitched_level
from equipoise.kernels.marks import kernel, native
from equipoise.learners._core.episodic import (
    DIM,
    FEATURES,
    PlanningLearner,
    Process,
    Table,
    check_features,
    new_plan,
    used_features,
)
from equipoise.settings import Numbers, configurable, setting
from equipoise.settings.checks import count, non_negative, positive, probability
from equipoise.settings.sizes import check_array
from equipoise.types import Array, Integers

LOG_2 = log(2.0)


class Params(NamedTuple):
    rows: Array  # (S A, d) features; row state * A + action
    n_actions: int
    base_radius: float  # c_b H d sqrt(iota)
    radius_growth: float  # c_b H zeta sqrt(d)
    bias: float  # of one backup, 4 H zeta
    low_switching: bool


class Memory(NamedTuple):
    inverses: Array  # (H, d, d) Lambda_h^{-1}
    reward_sums: Array  # (H, d) sums of phi r
    successor_sums: Array  # (H, S, d) sums of phi over the steps that led to each state
    log_determinants: Array  # (H,)
    planned_log_determinants: Array  # (H,) when the plan was made
    policy: Table  # (H, S)
    widths: Array  # (H, S)
    episodes: Integers  # (1,)
    width_sum: Array  # (1,)


@kernel
def learn_episode(params: Params, memory: Memory, states: Table, actions: Table, rewards: Array) -> None:
    """Learn from the steps of an episode, then plan the next one."""
    growth = 0.0
    for h in range(len(states)):
        row = params.rows[states[h] * params.n_actions + actions[h]]
        memory.log_determinants[h] += log(add_row(memory.inverses[h], row))
        growth = max(growth, memory.log_determinants[h] - memory.planned_log_determinants[h])
        memory.reward_sums[h] += rewards[h] * row
        if h + 1 < len(states):
            memory.successor_sums[h, states[h + 1]] += row
    if not params.low_switching or growth >= LOG_2:
        plan(params, memory)


@kernel
def add_row(inverse: Array, row: Array) -> float:
    """Update Lambda^{-1} to (Lambda + row row^T)^{-1} in place; return the ratio of the determinants of Lambda."""
    image = inverse.dot(row)
    ratio = float(1.0 + row.dot(image))
    inverse -= np.outer(image, image / ratio)
    return ratio


@kernel
def plan(params: Params, memory: Memory) -> None:
    """Value iteration on optimistic estimates, from the last step back."""
    horizon, n_states = memory.policy.shape
    radius = params.base_radius + params.radius_growth * sqrt(memory.episodes[0] + 1.0)
    values = np.zeros(n_states)
    for h in range(horizon - 1, -1, -1):
        steps_left = float(horizon - h)
        plan_step(params, memory, h, radius, steps_left, values)
        memory.planned_log_determinants[h] = memory.log_determinants[h]


@kernel
def plan_step(params: Params, memory: Memory, h: int, radius: float, steps_left: float, values: Array) -> None:
    """Compute policy and widths of step h; `values` of the next step are replaced by those of this step."""
    rows, shape = params.rows, (len(values), params.n_actions)
    images = rows.dot(memory.inverses[h])
    bonuses = radius * np.sqrt(np.maximum(np.vecdot(images, rows), 0.0))
    means = images.dot(memory.reward_sums[h] + values.dot(memory.successor_sums[h]))
    optimistic = np.minimum(np.maximum(means + bonuses, 0.0), steps_left)
    memory.policy[h] = optimistic.reshape(shape).argmax(1)
    chosen = np.arange(shape[0]) * shape[1] + memory.policy[h]
    values[:] = optimistic[chosen]
    memory.widths[h] = np.minimum(2.0 * (bonuses[chosen] + params.bias), steps_left * (1.0 + params.bias))


@native(add_row, reassociate=True)
def _add_row(inverse: Array, row: Array) -> float:
    dim = len(row)
    image, ratio = np.zeros(dim), 1.0
    for i in range(dim):
        for j in range(dim):
            image[i] += inverse[i, j] * row[j]
        ratio += row[i] * image[i]
    for i in range(dim):
        for j in range(dim):
            inverse[i, j] -= image[i] * image[j] / ratio
    return ratio


@native(plan_step, reassociate=True)
def _plan_step(params: Params, memory: Memory, h: int, radius: float, steps_left: float, values: Array) -> None:
    rows, inverse, n_actions = params.rows, memory.inverses[h], params.n_actions
    n_states, dim = len(values), rows.shape[1]
    target_sums, weights = memory.reward_sums[h].copy(), np.zeros(dim)
    for state in range(n_states):
        for i in range(dim):
            target_sums[i] += values[state] * memory.successor_sums[h, state, i]
    for i in range(dim):
        for j in range(dim):
            weights[i] += inverse[i, j] * target_sums[j]
    for state in range(n_states):
        best = -1.0
        for action in range(n_actions):
            row = rows[state * n_actions + action]
            mean = squared_norm = 0.0
            for i in range(dim):
                image = 0.0
                for j in range(dim):
                    image += inverse[i, j] * row[j]
                mean += row[i] * weights[i]
                squared_norm += row[i] * image
            bonus = radius * sqrt(max(squared_norm, 0.0))
            optimistic = min(max(mean + bonus, 0.0), steps_left)
            if optimistic > best:
                best = optimistic
                memory.policy[h, state] = action
                memory.widths[h, state] = min(2.0 * (bonus + params.bias), steps_left * (1.0 + params.bias))
        values[state] = best


@configurable
class LSVI_UCB(PlanningLearner[Params, Memory]):  # noqa: N801 - the name in the literature
    """Optimistic least-squares value iteration on the features of a finite episodic process.

    Examples
    --------
    >>> from equipoise.learners._core.trajectory import Trajectory
    >>> learner = LSVI_UCB([[[1.0, 0.0], [0.0, 1.0]]], horizon=1, episodes=10, bonus=0.1)
    >>> for _ in range(30):
    ...     policy = learner.decide(0).action
    ...     learner.learn(0, Trajectory([0], policy[:, 0], [float(policy[0, 0] == 1)]), reward=0.0)
    >>> learner.decide(0).action.tolist()
    [[1]]
    """

    features: Numbers = setting(FEATURES, check_features, kw_only=False)
    dim: int = setting(DIM, default=None, kw_only=False)
    bonus: float = setting("Constant c_b of the exploration bonus, positive.", positive, default=1.0)
    misspecification: float = setting(
        "Distance zeta between the process and a linear one, not negative.", non_negative, default=0.0
    )
    low_switching: bool = setting(
        "Whether to compute a new plan only after the determinant of some Lambda_h has doubled.", default=False
    )

    learn_episode = staticmethod(learn_episode)

    def _set_up(self) -> None:
        self.dim = used_features(self.features, self.dim)
        super()._set_up()
        self.n_states, self.n_actions, _ = self.features.shape
        self.process = Process(self.n_states, self.n_actions, self.horizon)
        scale = self.bonus * self.horizon
        log_term = log(2 * self.dim * self.episodes * self.horizon / (self.delta / 2))
        self.params = Params(
            np.ascontiguousarray(self.features[:, :, : self.dim].reshape(-1, self.dim)),
            self.n_actions,
            scale * self.dim * sqrt(log_term),
            scale * self.misspecification * sqrt(self.dim),
            4 * self.horizon * self.misspecification,
            self.low_switching,
        )
        steps, n_states, dim = self.horizon, self.n_states, self.dim
        check_array("horizon * dim * max(dim, n_states)", steps, dim, max(dim, n_states))
        inverses, sums = np.tile(np.eye(dim), (steps, 1, 1)), (np.zeros((steps, dim)), np.zeros((steps, n_states, dim)))
        self.memory = Memory(inverses, *sums, np.zeros(steps), np.zeros(steps), *new_plan(steps, n_states))
        plan(self.params, self.memory)

    def default_name(self) -> str:
        error_suffix = f", zeta={self.misspecification:g}" if self.misspecification else ""
        switching_suffix = ", low switching" if self.low_switching else ""
        return f"LSVI-UCB(d={self.dim}, c={self.bonus:g}{error_suffix}{switching_suffix})"

    @property
    def max_width(self) -> float:
        return float(1 + self.params.bias) * super().max_width

    def misspecified_bound(self, max_misspecification: float) -> LinearSqrt:
        """The closed form of the observed bound in n <= `episodes` episodes, for ladders of zeta.

        Theorem 3.2 of the reference has H^2 sqrt(d^3 n) + zeta d H^2 n, without constants; here they are explicit. Sums
        of ||phi|| are at most sqrt(2 d n ln(1 + n/d)), so the widths of n episodes add up to at most
        2 c_b H^2 (d sqrt(iota) + zeta sqrt(n d)) sqrt(2 d n ln(1 + n/d)) + 8 H^2 zeta n,
        to which the observed bound adds 0.85 B sqrt(n (ln ln 2n + ...)), B = (1 + 4 H zeta) H (H + 1) / 2. Logarithms
        are taken at `episodes`, and zeta in B is `max_misspecification`, so that the bounds of a ladder differ in their
        slopes only. It holds whenever the optimistic values do; that c_b suffices for those is an assumption.

        >>> learner = LSVI_UCB(np.eye(4)[None], horizon=3, episodes=10**5, misspecification=2**-6, bonus=0.02)
        >>> bound = learner.misspecified_bound(0.5)
        >>> round(bound.slope, 2), round(bound.coefficient)
        (1.23, 159)
        """
        d, steps, n, share = self.dim, self.horizon, self.episodes, self.delta / 2
        growth, log_term = log(1 + n / d), log(2 * d * n * steps / share)
        scale = 2 * sqrt(2 * growth) * self.bonus * steps**2
        largest = non_negative("max_misspecification", max_misspecification)
        max_width = (1 + 4 * steps * largest) * steps * (steps + 1) / 2
        deviation = STITCHED_FACTOR / 2 * max_width * sqrt(stitched_bracket(n, stitched_level(share / 2)))
        slope = (scale * d + 8 * steps**2) * self.misspecification
        return LinearSqrt(slope, scale * d**1.5 * sqrt(log_term) + deviation)


def paper_bound(dim: int, *, horizon: int, episodes: int, d_max: int, delta: float = 0.01) -> Power:
    """H^2 sqrt(d^3 n) ln(d_max T / delta): the bound that the selection paper assumes for LSVI-UCB on d features.

    Section "Linear Markov Decision Processes with Nested Model Classes"; the selector takes its minimum with H n.

    >>> round(paper_bound(2, horizon=5, episodes=10_000, d_max=16).coefficient)
    1173
    """
    log_term = log(count("d_max", d_max) * count("episodes", episodes) / probability("delta", delta))
    return Power(count("horizon", horizon) ** 2 * count("dim", dim) ** 1.5 * log_term)
