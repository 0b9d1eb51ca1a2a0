"""Offers and feature maps: against rows written out by hand, computed once, saved by name, what is refused."""

import pickle
import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict
from equipoise.features import (
    Columns,
    Concat,
    CustomFeatures,
    FeatureMap,
    Interactions,
    Offers,
    OneHot,
    Prefix,
    Shared,
)
from equipoise.features.maps import feature_names, map_from_plain, map_to_plain
from equipoise.lab.rivals import ModCB
from equipoise.learners import OFUL, LinearThompson, SquareCB
from equipoise.simulation.loops import can_compile
from equipoise.storage.codec import decode, encode
from equipoise.storage.parts import describe_part, load, rebuild_learners, save
from equipoise.types import Array

ROWS = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
OFFERS = Offers(ROWS, shared=[10.0, 20.0], ids=["x", "y"])


def doubled(actions: Array, shared: Array | None) -> Array:
    return 2 * actions[:, :2]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (Columns([2, 0]), [[3.0, 1.0], [6.0, 4.0]]),
        (Prefix(2), [[1.0, 2.0], [4.0, 5.0]]),
        (Shared(2), [[10.0, 20.0], [10.0, 20.0]]),
        (Interactions(Columns([1, 0]), Shared(2)), [[20.0, 40.0, 10.0, 20.0], [50.0, 100.0, 40.0, 80.0]]),
        (OneHot(["y", "z", "x"]), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
        (Concat([Prefix(1), Shared(1)]), [[1.0, 10.0], [4.0, 10.0]]),
        (CustomFeatures(doubled, 2, "doubled"), [[2.0, 4.0], [8.0, 10.0]]),
    ],
    ids=lambda it: type(it).__name__,
)
def test_rows_of_a_map(features: FeatureMap, expected: list[list[float]]) -> None:
    assert OFFERS.rows(features).tolist() == expected and features.dim == len(expected[0])
    masked = Offers(ROWS, shared=[10.0, 20.0], ids=["x", "y"], mask=[False, True])
    assert masked.rows(features).tolist() == expected[1:]
    assert len(set(feature_names(features))) == features.dim
    if not isinstance(features, CustomFeatures):
        assert map_from_plain(map_to_plain(features)) == features
        assert hash(map_from_plain(map_to_plain(features))) == hash(features)


def test_map_of_five_learners_is_computed_once_per_context() -> None:
    calls = []

    def counted(actions: Array, shared: Array | None) -> Array:
        calls.append(len(actions))
        return actions[:, :2] / 10

    settings: dict[str, Any] = {"features": CustomFeatures(counted, 2, "counted")}
    learners: list[Any] = [
        OFUL(**settings),
        OFUL(**settings, scale=0.5),
        SquareCB(**settings),
        LinearThompson(**settings),
    ]
    learners.append(ModCB([1, 2], **settings))
    for n_rounds in (1, 2, 3):
        offers = Offers(ROWS)
        for learner in learners:
            action = learner.decide(offers, np.random.default_rng(1)).action
            learner.learn(offers, action, 0.5)
        assert calls == [2] * n_rounds


@given(seed=st.integers(0, 1000), columns=st.permutations(range(5)).map(lambda order: order[:3]))
def test_learner_on_columns_is_the_learner_on_a_matrix_of_them(seed: int, columns: list[int]) -> None:
    rng = np.random.default_rng(seed)
    mapped, plain = OFUL(features=Columns(columns), scale=0.3), OFUL(3, scale=0.3)
    for t in range(20):
        rows = rng.random((4, 5)) / 3
        context = Offers(rows) if t % 2 else rows
        one, other = mapped.decide(context), plain.decide(rows[:, columns].copy(order="C"))
        assert one == other
        mapped.learn(context, one.action, 0.7)
        plain.learn(rows[:, columns].copy(order="C"), one.action, 0.7)


def test_dim_is_that_of_the_map() -> None:
    assert OFUL(features=Interactions(Prefix(2), Shared(3))).dim == 6
    assert OFUL(2, features=Columns([3, 1])).dim == 2
    assert repr(OFUL(features=Columns([3, 1]))) == "OFUL(2, features=Columns(columns=(3, 1)))"
    with pytest.raises(InvalidArgument, match="dim is 3, but must be 2, as Columns"):
        OFUL(3, features=Columns([3, 1]))
    with pytest.raises(InvalidArgument, match=r"dim and features of learner .OFUL. do not say its columns"):
        Portfolio([OFUL()])


