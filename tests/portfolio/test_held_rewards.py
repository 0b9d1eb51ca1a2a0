"""Rewards that count for the selector only when most rewards of plays as old have come."""

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.learners import UCB, Constant
from equipoise.portfolio import Event
from equipoise.portfolio.held import COHORT, ESTIMATED_AT, KNOWN, LEAST, MAX_DUE, HeldRewards
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.portfolio.tickets import Ticket, Tickets
from equipoise.selectors import UCB1, CounterfactualBalancing, RealizedBalancing
from tests.recorders import recorders
from tools.studies.late_rewards import share_of_best

DEADLINE = 30


def common_age(delays: dict[int, float], now: int) -> float:
    """The definition, for a deadline in rounds: delays by round, inf of a decision that is open or has its default."""
    for age in range(now + 1):
        reached = [delay for round_, delay in delays.items() if now - round_ >= age]
        if len(reached) >= LEAST and sum(delay <= age for delay in reached) >= KNOWN * len(reached):
            return age
    return inf


@pytest.mark.parametrize("latest", [0, 3, 12, 40])
def test_the_common_age_agrees_with_its_definition(latest: int) -> None:
    """Rewards come up to `latest` rounds late, or with the deadline; the estimate is renewed after some of them."""
    settings = PortfolioSettings(deadline=DEADLINE, default_reward=0.0)
    tickets, rng = Tickets(settings), np.random.default_rng(latest)
    rewards, delays, due = tickets.held, dict[int, float](), list[tuple[int, int]]()
    expected = inf
    for t in range(1, COHORT + DEADLINE):
        tickets.round = t
        ticket = Ticket(t, None, None, 0, None)
        rewards.open(ticket)
        delays |= {t: inf} if t <= COHORT else {}
        heapq.heappush(due, (t + min(int(rng.integers(0, latest + 1)), DEADLINE + 1), t))
        while due and due[0][0] <= t:
            at, round_ = heapq.heappop(due)
            if round_ > COHORT:
                continue
            expired = at - round_ > DEADLINE
            delays[round_] = inf if expired else float(t - round_)
            settled = rewards._settled
            rewards.settle(Ticket(round_, None, None, 0, None), expired=expired)
            if rewards._settled > settled and rewards._settled in ESTIMATED_AT:
                expected = common_age(delays, t)
            assert rewards._common_age == expected
    assert (expected <= latest) if latest < DEADLINE else expected == inf


def test_a_reward_waits_until_others_of_its_age_are_known() -> None:
    """Ones come at once, zeros with the deadline: the selector learns both together, in the order of plays."""
    credited: list[int] = []

    class Noting(UCB1):
        def credit(self, choice: Any, reward: float, regret: float | None = None) -> Any:
            credited.append(choice.play)
            return super().credit(choice, reward, regret)

    portfolio = Portfolio([Constant(0)], Noting(1), deadline=DEADLINE, default_reward=0.0)
    for t in range(1, 200):
        decision = portfolio.decide(None)
        if t % 3 == 0:
            portfolio.learn(decision, 1.0)
        assert credited == list(range(1, t - DEADLINE))
        row = portfolio.standing()[0]
        assert (row.pending, row.waiting) == (min(t, DEADLINE + 1), len(portfolio._state.tickets.held))
    assert "with a reward that does not count yet" in portfolio.describe()
    assert portfolio.health()["held_rewards"] == 10


def test_rewards_that_come_at_once_count_at_once_when_that_is_known() -> None:
    portfolio = recorders(1, deadline=10_000, default_reward=0.0)
    for t in range(1, 2 * COHORT):
        portfolio.learn(portfolio.decide(None), 0.5)
        assert portfolio.standing()[0].pending == (t if t < LEAST else 0)


def test_a_few_rewards_that_never_come_hold_up_no_others() -> None:
    """Of 100 rewards 3 never come before the deadline; the others take 50 rounds."""
    portfolio, due = Portfolio([Constant(0)], UCB1(1), deadline=10**6, default_reward=0.0), list[tuple[int, str]]()
    for t in range(1, 1_001):
        while due and due[0][0] <= t:
            portfolio.learn(due.pop(0)[1], 1.0)
        decision = portfolio.decide(None)
        if t % 100 not in (0, 30, 60):
            due.append((t + 50, decision.id))
    assert portfolio.health()["held_rewards"] == 0
    assert portfolio._state.tickets.held._common_age == 49


def test_nothing_is_held_without_a_deadline_or_with_a_window_of_its_own() -> None:
    settings: list[dict[str, Any]] = [{}, {"deadline": 50, "default_reward": 0.0, "delays": "exogenous", "window": 10}]
    for given in settings:
        portfolio = Portfolio([Constant(0)], UCB1(1), **given)
        portfolio.learn(portfolio.decide(None), 0.5)
        assert portfolio.standing()[0].pending == 0 and portfolio.health()["held_rewards"] == 0


