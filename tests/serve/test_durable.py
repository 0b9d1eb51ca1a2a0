"""What survives: restarts, retries, full queues, failing disks; and files that change while it runs."""

import asyncio
import json
import logging
import os
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from equipoise.errors import InvalidArgument, JournalBusy, JournalFailed, StoreConflict, UnreadableFile
from equipoise.journal import SQLiteJournal
from equipoise.journal.writer import Writer
from equipoise.portfolio import tickets
from equipoise.selectors.realized_balancing import HEAD_START
from equipoise.serve import engine as engine_module
from equipoise.serve import hosted as hosted_module
from equipoise.serve.engine import JournalEngine
from equipoise.serve.reloading import apply_file
from equipoise.serve.service import Service, Settings, open_in
from equipoise.serve.tokens import Tokens
from tests.serve.served import ARMS, COLORS, client, configs, samples, service_of

ARMS_PATH, COLORS_PATH = "/v1/portfolios/arms", "/v1/portfolios/colors"


def test_answers_are_the_same_after_a_restart(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        first = [service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"}).json() for k in range(5)]
        for k in range(3):
            service.post(f"{ARMS_PATH}/rewards", json={"id": f"d{k}", "reward": 0.25 * k})
        service.post(f"{ARMS_PATH}/withdraw", json={"id": "d3"})
        status = service.get(ARMS_PATH).json()
    with client(ARMS, data=tmp_path) as service:
        assert [service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"}).json() for k in range(5)] == first
        for k in range(3):
            assert service.post(f"{ARMS_PATH}/rewards", json={"id": f"d{k}", "reward": 0.25 * k}).status_code == 200
            assert service.post(f"{ARMS_PATH}/rewards", json={"id": f"d{k}", "reward": 1.0}).status_code == 409
        assert service.post(f"{ARMS_PATH}/withdraw", json={"id": "d3"}).status_code == 200
        after = service.get(ARMS_PATH).json()
        assert (after["certificate"], after["standing"]) == (status["certificate"], status["standing"])
        assert service.post(f"{ARMS_PATH}/rewards", json={"id": "d4", "reward": 1.0}).status_code == 200


def test_ids_outlive_what_the_portfolio_remembers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tickets, "MAX_CLOSED_IDS", 2)
    monkeypatch.setattr(hosted_module, "MAX_SETTLED", 2)
    with client(ARMS, data=tmp_path) as service:
        first = [service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"}).json() for k in range(6)]
        for k in range(6):
            service.post(f"{ARMS_PATH}/rewards", json={"id": f"d{k}", "reward": 0.5})
        assert [service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"}).json() for k in range(6)] == first
        other = service.post(f"{ARMS_PATH}/decide", json={"id": "d0", "context": [[0.0]]})
        assert other.status_code == 409 and other.json()["type"].endswith("duplicate-decision")
        again = [service.post(f"{ARMS_PATH}/rewards", json={"id": f"d{k}", "reward": 0.5}) for k in range(6)]
        assert [answer.status_code for answer in again] == [200] * 6
        assert service.post(f"{ARMS_PATH}/rewards", json={"id": "d0", "reward": 0.6}).status_code == 409
        assert service.get(ARMS_PATH).json()["health"]["rounds"] == 6


def test_a_reward_that_counted_is_never_called_late(tmp_path: Path) -> None:
    """After a restart, its repetition was, if a later decision had expired, and an event was kept of each."""
    text, rewards = ARMS + "[reward]\ndeadline = 3\ndefault = 0.0\n", f"{ARMS_PATH}/rewards"
    with client(text, data=tmp_path) as service:
        for k in range(9):
            service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"})
            if k < 2:
                assert service.post(rewards, json={"id": f"d{k}", "reward": 0.5}).status_code == 200
        assert service.post(f"{ARMS_PATH}/withdraw", json={"id": "d8"}).status_code == 200
        for k in range(9, 18):
            service.post(f"{ARMS_PATH}/decide", json={"id": f"d{k}"})
    for _ in range(2):
        with client(text, data=tmp_path) as service:
            for k in range(2):
                assert service.post(rewards, json={"id": f"d{k}", "reward": 0.5}).status_code == 200
                other = service.post(rewards, json={"id": f"d{k}", "reward": 0.75})
                assert other.status_code == 409 and other.json()["type"].endswith("duplicate-reward")
            for id_, kind in (("d2", "late-reward"), ("d8", "duplicate-reward")):
                answer = service.post(rewards, json={"id": id_, "reward": 0.5})
                assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (409, kind)
            lines = b"".join(b'{"id": "d%d", "reward": 0.5}\n' % k for k in (0, 1, 2))
            batch = service.post(rewards, content=lines, headers={"Content-Type": "application/x-ndjson"})
            assert [json.loads(line)["status"] for line in batch.text.splitlines()] == [200, 200, 409]
    ignored = [event.data["id"] for event in SQLiteJournal(tmp_path / "arms.db").read() if event.kind == "ignored"]
    assert set(ignored) == {"d2"}


def test_a_corrupt_journal_is_refused(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        service.post(f"{ARMS_PATH}/decide", json={})
    with sqlite3.connect(tmp_path / "arms.db") as connection:
        connection.execute("UPDATE events SET data = x'00' WHERE seq = 2")
        connection.execute("DELETE FROM snapshots")
    connection.close()
    with pytest.raises(UnreadableFile), client(ARMS, data=tmp_path):
        pass


def test_names_are_checked_before_they_are_files(tmp_path: Path) -> None:
    for name in ("../x", "A", "x" * 65, "a b"):
        with (
            pytest.raises(InvalidArgument, match="must be 1 to 64 of a-z"),
            client(ARMS.replace('"arms"', f'"{name}"'), data=tmp_path / "data"),
        ):
            pass
    with (
        pytest.raises(InvalidArgument, match="must differ from those of the other portfolios"),
        client(ARMS, ARMS, data=tmp_path),
    ):
        pass


def engine_in(folder: Path) -> JournalEngine:
    opened = open_in(folder)(configs(ARMS)[0])
    assert isinstance(opened, JournalEngine)
    return opened


def test_requests_share_transactions_and_nothing_is_answered_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_in(tmp_path)
    written: list[int] = []
    answered: list[Any] = []
    write = Writer._write

    def slow(self: Writer, rows: Any, work: Any) -> None:
        assert not answered or len(answered) == sum(written), "an answer came before its commit"
        write(self, rows, work)
        written.append(len(rows))

    monkeypatch.setattr(Writer, "_write", slow)

    async def decide() -> None:
        answered.append(await engine.run(lambda hosted: hosted.decide(None, None)))

    async def many() -> None:
        await asyncio.gather(*(decide() for _ in range(100)))

    asyncio.run(many())
    assert len(answered) == 100 and len({decision.id for decision in answered}) == 100
    assert sum(written) == 100 and len(written) <= 3
    engine.close()


@pytest.mark.parametrize(("turns", "most", "least"), [(None, 14, 10), (0, 21, 19)])
def test_clients_that_go_on_at_once_share_a_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: int | None, most: int, least: int
) -> None:
    """Two groups of clients of which one came while the other's transaction was written; else they take turns."""
    if turns is not None:
        monkeypatch.setattr(engine_module, "TURNS", turns)

    async def ten_decisions(engine: JournalEngine) -> None:
        for _ in range(10):
            await engine.run(lambda hosted: hosted.decide(None, None))

    async def main(engine: JournalEngine) -> None:
        first = [asyncio.create_task(ten_decisions(engine)) for _ in range(4)]
        while not transactions:
            await asyncio.sleep(0)
        await asyncio.gather(*first, *(ten_decisions(engine) for _ in range(4)))

    engine, transactions = engine_in(tmp_path), []
    append = engine._live.journal.append

    def counted(events: Any, commit: Any) -> None:
        transactions.append(len(events))
        append(events, commit)

    monkeypatch.setattr(engine._live.journal, "append", counted)
    asyncio.run(main(engine))
    engine.close()
    assert sum(transactions) == 80 and least <= len(transactions) <= most


def slow_disk(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """A disk that writes nothing until the event is set."""
    written, write = threading.Event(), Writer._write

    def wait(self: Writer, rows: Any, work: Any) -> None:
        written.wait(60)
        write(self, rows, work)

    monkeypatch.setattr(Writer, "_write", wait)
    return written


def test_requests_are_refused_while_others_have_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, now = engine_in(tmp_path), [0.0]
    monkeypatch.setattr(engine_module, "monotonic", lambda: now[0])
    written = slow_disk(monkeypatch)

    async def decide() -> Any:
        return await engine.run(lambda hosted: hosted.decide(None, None))

    async def main() -> list[Any]:
        written_now = asyncio.create_task(decide())
        while not engine.depth:
            await asyncio.sleep(0)
        while engine.depth:
            await asyncio.sleep(0)
        waiting = [asyncio.create_task(decide()) for _ in range(3)]
        while engine.depth < 3:
            await asyncio.sleep(0)
        now[0] = engine_module.MAX_WAIT_SECONDS + 0.1
        refused = await asyncio.gather(*(decide() for _ in range(7)), return_exceptions=True)
        written.set()
        await asyncio.gather(written_now, *waiting)
        return refused

    refused = asyncio.run(main())
    assert all(isinstance(each, JournalBusy) for each in refused)
    assert "has waited for the journal for more than 5 seconds" in str(refused[0])
    assert asyncio.run(engine.run(lambda hosted: hosted.portfolio.health()["rounds"])) == 4
    engine.close()


def test_overload_and_a_failed_journal_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(ARMS, data=tmp_path) as service:
        engine = service_of(service).portfolios["arms"].engine

        async def refuse(*arguments: Any) -> None:
            raise JournalBusy("requests wait")

        monkeypatch.setattr(engine, "run", refuse)
        busy = service.post(f"{ARMS_PATH}/decide", json={})
        assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
        assert busy.json()["type"].endswith("overloaded")
        monkeypatch.undo()

        def fail(self: Writer, rows: Any, work: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(Writer, "_write", fail)
        failed = service.post(f"{ARMS_PATH}/decide", json={"id": "lost"})
        monkeypatch.undo()
        assert failed.status_code == 503 and failed.json()["type"].endswith("read-only")
        assert service.post(f"{ARMS_PATH}/decide", json={}).status_code == 503, "until it is opened again"
        assert (service.get("/readyz").status_code, service.get("/healthz").status_code) == (503, 200)
        assert 'equipoise_queue_depth{portfolio="arms"}' in service.get("/metrics").text
    with client(ARMS, data=tmp_path) as service:
        assert service.get(ARMS_PATH).json()["health"]["rounds"] == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of six megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount a file system")
def test_a_full_disk(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The request that meets it gets 503, later ones too; with room again, a start finds all that was acknowledged."""
    acknowledged: list[str] = []
    with client(ARMS, data=small_disk) as service:
        for k in range(10_000):
            answer = service.post(f"{ARMS_PATH}/decide", json={"id": f"{k:0200d}"})
            if answer.status_code != 200:
                break
            acknowledged.append(answer.json()["id"])
        assert answer.status_code == 503 and answer.json()["type"].endswith("read-only")
        for path, body in (("decide", {}), ("rewards", {"id": acknowledged[0], "reward": 1.0})):
            assert service.post(f"{ARMS_PATH}/{path}", json=body).status_code == 503
        assert (service.get("/readyz").status_code, service.get("/healthz").status_code) == (503, 200)
        logged = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert len(logged) == 1 and "arms: the journal could not be written" in logged[0]
        series = samples(service)
        assert series["equipoise_journal_failed", "arms"] == 1
        assert series["equipoise_events_total", "arms"] >= len(acknowledged)
        assert service.post(f"{ARMS_PATH}/reopen").status_code in (200, 503)  # an epoch may fit where an event did not
        service.post(f"{ARMS_PATH}/decide", json={"id": f"{k:0200d}"})
        subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
        assert service.post(f"{ARMS_PATH}/reopen").json() == service.get("/readyz").json() == {"status": "ok"}
        again = service.post(f"{ARMS_PATH}/decide", json={"id": acknowledged[-1]})
        assert (again.status_code, again.json()["id"]) == (200, acknowledged[-1])
        assert service.post(f"{ARMS_PATH}/rewards", json={"id": acknowledged[0], "reward": 1.0}).status_code == 200
        assert service.post(f"{ARMS_PATH}/decide", json={"id": f"{k:0200d}"}).status_code == 200  # the one that failed
        acknowledged.append(f"{k:0200d}")
    assert len(acknowledged) > 100
    with client(ARMS, data=small_disk) as service:
        assert service.get("/readyz").status_code == 200
        rounds = service.get(ARMS_PATH).json()["health"]["rounds"]
        assert rounds == len(acknowledged)
        lines = "\n".join(json.dumps({"id": id_, "reward": 1.0}) for id_ in acknowledged[-1_000:])
        answer = service.post(f"{ARMS_PATH}/rewards", content=lines, headers={"Content-Type": "application/x-ndjson"})
        assert {json.loads(line)["status"] for line in answer.text.splitlines()} == {200}


def test_a_closed_engine_refuses(tmp_path: Path) -> None:
    engine = engine_in(tmp_path)
    engine.close()
    assert engine.failure is not None
    with pytest.raises(JournalFailed):
        asyncio.run(engine.run(lambda hosted: hosted.decide(None, None)))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("deadline = 3", "deadline = 5", None),
        ('names = ["red", "blue"]', 'names = ["red", "blue", "green"]', None),
        ("version = 1", "version = 1\nexplore = 0.5", None),
        ("arms = 2", 'arms = 2\n[[learner]]\nuse = "UCB"\narms = 2\nscale = 2.0', None),
        ("version = 1", "version = 1\nseed = 4", "seed is 4, but must stay 0"),
        ("range = [0, 1]", "range = [0, 2]", "reward_range is .*, but must stay"),
        (
            "age = {",
            "years = {",
            "schema is Schema.*, but must keep 'age' of its context as Number",
        ),
        ("[actions.features]", "[actions.features]\nrating = { type = 'flag' }", None),
        (COLORS[COLORS.index("[actions.features]") : COLORS.index("[[learner]]")], "", "schema is .*keep 'price' of"),
        ('names = ["red", "blue"]', 'names = ["red"]', "action_names is .'red',., but must begin with .'red', 'blue'."),
        ('names = ["red", "blue"]', 'names = ["blue", "red"]', "action_names is .'blue', 'red'., but must begin with"),
        ('names = ["red", "blue"]', 'names = ["green", "red", "blue"]', "action_names is .*, but must begin with"),
        ('names = ["red", "blue"]\n', "", "action_names is None, but must begin with"),
        ("action_bound = 10.0", "action_bound = 20.0", "learner 'linear' has other settings"),
        ("[reward]", '[selector]\nuse = "Uniform"\n[reward]', "selector has other settings, or is another one"),
    ],
)
def test_changed_files(old: str, new: str, message: str | None, tmp_path: Path) -> None:
    async def change() -> None:
        service = Service(Tokens(), Settings(), open_in(tmp_path))
        (config,), (changed,) = configs(COLORS), configs(COLORS.replace(old, new))
        try:
            assert await apply_file(service, config) is True
            assert await apply_file(service, config) is False
            served = service.portfolios["colors"]
            if message is None:
                assert await apply_file(service, changed) is True
                assert served.config == changed
                decision = await served.engine.run(lambda hosted: hosted.decide(served.reader.read([0, 1], None), None))
                assert decision.action_id in (changed.settings.action_names or ())
                names = await served.engine.run(lambda hosted: hosted.portfolio.learner_names)
                assert len(names) == len(changed.learner_tables)
            else:
                with pytest.raises(InvalidArgument, match=message):
                    await apply_file(service, changed)
                assert served.config == config
        finally:
            service.close()

    asyncio.run(change())
    if message is not None and " is " in message:  # a setting: the next start refuses it in the same words
        with pytest.raises(StoreConflict, match=message), client(COLORS.replace(old, new), data=tmp_path):
            pass
        with client(COLORS, data=tmp_path) as made:  # and the old state is kept
            assert made.post(f"{COLORS_PATH}/decide", json={"context": [0, 1]}).json()["action_id"] in ("red", "blue")
    if message is None:  # the next start finds the file and the journal in agreement
        changed_text = COLORS.replace(old, new)
        with client(changed_text, data=tmp_path) as made:
            assert len(made.get(COLORS_PATH).json()["standing"]) == len(configs(changed_text)[0].learner_tables)
        rules = changed_text.replace("[reward]", '[selector]\nuse = "RealizedBalancing"\ndelta = 0.2\n[reward]', 1)
        for wrong in (COLORS.replace("arms = 2", "arms = 4"), rules):
            with pytest.raises(StoreConflict), client(wrong, data=tmp_path):
                pass


RULES = """
version = 1
name = "rules"
on_drift = "restart"
[selector]
use = "RealizedBalancing"
contexts = "fixed"
[[learner]]
use = "Constant"
action = 0
[[learner]]
use = "Constant"
action = 1
"""


def test_a_selector_that_restarted_is_still_that_of_its_file(tmp_path: Path) -> None:
    """After a restart it has another delta and no head start; the first file has fewer learners, so it is no help."""
    more = RULES + '[[learner]]\nuse = "Constant"\naction = 2\n'

    def play(hosted: hosted_module.Hosted) -> float:
        selector: Any = hosted.portfolio.selector
        assert selector.head_start == HEAD_START  # what begins has not learned anything yet
        for t in range(1_000):
            decision = hosted.portfolio.decide(None)
            hosted.portfolio.learn(decision, float((decision.action == 0) == (t < 500)))
        return float(selector.head_start)

    async def serve() -> None:
        service = Service(Tokens(), Settings(), open_in(tmp_path))
        (config,), (changed,) = configs(RULES), configs(more)
        try:
            await apply_file(service, config)
            await apply_file(service, changed)
            assert await service.portfolios["rules"].engine.run(play) == 0.0
        finally:
            service.close()

    asyncio.run(serve())
    with client(more, data=tmp_path) as made:
        assert len(made.get("/v1/portfolios/rules").json()["standing"]) == 3
    for setting in ("delta = 0.2", "floor = 0.5"):
        with pytest.raises(StoreConflict), client(more.replace('"fixed"', f'"fixed"\n{setting}'), data=tmp_path):
            pass
