"""A linear Markov decision process with nested features: d* of d_max features matter, and nobody is told d*.

The first d* features phi(s, a) lie on the simplex. Feature j pays theta_h[j] and leads to the states with probabilities
mu_h(. | j), so rewards <phi, theta_h> and transitions <phi, mu_h> are exactly linear. The features beyond d* are noise
that fills up part of the norm to 1. Features up to d*/2 pay nothing, those beyond pay 1 or 0, half of them each, so who
sees only the first half cannot tell good actions from bad ones.

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
from equipoise.settings.checks import count, fraction
from equipoise.types import Array

SPARSITY = 0.1  # parameter of the Dirichlet law of phi: small, so that most weight lies on one or two features
SPREAD = 0.5  # parameter of the Dirichlet law of mu
DISTRACTOR_SHARE = 0.5  # of the norm that the first d* features leave


@configurable
class LinearMDP(FiniteMDP):
    """Nested linear decision process; `seed` fixes the instance. `misspecification` is zeta in [0, 1].

    `largest_error` is the true zeta of the instance: how far rewards, and transitions in total variation, are at most
    from the linear process it was built on.

    >>> problem = LinearMDP(n_states=4, n_actions=2, horizon=3, d_max=4, d_star=2)
    >>> problem.features.shape, problem.largest_error
    ((4, 2, 4), 0.0)
    >>> problem.gap(0, problem.optimal_policy)
    0.0
    """

    n_states: int = setting(default=20, check=partial(count, most=10_000), kw_only=False)
    n_actions: int = setting(default=4, check=partial(count, least=2, most=10_000), kw_only=False)
    horizon: int = setting(default=5, check=partial(count, most=10_000), kw_only=False)
    d_max: int = setting(default=16, check=partial(count, most=10_000), kw_only=False)
    d_star: int = setting(default=8, check=partial(count, least=2), kw_only=False)
    misspecification: float = setting(default=0.0, check=fraction)
    seed: int = setting(default=0, check=partial(count, least=0))

    def _set_up(self) -> None:
        super()._set_up()
        if self.d_star > self.d_max:
            raise InvalidArgument(f"d_star is {self.d_star!r}, but must be at most d_max = {self.d_max}")
        shape, steps, zeta = (self.n_states, self.n_actions), self.horizon, self.misspecification
        off = f", zeta={zeta:g}" if zeta else ""
        self.name = f"LinearMDP(d*={self.d_star} of {self.d_max}, S={shape[0]}, A={shape[1]}, H={steps}{off})"
        rng = generator_at(self.seed, INSTANCE)
        signal = rng.dirichlet(np.full(self.d_star, SPARSITY), shape)
        features = np.concatenate([signal, _distractors(signal, self.d_max - self.d_star, rng)], axis=-1)
        # A product of rows that sum to 1 only up to rounding may leave [0, 1] in the last digit.
        rewards = (signal @ _draw_theta(steps, self.d_star, rng).T).clip(0.0, 1.0).transpose(2, 0, 1)
        measures = rng.dirichlet(np.full(shape[0], SPREAD), (steps, self.d_star))
        transitions = np.einsum("saj,hjt->hsat", signal, measures)
        linear_rewards, linear_transitions = rewards, transitions
        if zeta:
            rewards = (1 - zeta) * rewards + zeta * rng.integers(0, 2, (steps, *shape))
            transitions = (1 - zeta) * transitions + zeta * rng.dirichlet(np.full(shape[0], SPREAD), (steps, *shape))
        variation = np.abs(transitions - linear_transitions).sum(-1).max() / 2
        self.largest_error = float(max(np.abs(rewards - linear_rewards).max(), variation))
        self._build(np.ascontiguousarray(rewards), transitions, np.full(shape[0], 1 / shape[0]), features)


def _distractors(signal: Array, n_columns: int, rng: np.random.Generator) -> Array:
    """Random directions that fill up a share of what the signal leaves of norm 1."""
    directions = rng.standard_normal((*signal.shape[:2], n_columns))
    left = np.sqrt(np.maximum(1 - (signal**2).sum(-1, keepdims=True), 0.0))
    norms = np.linalg.norm(directions, axis=-1, keepdims=True)
    directions *= DISTRACTOR_SHARE * left / np.maximum(norms, 1e-12)
    return directions


def _draw_theta(horizon: int, d_star: int, rng: np.random.Generator) -> Array:
    """(H, d*) what the features pay at each step."""
    n_plain = d_star // 2
    payoffs = np.arange(1, d_star - n_plain + 1) % 2
    return np.stack([np.concatenate([np.zeros(n_plain), rng.permutation(payoffs)]) for _ in range(horizon)])