def test_only_prefixes_run_compiled() -> None:
    assert can_compile(OFUL(2)) and can_compile(OFUL(features=Prefix(2)))
    assert not can_compile(OFUL(features=Columns([0, 1])))


def test_learner_knows_how_many_columns_it_uses() -> None:
    assert OFUL(5).n_columns == OFUL(features=Prefix(5)).n_columns == 5
    assert OFUL(features=Columns([6, 1])).n_columns == 7
    assert OFUL(features=Interactions(Columns([3]), Shared(9))).n_columns == 4
    assert OFUL(features=Concat([OneHot(["a"]), Shared(2)])).n_columns == 0
    for unknown in (CustomFeatures(doubled, 2, "d"), Concat([Prefix(1), CustomFeatures(doubled, 2, "d")])):
        assert OFUL(features=unknown).n_columns is None


def test_learner_is_saved_with_its_map(tmp_path: Path) -> None:
    learner = OFUL(features=Concat([Interactions(Prefix(2), OneHot(["x", "y"])), Shared(1)]), action_bound=100.0)
    learner.learn(OFFERS, 1, 0.5)
    save(learner, tmp_path / "learner.eqp")
    loaded = load(tmp_path / "learner.eqp")
    assert loaded == learner and loaded.features == learner.features and loaded.decide(OFFERS) == learner.decide(OFFERS)


def test_custom_features_are_saved_by_name() -> None:
    learner = OFUL(features=CustomFeatures(doubled, 2, "doubled"))
    row = describe_part(learner)
    with pytest.raises(StoreConflict, match=r"features 'doubled' are a function.*pass learners"):
        rebuild_learners([row], None)
    same = OFUL(features=CustomFeatures(doubled, 2, "doubled"))
    assert rebuild_learners([row], [same]) == [same]
    with pytest.raises(StoreConflict):
        rebuild_learners([row], [OFUL(features=CustomFeatures(doubled, 2, "other"))])


@pytest.mark.parametrize(
    "offers",
    [OFFERS, Offers(ROWS), Offers(ROWS, [1.0], mask=[True, False]), Offers(None, ids=["a", "b"])],
    ids=["ids and shared", "bare", "mask", "ids only"],
)
def test_offers_survive_copies_and_files(offers: Offers) -> None:
    assert Offers.from_plain(offers.to_plain()) == offers
    assert deepcopy(offers) == offers and pickle.loads(pickle.dumps(offers)) == offers
    assert decode(encode(offers)) == offers
    assert offers != Offers(np.add(ROWS, 1.0)) and repr(offers).startswith("Offers(2 actions")


def test_offers_never_change() -> None:
    rows = np.array(ROWS)
    offers = Offers(rows)
    mapped = offers.rows(Prefix(3))
    rows[0, 0] = 9.0
    assert offers.actions[0, 0] == 1.0 and mapped[0, 0] == 1.0
    for array in (offers.actions, mapped, OFFERS.shared):
        assert array is not None
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


