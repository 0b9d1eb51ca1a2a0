"""Plain data as compact bytes, exactly: what events and snapshots in a journal are made of. No pickle.

A value is a tag (one byte) and its content. Lists and tuples, floats of any bit pattern, arrays with their type, shape
and memory order, offers and balls come back as they were; NumPy scalars become Python numbers and named tuples become
tuples, as in saved portfolios. A policy (a function as an action) becomes None: learners learn from the outcome.

Whole numbers from 0 to 127 take one byte, and so do two-byte codes of the words that every event repeats. `WORDS` only
grows at its end, since its positions are in files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.features import Offers
from equipoise.learners import Ball
from equipoise.types import AnyArray, Plain

FORMAT = 1  # first byte of everything encoded
SMALL = 0x80  # tags from here on are the numbers 0 to 127
WORDS = (
    *("id", "round", "learner", "name", "action", "action_id", "context", "digest", "choice", "probabilities"),
    *("proposals", "available", "regret", "agreed", "failures", "fallback", "reward", "outcome", "failed", "part"),
    *("time", "others", "rewards", "taught", "key", "reason", "until_round", "error", "witness", "state", "actions"),
    *("shared", "ids", "mask", "offers", "ball", "students", "clipped"),
)
CODES = {word: bytes((ord("w"), code)) for code, word in enumerate(WORDS)}
KEYS = {str, int}  # types of the keys of a dict
_FLOAT, _INTEGER, _LENGTH = struct.Struct("<d"), struct.Struct("<q"), struct.Struct("<I")
_tagged_float = struct.Struct("<cd").pack


def encode(value: Plain) -> bytes:
    """The bytes of a value; raises `InvalidArgument` for what cannot be stored."""
    out = bytearray((FORMAT,))
    _write(out, (value,))
    return bytes(out)


def decode(data: bytes) -> Plain:
    """The value that `encode` wrote; raises `UnreadableFile` for anything else."""
    if not data or data[0] != FORMAT:
        raise UnreadableFile(f"data has format {data[:1].hex() or 'none'}, but this release reads format {FORMAT}")
    reader = _Reader(data)
    try:
        value = reader.read()
    except (IndexError, KeyError, ValueError, TypeError, OverflowError, struct.error) as error:
        raise UnreadableFile(f"data is damaged at byte {reader.position}") from error
    if reader.position != len(data):
        raise UnreadableFile(f"data has {len(data)} bytes, but its content ends at byte {reader.position}")
    return value


def _write(out: bytearray, values: Iterable[Plain]) -> None:
    """Write values one after the other. What events are mostly made of stands here, since each call costs time."""
    for value in values:
        kind = type(value)
        if kind is str:
            out += CODES.get(value) or _text(value)
        elif kind is float:
            out += _tagged_float(b"d", value)
        elif value is None:
            out += b"N"
        elif kind is int and 0 <= value < 128:
            out.append(SMALL + value)
        elif kind is tuple and len(value) < 255:
            out += b"t%c" % len(value)
            _write(out, value)
        elif kind is bool:
            out += b"T" if value else b"F"
        else:
            write = _WRITERS.get(kind)
            if write is None:
                write = _writer_of(value)
            write(out, value)


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    length = len(data)
    return b"s%c%b" % (length, data) if length < 255 else b"s\xff%b%b" % (_LENGTH.pack(length), data)


def _write_length(out: bytearray, length: int) -> None:
    if length < 255:
        out.append(length)
    else:
        out += b"\xff" + _LENGTH.pack(length)


def _write_integer(out: bytearray, value: int) -> None:
    """A whole number that is not one of 0 to 127."""
    if -(2**63) <= value < 2**63:
        out += b"i" + _INTEGER.pack(value)
    else:
        text = b"%x" % value if value >= 0 else b"-%x" % -value
        out += b"I"
        _write_length(out, len(text))
        out += text


def _write_bytes(out: bytearray, value: bytes) -> None:
    out += b"b"
    _write_length(out, len(value))
    out += value


def _write_list(out: bytearray, value: list[Plain]) -> None:
    out += b"l"
    _write_length(out, len(value))
    _write(out, value)


def _write_tuple(out: bytearray, value: tuple[Plain, ...]) -> None:
    out += b"t"
    _write_length(out, len(value))
    _write(out, value)


def _write_dict(out: bytearray, value: Mapping[Any, Plain]) -> None:
    if not KEYS.issuperset(map(type, value)):
        key = next(key for key in value if type(key) not in KEYS)
        raise InvalidArgument(f"a key is {key!r:.80}, but must be a string or a whole number")
    out += b"m"
    _write_length(out, len(value))
    _write(out, chain.from_iterable(value.items()))


def _write_array(out: bytearray, value: AnyArray) -> None:
    if value.dtype.kind not in "biufU":
        raise InvalidArgument(f"an array has type {value.dtype}, but must hold numbers or strings")
    fortran = value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous
    out += b"A" if fortran else b"a"
    dtype = value.dtype.str.encode()
    out.append(len(dtype))
    out += dtype
    out.append(value.ndim)
    for length in value.shape:
        _write_length(out, length)
    out += value.tobytes()


def _write_offers(out: bytearray, value: Offers) -> None:
    out += b"o"
    _write_dict(out, value.to_plain())


def _write_ball(out: bytearray, value: Ball) -> None:
    out += b"B"
    _write_tuple(out, (value.dim, value.radius))


_WRITERS: dict[type, Callable[[bytearray, Any], None]] = {
    int: _write_integer,
    bytes: _write_bytes,
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    np.ndarray: _write_array,
    Offers: _write_offers,
    Ball: _write_ball,
}


def _writer_of(value: Plain) -> Callable[[bytearray, Any], None]:
    """For values of the types that are stored as another one."""
    if isinstance(value, np.bool | np.integer | np.floating) and value.itemsize <= 8:
        return lambda out, number: _write(out, (number.item(),))
    if isinstance(value, tuple):
        return _write_tuple
    if isinstance(value, str):
        return lambda out, text: _write(out, (str(text),))
    if callable(value):
        return lambda out, policy: _write(out, (None,))
    raise InvalidArgument(
        f"a value is a {type(value).__name__}, but a journal stores numbers, strings, bytes, arrays of numbers or "
        "strings, offers, balls, and lists, tuples and dicts of these"
    )


class _Reader:
    """Reads values one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 1

    def read(self) -> Plain:
        tag = self._data[self.position]
        self.position += 1
        if tag >= SMALL:
            return tag - SMALL
        return _READERS[tag](self)

    def take(self, length: int) -> bytes:
        start = self.position
        self.position = start + length
        if self.position > len(self._data):
            raise IndexError(self.position)
        return self._data[start : self.position]

    def length(self) -> int:
        length = self._data[self.position]
        self.position += 1
        if length == 255:
            (length,) = _LENGTH.unpack(self.take(4))
        return length

    def word(self) -> str:
        code = self._data[self.position]
        self.position += 1
        return WORDS[code]

    def float(self) -> float:
        start = self.position
        self.position = start + 8
        value: float = _FLOAT.unpack_from(self._data, start)[0]
        return value

    def items(self) -> list[Plain]:
        return [self.read() for _ in range(self.length())]

    def array(self, *, fortran: bool) -> AnyArray:
        dtype = np.dtype(self.take(self.length()).decode("ascii"))
        shape = tuple(self.length() for _ in range(self.length()))
        size = dtype.itemsize
        for length in shape:
            size *= length
        array = np.frombuffer(self.take(size), dtype).reshape(shape).copy()
        return np.asfortranarray(array) if fortran else array


_READERS: dict[int, Callable[[_Reader], Plain]] = {
    ord("N"): lambda reader: None,
    ord("T"): lambda reader: True,
    ord("F"): lambda reader: False,
    ord("i"): lambda reader: _INTEGER.unpack(reader.take(8))[0],
    ord("I"): lambda reader: int(reader.take(reader.length()), 16),
    ord("d"): _Reader.float,
    ord("w"): _Reader.word,
    ord("s"): lambda reader: reader.take(reader.length()).decode("utf-8", "surrogatepass"),
    ord("b"): lambda reader: reader.take(reader.length()),
    ord("l"): _Reader.items,
    ord("t"): lambda reader: tuple(reader.items()),
    ord("m"): lambda reader: {reader.read(): reader.read() for _ in range(reader.length())},
    ord("a"): lambda reader: reader.array(fortran=False),
    ord("A"): lambda reader: reader.array(fortran=True),
    ord("o"): lambda reader: Offers.from_plain(reader.read()),
    ord("B"): lambda reader: Ball(*reader.read()),
}
