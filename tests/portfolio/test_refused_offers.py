"""One offer that a learner cannot use is masked for this learner in this round; the request and the others go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument
from equipoise.features import Columns, Offers, OneHot
from equipoise.learners import OFUL, LinearThompson, SquareCB
from equipoise.logs import from_arrays
from equipoise.portfolio import Event
from equipoise.portfolio.warm_start import LoggedRound
from equipoise.selectors import D3RB, UCB1, BalancedElimination, RealizedBalancing
from tests.recorders import saved

IDS = ["a", "b", "c", "d"]


def learners() -> list[Any]:
    """Two that take all four offers below, one that takes all but "b" (too long), one all but "d" (unknown)."""
    return [
        OFUL(features=Columns([0])),
        LinearThompson(features=Columns([0, 1]), clip_norm=True),
        OFUL(2, name="bound"),
        SquareCB(features=OneHot(["a", "b", "c"]), name="ids"),
    ]


def offers(rng: np.random.Generator) -> Offers:
    actions = rng.random((4, 2)) / 2
    actions[1, 1] = 5.0
    return Offers(actions, ids=IDS)


POOLS: dict[str, Callable[..., Portfolio]] = {
    "the default": lambda **more: Portfolio(learners(), seed=3, **more),
    "own data": lambda **more: Portfolio(learners(), RealizedBalancing(4), share_data=False, **more),
    "shared data": lambda **more: Portfolio(learners(), RealizedBalancing(4), share_data=True, **more),
    "one draw": lambda **more: Portfolio(learners(), BalancedElimination([Power(1.0)] * 4), seed=2, **more),
    "observed": lambda **more: Portfolio(learners(), D3RB(4), seed=4, **more),
}


@pytest.mark.parametrize("explore", [0.0, 0.3])
@pytest.mark.parametrize("name", POOLS)
def test_a_bad_row_masks_the_offer_for_that_learner_alone(name: str, explore: float) -> None:
    settings: dict[str, Any] = {"explore": explore} if explore else {}
    portfolio, events = POOLS[name](**settings), list[Event]()
    portfolio.on_event(events.append)
    folded, rng = POOLS[name](**settings), np.random.default_rng(0)
    played: dict[int | None, set[str | None]] = {}
    for t in range(400):
        decision = portfolio.decide(offers(rng), id=f"d{t}")
        played.setdefault(decision.learner, set()).add(decision.action_id)
        assert decision.learner == decision.drawn, "no learner sits a round out"
        portfolio.learn(decision, float(rng.random() < 0.2 + 0.1 * decision.action))
    assert {0, 1, 2, 3} <= played.keys()
    assert "b" not in played[2] and "d" not in played[3]
    assert played.get(None, set(IDS)) == set(IDS), "the floor draws offers that a learner does not take"
    rows = {row["name"]: row for row in portfolio.health()["learners"]}
    assert all(row["state"] == "active" and row["failures"] == 0 for row in rows.values())
    # In updates from rounds of others.
    assert (rows["bound"]["refused"] > 0) == (rows["ids"]["refused"] > 0) == (name in ("the default", "shared data"))
    assert rows["LinearThompson(d=2)"]["clipped_rows"] > 0 == rows["bound"]["clipped_rows"]
    for event in events:
        folded.apply(event)
    assert saved(folded) == saved(portfolio)
    assert saved(Portfolio.from_state(portfolio.state())) == saved(portfolio)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["the default", "own data"])
def test_propensities_count_what_learners_do_not_take(name: str) -> None:
    """In one context and one state: actions are drawn as often as their propensities say."""
    context, portfolio, rng = offers(np.random.default_rng(1)), POOLS[name](explore=0.2), np.random.default_rng(2)
    for _ in range(60):
        decision = portfolio.decide(offers(rng))
        portfolio.learn(decision, float(rng.random() < 0.5))
    counts, stated, n = np.zeros(4), np.full(4, np.nan), 3_000
    for _ in range(n):
        decision = portfolio.decide(context)
        counts[decision.action] += 1
        assert np.isnan(stated[decision.action]) or stated[decision.action] == pytest.approx(decision.propensity)
        stated[decision.action] = decision.propensity
        portfolio.withdraw(decision)
    known = ~np.isnan(stated)
    assert np.nansum(stated) == pytest.approx(1.0, abs=0.02)
    # Five standard deviations.
    assert (np.abs(counts / n - stated)[known] < 5 * np.sqrt(stated[known] / n)).all()


def test_an_offer_that_no_learner_takes_is_drawn_by_the_floor_alone() -> None:
    context = Offers([[0.5], [9.0]], ids=["short", "long"])
    portfolio = Portfolio([OFUL(1), OFUL(1, scale=0.1)], seed=1, explore=0.4)
    seen = set()
    for _ in range(200):
        decision = portfolio.decide(context)
        if decision.action == 1:
            assert decision.learner is None and decision.propensity == pytest.approx(0.2)
        else:
            assert decision.propensity == pytest.approx(0.8)
        seen.add((decision.learner is None, decision.action))
        portfolio.learn(decision, 1.0)
    assert seen == {(True, 0), (True, 1), (False, 0)}
    refused = [row["refused"] for row in portfolio.health()["learners"]]
    assert min(refused) > 0, "both refuse to learn from the long row"
    assert [row["refused_in_a_row"] < 50 for row in portfolio.health()["learners"]] == [True, True]


def test_a_learner_that_takes_no_offer_sits_the_round_out() -> None:
    context = Offers([[9.0, 0.5], [8.0, 0.5]])
    portfolio = Portfolio([OFUL(1, name="long"), OFUL(features=Columns([1]), name="short")], UCB1(2), seed=1)
    for _ in range(30):
        decision = portfolio.decide(context)
        assert decision.learner == 1
        portfolio.learn(decision, 0.5)
    rows = portfolio.health()["learners"]
    assert rows[0]["refused"] > 5 and rows[0]["state"] == "active" and rows[1]["refused"] == 0
    with pytest.raises(InvalidArgument, match="norm 9, but norms must be at most action_bound = 1"):
        Portfolio([OFUL(1)]).decide(context)


def test_certificates_hold_with_offers_that_learners_do_not_take() -> None:
    """The observed regret of a play is that against all offers: the best one is the one that the learner refuses."""
    rng = np.random.default_rng(0)
    regret = 0.0
    portfolio = Portfolio([OFUL(1), OFUL(2)], BalancedElimination([Observed(), Observed()]))
    for _ in range(500):
        rows = np.array([[0.3, 0.0], [0.2, 0.0], [1.5, 0.0]])
        means = np.array([0.3, 0.2, 1.0])
        decision = portfolio.decide(rows)
        assert decision.action != 2
        regret += 1.0 - float(means[decision.action])
        portfolio.learn(decision, float(rng.random() < means[decision.action]))
    assert portfolio.certificate().regret_upper >= regret


def test_a_warm_start_leaves_out_what_a_learner_refuses() -> None:
    rounds = [LoggedRound(Offers([[0.5], [2.0]]), t % 2, 0.5, 0.5, row=t + 1) for t in range(10)]
    portfolio = Portfolio([OFUL(1, name="bound"), OFUL(1, clip_norm=True, name="clips")])
    result = portfolio.warm_start(rounds)
    assert [tuple(row) for row in result.learners] == [
        ("bound", 5, "as logged; it refused 5 actions"),
        ("clips", 10, "as logged"),
    ]
    assert portfolio.health()["learners"][1]["clipped_rows"] == 5


def test_replay_leaves_out_what_a_learner_refuses() -> None:
    """Of a compiled learner as of others: with a row that is too long, contexts are read one by one."""
    from equipoise.logs.replay import replay

    rng, n = np.random.default_rng(0), 200
    contexts = rng.random((n, 3, 2)) / 2
    contexts[50:, 2] = 3.0
    actions = rng.integers(3, size=n)
    log = from_arrays(contexts, actions, rng.random(n), np.full(n, 1 / 3), pmf=np.full((n, 3), 1 / 3))
    taught = [OFUL(2, name="bound"), SquareCB(2, name="cb")]
    result = replay(log, taught)
    assert [int(learner.memory.updates[0]) for learner in taught] == [n - int((actions[50:] == 2).sum())] * 2
    assert all(0 < learner.agreement < 0.6 for learner in result.learners)
