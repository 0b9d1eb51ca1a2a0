"""Journals of portfolios as logs: rounds by hand, what is left out, what is a fault, and the command."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Offers, Portfolio
from equipoise.cli import main
from equipoise.errors import UnreadableFile
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.logs import InvalidLog, open_log
from equipoise.logs.estimators import dr, ips
from equipoise.logs.health import health
from equipoise.logs.intervals import betting
from equipoise.logs.models import evaluate, uniform
from equipoise.logs.replay import replay_portfolio
from equipoise.logs.rounds import Rounds
from tests.logs.generate import linear_truth


class First:
    """A learner for contexts of any kind; says nothing about its probabilities if it counts as randomized."""

    name = "first"

    def __init__(self, randomized: bool = False) -> None:
        self.randomized = randomized

    def decide(self, context: Any) -> int:
        if context is None:
            raise RuntimeError("nothing to decide on")
        return 0

    def learn(self, context: Any, action: int, reward: float) -> None:
        pass

    def config(self) -> dict[str, Any]:
        return {"randomized": self.randomized}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


def make(**settings: Any) -> Portfolio:
    return Portfolio([OFUL(3), EpsilonGreedy(4, epsilon=0.5)], seed=5, **{"explore": 0.3, **settings})


def only(path: Path, **settings: Any) -> Rounds:
    (batch,) = open_log(path, **settings)
    return batch


def test_rounds_of_a_journal(tmp_path: Path) -> None:
    """In the order of their rewards, some of which are late; one decision is withdrawn, one has no reward."""
    truth, path, decisions = linear_truth(40, 2), tmp_path / "shop.db", []
    with equipoise.open(path, make, snapshot_every=10) as live:
        for t in range(40):
            decisions.append(live.decide(truth.contexts[t], at=float(t)))
            if t % 2 and t < 39:
                for k in (t, t - 1):
                    if k != 4:
                        live.learn(decisions[k], float(truth.means[k, decisions[k].action]), at=t + 0.5)
        live.withdraw(decisions[4])
        rounds = only(path)  # while it is in use
        live.learn(decisions[38], 1.0, at=50.0)
        log = open_log(path)
        live.learn(decisions[39], 1.0, at=50.0)  # after the log was opened
        assert sum(batch.n_rounds for batch in log) == log.n_rounds == 38
    order = [k for t in range(1, 39, 2) for k in (t, t - 1) if k != 4]
    np.testing.assert_array_equal(rounds.offers, truth.contexts[order])
    chosen = [decisions[k] for k in order]
    assert rounds.actions.tolist() == [decision.action for decision in chosen]
    assert rounds.propensities.tolist() == [decision.propensity for decision in chosen]
    assert rounds.rewards.tolist() == truth.means[order, rounds.actions].tolist()
    assert rounds.times.tolist() == [k // 2 * 2 + 1.5 for k in order]
    assert len(set(rounds.ids.tolist())) == len(order) and np.isnan(rounds.pmf).all()
    assert log.n_excluded == 2 and log.shared_names == () and log.offer_names == ("a0", "a1", "a2")


def test_propensities_of_a_journal_pass_the_health_check(tmp_path: Path) -> None:
    """With an exploration floor; without it, the log must fail, as a deterministic learner leaves out actions."""
    truth = linear_truth(600, 3)
    for explore in (0.3, 0.0):
        path = tmp_path / f"{explore}.db"
        portfolio = Portfolio([OFUL(3)], explore=explore)
        with equipoise.open(path, portfolio) as live:
            live.learn_many([(live.decide(truth.contexts[t]).id, truth.means[t, 0]) for t in range(600)])
        assert health(open_log(path)).passed == (explore > 0.0)


def test_an_exploration_floor_bounds_the_probabilities_of_all_actions(tmp_path: Path) -> None:
    """The smallest one while rounds were decided. So a journal gives the largest weight, and can be replayed by
    rejection; without a floor, or with an unknown number of actions, it cannot."""
    truth, path = linear_truth(300, 3), tmp_path / "shop.db"
    with equipoise.open(path, Portfolio([OFUL(3)], explore=0.8)) as live:
        for t in range(300):
            if t == 100:
                live.reconfigure(explore=0.4)
            decision = live.decide(truth.contexts[t])
            live.learn(decision, float(truth.means[t, decision.action]))
        live.reconfigure(explore=0.1)  # after the last decision
    log = open_log(path)
    assert log.min_offered_exposure == pytest.approx(0.4 / 4) and log.min_propensity >= log.min_offered_exposure
    evaluation = evaluate(log, uniform, reward_range=(0, 1))
    assert evaluation.max_weight == pytest.approx(10.0)
    assert dr(evaluation).interval().name == "betting" and not ips(evaluation).refusals
    kept = replay_portfolio(log, Portfolio([OFUL(3), OFUL(1)])).rewards
    assert 5 < len(kept) < 100
    for name, portfolio in {"none": Portfolio([OFUL(3)]), "unknown": Portfolio([UCB(4)], explore=0.5)}.items():
        with equipoise.open(tmp_path / f"{name}.db", portfolio) as live:
            live.learn(live.decide(truth.contexts[0] if name == "none" else None), 1.0)
        assert not open_log(tmp_path / f"{name}.db").min_offered_exposure > 0.0
    named = Portfolio([UCB(4)], explore=0.5, action_names=("a", "b", "c", "d"))
    with equipoise.open(tmp_path / "named.db", named) as live:
        live.learn(live.decide(None), 1.0)
    assert open_log(tmp_path / "named.db").min_offered_exposure == 0.125


def test_named_actions_that_no_learner_has_are_not_explored(tmp_path: Path) -> None:
    """Three and later four names for three arms: the fourth action is never taken."""
    names, path = ("a", "b", "c", "d"), tmp_path / "shop.db"
    for n_names in (3, 4):
        with equipoise.open(path, Portfolio([UCB(3)], explore=0.5, action_names=names[:n_names])) as live:
            for _ in range(20):
                live.learn(live.decide(None), 1.0)
        log = open_log(path)
        assert log.n_actions == n_names and (log.min_offered_exposure > 0.0) is (n_names == 3)
        assert not open_log(path, n_actions=4).min_offered_exposure > 0.0


def test_contexts_of_every_kind(tmp_path: Path) -> None:
    cases: dict[str, tuple[list[Any], Any, Any]] = {
        "nothing": ([None, None], np.empty((2, 0)), np.empty((2, 4, 0))),
        "vector": ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]], np.empty((2, 4, 0))),
        "masked": (
            [Offers(np.eye(3), [7.0], mask=[False, True, True]), Offers(np.eye(3), [8.0])],
            [[7.0], [8.0]],
            [[[0, 1, 0], [0, 0, 1], [0, 0, 0]], np.eye(3)],
        ),
        "ids": (
            [Offers(None, ids=["red", "blue"]), Offers(None, ids=["blue", "gold"])],
            np.empty((2, 0)),
            [[[1, 0, 0], [0, 1, 0]], [[0, 1, 0], [0, 0, 1]]],
        ),
    }
    for name, (contexts, shared, offers) in cases.items():
        path = tmp_path / f"{name}.db"
        portfolio = Portfolio([First()]) if name == "vector" else Portfolio([UCB(4)], explore=1.0, seed=1)
        with equipoise.open(path, portfolio) as live:
            decisions = [live.decide(context) for context in contexts]
            for decision in decisions:
                live.learn(decision, 0.5)
        rounds = only(path, n_actions=4) if name in ("nothing", "vector") else only(path)
        np.testing.assert_array_equal(rounds.shared, shared)
        np.testing.assert_array_equal(rounds.offers, offers)
        actions = [decision.action for decision in decisions]
        assert rounds.actions.tolist() == ([actions[0] - 1, actions[1]] if name == "masked" else actions)
    assert open_log(tmp_path / "ids.db").offer_names == ("red", "blue", "gold")


def test_deadlines_and_parts_of_rewards(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    settings: dict[str, Any] = {"aggregate": "sum", "deadline": 2, "default_reward": 0.125, "explore": 1.0}
    with equipoise.open(path, Portfolio([UCB(2)], **settings)) as live:
        first = live.decide(None)
        live.learn(first, 0.25, key="click")
        live.learn(first, 0.5, key="sale")
        for _ in range(4):
            live.decide(None)
    log = open_log(path)
    assert next(iter(log)).rewards.tolist() == [0.75, 0.125]
    assert log.n_excluded == 3


def test_a_log_with_a_deadline_ends_before_the_first_open_decision(tmp_path: Path) -> None:
    """Ones of mean 0.3 come at once, zeros with the deadline: the latest rounds would have ones alone. At delta 0.05 an
    exact interval misses in both journals with probability below 0.003; the control, all known rewards, always."""
    settings: dict[str, Any] = {"deadline": 300, "default_reward": 0.0, "explore": 1.0}
    missed, misled = 0, 0
    for seed in range(2):
        path, rng, ones = tmp_path / f"{seed}.db", np.random.default_rng(seed), 0
        with equipoise.open(path, Portfolio([UCB(2)], **settings)) as live:
            for _ in range(700):
                decision = live.decide(None)
                if rng.random() < 0.3:
                    live.learn(decision, 1.0)
                    ones += 1
            known = np.repeat([1.0, 0.0], [ones, live.health()["expired"]])
        log = open_log(path, n_actions=2)
        rows = np.concatenate([batch.rows for batch in log])
        assert log.n_rounds + log.n_excluded == 700 and np.all(np.diff(rows) > 0)
        assert 399 <= log.n_rounds <= 420 and health(log).checks[2].passed  # order of times
        missed += not ips(evaluate(log, uniform, reward_range=(0, 1))).betting().contains(0.3)
        misled += not betting(known, 1.0 - known, (0.0, 1.0)).contains(0.3)
    assert missed < 2 and misled == 2


def test_faults_have_the_number_of_their_event(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    with equipoise.open(path, Portfolio([First(randomized=True)], fallback=1)) as live:
        for k, context in enumerate((np.eye(2), None, {"age": 3.0}, np.eye(3))):
            live.learn(live.decide(context, id=f"round {k}"), 1.0)
        live.redact(["round 0"])
    with pytest.raises(InvalidLog) as caught:
        open_log(path)
    assert str(caught.value).splitlines() == [
        "shop.db has 3 faulty rows, and nothing was used:",
        "  row 2: its context was removed from the journal, but is needed",
        "  row 6: the context is a dict, but must be a matrix, a vector, offers or None",
        "  row 8: features of the round and of each offer are 0 and 3, but must be 0 and 0 as those above",
    ]
    assert open_log(path, skip_bad_rows=3).n_rounds == 1  # that of the fallback, which was certain


def test_other_features_than_above_are_a_fault(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, Portfolio([UCB(4)], explore=1.0)) as live:
        for context in (np.eye(2), np.eye(3), Offers(None, ids=["a", "b"]), Offers(np.eye(2), [1.0])):
            live.learn(live.decide(context), 1.0)
    with pytest.raises(
        InvalidLog, match=r"(?s)row 4: features .* are 0 and 3, but must be 0 and 2 .*row 6: .*0 and ids"
    ):
        open_log(path)
    assert open_log(path, skip_bad_rows=3).n_rounds == 1


def test_damaged_and_foreign_databases(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, make()) as live:
        for _ in range(3):
            live.learn(live.decide(np.eye(4, 3)), 1.0)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE events SET time = time + 1 WHERE seq = 4")
    with pytest.raises(UnreadableFile, match="damaged event 4"):
        open_log(path)
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM events WHERE seq = 4")
    with pytest.raises(UnreadableFile, match="has no event 4, though later ones are there"):
        open_log(path)
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE events (seq)")
    with pytest.raises(UnreadableFile, match="is a database, but not a journal of equipoise"):
        open_log(tmp_path / "other.db")


@pytest.mark.compiled
def test_replay_of_a_journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = linear_truth(300, 4)
    with equipoise.open(tmp_path / "shop.db", make()) as live:
        for t in range(300):
            decision = live.decide(truth.contexts[t])
            live.learn(decision, float(truth.means[t, decision.action]))
    config = tmp_path / "portfolio.toml"
    config.write_text('version = 1\nname = "shop"\n[[learner]]\nuse = "OFUL"\ndim = 3\n')
    with pytest.raises(SystemExit) as caught:
        main(["replay", str(tmp_path / "shop.db"), "--config", str(config), "--out", str(tmp_path / "out")])
    assert caught.value.code in (None, 0)
    assert "shop.db: 300 rounds, 4 actions" in capsys.readouterr().out
    assert json.loads((tmp_path / "out" / "replay.json").read_text())["health"]["passed"]
