"""The codec: exact round trips with and without msgspec, and an error for whatever is not an encoding."""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from math import copysign, inf, nan
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Ball, Offers
from equipoise.errors import EquipoiseError, InvalidArgument, UnreadableFile
from equipoise.storage import codec
from equipoise.storage.codec import VERSION, accelerate, decode, digest, encode

accelerate()

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.text(st.characters(categories=("Cs", "L")), max_size=3)
    | st.binary(max_size=300)
)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text() | st.integers(-300, 300), inner)
    ),
    max_leaves=30,
)


def same(one: Any, other: Any) -> bool:
    """Equal in types and bits, by the plainest comparison."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("<d", one) == struct.pack("<d", other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        alike = (
            one.dtype == other.dtype and one.shape == other.shape and one.flags.c_contiguous == other.flags.c_contiguous
        )
        return alike and one.tobytes() == other.tobytes()
    return bool(one == other)


@pytest.mark.slow
@given(values)
def test_everything_comes_back_exactly(value: Any) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([nan, -nan, inf, -0.0, 5e-324]),
        np.array([], np.int32),
        np.zeros((0, 4)),
        np.array(3, np.uint8),
        np.array([True, False]),
        np.array(["a", "Ünï", ""]),
        np.arange(300, dtype=">i4"),
    ],
)
def test_arrays_come_back_with_type_shape_order_and_bits(array: Any) -> None:
    for decoded in (decode(encode(array)), decode(encode({"context": array}))["context"]):
        assert same(decoded, array)
        assert decoded.flags.writeable and decoded.flags.aligned


def test_contexts_and_numpy_numbers() -> None:
    offers = Offers([[1.0, 2.0]], shared=[3.0], ids=["red"], mask=[True])
    assert decode(encode(offers)) == offers
    assert decode(encode(Ball(3, 0.5))) == Ball(3, 0.5)
    assert same(decode(encode([np.float64(0.1), np.int64(-7), np.bool(True)])), [0.1, -7, True])

    class Pair(NamedTuple):
        one: int
        two: float

    assert same(decode(encode(Pair(1, copysign(0.0, -1)))), (1, -0.0))


@pytest.mark.parametrize("value", [object(), {1, 2}, {1.5: 0}, {None: 0}, np.array([None]), 1j])
def test_what_cannot_be_stored_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument):
        encode([value])


@given(st.binary(max_size=60))
def test_other_bytes_are_an_error_or_an_encoding(data: bytes) -> None:
    try:
        value = decode(VERSION + data)
    except EquipoiseError:
        return
    assert same(decode(encode(value)), value)


@pytest.mark.slow
@given(values, st.data())
def test_a_cut_encoding_is_an_error(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    with pytest.raises(UnreadableFile):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


flat = st.lists(leaves, max_size=4).map(tuple)
events = st.dictionaries(
    st.sampled_from(["id", "failures", "proposals"]) | st.text(),
    leaves | flat | st.just([]) | st.dictionaries(st.text() | st.integers(-300, 300), flat, max_size=3) | values,
    max_size=6,
)


@given(events)
def test_events_are_the_same_bytes_with_and_without_msgspec(event: Any) -> None:
    encoded = encode(event)
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            assert same(decode(encoded), event)
            patch.setattr(codec, "msgpack", None)
        assert encode(event) == encoded


DECIDED = {
    "id": "f24e-600",
    "round": 600,
    "context": Offers([[0.5, -1.25], [0.0, 3.0]]),
    "choice": (2, 372, 0.1, None, True),
    "proposals": {0: (6, 0.25, nan), -40: ()},
    "agreed": (),
    "failures": [],
}
STORED = (
    "0187a26964a8663234652d363030a5726f756e64cd0258a7636f6e74657874c7240702000000000000000000e03f000000000000f4bf0000"
    "0000000000000000000000000840a663686f6963659502cd0174cb3fb999999999999ac0c3a970726f706f73616c73820093"
    "06cb3fd0000000000000cb7ff8000000000000d0d890a6616772656564"
    "90a86661696c75726573d40100"
)


def test_bytes_are_as_in_files() -> None:
    assert encode(DECIDED).hex() == STORED
    assert same(decode(bytes.fromhex(STORED)), DECIDED)
    assert digest(DECIDED) == hashlib.sha256(bytes.fromhex(STORED)).hexdigest()


HARD = {
    "list": [1, 2],
    "list in a tuple": ([], [[]], ()),
    "tuple that begins with an empty list": ([], 1),
    "list in a dict": {"a": [1], "b": {"c": (1, [2.5])}},
    "scalar of NumPy": np.float64(0.5),
    "large number": 2**70,
    "half a surrogate pair": "\ud800",
    "key": {"\ud800": 1, -(2**80): 2},
    "tuple in a list": [(1, "failed")],
    "bytes": b"\x00",
    "ball": Ball(2, 0.25),
    "offers": Offers([[1.0], [2.0]], shared=[3.0], ids=["a", "b"], mask=[True, False]),
    "large": {"texts": ["x" * 300] * 20, "bytes": b"y" * 70_000, "numbers": tuple(range(70_000))},
    "boundaries": [sign * 2**k + d for k in (5, 7, 8, 15, 16, 31, 32, 63, 64) for sign in (-1, 1) for d in (-1, 0, 1)],
    "empty": {"text": "", "bytes": b"", "tuple": (), "list": [], "dict": {}},
}


@pytest.mark.parametrize("name", HARD)
def test_values_that_msgspec_does_not_write_come_back_too(name: str) -> None:
    value = {"action": HARD[name]}
    expected = {"action": 0.5} if name == "scalar of NumPy" else value
    encoded = encode(value)
    with pytest.MonkeyPatch.context() as patch:
        assert same(decode(encoded), expected)
        patch.setattr(codec, "msgpack", None)
        assert encode(value) == encoded
        assert same(decode(encoded), expected)


def test_only_the_short_data_of_events_takes_the_fast_path() -> None:
    """Otherwise msgspec would write sets, dates and lists in ways that do not come back."""
    for value in ({1, 2}, datetime.now(tz=UTC), Decimal(1), object()):
        for data in ({"a": value}, {"a": (value,)}, {"a": {"b": (value,)}}, {"a": [value]}):
            with pytest.raises(InvalidArgument):
                encode(data)


@given(st.binary(max_size=40), st.data())
def test_damaged_events_are_errors_with_and_without_msgspec(noise: bytes, data: st.DataObject) -> None:
    whole = bytes.fromhex(STORED)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            with pytest.raises(UnreadableFile):
                decode(whole[:cut])
            for damaged in (VERSION + noise, whole[:cut] + noise):
                with suppress(EquipoiseError):
                    value = decode(damaged)
                    assert same(decode(encode(value)), value)
            patch.setattr(codec, "msgpack", None)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "data has format none, but this release reads format 01"),
        (b"\x02\x90", "data has format 02, but this release reads format 01"),
        (b"\x01\x81\xc0\x01", "data is damaged: a key is not a string or a whole number"),
        (b"\x01\xd4\x63\x00", "data is damaged: extension 99 is not known here"),
    ],
)
def test_other_formats_are_named(data: bytes, message: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            with pytest.raises(UnreadableFile) as caught:
                decode(data)
            assert str(caught.value) == message
            patch.setattr(codec, "msgpack", None)
