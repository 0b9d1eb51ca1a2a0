"""What waits for rewards is kept as numbers and bytes; a frozen state stays as it is while its portfolio changes."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.features import Offers
from equipoise.kernels.places import Rows
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.portfolio import tickets
from equipoise.selectors import BalancedElimination, RealizedBalancing
from equipoise.selectors._core import ledger
from equipoise.storage.codec import digest, encode, encode_in_parts, made

Run = list[Any]
BYTES_PER_ROUND = 200  # that waits; an object with what is kept of a round takes more than 600


def recent(number: int) -> Any:
    """Keep so many open plays and decisions as objects."""

    @contextmanager
    def limited() -> Iterator[None]:
        with patch.object(ledger, "RECENT", number), patch.object(tickets, "RECENT", number):
            yield

    return limited()


def portfolio(kind: str, seed: int) -> Portfolio:
    linear = [OFUL(2), OFUL(3), OFUL(4)]
    match kind:
        case "default":
            return Portfolio(linear, seed=seed)
        case "deadline":
            return Portfolio(linear, seed=seed, deadline=60, default_reward=0.0)
        case "balancing":
            return Portfolio(linear, RealizedBalancing(3), seed=seed)
        case "window":
            return Portfolio(linear, RealizedBalancing(3), seed=seed, delays="exogenous", window=40)
        case "in order":
            return Portfolio(linear, BalancedElimination([Observed(), Observed(), Power(1.0)]), seed=seed)
        case "sums":
            return Portfolio(linear, seed=seed, deadline=90, default_reward=0.0, aggregate="sum", clip=True)
    return Portfolio([UCB(4), EpsilonGreedy(4, epsilon=0.1)], seed=seed, on_drift="restart")


KINDS = ("default", "deadline", "balancing", "window", "in order", "sums", "restart")


class Traffic:
    """Random decisions with late, lost and withdrawn rewards, and a learner that joins."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self.portfolio = kind, portfolio(kind, seed)
        self.rng, self.open, self.seen = np.random.default_rng(seed), list[Any](), list[Any]()

    def step(self, t: int) -> None:
        rng, live = self.rng, self.portfolio
        context = Offers(rng.random((4, 4)) * 0.4) if t % 3 else rng.random((4, 4)) * 0.4
        decision = live.decide(None if self.kind == "restart" else context, id=f"own {t}" if t % 5 == 0 else None)
        self.seen.append((decision.learner, decision.drawn, repr(decision.action), decision.propensity))
        self.open.append(decision)
        if t == 90:
            learner = UCB(4) if self.kind == "restart" else OFUL(4, name="late")
            live.add_learner(learner, bound=Power(1.0) if self.kind == "in order" else None)
        for _ in range(int(rng.integers(0, 3))):
            chosen = self.open[-1 if rng.random() < 0.6 else int(rng.integers(len(self.open)))]
            self.open.remove(chosen)
            if chosen.id not in live.pending:
                continue
            fate = rng.random()
            if fate < 0.08:
                live.withdraw(chosen.id)
            elif fate < 0.92:
                live.learn(chosen.id, float(rng.random() < 0.4), key=f"{t}" if self.kind == "sums" else None)
            if not self.open:
                break

    def run(self, first: int, end: int) -> Run:
        for t in range(first, end):
            self.step(t)
        return [self.seen, repr(self.portfolio.certificate()), repr(self.portfolio.standing())]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_decide_and_prove_the_same_as_objects(kind: str) -> None:
    """Bit for bit, also after the state was saved and loaded."""
    with recent(10**9):
        objects = Traffic(kind, 1)
        expected = objects.run(0, 260)
        state = objects.portfolio.state()
    with recent(3):
        packed = Traffic(kind, 1)
        assert packed.run(0, 260) == expected
        without_ids = {"tickets", "updates", "history"}  # random ids of decisions
        assert digest({k: v for k, v in packed.portfolio.state().items() if k not in without_ids}) == digest(
            {k: v for k, v in state.items() if k not in without_ids}
        )
        loaded = Portfolio.from_state(packed.portfolio.state())
        assert digest(loaded.state()) == digest(packed.portfolio.state())


