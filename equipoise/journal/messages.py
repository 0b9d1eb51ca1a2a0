"""The data of events as bytes: in MessagePack where msgspec is installed, in a tenth of the time that `encoding` takes.

Both forms come back alike, with msgspec or without it; the first byte tells which one it is. MessagePack does not tell
tuples from lists, so only data in which that is clear is written so: tuples of numbers and texts, and empty lists where
events have lists (`LISTS`). Contexts are extensions: matrices, which are most of a journal, as their floats,
and the rest as `encoding` writes it. Everything else (actions of learners' own types, outcomes) is left to `encoding`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from equipoise.errors import UnreadableFile
from equipoise.features import Offers
from equipoise.journal.encoding import KEYS, decode, encode
from equipoise.learners import Ball
from equipoise.types import Plain

msgpack: Any
try:
    from msgspec import MsgspecError, msgpack
except ImportError:  # it belongs to the extra serve, and a journal needs no extra
    msgpack = None

PACKED = b"\x02"  # first byte of data in MessagePack; that of `encoding` is 1
ENCODED, OFFERS, MATRIX = 0, 1, 2  # codes of extensions: what `encode` wrote, offers that are a matrix, and a matrix
LISTS = frozenset({"failures", "failed"})  # what is a list in events, nearly always an empty one
SCALARS = frozenset({type(None), bool, int, float, str, bytes})
CLEAR = SCALARS | {Offers, np.ndarray, Ball}
_COLUMNS = struct.Struct("<I")


def encode_event(data: Mapping[str, Plain]) -> bytes:
    """The bytes of the data of an event; raises `InvalidArgument` for what cannot be stored."""
    if msgpack is not None and type(data) is dict and _is_clear(data):
        try:
            packed: bytes = _pack(data)
            return PACKED + packed
        except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or a number of more than 64 bits
            pass
    return encode(dict(data))


def decode_event(data: bytes) -> dict[str, Plain]:
    """The data that `encode_event` wrote; raises `UnreadableFile` for anything else."""
    if data[:1] != PACKED:
        event: dict[str, Plain] = decode(data)
        return event
    unpacked = unpack_python(data) if msgpack is None else unpack_msgspec(data)
    if not isinstance(unpacked, dict):
        raise UnreadableFile("data of an event is no map")
    for key, value in unpacked.items():
        kind = type(value)
        if kind is list:
            if key not in LISTS:
                unpacked[key] = tuple(value)
        elif kind is dict:
            unpacked[key] = {name: tuple(item) if type(item) is list else item for name, item in value.items()}
    return unpacked


def _is_clear(data: Mapping[str, Plain]) -> bool:
    """Whether MessagePack tells all of it."""
    for key, value in data.items():
        kind = type(value)
        if kind in CLEAR:
            continue
        if kind is tuple:
            if key in LISTS or not SCALARS.issuperset(map(type, value)):
                return False
        elif kind is list:
            if value or key not in LISTS:
                return False
        elif kind is dict and key not in LISTS:
            if not KEYS.issuperset(map(type, value)):
                return False
            for item in value.values():
                if type(item) is not tuple or not SCALARS.issuperset(map(type, item)):
                    return False
        else:
            return False
    return True


def _extend(value: Any) -> Any:
    if type(value) is np.ndarray:
        code, matrix = MATRIX, value
    elif type(value) is Offers and value.ids is None and value.shared is None and value.mask is None:
        code, matrix = OFFERS, value.actions
    else:
        return msgpack.Ext(ENCODED, encode(value))
    if matrix.ndim == 2 and matrix.shape[1] and matrix.dtype.str == "<f8" and matrix.flags.c_contiguous:
        return msgpack.Ext(code, _COLUMNS.pack(matrix.shape[1]) + matrix.tobytes())
    return msgpack.Ext(ENCODED, encode(value))


def _extension(code: int, data: bytes | memoryview) -> Plain:
    if code == ENCODED:
        return decode(bytes(data))
    if code not in (OFFERS, MATRIX):
        raise UnreadableFile(f"data has the extension {code}, which this release does not know")
    (n_columns,) = _COLUMNS.unpack_from(data)
    matrix = np.frombuffer(data, "<f8", offset=_COLUMNS.size).reshape(-1, n_columns)
    return Offers(matrix) if code == OFFERS else matrix.copy()


if msgpack is not None:
    _pack = msgpack.Encoder(enc_hook=_extend).encode
    _unpack = msgpack.Decoder(ext_hook=_extension).decode


def unpack_msgspec(data: bytes) -> Plain:
    """What was packed; arrays as lists."""
    try:
        return _unpack(memoryview(data)[1:])
    except (MsgspecError, ValueError, TypeError, RecursionError, struct.error) as error:
        raise UnreadableFile(f"data is damaged: {error}") from error


def unpack_python(data: bytes) -> Plain:
    """The same without msgspec."""
    unpacker = _Unpacker(data)
    try:
        value = unpacker.read()
    except (IndexError, KeyError, ValueError, TypeError, RecursionError, struct.error) as error:
        raise UnreadableFile(f"data is damaged at byte {unpacker.position}") from error
    if unpacker.position != len(data):
        raise UnreadableFile(f"data has {len(data)} bytes, but its content ends at byte {unpacker.position}")
    return value


class _Unpacker:
    """Reads values of MessagePack one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self.position = data, 1

    def read(self) -> Plain:
        (tag,) = self.take(1)
        if tag < 0x80:
            return tag
        if tag >= 0xE0:
            return tag - 0x100
        if tag < 0x90:
            return self.map(tag & 0x0F)
        if tag < 0xA0:
            return self.array(tag & 0x0F)
        if tag < 0xC0:
            return self.text(tag & 0x1F)
        return _TAGS[tag](self)

    def take(self, length: int) -> bytes:
        start, self.position = self.position, self.position + length
        if self.position > len(self._data):
            raise IndexError(self.position)
        return self._data[start : self.position]

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self, length: int) -> str:
        return self.take(length).decode()

    def array(self, length: int) -> list[Plain]:
        return [self.read() for _ in range(length)]

    def map(self, length: int) -> dict[Plain, Plain]:
        return {self.read(): self.read() for _ in range(length)}

    def extension(self, length: int) -> Plain:
        code = self.number(">b")
        return _extension(code, self.take(length))


