"""Bodies of requests: JSON of a type, in which no object has a key twice.

A parser takes the last of two values of a key and says nothing, so a request would not mean what one of its readers
sees. Every key has a colon after it, so a body that has no more colons than keys that were read needs no second look.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from equipoise.errors import InvalidArgument

NESTED = (dict, list, msgspec.Struct)


def decoder(request: type[Any]) -> Callable[[bytes], Any]:
    """Return the function that reads a body of this type; it raises an error for a key that an object has twice."""
    decode = msgspec.json.Decoder(request).decode

    def read(body: bytes) -> Any:
        value = decode(body)
        if body.count(b":") != _n_keys(value):
            # Numbers stay text: what they mean was checked.
            json.loads(body, object_pairs_hook=_check_keys, parse_int=str, parse_float=str, parse_constant=str)
        return value

    return read


def _n_keys(value: Any) -> int:
    """Return the number of keys that were read; of a type with fields, those that do not have their default."""
    if isinstance(value, dict):
        return len(value) + sum([_n_keys(each) for each in value.values() if isinstance(each, NESTED)])
    if isinstance(value, list):
        return sum([_n_keys(each) for each in value if isinstance(each, NESTED)])
    given = [getattr(value, name) for name in value.__struct_fields__]
    known = [each for each in given if each is not None and each is not msgspec.UNSET]
    return len(known) + sum([_n_keys(each) for each in known if isinstance(each, NESTED)])


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise InvalidArgument(f"the body has the key {twice!r:.80} twice in one object, but keys must differ")
