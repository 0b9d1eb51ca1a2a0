"""A round in which no learner can act changes nothing, whatever it would have left out of evidence."""

from typing import Any

import pytest

from equipoise import Portfolio
from equipoise.errors import NoLearnerAvailable
from equipoise.journal import digest
from equipoise.learners import UCB
from equipoise.selectors import EXP3, RealizedBalancing


class Refuses(UCB):
    """Cannot decide for some visitors."""

    def decide(self, context: Any, rng: Any = None) -> Any:
        if context == "refused":
            raise RuntimeError("not for this visitor")
        return super().decide(None, rng)


@pytest.mark.parametrize("selector", [RealizedBalancing, EXP3])
def test_a_round_that_fails_leaves_no_play_out(selector: Any) -> None:
    portfolio = Portfolio([Refuses(2), Refuses(2, scale=0.5)], selector(2), delays="exogenous", window=3)
    first = portfolio.decide("welcome")
    for _ in range(2):
        portfolio.decide("welcome")
    before = digest(portfolio)
    with pytest.raises(NoLearnerAvailable):
        portfolio.decide("refused")
    assert digest(portfolio) == before
    portfolio.learn(first, 1.0)
    assert sum(row.plays - row.pending for row in portfolio.standing()) == 1


def test_a_play_that_is_as_old_as_the_window_is_left_out() -> None:
    """The control: the round did happen."""
    portfolio = Portfolio([Refuses(2), Refuses(2, scale=0.5)], delays="exogenous", window=3)
    first = portfolio.decide("welcome")
    for _ in range(3):
        portfolio.decide("welcome")
    portfolio.learn(first, 1.0)
    assert sum(row.left_out for row in portfolio.standing()) == 1
