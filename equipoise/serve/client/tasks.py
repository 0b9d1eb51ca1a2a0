"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, Unpack, cast

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

T = TypeVar("T")


@dataclass
class AsyncClient(ClientSettings):
    """A client for one portfolio, which any number of tasks can share: `Client` with methods to await.

    The settings and methods are those of `Client`. A task that is canceled closes its connection; the service may have
    made its decision all the same. Each event loop has connections of its own.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the next request opens a new one."""
        for connection in self._pool().clear():
            await connection.ended

    async def decide(self, context: Context = None, **options: Unpack[Options]) -> Decision:
        """Decide a round, as `Client.decide` does."""
        return await self._run(self._calls.decide(context, options))

    async def slate(self, k: int, context: Context = None, **options: Unpack[Options]) -> list[Decision]:
        """Decide `k` different offers at once, as `Client.slate` does."""
        return await self._run(self._calls.slate(k, context, options))

    async def decide_many(self, rounds: Iterable[Round]) -> list[Outcome]:
        """Decide several rounds, as `Client.decide_many` does."""
        return await self._run(self._calls.decide_many(rounds))

    async def reward(self, id: str, reward: float, *, key: str | None = None) -> None:
        """Give the reward of a decision, as `Client.reward` does."""
        await self._run(self._calls.reward(id, reward, key))

    async def rewards(self, rewards: Iterable[Rewarded]) -> list[Outcome]:
        """Give several rewards, as `Client.rewards` does."""
        return await self._run(self._calls.rewards(rewards))

    async def withdraw(self, id: str) -> None:
        """Withdraw a decision whose round did not happen."""
        await self._run(self._calls.withdraw(id))

    async def status(self) -> dict[str, Any]:
        """Return standing, certificate and health of the portfolio."""
        return await self._run(self._calls.status())

    async def _run(self, call: Call[T]) -> T:
        outcome: Answer | Failure | None = None
        try:
            while True:
                step = call.send(outcome)
                if isinstance(step, Request):
                    outcome = await self._exchange(step)
                else:
                    outcome = None
                    await asyncio.sleep(step.seconds)
        except StopIteration as end:
            return cast(T, end.value)

    async def _exchange(self, request: Request) -> Answer | Failure:
        pool = self._pool()
        try:
            async with asyncio.timeout(request.patience):
                await pool.slots.acquire()
        except TimeoutError:
            return Failure(TimeoutError(f"all {self.connections} connections were busy"), False)
        connection = pool.take()
        is_reused = connection is not None
        try:
            async with asyncio.timeout(request.seconds):
                if connection is None:
                    connection = await connect(self._target.address)
                return await pool.exchange(connection, request.data)
        except (OSError, MalformedAnswer) as error:
            pool.clear()  # what ended one connection may have ended all
            return Failure(error, is_reused)
        finally:
            pool.slots.release()

    def _pool(self) -> Pool:
        """Return the pool of the running event loop."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for ended in [each for each in list(self._pools) if each.is_closed()]:
                self._pools.pop(ended, None)
            pool = self._pools[loop] = Pool(self.connections)
        return pool


class Pool:
    """Idle connections of an event loop, the newest last, and a slot for each connection in use."""

    def __init__(self, size: int) -> None:
        self.slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []

    def take(self) -> Connection | None:
        """Return a connection that the service has not closed; None without one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open():
                return connection
        return None

    async def exchange(self, connection: Connection, data: bytes) -> Answer:
        """Return the answer to a request; keep the connection if it can be used again."""
        is_last = True
        try:
            answer = await connection.exchange(data)
            is_last = answer.is_last
        finally:  # also if the task is canceled while an answer is under way
            if is_last:
                connection.close()
        if not is_last:
            self._idle.append(connection)
        return answer

    def clear(self) -> list[Connection]:
        """Close the idle connections, and return them."""
        closed, self._idle = self._idle, []
        for connection in closed:
            connection.close()
        return closed


class Connection(asyncio.Protocol):
    """A connection that sends a request and waits for its answer."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._transport: asyncio.Transport
        self._reader: AnswerReader | None = None
        self._answer: asyncio.Future[Answer] | None = None

    async def exchange(self, data: bytes) -> Answer:
        """Send a request and return its answer."""
        self._reader, self._answer = AnswerReader(), self._loop.create_future()
        if not self.is_open():
            raise ConnectionResetError("the connection ended")
        self._transport.write(data)
        try:
            return await self._answer
        finally:
            self._reader = self._answer = None

    def is_open(self) -> bool:
        return not self._transport.is_closing()

    def close(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._reader is None:  # bytes that answer no request
            self.close()
        else:
            self._settle(partial(self._reader.feed, data))

    def eof_received(self) -> None:
        if self._reader is not None:
            self._settle(self._reader.end)

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("the connection ended"))

    def _settle(self, read: Callable[[], Answer | None]) -> None:
        """Read the next bytes of the answer; hand it over once it is whole."""
        if self._answer is None or self._answer.done():
            return
        try:
            answer = read()
        except MalformedAnswer as error:
            self._answer.set_exception(error)
        else:
            if answer is not None:
                self._answer.set_result(answer)


async def connect(address: Address) -> Connection:
    """Open a connection."""
    secure = secure_context() if address.is_secure else None
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, address.host, address.port, ssl=secure)
    return connection
