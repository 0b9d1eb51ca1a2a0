"""What both clients have in common: which requests they send, how they read answers, and when they repeat a request.

Nothing here waits or has a socket. A call is a generator: it yields a `Request` to send or a `Pause` to wait, is sent
the outcome, and returns its result. `Client` runs it in a thread, `AsyncClient` in a task.

A request is repeated only if that is safe. Decisions have ids: if the caller gives none, the client makes one, so that
a repeated request gets the decision that was made. A reward counts once under the id of its decision and its key.
"""

from __future__ import annotations

import json
import random
import ssl
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from itertools import count as count_from
from math import nan
from typing import Any, NamedTuple, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote
from uuid import uuid4

import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.portfolio import Decision
from equipoise.serve.client.wire import Answer, Target
from equipoise.settings.checks import count, positive

REPEATED = frozenset({408, 429, 502, 503, 504})
MAX_PAUSE_SECONDS = 10.0
MAX_LINES, MAX_BATCH_BYTES = 500, 1 << 19  # of a request: half of what the service accepts
JSON, NDJSON = "application/json", "application/x-ndjson"
T = TypeVar("T")


class ServiceError(EquipoiseError):
    """The service refused a request, or gave no answer.

    Parameters
    ----------
    status
        The HTTP status; 0 if there was no answer.
    kind
        The last part of the problem's type, such as "duplicate-decision". "unreachable" if there was no answer, and
        "unknown" if the answer is not a problem document.
    detail
        The explanation of the service.
    request_id
        The id under which the log of the service has the request; empty if it gave none.
    """

    def __init__(self, status: int, kind: str, detail: str, request_id: str = "") -> None:
        facts = f"{kind}, status {status}" + (f", request {request_id}" if request_id else "")
        super().__init__(f"{detail} ({facts})" if status else detail)
        self.status, self.kind, self.detail, self.request_id = status, kind, detail, request_id

    def __reduce__(self) -> tuple[type[ServiceError], tuple[int, str, str, str]]:
        return type(self), (self.status, self.kind, self.detail, self.request_id)


@dataclass(frozen=True)
class Outcome:
    """The result of one line of a batch: `error` is None if it was accepted; `decision` is None for a reward.

    `id` is the id of the decision or, if its line has an error, of the request.
    """

    id: str
    error: ServiceError | None
    decision: Decision | None = None


class Options(TypedDict, total=False):
    """The options of a request to decide, next to its context; `Client.decide` says what they mean."""

    offers: Iterable[Mapping[str, Any]] | None
    exclude: Iterable[str] | None
    available: Iterable[str] | None
    unit: str | None
    id: str | None


class Round(Options, total=False):
    """One line of a batch of decisions: a context and its options."""

    context: Context


Context: TypeAlias = Mapping[str, Any] | Sequence[Any] | np.ndarray | None


class Request(NamedTuple):
    """A request to send.

    `seconds` is the time for this attempt; `patience` is the time for the wait before it, if all connections are busy.
    """

    data: bytes
    seconds: float
    patience: float


class Pause(NamedTuple):
    """A pause before a repetition."""

    seconds: float


class Failure(NamedTuple):
    """An attempt without an answer; `is_reused` if the connection had served other requests before."""

    error: Exception
    is_reused: bool


Call: TypeAlias = Generator[Request | Pause, Answer | Failure | None, T]


@dataclass
class ClientSettings:
    """The settings of a client for one portfolio; `Client` says what they mean."""

    url: str
    portfolio: str
    token: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0
    retries: int = 5
    backoff_seconds: float = 0.1
    total_seconds: float = 60.0
    connections: int = 32

    def __post_init__(self) -> None:
        for name in ("timeout_seconds", "backoff_seconds", "total_seconds"):
            positive(name, getattr(self, name))
        count("retries", self.retries, minimum=0)
        count("connections", self.connections, minimum=1)
        self._target = Target(self.url, self.token)
        self._calls = Calls(self, self._target)

    def __reduce__(self) -> tuple[type[ClientSettings], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, each.name) for each in fields(self))


