"""A change of the deadline or of the default reward changes the law of the rewards: what came before does not count."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.certificates.records import verify_record
from equipoise.config import parse
from equipoise.errors import InvalidArgument
from equipoise.journal import LivePortfolio
from equipoise.journal import open as open_journal
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio import Event
from equipoise.portfolio.state import PortfolioState
from equipoise.selectors import BalancedElimination, RealizedBalancing
from tests.recorders import RoundRobin

CLAUSE = "after which the deadline or the default reward changed, counts in this"


def play(portfolio: Any, rounds: int, seed: int) -> None:
    """Rewards of 1 come at once in 30 % of the rounds, 5 rounds later in 60 %, and never in the others."""
    rng, due = np.random.default_rng(seed), list[tuple[int, str]]()
    for t in range(rounds):
        while due and due[0][0] <= t:
            portfolio.learn(due.pop(0)[1], 1.0)
        decision, number = portfolio.decide(None), rng.random()
        if number < 0.3:
            portfolio.learn(decision, 1.0)
        elif number < 0.9:
            due.append((t + 5, decision.id))


def make(**settings: Any) -> Portfolio:
    learners: list[Any] = [Constant(0), Constant(1)]
    return Portfolio(learners, RealizedBalancing(2), **{"deadline": 10, "default_reward": 0.0, **settings})


def is_false(seed: int) -> bool:
    """Whether a statement about the reward within 2 rounds, of mean 0.3, is false after one within 10, of mean 0.9."""
    portfolio = make(seed=seed)
    play(portfolio, 500, seed)
    portfolio.reconfigure(deadline=2)
    play(portfolio, 300, 100 + seed)
    proved = portfolio.certificate()
    return not proved.optimum_lower <= 0.3 <= proved.optimum_upper


def test_statements_after_a_change_are_about_the_new_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 5 of 5 runs; the control, which pools both laws, is false in 5 of 5."""
    assert not any(map(is_false, range(5)))
    monkeypatch.setattr(PortfolioState, "_begin_law", lambda state: state.tickets.held.begin())
    assert all(map(is_false, range(5)))


def changed_by_reconfigure(portfolio: Portfolio, path: Path) -> Any:
    portfolio.reconfigure(default_reward=0.5)
    return portfolio


def changed_by_load(portfolio: Portfolio, path: Path) -> Any:
    portfolio.save(path)
    return Portfolio.load(path, changes={"default_reward": 0.5})


def changed_by_declaration(portfolio: Portfolio, path: Path) -> Any:
    portfolio.declare(make(default_reward=0.5).settings)
    return portfolio


def changed_by_restart(portfolio: Portfolio, path: Path) -> LivePortfolio:
    with open_journal(path, make) as live:
        play(live, 60, 0)
    with open_journal(path, lambda: make(default_reward=0.5)) as live:
        assert live.certificate().law_since == 61
    return open_journal(path)


@pytest.mark.parametrize(
    "change", [changed_by_reconfigure, changed_by_load, changed_by_declaration, changed_by_restart]
)
def test_a_law_begins_whichever_way_the_setting_changes(change: Callable[..., Any], tmp_path: Path) -> None:
    portfolio = make()
    play(portfolio, 60, 0)
    changed = change(portfolio, tmp_path / "p")
    proved = changed.certificate()
    assert (proved.law_since, proved.law_refuted_at, proved.rounds) == (61, 0, 0)
    assert f"No round up to round 60, {CLAUSE}." in changed.describe()
    assert proved.to_json()["law_since"] == 61 and "law_refuted_at" not in proved.to_json()
    assert [mark.kind for mark in changed.history.marks] == ["law_changed"]
    assert [row.plays for row in changed.standing()] == [0, 0]
    play(changed, 40, 1)
    changed.expire()
    assert changed.certificate().rounds == 40
    (comparison,) = changed.records(pairs=[("Constant(0)", "Constant(1)")])
    assert comparison["law_since"] == 61 and verify_record(comparison) == []
    if isinstance(changed, LivePortfolio):
        changed.close()


def test_a_setting_that_stays_begins_no_law() -> None:
    portfolio = make()
    portfolio.reconfigure(deadline=12)  # before the first round
    play(portfolio, 30, 0)
    portfolio.reconfigure(deadline=12, default_reward=0.0)
    portfolio.reconfigure(fallback=1)
    assert portfolio.certificate().law_since == 1 and portfolio.certificate().delta == 0.05