MESSAGES: list[tuple[Any, str]] = [
    (lambda: Offers([1.0, 2.0]), "actions has shape (2,), but must be a K x d matrix"),
    (lambda: Offers([["a"]]), "actions is [['a']], but must be a K x d matrix of numbers"),
    (lambda: Offers([[1.0], [1.0, 2.0]]), "but must be a K x d matrix of numbers"),
    (lambda: Offers([[float("nan")]]), "actions has an entry nan, but entries must be finite"),
    (lambda: Offers(None), "actions is None, but must be a matrix unless ids are given"),
    (lambda: Offers([[1.0]], ids=["a", "b"]), "ids has 2 entries, but must have one for each of 1 actions"),
    (lambda: Offers(ROWS, ids=["a", "a"]), "ids has 'a' twice, but entries must differ"),
    (lambda: Offers(ROWS, ids=["a", 5]), "ids[1] is 5, but must be a nonempty string"),  # type: ignore[list-item]
    (lambda: Offers(ROWS, ids="ab"), "ids is 'ab', but must be a list of strings"),
    (lambda: Offers(ROWS, ids=[]), "ids is empty, but must have at least one id"),
    (lambda: Offers(ROWS, mask=[False, False]), "mask is False for every action, but must leave at least one"),
    (lambda: Offers(ROWS, mask=[1, 0]), "mask is [1, 0], but must have one truth value for each of 2 actions"),
    (lambda: Offers(ROWS, shared=[[1.0]]), "shared has shape (1, 1), but must be a vector of numbers"),
    (lambda: Offers(ROWS, shared=["a"]), "shared is ['a'], but must be a vector of numbers"),
    (lambda: OFFERS.rows(Columns([0, 3])), "context has 3 columns, but must have at least 4"),
    (lambda: OFFERS.rows(Prefix(4)), "context has 3 columns, but must have at least 4"),
    (lambda: OFFERS.rows(Shared(3)), "context has 2 shared features, but must have at least 3"),
    (lambda: Offers(ROWS).rows(Shared(1)), "context has 0 shared features, but must have at least 1"),
    (lambda: Offers(ROWS).rows(OneHot(["x"])), "context has no ids, but must have"),
    (lambda: OFFERS.rows(OneHot(["v", "z"])), "id of an offer 'x' is unknown"),
    (lambda: OFFERS.rows(CustomFeatures(doubled, 3, "d")), "have shape (2, 2), but must have (2, 3)"),
    (lambda: OFUL(features="all"), "features is 'all', but must be a feature map such as Columns"),  # type: ignore[arg-type]
    (lambda: OFUL(features=Columns), "but must be a feature map such as Columns"),  # type: ignore[arg-type]
    (lambda: Columns([]), "columns is [], but must be different columns, at least one"),
    (lambda: Columns([1, 1]), "columns is [1, 1], but must be different columns"),
    (lambda: Columns("ab"), "columns is 'ab', but must be a list of column indices"),
    (lambda: Columns([-1]), "columns[0] is -1, but must be a whole number"),
    (lambda: Concat([]), "maps is [], but must be a list of feature maps"),
    (lambda: Interactions(Prefix(1), 5), "right is 5, but must be a feature map"),  # type: ignore[arg-type]
    (lambda: map_from_plain({"map": "Nope"}), "feature map 'Nope' is unknown"),
    (lambda: OFUL(2).decide(Offers([[1.0]])), "context has 1 columns, but must have at least 2"),
    (lambda: OFUL(features=Columns([1])).decide([[0.1]]), "context has 1 columns, but must have at least 2"),
    (lambda: OFUL(2).decide(OFFERS), "context has row 1 of norm 6.40312, but norms must be at most action_bound = 1"),
]


@pytest.mark.parametrize(("call", "message"), MESSAGES, ids=[message[:50] for _, message in MESSAGES])
def test_bad_input_is_refused_in_one_line(call: Any, message: str) -> None:
    with pytest.raises(EquipoiseError) as error:
        call()
    assert message in str(error.value) and "\n" not in str(error.value)


@dataclass(frozen=True)
class View:
    """A user's map that returns another view of the actions than some of their columns."""

    how: str
    dim: int = 2

    def of(self, offers: Offers) -> Array:
        views: dict[str, Array] = {"turned": offers.actions.T, "bits": offers.actions.view(np.int64)}
        return views[self.how]


@given(st.lists(st.floats(0.0, 1.0), min_size=8, max_size=8), st.integers(1, 4), st.booleans())
def test_columns_are_refused_by_their_own_norms(entries: list[float], dim: int, at_the_limit: bool) -> None:
    """Offers know the norms of whole rows, which are a bound only: what counts are the columns that a learner uses."""
    rows = np.array(entries).reshape(2, 4)
    longest = float(np.linalg.norm(rows[:, :dim], axis=1).max())
    learner = OFUL(features=Prefix(dim), action_bound=max(longest, 1e-3) if at_the_limit else 0.8)
    if at_the_limit or longest <= 0.8:
        learner.decide(Offers(rows))
    elif longest > 0.8 * (1 + 2e-9):
        with pytest.raises(InvalidArgument, match=f"norm {longest:.6g}, but norms must be at most action_bound"):
            learner.check_context(Offers(rows))


def test_other_views_of_the_actions_are_checked_like_new_rows() -> None:
    offers = Offers([[0.0, 0.9], [0.0, 0.9]])
    assert OFUL(2).decide(offers).action == 0
    for view in (View("turned"), View("bits")):
        longest = np.linalg.norm(view.of(offers).astype(float), axis=1).max()
        with pytest.raises(InvalidArgument, match=re.escape(f"norm {longest:.6g}")):
            OFUL(features=view).check_context(offers)


def test_refused_offers_change_nothing() -> None:
    learner = OFUL(features=OneHot(["x", "y"]))
    learner.learn(OFFERS, 0, 0.5)
    before = deepcopy(learner)
    for bad in (Offers(ROWS, ids=["z", "x"]), Offers(ROWS), Offers(ROWS, ids=["x", "y"], mask=[False, True])):
        with pytest.raises(EquipoiseError):
            learner.learn(bad, 0, 0.5)
    assert learner == before
