"""Selectors that tell only the chosen learner, and only its reward: what they have in common without bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidArgument
from equipoise.selectors import Uniform


def radius(n: int, n_learners: int, delta: float, width: float) -> float:
    """Howard et al. (2021), eq. (11), with the variance of bounded rewards and random contexts."""
    alpha = delta / (2 * (n_learners + 1))
    return 1.7 * math.sqrt(width**2 / 2 * n * (math.log(math.log(2 * n)) + 0.72 * math.log(5.2 / alpha)))


@given(st.integers(1, 5), st.lists(st.floats(0.0, 1.0), max_size=40), st.integers(0, 2**32))
def test_without_bounds_the_certificate_presumes_nothing(n_learners: int, rewards: list[float], seed: int) -> None:
    """Every learner has the bound w n, so the optimum may be as high as rewards can be, and nobody is eliminated."""
    low, width = -1.0, 3.0
    selector = Uniform(n_learners, reward_range=(low, low + width), seed=seed)
    total = 0.0
    for reward in rewards:
        selector.credit(selector.choose(), low + width * reward)
        total += low + width * reward
    certificate = selector.certificate()
    assert certificate.optimum_upper == low + width
    assert certificate.consistent and selector.eliminations == []
    t = len(rewards)
    pool = t * (low + width) - total + (radius(t, n_learners, 0.05, width) if t else 0.0)
    assert 0.0 <= certificate.regret_upper <= min(width * t, pool) + 1e-9
    for row in selector.standing():
        assert np.isnan(row.mean_bound) if row.plays == 0 else row.mean_bound == pytest.approx(width)


@pytest.mark.parametrize("n_learners", [0, -1, 1.5, True, "2", None])
def test_n_learners_must_be_a_count(n_learners: object) -> None:
    with pytest.raises(InvalidArgument, match=r"n_learners is .*, but must be a whole number at least 1"):
        Uniform(n_learners)  # type: ignore[arg-type]


def test_config_has_the_number_of_learners_in_place_of_bounds() -> None:
    config = Uniform(3, seed=8, delta=0.2).config()
    assert (config["n_learners"], config["seed"], "bounds" in config) == (3, 8, False)
    assert Uniform.from_config(config).config() == config
