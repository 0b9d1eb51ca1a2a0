"""Learners with exactly known regret: what they lose is what they say, compiled and interpreted, whoever else plays."""

from math import e, floor, log, sqrt
from typing import Any

import numpy as np
import pytest

from equipoise.bounds import Observed
from equipoise.errors import InvalidArgument
from equipoise.learners import Scheduled
from equipoise.problems import GapBandit
from equipoise.selectors import BalancedElimination
from equipoise.simulation.tapes import Tapes, run_on_tapes

FAMILIES: list[tuple[tuple[str, float, float], Any]] = [
    (("power", 1.0, 1 / 3), lambda n: n ** (1 / 3)),
    (("power", 2.0, 0.5), lambda n: 2 * sqrt(n)),
    (("power", 0.5, 2 / 3), lambda n: 0.5 * n ** (2 / 3)),
    (("sqrt-log", 0.3, 0.05), lambda n: 0.3 * sqrt(n * log(max(n / 0.05, e)))),
    (("linear-sqrt", 1.0, 0.05), lambda n: 0.05 * n + sqrt(n)),
]


@pytest.mark.compiled
@pytest.mark.parametrize(("settings", "allowed"), FAMILIES, ids=[settings[0] for settings, _ in FAMILIES])
def test_recorded_regret_is_the_greatest_multiple_of_the_gap_within_the_schedule(settings: Any, allowed: Any) -> None:
    learner, marks, gap = Scheduled(*settings, gap=0.4), np.arange(1, 3001), 0.4
    curve = Tapes(GapBandit(gap=gap), [learner], marks, seed=3).curve(0)
    # After a start in which the schedule outruns the gap, the regret has caught up with it.
    assert curve[-1] == pytest.approx(gap * floor(allowed(3000) / gap + 1e-9))
    assert np.all(curve <= np.array([allowed(n) for n in marks.tolist()]) + 1e-9)
    assert [Scheduled(*settings, gap=gap).regret(n) for n in (1, 7, 500)] == pytest.approx(curve[[0, 6, 499]])
    losses = np.diff(np.concatenate([[0.0], curve]))
    assert set(np.round(losses, 9)) <= {0.0, gap}


@pytest.mark.compiled
def test_observed_bound_is_the_true_regret_and_the_candidate_bound_is_true() -> None:
    marks = np.array([2000])
    learners = [Scheduled("power", 1.0, 0.5), Scheduled("power", 3.0, 0.5)]
    tapes = Tapes(GapBandit(), learners, marks, seed=0)
    selector = BalancedElimination([Observed(), learners[1].bound()])
    curves, _ = run_on_tapes(tapes, selector)
    plays = curves.plays[-1]
    regrets = [Scheduled("power", c, 0.5).regret(int(n)) for c, n in zip((1.0, 3.0), plays, strict=True)]
    assert curves.regret[-1] == pytest.approx(sum(regrets))
    observed, claimed = (row.mean_bound * row.plays for row in selector.standing())
    assert observed == pytest.approx(regrets[0])
    assert claimed >= regrets[1]


def test_problem_and_learner_refuse_what_would_not_be_exact() -> None:
    with pytest.raises(InvalidArgument, match=r"poor is 0.1, but must be at least gap = 0.4"):
        GapBandit(poor=0.1)
    with pytest.raises(InvalidArgument, match=r"poor is 0.9, but must be at most rich = 0.5"):
        GapBandit(rich=0.5, poor=0.9)
    with pytest.raises(InvalidArgument, match=r"context is .*, but must be returned by `observe`"):
        GapBandit().means([[0.3], [0.3]])
    with pytest.raises(InvalidArgument, match=r"family is 'cubic', but must be one of power"):
        Scheduled("cubic", 1.0, 1.0)
    with pytest.raises(InvalidArgument, match="context has 1 rows, but must have at least 2"):
        Scheduled("power", 1.0, 0.5).decide([[1.0]])
