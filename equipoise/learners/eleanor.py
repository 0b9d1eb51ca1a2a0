"""ELEANOR: global optimism for processes with approximately linear values.

Per episode it maximizes the value of the start state over parameters tb_h = th_h + xi_h, th_h the least-squares fit of
r + max_a phi tb_{h+1} and xi_h in an ellipsoid of radius sqrt(alpha_h) = sqrt(beta_h) + eps sqrt(k) in the norm of
Sigma_h, and plays greedily. The regret is of order sum_h d sqrt(K) + sum_h sqrt(d) eps K, eps the inherent Bellman
error.

Reference: Zanette, Lazaric, Kochenderfer and Brunskill (2020), "Learning near optimal policies with low inherent
Bellman error", algorithm 1 and theorem 1.
Symbols: xi_h = sqrt(alpha_h) F_h u_h with Sigma_h^{-1} = F_h F_h^T and ||u_h|| <= 1; eps misspecification.
Solver. No efficient method is known. With the greedy actions fixed the program is linear in u and separates: one
adjoint pass gives g_h, the gradient in tb_h, and u_h = F_h^T g_h / ||F_h^T g_h||. That is repeated with the new greedy
actions, from several starting points and for every first action, and the best point found is refined by a projected
direct search. For H = 1 the first pass is exact and ELEANOR is OFUL with radius sqrt(beta) + eps sqrt(k). For H > 1 the
solver is *local*: the value found may be below the optimum, so optimism, and with it the theorem, is not guaranteed.
Departures: the bound on ||tb_h||, which makes the fixed-action program a cone program, is omitted (this preserves
optimism), and `norm_ratio` reports how far a plan exceeds it; beta_h has the form of OFUL's for targets in
[0, H - h + 1], and `scale` replaces the factor of the covering argument. There is no observed regret bound, as values
are not clipped.
"""

from __future__ import annotations

from functools import partial
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from equipoise.bounds import LinearSqrt
from equipoise.kernels.streams import generator_at
from equipoise.learner import Proposal
from equipoise.learners._core.base import KernelLearner
from equipoise.learners._core.episodic import (
    DIM,
    FEATURES,
    HORIZON,
    Process,
    Table,
    check_features,
    check_size,
    delta_setting,
    used_features,
)
from equipoise.settings import Numbers, configurable, setting
from equipoise.settings.checks import count, non_negative, positive
from equipoise.settings.sizes import check_array
from equipoise.types import Action, Array, Context, Integers

MAX_PASSES = 12  # of the fixed-action program from one starting point; it need not converge


class Memory(NamedTuple):
    factors: Array  # (H, d, d) F_h
    reward_sums: Array  # (H, d)
    successor_sums: Array  # (H, S, d)
    log_determinants: Array  # (H,)
    rows: Integers  # (H,) number of rows in Sigma_h


class Program(NamedTuple):
    """The program of one episode as arrays."""

    rows: Array  # (S, A, d)
    maps: Array  # (H, S, d) effect of the value of each state on th_h
    offsets: Array  # (H, d) contribution of the rewards to th_h
    ellipsoids: Array  # (H, d, d) sqrt(alpha_h) F_h

    def values(self, directions: Array) -> tuple[Array, Table, Array]:
        """(S,) values of step 1, (H, S) greedy actions and (H, d) parameters at a point u."""
        horizon, n_states = self.maps.shape[:2]
        values, every_state = np.zeros(n_states), np.arange(n_states)
        policy, parameters = np.empty((horizon, n_states), np.int64), np.empty((horizon, self.rows.shape[2]))
        for h in reversed(range(horizon)):
            parameters[h] = self.offsets[h] + values @ self.maps[h] + self.ellipsoids[h] @ directions[h]
            action_values = self.rows @ parameters[h]
            policy[h] = action_values.argmax(1)
            values = action_values[every_state, policy[h]]
        return values, policy, parameters

    def maximizer(self, policy: Table, row: Array) -> Array:
        """The best point u with the greedy actions fixed; `row` holds the features of the first action."""
        gradient, directions = row, np.zeros_like(self.offsets)
        for h in range(len(directions)):
            image = self.ellipsoids[h].T @ gradient
            length = sqrt(float(image @ image))
            directions[h] = image / length if length > 0.0 else 0.0
            if h + 1 < len(directions):
                weights = self.maps[h] @ gradient
                gradient = weights @ self.rows[np.arange(len(weights)), policy[h + 1]]
        return directions

    def solve(self, start: int, starts: list[Array], finest_step: float) -> Array:
        """The best point found: fixed-action passes from every start and first action, then direct search."""
        found = []
        for first in starts:
            best, best_value = first, float(self.values(first)[0][start])
            for row in self.rows[start]:
                point = first
                for _ in range(MAX_PASSES):
                    point, before = self.maximizer(self.values(point)[1], row), point
                    value = float(self.values(point)[0][start])
                    if value > best_value:
                        best, best_value = point, value
                    if np.allclose(point, before, rtol=0.0, atol=1e-9):
                        break
            found.append((best_value, best))
        if len(self.maps) == 1:
            return max(found, key=lambda pair: pair[0])[1]
        return max((self.refine(start, point, finest_step) for _, point in found), key=lambda pair: pair[0])[1]

    def refine(self, start: int, point: Array, finest_step: float) -> tuple[float, Array]:
        """Projected direct search along the coordinates of all u_h; the step is halved when no coordinate improves."""
        best, step = float(self.values(point)[0][start]), 0.5
        while step > finest_step:
            improved = False
            for h, i in np.ndindex(point.shape):
                for sign in (step, -step):
                    trial = point.copy()
                    trial[h, i] += sign
                    trial[h] /= max(1.0, sqrt(float(trial[h] @ trial[h])))
                    value = float(self.values(trial)[0][start])
                    if value > best:
                        best, point, improved = value, trial, True
            step = step if improved else step / 2
        return best, point


