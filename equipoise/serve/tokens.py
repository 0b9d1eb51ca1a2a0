"""Tokens: who may do what with which portfolio.

A token is a random secret that is shown once, when it is made. The file holds its SHA-256 digest, which cannot be
turned back because the secret has 256 random bits. Digests are compared in constant time.

Scopes: `decide` (decisions and flag evaluations), `reward` (rewards and withdrawals), `read` (standing, certificates,
events, metrics), `admin` (learners). No scope includes another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName, UnreadableFile
from equipoise.storage.files import make_folder, read_bytes, write_atomic

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - other systems
    fcntl = None  # type: ignore[assignment]

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
        self._deciding: dict[str, int] = {}  # by portfolio, as they are asked for with every decision

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter(self._tokens)

    def n_deciding(self, portfolio: str) -> int:
        """Return the number of tokens that may decide in a portfolio."""
        if portfolio not in self._deciding:
            self._deciding[portfolio] = sum(token.allows("decide", portfolio) for token in self._tokens)
        return self._deciding[portfolio]

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
        return Tokens([_token(*(row[key] for key in ("name", "digest", "scopes", "portfolios"))) for row in rows])
    except (ValueError, TypeError, KeyError) as error:
        raise UnreadableFile(f"{os.fspath(path)!r} is not a file of tokens: {error}") from None


def _token(name: object, digest: object, scopes: object, portfolios: object) -> Token:
    """Return the token of a row of a file; raise an error if a value has another type."""
    lists = [each for each in (scopes, portfolios) if isinstance(each, list)]
    texts = [name, digest, *(entry for each in lists for entry in each)]
    if len(lists) < 2 or not all(isinstance(each, str) and each.isascii() for each in texts):
        raise ValueError(f"token {name!r:.80} must have texts as name and digest, and lists of texts as the rest")
    return Token(name, digest, tuple(scopes), tuple(portfolios))  # type: ignore[arg-type]  # checked above


def add_token(
    path: str | os.PathLike[str], name: str, scopes: Sequence[str], portfolios: Sequence[str] = (ALL,)
) -> str:
    """Add a token to a file, readable by its owner only, and return its secret, which is stored nowhere."""
    if not NAME.fullmatch(name):
        raise InvalidArgument(f"name is {name!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and -")
    for scope in scopes:
        if scope not in SCOPES:
            raise UnknownName("scope", scope, SCOPES)
    for portfolio in portfolios:
        if portfolio != ALL and not NAME.fullmatch(portfolio):
            raise InvalidArgument(f"portfolio is {portfolio!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and -, or *")
    if not scopes or not portfolios:
        raise InvalidArgument(f"scopes is {list(scopes)} and portfolios is {list(portfolios)}, but must not be empty")
    secret = PREFIX + secrets.token_urlsafe(32)
    with _locked(path):
        present = tuple(read_tokens(path))
        if name in (token.name for token in present):
            raise InvalidArgument(f"name is {name!r}, but a token has this name already")
        _require_tokens(path)
        _write(path, [*present, Token(name, digest_of(secret), tuple(scopes), tuple(portfolios))])
    return secret


def remove_token(path: str | os.PathLike[str], name: str) -> None:
    with _locked(path):
        present = tuple(read_tokens(path))
        if name not in (token.name for token in present):
            raise UnknownName("token", name, [token.name for token in present])
        _require_tokens(path)
        _write(path, [token for token in present if token.name != name])


def tokens_to_serve(path: str | os.PathLike[str], required: bool) -> Tokens:
    """The tokens of a file for a start or a reload; raises an error if there are none and some are required."""
    tokens, marker = read_tokens(path), _marker(path)
    if len(tokens):
        with contextlib.suppress(EquipoiseError):  # a folder that cannot be written keeps its tokens
            _require_tokens(path)
    elif required:
        raise InvalidArgument(f"tokens are required, but {os.fspath(path)!r} has none: use `equipoise token add`")
    elif marker.exists():
        raise InvalidArgument(
            f"{os.fspath(path)!r} has no tokens, but the folder has had some: use `equipoise token add`, or remove "
            f"{str(marker)!r} to serve this machine without tokens"
        )
    return tokens


def _marker(path: str | os.PathLike[str]) -> Path:
    """The file that says that the folder is never served without tokens again; it survives the tokens."""
    return Path(path).with_suffix(".required")


def _require_tokens(path: str | os.PathLike[str]) -> None:
    if not _marker(path).exists():
        _write_private(_marker(path), b"This folder is served with tokens only. Remove this file to change that.\n")


def _write(path: str | os.PathLike[str], tokens: Sequence[Token]) -> None:
    content = {"version": VERSION, "tokens": [asdict(token) for token in tokens]}
    _write_private(path, json.dumps(content, indent=1).encode() + b"\n")


def _write_private(path: str | os.PathLike[str], data: bytes) -> None:
    mask = os.umask(0o077)
    try:
        write_atomic(path, data)
    finally:
        os.umask(mask)


@contextlib.contextmanager
def _locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock of a file of tokens, so that of two changes at once none is lost."""
    lock = Path(path).with_suffix(".lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise EquipoiseError(f"{str(lock)!r} could not be opened: {error.strerror}") from error
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
