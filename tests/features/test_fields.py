"""Types of features, against slow references and the rules that they state."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.features import Category, Feature, Flag, Number, Schema, Text, Vector
from equipoise.features.fields import TYPES, from_table, signs, to_table

FEATURES = [
    Number(),
    Number(0, 10),
    Number(-1, 1, outside="refuse", missing="refuse"),
    Number(-2, 5, scaled=False),
    Number(scaled=False, missing="zero"),
    Flag(),
    Flag(missing="zero"),
    Category(),
    Category(["a", "b"]),
    Category([1, True, "c"], outside="refuse", missing="zero"),
    Category(["a"], hashed=3),
    Text(),
    Text(hashed=2, missing="refuse"),
    Vector(3),
    Vector(4, projection=2, seed=7, missing="zero"),
]
VALUES: list[Any] = [0, 1, 2.5, -3.0, 1e300, nan, inf, None, True, "a", "true", "some Words", "", [1.0, 2.0], ["a"]]


def row_of(feature: Feature, value: Any) -> dict[str, float]:
    """The columns of one feature, by what follows its name."""
    schema = Schema({"x": feature})
    shared = schema.offers({"x": value}, ids=["only"]).shared
    assert shared is not None
    return {name.removeprefix("x"): each for name, each in zip(schema.shared_columns, shared.tolist(), strict=True)}


@pytest.mark.parametrize("feature", FEATURES, ids=repr)
def test_a_feature_comes_back_from_its_table(feature: Any) -> None:
    table = to_table(feature)
    assert from_table("x", table) == feature
    assert TYPES[str(table["type"])] is type(feature)


@pytest.mark.parametrize("feature", FEATURES, ids=repr)
def test_columns_are_finite_and_bounded_or_the_value_is_refused(feature: Any) -> None:
    for value in [*VALUES, feature.example]:
        try:
            row = row_of(feature, value)
        except EquipoiseError as error:
            assert str(error).startswith("context: feature 'x' ")
            assert value != feature.example
            continue
        numbers = list(row.values())
        assert all(map(isfinite, numbers))
        if isfinite(feature.norm_bound):
            assert np.linalg.norm(numbers) <= feature.norm_bound * (1 + 1e-12)


@pytest.mark.parametrize("feature", FEATURES, ids=repr)
def test_a_missing_value_is_said_or_refused(feature: Any) -> None:
    for value in (None, nan, np.float64(nan)):
        if feature.missing == "refuse":
            with pytest.raises(InvalidArgument, match="feature 'x' is missing, but must be given"):
                row_of(feature, value)
        else:
            row = row_of(feature, value)
            assert row.pop(" missing", None) == (1.0 if feature.missing == "column" else None)
            assert not any(row.values())
    if feature.missing == "column" and feature != Number():  # whose scale is not known
        assert row_of(feature, feature.example)[" missing"] == 0.0
    absent = Schema({"x": feature})
    if feature.missing == "refuse":
        with pytest.raises(InvalidArgument, match="feature 'x' is missing"):
            absent.offers({}, ids=["only"])
    else:
        assert absent.offers({}, ids=["a"]) == absent.offers({"x": None}, ids=["a"])


@given(st.floats(-1e6, 1e6), st.floats(-1e3, 1e3), st.floats(1e-3, 1e3))
def test_a_number_is_scaled_to_its_range(number: float, low: float, width: float) -> None:
    expected = np.interp(number, [low, low + width], [-1.0, 1.0])
    assert row_of(Number(low, low + width), number)[""] == pytest.approx(expected, abs=1e-6)


def test_numbers_as_they_are() -> None:
    assert row_of(Number(scaled=False), 17)[""] == 17.0
    assert row_of(Number(0, 5, scaled=False), 17)[""] == 5.0
    assert row_of(Number(), 17) == {"": 0.0, " missing": 1.0}  # no scale is known


def test_categories() -> None:
    closed = Category(["phone", "tv"])
    assert row_of(closed, "tv") == {"=phone": 0.0, "=tv": 1.0, " unknown": 0.0, " missing": 0.0}
    assert row_of(closed, "car") == {"=phone": 0.0, "=tv": 0.0, " unknown": 1.0, " missing": 0.0}
    numbers = Category([1, 2, True])
    for one in (1, 1.0, "1", np.int64(1), np.float32(1)):
        assert row_of(numbers, one)["=1"] == 1.0
    assert row_of(numbers, np.bool_(True))["=true"] == row_of(numbers, True)["=true"] == 1.0
    place = (int.from_bytes(blake2b(b"Lisbon", digest_size=8).digest(), "little") >> 1) % 32
    assert row_of(Category(), "Lisbon")[f" hashed {place}"] == 1.0
    both = Category(["a"], hashed=1)
    assert row_of(both, "a") == {"=a": 1.0, " hashed 0": 0.0, " missing": 0.0}
    assert row_of(both, "b") == {"=a": 0.0, " hashed 0": 1.0, " missing": 0.0}


def test_words_do_not_depend_on_case_or_order() -> None:
    text = Text(hashed=512)
    one, other = (row_of(text, each) for each in ("Red shoes, red LACES", "laces shoes RED red!"))
    assert one == pytest.approx(other)
    assert one == pytest.approx(row_of(text, ["red shoes", "red laces"]))
    assert np.linalg.norm(list(one.values())) == pytest.approx(1.0)
    assert sorted(abs(each) for each in one.values() if each) == pytest.approx([6**-0.5, 6**-0.5, 2 * 6**-0.5])
    assert not any(row_of(text, "  ... ").values())


def test_vectors_are_scaled_down_and_projected() -> None:
    assert list(row_of(Vector(2), [0.3, -0.4]).values()) == [0.3, -0.4, 0.0]
    assert list(row_of(Vector(2), np.array([3.0, -4.0])).values()) == pytest.approx([0.6, -0.8, 0.0])
    matrix = signs(50, 20, 3)
    assert set(np.unique(matrix)) == {-1.0, 1.0} and abs(matrix.mean()) < 0.1
    vector = np.arange(50) / 500
    projected = vector @ matrix / 20**0.5
    expected = projected / max(1.0, float(np.linalg.norm(projected)))
    row = row_of(Vector(50, projection=20, seed=3), vector.tolist())
    assert list(row.values()) == pytest.approx([*expected, 0.0])


def test_the_projection_is_the_same_for_good() -> None:
    """It is not saved, as it follows from the seed alone: these bits must never change."""
    assert signs(2, 8, 0).tolist() == [[-1, -1, 1, -1, -1, 1, -1, 1], [1, -1, 1, 1, 1, 1, -1, 1]]


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Number(0), "low is 0.0 and high is None, but must be given together"),
    (lambda: Number(1, 1), "low is 1.0 and high is 1.0, but low must be less than high"),
    (lambda: Number(outside="refuse"), "outside is 'refuse', but needs low and high"),
    (lambda: Number(outside="drop"), "outside is 'drop', but must be one of clip, refuse"),
    (lambda: Number(missing="maybe"), "missing is 'maybe', but must be one of column, zero, refuse"),
    (lambda: Category("ab"), "values is 'ab', but must be a list of values"),
    (lambda: Category(["a", "a"]), "values has 'a' twice, but entries must differ"),
    (lambda: Category([]), "number of entries of values is 0, but must be a whole number from 1"),
    (lambda: Category([1.5]), "values[0] is 1.5, but must be a text, a whole number or a truth value"),
    (lambda: Text(0), "hashed is 0, but must be a whole number from 1"),
    (lambda: Vector(5000), "dim without projection is 5000, but must be a whole number from 1 to 4096"),
    (lambda: from_table("x", {"type": "vector"}), "x is {'type': 'vector'}, but a vector must have dim"),
    (lambda: from_table("x", {"type": "numbr"}), "type of x 'numbr' is unknown; did you mean number?"),
    (lambda: from_table("x", {"type": "flag", "low": 3}), "setting of x 'low' is unknown; did you mean missing?"),
    (lambda: row_of(Number(0, 1), "old"), "context: feature 'x' is 'old', but must be a number"),
    (lambda: row_of(Number(0, 1), 10**400), "but must be a finite number of magnitude at most 1e+100"),
    (lambda: row_of(Number(0, 1), inf), "context: feature 'x' is inf, but must be a finite number"),
    (lambda: row_of(Number(0, 1, outside="refuse"), 2), "context: feature 'x' is 2, but must be from 0 to 1"),
    (lambda: row_of(Flag(), "yes"), "context: feature 'x' is 'yes', but must be true or false"),
    (lambda: row_of(Flag(), 2), "context: feature 'x' is 2, but must be true or false"),
    (lambda: row_of(Category(["a"], outside="refuse"), "b"), "context: feature 'x' is 'b', but must be one of a"),
    (lambda: row_of(Category(["a"]), ["a"]), "context: feature 'x' is ['a'], but must be a text, a whole number"),
    (lambda: row_of(Text(), 3), "context: feature 'x' is 3, but must be a text or a list of texts"),
    (lambda: row_of(Vector(2), [1.0]), "context: feature 'x' has shape (1,), but must be a list of 2 numbers"),
    (lambda: row_of(Vector(2), [1.0, nan]), "context: feature 'x' has an entry nan, but entries must be finite"),
    (lambda: row_of(Vector(2), "ab"), "context: feature 'x' is 'ab', but must be a list of 2 numbers"),
]


@pytest.mark.parametrize(("call", "message"), WRONG, ids=[message for _, message in WRONG])
def test_wrong_settings_and_values_get_one_sentence(call: Callable[[], object], message: str) -> None:
    with pytest.raises(EquipoiseError, match=re.escape(message)):
        call()