def _constant(value: Plain) -> Callable[[_Unpacker], Plain]:
    return lambda unpacker: value


def _numbered(form: str) -> Callable[[_Unpacker], Plain]:
    return lambda unpacker: unpacker.number(form)


def _sized(form: str, read: Callable[[_Unpacker, int], Plain]) -> Callable[[_Unpacker], Plain]:
    return lambda unpacker: read(unpacker, unpacker.number(form))


def _fixed(length: int) -> Callable[[_Unpacker], Plain]:
    return lambda unpacker: unpacker.extension(length)


_TAGS: dict[int, Callable[[_Unpacker], Plain]] = {
    0xC0: _constant(None),
    0xC2: _constant(False),
    0xC3: _constant(True),
    **{0xC4 + k: _sized(form, _Unpacker.take) for k, form in enumerate((">B", ">H", ">I"))},
    **{0xC7 + k: _sized(form, _Unpacker.extension) for k, form in enumerate((">B", ">H", ">I"))},
    **{
        0xCA + k: _numbered(form) for k, form in enumerate((">f", ">d", ">B", ">H", ">I", ">Q", ">b", ">h", ">i", ">q"))
    },
    **{0xD4 + k: _fixed(1 << k) for k in range(5)},
    **{0xD9 + k: _sized(form, _Unpacker.text) for k, form in enumerate((">B", ">H", ">I"))},
    **{0xDC + k: _sized(form, _Unpacker.array) for k, form in enumerate((">H", ">I"))},
    **{0xDE + k: _sized(form, _Unpacker.map) for k, form in enumerate((">H", ">I"))},
}
