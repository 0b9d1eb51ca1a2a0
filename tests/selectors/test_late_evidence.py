"""What late and lost rewards may prove, by simulation, and what they must not stop: choosing well."""

import numpy as np
import pytest
from scipy.stats import binomtest

from equipoise.confidence import radius_sum
from equipoise.lab.audit.late import DelayOf, by_context, by_reward, independent, late_coins
from equipoise.selectors import GreedyMean
from tools.studies.late_rewards import (
    DELAYED_ROUNDS,
    LOSING,
    LOSING_ROUNDS,
    LOSS_SELECTORS,
    LOST,
    delay_selectors,
    losses,
    mean_regret,
    plays_with_delays,
)

DELTA = 0.05
FALSE_ALARM = 1e-6  # probability that a true claim is rejected, were it false in exactly a delta share of runs
RUNS, ROUNDS = 40, 700


def broken_runs(delay_of: DelayOf, **declared: bool) -> int:
    """Runs in which the certificate excludes the optimum at any time."""
    return sum(seen.violated for seed in range(RUNS) for seen in late_coins(seed, ROUNDS, delay_of, **declared))


@pytest.mark.statistical
def test_a_window_of_exogenous_delays_keeps_every_statement() -> None:
    """Rejected with probability at most FALSE_ALARM were the statements false in a delta share of runs."""
    broken = broken_runs(independent, exogenous=True)
    assert binomtest(broken, RUNS, DELTA, alternative="greater").pvalue >= FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("delay_of", [by_reward, by_context])
def test_delays_that_depend_on_rewards_or_contexts_break_what_is_declared_exogenous(delay_of: DelayOf) -> None:
    """Under "any" delays every statement holds, as above; the negative control declares them exogenous."""
    assert binomtest(broken_runs(delay_of), RUNS, DELTA, alternative="greater").pvalue >= FALSE_ALARM
    assert broken_runs(delay_of, exogenous=True) >= 0.7 * RUNS


def test_a_budget_over_late_learners_is_kept_and_one_that_is_forgotten_is_not() -> None:
    """500 learners that toss fair coins are added; in at most a delta share of runs may any of them leave its radius.

    With the shares of the selector this is rejected with probability at most FALSE_ALARM were the claim just false; if
    every learner spends all of delta, it must be rejected."""
    n_late, n_plays, n_runs, delta = 500, 150, 40, 0.3
    selector = GreedyMean(1, delta=delta, contexts="fixed")
    late = [selector.add_learner() for _ in range(n_late)]
    total = selector.certificate().delta
    assert delta < total < 2 * delta
    numbers = range(1, n_plays + 1)
    budgeted = np.array([[radius_sum(selector.confidence_of(i).radius, n) for n in numbers] for i in late])
    whole = selector._make_confidence(1, 2 * delta)  # alpha = delta / 2 on each side
    forgotten = np.array([radius_sum(whole.radius, n) for n in numbers])
    left = {"budgeted": 0, "forgotten": 0}
    for seed in range(n_runs):
        coins = np.random.default_rng([11, seed]).random((n_late, n_plays)) < 0.5
        deviations = np.abs(np.cumsum(coins - 0.5, axis=1))
        left["budgeted"] += bool((deviations > budgeted).any())
        left["forgotten"] += bool((deviations > forgotten).any())
    pvalues = {name: binomtest(n, n_runs, total - delta, alternative="greater").pvalue for name, n in left.items()}
    assert pvalues["budgeted"] >= FALSE_ALARM > pvalues["forgotten"]


@pytest.mark.slow
@pytest.mark.parametrize("label", LOSS_SELECTORS)
def test_lost_rewards_do_not_blind_the_choice(label: str) -> None:
    """One run: the best of three learners gets at least 95 % of the rounds, though 1 % of the rewards never arrive."""
    selector = LOSS_SELECTORS[label]()
    plays = plays_with_delays(selector, LOSING, losses(LOST, LOSING_ROUNDS, 1), 1)
    assert plays[-1] >= 0.95 * LOSING_ROUNDS
    if selector.delays == "any":
        ticket, n_waiting = selector.blocking()[2]
        row = selector.standing()[2]
        assert n_waiting == row.waiting > 10_000
        assert row.plays - row.pending == ticket - 1  # the play that all others wait for
        assert "with a reward that does not count yet" in row.describe("best")


@pytest.mark.slow
@pytest.mark.parametrize("label", list(delay_selectors(1.0))[1:])
def test_late_rewards_cost_no_more_than_they_cost_ucb1(label: str) -> None:
    """Two seeds of `tools.studies.late_rewards`, at an eighth of its rounds."""
    selectors, size = delay_selectors(500.0), (500.0, 2, DELAYED_ROUNDS // 8)
    assert mean_regret(selectors[label], *size) <= 1.5 * mean_regret(selectors["UCB1, whatever has arrived"], *size)