def test_a_burst_of_overdue_decisions_is_closed_before_later_plays_count() -> None:
    """Each call closes a few of them: meanwhile the rewards that came early are not counted alone."""
    portfolio = Portfolio([Constant(0)], UCB1(1), deadline="10s", default_reward=0.0)
    for t in range(200):
        decision = portfolio.decide(None, at=100.0)
        if t % 2:
            portfolio.learn(decision, 1.0, at=101.0)
    for _ in range(3):
        portfolio.decide(None, at=200.0)
        row = portfolio.standing()[0]
        assert 0.4 <= row.mean_reward <= 0.5
    portfolio.expire(at=200.0)
    assert portfolio.standing()[0].mean_reward == 0.5


def test_no_event_lets_more_than_a_few_held_rewards_count() -> None:
    """Rewards come with the deadline, and at once from some round on: when that is known, thousands are due."""
    credited, most, deadline = [0], 0, 1_000

    class Counting(UCB1):
        def credit(self, choice: Any, reward: float, regret: float | None = None) -> Any:
            credited[0] += 1
            return super().credit(choice, reward, regret)

    portfolio = Portfolio([Constant(0)], Counting(1), deadline=deadline, default_reward=0.0)
    for t in range(4 * deadline):
        before = credited[0]
        decision = portfolio.decide(None)
        most, before = max(most, credited[0] - before), credited[0]
        if t > deadline + COHORT:
            portfolio.learn(decision, 1.0)
        most = max(most, credited[0] - before)
    assert most == MAX_DUE and portfolio.health()["held_rewards"] == 0
    assert credited[0] == 4 * deadline


def make(selector: Any = None, **settings: Any) -> Portfolio:
    return Portfolio(
        [UCB(3), Constant(1), UCB(3, scale=0.5)], selector, seed=2, deadline=25, default_reward=0.0, **settings
    )


@pytest.mark.parametrize(
    "selector",
    [
        lambda: RealizedBalancing(3),
        lambda: CounterfactualBalancing(3, learning=["agreed", "own", "own"], contexts="fixed", greedy_experts=[0]),
    ],
    ids=["realized", "counterfactual"],
)
def test_held_rewards_are_saved_and_folded(selector: Any, tmp_path: Path) -> None:
    """With masks, withdrawn rounds, a floor, a new deadline and a copy in the middle: the same choices and sums."""
    events: list[Event] = []
    portfolio, folded = make(selector(), explore=0.05), make(selector(), explore=0.05)
    portfolio.on_event(events.append)
    rng, due = np.random.default_rng(3), list[tuple[int, str]]()
    for t in range(600):
        while due and due[0][0] <= t:
            id_ = heapq.heappop(due)[1]
            portfolio.learn(id_, 1.0)
        decision = portfolio.decide(None, available=portfolio.learner_names[:2] if t % 7 == 0 else None)
        if t % 11 == 0:
            portfolio.withdraw(decision)
        elif rng.random() < 0.5:
            heapq.heappush(due, (t + int(rng.integers(0, 20)), decision.id))
        if t == 300:
            assert portfolio.health()["held_rewards"] > 3
            portfolio.save(tmp_path / "p")
            portfolio = Portfolio.load(tmp_path / "p")
            portfolio.on_event(events.append)
        if t == 450:
            due.clear()
            portfolio.reconfigure(deadline=40)
            assert portfolio.health()["held_rewards"] == 0
    for event in events:
        folded.apply(event)
    assert portfolio.health()["held_rewards"] > 3
    for part in ("tickets", "selector", "drift", "updates", "learners"):
        assert str(folded.state()[part]) == str(portfolio.state()[part]), part


@contextmanager
def never_held() -> Iterator[None]:
    """The control: every reward counts when it arrives."""
    begin = HeldRewards.begin

    def without(self: HeldRewards) -> None:
        begin(self)
        self.holds = False

    HeldRewards.begin = without  # type: ignore[method-assign]
    try:
        yield
    finally:
        HeldRewards.begin = begin  # type: ignore[method-assign]


@pytest.mark.slow
def test_zeros_at_the_deadline_do_not_mislead_the_choice() -> None:
    """Success probabilities .05, .08 and .12; the share of the best after the first deadline, in 2 runs."""
    settings: dict[str, Any] = {"rounds": 5_000, "seeds": 2}
    prompt, late = share_of_best(0, **settings), share_of_best(1_000, **settings)
    with never_held():
        misled = share_of_best(1_000, **settings)
    assert late >= prompt - 0.03
    assert misled < prompt - 0.15
