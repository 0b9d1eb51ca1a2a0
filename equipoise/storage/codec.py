"""The one codec: plain data, arrays and contexts as bytes, exactly and without pickle.

Files, journals and the dashboard store the output of `encode`: a version (one byte) and a value in MessagePack. None,
booleans, numbers, strings, bytes, tuples, lists, dicts with strings or whole numbers as keys, arrays of numbers or
strings, `Offers` and `Ball` come back with their types and bits. NumPy scalars become Python numbers and named tuples
become tuples. A policy (a function as an action) becomes None, because learners learn from the outcome.

MessagePack has one kind of array: it is a tuple here, and a list begins with the extension `LIST`. Other extensions
hold the values that MessagePack does not have. With msgspec, reading and writing the data of an event takes a fraction
of the time (`accelerate`). The bytes are the same without it, so digests can be compared between installations.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument, UnreadableFile
from equipoise.features import Offers
from equipoise.types import AnyArray, Later, Plain

msgpack: Any = None  # of msgspec, see `accelerate`
VERSION = b"\x01"  # first byte of everything encoded
# Codes of extensions. LIST is the first entry of an array that is a list, EMPTY_LIST a whole list.
LIST, EMPTY_LIST, INTEGER, TEXT, ARRAY, MATRIX, OFFERS, OFFERED_MATRIX, BALL = range(9)
ITEMS_PER_PART = 128  # of a list
MAX_DEPTH = 100  # of values that callers give; a file nests them some levels deeper
KEYS = frozenset({str, int})  # types of the keys of a dict
SCALARS = frozenset({type(None), bool, int, float, str, bytes})
KINDS = "biufU"  # of arrays: numbers and strings
DAMAGE = (IndexError, KeyError, ValueError, TypeError, OverflowError, RecursionError, EquipoiseError, struct.error)


def accelerate() -> None:
    """Use msgspec from now on if it is installed, as journals do. It is an extra, and too slow to import for others."""
    global msgpack, _DecodeError, _Ext, _NO_ENTRIES, _NESTED, _pack, _unpack, _unpack_event
    if msgpack is not None:
        return
    try:
        import msgspec
    except ImportError:
        return
    ext: Any = msgspec.msgpack.Ext
    _DecodeError = msgspec.MsgspecError
    _Ext, _NESTED, _NO_ENTRIES = ext, frozenset({list, dict, ext}), ext(EMPTY_LIST, b"\x00")
    _pack, _unpack = msgspec.msgpack.Encoder(enc_hook=_extend).encode, msgspec.msgpack.Decoder().decode
    # Types tell msgspec to make tuples of arrays. Bytes and deeper data do not fit and are read by `_unpack`.
    scalar = None | bool | int | float | str
    flat = scalar | tuple[scalar, ...]
    entry = flat | ext | dict[str | int, flat]
    _unpack_event = msgspec.msgpack.Decoder(dict[str | int, entry]).decode  # type: ignore[valid-type]
    msgpack = msgspec.msgpack  # last, because other threads look at it


def encode(value: Plain) -> bytes:
    """Return the bytes of a value; raise `InvalidArgument` for one that cannot be stored."""
    if msgpack is not None and type(value) is dict:
        simple = _simplify(value)
        if simple is not None:
            try:
                packed: bytes = _pack(simple)
                return VERSION + packed
            except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, or a number of more than 64 bits
                pass
    return VERSION + _body(value)


class Encoded(bytes):
    """A value as the codec writes it, within another one."""

    __slots__ = ()


def encode_body(value: Plain) -> bytes:
    """Return a value as it is written within another one; `Encoded` says so there."""
    return encode(value)[1:]


def decode_body(data: bytes) -> Plain:
    """Return the value that `encode_body` wrote."""
    return _read(data)


def made(value: Plain) -> Plain:
    """Return plain data with every `Later` and `Encoded` value in it."""
    kind = type(value)
    if kind is Later:
        return made(value.make())
    if kind is Encoded:
        return decode_body(value)
    if kind is dict:
        return {key: made(item) for key, item in value.items()}
    return kind(map(made, value)) if kind in (list, tuple) else value


def encode_in_parts(value: Plain) -> Iterator[bytes]:
    """Yield the bytes of `encode(made(value))` some at a time: each part takes little time to make.

    `Later` values may stand in dicts, tuples and lists of a few items, `Encoded` ones also in longer lists.
    """
    yield VERSION
    yield from _body_in_parts(value)


def _body_in_parts(value: Plain) -> Iterator[bytes]:
    kind = type(value)
    if kind is Later:
        yield from _body_in_parts(value.make())
    elif kind is dict and KEYS.issuperset(map(type, value)):
        yield _map_head(len(value))
        for key, item in value.items():
            yield _body(key)
            yield from _body_in_parts(item)
    elif kind is list and len(value) > ITEMS_PER_PART:
        yield _list_head(len(value))
        for start in range(0, len(value), ITEMS_PER_PART):
            out = bytearray()
            _write(out, value[start : start + ITEMS_PER_PART])
            yield bytes(out)
    elif kind in (list, tuple) and value:
        yield _list_head(len(value)) if kind is list else _tuple_head(len(value))
        for item in value:
            yield from _body_in_parts(item)
    else:
        yield _body(value)


def decode(data: bytes) -> Plain:
    """Return the value that `encode` wrote; raise `UnreadableFile` for any other data."""
    if data[:1] != VERSION:
        raise UnreadableFile(f"data has format {data[:1].hex() or 'none'}, but this release reads format 01")
    return _read(data, 1)


def digest(value: Plain) -> str:
    """Return the SHA-256 of an encoded value, in hexadecimal."""
    return hashlib.sha256(encode(value)).hexdigest()


def check_savable(value: Plain, where: str, max_depth: float = MAX_DEPTH) -> None:
    """Raise an error that names the place in `value`, called `where`, that would not come back as it is.

    This is stricter than `encode`: subclasses of containers are rejected, since their class would be lost.
    """
    if value is None or type(value) in (int, float, str, Offers):  # fast path: nearly all contexts and actions
        return
    _check(value, where, max_depth)


def _check(value: Plain, where: str, depth_left: float) -> None:
    if depth_left < 0:
        raise InvalidArgument(f"{where:.80} is nested more than {MAX_DEPTH} deep, or contains itself")
    match value:
        case None | bool() | int() | float() | str():
            return
        case np.bool() | np.integer() | np.floating() if value.itemsize <= 8:
            return
        case np.ndarray() if type(value) is np.ndarray and value.dtype.kind in KINDS:
            return
        case tuple() | list() if type(value) in (tuple, list):
            for i, item in enumerate(value):
                _check(item, f"{where}[{i}]", depth_left - 1)
            return
        case dict() if type(value) is dict and KEYS.issuperset(map(type, value)):
            for key, item in value.items():
                _check(item, f"{where}[{key!r}]", depth_left - 1)
            return
    if type(value) is not bytes and not isinstance(value, Offers) and not _is_ball(value):
        raise InvalidArgument(
            f"{where} is a {type(value).__name__}, but must be a number, a string, bytes, an array of numbers or "
            "strings, or a list, tuple or dict of these (with strings or whole numbers as keys)"
        )


def _is_ball(value: Plain) -> bool:
    from equipoise.learners import Ball  # not at the top: learners take long to import

    return isinstance(value, Ball)


# Writing: by msgspec for the usual data of events, by Python for all other values.


def _simplify(data: dict[Any, Plain]) -> dict[Any, Plain] | None:
    """Return equal data without lists, which msgspec would write as tuples; None if the data is not that of an event.

    Events hold scalars, arrays, offers, tuples of scalars, dicts of such tuples, and empty lists.
    """
    scalars: list[Plain] = []
    keys: list[Plain] = []
    changed = None
    for key, value in data.items():
        kind = type(value)
        if kind in SIMPLE:
            continue
        if kind is tuple:
            scalars += value
        elif kind is dict:
            keys += value
            for item in value.values():
                if type(item) is not tuple:
                    return None
                scalars += item
        elif kind is list and not value:
            changed = dict(data) if changed is None else changed
            changed[key] = _NO_ENTRIES
        else:
            return None
    keys += data
    if not SCALARS.issuperset(map(type, scalars)) or not KEYS.issuperset(map(type, keys)):
        return None
    return data if changed is None else changed


SIMPLE = SCALARS | {Offers, np.ndarray}


def _extend(value: Any) -> Any:
    return msgpack.Ext(*_EXTENSIONS[type(value)](value))


def _array(value: AnyArray, matrix: int = MATRIX) -> tuple[int, bytes]:
    """Return the code and content of an array; matrices of floats, which are most of a journal, have a short form."""
    shape, contiguous = value.shape, value.flags.c_contiguous
    if len(shape) == 2 and contiguous and shape[1] and value.dtype == _FLOATS:
        return matrix, _COLUMNS.pack(shape[1]) + value.tobytes()
    if value.dtype.kind not in KINDS:
        raise InvalidArgument(f"an array has type {value.dtype}, but must hold numbers or strings")
    # Matrix products may round differently in the two memory orders, and a resumed run must repeat every bit.
    fortran = len(shape) > 1 and value.flags.f_contiguous and not contiguous
    dtype = value.dtype.str.encode()
    head = b"%c%c%b%c" % (b"F" if fortran else b"C", len(dtype), dtype, len(shape))
    return ARRAY, b"".join((head, _AXES[len(shape)].pack(*shape), value.tobytes()))


def _offers(value: Offers) -> tuple[int, bytes]:
    if value.ids is None and value.shared is None and value.mask is None:
        code, content = _array(value.actions, OFFERED_MATRIX)
        if code == OFFERED_MATRIX:
            return code, content
    return OFFERS, _body((value.actions, value.shared, value.ids, value.mask))


_EXTENSIONS: dict[type, Callable[[Any], tuple[int, bytes]]] = {np.ndarray: _array, Offers: _offers}
_COLUMNS, _FLOATS = struct.Struct("<I"), np.dtype("<f8")
_AXES = [struct.Struct(f"<{n_axes}Q") for n_axes in range(65)]  # NumPy allows 64
_tagged_float = struct.Struct(">Bd").pack


def _body(value: Plain) -> bytes:
    out = bytearray()
    _write(out, (value,))
    return bytes(out)


def _write(out: bytearray, values: Iterable[Plain]) -> None:
    """Write values one after the other. The frequent types come first and inline, since each call takes time."""
    for value in values:
        kind = type(value)
        if kind is str:
            try:
                data = value.encode()
            except UnicodeEncodeError:  # half a surrogate pair
                _write_extension(out, TEXT, value.encode("utf-8", "surrogatepass"))
                continue
            if len(data) < 32:
                out.append(0xA0 + len(data))
            else:
                out += _head(len(data), (0xD9, 0xDA, 0xDB))
            out += data
        elif kind is float:
            out += _tagged_float(0xCB, value)
        elif kind is int:
            if 0 <= value < 128:
                out.append(value)
            else:
                _write_integer(out, value)
        elif value is None:
            out.append(0xC0)
        elif kind is bool:
            out.append(0xC3 if value else 0xC2)
        elif kind is tuple:
            if len(value) < 16:  # inline, as it is the usual case
                out.append(0x90 + len(value))
            else:
                out += _tuple_head(len(value))
            _write(out, value)
        elif kind is list:
            if value:
                out += _list_head(len(value))
                _write(out, value)
            else:
                out += _EMPTY_LIST_BYTES
        elif kind is dict:
            _write_dict(out, value)
        elif kind is bytes:
            out += _head(len(value), (0xC4, 0xC5, 0xC6))
            out += value
        elif kind in _EXTENSIONS:
            _write_extension(out, *_EXTENSIONS[kind](value))
        elif kind is Encoded:
            out += value
        else:
            _write_other(out, value)


def _head(length: int, tags: tuple[int | None, int, int]) -> bytes:
    """Return a tag and a length of one, two or four bytes."""
    if length < 256 and tags[0] is not None:
        return bytes((tags[0], length))
    return struct.pack(">BH", tags[1], length) if length < 65536 else struct.pack(">BI", tags[2], length)


def _tuple_head(length: int) -> bytes:
    return bytes((0x90 + length,)) if length < 16 else _head(length, (None, 0xDC, 0xDD))


def _list_head(length: int) -> bytes:
    head = bytes((0x91 + length,)) if length < 15 else _head(length + 1, (None, 0xDC, 0xDD))
    return head + _LIST_BYTES


def _map_head(length: int) -> bytes:
    return bytes((0x80 + length,)) if length < 16 else _head(length, (None, 0xDE, 0xDF))


def _write_dict(out: bytearray, value: Mapping[Any, Plain]) -> None:
    if not KEYS.issuperset(map(type, value)):
        key = next(key for key in value if type(key) not in KEYS)
        raise InvalidArgument(f"a key is {key!r:.80}, but must be a string or a whole number")
    out += _map_head(len(value))
    _write(out, chain.from_iterable(value.items()))


def _write_integer(out: bytearray, value: int) -> None:
    """Write a whole number that is not one of 0 to 127, in the fewest bytes."""
    if -32 <= value < 0:
        out.append(0x100 + value)
        return
    n_bits = value.bit_length() if value > 0 else (~value).bit_length() + 1
    if n_bits > 64:
        _write_extension(out, INTEGER, b"%x" % value if value >= 0 else b"-%x" % -value)
    else:
        tag, pack = _INTEGERS[value < 0, (n_bits > 8) + (n_bits > 16) + (n_bits > 32)]
        out += pack(tag, value)


_INTEGERS = {
    (is_negative, k): ((0xD0 if is_negative else 0xCC) + k, struct.Struct(f">B{form}").pack)
    for is_negative, forms in ((False, "BHIQ"), (True, "bhiq"))
    for k, form in enumerate(forms)
}


def _write_extension(out: bytearray, code: int, content: bytes) -> None:
    length = len(content)
    if length in _FIXED_EXTENSIONS:
        out.append(_FIXED_EXTENSIONS[length])
    else:
        out += _head(length, (0xC7, 0xC8, 0xC9))
    out.append(code)
    out += content


_FIXED_EXTENSIONS = {1 << k: 0xD4 + k for k in range(5)}
_LIST_BYTES, _EMPTY_LIST_BYTES = bytes((0xD4, LIST, 0)), bytes((0xD4, EMPTY_LIST, 0))


def _write_other(out: bytearray, value: Plain) -> None:
    """Write a value whose type is stored as another one."""
    if isinstance(value, np.bool | np.integer | np.floating) and value.itemsize <= 8:
        _write(out, (value.item(),))
    elif isinstance(value, tuple):
        _write(out, (tuple(value),))
    elif isinstance(value, str):
        _write(out, (str(value),))
    elif isinstance(value, int):
        _write(out, (int(value),))
    elif _is_ball(value):
        _write_extension(out, BALL, _body((value.dim, value.radius)))
    elif callable(value):
        out.append(0xC0)
    else:
        raise InvalidArgument(
            f"a value is a {type(value).__name__}, but must be a number, a string, bytes, an array of numbers or "
            "strings, offers, a ball, or a list, tuple or dict of these"
        )


# Reading: by msgspec, else by Python.


def _read(data: bytes, start: int = 0) -> Plain:
    """Return the one value from a position on."""
    try:
        if msgpack is not None:
            try:
                return _read_quickly(memoryview(data)[start:])
            except (_DecodeError, TypeError):  # damage, or an extension as a key: both are left to Python
                pass
        value, end = _parse(data, start)
        if end != len(data):
            raise ValueError(f"its content ends at byte {end} of {len(data)}")
        return value
    except DAMAGE as error:
        raise UnreadableFile(f"data is damaged: {error}") from error


def _read_quickly(data: memoryview) -> Plain:
    if data and (0x80 <= data[0] < 0x90 or data[0] == 0xDE):  # a map
        try:
            event = _unpack_event(data)
        except _DecodeError:  # other data
            pass
        else:
            for key, item in event.items():
                if type(item) is _Ext:
                    event[key] = _extension(item.code, item.data)
            return event
    value = _unpack(data)
    return _exact(value) if type(value) in _NESTED else value


def _exact(value: Any) -> Plain:
    """Return what msgspec read with extensions as values, and tuples where it has lists, but for marked ones."""
    kind = type(value)
    if kind is dict:
        if not KEYS.issuperset(map(type, value)):
            value = {_exact(key): item for key, item in value.items()}
            if not KEYS.issuperset(map(type, value)):
                raise ValueError("a key is not a string or a whole number")
        for key, item in value.items():
            if type(item) in _NESTED:
                value[key] = _exact(item)
        return value
    if kind is list:
        if _NESTED.isdisjoint(map(type, value)):
            return tuple(value)
        first = value[0]
        if type(first) is _Ext and first.code == LIST:
            return [_exact(item) if type(item) in _NESTED else item for item in value[1:]]
        return tuple([_exact(item) if type(item) in _NESTED else item for item in value])
    return _extension(value.code, value.data) if kind is _Ext else value


def _extension(code: int, data: bytes) -> Plain:
    if code in (MATRIX, OFFERED_MATRIX):
        (n_columns,) = _COLUMNS.unpack_from(data)
        matrix = np.frombuffer(data, _FLOATS, -1, _COLUMNS.size).reshape(-1, n_columns)
        return Offers(matrix) if code == OFFERED_MATRIX else matrix.copy()
    if code == EMPTY_LIST:
        return []
    if code == INTEGER:
        return int(data, 16)
    if code == TEXT:
        return data.decode("utf-8", "surrogatepass")
    if code == ARRAY:
        return _read_array(data)
    if code == OFFERS:
        actions, shared, ids, mask = _read(data)
        return Offers(actions, shared, ids, mask=mask)
    if code == BALL:
        from equipoise.learners import Ball

        return Ball(*_read(data))
    raise ValueError(f"extension {code} is not known here")


def _read_array(data: bytes) -> AnyArray:
    end = 2 + data[1]
    dtype, n_axes = np.dtype(data[2:end].decode("ascii")), data[end]
    if dtype.kind not in KINDS:
        raise ValueError(f"an array has type {dtype}")
    shape = _AXES[n_axes].unpack_from(data, end + 1)
    array = np.frombuffer(data[end + 1 + 8 * n_axes :], dtype).reshape(shape).copy()
    return np.asfortranarray(array) if data[0] == ord("F") else array


# Set by `accelerate`.
_DecodeError: type[Exception] = ValueError
_Ext: Any = None
_NO_ENTRIES: Any = None
_NESTED: frozenset[Any] = frozenset()
_pack: Callable[..., Any]
_unpack: Callable[..., Any]
_unpack_event: Callable[..., Any]


def _parse(data: bytes, at: int) -> tuple[Plain, int]:
    """Return the value at a position, and the position after it."""
    tag = data[at]
    at += 1
    if 0xA0 <= tag < 0xC0:
        return _parse_text(data, at, tag & 0x1F)
    if tag < 0x80:
        return tag, at
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    if tag in _NUMBERS:
        form = _NUMBERS[tag]
        return form.unpack_from(data, at)[0], at + form.size
    if tag < 0x90:
        return _parse_map(data, at, tag & 0x0F)
    if tag < 0xA0:
        return _parse_array(data, at, tag & 0x0F)
    if tag >= 0xE0:
        return tag - 0x100, at
    if tag in _FIXED:
        return _parse_extension(data, at, _FIXED[tag])
    form, parse = _SIZED[tag]
    return parse(data, at + form.size, form.unpack_from(data, at)[0])


def _parse_bytes(data: bytes, at: int, length: int) -> tuple[bytes, int]:
    end = at + length
    if end > len(data):
        raise IndexError(f"it ends at byte {len(data)}, within a value")
    return data[at:end], end


def _parse_text(data: bytes, at: int, length: int) -> tuple[str, int]:
    end = at + length
    if end > len(data):
        raise IndexError(f"it ends at byte {len(data)}, within a text")
    return data[at:end].decode(), end


def _parse_array(data: bytes, at: int, length: int) -> tuple[Plain, int]:
    is_list = length > 0 and data[at : at + 3] == _LIST_BYTES
    if is_list:
        at, length = at + 3, length - 1
    items = []
    for _ in range(length):
        item, at = _parse(data, at)
        items.append(item)
    return (items if is_list else tuple(items)), at


def _parse_map(data: bytes, at: int, length: int) -> tuple[Plain, int]:
    value = {}
    for _ in range(length):
        key, at = _parse(data, at)
        value[key], at = _parse(data, at)
    if not KEYS.issuperset(map(type, value)):
        raise ValueError("a key is not a string or a whole number")
    return value, at


def _parse_extension(data: bytes, at: int, length: int) -> tuple[Plain, int]:
    content, end = _parse_bytes(data, at + 1, length)
    return _extension(data[at], content), end


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_FIXED = {0xD4 + k: 1 << k for k in range(5)}
_NUMBERS = {0xCA + k: struct.Struct(f">{form}") for k, form in enumerate("fdBHIQbhiq")}
_SIZED: dict[int, tuple[struct.Struct, Callable[[Any, int, int], tuple[Plain, int]]]] = {
    first + k: (struct.Struct(f">{form}"), parse)
    for first, forms, parse in (
        (0xC4, "BHI", _parse_bytes),
        (0xC7, "BHI", _parse_extension),
        (0xD9, "BHI", _parse_text),
        (0xDC, "HI", _parse_array),
        (0xDE, "HI", _parse_map),
    )
    for k, form in enumerate(forms)
}
