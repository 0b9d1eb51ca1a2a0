"""One file for plain data and arrays: a version, a digest, a JSON header and the arrays' bytes. No pickle.

Layout: the line `equipoise archive 1`, the SHA-256 of everything after it as a line, the header's length as a line, the
header (JSON), the arrays one after the other. Values may be None, booleans, numbers, strings, bytes, lists, tuples,
dicts with strings or whole numbers as keys, and arrays of numbers or strings. Everything is restored exactly, except
that NumPy scalars become Python numbers. Subclasses of the containers are rejected, since their class would be lost.
Version 2 has bytes, arrays of strings and whole numbers as keys; an archive without them is written as version 1, which
older releases can read.
"""

from __future__ import annotations

import base64
import hashlib
import json
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument, UnreadableFile

MAGIC = "equipoise archive"
VERSIONS = (1, 2)
MAX_DEPTH = 100  # of what a caller gives; a file nests it some levels deeper


def pack(value: Any) -> bytes:
    """The archive of a value."""
    encoder = _Encoder()
    body = encoder.encode(value, "value")
    layout = [{"dtype": array.dtype.str, "shape": list(array.shape)} for array in encoder.arrays]
    header = json.dumps({"body": body, "arrays": layout}, separators=(",", ":"), allow_nan=False).encode()
    content = b"".join([f"{len(header)}\n".encode(), header, *(array.tobytes() for array in encoder.arrays)])
    return f"{MAGIC} {encoder.version}\n{hashlib.sha256(content).hexdigest()}\n".encode() + content


def check_storable(value: Any, where: str) -> None:
    """Raise an error that names the place in `value`, called `where`, which an archive cannot hold."""
    _Encoder(MAX_DEPTH).encode(value, where)


def unpack(data: bytes, path: Path) -> Any:
    """The value of an archive; `path` is for the error message if it is damaged."""
    first, _, rest = data.partition(b"\n")
    digest, _, content = rest.partition(b"\n")
    name, _, version = first.decode("ascii", "replace").rpartition(" ")
    if name != MAGIC:
        raise UnreadableFile(f"{path} is not an equipoise file")
    if version not in map(str, VERSIONS):
        raise UnreadableFile(f"{path} has version {version}, but this release reads versions up to {VERSIONS[-1]}")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise UnreadableFile(f"{path} is truncated or was modified: its digest does not match its content")
    length, _, content = content.partition(b"\n")
    header = json.loads(content[: int(length)])
    offset, arrays = int(length), []
    for entry in header["arrays"]:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays.append(np.frombuffer(content[offset : offset + size], dtype).reshape(shape).copy())
        offset += size
    return _decode(header["body"], arrays)


class _Encoder:
    """Turns a value into JSON and a list of arrays."""

    def __init__(self, max_depth: float = inf) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.version = 1
        self.max_depth = max_depth

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        if depth > self.max_depth:
            raise InvalidArgument(f"{where:.80} is nested more than {self.max_depth} deep, or contains itself")
        match value:
            case None | bool() | str():
                return value
            case int():
                return int(value)
            case float():
                return float(value) if isfinite(value) else {"float": repr(float(value))}
            case np.bool() | np.integer() | np.floating() if value.itemsize <= 8:
                return self.encode(value.item(), where)
            case np.ndarray() if type(value) is np.ndarray and value.dtype.kind in "biuf":
                self.arrays.append(value)
                return {"array": len(self.arrays) - 1, "order": "F" if _fortran(value) else "C"}
            case tuple() | list() if type(value) in (tuple, list):
                items = [self.encode(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
                return {type(value).__name__: items}
            case dict() if type(value) is dict and all(type(key) is str for key in value):
                return {"dict": {key: self.encode(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}}
        return self._encode_since_2(value, where, depth)

    def _encode_since_2(self, value: Any, where: str, depth: int) -> Any:
        self.version = 2
        match value:
            case bytes() if type(value) is bytes:
                return {"bytes": base64.b64encode(value).decode("ascii")}
            case np.ndarray() if type(value) is np.ndarray and value.dtype.kind == "U":
                return {"strings": value.ravel().tolist(), "dtype": value.dtype.str, "shape": list(value.shape)}
            case dict() if type(value) is dict and all(type(key) in (str, int) for key in value):
                return {
                    "items": [[key, self.encode(item, f"{where}[{key!r}]", depth + 1)] for key, item in value.items()]
                }
        raise InvalidArgument(
            f"{where} is a {type(value).__name__}, but must be a number, a string, bytes, an array of numbers or "
            "strings, or a list, tuple or dict of these (with strings or whole numbers as keys)"
        )


def _decode(body: Any, arrays: list[NDArray[Any]]) -> Any:
    match body:
        case {"float": text}:
            return float(text)
        case {"array": index, "order": order}:
            return np.asfortranarray(arrays[index]) if order == "F" else arrays[index]
        case {"bytes": text}:
            return base64.b64decode(text)
        case {"strings": items, "dtype": dtype, "shape": shape}:
            return np.array(items, dtype).reshape(shape)
        case {"items": pairs}:
            return {key: _decode(item, arrays) for key, item in pairs}
        case {"tuple": items}:
            return tuple(_decode(item, arrays) for item in items)
        case {"list": items}:
            return [_decode(item, arrays) for item in items]
        case {"dict": items}:
            return {key: _decode(item, arrays) for key, item in items.items()}
    return body


def _fortran(array: NDArray[Any]) -> bool:
    # Matrix products may round differently in the two memory orders, and a resumed run must repeat every bit.
    return array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
