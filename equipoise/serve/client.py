"""A client of the service, with the standard library only.

Requests that failed on the way, or were refused because the service was busy, are repeated with growing pauses. That is
safe because every decision has an id: if the caller gives none, the client makes one, so that a repeated request gets
the decision that was made, and a reward counts once.

    client = Client("http://127.0.0.1:8000", "offers")
    decision = client.decide()
    client.reward(decision.id, 1.0)
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.portfolio import Decision
from equipoise.settings.checks import count, positive

REPEATED = frozenset({429, 502, 503, 504})
MAX_PAUSE_SECONDS = 10.0
LINES_AT_ONCE = 500


class ServiceError(EquipoiseError):
    """The service refused a request.

    Parameters
    ----------
    status
        The HTTP status; 0 if there was no answer.
    kind
        The last part of the problem's type, such as "duplicate-decision".
    detail
        What the service said.
    """

    def __init__(self, status: int, kind: str, detail: str) -> None:
        super().__init__(f"{detail} ({kind}, status {status})" if status else detail)
        self.status, self.kind, self.detail = status, kind, detail

    def __reduce__(self) -> tuple[type[ServiceError], tuple[int, str, str]]:
        return type(self), (self.status, self.kind, self.detail)


@dataclass(frozen=True)
class Outcome:
    """What became of one reward of a batch; `error` is None if it was learned."""

    id: str
    error: ServiceError | None


@dataclass
class Client:
    """A client for one portfolio; not to be shared among threads.

    Parameters
    ----------
    url
        Address of the service, such as "https://decisions.example.com".
    portfolio
        Name of the portfolio.
    token
        The secret of a token, if the service has tokens.
    timeout_seconds
        How long one attempt may take. Default: 5.
    retries
        How often a request is repeated at most. Default: 5.
    backoff_seconds
        The first pause before a repetition; it doubles each time, with a random part. Default: 0.1.
    """

    url: str
    portfolio: str
    token: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0
    retries: int = 5
    backoff_seconds: float = 0.1

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidArgument(f"url is {self.url!r:.80}, but must begin with http:// or https:// and a host")
        positive("timeout_seconds", self.timeout_seconds)
        positive("backoff_seconds", self.backoff_seconds)
        count("retries", self.retries, minimum=0)
        self._parts = parts
        self._path = f"{parts.path.rstrip('/')}/v1/portfolios/{quote(self.portfolio, safe='')}"
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def decide(
        self,
        context: Mapping[str, float] | Sequence[Any] | None = None,
        *,
        offers: Iterable[Mapping[str, Any]] | None = None,
        available: Iterable[str] | None = None,
        id: str | None = None,
    ) -> Decision:
        """Decide a round. Over HTTP learners have names only: `learner` and `drawn` of the decision are None.

        Parameters
        ----------
        context
            Features that all offers share, in order or by name; or, without offers, rows of a matrix.
        offers
            The actions of this round: each {"id": ..., "features": ...}. Default: those of the configuration.
        available
            Names of the learners that may act in this round. Default: all.
        id
            Your own id of the decision. Default: a random one.
        """
        body = {"context": context, "offers": None if offers is None else list(offers), "id": id or uuid4().hex}
        if available is not None:
            body["available"] = list(available)
        row = self._json("POST", "/decide", {key: value for key, value in body.items() if value is not None})
        of_learner, of_action, propensity = (nan if row[key] is None else row[key] for key in PROBABILITIES)
        who = None, row["learner"], None
        return Decision(row["id"], row["action"], *who, of_learner, of_action, propensity, row["action_id"])

    def reward(self, id: str, reward: float, *, key: str | None = None) -> None:
        """Give the reward of a decision; the same reward again changes nothing, another one is an error."""
        self._json("POST", "/rewards", _reward(id, reward, key))

    def rewards(self, rewards: Iterable[tuple[str, float]]) -> list[Outcome]:
        """Give the rewards of several decisions, each (id, reward); one that is refused does not disturb the others."""
        rows, outcomes = list(rewards), []
        for start in range(0, len(rows), LINES_AT_ONCE):
            some = rows[start : start + LINES_AT_ONCE]
            body = "\n".join(_encode(_reward(id_, reward, None)) for id_, reward in some)
            lines = self._send("POST", "/rewards", body.encode(), "application/x-ndjson").splitlines()
            for (id_, _), line in zip(some, map(json.loads, lines), strict=True):
                problem = line.get("problem")
                outcomes.append(Outcome(id_, None if problem is None else _error(line["status"], problem)))
        return outcomes

    def withdraw(self, id: str) -> None:
        """Withdraw a decision whose round did not happen."""
        self._json("POST", "/withdraw", {"id": id})

    def status(self) -> dict[str, Any]:
        """Standing, certificate and health of the portfolio."""
        status: dict[str, Any] = self._json("GET", "", None)
        return status

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        data = None if body is None else _encode(body).encode()
        return json.loads(self._send(method, path, data, "application/json"))

    def _send(self, method: str, path: str, body: bytes | None, media_type: str) -> bytes:
        """The body of the answer; repeats what may be repeated."""
        error = ServiceError(0, "unreachable", f"{self.url} gave no answer")
        for attempt in range(self.retries + 1):
            pause = min(self.backoff_seconds * 2.0**attempt, MAX_PAUSE_SECONDS) * (0.5 + random.random())
            try:
                status, after, answer = self._attempt(method, path, body, media_type)
            except (OSError, http.client.HTTPException) as failure:
                self.close()
                error = ServiceError(0, "unreachable", f"{self.url} gave no answer: {failure}")
            else:
                if status < 300:
                    return answer
                error = _error(status, _problem(answer))
                if status not in REPEATED:
                    raise error
                pause = max(pause, min(after, MAX_PAUSE_SECONDS))
            if attempt < self.retries:
                time.sleep(pause)
        raise error

    def _attempt(self, method: str, path: str, body: bytes | None, media_type: str) -> tuple[int, float, bytes]:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = media_type
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._path + path, body, headers)
        response = self._connection.getresponse()
        after = response.getheader("Retry-After", "0")
        return response.status, float(after) if after.isdecimal() else 0.0, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        host, port, seconds = str(self._parts.hostname), self._parts.port, self.timeout_seconds
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=ssl.create_default_context())


PROBABILITIES = ("learner_probability", "action_probability", "propensity")


def _reward(id_: str, reward: float, key: str | None) -> dict[str, Any]:
    return {"id": id_, "reward": reward, **({} if key is None else {"key": key})}


def _encode(body: Mapping[str, Any]) -> str:
    try:
        return json.dumps(body, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"the request cannot be sent as JSON: {error}") from None


def _problem(answer: bytes) -> Mapping[str, Any]:
    try:
        problem = json.loads(answer)
    except ValueError:  # a proxy answered
        return {}
    return problem if isinstance(problem, dict) else {}


def _error(status: int, problem: Mapping[str, Any]) -> ServiceError:
    kind = str(problem.get("type", "unknown")).rpartition(":")[2]
    return ServiceError(status, kind, str(problem.get("detail") or problem.get("title") or "the request was refused"))