def test_all_laws_together_spend_little_more_than_delta() -> None:
    """The first spends delta, the others delta/2; with restarts after drift all of them spend delta."""
    for response, least in (("warn", 0.05), ("restart", 0.0)):
        portfolio = make(on_drift=response)
        spent = [portfolio.certificate().delta]
        for k in range(20):
            portfolio.decide(None)
            portfolio.reconfigure(default_reward=0.01 * (k + 1))
            spent.append(portfolio.certificate().delta)
        assert least < sum(spent) < least + 0.05 * (0.5 if least else 1.0)


def test_late_and_eliminated_learners_follow_the_new_law() -> None:
    """Rewards of rounds before are learned and do not count; an eliminated learner returns; a fold agrees."""

    def begin() -> Portfolio:
        learners: list[Any] = [Constant(0), Constant(1), OFUL(2, action_bound=1.0)]
        selector = BalancedElimination([Power(0.1)] * 3)
        return Portfolio(learners, selector, deadline=50, default_reward=0.0, share_data=True, seed=3)

    portfolio, folded = begin(), begin()
    events: list[Event] = []
    portfolio.on_event(events.append)
    offers, late = np.eye(2), ""
    for t in range(1_500):
        decision = portfolio.decide(offers)
        if t == 1_480:
            late = decision.id
        else:
            portfolio.learn(decision, float(decision.action == 0))
    assert len(portfolio.selector.active) < 3
    portfolio.reconfigure(deadline=100)
    assert portfolio.selector.active == (0, 1, 2)
    portfolio.learn(late, 1.0)
    portfolio.decide(offers)
    assert sum(row.plays for row in portfolio.standing()) == 1
    for _ in range(40):
        portfolio.learn(portfolio.decide(offers), 0.5)
    for event in events:
        folded.apply(event)
    for part in ("tickets", "selector", "drift", "updates", "learners"):
        assert str(folded.state()[part]) == str(portfolio.state()[part]), part


def test_a_selector_that_cannot_begin_again_keeps_its_deadline() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], RoundRobin(2), deadline=5, default_reward=0.0)
    portfolio.reconfigure(deadline=6)  # nothing has been counted
    portfolio.decide(None)
    with pytest.raises(
        InvalidArgument, match=r"^selector is a RoundRobin, but must have restart\(\) to change deadline or"
    ):
        portfolio.reconfigure(deadline=7)
    assert portfolio.settings.deadline == 6


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"deadline": -5, "default_reward": 0.0}, "deadline is -5, but must be"),
        ({"deadline": "-5s", "default_reward": 0.0}, "deadline is '-5s', but a text must be a number and a unit"),
        ({"reward_range": (0.5, 0.5)}, "reward_range is (0.5, 0.5), but must"),
    ],
)
def test_bad_settings_are_one_line_and_change_nothing(given: dict[str, Any], message: str) -> None:
    def error_of(call: Callable[[], object]) -> str:
        with pytest.raises(InvalidArgument) as caught:
            call()
        return str(caught.value)

    portfolio = Portfolio([Constant(0)], deadline=5, default_reward=0.5)
    before = str(portfolio.state())
    for call in (lambda: Portfolio([Constant(0)], **given), lambda: portfolio.reconfigure(**given)):
        assert error_of(call).startswith(message) and "\n" not in error_of(call)
    assert str(portfolio.state()) == before


def test_a_reload_of_a_file_begins_a_law() -> None:
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.reloading import apply_file
    from equipoise.serve.service import Service, Settings, open_in_memory
    from equipoise.serve.tokens import Tokens

    def content(deadline: int) -> Any:
        learners = [{"use": "Constant", "action": 0, "name": "a"}, {"use": "Constant", "action": 1, "name": "b"}]
        return parse(
            {"version": 1, "name": "shop", "reward": {"deadline": deadline, "default": 0.0}, "learner": learners}
        )

    async def run() -> tuple[int, int]:
        service = Service(Tokens(), Settings(), open_in_memory)
        await apply_file(service, content(5))
        engine = service.portfolios["shop"].engine
        await engine.run(lambda hosted: play(hosted.portfolio, 30, 0))
        await apply_file(service, content(6))
        proved = await engine.run(lambda hosted: hosted.portfolio.certificate())
        engine.close()
        return proved.law_since, proved.rounds

    assert asyncio.run(run()) == (31, 0)


@pytest.mark.parametrize(("deadline", "seconds"), [(5, 60.0), ("1h", 0.0), ("1h", float("inf"))])
def test_a_refused_extension_of_deadlines_takes_no_time(deadline: int | str, seconds: float) -> None:
    portfolio = Portfolio([UCB(2), UCB(2, scale=0.1)], deadline=deadline, default_reward=0.0)
    portfolio.decide(None, at=1.0)
    with pytest.raises(InvalidArgument):
        portfolio.extend_deadlines(seconds, at=9.0)
    assert portfolio.time == 1.0
