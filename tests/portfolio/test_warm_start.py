"""Warm starts: who learns a log and how, what the journal keeps of it, and when its rounds are evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument
from equipoise.journal.maintenance import compare
from equipoise.journal.recovery import digest
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.learners import OFUL, UCB, Constant, LinearThompson
from equipoise.portfolio.events import Event
from equipoise.portfolio.warm_start import LoggedRound
from equipoise.selectors import BalancedElimination
from tests.journal.shop import image, reopened
from tests.logs.generate import linear_truth

N = 200


class OwnRounds:
    """A learner that may learn only from rounds that it plays itself."""

    name = "own rounds"
    randomized = False

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: int, reward: float) -> None:
        raise AssertionError("it must not be taught a logged round")


class Asks(OwnRounds):
    """One that learns from others, with the probability of the action."""

    name = "asks"
    accepts = frozenset({"off_policy", "probability"})

    def __init__(self) -> None:
        self.told: list[float] = []

    def learn(self, context: Any, action: int, reward: float, *, probability: float = 0.0) -> None:
        self.told.append(probability)

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"told": np.array(self.told)}

    def restore(self, state: dict[str, Any]) -> None:
        self.told = state["told"].tolist()


def make() -> Portfolio:
    return Portfolio([OFUL(3), LinearThompson(2), UCB(4)], seed=3)


def recorded(portfolio: Portfolio) -> list[Event]:
    events: list[Event] = []
    portfolio.on_event(events.append)
    return events


def play(portfolio: Any, rounds: int) -> list[int]:
    """The actions of some more rounds."""
    truth, actions = linear_truth(rounds, 77), []
    for t in range(rounds):
        decision = portfolio.decide(truth.contexts[t], at=float(t))
        portfolio.learn(decision, float(truth.means[t, decision.action]), at=float(t))
        actions.append(int(decision.action))
    return actions


def test_learners_learn_the_log_with_the_propensities_that_they_need() -> None:
    truth = linear_truth(N, 1)
    portfolio = Portfolio([OFUL(3), UCB(4), OwnRounds(), asks := Asks()])
    result = portfolio.warm_start(truth.log())
    linear, arms = OFUL(3), UCB(4)
    for t in range(N):
        action, reward = int(truth.actions[t]), float(truth.rewards[t])
        linear.learn(truth.contexts[t], action, reward)
        arms.learn(truth.contexts[t], action, reward, float(1.0 / (4 * truth.propensities[t])))
    assert portfolio.learners[:2] == (linear, arms)
    np.testing.assert_array_equal(asks.told, truth.propensities)
    assert [row.rounds for row in result.learners] == [N, N, 0, N]
    assert result.describe().splitlines() == [
        "OFUL(d=3): 200 of 200 rounds, as logged",
        "UCB: 200 of 200 rounds, weighted by 1 / (K p)",
        "own rounds: 0 of 200 rounds, not learned: it learns only from rounds that it plays itself",
        "asks: 200 of 200 rounds, as logged",
        "evidence of the selector: 0 rounds, as another policy chose their actions",
    ]


def test_no_statement_counts_what_was_taught_and_the_portfolio_says_so() -> None:
    portfolio, other = make(), make()
    portfolio.warm_start(linear_truth(N, 1).log())
    assert portfolio.certificate() == other.certificate() and portfolio.standing() == other.standing()
    for text in (portfolio.describe(), portfolio.explain("UCB")):
        assert "It began with 200 logged rounds, which no statement counts." in text
    assert [row["logged_rounds"] for row in portfolio.health()["learners"]] == [N, N, N]
    marks = [(mark.kind, mark.reason) for mark in portfolio.history.marks]
    assert marks == [("learner_warmed", "200 rounds of arrays")] * 3
    assert "logged rounds" not in other.describe()


@pytest.mark.parametrize("evidence", [False, True])
def test_events_of_a_warm_start_fold_to_the_same_state(tmp_path: Path, evidence: bool) -> None:
    portfolio, folded = make(), make()
    events = recorded(portfolio)
    portfolio.warm_start(linear_truth(N, 1).log(), evidence=evidence)
    for event in events:
        folded.apply(event)
    portfolio.save(tmp_path / "portfolio.eqp")
    loaded = Portfolio.load(tmp_path / "portfolio.eqp")
    assert digest(folded) == digest(portfolio) == digest(loaded)
    assert play(folded, 30) == play(portfolio, 30) == play(loaded, 30)


@pytest.mark.parametrize("evidence", [False, True])
def test_a_journal_keeps_what_was_learned_over_a_crash(tmp_path: Path, evidence: bool) -> None:
    with equipoise.open(tmp_path / "shop.db", make, snapshot_every=10**9) as live:
        result = live.warm_start(linear_truth(N, 1).log(), evidence=evidence)
        crashed = image(tmp_path / "shop.db", tmp_path / "image")
        expected = play(live, 30)
    plain = make()
    assert plain.warm_start(linear_truth(N, 1).log(), evidence=evidence) == result
    with reopened(crashed) as again:
        assert again.health()["replayed"] == result.evidence
        assert again.certificate() == plain.certificate()
        assert play(again, 30) == expected == play(plain, 30)
    assert compare(SQLiteJournal(crashed, create=False)).differences == ()


def test_after_an_error_nobody_has_learned_anything() -> None:
    truth = linear_truth(N, 1)
    logged = list(truth.log().each_round())
    cases: dict[str, dict[str, Any]] = {
        r"'LinearThompson\(d=2\)' cannot learn row 9 of the log, and nothing was learned: InvalidArgument: context": {
            "context": np.ones((4, 1))
        },
        r"^reward is 7.0, but must lie in reward_range \(0, 1\) in row 9 of the log$": {"reward": 7.0},
        r"^propensity is 0.0 and weight 1.0 in row 9, but": {"propensity": 0.0},
        r"^propensity is nan and weight 1.0 in row 9, but": {"propensity": float("nan")},
    }
    for message, change in cases.items():
        portfolio = Portfolio([LinearThompson(2), OFUL(3)], seed=3)
        before, events = digest(portfolio), recorded(portfolio)
        bad = [*logged[:8], logged[8]._replace(**change), *logged[9:]]
        with pytest.raises(InvalidArgument, match=message):
            portfolio.warm_start(bad)
        assert digest(portfolio) == before and not events
    for log in ([], [1.0], "log.csv"):
        with pytest.raises(InvalidArgument, match=r"^log (has no rounds|is .*, but must be LoggedRounds or a list of)"):
            make().warm_start(log)  # type: ignore[arg-type]


def test_clipped_rewards_are_those_of_the_portfolio() -> None:
    logged = LoggedRound(np.eye(2), 0, 3.0, 0.5)
    clipped, other = Portfolio([OFUL(2)], reward_range=(0, 1), clip=True), Portfolio([OFUL(2)])
    clipped.warm_start([logged])
    other.warm_start([logged._replace(reward=1.0)])
    assert clipped.learners == other.learners


def test_only_learners_that_have_not_played_can_be_taught() -> None:
    log, portfolio = linear_truth(N, 1).log(), make()
    play(portfolio, 12)
    for evidence in (False, True):
        with pytest.raises(InvalidArgument, match="after 12 decisions, but must come before the first"):
            portfolio.warm_start(log, evidence=evidence)
    with pytest.raises(InvalidArgument, match=r"learners has 'UCB', which has played \d+ rounds, but must not have"):
        portfolio.warm_start(log, learners=["UCB"])
    name = portfolio.add_learner(OFUL(3, scale=0.5, name="late"))
    assert [row.rounds for row in portfolio.warm_start(log, learners=[name]).learners] == [N]
    with pytest.raises(InvalidArgument, match=r"no learner can learn the log \(own rounds: it learns only from"):
        Portfolio([OwnRounds()]).warm_start(log)


def test_a_learner_whose_own_statements_count_is_taught_no_weighted_rounds() -> None:
    """Weights that vary make the counts of UCB look more certain than they are, which an observed bound relies on."""
    log = linear_truth(N, 1).log()
    observed = Portfolio([OFUL(3), UCB(4)], BalancedElimination([Observed(), Observed()]))
    assert [row.rounds for row in observed.warm_start(log).learners] == [N, 0]
    stated = Portfolio([OFUL(3), UCB(4)], BalancedElimination([Observed(), Power(1.0)]))
    assert [row.rounds for row in stated.warm_start(log).learners] == [N, N]


def test_rounds_are_evidence_only_if_the_log_says_all_probabilities() -> None:
    truth = linear_truth(N, 1)
    lacking = truth.pmf.copy()
    lacking[7, (truth.actions[7] + 1) % 4] = np.nan
    lacking[7] /= np.nansum(lacking[7])
    never = np.eye(4)[truth.actions]
    logs = {
        "does not say the probability of every offered action": truth._replace(pmf=lacking).log(),
        "has probabilities 0": truth._replace(pmf=never).log(),
    }
    for message, log in logs.items():
        with pytest.raises(InvalidArgument, match=f"evidence is True, but the log {message}"):
            make().warm_start(log, evidence=True)
    with pytest.raises(InvalidArgument, match="does not say the probability"):
        make().warm_start(list(truth.log().each_round()), evidence=True)
    with pytest.raises(InvalidArgument, match="learners is given with evidence"):
        make().warm_start(truth.log(), learners=["UCB"], evidence=True)
    summed = Portfolio([UCB(4)], aggregate="sum", deadline=5, default_reward=0.0)
    with pytest.raises(InvalidArgument, match="evidence is True with aggregate 'sum'"):
        summed.warm_start(truth.log(), evidence=True)


@pytest.mark.statistical
def test_replayed_rounds_are_as_live_ones() -> None:
    """20,000 rounds of a log that prefers an action where it is good. The mean of the rounds that count is within 4.5
    standard errors of the action's true mean (an error with probability 1e-5). Control: in the log itself, the rounds
    with this action are better by more than that."""
    truth = linear_truth(20_000, 5, dim=1, floor=0.2)  # the reward grows with the feature by which the log chooses
    portfolio = Portfolio([Constant(1)])
    result = portfolio.warm_start(truth.log(), evidence=True)
    row, true_mean = portfolio.standing()[0], truth.means[:, 1].mean()
    assert portfolio.certificate().rounds == row.plays == result.evidence == portfolio.health()["replayed"]
    assert abs(row.mean_reward - true_mean) < 4.5 * 0.5 / np.sqrt(row.plays)
    assert truth.rewards[truth.actions == 1].mean() - true_mean > 4.5 * 0.5 / np.sqrt(row.plays)
    assert f"{result.evidence:,} of these rounds were replayed from a log." in portfolio.describe()
