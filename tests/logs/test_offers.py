"""Logs give back offers with ids, names, masks and shared features, for every learner that can be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("polars", reason="needs the extra logs")
pytest.importorskip("msgspec", reason="needs the extra logs")

import equipoise
from equipoise import Portfolio
from equipoise.adapters import VW, Epsilon, Exploring, LightGBM, MABWiser, River, Sklearn
from equipoise.errors import InvalidArgument
from equipoise.features import (
    Category,
    Columns,
    Concat,
    Flag,
    Interactions,
    Number,
    Offers,
    OneHot,
    Prefix,
    Schema,
    Shared,
)
from equipoise.learners import OFUL, UCB, DisjointOFUL, SquareCB
from equipoise.logs import LoggedRounds, from_arrays, from_bandit_feedback, open_log
from equipoise.logs.replay import replay, replay_portfolio
from equipoise.logs.tables import write_parquet
from equipoise.types import Context
from tests.adapters.subjects import mab, needs

IDS = ["red", "green", "blue", "gold"]


def contexts_of(log: LoggedRounds) -> list[Context]:
    return [logged.context for logged in log.each_round()]


def dsjson_event(t: int, tags: list[Any]) -> str:
    n = len(tags)
    multi = [{"item": {"price": k / 4}, **({} if tag is None else {"_tag": tag})} for k, tag in enumerate(tags)]
    event = {
        "_label_cost": -1.0,
        "_label_probability": 1 / n,
        "_label_Action": 2,
        "_labelIndex": 1,
        "a": [2, *(k for k in range(1, n + 1) if k != 2)],
        "p": [1 / n] * n,
        "EventId": f"e{t}",
        "c": {"user": {"age": t / 10}, "_multi": multi},
    }
    return json.dumps(event)


def test_tags_of_dsjson_are_ids(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    tags: list[list[Any]] = [["a", "b"], ["b", "c", "a"], [None, "b"], ["a", "a"], [3, "b"], ["c", "d"]]
    path.write_text("\n".join(dsjson_event(t, each) for t, each in enumerate(tags)))
    log = open_log(path)
    expected = [("a", "b"), ("b", "c", "a"), None, None, None, ("c", "d")]
    assert [context.ids for context in contexts_of(log)] == expected and log.has_ids
    first = contexts_of(log)[1]
    np.testing.assert_array_equal(first.actions, [[0.0, 0.1], [0.25, 0.1], [0.5, 0.1]])
    assert first.shared.tolist() == [0.1]
    assert (log.offer_names, log.shared_names) == (("item^price",), ("user^age",))
    write_parquet(log, tmp_path / "log.parquet")
    assert contexts_of(open_log(tmp_path / "log.parquet")) == contexts_of(log)


def test_tags_of_text_are_ids(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text("shared |u age:3\n'a |i x:1\n0:-1:0.5 b|i x:2\n\n|i x:1\n0:-1:0.5 'b |i x:2\n\n")
    contexts = contexts_of(open_log(path))
    assert [context.ids for context in contexts] == [("a", "b"), None]
    assert contexts[0].actions.tolist() == [[1.0, 3.0], [2.0, 3.0]] and contexts[0].shared.tolist() == [3.0]


def test_names_of_actions_are_ids(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("action,reward,propensity,age\nred,1,0.5,0.25\nblue,0,0.5,0.75\nred,1,0.5,0.5\n")
    log = open_log(path)
    assert [context.ids for context in contexts_of(log)] == [("red", "blue")] * 3
    assert contexts_of(log)[1].shared.tolist() == [0.75]
    portfolio = Portfolio([UCB(2), DisjointOFUL(features=Shared(1), arms=2), OFUL(4, action_bound=2.0)])
    assert [row.rounds for row in portfolio.warm_start(log).learners] == [3, 3, 3]
    with pytest.raises(InvalidArgument, match=r"'OFUL\(d=4\)' cannot learn the log, as it refuses the action of every"):
        Portfolio([UCB(2), OFUL(4)]).warm_start(log)
    served = Offers(None, [0.5], ["blue", "red"])  # as over HTTP, where arms have their names
    assert served.ids is not None and portfolio.learners[0].decide(served).action in (0, 1)
    with pytest.raises(InvalidArgument, match="context has no ids, but UCB has learned arms by id"):
        portfolio.learners[0].decide(np.eye(2))


def test_arrays_without_shared_features_are_matrices() -> None:
    log = from_arrays(np.zeros((2, 3, 2)), [0, 1], [1.0, 0.0], [0.5, 0.5])
    assert [type(context) for context in contexts_of(log)] == [np.ndarray] * 2
    feedback = {"n_rounds": 2, "n_actions": 2, "context": [[1.0], [2.0]], "action": [0, 1], "reward": [1.0, 0.0]}
    (first, _) = contexts_of(from_bandit_feedback({**feedback, "pscore": [0.5, 0.5], "action_context": [[3.0], [4.0]]}))
    assert first == Offers([[3.0, 1.0], [4.0, 1.0]], [1.0])


def offers_at(t: int) -> Offers:
    rng = np.random.default_rng([t, 5])
    n = int(rng.integers(2, 5))
    mask = rng.random(n) < 0.7
    mask[int(rng.integers(n))] = True
    ids = [IDS[k] for k in rng.permutation(4)[:n]]
    return Offers(rng.random((n, 2)) / 2, rng.random(2) / 2, ids, mask=mask if t % 2 else None)


MAP = Concat([Prefix(2), Interactions(Shared(2), OneHot(IDS))])


def mixed_pool() -> list[Any]:
    sgd = Sklearn({"class": "linear_model.SGDRegressor"})
    trees = LightGBM(window=60, every=20, lag=5, trees=3, settings={"min_data_in_leaf": 3})
    return [
        OFUL(features=MAP, action_bound=0.6),  # it refuses some offers
        UCB(4),
        DisjointOFUL(features=Shared(2), arms=4),
        SquareCB(2),
        VW("--squarecb", features=MAP),
        Exploring(sgd, Epsilon(0.2), features=MAP, name="sgd"),
        Exploring(trees, features=MAP, name="trees"),
        Exploring(River({"class": "linear_model.LinearRegression"}), features=Columns([1, 0]), name="river"),
    ]


@needs("sklearn")
@needs("vowpalwabbit")
@needs("lightgbm")
@needs("river")
def test_a_journal_replays_with_the_learners_that_wrote_it(tmp_path: Path) -> None:
    """Contexts are those of the decisions, so each learner that learns from all rounds ends as it did live."""
    rng, n, path, pool = np.random.default_rng(0), 300, tmp_path / "shop.db", mixed_pool()
    with equipoise.open(path, Portfolio(pool, explore=0.3, seed=1)) as live:
        decisions = []
        for t in range(n):
            decisions.append(live.decide(offers_at(t)))
            live.learn(decisions[-1], float(rng.random() < 0.3 + 0.1 * decisions[-1].action))
        assert len({decision.learner for decision in decisions}) == 9, "every learner plays, and the floor"
        learned = [pool[k].state() for k in (0, 3, 5, 6, 7)]
        refused = live.health()["learners"][0]["refused"]
    log = open_log(path)
    assert contexts_of(log) == [offers_at(t) for t in range(n)]
    assert [logged.action for logged in log.each_round()] == [decision.action for decision in decisions]
    learners = mixed_pool()
    result = replay(log, learners, reward_range=(0, 1))
    again = [learners[k].state() for k in (0, 3, 5, 6, 7)]
    for one, other in zip(learned, again, strict=True):
        for name in one.keys() - {"draws", "n_draws"}:
            np.testing.assert_array_equal(one[name], other[name], name)
    assert refused > 0 and learners[0].memory.updates[0] == n - refused
    assert result.learners[0].sat_out > 0 and not any(each.sat_out for each in result.learners[1:])
    assert all(np.isfinite(each.estimate("progressive").value) for each in result.learners)
    rejected = replay(log, mixed_pool()[1:], method="rejection")
    assert all(len(each.accepted) for each in rejected.learners)
    with pytest.raises(InvalidArgument, match=r"method is 'rejection', but learner 'OFUL\(d=10\)' takes no offer of"):
        replay(log, mixed_pool(), method="rejection")
    assert len(replay_portfolio(log, Portfolio(mixed_pool())).rewards) > 5
    warmed = Portfolio(mixed_pool())
    learned_rounds = [row.rounds for row in warmed.warm_start(log).learners]
    assert learned_rounds == [n - refused, *[n] * 7]


@needs("mabwiser")
@pytest.mark.parametrize("policy", ["LinUCB", "UCB1"])
def test_bandits_of_mabwiser_replay_too(policy: str, tmp_path: Path) -> None:
    def make() -> Any:
        return MABWiser(mab(policy, alpha=0.5))

    with equipoise.open(tmp_path / "shop.db", Portfolio([make()], explore=0.3)) as live:
        for t in range(60):
            rng = np.random.default_rng(t)
            ids = [["a", "b", "c"][k] for k in rng.permutation(3)[: 2 + t % 2]]
            live.learn(live.decide(Offers(None, rng.random(2), ids)), float(rng.random()))
    log = open_log(tmp_path / "shop.db", skip_bad_rows=40)  # it has no pmf, for plays of the floor
    assert log.n_rounds > 20
    assert [len(each.evaluation.rewards) for each in replay(log, [make(), UCB(3)]).learners] == [log.n_rounds] * 2


@pytest.mark.compiled
def test_columns_of_a_journal_have_the_names_of_its_schema(tmp_path: Path) -> None:
    """Also after the schema has grown: earlier rounds have zeros in columns that came later."""
    small = Schema({"device": Category(["phone"])}, {"price": Number(0, 4)})
    large = Schema({"device": Category(["phone", "desktop"])}, {"price": Number(0, 4), "size": Number(0, 2)})
    path = tmp_path / "shop.db"
    for schema in (small, large):
        with equipoise.open(path, Portfolio([OFUL(features=Prefix(1))], schema=schema, explore=0.5)) as live:
            for price in (1.0, 3.0):
                live.learn(
                    live.decide(
                        {"device": "phone"}, offers=[{"features": {"price": price}}, {"features": {"price": 4.0}}]
                    ),
                    1.0,
                )
    log = open_log(path)
    assert log.shared_names[0] == "device=phone" and log.shared_names[-1] == "device=desktop"
    assert log.offer_names == ("price", "price missing", "size", "size missing")
    (batch,) = log
    assert batch.offers.shape == (4, 2, 4) and batch.shared.shape == (4, len(log.shared_names))
    assert [context.actions.shape for context in contexts_of(log)] == [(2, 2)] * 2 + [(2, 4)] * 2
    assert len(replay(log, [OFUL(2)]).learners[0].evaluation.rewards) == 4


SMALL: dict[str, Any] = {"device": Category(["phone", "tv"]), "age": Number()}
LARGE: dict[str, Any] = {"new": Flag(), "device": Category(["phone", "tv", "car"]), "age": Number()}
BY_AGE = Interactions(OneHot(["red", "green"]), Shared(columns=["age"]))


def shop(context: dict[str, Any]) -> Portfolio:
    learners = [OFUL(scale=0.1), OFUL(features=BY_AGE, scale=0.1, name="age")]
    return Portfolio(learners, schema=Schema(context), action_names=IDS[:2], explore=0.5)


def visitor(t: int) -> dict[str, Any]:
    return {"device": ["phone", "tv", "car"][t % 3], "age": 20 + 7 * t % 50}


def has_learned(portfolio: Portfolio) -> float:
    """How often the learner that names the age is right: those over 45 want what is red."""
    assert portfolio.schema is not None
    right = 0
    for t in range(50):
        offers = portfolio.schema.offers(visitor(t), ids=IDS[:2])
        right += (portfolio.learners[1].decide(offers).greedy == 0) == (visitor(t)["age"] > 45)
    return right / 50


@pytest.fixture
def grown_journal(tmp_path: Path) -> Path:
    """A journal that began with fewer columns than the file has now, which has them in another order."""
    path = tmp_path / "shop.db"
    for context in (SMALL, LARGE):
        with equipoise.open(path, shop(context)) as live:
            for t in range(100):
                decision = live.decide(visitor(t))
                live.learn(decision, float((decision.action_id == "red") == (visitor(t)["age"] > 45)))
    return path


@pytest.mark.compiled
def test_a_journal_is_read_with_the_columns_of_a_schema(grown_journal: Path) -> None:
    schema = Schema(LARGE)
    log = open_log(grown_journal, schema=schema)
    assert log.schema is not None and log.shared_names == log.schema.shared_columns == schema.shared_columns
    assert set(log.schema.layouts[0].scales) == {"age"}
    assert [len(each.shared) for each in contexts_of(log)] == [len(schema.shared_columns)] * 200
    assert contexts_of(log)[150] == log.schema.offers(visitor(50), ids=IDS[:2])
    earlier = dict(zip(schema.shared_columns, contexts_of(log)[40].shared, strict=True))
    assert earlier["device=tv"] == earlier["new missing"] == 1.0 and earlier["device=car"] == earlier["new"] == 0.0
    found = replay(log, list(shop(LARGE).learners)).learners
    assert min(each.estimate("progressive").value for each in found) > 0.7
    as_decided = contexts_of(open_log(grown_journal))
    assert {len(each.shared) for each in as_decided} == {6, 9}
    for wrong in (Schema({**LARGE, "age": Number(0, 99)}), Schema({**LARGE, "device": Flag()})):
        with pytest.raises(InvalidArgument, match=r"of its context as .*, but the log was written with"):
            open_log(grown_journal, schema=wrong)


@pytest.mark.parametrize("context", [LARGE, dict(reversed(LARGE.items()))])
@pytest.mark.parametrize("evidence", [False, True])
def test_a_warm_start_takes_the_ranges_of_a_journal(
    evidence: bool, context: dict[str, Any], grown_journal: Path
) -> None:
    """Else what was learned of a column would be about other numbers than those that come."""
    portfolio = shop(context)
    events: list[str] = []
    portfolio.on_event(lambda event: events.append(event.kind))
    log = open_log(grown_journal, schema=portfolio.schema)
    portfolio.warm_start(log, evidence=evidence)
    assert portfolio.schema is not None and log.schema is not None
    assert portfolio.schema.layouts == log.schema.layouts and events.count("scaled") == 1
    assert has_learned(portfolio) > 0.9


def test_a_warm_start_refuses_other_columns(grown_journal: Path) -> None:
    portfolio = shop(LARGE)
    with pytest.raises(InvalidArgument, match=r"columns of the context in the log .* with schema=portfolio\.schema"):
        portfolio.warm_start(open_log(grown_journal))
    for t in range(30):
        portfolio.decide({"age": 3 * t})
    log = open_log(grown_journal, schema=portfolio.schema)
    portfolio.add_learner(OFUL(name="late"))
    with pytest.raises(
        InvalidArgument, match=r"'age' of the context has the range .* in the log, but must have the one"
    ):
        portfolio.warm_start(log, learners=["late"])
    assert portfolio.health()["learners"][-1]["logged_rounds"] == 0
