"""Errors as answers: a problem document (RFC 9457) with the right status for each.

Faults of the server are 5xx, so that clients repeat the request, and say nothing about files; the log does.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

import msgspec

from equipoise import errors
from equipoise.errors import EquipoiseError, JournalBusy
from equipoise.serve.schemas import Problem

MEDIA_TYPE = "application/problem+json"
MAX_DETAIL = 500
logger = logging.getLogger("equipoise.serve")


class Refused(EquipoiseError):  # noqa: N818
    """A request that is answered with a problem, whatever the portfolio says."""

    def __init__(self, status: int, slug: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.slug, self.headers = status, slug, dict(headers or {})


class LateReward(EquipoiseError):  # noqa: N818
    """A reward that arrived after the deadline of its decision."""


class TooManyOpen(EquipoiseError):  # noqa: N818
    """A decision that would be one too many without a reward."""


class Kind(NamedTuple):
    status: int
    slug: str
    detail: str = ""  # of the answer, if the text of the error is not for clients
    logged: bool = False  # whether the text of the error goes to the log


READ_ONLY = Kind(
    503,
    "read-only",
    "the journal of the portfolio failed, so nothing is accepted until it is reopened; the log says why",
)
UNAVAILABLE = Kind(
    503, "unavailable", "a file could not be used at present; the error is in the log under the id of the request", True
)
DAMAGED = Kind(
    500, "damaged", "the journal is damaged where this request needs it; the error is in the log under its id", True
)
INTERNAL = Kind(500, "internal-error", "the error is in the log under the id of the request", True)


# The first class that fits is used, so narrower ones come first.
KINDS: tuple[tuple[type[Exception], Kind], ...] = (
    (LateReward, Kind(409, "late-reward")),
    (errors.DuplicateReward, Kind(409, "duplicate-reward")),
    (errors.DuplicateDecision, Kind(409, "duplicate-decision")),
    (errors.UnknownDecision, Kind(404, "unknown-decision")),
    (errors.NoLearnerAvailable, Kind(503, "no-learner-available")),
    (JournalBusy, Kind(503, "overloaded")),
    (TooManyOpen, Kind(503, "too-many-open")),
    (errors.JournalFailed, READ_ONLY),
    (errors.MissingExtra, Kind(422, "missing-extra")),
    (errors.UnknownName, Kind(422, "unknown-name")),
    (errors.InvalidArgument, Kind(422, "invalid-argument")),
    (errors.FileUnavailable, UNAVAILABLE),
    (errors.JournalLocked, UNAVAILABLE),
    (errors.UnreadableFile, DAMAGED),
    (sqlite3.Error, UNAVAILABLE),
    (OSError, UNAVAILABLE),
    (EquipoiseError, INTERNAL),
    (msgspec.ValidationError, Kind(422, "invalid-argument")),
    (msgspec.DecodeError, Kind(400, "malformed-json")),
    (UnicodeDecodeError, Kind(400, "malformed-json")),
    (RecursionError, Kind(400, "malformed-json")),
)


def kind_of(error: BaseException) -> Kind | None:
    """Status and type for an error; None for an unexpected one."""
    if isinstance(error, Refused):
        return Kind(error.status, error.slug)
    return next((kind for cls, kind in KINDS if isinstance(error, cls)), None)


def problem(kind: Kind, detail: str, request_id: str = "") -> Problem:
    title = HTTPStatus(kind.status).phrase
    return Problem(f"urn:equipoise:problem:{kind.slug}", title, kind.status, detail[:MAX_DETAIL], request_id)


def problem_of(error: BaseException, request_id: str = "") -> Problem:
    """The problem document of an error; an unexpected one says nothing about the inside."""
    kind = kind_of(error)
    if kind is None or kind.detail:
        kind = kind or INTERNAL
        return problem(kind, kind.detail, request_id)
    if isinstance(error, RecursionError):
        return problem(kind, "JSON is nested too deeply", request_id)
    return problem(kind, printable(str(error)), request_id)


def log_fault(error: BaseException, request_id: str) -> None:
    """Log what the answer does not say; an unexpected error with its traceback."""
    kind, facts = kind_of(error), {"request_id": request_id}
    if kind is None:
        logger.error("unexpected error", exc_info=error, extra={"facts": facts})
    elif kind.logged:
        logger.error("%s", printable(str(error)), extra={"facts": facts, "limited": kind.slug})


def printable(text: str) -> str:
    """A text on one line without control characters, which might change what a terminal shows."""
    return "".join(character if character.isprintable() else " " for character in text)


def headers_of(error: BaseException) -> dict[str, str]:
    if isinstance(error, Refused):
        return error.headers
    return {"Retry-After": "1" if isinstance(error, JournalBusy) else "5"} if problem_of(error).status == 503 else {}