def changed_meanwhile(kind: str, seed: int) -> tuple[str, str]:
    """The digest of a state, and that of its frozen form, made while the portfolio went on."""
    with recent(5):
        traffic = Traffic(kind, seed)
        traffic.run(0, 150 + 17 * seed)
        plain, frozen, t = digest(traffic.portfolio.state()), traffic.portfolio.frozen(), 1_000
        whole, parts = encode(traffic.portfolio.state()), []
        for part in encode_in_parts(frozen):
            parts.append(part)
            if len(parts) % 7 == 0 and t < 1_060:
                traffic.step(t)
                t += 1
        assert t > 1_000
        same = digest(made(frozen)) == plain and b"".join(parts) == whole
        return plain, plain if same else "another state"


@pytest.mark.parametrize("kind", KINDS)
def test_a_frozen_state_is_that_of_one_moment(kind: str) -> None:
    for seed in range(4):
        plain, later = changed_meanwhile(kind, seed)
        assert plain == later


@pytest.mark.parametrize("kind", ["default", "deadline", "in order"])
def test_a_freeze_makes_rows_of_few_decisions(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where learners learn in order, it made one of each: 1.4 s for 20,000 open decisions."""
    with recent(3):
        traffic = Traffic(kind, 1)
        traffic.run(0, 260)
        live, rows = traffic.portfolio, 0
        unfinished, to_row = len(live.unfinished), tickets.Ticket.to_row

        def counted(ticket: tickets.Ticket) -> Any:
            nonlocal rows
            rows += 1
            return to_row(ticket)

        monkeypatch.setattr(tickets.Ticket, "to_row", counted)
        frozen = live.frozen()
        assert rows <= 6 < unfinished / 3
        made(frozen)
        assert rows <= 6


def test_blocks_that_are_not_copied_before_they_change_would_be_noticed() -> None:
    """The control of the test above."""

    def shared(rows: Rows) -> Rows:
        copy = Rows(rows.layout)
        copy._blocks = rows._blocks
        return copy

    with patch.object(Rows, "frozen", shared):
        assert any(len(set(changed_meanwhile("default", seed))) == 2 for seed in range(4))


@pytest.mark.parametrize("kind", ["default", "balancing"])
def test_a_waiting_round_costs_numbers(kind: str) -> None:
    rounds = 2_000
    live, rng = portfolio(kind, 1), np.random.default_rng(0)
    for t in range(1_000):  # the first ten never get a reward; all that is bounded becomes full
        decision = live.decide(rng.random((3, 4)) * 0.5)
        if t >= 10:
            live.learn(decision, 0.5)
    live._state.drift.monitor = None
    gc.collect()
    n_objects = len(gc.get_objects())
    tracemalloc.start()
    for _ in range(rounds):
        live.learn(live.decide(rng.random((3, 4)) * 0.5), 0.5)
        live._state.drift.monitor = None  # its plays are bounded by `MAX_WAITING`
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert live.health()["waiting_rounds"] > rounds
    assert size / rounds < BYTES_PER_ROUND
    assert len(gc.get_objects()) - n_objects < rounds / 4


def test_old_open_decisions_are_bytes_and_come_back_whole() -> None:
    with recent(2):
        live = Portfolio([OFUL(2), OFUL(3)], seed=1)
        made_ = [live.decide(Offers(np.eye(3) * 0.5, ids=["a", "b", "c"])) for _ in range(20)]
        assert len(live._state.tickets.open.objects()) == 2
        context = live._state.tickets.open[made_[0].id].context
        assert context.ids == ("a", "b", "c") and np.array_equal(context.actions, np.eye(3) * 0.5)
        assert set(live.open_decisions()) == {decision.id for decision in made_}
        for decision in made_:
            live.learn(decision, 0.5)
        assert live.certificate().resolved_rounds == 20


def test_a_decision_that_would_not_come_back_exactly_stays_an_object() -> None:
    with recent(1):
        live = Portfolio([UCB(2)], seed=1)
        for _ in range(4):
            live.decide({"user": np.float32(0.5)})
        assert len(live._state.tickets.open.objects()) == 4
