"""The client for programs with threads."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, Unpack

from equipoise.portfolio import Decision
from equipoise.serve.client.calls import (
    Call,
    ClientSettings,
    Context,
    Failure,
    Options,
    Outcome,
    Request,
    Rewarded,
    Round,
)
from equipoise.serve.client.wire import Address, Answer, AnswerReader, MalformedAnswer, secure_context

PIECE_BYTES = 1 << 16
T = TypeVar("T")


@dataclass
class Client(ClientSettings):
    """A client for one portfolio, which any number of threads can share.

    Connections stay open for the next requests. A process that was forked opens its own.

    Parameters
    ----------
    url
        Address of the service, such as "https://decisions.example.com".
    portfolio
        Name of the portfolio.
    token
        The secret of a token, if the service has tokens.
    timeout_seconds
        Time limit of one attempt. Default: 5.
    retries
        Maximum number of repetitions of a request. Default: 5.
    backoff_seconds
        The first pause before a repetition. It doubles each time, with a random part. Default: 0.1.
    total_seconds
        Time limit of a request with its repetitions. Default: 60.
    connections
        Maximum number of connections at a time; further requests wait for one. Default: 32.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pools: dict[int, Pool] = {}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        self._pool().clear()

    def decide(self, context: Context = None, **options: Unpack[Options]) -> Decision:
        """Decide a round. Over HTTP learners have names only: `learner` and `drawn` of the decision are None.

        Parameters
        ----------
        context
            The features that all offers share, by name or in order; or, without offers, rows of a matrix.
        offers
            The actions of this round: each {"id": ..., "features": ...}. Default: the actions of the configuration.
        exclude
            Ids of offers that must not be chosen.
        available
            Names of the learners that can act in this round. Default: all.
        unit
            Who is asked, such as a visitor. A unit gets the same decision again until the `sticky` of the portfolio has
            passed.
        id
            Your own id of the decision. Default: a random one.
        """
        return self._run(self._calls.decide(context, options))

    def slate(self, k: int, context: Context = None, **options: Unpack[Options]) -> list[Decision]:
        """Decide `k` different offers at once, each with an id, propensity and reward of its own; see `decide`."""
        return self._run(self._calls.slate(k, context, options))

    def decide_many(self, rounds: Iterable[Round]) -> list[Outcome]:
        """Decide several rounds, each {"context": ..., "offers": ...}; a refused one does not affect the others."""
        return self._run(self._calls.decide_many(rounds))

    def reward(self, id: str, reward: float, *, key: str | None = None) -> None:
        """Give the reward of a decision; the same reward again changes nothing, another one is an error."""
        self._run(self._calls.reward(id, reward, key))

    def rewards(self, rewards: Iterable[Rewarded]) -> list[Outcome]:
        """Give several rewards, each (id, reward) or (id, reward, key); a refused one does not affect the others."""
        return self._run(self._calls.rewards(rewards))

    def withdraw(self, id: str) -> None:
        """Withdraw a decision whose round did not happen."""
        self._run(self._calls.withdraw(id))

    def status(self) -> dict[str, Any]:
        """Return standing, certificate and health of the portfolio."""
        return self._run(self._calls.status())

    def _run(self, call: Call[T]) -> T:
        outcome: Answer | Failure | None = None
        try:
            while True:
                step = call.send(outcome)
                if isinstance(step, Request):
                    outcome = self._exchange(step)
                else:
                    outcome = None
                    time.sleep(step.seconds)
        except StopIteration as end:
            result: T = end.value
            return result

    def _exchange(self, request: Request) -> Answer | Failure:
        pool = self._pool()
        if not pool.slots.acquire(timeout=request.patience):
            return Failure(TimeoutError(f"all {self.connections} connections were busy"), False)
        end = time.monotonic() + request.seconds
        try:
            connection = pool.take()
            is_reused = connection is not None
            try:
                if connection is None:
                    connection = Connection(self._target.address, end)
                return pool.exchange(connection, request.data, end)
            except (OSError, MalformedAnswer) as error:
                pool.clear()  # what ended one connection may have ended all
                return Failure(error, is_reused)
        finally:
            pool.slots.release()

    def _pool(self) -> Pool:
        """Return the pool of this process: a process that was forked must not use its parent's connections."""
        process = os.getpid()
        pool = self._pools.get(process)
        if pool is None:
            for parent in [each for each in self._pools if each != process]:
                self._pools.pop(parent, Pool(1)).clear()
            pool = self._pools.setdefault(process, Pool(self.connections))  # atomic: threads share the dict
        return pool


class Pool:
    """Idle connections, the newest last, and a slot for each connection in use."""

    def __init__(self, size: int) -> None:
        self.slots = threading.BoundedSemaphore(size)
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        """Return a connection that the service has not closed; None without one."""
        while (connection := self._pop()) is not None:
            if connection.is_open():
                return connection
            connection.close()
        return None

    def exchange(self, connection: Connection, data: bytes, end: float) -> Answer:
        """Return the answer to a request; keep the connection if it can be used again."""
        is_last = True
        try:
            answer = connection.exchange(data, end)
            is_last = answer.is_last
        finally:  # also if an interrupt leaves an answer under way
            if is_last:
                connection.close()
        if not is_last:
            self._idle.append(connection)
        return answer

    def clear(self) -> None:
        """Close the idle connections."""
        while (connection := self._pop()) is not None:
            connection.close()

    def _pop(self) -> Connection | None:
        try:
            return self._idle.pop()  # atomic: threads share the list
        except IndexError:
            return None


class Connection:
    """A connection that sends a request and waits for its answer."""

    def __init__(self, address: Address, end: float) -> None:
        self._socket = socket.create_connection((address.host, address.port), seconds_until(end))
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.is_secure:
                self._socket.settimeout(seconds_until(end))
                self._socket = secure_context().wrap_socket(self._socket, server_hostname=address.host)
        except BaseException:
            self.close()
            raise

    def exchange(self, data: bytes, end: float) -> Answer:
        """Send a request and return its answer, until a time of `time.monotonic`."""
        self._socket.settimeout(seconds_until(end))
        self._socket.sendall(data)
        reader, answer = AnswerReader(), None
        while answer is None:
            self._socket.settimeout(seconds_until(end))
            piece = self._socket.recv(PIECE_BYTES)
            answer = reader.feed(piece) if piece else reader.end()
        return answer

    def is_open(self) -> bool:
        """Whether an idle connection can be used: the service has neither closed it nor sent anything."""
        if has_poll:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        return not select.select([self._socket], [], [], 0.0)[0]

    def close(self) -> None:
        self._socket.close()


def seconds_until(end: float) -> float:
    """Return the time that is left; raise an error if there is none."""
    left = end - time.monotonic()
    if left <= 0.0:
        raise TimeoutError("timed out")
    return left


has_poll = hasattr(select, "poll")  # not on Windows, where `select` takes any socket
