"""Files of plain data and arrays: a name with a version, a digest, and the value as the codec writes it.

Layout: the line `equipoise archive 1`, the SHA-256 of everything after it as a line, the encoded value.
"""

from __future__ import annotations

import hashlib
from math import inf
from pathlib import Path

from equipoise.errors import UnreadableFile
from equipoise.storage.codec import check_savable, decode, encode
from equipoise.types import Plain

MAGIC = "equipoise archive"
VERSION = 1


def pack(value: Plain) -> bytes:
    """Return the archive of a value; raise an error that names the place of anything that would not come back."""
    check_savable(value, "value", inf)
    content = encode(value)
    return f"{MAGIC} {VERSION}\n{hashlib.sha256(content).hexdigest()}\n".encode() + content


def unpack(data: bytes, path: Path) -> Plain:
    """Return the value of an archive; `path` names the file in errors."""
    first, _, rest = data.partition(b"\n")
    digest, _, content = rest.partition(b"\n")
    name, _, version = first.decode("ascii", "replace").rpartition(" ")
    if name != MAGIC:
        raise UnreadableFile(f"{path} is not an equipoise file")
    if version != str(VERSION):
        raise UnreadableFile(f"{path} has version {version}, but this release reads version {VERSION}")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise UnreadableFile(f"{path} is truncated or was modified: its digest does not match its content")
    return decode(content)