@configurable
class Eleanor(KernelLearner[None, Memory]):
    """ELEANOR on the features of a finite episodic process; for H > 1 its solver finds a local optimum only.

    Examples
    --------
    >>> learner = Eleanor([[[1.0, 0.0], [0.0, 1.0]]], horizon=1)
    >>> learner.decide(0).action.tolist()
    [[0]]
    """

    features: Numbers = setting(FEATURES, check_features, kw_only=False)
    dim: int = setting(DIM, default=None, kw_only=False)
    horizon: int = setting(HORIZON, check_size)
    delta: float = delta_setting(doc="Probability in (0, 1) that an ellipsoid fails.")
    misspecification: float = setting("Inherent Bellman error eps, not negative.", non_negative, default=0.0)
    norm_bound: float = setting(
        "Upper bound on the norms of the parameters of values in [0, 1], positive.", positive, default=1.0
    )
    scale: float = setting("Factor of the confidence radius, positive.", positive, default=1.0)
    n_starts: int = setting(
        "Number of random starting points of the solver, besides the estimate.", partial(count, minimum=0), default=2
    )
    finest_step: float = setting(
        "Step size at which the direct search of the solver stops, positive.", positive, default=1e-4
    )

    def _set_up(self) -> None:
        self.dim = used_features(self.features, self.dim)
        super()._set_up()
        self.n_states, self.n_actions, _ = self.features.shape
        self.process = Process(self.n_states, self.n_actions, self.horizon)
        check_array("horizon * dim * max(dim, n_states)", self.horizon, self.dim, max(self.dim, self.n_states))
        self._rows = np.ascontiguousarray(self.features[:, :, : self.dim])
        self.memory = Memory(
            np.tile(np.eye(self.dim), (self.horizon, 1, 1)),
            np.zeros((self.horizon, self.dim)),
            np.zeros((self.horizon, self.n_states, self.dim)),
            np.zeros(self.horizon),
            np.zeros(self.horizon, np.int64),
        )

    def default_name(self) -> str:
        return f"ELEANOR(d={self.dim}, eps={self.misspecification:.3g})"

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the greedy policy of the most optimistic parameters that the solver finds for this start state."""
        start, program = self.process.check_state(context), self.program()
        return Proposal(program.values(program.solve(start, self._starts(), self.finest_step))[1])

    def norm_ratio(self, context: Context) -> float:
        """max_h ||tb_h|| / ((H - h + 1) norm_bound) of the plan for a start state.

        Above 1, the plan uses parameters beyond the bound that the theorem assumes and this solver omits.
        """
        start, program = self.process.check_state(context), self.program()
        parameters = program.values(program.solve(start, self._starts(), self.finest_step))[2]
        steps_left = np.arange(self.horizon, 0.0, -1.0)
        return float((np.linalg.norm(parameters, axis=1) / (steps_left * self.norm_bound)).max())

    def radii(self) -> Array:
        """(H,) sqrt(alpha_h)."""
        steps_left = np.arange(self.horizon, 0.0, -1.0)
        log_term = 2 * log(self.horizon / self.delta)
        own = steps_left * (0.5 * np.sqrt(self.memory.log_determinants + log_term) + self.norm_bound)
        radii: Array = self.scale * own + self.misspecification * np.sqrt(self.memory.rows)
        return radii

    def program(self) -> Program:
        """The program of the next episode."""
        memory = self.memory
        inverses = memory.factors @ memory.factors.transpose(0, 2, 1)
        maps = memory.successor_sums @ inverses
        offsets = np.einsum("hij,hj->hi", inverses, memory.reward_sums)
        return Program(self._rows, maps, offsets, self.radii()[:, None, None] * memory.factors)

    def _starts(self) -> list[Array]:
        shape = (self.n_starts, self.horizon, self.dim)
        drawn = generator_at(0, int(self.memory.rows[0])).standard_normal(shape)
        drawn /= np.linalg.norm(drawn, axis=-1, keepdims=True)
        return [np.zeros(shape[1:]), *drawn]

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from a trajectory. `reward`, its return in the units of the selector, is checked but not used."""
        memory, (states, actions, rewards) = self.memory, self.process.check_episode(context, action)
        self.check_reward(reward, weight)
        for h in range(len(states)):
            row = self._rows[states[h], actions[h]]
            image = memory.factors[h].T @ row
            squared_norm = float(image @ image)
            ratio = 1.0 + squared_norm
            memory.factors[h] -= np.outer(memory.factors[h] @ image, image) / (ratio + sqrt(ratio))
            memory.log_determinants[h] += log(ratio)
            memory.rows[h] += 1
            memory.reward_sums[h] += rewards[h] * row
            if h + 1 < len(states):
                memory.successor_sums[h, states[h + 1]] += row

    def paper_bound(self, constant: float = 1.0) -> LinearSqrt:
        """C H d sqrt(n) + C H sqrt(d) eps n, section "Linear Bandits and MDPs with Unknown Approximation Error".

        >>> Eleanor([[[0.5] * 4]], horizon=2, misspecification=0.5).paper_bound()
        LinearSqrt(slope=2.0, coefficient=8.0)
        """
        scale = positive("constant", constant) * self.horizon
        return LinearSqrt(scale * sqrt(self.dim) * self.misspecification, scale * self.dim)
