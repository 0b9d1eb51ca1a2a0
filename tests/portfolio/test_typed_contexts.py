"""Portfolios over typed features: what callers send, learned scales, ids, masks, delays, saving, growth."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.errors import DuplicateDecision, EquipoiseError, InvalidArgument, StoreConflict, UnknownName
from equipoise.features import Category, Columns, Flag, Interactions, Number, Offers, OneHot, Schema, Shared
from equipoise.learners import OFUL, UCB, DisjointOFUL, EpsilonGreedy, LinearThompson, SquareCB
from equipoise.portfolio import Event
from equipoise.portfolio.inputs import N_FIRST
from equipoise.portfolio.warm_start import LoggedRound
from equipoise.settings import equal_data

NAMES = ("red", "blue")
CONTEXT: dict[str, Any] = {"device": Category(["phone", "tv"]), "user": {"age": Number(), "vip": Flag()}}
SCHEMA = Schema(CONTEXT, {"price": Number(0, 10)})
ITEMS = [{"id": "red", "features": {"price": 3}}, {"id": "blue", "features": {"price": 9}}]


def visitor(t: int) -> dict[str, Any]:
    return {"device": ["phone", "tv", "car"][t % 3], "user": {"age": 20 + t % 50, "vip": t % 2 == 0}}


def make(**settings: Any) -> Portfolio:
    learners = [OFUL(), DisjointOFUL(arms=2), OFUL(features=Shared(columns=["user.age"]), name="age"), UCB(2)]
    return Portfolio(learners, **{"schema": SCHEMA, "action_names": NAMES, **settings})


def events_of(portfolio: Portfolio) -> list[Event]:
    events: list[Event] = []
    portfolio.on_event(events.append)
    return events


def offers_of(portfolio: Portfolio, context: Any, features: Any = None) -> Offers:
    assert portfolio.schema is not None
    return portfolio.schema.offers(context, features, ids=NAMES)


def play(portfolio: Any, rounds: int, start: int = 0, **options: Any) -> list[Any]:
    decisions = []
    for t in range(start, start + rounds):
        decisions.append(portfolio.decide(visitor(t), offers=ITEMS if t % 2 else None, **options))
        portfolio.learn(decisions[-1], float(decisions[-1].action_id == "red"))
    return decisions


@pytest.mark.parametrize("make_learner", [OFUL, LinearThompson, SquareCB, lambda: DisjointOFUL(arms=2)])
def test_features_and_bounds_follow_from_the_schema(make_learner: Callable[[], Any]) -> None:
    given = make_learner()
    assert "d=" not in given.name
    portfolio = Portfolio([given, UCB(2)], schema=SCHEMA, action_names=NAMES)
    learner, schema = portfolio.learners[0], portfolio.schema
    assert schema is not None
    is_disjoint = isinstance(given, DisjointOFUL)
    wanted = schema.default_map_of_action() if is_disjoint else schema.default_map(NAMES)
    assert (learner.features, learner.dim, learner.action_bound) == (wanted, wanted.dim, wanted.norm_bound)
    play(portfolio, 40)
    assert [row["refused"] for row in portfolio.health()["learners"]] == [0, 0]
    assert portfolio.standing()[0].plays > 0
    again = Portfolio.from_state(portfolio.state())
    assert again.learners[0] == learner and equal_data(again.state(), portfolio.state())


@pytest.mark.parametrize(
    "make_learner", [OFUL, LinearThompson, SquareCB, lambda: OFUL(features=Shared(columns=["device"]))]
)
@pytest.mark.parametrize("copied", [lambda given: given.clone(), lambda given: type(given).from_config(given.config())])
def test_copies_take_bounds_from_the_schema(make_learner: Callable[[], Any], copied: Callable[[Any], Any]) -> None:
    assert "action_bound" not in repr(make_learner())
    learners = [copied(make_learner()), make_learner().clone(name="second")]
    portfolio = Portfolio(
        [*learners, make_learner().clone(name="stated", action_bound=1.0)], schema=SCHEMA, action_names=NAMES
    )
    schema = portfolio.schema
    assert schema is not None
    one, other, stated = portfolio.learners
    assert one.action_bound == other.action_bound == schema.norm_bound(one.features) and stated.action_bound == 1.0


def test_what_is_stated_stays() -> None:
    stated = OFUL(features=Shared(columns=["device"]), action_bound=5.0)
    numbers = OFUL(features=Interactions(OneHot(NAMES), Shared(3)))
    portfolio = Portfolio([stated, numbers, OFUL(2, action_bound=7.0)], schema=SCHEMA, action_names=NAMES)
    assert [each.action_bound for each in portfolio.learners] == [5.0, 1.0, 7.0]
    assert portfolio.learners[0].features.features == Shared(columns=[0, 1, 2, 3])
    assert portfolio.learners[1].features == Interactions(OneHot(NAMES), Shared(3))


def test_a_schema_is_needed_for_features_that_follow_from_it() -> None:
    for learner in (OFUL(), OFUL(features=Columns(["price"]))):
        text = "dim and features of learner 'OFUL' do not say its columns, but must, unless they follow from the schema"
        with pytest.raises(InvalidArgument, match=text):
            Portfolio([learner])
        with pytest.raises(InvalidArgument, match=text):
            learner.decide(np.eye(2))
        with pytest.raises(InvalidArgument, match=text):
            learner.model_class()
    with pytest.raises(UnknownName, match="column of the actions 'prise' is unknown; did you mean price"):
        Portfolio([OFUL(features=Columns(["prise"]))], schema=SCHEMA)


def test_rounds_are_those_of_the_same_columns() -> None:
    """A portfolio decides as one that gets the columns, with ids, rewards in any order, and masks."""
    typed, plain = make(explore=0.1), make(explore=0.1)
    waiting = []
    for t in range(80):
        context = offers_of(typed, visitor(t), [each["features"] for each in ITEMS])
        columns = Offers(context.actions, context.shared, NAMES)
        one, other = typed.decide(visitor(t), offers=ITEMS, propensity=True), plain.decide(columns, propensity=True)
        assert one[1:] == other[1:]
        waiting.append((one, other))
        if t % 5 == 4:
            for first, second in reversed(waiting):
                typed.learn(first, float(first.action))
                plain.learn(second, float(second.action))
            waiting.clear()
    assert typed.certificate() == plain.certificate()


def test_old_forms_of_contexts_work_with_a_schema() -> None:
    portfolio = Portfolio([UCB(2), OFUL(1)], schema=SCHEMA, action_names=NAMES)
    matrix = np.array([[0.5, 0.0], [0.1, 0.0]])
    for context in (matrix, Offers(matrix, [0.0] * 8, NAMES), Offers(matrix), None):
        portfolio.learn(portfolio.decide(context, available=["UCB"] if context is None else None), 1.0)
    assert portfolio.decide(visitor(0)).action_id in NAMES


def test_dicts_without_a_schema_stay_contexts_of_own_learners() -> None:
    class Own:
        def decide(self, context: Any) -> int:
            return int(context["arm"])

        def learn(self, context: Any, action: int, reward: float) -> None:
            assert context == {"arm": action}

    portfolio = Portfolio([Own()])
    portfolio.learn(portfolio.decide({"arm": 1}), 1.0)
    assert portfolio.failed_updates == ()


def test_offers_without_a_schema_have_numbers() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(1)])
    rows = [{"id": "a", "features": [0.5, 0.1]}, {"id": "b", "features": [0.1, 0.5]}]
    portfolio.learn(portfolio.decide([0.3], offers=rows), 1.0)
    with pytest.raises(InvalidArgument, match=r"offers\[0\].features has names, which need a schema"):
        portfolio.decide(None, offers=[{"features": {"price": 1}}])
    with pytest.raises(InvalidArgument, match=r"context has names, which need a schema"):
        portfolio.decide({"age": 3}, offers=rows)


WRONG: list[tuple[Any, dict[str, Any], str]] = [
    ({"device": 1.5}, {}, "context: feature 'device' is 1.5, but must be a text, a whole number"),
    ({"devise": "tv"}, {}, "feature of context 'devise' is unknown; did you mean device?"),
    ({}, {"offers": 3}, "offers is 3, but must be a list of dicts with id and features"),
    ({}, {"offers": []}, "offers is empty, but must have at least one"),
    ({}, {"offers": [{"price": 3}]}, "offers[0] is {'price': 3}, but must be a dict with id and features only"),
    ({}, {"offers": [{"id": "red"}, {}]}, "offers have id in 1 of 2 cases, but must in all or none"),
    ({}, {"offers": [{"features": {"price": "x"}}]}, "offers[0]: feature 'price' is 'x', but must be a number"),
    (Offers([[1.0, 0.0]]), {"offers": ITEMS}, "offers is given, but the context has offers already"),
]


@pytest.mark.parametrize(("context", "options", "message"), WRONG, ids=[message for *_, message in WRONG])
def test_a_refused_context_changes_nothing(context: Any, options: Any, message: str) -> None:
    portfolio = make()
    play(portfolio, 10)
    before = portfolio.state()
    with pytest.raises(EquipoiseError, match=re.escape(message)):
        portfolio.decide(context, **options)
    assert equal_data(portfolio.state(), before)


def test_a_dict_needs_offers_or_names_of_actions() -> None:
    portfolio = Portfolio([UCB(2)], schema=SCHEMA)
    with pytest.raises(InvalidArgument, match="context has names of features, but there are no offers: give offers"):
        portfolio.decide(visitor(0))


def ages(portfolio: Portfolio) -> Any:
    assert portfolio.schema is not None
    return portfolio.schema.layouts[0].scales.get("user.age")


def test_a_scale_is_learned_and_then_fixed() -> None:
    portfolio = make()
    events, offers = events_of(portfolio), []
    for t in range(60):
        offers.append(offers_of(portfolio, visitor(t)))
        portfolio.learn(portfolio.decide(visitor(t)), 0.5)
    values = [visitor(t)["user"]["age"] for t in range(N_FIRST)]
    low, high = np.mean(values) - 2 * np.std(values), np.mean(values) + 2 * np.std(values)
    assert ages(portfolio) == pytest.approx((low, high))
    (scaled,) = [event for event in events if event.kind == "scaled"]
    assert scaled.data == {"context": {"user.age": ages(portfolio)}}
    seen = [event.data.get("seen") for event in events if event.kind == "decided"]
    assert seen == [{"context": {"user.age": float(each)}, "actions": {}} for each in values] + [None] * 30
    kinds = [event.kind for event in events]
    assert kinds.index("scaled") == kinds.index("decided", 2 * N_FIRST - 2) + 1, "right after the round that tells it"
    column = [list(np.asarray(each.shared)[4:6]) for each in offers]  # the age, and whether it is missing
    assert column[:N_FIRST] == [[0.0, 1.0]] * N_FIRST
    assert column[N_FIRST] == [pytest.approx((20 + N_FIRST - (low + high) / 2) / ((high - low) / 2)), 0.0]


def test_a_scale_needs_two_different_values_and_only_decided_rounds_count() -> None:
    portfolio = make()
    for _ in range(N_FIRST + 5):
        portfolio.decide({"user": {"age": 40}})
    assert ages(portfolio) is None
    for _ in range(5):
        with pytest.raises(UnknownName):
            portfolio.decide({"user": {"age": 90, "x": 1}})
        portfolio.decide({"user": {"age": None}})
    assert ages(portfolio) is None
    portfolio.decide({"user": {"age": 60}})
    low, high = ages(portfolio)
    assert low < 41 < high and portfolio.decide({"user": {"age": 1e9}}).action_id in NAMES


@pytest.mark.parametrize("values", [[1e17] * 29 + [1e17 + 16.0], [0.0] * 29 + [5e-324]])
def test_a_scale_has_a_width_however_close_values_are(values: list[float]) -> None:
    portfolio = make()
    for value in [*values, values[0], values[-1]]:
        portfolio.learn(portfolio.decide({"user": {"age": value}}), 0.5)
    low, high = ages(portfolio)
    Number(low, high)  # as one may declare
    shared = offers_of(portfolio, {"user": {"age": values[0]}}).shared
    assert shared is not None and np.isfinite(shared).all()


def test_scales_of_offers_are_learned_from_all_offers() -> None:
    schema = Schema(actions={"price": Number(), "rank": Number()})
    portfolio = Portfolio([OFUL(), EpsilonGreedy(3, epsilon=0.1)], schema=schema)
    for t in range(N_FIRST // 3):
        offers = [{"features": {"price": 10 * k + t, "rank": 1}} for k in range(3)]
        portfolio.learn(portfolio.decide(None, offers=offers), 0.5)
    assert portfolio.schema is not None
    scales = portfolio.schema.layouts[1].scales
    assert set(scales) == {"price"}, "all ranks are equal"
    low, high = scales["price"]
    assert low < 10 < high


def test_a_repeated_id_gets_its_decision_before_and_after_the_scale_is_fixed() -> None:
    """Its columns are others by then, so the id stands for what the caller gave."""
    portfolio = make()
    first = portfolio.decide(visitor(0), offers=ITEMS, id="first")
    assert portfolio.decide(visitor(0), offers=ITEMS, id="first") == first
    play(portfolio, 40)
    assert ages(portfolio) is not None
    before = portfolio.state()
    again = {"user": {"vip": True, "age": 20.0}, "device": "phone"}  # another order, and 20.0 for 20
    assert portfolio.decide(again, offers=ITEMS, id="first") == first
    for context, offers in ((visitor(1), ITEMS), (visitor(0), ITEMS[::-1]), (visitor(0), None)):
        with pytest.raises(DuplicateDecision, match="id 'first' was used for a decision with another context"):
            portfolio.decide(context, offers=offers, id="first")
    portfolio.learn("first", 1.0)
    assert portfolio.decide(again, offers=ITEMS, id="first") == first
    assert equal_data(portfolio.state()["inputs"], before["inputs"])


def test_a_decision_by_columns_of_an_earlier_release_is_repeated_for_features() -> None:
    """Before schemas the digest of an id was that of the columns."""
    schema = Schema({"age": Number(scaled=False, missing="zero")})
    portfolio = Portfolio([UCB(2)], schema=schema, action_names=NAMES)
    made = portfolio.decide(Offers(None, [3.0], NAMES), id="old")
    assert portfolio.decide({"age": 3}, id="old") == made


def test_offers_made_before_a_change_are_made_again() -> None:
    """As if they had waited in a queue while the scale was fixed."""
    portfolio, other = make(), make()
    assert portfolio.schema is not None
    early = portfolio.schema.offers(visitor(7), [each["features"] for each in ITEMS], ids=NAMES, mask=[True, False])
    play(portfolio, 40)
    play(other, 40)
    assert portfolio.schema is not early.source.schema  # type: ignore[union-attr]
    decision = portfolio.decide(early)
    ((_, context),) = [portfolio.open_decisions()[decision.id]]
    assert isinstance(context, Offers) and context.source is None
    assert context.shared is not None and context.shared[5] == 0.0 and decision.action == 0
    assert other.decide(visitor(7), offers=ITEMS).drawn == decision.drawn


def test_masks_keep_what_offers_were_made_of() -> None:
    portfolio = make()
    assert portfolio.schema is not None
    offers = portfolio.schema.offers(visitor(3), ids=NAMES)
    assert offers.offered_ids == NAMES
    masked = Offers(offers.actions, offers.shared, offers.ids, mask=[False, True], source=offers.source)
    assert masked.offered_ids == ("blue",)
    assert masked == Offers(offers.actions, offers.shared, NAMES, mask=[False, True])
    assert portfolio.decide(masked, id="a").action_id == "blue"
    with pytest.raises(DuplicateDecision):
        portfolio.decide(offers, id="a")


@pytest.mark.parametrize("rounds", [10, 40])
def test_a_saved_portfolio_continues_the_same(rounds: int, tmp_path: Any) -> None:
    one = make(deadline=5, default_reward=0.0)
    play(one, rounds)
    one.decide(visitor(3), id="open")
    one.save(tmp_path / "portfolio")
    other = Portfolio.load(tmp_path / "portfolio")
    assert other.settings == one.settings and other.schema == one.schema
    assert other.schema is not None and one.schema is not None and other.schema.layouts == one.schema.layouts
    first, second = ([each[1:] for each in play(portfolio, 40, rounds)] for portfolio in (one, other))
    assert first == second
    assert ages(one) == ages(other) is not None


class Mine(UCB):
    """Not registered, so that all learners are given when a file is loaded."""


class Wide(OFUL):
    """Not registered, and its features follow from the schema."""


@pytest.mark.parametrize("grows", [False, True])
def test_learners_that_are_given_to_a_file_take_its_features(grows: bool, tmp_path: Any) -> None:
    def learners() -> list[Any]:
        return [OFUL(scale=0.5), Wide(name="wide"), OFUL(features=Shared(columns=["user.age"]), name="age"), Mine(2)]

    portfolio = Portfolio(learners(), schema=SCHEMA, action_names=NAMES)
    play(portfolio, 35)
    if grows:
        portfolio.reconfigure(schema=Schema({**CONTEXT, "new": Flag()}, SCHEMA.actions))
    portfolio.save(tmp_path / "portfolio")
    again = Portfolio.load(tmp_path / "portfolio", learners())
    assert [each.config() for each in again.learners] == [each.config() for each in portfolio.learners]
    assert [each[1:] for each in play(again, 10)] == [each[1:] for each in play(portfolio, 10)]
    other = [OFUL(scale=0.7), *learners()[1:]]
    with pytest.raises(StoreConflict, match="but must be a OFUL with"):
        Portfolio.load(tmp_path / "portfolio", other)


def test_a_portfolio_is_a_fold_of_its_events() -> None:
    """No learner and no schema is asked: the events have columns, values that were seen, and scales."""
    live, folded = make(explore=0.1), make(explore=0.1)
    events = events_of(live)
    play(live, 25)
    live.decide(visitor(1), id="open")
    live.reconfigure(schema=Schema({**CONTEXT, "new": Flag()}, SCHEMA.actions))
    play(live, 25, 30)
    live.add_learner(OFUL(name="late"))
    play(live, 10, 60)
    for event in events:
        folded.apply(event)
    assert equal_data(_without_ids(folded.state()), _without_ids(live.state()))
    assert ages(folded) == ages(live) is not None


def _without_ids(state: dict[str, Any]) -> dict[str, Any]:
    """Failures of a learner are not folded into times of calls; ids of a fold are of its own epoch."""
    return {key: each for key, each in state.items() if key not in ("tickets", "history")}


def test_a_schema_grows_at_its_end_and_learners_keep_their_columns() -> None:
    portfolio = make()
    events = events_of(portfolio)
    play(portfolio, 40)
    assert portfolio.schema is not None
    before, columns = portfolio.learners[0].features, portfolio.schema.shared_columns
    device = Category(["phone", "tv", "car"])
    grown = Schema({**CONTEXT, "device": device, "speed": Number(0, 9)}, {**SCHEMA.actions, "new": Flag()})
    portfolio.reconfigure(schema=grown)
    assert portfolio.settings.schema == portfolio.schema == grown and ages(portfolio) is not None
    assert portfolio.schema.shared_columns == (*columns, "device=car", "speed", "speed missing")
    assert portfolio.schema.action_columns == ("price", "price missing", "new", "new missing")
    assert portfolio.learners[0].features == before
    assert events[-1].kind == "config" and events[-1].data["changes"] == {"schema": grown.to_plain()}
    name = portfolio.add_learner(OFUL(name="late"))
    late = portfolio.learners[-1]
    assert late.dim == portfolio.schema.default_map(NAMES).dim > before.dim
    decision = portfolio.decide({**visitor(2), "speed": 3}, available=[name])
    assert decision.learner_name == name and portfolio.health()["learners"][0]["refused"] == 0
    again = Portfolio.from_state(portfolio.state())
    assert again.schema is not None and again.schema.shared_columns == portfolio.schema.shared_columns


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "schema is None, but must stay Schema("),
        (Schema({"device": Category(["phone", "tv"])}, SCHEMA.actions), "but must keep 'user.age' of its context as"),
        (Schema({**CONTEXT, "device": Flag()}, SCHEMA.actions), "but must keep 'device' of its context as Category("),
        (Schema(CONTEXT), "but must keep 'price' of its actions as Number(low=0.0, high=10.0"),
    ],
)
def test_a_schema_that_would_move_columns_is_refused(schema: Any, message: str) -> None:
    portfolio = make()
    play(portfolio, 40)
    before = portfolio.state()
    for call in (
        lambda: portfolio.reconfigure(schema=schema, explore=0.5),
        lambda: portfolio.declare(Portfolio([UCB(2)], schema=schema, action_names=NAMES).declared),
    ):
        with pytest.raises(InvalidArgument, match=re.escape(message)):
            call()
    assert equal_data(portfolio.state(), before)


def test_a_growth_that_comes_with_a_refused_change_is_taken_back() -> None:
    portfolio = make()
    play(portfolio, 40)
    before = portfolio.state()
    with pytest.raises(EquipoiseError):
        portfolio.reconfigure(schema=Schema({**CONTEXT, "new": Flag()}, SCHEMA.actions), selector={"nonsense": 1})
    assert equal_data(portfolio.state(), before)
    assert portfolio.schema is not None and "new" not in portfolio.schema.shared_columns


def test_a_learner_that_learned_elsewhere_stays_as_it_is() -> None:
    learner = OFUL(1)
    learner.learn(np.eye(1), 0, 1.0)
    before = learner.state()
    portfolio = Portfolio([learner, UCB(2)], schema=Schema(actions={"x": Number(-3, 3, scaled=False)}))
    assert equal_data(portfolio.learners[0].state(), before) and learner.action_bound == 1.0


def test_warm_starts_take_features() -> None:
    """Learned as their columns, by the log alone and by replay; numbers have the scales that are known by then."""
    log = [LoggedRound(visitor(t), t % 2, float(t % 2), 0.5) for t in range(40)]
    one, other = make(), make()
    columns = [each._replace(context=offers_of(other, each.context)) for each in log]
    assert one.warm_start(log) == other.warm_start(columns)
    assert equal_data([each.state() for each in one.learners], [each.state() for each in other.learners])
    replayed = Portfolio([UCB(2)], schema=SCHEMA, action_names=NAMES)
    assert replayed.warm_start(_Log(log), evidence=True).evidence > 0


class _Log:
    """A log whose actions all had the same probability."""

    name, min_exposure, min_offered_exposure = "log", 0.5, 0.5

    def __init__(self, rounds: list[LoggedRound]) -> None:
        self._rounds, self.n_rounds = rounds, len(rounds)

    def each_round(self) -> Iterator[LoggedRound]:
        return iter(self._rounds)


def test_warm_starts_take_columns() -> None:
    portfolio = make()
    assert portfolio.schema is not None
    rng = np.random.default_rng(0)
    log = [
        LoggedRound(portfolio.schema.offers(visitor(t), ids=NAMES), int(rng.integers(2)), 0.5, 0.5) for t in range(30)
    ]
    result = portfolio.warm_start(log)
    assert [each.rounds for each in result.learners] == [30] * 4
