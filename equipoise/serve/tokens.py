"""Tokens: who may do what with which portfolio.

A token is a random secret that is shown once, when it is made. The file holds its SHA-256 digest, which cannot be
turned back because the secret has 256 random bits. Digests are compared in constant time.

Scopes: `decide` (decisions and flag evaluations), `reward` (rewards and withdrawals), `read` (standing, certificates,
events, metrics), `admin` (learners). No scope includes another one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from equipoise.errors import InvalidArgument, UnknownName, UnreadableFile
from equipoise.storage.files import make_folder, read_bytes, write_atomic

SCOPES = ("decide", "reward", "read", "admin")
ALL = "*"
PREFIX = "eqp_"
VERSION = 1
FILE = "tokens.json"
NAME = re.compile(r"[a-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Token:
    """A token without its secret."""

    name: str  # in lists and logs
    digest: str  # SHA-256 of the secret, in hexadecimal
    scopes: tuple[str, ...]
    portfolios: tuple[str, ...] = (ALL,)

    def allows(self, scope: str, portfolio: str | None) -> bool:
        """Whether a request may do this; None is what concerns no single portfolio."""
        return scope in self.scopes and (portfolio is None or self.covers(portfolio))

    def covers(self, portfolio: str) -> bool:
        return ALL in self.portfolios or portfolio in self.portfolios


class Tokens:
    def __init__(self, tokens: Iterable[Token] = ()) -> None:
        self._tokens = tuple(tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._tokens)

    def find(self, secret: str) -> Token | None:
        """The token with this secret; takes the same time whichever it is."""
        digest, found = digest_of(secret), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def make_data_folder(folder: Path) -> None:
    """Make the folder of journals and tokens, which only its owner may read."""
    make_folder(folder, mode=0o700)


def read_tokens(path: str | os.PathLike[str]) -> Tokens:
    """The tokens of a file; none if there is no such file."""
    if not Path(path).exists():
        return Tokens()
    try:
        content = json.loads(read_bytes(path))
        if content["version"] != VERSION:
            raise ValueError(f"version is {content['version']!r}, but must be {VERSION}")
        rows = content["tokens"]
        return Tokens(Token(row["name"], row["digest"], tuple(row["scopes"]), tuple(row["portfolios"])) for row in rows)
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableFile(f"{os.fspath(path)!r} is not a file of tokens: {error}") from None


def add_token(
    path: str | os.PathLike[str], name: str, scopes: Sequence[str], portfolios: Sequence[str] = (ALL,)
) -> str:
    """Add a token to a file, readable by its owner only, and return its secret, which is stored nowhere."""
    present = tuple(read_tokens(path))
    if not NAME.fullmatch(name) or name in (token.name for token in present):
        raise InvalidArgument(f"name is {name!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and -, and not taken")
    for scope in scopes:
        if scope not in SCOPES:
            raise UnknownName("scope", scope, SCOPES)
    for portfolio in portfolios:
        if portfolio != ALL and not NAME.fullmatch(portfolio):
            raise InvalidArgument(f"portfolio is {portfolio!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and -, or *")
    if not scopes or not portfolios:
        raise InvalidArgument(f"scopes is {list(scopes)} and portfolios is {list(portfolios)}, but must not be empty")
    secret = PREFIX + secrets.token_urlsafe(32)
    _write(path, [*present, Token(name, digest_of(secret), tuple(scopes), tuple(portfolios))])
    return secret


def remove_token(path: str | os.PathLike[str], name: str) -> None:
    present = tuple(read_tokens(path))
    if name not in (token.name for token in present):
        raise UnknownName("token", name, [token.name for token in present])
    _write(path, [token for token in present if token.name != name])


def _write(path: str | os.PathLike[str], tokens: Sequence[Token]) -> None:
    content = {"version": VERSION, "tokens": [asdict(token) for token in tokens]}
    mask = os.umask(0o077)
    try:
        write_atomic(path, json.dumps(content, indent=1).encode() + b"\n")
    finally:
        os.umask(mask)