class Calls:
    """The calls to one portfolio."""

    def __init__(self, settings: ClientSettings, target: Target) -> None:
        self._settings, self._target = settings, target
        self._path = f"/v1/portfolios/{quote(settings.portfolio, safe='')}"

    def decide(self, context: Context, options: Options) -> Call[Decision]:
        body = _round(context, **options)
        return (yield from self._one("/decide", body, _decision))

    def slate(self, k: int, context: Context, options: Options) -> Call[list[Decision]]:
        body = {**_round(context, **options), "k": k}
        return (yield from self._one("/decide", body, lambda row: list(map(_decision, row["slots"]))))

    def decide_many(self, rounds: Iterable[Round]) -> Call[list[Outcome]]:
        bodies = [_round(**each) for each in rounds]
        return (yield from self._batch("/decide", bodies, lambda line: _decision(line["decision"])))

    def reward(self, id_: str, reward: float, key: str | None) -> Call[None]:
        yield from self._one("/rewards", _reward(id_, reward, key), _nothing)

    def rewards(self, rewards: Iterable[Rewarded]) -> Call[list[Outcome]]:
        return (yield from self._batch("/rewards", [_reward(*each) for each in rewards], _nothing))

    def withdraw(self, id_: str) -> Call[None]:
        yield from self._one("/withdraw", {"id": id_}, _nothing)

    def status(self) -> Call[dict[str, Any]]:
        return _read(dict, _read(json.loads, (yield from self._send("GET", "", None, JSON)).body))

    def _one(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> Call[T]:
        answer = yield from self._send("POST", path, _encode(body), JSON)
        return _read(read, _read(json.loads, answer.body))

    def _batch(
        self, path: str, bodies: Sequence[Mapping[str, Any]], read: Callable[[Any], Decision | None]
    ) -> Call[list[Outcome]]:
        """Send lines in as few requests as the service accepts; repeat the lines that it was too busy for.

        If a request fails, its lines have the error; if no line has an answer, the error is raised.
        """
        outcomes: dict[int, Outcome] = {}
        waiting = dict(enumerate(map(_encode, bodies)))
        for attempt in range(self._settings.retries + 1):
            refused: dict[int, bytes] = {}
            for part in _parts(waiting):
                data = b"\n".join(waiting[k] for k in part)
                try:
                    rows = _rows((yield from self._send("POST", path, data, NDJSON)), len(part))
                    found = [_outcome(bodies[k], row, read) for k, row in zip(part, rows, strict=True)]
                    refused |= {k: waiting[k] for k, each in zip(part, found, strict=True) if _is_busy(each)}
                except ServiceError as error:
                    if not outcomes:
                        raise
                    found = [Outcome(bodies[k].get("id", ""), error) for k in part]
                outcomes |= zip(part, found, strict=True)
            waiting = refused
            if not waiting or attempt == self._settings.retries:
                break
            yield Pause(self._backoff(attempt))
        return [outcomes[k] for k in range(len(bodies))]

    def _send(self, method: str, path: str, body: bytes | None, media_type: str) -> Call[Answer]:
        """Return the answer of success; repeat what failed on the way, or what the service was too busy for."""
        settings = self._settings
        data = self._target.request(method, self._path + path, body, media_type)
        end = time.monotonic() + settings.total_seconds
        for attempt in count_from():
            left = max(end - time.monotonic(), 0.0)
            outcome = yield Request(data, min(settings.timeout_seconds, left), left)
            pause = self._backoff(attempt)
            if isinstance(outcome, Answer):
                if outcome.status < 300:
                    return outcome
                error, is_final = _refusal(outcome), outcome.status not in REPEATED
                pause = max(pause, min(_seconds_to_wait(outcome), MAX_PAUSE_SECONDS))
            else:
                assert outcome is not None
                failure = str(outcome.error) or type(outcome.error).__name__
                error = ServiceError(0, "unreachable", f"{settings.url} gave no answer: {failure}")
                is_final = isinstance(outcome.error, ssl.SSLCertVerificationError)
                if outcome.is_reused and not isinstance(outcome.error, TimeoutError):
                    pause = 0.0  # the connection may have ended while it was idle
            if is_final or attempt >= settings.retries or time.monotonic() + pause >= end:
                raise error
            yield Pause(pause)
        raise AssertionError("unreachable")

    def _backoff(self, attempt: int) -> float:
        return min(self._settings.backoff_seconds * 2.0**attempt, MAX_PAUSE_SECONDS) * (0.5 + random.random())


Rewarded: TypeAlias = tuple[str, float] | tuple[str, float, str | None]


def _round(
    context: Context = None,
    *,
    offers: Iterable[Mapping[str, Any]] | None = None,
    exclude: Iterable[str] | None = None,
    available: Iterable[str] | None = None,
    unit: str | None = None,
    id: str | None = None,
) -> dict[str, Any]:
    """Return the body of a request; its id, if not the caller's, is random, so that it can be repeated."""
    body = {
        "context": context,
        "offers": None if offers is None else list(offers),
        "exclude": None if exclude is None else list(exclude),
        "available": None if available is None else list(available),
        "unit": unit,
        "id": uuid4().hex if id is None else id,
    }
    return {key: value for key, value in body.items() if value is not None}


def _reward(id_: str, reward: float, key: str | None = None) -> dict[str, Any]:
    return {"id": id_, "reward": reward, **({} if key is None else {"key": key})}


def _encode(body: Mapping[str, Any]) -> bytes:
    try:
        return ENCODER.encode(body).encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidArgument(f"the request cannot be sent as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{value!r:.80} is a {type(value).__name__}")


ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)


