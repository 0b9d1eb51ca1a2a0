"""The clients and a service in a process of its own: what is answered stays true, whatever ends in between."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("uvicorn", reason="needs the extra serve")

from equipoise.portfolio import Decision
from equipoise.serve import AsyncClient, Client, ServiceError
from tests.serve.browser import Running
from tests.serve.client.servers import BOTH, dropping_answers, free_port
from tests.serve.served import ARMS, LINEAR, OFFERS
from tools.studies.client_cost import measure

pytestmark = [pytest.mark.service, pytest.mark.slow]
GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "clients.md"
PATIENT: dict[str, Any] = {"retries": 30, "backoff_seconds": 0.05, "total_seconds": 120.0}
WORKERS, ROUNDS, KILLS = 32, 12, 2
N = WORKERS * ROUNDS


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Running]:
    files, data = tmp_path / "files", tmp_path / "data"
    files.mkdir()
    for name, text in (("arms", ARMS), ("linear", LINEAR), ("offers", OFFERS)):
        (files / f"{name}.toml").write_text(text)
    running = Running(files, data, free_port())
    running.start()
    try:
        yield running
    finally:
        running.stop()


def reward_of(decision: Decision) -> float:
    return 0.25 * int(decision.action)


def check(url: str, decisions: list[Decision], *, open_: int = 0) -> None:
    """Every decision is known as it was answered, was made once, and was rewarded once."""
    with Client(url, "arms") as client:
        status = client.status()
        assert len({decision.id for decision in decisions}) == len(decisions)
        assert status["health"]["rounds"] == len(decisions) - open_, "lost or doubled"
        assert status["health"]["open"] == open_
        plays = Counter(decision.learner_name for decision in decisions)
        assert {row["name"]: row["plays"] for row in status["standing"] if row["plays"]} == plays
        for decision in decisions:
            assert client.decide(id=decision.id) == decision, "changed"
        rewarded = decisions if not open_ else []
        assert all(outcome.error is None for outcome in client.rewards((each.id, reward_of(each)) for each in rewarded))
        assert client.status()["health"]["rounds"] == status["health"]["rounds"]


def kill_and_restart(service: Running, answered: list[Decision]) -> None:
    """Kill the service in the middle of its load, as often as `KILLS`, evenly over the rounds."""
    for k in range(1, KILLS + 1):
        while len(answered) < k * N // (KILLS + 1):
            time.sleep(0.001)
        service.kill()
        service.start()


def test_32_threads_and_a_service_that_is_killed(service: Running) -> None:
    answered: list[Decision] = []

    def play(worker: int) -> None:
        for k in range(ROUNDS):
            decision = client.decide(id=f"{worker}-{k}") if k % 2 else client.decide()
            client.reward(decision.id, reward_of(decision))
            answered.append(decision)

    with Client(service.url, "arms", **PATIENT) as client, ThreadPoolExecutor(WORKERS) as pool:
        futures = [pool.submit(play, worker) for worker in range(WORKERS)]
        kill_and_restart(service, answered)
        for future in futures:
            future.result()
    check(service.url, answered)


def test_32_tasks_and_a_service_that_is_killed(service: Running) -> None:
    answered: list[Decision] = []

    async def play(client: AsyncClient, worker: int) -> None:
        for k in range(ROUNDS):
            decision = await (client.decide(id=f"{worker}-{k}") if k % 2 else client.decide())
            await client.reward(decision.id, reward_of(decision))
            answered.append(decision)

    async def main() -> None:
        async with AsyncClient(service.url, "arms", **PATIENT) as client:
            kills = asyncio.to_thread(kill_and_restart, service, answered)
            await asyncio.gather(kills, *(play(client, worker) for worker in range(WORKERS)))

    asyncio.run(main())
    check(service.url, answered)


def naive(url: str, path: str, body: dict[str, Any]) -> Any:
    """A client without ids that repeats what got no answer."""
    parts = urlsplit(url)
    while True:
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=10)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", f"/v1/portfolios/arms{path}", json.dumps(body), headers)
            return json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()


def test_a_client_without_ids_doubles_decisions_whose_answers_are_lost(service: Running) -> None:
    """The negative control of the next test: the same proxy, the same number of decisions."""
    with dropping_answers(service.url, lambda n: n % 3 == 0) as (url, statuses):
        ids = {naive(url, "/decide", {})["id"] for _ in range(40)}
    with Client(service.url, "arms") as client:
        assert len(ids) == 40
        assert client.status()["health"]["open"] == len(statuses) == 59, "19 decisions that nobody knows of"


@pytest.mark.parametrize("kind", BOTH)
def test_a_lost_answer_changes_nothing(service: Running, kind: Any) -> None:
    with (
        dropping_answers(service.url, lambda n: n % 3 == 0) as (url, statuses),
        kind(url, "arms", **PATIENT) as client,
    ):
        decisions = [client.decide() for _ in range(20)]
        outcomes = client.decide_many([{} for _ in range(20)])
        decisions += [outcome.decision for outcome in outcomes]
        for decision in decisions[:20]:
            client.reward(decision.id, reward_of(decision))
        outcomes = client.rewards([(each.id, reward_of(each)) for each in decisions[20:]])
        assert all(outcome.error is None for outcome in outcomes)
    assert len(statuses) > 42 and set(statuses) == {200}
    check(service.url, decisions)


@pytest.mark.parametrize("kind", BOTH)
def test_a_unit_keeps_its_decision_although_answers_are_lost(service: Running, kind: Any) -> None:
    with (
        dropping_answers(service.url, lambda n: n % 3 == 0) as (url, _),
        kind(url, "offers", **PATIENT) as client,
    ):
        first = [client.decide(unit=f"user-{k}") for k in range(8)]
        assert [client.decide(unit=f"user-{k}") for k in range(8)] == first
        service.kill()
        service.start()
        again = client.decide_many([{"unit": f"user-{k}"} for k in range(8)])
        assert [outcome.decision for outcome in again] == first
        assert [outcome.id for outcome in again] == [decision.id for decision in first]
        assert client.status()["health"]["open"] == 8


@pytest.mark.parametrize("kind", BOTH)
def test_withdrawals_and_refusals(service: Running, kind: Any) -> None:
    with kind(service.url, "arms") as client:
        decision = client.decide(available=["UCB"])
        assert decision.learner_name == "UCB"
        client.withdraw(decision.id)
        client.withdraw(decision.id)
        with pytest.raises(ServiceError, match="was withdrawn") as caught:
            client.reward(decision.id, 1.0)
        assert (caught.value.status, caught.value.kind) == (409, "duplicate-reward")
        assert len(caught.value.request_id) > 8
        missing, wrong = client.rewards([("missing", 1.0), ("", 1.0)])
        assert (missing.error.status, missing.error.kind) == (404, "unknown-decision")
        assert (wrong.error.status, wrong.error.kind) == (422, "invalid-argument")
        with kind(service.url, "nothing") as other, pytest.raises(ServiceError, match="unknown-portfolio, status 404"):
            other.decide()
    with kind(service.url, "linear") as client:
        offers = [{"id": "a", "features": [0.1, 0.2]}, {"id": "b", "features": {"price": 0.5}}]
        assert client.decide(offers=offers).action_id in ("a", "b")
        with pytest.raises(ServiceError, match="unknown-name, status 422"):
            client.decide(offers=[{"id": "a", "features": {"weight": 1.0}}])


def test_a_client_costs_about_as_much_as_a_plain_loop(service: Running) -> None:
    """CPU time next to `http.client` in the same run; measured: 0.67 times for `Client`, about 1 for `AsyncClient`."""
    found = {name: median(seconds) for name, seconds in measure(service.url, rounds=30, blocks=5).items()}
    assert found["Client"] < 1.2 * found["http.client"] and found["AsyncClient"] < 1.8 * found["http.client"], found


def test_the_examples_of_the_guide_run(service: Running, tmp_path: Path) -> None:
    """All examples in Python, in order, as one program."""
    examples = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    program = "\n".join(examples).replace("http://127.0.0.1:8000", service.url)
    assert len(examples) > 2 and program.count(service.url) == program.count("http://")
    names: dict[str, Any] = {}
    file = tmp_path / "guide.py"
    file.write_text(program)  # so that an error shows its line
    exec(compile(program, str(file), "exec"), names)
    names["client"].close()
    assert {"decision", "outcomes", "shown"} <= set(names)
