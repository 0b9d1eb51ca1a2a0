"""Archives: what goes in comes out bit for bit, what cannot come out is refused, and any damage is noticed."""

from collections import OrderedDict
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.storage.parts import pack, unpack

FILE = Path("some/file")
DTYPES = st.sampled_from(["?", "i1", "<i8", ">i4", "u8", "f2", "<f4", ">f8", "<f8"]).map(np.dtype)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text())
VALUES = st.recursive(
    st.one_of(SCALARS, ARRAYS, ARRAYS.map(np.asfortranarray)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=4),
    ),
    max_leaves=12,
)


def identical(one: Any, other: Any) -> bool:
    """The same types all the way down, the same order of entries, the same bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        layout = (one.dtype, one.shape, one.tobytes(), one.flags.c_contiguous, one.flags.f_contiguous)
        return layout == (other.dtype, other.shape, other.tobytes(), other.flags.c_contiguous, other.flags.f_contiguous)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(identical, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return np.float64(one).tobytes() == np.float64(other).tobytes() or (one != one and other != other)
    return bool(one == other)


@pytest.mark.slow
@settings(max_examples=300)
@given(VALUES)
def test_everything_comes_back_as_it_was(value: Any) -> None:
    data = pack(value)
    assert identical(unpack(data, FILE), value)
    assert pack(unpack(data, FILE)) == data


@pytest.mark.parametrize(
    "value", [-0.0, float("inf"), float("-inf"), 5e-324, 0.1 + 0.2, 10**40, "\ud800", "", {}, [], ()]
)
def test_special_values_come_back(value: Any) -> None:
    assert identical(unpack(pack(value), FILE), value)


@pytest.mark.parametrize(
    ("scalar", "number"),
    [(np.float64(0.1), 0.1), (np.float32(0.5), 0.5), (np.int8(-3), -3), (np.uint64(2**63), 2**63), (np.True_, True)],
)
def test_scalars_of_numpy_come_back_as_the_numbers_they_equal(scalar: Any, number: Any) -> None:
    assert identical(unpack(pack([scalar]), FILE), [number])


def test_arrays_come_back_writable_and_of_their_own() -> None:
    array = np.arange(6.0)[::2]
    copy = unpack(pack({"a": array}), FILE)["a"]
    copy += 1.0
    assert array.tolist() == [0.0, 2.0, 4.0]
    assert copy.tolist() == [1.0, 3.0, 5.0]


class Pair(NamedTuple):
    left: int
    right: int


class Color(IntEnum):
    RED = 1


REFUSED: list[tuple[Any, str]] = [
    (object(), "value is a object"),
    ([1, {"a": (2, {3})}], "value[1]['a'][1] is a set"),
    (bytearray(b"bytes"), "value is a bytearray"),
    (1j, "value is a complex"),
    (np.complex128(1j), "value is a complex128"),
    (np.longdouble(1.5), "value is a longdouble"),
    (np.datetime64("2020-01-01"), "value is a datetime64"),
    (np.array([None]), "value is a ndarray"),
    (np.array([b"a"]), "value is a ndarray"),
    (np.array([1j]), "value is a ndarray"),
    (np.ma.masked_array([1.0, 2.0], [False, True]), "value is a MaskedArray"),
    (Pair(1, 2), "value is a Pair"),
    (OrderedDict(a=1), "value is a OrderedDict"),
    ({1.5: 2}, "value is a dict"),
    ({(1, 2): 2}, "value is a dict"),
    ({True: 2}, "value is a dict"),
    (np.dtype("f8"), "value is a Float64DType"),
]


@pytest.mark.parametrize(("value", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_would_come_back_as_something_else_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        pack(value)
    rule = "must be a number, a string, bytes, an array of numbers or strings, or a list, tuple or dict of these"
    assert str(caught.value) == f"{message}, but {rule} (with strings or whole numbers as keys)"


@pytest.mark.parametrize("value", [b"", b"a\x00b", {1: "a", "1": "b"}, np.array(["a", "", "é"]), np.array([["x"]])])
def test_bytes_numbers_as_keys_and_strings_come_back(value: Any) -> None:
    packed = pack({"value": value})
    assert packed.startswith(b"equipoise archive 1\n")
    assert identical(unpack(packed, FILE), {"value": value})


def test_enumerations_are_the_numbers_they_are() -> None:
    assert identical(unpack(pack(Color.RED), FILE), 1)


ARCHIVE = pack({"text": "x" * 20, "numbers": [1, 2.5, float("nan")], "array": np.arange(12.0).reshape(3, 4)})


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_every_changed_byte_is_noticed(bit: int) -> None:
    for position in range(len(ARCHIVE)):
        damaged = bytearray(ARCHIVE)
        damaged[position] ^= 1 << bit
        with pytest.raises(UnreadableFile, match=r"^some/file "):
            unpack(bytes(damaged), FILE)


def test_every_truncation_and_every_addition_is_noticed() -> None:
    for length in range(len(ARCHIVE)):
        with pytest.raises(UnreadableFile, match=r"^some/file "):
            unpack(ARCHIVE[:length], FILE)
    with pytest.raises(UnreadableFile, match=r"^some/file is truncated or was modified"):
        unpack(ARCHIVE + b"\n", FILE)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "some/file is not an equipoise file"),
        (b"PK\x03\x04 something else", "some/file is not an equipoise file"),
        (b"\xff\xfe\n\n\n", "some/file is not an equipoise file"),
        (ARCHIVE.replace(b" 1\n", b" 3\n", 1), "some/file has version 3, but this release reads version 1"),
        (ARCHIVE[:-1], "some/file is truncated or was modified: its digest does not match its content"),
    ],
)
def test_damage_is_named(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        unpack(data, FILE)
    assert str(caught.value) == message
