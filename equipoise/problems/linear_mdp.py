"""A linear Markov decision process with nested features, of which the first d* of d_max matter; d* is unknown.

The first d* features phi(s, a) lie on the simplex. Feature j pays theta_h[j] and leads to the states with probabilities
mu_h(. | j), so rewards <phi, theta_h> and transitions <phi, mu_h> are exactly linear. The features beyond d* are noise,
scaled so that norms stay below 1. Features up to d*/2 pay nothing, and those beyond pay 1 or 0, half of them each, so a
learner that uses only the first half cannot tell good actions from bad ones.

With misspecification zeta, rewards and transitions are mixtures with a random non-linear part of weight zeta.

References: Jin, Yang, Wang and Jordan (2020), "Provably efficient reinforcement learning with linear function
approximation", assumptions A and B (linear, and linear up to zeta).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.streams import INSTANCE, generator_at
from equipoise.problems.finite_mdp import FiniteMDP
from equipoise.settings import configurable, setting
from equipoise.settings.checks import at_least_2, count, fraction, several, size
from equipoise.types import Array

FEATURE_CONCENTRATION = 0.1  # Dirichlet parameter of phi: small, so that one or two features have most of the weight

TRANSITION_CONCENTRATION = 0.5  # Dirichlet parameter of mu
DISTRACTOR_SHARE = 0.5  # of the norm that remains after the first d* features


@configurable
class LinearMDP(FiniteMDP):
    """A linear Markov decision process that depends on the first `d_star` of `d_max` features.

    The attribute `largest_error` is the true zeta of the instance: the largest distance of rewards, and of transitions
    in total variation, to the linear process that it was built from.

    Examples
    --------
    >>> problem = LinearMDP(n_states=4, n_actions=2, horizon=3, d_max=4, d_star=2)
    >>> problem.features.shape, problem.largest_error
    ((4, 2, 4), 0.0)
    >>> problem.gap(0, problem.optimal_policy)
    0.0
    """

    n_states: int = setting("Number of states S.", size, default=20, kw_only=False)
    n_actions: int = setting("Number of actions A in each state, at least 2.", several, default=4, kw_only=False)
    horizon: int = setting("Number of steps H of an episode.", size, default=5, kw_only=False)
    d_max: int = setting("Number of features.", size, default=16, kw_only=False)
    d_star: int = setting(
        "Number of features d* that affect rewards, from 2 to `d_max`.", at_least_2, default=8, kw_only=False
    )
    misspecification: float = setting(
        "Weight zeta in [0, 1] of a random nonlinear part of rewards and transitions.", fraction, default=0.0
    )
    seed: int = setting("Seed of the instance.", partial(count, minimum=0), default=0)

    def _set_up(self) -> None:
        super()._set_up()
        if self.d_star > self.d_max:
            raise InvalidArgument(f"d_star is {self.d_star!r}, but must be at most d_max = {self.d_max}")
        shape, steps, zeta = (self.n_states, self.n_actions), self.horizon, self.misspecification
        suffix = f", zeta={zeta:g}" if zeta else ""
        self.name = f"LinearMDP(d*={self.d_star} of {self.d_max}, S={shape[0]}, A={shape[1]}, H={steps}{suffix})"
        rng = generator_at(self.seed, INSTANCE)
        signal = rng.dirichlet(np.full(self.d_star, FEATURE_CONCENTRATION), shape)
        features = np.concatenate([signal, _distractors(signal, self.d_max - self.d_star, rng)], axis=-1)
        # Rows sum to 1 only up to rounding, so a product may exceed [0, 1] in the last digit.
        rewards = (signal @ _draw_theta(steps, self.d_star, rng).T).clip(0.0, 1.0).transpose(2, 0, 1)
        measures = rng.dirichlet(np.full(shape[0], TRANSITION_CONCENTRATION), (steps, self.d_star))
        transitions = np.einsum("saj,hjt->hsat", signal, measures)
        linear_rewards, linear_transitions = rewards, transitions
        if zeta:
            rewards = (1 - zeta) * rewards + zeta * rng.integers(0, 2, (steps, *shape))
            transitions = (1 - zeta) * transitions + zeta * rng.dirichlet(
                np.full(shape[0], TRANSITION_CONCENTRATION), (steps, *shape)
            )
        variation = np.abs(transitions - linear_transitions).sum(-1).max() / 2
        self.largest_error = float(max(np.abs(rewards - linear_rewards).max(), variation))
        self._build(np.ascontiguousarray(rewards), transitions, np.full(shape[0], 1 / shape[0]), features)


def _distractors(signal: Array, n_columns: int, rng: np.random.Generator) -> Array:
    """Random directions with a share of the norm that remains after the signal."""
    directions = rng.standard_normal((*signal.shape[:2], n_columns))
    remaining = np.sqrt(np.maximum(1 - (signal**2).sum(-1, keepdims=True), 0.0))
    norms = np.linalg.norm(directions, axis=-1, keepdims=True)
    directions *= DISTRACTOR_SHARE * remaining / np.maximum(norms, 1e-12)
    return directions


def _draw_theta(horizon: int, d_star: int, rng: np.random.Generator) -> Array:
    """(H, d*) rewards of the features at each step."""
    n_zero = d_star // 2
    payoffs = np.arange(1, d_star - n_zero + 1) % 2
    return np.stack([np.concatenate([np.zeros(n_zero), rng.permutation(payoffs)]) for _ in range(horizon)])
