"""Nested linear learners and the adversarial problems they are tested on."""

from typing import Any

from equipoise.bounds import Power
from equipoise.learners import OFUL
from equipoise.learners._core.linear_class import LinearClass
from equipoise.problems import AdversarialBandit
from equipoise.selectors import BalancedElimination

DIMS = (2, 4, 8, 16)


def classes_of(dims: list[int], **settings: Any) -> list[LinearClass]:
    return [LinearClass(f"learner {i}", dim, **settings) for i, dim in enumerate(dims)]


def learners(dims: tuple[int, ...] = DIMS, **settings: Any) -> list[OFUL]:
    return [OFUL(dim, **{"noise": 0.1, "norm_bound": 1.1, "regularization": 0.1, **settings}) for dim in dims]


def bandit(adversary: Any, seed: int = 0, d_star: int = 8) -> AdversarialBandit:
    return AdversarialBandit(16, d_star, 5, adversary=adversary, noise="uniform", noise_scale=0.2, seed=seed)


def common_bounds() -> BalancedElimination:
    """Algorithm 1 with one generous bound for all learners."""
    return BalancedElimination([Power(4.0)] * len(DIMS), noise=0.1)
