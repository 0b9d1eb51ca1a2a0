"""Atomic writing of files, and digests that reveal changes.

A file is written under a temporary name in the same folder, flushed to disk and renamed over the old one, so that at
any moment, even after a crash, the file has either the old or the new content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from equipoise.errors import EquipoiseError, UnreadableFile


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of `path` by `data`; on failure the old content remains and no other file is left."""
    with open_atomic(path) as file:
        file.write(data)


@contextlib.contextmanager
def open_atomic(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that replaces `path` when it is complete and on disk."""
    with replacing(path) as temporary, temporary.open("xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to: the file there replaces `path` at the end, and is removed if anything fails."""
    target = Path(os.path.realpath(path))  # follow a link: its target is written
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException as error:
        with contextlib.suppress(OSError):  # must not hide the original error
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise EquipoiseError(
                f"{os.fspath(path)!r} could not be written: {reason}; its old content remains"
            ) from error
        raise


def flush(path: Path) -> None:
    """Let a file, or the entries of a folder, reach the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder, and those that it is in, unless it exists."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=mode)
    except OSError as error:
        raise EquipoiseError(f"folder {str(path)!r} cannot be made: {error.strerror}") from error


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UnreadableFile(f"{os.fspath(path)!r} could not be read: {error.strerror or error}") from error


def canonical_json(data: Any) -> bytes:
    """Canonical JSON of plain data: sorted keys, no spaces. Raises ValueError on nan and infinities."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def digest(data: Mapping[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the canonical JSON of `data` without its key "digest"."""
    return hashlib.sha256(canonical_json({key: data[key] for key in data if key != "digest"})).hexdigest()