def _parts(lines: Mapping[int, bytes]) -> Iterator[list[int]]:
    """Yield the numbers of lines in parts that the service accepts."""
    part, size = list[int](), 0
    for k, line in lines.items():
        if part and (len(part) == MAX_LINES or size + len(line) > MAX_BATCH_BYTES):
            yield part
            part, size = [], 0
        part.append(k)
        size += len(line) + 1
    if part:
        yield part


def _read(read: Callable[[Any], T], answer: Any) -> T:
    try:
        return read(answer)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _unexpected(f"{type(error).__name__}: {error}") from None


def _unexpected(why: str) -> ServiceError:
    return ServiceError(200, "unexpected-answer", f"the answer is not an answer of the service: {why}")


def _rows(answer: Answer, n: int) -> list[Any]:
    """Return the lines of an answer; their problems get the id of the request."""
    rows = _read(lambda body: [json.loads(line) for line in body.split(b"\n") if line], answer.body)
    if len(rows) != n:
        raise _unexpected(f"it has {len(rows)} lines for {n}")
    for row in rows:
        if isinstance(row, dict) and isinstance(row.get("problem"), dict):
            row["problem"].setdefault("request_id", answer.headers.get("x-request-id", ""))
    return rows


def _nothing(answer: Any) -> None:
    """Read nothing from an answer that says only that the request was accepted."""


def _outcome(body: Mapping[str, Any], row: Any, read: Callable[[Any], Decision | None]) -> Outcome:
    def outcome(row: Any) -> Outcome:
        id_ = body.get("id", "")
        if (problem := row.get("problem")) is not None:
            return Outcome(id_, _error(row["status"], problem))
        decision = read(row)
        return Outcome(id_ if decision is None else decision.id, None, decision)

    return _read(outcome, row)


def _is_busy(outcome: Outcome) -> bool:
    """Whether the service refused a line because of its load."""
    return outcome.error is not None and outcome.error.status in REPEATED


def _decision(row: Mapping[str, Any]) -> Decision:
    """Return the decision of an answer. Over HTTP learners have names only: `learner` and `drawn` are None."""
    of_learner, of_action, propensity = (nan if row[key] is None else float(row[key]) for key in PROBABILITIES)
    who = None, row["learner"], None
    return Decision(row["id"], row["action"], *who, of_learner, of_action, propensity, row["action_id"])


PROBABILITIES = ("learner_probability", "action_probability", "propensity")


def _refusal(answer: Answer) -> ServiceError:
    try:
        problem = json.loads(answer.body)
    except (ValueError, RecursionError):  # a proxy answered
        problem = {}
    problem = problem if isinstance(problem, dict) else {}
    return _error(answer.status, {"request_id": answer.headers.get("x-request-id", ""), **problem})


def _error(status: int, problem: Mapping[str, Any]) -> ServiceError:
    kind = str(problem.get("type", "unknown")).rpartition(":")[2]
    detail = str(problem.get("detail") or problem.get("title") or "the request was refused")
    return ServiceError(status, kind, detail, str(problem.get("request_id", "")))


def _seconds_to_wait(answer: Answer) -> float:
    """Return what `Retry-After` says, which is seconds or a date; 0 without one."""
    text = answer.headers.get("retry-after", "0")
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        return max(parsedate_to_datetime(text).timestamp() - time.time(), 0.0)
    except (ValueError, OverflowError):
        return 0.0
