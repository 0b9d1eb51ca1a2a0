"""Health of logs: what must fail does, and what is fine passes."""

import json
from pathlib import Path

import numpy as np
import pytest

from equipoise.logs import from_arrays, open_log
from equipoise.logs import health as health_module
from equipoise.logs.health import Check, Health, health
from tests.logs.generate import event, linear_truth, write_lines


def check_of(found: Health, name: str) -> Check:
    (check,) = (check for check in found.checks if check.name == name)
    return check


def test_the_numbers_of_a_small_log() -> None:
    log = from_arrays(None, [0, 1, 1, 0], [1.0, 0.0, 0.5, 0.5], [0.5, 0.25, 0.5, 1.0], n_actions=3)
    found = health(log)
    weights = [2 / 3, 4 / 3, 2 / 3, 1 / 3]
    assert (found.n_rounds, found.n_actions, found.reward_range, found.mean_reward) == (4, 3, (0.0, 1.0), 0.5)
    assert found.mean_weight == pytest.approx(np.mean(weights))
    assert found.effective_sample_size == pytest.approx(sum(weights) ** 2 / sum(w**2 for w in weights))
    assert found.max_weight == pytest.approx(4 / 3)
    assert found.action_shares == (0.5, 0.5, 0.0)
    assert check_of(found, "support").text == "1 actions are never taken: 2"
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.statistical
def test_right_propensities_pass_and_wrong_ones_do_not() -> None:
    """50 logs of 5,000 rounds pass (delta 0.001 each, so that 5 % of such tests would fail; the seeds are fixed).
    Controls: propensities 15 % too large, those of another action, and a log that lost a fifth of one action."""
    for seed in range(50):
        assert health(linear_truth(5_000, seed).log()).passed
    truth = linear_truth(5_000, 0)
    too_large = np.minimum(truth.propensities * 1.15, 1.0)
    of_other = truth.pmf[np.arange(5_000), (truth.actions + 1) % 4]
    for wrong in (too_large, of_other):
        found = health(from_arrays(truth.contexts, truth.actions, truth.rewards, wrong))
        assert not found.passed
        assert check_of(found, "importance weights").passed is False


def test_a_rare_action_that_does_not_occur_is_fine_if_the_log_states_it() -> None:
    """37 % of these logs never take it, and 100 of 100 pass. Control: a probability ten times too small fails."""
    for seed in range(100):
        actions = (np.random.default_rng(seed).random(500) < 0.002).astype(int)
        pmf = np.tile([0.998, 0.002], (500, 1))
        assert health(from_arrays(None, actions, np.ones(500), pmf[np.arange(500), actions], pmf=pmf)).passed
    pmf, actions = np.tile([0.98, 0.02], (5_000, 1)), (np.random.default_rng(0).random(5_000) < 0.2).astype(int)
    assert not health(from_arrays(None, actions, np.ones(5_000), pmf[np.arange(5_000), actions], pmf=pmf)).passed


def test_known_probabilities_allow_actions_without_support() -> None:
    """Half of the actions are never taken: fine if the log says so, a fault if it does not."""
    rng = np.random.default_rng(0)
    actions, rewards, p = rng.integers(2, size=500), rng.random(500), np.full(500, 0.5)
    pmf = np.tile([0.5, 0.5, 0.0, 0.0], (500, 1))
    assert health(from_arrays(None, actions, rewards, p, pmf=pmf)).passed
    found = health(from_arrays(None, actions, rewards, p, n_actions=4))
    assert "propensities are too large, or some offered actions are never taken" in found.describe()
    assert not found.passed


def test_duplicates_and_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def log(ids: list[str], days: list[int]) -> Health:
        events = [
            event(t % 2, EventId=name, Timestamp=f"2026-11-{day:02d}T00:00:00Z")
            for t, (name, day) in enumerate(zip(ids, days, strict=True))
        ]
        return health(open_log(write_lines(tmp_path / "log.json", events)))

    names, days = [f"event {t}" for t in range(20)], list(range(1, 21))
    assert log(names, days).passed
    assert check_of(log([*names[:-1], names[0]], days), "duplicates").text.startswith("5.00% of the events")
    assert not log([*names[:-1], names[0]], days).passed
    backward = check_of(log(names, days[::-1]), "time order")
    assert backward.passed is False and backward.text.startswith("95.00% of the rows")
    monkeypatch.setattr(health_module, "MAX_IDS", 4)
    assert check_of(log(names, days), "duplicates").passed
    assert check_of(log(["same"] * 20, days), "duplicates").passed is False


def test_shifts_are_noted_but_do_not_fail() -> None:
    rng = np.random.default_rng(1)
    n = 2_000
    actions, p = rng.integers(2, size=n), np.full(n, 0.5)
    rewards = (rng.random(n) < np.where(np.arange(n) < n // 10, 0.9, 0.3)).astype(float)
    found = health(from_arrays(None, actions, rewards, p))
    shift = check_of(found, "shift of rewards")
    assert shift.passed is None and "in tenth 1 of the log" in shift.text
    assert found.passed
    assert check_of(found, "shift of action shares").passed
    late = np.where(np.arange(n) < n // 2, actions, 1)
    shares = check_of(health(from_arrays(None, late, rewards, np.where(late == 1, 0.6, 0.4))), "shift of action shares")
    assert shares.passed is None and "action" in shares.text
    assert np.allclose(found.segment_rewards, [rewards[k * 200 : k * 200 + 200].mean() for k in range(10)])
