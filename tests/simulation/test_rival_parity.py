"""Compiled from tapes, the rival selectors make to the bit the choices that they make as plain Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from equipoise.bounds import Power
from equipoise.lab.rivals import UCBC, ExploreCommitExploit, RateAdaptive
from equipoise.lab.runs.results import log_rounds
from equipoise.learners import Constant
from equipoise.problems import KArmedBandit
from equipoise.selectors import D3RB, ED2RB, EXP3, UCB1, DynamicBalancing, GreedyMean, Oracle, RegretBalancing, Uniform
from equipoise.simulation.tapes import Tapes, run_on_tapes
from tests.simulation.plain import Plain

ROUNDS = 2000
BOUNDS = [Power(0.02), Power(0.04), Power(0.08)]
# Narrow radii, so that learners are disproved within the horizon.
RIVALS: dict[str, Callable[[], Any]] = {
    "RegretBalancing": partial(RegretBalancing, BOUNDS),
    "DynamicBalancing": partial(DynamicBalancing, BOUNDS, scales=(1.0, 2.0, 1.0), radius_scale=0.2),
    "D3RB": partial(D3RB, 3, d_min=0.1, radius_scale=0.2),
    "ED2RB": partial(ED2RB, 3, d_min=0.1, radius_scale=0.2),
    "ExploreCommitExploit": partial(ExploreCommitExploit, BOUNDS, radius_scale=0.2),
    "RateAdaptive": partial(RateAdaptive, 3),
    "Uniform": partial(Uniform, 3),
    "GreedyMean": partial(GreedyMean, 3),
    "UCB1": partial(UCB1, 3),
    "EXP3": partial(EXP3, 3, rounds=ROUNDS),
    "Oracle": partial(Oracle, 3, best=1),
    "UCBC": partial(UCBC, BOUNDS, rounds=ROUNDS),
    "UCBC of copies": partial(UCBC, BOUNDS[:1], rounds=ROUNDS, copies=3),
}


@pytest.fixture(scope="module")
def tapes() -> Tapes:
    """Learners that always do the same: what is compared are the selectors."""
    problem = KArmedBandit([0.3, 0.5, 0.7])
    return Tapes(problem, [Plain(Constant(action)) for action in range(3)], log_rounds(ROUNDS), seed=6)


@pytest.mark.compiled
@pytest.mark.parametrize("name", RIVALS)
def test_a_compiled_rival_chooses_what_the_interpreted_one_chooses(name: str, tapes: Tapes) -> None:
    fast, slow = RIVALS[name](), RIVALS[name]()
    fast_curves, _ = run_on_tapes(tapes, fast)
    slow_curves, _ = run_on_tapes(tapes, Plain(slow))
    np.testing.assert_array_equal(fast_curves.plays, slow_curves.plays)
    np.testing.assert_array_equal(fast_curves.certified, slow_curves.certified)
    assert fast.eliminations == slow.eliminations
    assert fast.active == slow.active
    assert fast.kernel_state == slow.kernel_state
