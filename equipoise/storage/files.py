"""How files are written and sealed: whole or not at all, and with a digest that betrays any change.

A file is written under a temporary name in its own folder, forced to disk and moved over the old one in a single step,
so that whoever reads it, or a crash at any moment, finds either the old content or the new.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.errors import EquipoiseError, UnreadableFile


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Make `data` the content of `path`; on failure the file stays as it was and nothing is left over."""
    target = Path(os.path.realpath(path))  # a link stays a link: what it points to is written
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # clearing up must not hide the error that made it necessary
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise EquipoiseError(f"{os.fspath(path)!r} could not be written: {reason}; it is as it was") from error
        raise


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """The content of a file."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{os.fspath(path)!r} could not be read: {error.strerror or error}") from error


def canonical_json(data: Any) -> bytes:
    """The one JSON text of plain data: keys sorted, no spaces. Raises ValueError on nan and infinities."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the canonical JSON of `data` without its own "digest"."""
    return hashlib.sha256(canonical_json({key: data[key] for key in data if key != "digest"})).hexdigest()
