"""Schemas: columns, names, bounds, feature maps by name, rows of every form, and how a schema may grow."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName
from equipoise.features import (
    Category,
    Columns,
    Concat,
    CustomFeatures,
    Default,
    FeatureMap,
    Flag,
    Interactions,
    Number,
    Offers,
    One,
    OneHot,
    Prefix,
    Schema,
    Shared,
    Text,
    Vector,
)
from equipoise.features.maps import map_from_plain, map_to_plain
from equipoise.features.records import MAX_DEPTH, MAX_FIELDS, features_digest
from equipoise.learners import UCB

SCHEMA = Schema(
    {"device": Category(["phone", "tv"]), "user": {"age": Number(0, 100), "vip": Flag()}, "note": Text(hashed=4)},
    {"price": Number(0, 10), "color": Category(["red"], outside="refuse", missing="zero"), "look": Vector(2)},
)
VISITOR = {"device": "tv", "user": {"age": 25, "vip": True}, "note": "hello"}
ITEMS = [{"price": 5, "color": "red", "look": [0.6, 0.8]}, {"price": None}]
NAMES = ["device=phone", "device=tv", "device unknown", "device missing", "user.age", "user.age missing"]


def test_columns_have_names_in_the_declared_order() -> None:
    assert list(SCHEMA.shared_columns[:6]) == NAMES
    assert SCHEMA.shared_columns[6:8] == ("user.vip", "user.vip missing")
    assert SCHEMA.action_columns == ("price", "price missing", "color=red", "look 0", "look 1", "look missing")
    offers = SCHEMA.offers(VISITOR, ITEMS, ids=["a", "b"])
    assert offers.shared is not None
    assert offers.shared[:8].tolist() == [0.0, 1.0, 0.0, 0.0, -0.5, 0.0, 1.0, 0.0]
    assert offers.actions.tolist() == [[0.0, 0.0, 1.0, 0.6, 0.8, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0, 1.0]]
    assert offers.ids == ("a", "b") and not offers.actions.flags.writeable and not offers.shared.flags.writeable


def test_offers_are_those_of_the_same_columns() -> None:
    typed = SCHEMA.offers(VISITOR, ITEMS, ids=["a", "b"], mask=[True, False])
    plain = Offers(typed.actions, typed.shared, ["a", "b"], mask=[True, False])
    assert typed == plain == pickle.loads(pickle.dumps(typed)) == deepcopy(typed)
    for features in (Prefix(3), OneHot(["a", "b"]), Interactions(Columns([0]), Shared(2))):
        assert np.array_equal(typed.rows(features), plain.rows(features))


class Visitor(NamedTuple):
    device: str
    age: float


@dataclass
class Person:
    device: str
    age: float


def test_rows_of_every_form_have_the_same_columns() -> None:
    schema, record = Schema({"device": Category(), "age": Number(0, 99)}), {"device": "tv", "age": 7.0}
    expected, rows = schema.offers(record, ids=["x"]), list[Any]([Visitor("tv", 7.0), Person("tv", 7.0)])
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([record, {"device": None, "age": pandas.NA}])
    rows += [frame.iloc[0], next(frame.itertuples(index=False)), next(frame.itertuples())]
    rows += frame.to_dict("records")[:1]
    for row in rows:
        offers = schema.offers(row, ids=["x"])
        assert offers == expected
        assert offers.given_digest() == expected.given_digest(), "the same features, so a repeated request"
    missing = schema.offers(frame.iloc[1], ids=["x"])
    assert missing == schema.offers({}, ids=["x"])
    items = Schema(actions={"device": Category(), "age": Number(0, 99)})
    assert items.offers(offers=frame) == items.offers(offers=[record, {}])


@dataclass
class Visit:
    user: Person
    new: bool


@pytest.mark.parametrize("unknown", ["error", "ignore", "hash"])
def test_dataclasses_are_flattened_as_dicts_are(unknown: str) -> None:
    schema = Schema({"user": {"device": Category(), "age": Number(0, 99)}, "new": Flag()}, unknown=unknown)
    expected = schema.offers({"user": {"device": "tv", "age": 7}, "new": True}, ids=["x"])
    assert expected.shared is not None and expected.shared[schema.shared_columns.index("user.age missing")] == 0.0
    for row in (Visit(Person("tv", 7), True), {"user": Person("tv", 7), "new": True}):
        offers = schema.offers(row, ids=["x"])
        assert offers == expected and offers.given_digest() == expected.given_digest()
    if unknown == "hash":
        dicts = schema.offers({"seen": [{"device": "tv", "age": 7}]}, ids=["x"])
        assert schema.offers({"seen": [Person("tv", 7)]}, ids=["x"]) == dicts


@pytest.mark.parametrize("unknown", ["error", "ignore", "hash"])
@pytest.mark.parametrize("value", ["a", None])
def test_names_are_strings(unknown: str, value: Any) -> None:
    """Other ones cannot be in the digest of an id."""
    portfolio = Portfolio([UCB(1)], schema=Schema({"age": Number(0, 99)}, unknown=unknown), action_names=["x"])
    for name in (1, ("a", 1)):
        with pytest.raises(InvalidArgument, match=r"context has the name .*, but names must be strings"):
            portfolio.decide({"age": 3, name: value}, id="a")


def test_rows_of_polars_have_the_same_columns() -> None:
    polars = pytest.importorskip("polars")
    items, record = Schema(actions={"device": Category(), "age": Number(0, 99)}), {"device": "tv", "age": 7.0}
    frame = polars.DataFrame([record, {"device": None, "age": None}])
    assert items.offers(offers=frame) == items.offers(offers=[record, {}])
    shared = Schema({"device": Category(), "age": Number(0, 99)})
    for row in frame.iter_rows(named=True):
        assert shared.offers(row, ids=["x"]) == shared.offers({k: v for k, v in row.items() if v}, ids=["x"])


def test_columns_given_in_order_are_taken_as_they_are() -> None:
    shared = np.arange(len(SCHEMA.shared_columns)) / 10
    actions = np.ones((2, 6)) / 4
    offers = SCHEMA.offers(shared, actions, ids=["a", "b"])
    assert offers == Offers(actions, shared, ["a", "b"])
    mixed = SCHEMA.offers(None, [ITEMS[0], actions[0].tolist()])
    assert mixed.actions.tolist() == [[0.0, 0.0, 1.0, 0.6, 0.8, 0.0], actions[0].tolist()]


def test_names_with_dots_and_nested_dicts_are_one() -> None:
    flat = {"device": "tv", "user.age": 25, "user.vip": True, "note": "hello"}
    assert SCHEMA.offers(flat, ids=["a"]) == SCHEMA.offers(VISITOR, ids=["a"])
    assert SCHEMA.offers(flat, ids=["a"]).given_digest() == SCHEMA.offers(VISITOR, ids=["a"]).given_digest()
    with pytest.raises(InvalidArgument, match=r"context has 'user.age' twice, but names must differ"):
        SCHEMA.offers({"user.age": 3, "user": {"age": 3}}, ids=["a"])


def test_unknown_names_are_errors_ignored_or_hashed() -> None:
    declared = {"age": Number(0, 100)}
    with pytest.raises(UnknownName, match="feature of context 'agee' is unknown; did you mean age"):
        Schema(declared).offers({"agee": 3}, ids=["a"])
    ignoring = Schema(declared, unknown="ignore")
    assert ignoring.offers({"age": 3, "x": {"y": object()}}, ids=["a"]) == ignoring.offers({"age": 3}, ids=["a"])
    assert ignoring.offers({"age": 3}, [{"price": 3}]).actions.shape == (1, 0)
    hashing = Schema(declared, unknown="hash", hashed=5)
    with pytest.raises(
        InvalidArgument, match=r"offers\[0\] has the name 'price', but the schema has no features of it"
    ):
        hashing.offers({"age": 3}, [{"price": 3}])
    assert hashing.shared_columns == ("age", "age missing", *(f"other {k}" for k in range(5)))
    assert hashing.action_columns == ()
    words = {"city": "Lisbon", "n": 3, "tags": ["a", "b"], "deep": {"flag": True}, "none": None}
    shared = hashing.offers({"age": 3, **words}, ids=["a"]).shared
    assert shared is not None and 0.0 < np.linalg.norm(shared[2:]) <= 1.0 + 1e-12
    assert len(Schema(unknown="hash").action_columns) == len(Schema(unknown="hash").shared_columns) == 64
    assert len(Schema(declared, {}, unknown="hash").action_columns) == 64


def test_a_number_without_a_range_is_seen_but_not_used() -> None:
    schema = Schema({"age": Number(), "x": Number(missing="zero")}, {"price": Number()})
    offers = schema.offers({"age": 31, "x": None}, [{"price": 3}, {"price": None}, {"price": 5.5}])
    assert offers.shared is not None
    assert (offers.shared.tolist(), offers.actions.tolist()) == ([0.0, 1.0, 0.0], [[0.0, 1.0]] * 3)
    assert offers.seen == {"context": {"age": 31.0}, "actions": {"price": [3.0, 5.5]}}
    assert offers.without_source().seen is None and offers.without_source() == offers


def rows_of(features: Any, offers: Offers) -> list[list[float]]:
    return offers.rows(features).tolist()


def test_maps_address_columns_by_name_of_feature_or_column() -> None:
    offers = SCHEMA.offers(VISITOR, ITEMS, ids=["a", "b"])
    for named, numbered in (
        (Columns(["price", "look 1"]), Columns([0, 1, 4])),
        (Columns(["look", 0, "look 0"]), Columns([3, 4, 5, 0])),
        (Shared(columns=["user.age", "device=tv"]), Shared(columns=[4, 5, 1])),
        (Interactions(Columns(["color"]), Shared(columns=[0, "user.vip"])), None),
        (Concat([Columns(["price"]), Shared(columns=["device"])]), None),
    ):
        resolved = SCHEMA.resolve(named)
        assert isinstance(resolved, Default)
        if numbered is not None:
            assert resolved.features == numbered
        assert resolved.stated == named and resolved.norm_bound == SCHEMA.norm_bound(resolved)
        assert map_from_plain(map_to_plain(named)) == named
        assert map_from_plain(map_to_plain(resolved)) == resolved
        assert len(rows_of(resolved, offers)[0]) == resolved.dim
        with pytest.raises(InvalidArgument, match=r"is a name, but must be a number unless the portfolio has a schema"):
            named.of(offers)
    with pytest.raises(UnknownName, match="column of the actions 'prise' is unknown; did you mean price"):
        SCHEMA.resolve(Columns(["prise"]))
    with pytest.raises(UnknownName, match="column of the context 'price' is unknown"):
        SCHEMA.resolve(Shared(columns=["price"]))


def test_shared_features_in_front_keep_their_form() -> None:
    """Journals have this form, so it must not change."""
    assert map_to_plain(Shared(2)) == {"map": "Shared", "dim": 2}
    assert map_to_plain(Shared(columns=[2, 0])) == {"map": "Shared", "columns": [2, 0]}
    assert repr(Shared(2)) == "Shared(dim=2)" and Shared(2) == Shared(dim=2) != Shared(columns=[0, 1])
    offers = Offers([[0.0]], shared=[1.0, 2.0, 3.0])
    assert rows_of(Shared(columns=[2, 0]), offers) == [[3.0, 1.0]]
    for wrong in (lambda: Shared(), lambda: Shared(2, columns=[0]), lambda: Shared(0), lambda: Shared(columns=[0, 0])):
        with pytest.raises(InvalidArgument):
            wrong()
    with pytest.raises(InvalidArgument, match="context has 3 shared features, but must have at least 4"):
        Shared(columns=[3]).of(offers)


@pytest.mark.parametrize("ids", [None, ["a", "b"]])
def test_the_default_map_is_actions_and_actions_by_context(ids: Any) -> None:
    offers = SCHEMA.offers(VISITOR, ITEMS, ids=["a", "b"])
    default = SCHEMA.default_map(ids)
    n_shared = len(SCHEMA.shared_columns)
    actions = np.hstack([np.eye(2), offers.actions]) if ids else offers.actions
    assert offers.shared is not None
    products = np.einsum("ki,j->kij", actions, offers.shared).reshape(2, -1)
    constant = np.ones((2, 0 if ids else 1))
    found = offers.rows(default)
    assert default.dim == constant.shape[1] + actions.shape[1] * (1 + n_shared)
    assert sorted(found[0]) == pytest.approx(sorted(np.hstack([constant, actions, products])[0]))
    assert map_from_plain(map_to_plain(default)) == default
    own = SCHEMA.default_map_of_action()
    assert offers.rows(own).tolist() == [[1.0, *row, *offers.shared] for row in offers.actions.tolist()]


def test_a_schema_without_actions_has_no_default_map_unless_they_have_names() -> None:
    schema = Schema({"age": Number(0, 1)})
    with pytest.raises(InvalidArgument, match="the schema has no features of actions, but must have some"):
        schema.default_map()
    assert schema.default_map(["a", "b", "c"]).dim == 3 * 3


def test_norms_stay_within_their_bounds() -> None:
    """The negative control: the bound of fewer columns is broken."""
    rng = np.random.default_rng(0)
    maps: list[FeatureMap] = [
        SCHEMA.default_map(),
        SCHEMA.default_map(["a", "b"]),
        SCHEMA.default_map_of_action(),
        Prefix(6),
        One(),
    ]
    maps += [Columns([0, 3]), SCHEMA.resolve(Shared(columns=["device", "user.age"])), Concat([Prefix(1), Shared(12)])]
    longest = np.zeros(len(maps))
    for _ in range(300):
        user = {"age": [None, 0, 100, 500][rng.integers(4)], "vip": bool(rng.random() < 0.5)}
        context = {"device": str(rng.choice(["phone", "tv", "car"])), "user": user, "note": "some words here"}
        items = [
            {"price": rng.choice([0, 10, -5]), "color": "red", "look": rng.normal(size=2)},
            {"look": 9 * rng.normal(size=2)},
        ]
        offers = SCHEMA.offers(context, items, ids=["a", "b"])
        found = [np.linalg.norm(offers.rows(features), axis=1).max() for features in maps]
        longest = np.maximum(longest, found)
    bounds = [SCHEMA.norm_bound(features) or 0.0 for features in maps]
    assert (longest <= np.array(bounds) * (1 + 1e-9)).all()
    assert (longest[:5] >= 0.95 * np.array(bounds[:5])).all(), "and the bounds are sharp"
    too_small = Schema(SCHEMA.context, {"price": Number(0, 10)}).default_map().norm_bound
    assert too_small is not None and longest[0] > too_small
    assert SCHEMA.norm_bound(CustomFeatures(lambda actions, shared: actions, 6, "all")) is None
    assert Schema({"x": Number(scaled=False)}).norm_bound(Shared(2)) is None
    assert Schema({"x": Number(-3, 2, scaled=False)}).norm_bound(Shared(2)) == 3.0


def test_a_schema_comes_back_from_its_data() -> None:
    for schema in (SCHEMA, Schema(), Schema(unknown="hash"), Schema({}, None, unknown="hash", hashed=3)):
        again = Schema.from_plain(schema.to_plain())
        assert again == schema == deepcopy(schema) == pickle.loads(pickle.dumps(schema))
        assert again.layouts == schema.layouts
    assert Schema() != SCHEMA
    assert "device, user.age, user.vip" in repr(SCHEMA)


ALLOWED = [
    Schema({**SCHEMA.context, "new": Flag()}, SCHEMA.actions),
    Schema({"new": Flag(), **SCHEMA.context}, SCHEMA.actions, unknown="ignore"),
    Schema({**SCHEMA.context, "device": Category(["phone", "tv", "car"])}, SCHEMA.actions),
    Schema(SCHEMA.context, {**SCHEMA.actions, "new": Number()}, unknown="hash", hashed=2),
]
REFUSED = [
    (Schema({"device": SCHEMA.context["device"]}, SCHEMA.actions), "keep 'user.age' of its context as Number(low=0.0"),
    (Schema({**SCHEMA.context, "device": Category(["tv", "phone"])}, SCHEMA.actions), "keep 'device' of its context"),
    (Schema({**SCHEMA.context, "device": Category(["phone"])}, SCHEMA.actions), "keep 'device' of its context as"),
    (Schema({**SCHEMA.context, "note": Text(hashed=5)}, SCHEMA.actions), "keep 'note' of its context as Text(hashed=4"),
    (Schema(SCHEMA.context, {**SCHEMA.actions, "price": Number(0, 11)}), "keep 'price' of its actions as Number(low"),
    (Schema(SCHEMA.context, {**SCHEMA.actions, "price": Flag()}), "keep 'price' of its actions as Number(low=0.0"),
]


@pytest.mark.parametrize("after", ALLOWED, ids=repr)
def test_columns_that_are_added_come_last(after: Schema) -> None:
    assert after.rule_against(SCHEMA) == ""
    grown = after.with_layouts(*SCHEMA.layouts)
    before, later = (each.offers(VISITOR, ITEMS, ids=["a", "b"]) for each in (SCHEMA, grown))
    assert before.shared is not None and later.shared is not None
    assert later.shared[: len(before.shared)].tolist() == before.shared.tolist()
    assert later.actions[:, :6].tolist() == before.actions.tolist()
    assert sorted(grown.shared_columns) == sorted(after.shared_columns)
    assert len(grown.shared_columns) + len(grown.action_columns) > 18


@pytest.mark.parametrize(("after", "rule"), REFUSED, ids=[rule for _, rule in REFUSED])
def test_columns_that_would_move_break_a_rule(after: Schema, rule: str) -> None:
    assert rule in after.rule_against(SCHEMA)


def test_hashed_columns_stay() -> None:
    hashing = Schema({"age": Flag()}, unknown="hash", hashed=3)
    assert "keep the 3 hashed columns" in Schema({"age": Flag()}, unknown="hash", hashed=4).rule_against(hashing)
    assert "keep the 3 hashed columns" in Schema({"age": Flag()}).rule_against(hashing)
    more = Schema({"age": Flag(), "vip": Flag()}, unknown="hash", hashed=3)
    assert more.rule_against(hashing) == ""
    columns = more.with_layouts(*hashing.layouts).shared_columns
    assert columns == ("age", "age missing", "other 0", "other 1", "other 2", "vip", "vip missing")


def nested(depth: int) -> dict[str, Any]:
    return {"a": nested(depth - 1)} if depth else {}


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Schema({"age": 3}), "context.age is 3, but must be a feature such as Number()"),  # type: ignore[dict-item]
    (lambda: Schema(["age"]), "context is ['age'], but must be a dict of features by name"),  # type: ignore[arg-type]
    (lambda: Schema({"": Flag()}), "context has the name '', but must have nonempty printable strings as names"),
    (lambda: Schema({"a.b": Flag(), "a": {"b": Flag()}}), "context has 'a.b' twice, but names must differ"),
    (lambda: Schema({"a": Flag(), "a missing": Flag()}), "context has two columns 'a missing', but the names"),
    (lambda: Schema(hashed=3), "hashed is 3 with unknown 'error', but needs unknown 'hash'"),
    (lambda: Schema(unknown="drop"), "unknown is 'drop', but must be one of error, ignore, hash"),
    (lambda: Schema({"a": {"type": "number", "low": 1}}), "context.a: low is 1.0 and high is None"),
    (lambda: Schema({f"f{k}": Text(hashed=4000) for k in range(3)}), "number of columns of context is 12000"),
    (lambda: Schema.from_plain({"contexts": {}}), "schema has 'contexts', but must have context, actions"),
    (lambda: SCHEMA.offers(VISITOR), "offers is None, but must be a list of features unless ids are given"),
    (lambda: SCHEMA.offers([1.0], ids=["a"]), "context has 1 features, but must have 12"),
    (lambda: SCHEMA.offers("tv", ids=["a"]), "context is 'tv', but must be a dict of features or a vector"),
    (lambda: SCHEMA.offers([[1.0]], ids=["a"]), "context has shape (1, 1), but must be a dict or a vector"),
    (lambda: SCHEMA.offers(None, [[1.0]]), "offers have 1 features, but must have 6"),
    (lambda: SCHEMA.offers(None, [[1.0], [1.0, 2.0]]), "offers have different numbers of features"),
    (lambda: SCHEMA.offers(None, [ITEMS[0], 3]), "offers[1] has shape (), but must have 6 features"),
    (lambda: SCHEMA.offers(None, [{}, {"price": "high"}]), "offers[1]: feature 'price' is 'high', but must be"),
    (lambda: SCHEMA.offers(None, ITEMS, ids=["a"]), "ids has 1 entries, but must have one for each of 2 actions"),
    (lambda: SCHEMA.offers(None, ITEMS, ids=["a", "a"]), "ids has 'a' twice, but entries must differ"),
    (lambda: SCHEMA.offers(None, ITEMS, mask=[True]), "mask is [True], but must have one truth value for each of 2"),
    (lambda: SCHEMA.offers({1: 2}, ids=["a"]), "context has the name 1, but names must be strings"),
    (lambda: SCHEMA.offers({"age" * 9999: 2}, ids=["a"]), "feature of context 'ageage"),
    (lambda: SCHEMA.offers(dict.fromkeys(map(str, range(10**4))), ids=["a"]), "context has 10000 fields, but must"),
    (lambda: SCHEMA.offers({"a": dict.fromkeys(map(str, range(10**4)))}, ids=["a"]), f"more than {MAX_FIELDS} fields"),
    (lambda: SCHEMA.offers(nested(500), ids=["a"]), f"context is nested more than {MAX_DEPTH} levels deep"),
    (lambda: Schema().offers({"x": 1}, ids=["a"]), "context has the name 'x', but the schema has no features of it"),
    (lambda: Schema(unknown="hash").offers({"x": [1] * 2000}, ids=["a"]), "feature 'x' has 2000 entries, but must"),
    (lambda: Schema(unknown="hash").offers({"x": object()}, ids=["a"]), "context: feature 'x' is <object object"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_schemas_and_features_get_one_sentence(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquipoiseError, match=re.escape(message)) as caught:
        call()
    assert len(str(caught.value)) < 400


def test_defaults_know_their_columns() -> None:
    default = Default(Concat([Prefix(2), Shared(1)]), 2.0)
    offers = Offers([[1.0, 2.0, 3.0]], shared=[4.0])
    assert rows_of(default, offers) == rows_of(default.features, offers) == [[1.0, 2.0, 4.0]]


def test_digests_are_of_features_and_not_of_their_form() -> None:
    """These are in journals, so they must never change."""
    digest = features_digest({"a": 1, "b": True, "c": "x"}, [{"p": 0.5}], ("red",), None)
    assert digest == "70072095dad0033a2a54b977bbd9fa65709afa35c109f1d6a0122bd627557c28"
    one = {"a": 1, "b": {"c": 2.0, "d": [1, 2]}, "e": None, "f": np.float64(3), "g": np.array([1, 2])}
    other = {"g": [1.0, 2.0], "f": 3, "b.c": 2, "b": {"d": (1.0, 2.0)}, "a": np.int32(1), "h": float("nan")}
    assert features_digest(one) == features_digest(other)
    for different in ({**one, "a": 2}, {**one, "a": True}, {**one, "a": "1"}, {**one, "i": 0}, {**one, "b": 2}):
        assert features_digest(different) != features_digest(one)
    assert features_digest({"a": 2**53}) != features_digest({"a": 2**53 + 1})
