"""Learners that people ask for by name in one journal, with delays, masks and a crash."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.adapters import Bootstrapped, Network, NeuralLinear, Sklearn
from equipoise.features import Columns, Offers, Shared
from equipoise.journal.recovery import digest, rebuild
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.learners import OFUL, DisjointOFUL, LogisticThompson, LogisticUCB
from tests.adapters.subjects import needs
from tests.journal.shop import image


def plain_pool() -> list[Any]:
    return [
        LogisticUCB(2),
        LogisticThompson(features=Columns([0, 1]), seed=3),
        OFUL(2, discount=0.9),
        DisjointOFUL(features=Shared(2), arms=4, discount=0.95),
    ]


def committees() -> list[Any]:
    sgd = Sklearn({"class": "linear_model.SGDRegressor", "eta0": 0.05}, dim=2)
    return [LogisticThompson(2, seed=3), Bootstrapped(sgd, 3, seed=4), Bootstrapped(sgd, 3, weights="double")]


def networks() -> list[Any]:
    small = Network(dim=2, hidden=4, width=3, window=20, every=8, lag=3, steps=3, batch=4)
    return [LogisticUCB(2), NeuralLinear(small, seed=6)]


POOLS = [
    pytest.param(plain_pool, id="plain"),
    pytest.param(committees, id="committees", marks=needs("sklearn")),
    pytest.param(networks, id="networks", marks=needs("torch")),
]


def masked_offers(t: int) -> Offers:
    rng = np.random.default_rng([8, t])
    mask = rng.random(4) < 0.7
    mask[t % 4] = True
    return Offers(rng.random((4, 2)) / 2, shared=rng.random(2) / 2, ids=["a", "b", "c", "d"], mask=mask)


def play(portfolio: Any, first: int, last: int) -> list[Any]:
    """Rewards come three rounds late, every fifth never; the decisions."""
    decisions = []
    for t in range(first, last):
        decisions.append(portfolio.decide(masked_offers(t), id=f"round {t}", propensity=True))
        late = t - 3
        if late >= 0 and late % 5:
            portfolio.learn(f"round {late}", float(late % 3 == 0))
    return decisions


@pytest.mark.slow
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("share", [None, False])
def test_a_crash_and_a_fold_change_nothing(pool: Callable[[], list[Any]], share: bool | None, tmp_path: Path) -> None:
    def made() -> Portfolio:
        return Portfolio(pool(), seed=5, share_data=share)

    whole, path = made(), tmp_path / "journal.db"
    expected = play(whole, 0, 60)
    with equipoise.open(path, made()) as live:
        seen = play(live, 0, 30)
        copy = image(path, tmp_path / "crashed")
    with equipoise.open(copy, made()) as live:
        seen += play(live, 30, 60)
        assert live.health()["folded_differently"] == 0
        reached = digest(live._portfolio)
    assert seen == expected
    folded = rebuild(SQLiteJournal(copy), made()).portfolio
    assert digest(folded) == reached
    for learner, other in zip(folded.learners, whole.learners, strict=True):
        assert learner == other
    propensities = [decision.propensity for decision in expected]
    assert all(0.0 < propensity <= 1.0 for propensity in propensities)
    assert folded.health()["unknown_propensities"] == []
