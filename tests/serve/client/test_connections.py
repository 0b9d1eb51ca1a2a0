"""The connections of both clients: kept, shared, ended by the other side, forked, secure."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from equipoise.serve import AsyncClient, Client, ServiceError
from equipoise.serve.client.wire import AnswerReader
from tests.serve.client.servers import BOTH, answer, decided, free_port, scripted

both = pytest.mark.parametrize("kind", BOTH)
FAST: dict[str, Any] = {"backoff_seconds": 0.001}
AT_ONCE: dict[str, Any] = {
    "backoff_seconds": 100.0,
    "total_seconds": 4.9,
}  # a pause would take longer than all the time


@both
def test_a_connection_serves_many_requests(kind: Any) -> None:
    with scripted(lambda n, body: decided(body)) as (url, seen):
        with kind(url, "arms") as client:
            for _ in range(20):
                client.decide()
        assert (len(seen.requests), seen.connections) == (20, 1)


@both
def test_a_connection_that_the_service_closed_is_not_used_again(kind: Any) -> None:
    """The service ends each connection after its answer without saying so, as one that restarts does."""
    with scripted(lambda n, body: decided(body), ends=lambda n: True) as (url, seen):
        with kind(url, "arms", retries=1, **AT_ONCE) as client:
            for _ in range(10):
                client.decide()
                time.sleep(0.02)
        assert (len(seen.requests), seen.connections) == (10, 10)


@both
def test_a_connection_that_ends_under_the_request_is_replaced_at_once(kind: Any) -> None:
    """The service sees the request and gives no answer, on every connection that has served one before."""
    with (
        scripted(lambda n, body: decided(body) if n % 2 else None) as (url, seen),
        kind(url, "arms", **AT_ONCE) as client,
    ):
        for _ in range(6):
            client.decide()
    ids = Counter(body["id"] for body in seen.requests)
    assert len(ids) == 6 and sorted(ids.values()) == [1, 2, 2, 2, 2, 2]


@both
def test_a_connection_that_the_answer_ends_is_not_used_again(kind: Any) -> None:
    with scripted(lambda n, body: decided(body, "Connection: close"), ends=lambda n: True) as (url, seen):
        with kind(url, "arms", retries=0) as client:
            for _ in range(3):
                client.decide()
        assert seen.connections == 3


@both
def test_an_answer_that_comes_in_drops_or_not_at_all_is_given_up(kind: Any) -> None:
    release = threading.Event()

    def script(n: int, body: dict[str, Any]) -> bytes | None:
        release.wait(10)
        return None

    with scripted(script) as (url, seen), kind(url, "arms", timeout_seconds=0.1, retries=2, **FAST) as client:
        try:
            with pytest.raises(ServiceError, match="gave no answer: "):
                client.decide()
        finally:
            release.set()
    assert len(seen.requests) == 3 and len({body["id"] for body in seen.requests}) == 1


@both
def test_the_limit_of_an_attempt_covers_the_whole_answer(kind: Any) -> None:
    """A byte from time to time does not prolong an attempt."""
    listener = socket.create_server(("127.0.0.1", 0))
    ended = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            try:
                while not ended.wait(0.02):
                    connection.sendall(b"H")
            except OSError:
                pass

    thread = threading.Thread(target=drip)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with kind(url, "arms", timeout_seconds=0.2, retries=0) as client:
        start = time.monotonic()
        with pytest.raises(ServiceError):
            client.decide()
        seconds = time.monotonic() - start
    ended.set()
    thread.join()
    listener.close()
    assert 0.15 < seconds < 20.0


@both
@pytest.mark.parametrize("garbage", [b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"])
def test_a_malformed_answer_is_repeated(kind: Any, garbage: bytes) -> None:
    with (
        scripted(lambda n, body: decided(body) if n == 3 else garbage, ends=lambda n: n < 3) as (url, seen),
        kind(url, "arms", **FAST) as client,
    ):
        assert client.decide(id="x").id == "x"
    assert len(seen.requests) == 3 and seen.connections == 3


@both
def test_an_answer_that_is_cut_anywhere_is_repeated(kind: Any) -> None:
    whole = len(decided({"id": "x" * 32}))
    cuts = range(0, whole, 9)

    def script(n: int, body: dict[str, Any]) -> bytes:
        data = decided(body)
        return data[: cuts[n // 2]] if n % 2 else data

    with (
        scripted(lambda n, body: script(n - 1, body), ends=lambda n: n % 2 == 0) as (url, seen),
        kind(url, "arms", retries=1, **AT_ONCE) as client,
    ):
        client.decide()
        decisions = [client.decide() for _ in cuts[1:]]
    assert len({decision.id for decision in decisions}) == len(cuts) - 1
    assert len(seen.requests) == 2 * len(cuts) - 1


@both
def test_retry_after_is_respected(kind: Any) -> None:
    busy = answer({"type": "urn:equipoise:problem:overloaded", "detail": "no"}, 503, "Retry-After: 1")
    with (
        scripted(lambda n, body: decided(body) if n > 1 else busy) as (url, seen),
        kind(url, "arms", **FAST) as client,
    ):
        start = time.monotonic()
        client.decide()
        assert 1.0 <= time.monotonic() - start < 10.0
    assert seen.connections == 1, "a refusal does not end the connection"


def test_a_client_shared_by_32_threads() -> None:
    """Every thread gets its own answers, over at most as many connections as allowed."""
    with scripted(lambda n, body: decided(body)) as (url, seen), Client(url, "arms", connections=8, **FAST) as client:
        wrong: list[object] = []

        def play(thread: int) -> None:
            for k in range(15):
                if client.decide(id=f"{thread}-{k}").id != f"{thread}-{k}":
                    wrong.append((thread, k))

        workers = [threading.Thread(target=play, args=(thread,)) for thread in range(32)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert wrong == [] and len(seen.requests) == 32 * 15 == len({body["id"] for body in seen.requests})
    assert 1 <= seen.connections <= 8


def test_a_client_shared_by_many_tasks() -> None:
    async def main(url: str) -> list[str]:
        async with AsyncClient(url, "arms", connections=8, **FAST) as client:
            decisions = await asyncio.gather(*(client.decide(id=f"d{k}") for k in range(300)))
        return [decision.id for decision in decisions]

    with scripted(lambda n, body: decided(body)) as (url, seen):
        assert asyncio.run(main(url)) == [f"d{k}" for k in range(300)]
    assert 1 <= seen.connections <= 8


def test_a_request_that_waits_too_long_for_a_connection_says_so() -> None:
    limits: dict[str, Any] = {"connections": 1, "total_seconds": 0.1}

    async def main(url: str) -> None:
        async with AsyncClient(url, "arms", **limits) as client:
            await client._pool().slots.acquire()
            with pytest.raises(ServiceError, match="gave no answer: all 1 connections were busy"):
                await client.decide()
            client._pool().slots.release()
            await client.decide()

    with scripted(lambda n, body: decided(body)) as (url, seen), Client(url, "arms", **limits) as client:
        client._pool().slots.acquire()
        with pytest.raises(ServiceError, match="gave no answer: all 1 connections were busy"):
            client.decide()
        client._pool().slots.release()
        client.decide()
        asyncio.run(main(url))
    assert len(seen.requests) == 2


def test_a_canceled_task_leaves_no_answer_to_the_next_request() -> None:
    release = threading.Event()

    def script(n: int, body: dict[str, Any]) -> bytes:
        if body["id"].startswith("slow"):
            release.wait(10)
        return decided(body)

    async def main(url: str) -> list[str]:
        async with AsyncClient(url, "arms", connections=4) as client:
            await client.decide(id="first")
            slow = [asyncio.create_task(client.decide(id=f"slow-{k}")) for k in range(8)]  # half of them wait
            while len(seen.requests) < 5:
                await asyncio.sleep(0.01)
            for task in slow:
                task.cancel()
            ended = await asyncio.gather(*slow, return_exceptions=True)
            assert all(isinstance(each, asyncio.CancelledError) for each in ended)
            release.set()
            return [(await client.decide(id=f"next-{k}")).id for k in range(20)]

    with scripted(script) as (url, seen):
        assert asyncio.run(main(url)) == [f"next-{k}" for k in range(20)]
    assert sum(body["id"].startswith("slow") for body in seen.requests) == 4


def test_a_time_limit_of_the_caller_ends_a_request() -> None:
    release = threading.Event()

    def script(n: int, body: dict[str, Any]) -> bytes:
        if n == 1:
            release.wait(10)
        return decided(body)

    async def main(url: str) -> str:
        async with AsyncClient(url, "arms") as client:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await client.decide(id="late")
            release.set()
            return (await client.decide(id="next")).id

    with scripted(script) as (url, _):
        assert asyncio.run(main(url)) == "next"


def test_an_interrupt_leaves_no_answer_to_the_next_request(monkeypatch: pytest.MonkeyPatch) -> None:
    feed = AnswerReader.feed

    def interrupt(self: Any, data: bytes) -> Any:
        monkeypatch.setattr(AnswerReader, "feed", feed)
        raise KeyboardInterrupt

    with scripted(lambda n, body: decided(body)) as (url, seen), Client(url, "arms", connections=1) as client:
        client.decide(id="a")
        monkeypatch.setattr(AnswerReader, "feed", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.decide(id="b")
        assert client.decide(id="c").id == "c"
    assert seen.connections == 2


def test_an_async_client_serves_several_event_loops() -> None:
    with scripted(lambda n, body: decided(body)) as (url, seen):
        client = AsyncClient(url, "arms", **FAST)

        async def main() -> str:
            async with client:
                return (await client.decide()).id

        assert asyncio.run(main()) != asyncio.run(main())
        workers = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        asyncio.run(main())
        assert len(client._pools) == 1, "loops that ended are not kept"
    assert len(seen.requests) == 7


def test_an_async_client_runs_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop", reason="needs uvloop")

    async def main(url: str) -> int:
        async with AsyncClient(url, "arms", connections=4, **FAST) as client:
            decisions = await asyncio.gather(*(client.decide() for _ in range(50)))
        return len({decision.id for decision in decisions})

    with (
        scripted(lambda n, body: decided(body) if n % 5 else None) as (url, seen),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        assert runner.run(main(url)) == 50
    assert len(seen.requests) > 60


def test_a_closed_client_opens_a_new_connection() -> None:
    with scripted(lambda n, body: decided(body)) as (url, seen), Client(url, "arms") as client:
        client.decide()
        client.close()
        client.close()
        client.decide()
    assert seen.connections == 2


def test_nothing_stays_open(recwarn: pytest.WarningsRecorder) -> None:
    def open_files() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    with scripted(lambda n, body: decided(body) if n % 3 else None) as (url, _):
        before = open_files()
        for kind in BOTH:
            with kind(url, "arms", **FAST) as client:
                for _ in range(10):
                    client.decide()
        for _ in range(100):  # the server notices the end of a connection a moment later
            if (after := open_files()) <= before:
                break
            time.sleep(0.05)
    assert after <= before and [str(each.message) for each in recwarn] == []


def in_child(client: Client, n: int, results: Any) -> None:
    results.put([client.decide(id=f"child-{n}-{k}").id for k in range(10)])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_client_works_after_a_fork() -> None:
    """Parent and children share the client, not its connections, even while the parent has a request under way."""
    process = multiprocessing.get_context("fork")
    with scripted(lambda n, body: decided(body)) as (url, seen), Client(url, "arms", connections=1, **FAST) as client:
        client.decide()
        results = process.Queue()
        slots = client._pool().slots  # all in use in the parent, whose threads the children do not have
        slots.acquire()
        children = [process.Process(target=in_child, args=(client, n, results)) for n in range(3)]
        for child in children:
            child.start()
        slots.release()
        for k in range(20):
            assert client.decide(id=f"parent-{k}").id == f"parent-{k}"
        found = sorted(results.get(timeout=30) for _ in children)
        for child in children:
            child.join(30)
            assert child.exitcode == 0
    assert found == [[f"child-{n}-{k}" for k in range(10)] for n in range(3)]
    assert seen.connections == 4, "the parent keeps its connection, and each child has one"


@both
def test_the_service_may_be_away_for_a_while(kind: Any) -> None:
    port = free_port()
    with kind(f"http://127.0.0.1:{port}", "arms", retries=1, **FAST) as client:
        with pytest.raises(ServiceError, match="gave no answer"):
            client.decide()
        with pytest.raises(ServiceError, match="gave no answer"), kind("http://no.invalid", "x", retries=0) as other:
            other.decide()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost, and its key, in one file."""
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    try:
        run = subprocess.run(
            [*command, "-keyout", str(file), "-out", str(file) + ".crt"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("needs openssl")
    assert run.returncode == 0, run.stderr
    file.write_text(file.read_text() + Path(str(file) + ".crt").read_text())
    return file


SECURE = """
import sys
from tests.serve.client.servers import WaitingClient
from equipoise.serve import Client, ServiceError
for kind in (Client, WaitingClient):
    for host in ("localhost", "127.0.0.1"):
        with kind(f"https://{host}:{sys.argv[1]}", "arms", retries=0) as client:
            try:
                print(client.decide(id="a").id, client.decide(id="b").id)
            except ServiceError as error:
                print(error.kind, "certificate verify failed" in error.detail)
"""


@pytest.mark.slow
def test_certificates_are_checked(certificate: Path) -> None:
    with scripted(lambda n, body: decided(body)) as (url, seen):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        listener = socket.create_server(("127.0.0.1", 0))
        stopped = threading.Event()

        def relay() -> None:
            """Take the encryption off."""
            listener.settimeout(0.05)
            while not stopped.is_set():
                try:
                    plain, _ = listener.accept()
                except TimeoutError:
                    continue
                threading.Thread(target=serve, args=(plain,), daemon=True).start()

        def serve(plain: socket.socket) -> None:
            plain.settimeout(10)
            try:
                secure = context.wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                return
            with secure, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as inner:
                try:
                    while data := secure.recv(65_536):
                        inner.sendall(data)
                        secure.sendall(inner.recv(65_536))
                except OSError:
                    pass

        thread = threading.Thread(target=relay)
        thread.start()
        try:
            port = str(listener.getsockname()[1])
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
            found = {}
            for trusted in (True, False):
                files = {"SSL_CERT_FILE": str(certificate) + ".crt"} if trusted else {}
                command = [sys.executable, "-W", "error", "-c", SECURE, port]
                run = subprocess.run(
                    command, capture_output=True, text=True, env={**environment, **files}, timeout=60, check=False
                )
                assert run.returncode == 0, run.stderr
                found[trusted] = run.stdout.splitlines()
        finally:
            stopped.set()
            thread.join()
            listener.close()
    assert found[True] == ["a b", "unreachable True"] * 2, "the certificate is for localhost only"
    assert found[False] == ["unreachable True"] * 4
    assert len(seen.requests) == 4
