"""Quick versions of the studies on public data: tools/studies/replay_ranking.py, adapter_prices.py, mixed_pools.py."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.adapters._core.outside import OutsideLearner
from equipoise.learners import OFUL
from tests.adapters.subjects import needs
from tools.studies import adapter_prices, mixed_pools, replay_ranking, reward_units
from tools.studies.public_data import LEARNERS, problems

pytestmark = [needs("sklearn"), needs("lightgbm"), needs("vowpalwabbit"), pytest.mark.slow, pytest.mark.compiled]


def test_the_learner_that_a_replay_ranks_first_is_good_live(capsys: pytest.CaptureFixture[str]) -> None:
    """Three learners whose live rewards differ by more than a tenth; control: the reverse order of the replay."""
    learners = ("UCB, no features", "OFUL", "Thompson sampling")
    assert replay_ranking.study(problems()["wine"], 300, 2, learners) == 2
    assert "one of the two best live in 2 of 2 seeds" in capsys.readouterr().out
    earned = np.array([[0.3, 0.9, 0.8], [0.3, 0.8, 0.9]])
    assert replay_ranking.hits_of(earned, earned) == 2 and replay_ranking.hits_of(-earned, earned) == 0


def test_a_portfolio_of_four_libraries_goes_on_identically() -> None:
    """Past the first model of LightGBM, which is fitted after 256 of its updates, only the full study goes."""
    _, rewards, same = adapter_prices.play_portfolio(problems()["breast cancer"], 120, 0, own_data=False)
    assert same and set(rewards.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("name", reward_units.LEARNERS)
def test_units_of_rewards_change_no_choice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: rewards that a library gets as they are."""
    wine = problems()["wine"]
    counts = [reward_units.wrong_choices(name, wine, limits, 60, 1) for limits in reward_units.RANGES]
    assert counts == [counts[0]] * len(counts) and 0 < counts[0][0] < 60
    monkeypatch.setattr(OutsideLearner, "share", lambda self, reward: reward)
    unscaled = [reward_units.wrong_choices(name, wine, limits, 60, 1) for limits in reward_units.RANGES]
    assert (unscaled == counts) == (name in ("OFUL", "Thompson sampling"))


def test_the_middle_as_origin_costs_regret_without_a_constant() -> None:
    low, middle = (reward_units.regret_from(origin, OFUL, 0, constant=False, rounds=500) for origin in (0.0, 0.5))
    assert middle > 1.5 * low


def test_logs_of_public_data_have_right_propensities() -> None:
    for problem in problems().values():
        log = problem.log(300, 0)
        (batch,) = log
        assert batch.pmf.sum(axis=1) == pytest.approx(1.0) and log.min_propensity > 0.03
        assert next(iter(log.each_round())).context.actions.shape == (problem.n_actions, problem.dim)
    assert len(LEARNERS) >= 6


def test_a_plain_class_costs_a_pool_that_shares_data_little() -> None:
    """Two seeds, so the limit is 1.3 in place of the 1.15 of the full study. Control: without sharing, the same pool
    has more than three times the regret of the five alone."""
    wine, seeds, rounds = problems()["wine"], (900, 901), 1_000
    alone = sum(mixed_pools.regret(wine, "", seed, rounds) for seed in seeds)
    added = sum(mixed_pools.regret(wine, "always action 0", seed, rounds) for seed in seeds)
    apart = sum(mixed_pools.regret(wine, "always action 0", seed, rounds, share_data=False) for seed in seeds)
    assert added <= 1.3 * alone < 3.0 * alone < apart
    assert mixed_pools.regret(wine, "always right", 900, rounds) < alone / 2
