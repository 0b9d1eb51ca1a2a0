"""Encoding of events: exact round trips, and an error for whatever is not an encoding."""

from __future__ import annotations

import struct
from contextlib import suppress
from math import copysign, inf, nan
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Ball, Offers
from equipoise.errors import EquipoiseError, InvalidArgument, UnreadableFile
from equipoise.journal import messages
from equipoise.journal.encoding import CODES, WORDS, decode, encode
from equipoise.journal.messages import PACKED, decode_event, encode_event

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text()
    | st.sampled_from(WORDS)
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
    for decoded in (decode(encode(array)), decode_event(encode_event({"context": array}))["context"]):
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
        value = decode(b"\x01" + data)
    except EquipoiseError:
        return
    assert same(decode(encode(value)), value)


@pytest.mark.slow
@given(values, st.data())
def test_a_cut_encoding_is_an_error(value: Any, data: st.DataObject) -> None:
    encoded = encode(value)
    with pytest.raises(UnreadableFile):
        decode(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_codes_of_words_are_those_of_files() -> None:
    """Positions are in files: words may be added at the end, and none may move."""
    assert (CODES["id"], CODES["context"], CODES["ball"]) == (b"w\x00", b"w\x06", b"w\x23")


flat = st.lists(leaves, max_size=4).map(tuple)
events = st.dictionaries(
    st.sampled_from(["id", "failures", "proposals"]) | st.text(),
    leaves | flat | st.just([]) | st.dictionaries(st.text() | st.integers(-300, 300), flat, max_size=3) | values,
    max_size=6,
)


@given(events)
def test_events_come_back_exactly_with_and_without_msgspec(event: Any) -> None:
    encoded = encode_event(event)
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            assert same(decode_event(encoded), event)
            patch.setattr(messages, "msgpack", None)
        assert encode_event(event) == encode(event)


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
    "0287a26964a8663234652d363030a5726f756e64cd0258a7636f6e74657874c7240102000000000000000000e03f000000000000f4bf0000"
    "0000000000000000000000000840a663686f6963659502cd0174cb3fb999999999999ac0c3a970726f706f73616c73820093"
    "06cb3fd0000000000000cb7ff8000000000000d0d890a6616772656564"
    "90a86661696c7572657390"
)


def test_packed_events_are_as_in_files() -> None:
    pytest.importorskip("msgspec", reason="needs the extra serve")
    assert encode_event(DECIDED).hex() == STORED
    assert same(decode_event(bytes.fromhex(STORED)), DECIDED)


@pytest.mark.parametrize("value", [[1, 2], ([],), {"a": [1]}, np.float64(0.5), 2**70, "\ud800", [(1, "failed")]])
def test_what_messagepack_cannot_tell_is_written_otherwise(value: object) -> None:
    encoded = encode_event({"action": value})
    assert encoded[:1] != PACKED and same(decode_event(encoded), decode(encode({"action": value})))


@given(st.binary(max_size=40), st.data())
def test_damaged_events_are_errors_with_and_without_msgspec(noise: bytes, data: st.DataObject) -> None:
    whole = bytes.fromhex(STORED)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.MonkeyPatch.context() as patch:
        for _ in range(2):
            with pytest.raises(UnreadableFile):
                decode_event(whole[:cut])
            for damaged in (PACKED + noise, whole[:cut] + noise):
                with suppress(EquipoiseError):
                    decode_event(damaged)
            patch.setattr(messages, "msgpack", None)
