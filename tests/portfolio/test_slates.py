"""Slates: slots with different offers, each a round of its own; all or none."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.errors import DuplicateDecision, InvalidArgument
from equipoise.features import Number, Offers, Schema
from equipoise.journal import digest
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.portfolio import Event

IDS = ["red", "blue", "green", "gray"]


class Whole:
    """Refuses offers of which some are masked."""

    def decide(self, context: Any, rng: Any) -> int:
        if context.mask is not None:
            raise InvalidArgument("mask is given, but must not be")
        return 0

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


def make(**settings: Any) -> Portfolio:
    return Portfolio([UCB(4), EpsilonGreedy(4, epsilon=0.4)], seed=3, **settings)


def offers(mask: list[bool] | None = None) -> Offers:
    return Offers(None, ids=IDS, mask=mask)


def test_slots_have_different_offers_and_rounds_of_their_own() -> None:
    portfolio = make()
    for t in range(30):
        slots = portfolio.slate(offers([True, True, t % 2 == 0, True]), 3)
        assert len({slot.action_id for slot in slots}) == len({slot.id for slot in slots}) == 3
        assert t % 2 == 0 or "green" not in {slot.action_id for slot in slots}
        for k, slot in enumerate(slots):
            portfolio.learn(slot, k / 2)
    assert portfolio.health()["rounds"] == 90 and portfolio.certificate().resolved_rounds == 90


def test_a_slot_is_decided_as_if_the_earlier_offers_were_not_there() -> None:
    """The propensities are those of the same rounds, decided one after the other with masks."""
    one, other = make(explore=0.3), make(explore=0.3)
    for _ in range(25):
        slots, mask = one.slate(offers(), 4, propensity=True), np.ones(4, np.bool_)
        for slot in slots:
            alone = other.decide(Offers(None, ids=IDS, mask=mask), propensity=True)
            assert alone[1:] == slot[1:]
            mask[slot.action] = False
    assert slots[-1].propensity == 1.0  # one offer is left


def test_the_first_slot_is_drawn_like_a_decision() -> None:
    """Draws without replacement: the share of an offer in a slot is its propensity there, on average."""
    portfolio, n_rounds, counts, expected = make(explore=1.0), 4_000, Counter[str](), 0.0
    for _ in range(n_rounds):
        first, second = portfolio.slate(offers(), 2)
        counts[f"{first.action_id} {second.action_id}"] += 1
        expected += first.propensity * second.propensity
        portfolio.withdraw(first)
        portfolio.withdraw(second)
    assert expected / n_rounds == pytest.approx(1 / 12)
    # Twelve equal shares of 1/12: a share is off by more than 5 standard errors with probability below 1e-5.
    assert (
        len(counts) == 12 and max(abs(n / n_rounds - 1 / 12) for n in counts.values()) < 5 * (1 / 12 / n_rounds) ** 0.5
    )


def test_matrices_and_features_work_too() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(1)], seed=1)
    rng = np.random.default_rng(0)
    for _ in range(10):
        slots = portfolio.slate(rng.uniform(-0.5, 0.5, (5, 2)), 5)
        assert sorted(slot.action for slot in slots) == [0, 1, 2, 3, 4]
        for slot in slots:
            portfolio.learn(slot, 0.5)


def test_a_repeated_slate_is_the_same(tmp_path: Path) -> None:
    with equipoise.open(tmp_path / "shop.db", make) as live:
        slots = live.slate(offers(), 3, id="page")
        assert [slot.id for slot in slots] == ["page", "page/2", "page/3"]
        live.learn("page/2", 1.0)
        assert live.slate(offers(), 3, id="page") == slots
    with equipoise.open(tmp_path / "shop.db") as live:
        assert live.slate(offers(), 3, id="page") == slots
        for k in (2, 4):
            with pytest.raises(DuplicateDecision, match="id 'page' was used for a slate of another size"):
                live.slate(offers(), k, id="page")
        with pytest.raises(DuplicateDecision, match="another context"):
            live.slate(offers([True, True, True, False]), 3, id="page")
        assert live.health()["rounds"] == 3


@pytest.mark.parametrize(
    ("k", "context", "expected"),
    [
        (5, offers(), "k is 5, but must be at most 4, the number of offers to choose from"),
        (2, offers([True, False, False, False]), "k is 2, but must be at most 1"),
        (0, offers(), "k is 0"),
        (1.5, offers(), "k is 1.5"),
        (1, None, "context is None, but must be a K x d matrix"),
    ],
)
def test_a_wrong_slate_changes_nothing(k: Any, context: Any, expected: str) -> None:
    portfolio = make()
    before = digest(portfolio)
    with pytest.raises(InvalidArgument, match=expected):
        portfolio.slate(context, k)
    with pytest.raises(InvalidArgument, match="id has 199 characters, but must have at most 198"):
        portfolio.slate(offers(), 2, id="x" * 199)
    for available in ("UCB", 7):
        with pytest.raises(InvalidArgument, match=f"available is {available!r}, but must be a list of names"):
            portfolio.slate(offers(), 2, available=available)  # type: ignore[arg-type]
    assert digest(portfolio) == before


def test_an_error_in_a_later_slot_takes_back_the_earlier_ones() -> None:
    portfolio = Portfolio([Whole(), Whole()], sticky="1h")
    kinds: list[str] = []
    portfolio.on_event(lambda event: kinds.append(event.kind))
    with pytest.raises(InvalidArgument, match="mask is given"):
        portfolio.slate(offers(), 3, unit="ann")
    assert kinds == ["decided", "withdrawn"] and portfolio.n_pending == 0
    assert portfolio.kept_decision(offers(), "ann") is None
    assert portfolio.health()["withdrawn"] == 1 and portfolio.certificate().rounds == 0


def test_a_unit_keeps_its_slate() -> None:
    portfolio = make(sticky="1h")
    slots = portfolio.slate(offers(), 3, unit="ann", at=0.0)
    assert portfolio.slate(offers(), 3, unit="ann", at=1.0) == slots
    assert portfolio.slate(offers(), 2, unit="ann", at=1.0) == slots[:2]
    assert portfolio.decide(offers(), unit="ann", at=1.0) == slots[0]
    mask = [slot_id != slots[1].action_id for slot_id in IDS]
    others = portfolio.slate(offers(mask), 3, unit="ann", at=2.0)
    assert others[0] == slots[0] and others[1].id != slots[1].id  # its offer is not there
    assert len({slot.action_id for slot in others}) == 3


def test_a_slate_folds() -> None:
    portfolio, twin, events = make(sticky="1h"), make(sticky="1h"), list[Event]()
    portfolio.on_event(events.append)
    for t in range(20):
        for slot in portfolio.slate(
            offers(), 2, unit=f"user-{t % 3}" if t % 2 else None, id=None if t % 3 else f"p{t}"
        ):
            if slot.id in portfolio.pending:
                portfolio.learn(slot, 0.5)
    for event in events:
        twin.apply(event)
    assert digest(twin) == digest(portfolio)


def test_a_slate_of_typed_features_is_idempotent_while_scales_are_learned() -> None:
    """The mask of a slot keeps what the offers were made of, so that a repeated request is recognized."""
    schema = Schema({"age": Number()}, {"price": Number(0.0, 1.0)})
    portfolio = Portfolio([OFUL(), UCB(3)], schema=schema, sticky="1h")
    items = [{"id": each, "features": {"price": k / 3}} for k, each in enumerate(IDS[:3])]
    first = portfolio.slate({"age": 30.0}, 3, offers=items, id="page")
    kept = portfolio.slate({"age": 30.0}, 2, offers=items, unit="ann")
    for t in range(20):
        portfolio.slate({"age": float(t)}, 3, offers=items)
    assert portfolio.schema is not None and portfolio.schema.layouts != schema.layouts  # the scale is known by now
    assert portfolio.slate({"age": 30.0}, 3, offers=items, id="page") == first
    assert portfolio.slate({"age": 99.0}, 2, offers=items, unit="ann") == kept
    with pytest.raises(DuplicateDecision):
        portfolio.slate({"age": 31.0}, 3, offers=items, id="page")
