"""Edit a file, then restart or reload: the same outcome; a fault of one portfolio is not a fault of the others."""

import asyncio
import logging
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise.errors import InvalidArgument, JournalFailed, UnreadableFile
from equipoise.journal import SQLiteJournal
from equipoise.journal.writer import Writer
from equipoise.serve.app import application
from equipoise.serve.reloading import apply_files, here, name_in
from equipoise.serve.server import check_any, reload_files
from equipoise.serve.service import Service, Settings, open_in
from equipoise.serve.tokens import Tokens
from equipoise.storage.parts import fingerprint
from tests.serve.served import ARMS, COLORS, client, service_of

SHOP = """
version = 1
name = "shop"
explore = 0.1
[reward]
range = [0, 1]
deadline = 30
default = 0.0
[actions]
names = ["red", "blue"]
[retention]
contexts = "30d"
[[learner]]
use = "UCB"
arms = 2
name = "one"
[[learner]]
use = "UCB"
arms = 2
name = "two"
scale = 2.0
"""
THREE = '[[learner]]\nuse = "EpsilonGreedy"\narms = 2\nepsilon = 0.1\nname = "three"\n'
TWO = '[[learner]]\nuse = "UCB"\narms = 2\nname = "two"\nscale = 2.0\n'
SELECTOR = '[selector]\nuse = "RealizedBalancing"\n'
CORRAL = '[selector]\nuse = "Corral"\nrounds = 1000\n'
PLAIN = SHOP.replace('[actions]\nnames = ["red", "blue"]\n', "")

# The file before, the file after, and a part of the reason if it is refused.
EDITS: dict[str, tuple[str, str, str]] = {
    "nothing": (SHOP, SHOP, ""),
    "deadline": (SHOP, SHOP.replace("deadline = 30", "deadline = 5"), ""),
    "deadline in time": (SHOP, SHOP.replace("deadline = 30", 'deadline = "1h"'), ""),
    "default reward": (SHOP, SHOP.replace("default = 0.0", "default = 0.5"), ""),
    "explore": (SHOP, SHOP.replace("explore = 0.1", "explore = 0.2"), ""),
    "explore left out": (SHOP, SHOP.replace("explore = 0.1\n", ""), ""),
    "fallback": (SHOP, SHOP.replace("explore = 0.1", "explore = 0.1\nfallback = 1"), ""),
    "one learner more": (SHOP, SHOP + THREE, ""),
    "one learner fewer": (SHOP, SHOP.replace(TWO, ""), ""),
    "one learner for another": (SHOP, SHOP.replace(TWO, THREE), ""),
    "learners in another order": (SHOP + THREE, SHOP.replace(TWO, THREE + TWO), ""),
    "action names appended": (SHOP, SHOP.replace('"blue"]', '"blue", "green"]'), ""),
    "retention": (SHOP, SHOP.replace('"30d"', '"60d"'), ""),
    "several at once": (SHOP, SHOP.replace("explore = 0.1", "explore = 0.2").replace("= 30\n", "= 5\n") + THREE, ""),
    "selector left out": (SHOP + SELECTOR, SHOP, ""),
    "selector stated that is recommended": (SHOP, SHOP + SELECTOR, ""),
    "action names in another order": (SHOP, SHOP.replace('"red", "blue"', '"blue", "red"'), "must begin with"),
    "action names for the first time": (PLAIN, SHOP, "action_names is ('red', 'blue'), but must stay None"),
    "action names left out": (SHOP, PLAIN, "must begin with"),
    "other selector": (SHOP + SELECTOR, SHOP + '[selector]\nuse = "Uniform"\n', "selector has other settings"),
    "other setting of the selector": (
        SHOP + SELECTOR,
        SHOP + SELECTOR + "delta = 0.2\n",
        "selector has other settings",
    ),
    "other setting of a learner": (
        SHOP,
        SHOP.replace("scale = 2.0", "scale = 3.0"),
        "learner 'two' has other settings",
    ),
    "other class of a learner": (
        SHOP,
        SHOP.replace(TWO, THREE.replace("three", "two")),
        "learner 'two' has other settings",
    ),
    "reward range": (
        SHOP,
        SHOP.replace("range = [0, 1]", "range = [0, 2]"),
        "reward_range is (0.0, 2.0), but must stay",
    ),
    "seed": (SHOP, SHOP.replace("explore = 0.1", "explore = 0.1\nseed = 4"), "seed is 4, but must stay 0"),
    "a learner that cannot join": (
        SHOP + CORRAL,
        SHOP.replace("explore = 0.1", "explore = 0.2") + THREE + CORRAL,
        "selector has other settings",  # its rate depends on their number
    ),
}


class Life:
    """A service of one file, which is edited and read again; `restarts` says how."""

    def __init__(self, folder: Path, *, restarts: bool) -> None:
        self._folder, self._restarts = folder, restarts
        self.service: Service | None = None
        (folder / "files").mkdir(parents=True)
        self.file = folder / "files" / "shop.toml"

    def edit(self, text: str) -> None:
        self.file.write_text(text)
        if self.service is None or self._restarts:
            self.restart()
        else:
            asyncio.run(apply_files(self.service, self.file.parent))

    def restart(self) -> None:
        if self.service is not None:
            self.service.close()
        self.service = Service(Tokens(), Settings(), open_in(self._folder / "data"))
        asyncio.run(apply_files(self.service, self.file.parent, here))

    @property
    def served(self) -> Any:
        assert self.service is not None
        return self.service.portfolios["shop"]

    def play(self) -> None:
        def rounds(hosted: Any) -> None:
            for k in range(20):
                context = self.served.reader.read(None, None)
                decision = hosted.portfolio.decide(context, id=f"{hosted.portfolio.health()['rounds']}")
                hosted.portfolio.learn(decision, k % 3 / 2)

        asyncio.run(self.served.engine.run(rounds))

    @property
    def refusal(self) -> str:
        """Why the last edit was refused, if so."""
        assert self.service is not None
        failed = self.service.failed.get("shop")
        return failed.cause.partition("shop.db': ")[2] if failed is not None else str(self.served.rejected)

    def facts(self) -> Any:
        portfolio = asyncio.run(self.served.engine.run(lambda hosted: hosted.portfolio))
        learners = [None if each is None else fingerprint(each) for each in portfolio.learners]
        return {
            "settings": portfolio.settings.to_plain(),
            "declared": portfolio.declared.to_plain(),
            "names": (portfolio.learner_names, portfolio.declared_learners),
            "learners": learners,
            "states": [row["state"] for row in portfolio.health()["learners"]],
            "selector": fingerprint(portfolio.selector),
            "rounds": portfolio.health()["rounds"],
        }


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_has_the_same_outcome_at_a_restart_and_on_a_reload(edit: str, tmp_path: Path) -> None:
    """Of six safe edits, four were refused at a start, where they stopped all portfolios, and one only on a reload."""
    before, after, reason = EDITS[edit]
    facts: list[Any] = []
    for way, restarts in (("reload", False), ("restart", True)):
        life = Life(tmp_path / way, restarts=restarts)
        life.edit(before)
        life.play()
        at_first = life.facts()
        life.edit(after)
        assert reason in life.refusal and (reason != "") == (life.refusal != "")
        refusal = life.refusal
        if reason:
            life.edit(before)  # back to the file that the portfolio has
            assert life.facts() == at_first and life.refusal == ""
        life.play()
        changed = life.facts()
        life.restart()  # a later restart changes nothing
        assert life.facts() == changed
        if edit != "nothing" and not reason and edit not in ("retention", "learners in another order"):
            assert (
                edit.startswith("selector")
                or changed["declared"] != at_first["declared"]
                or (changed["names"] != at_first["names"])
            )
        facts.append((refusal, changed))
        assert life.service is not None
        life.service.close()
    assert facts[0] == facts[1]


# A fault of one portfolio.


def write(folder: Path, n: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
    files = [folder / f"p{k:03d}.toml" for k in range(n)]
    for file in files:
        file.write_text(ARMS.replace('"arms"', f'"{file.stem}"'))
    return files


def start(folder: Path, data: Path) -> Service:
    service = Service(Tokens(), Settings(), open_in(data))
    asyncio.run(apply_files(service, folder, here))
    return service


def damage_events(data: Path, name: str) -> None:
    with closing(sqlite3.connect(data / f"{name}.db")) as connection, connection:
        connection.execute("UPDATE events SET data = x'00'")
        connection.execute("DELETE FROM snapshots")


def no_database(data: Path, name: str) -> None:
    (data / f"{name}.db").write_bytes(b"not a database " * 300)


N = int(os.environ.get("EQUIPOISE_PORTFOLIOS", "8"))


@pytest.mark.parametrize("fault", [damage_events, no_database])
def test_one_damaged_journal_concerns_one_portfolio(
    fault: Callable[[Path, str], None], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of 200 portfolios, one damaged journal kept the service from starting; EQUIPOISE_PORTFOLIOS=200 tries that."""
    folder, data = tmp_path / "files", tmp_path / "data"
    write(folder, N)
    start(folder, data).close()
    fault(data, "p003")
    service = start(folder, data)
    with closing(service):
        app = TestClient(application(service), base_url="http://localhost", client=("127.0.0.1", 1))
        answers = [app.post(f"/v1/portfolios/p{k:03d}/decide", json={}) for k in range(N)]
        assert [answer.status_code for answer in answers] == [503 if k == 3 else 200 for k in range(N)]
        problem = answers[3].json()
        assert problem["type"].endswith(":failed-portfolio") and answers[3].headers["retry-after"] == "5"
        assert "p003.toml: " in problem["detail"] and str(tmp_path) not in problem["detail"]
        assert problem["detail"].endswith("then send SIGHUP, or POST /v1/portfolios/p003/reopen")
        assert "fix the file or its journal" in problem["detail"]
        assert "p003.toml is not served" in caplog.text
        assert app.get("/readyz").status_code == 200
        ready = [app.get(f"/readyz/p{k:03d}", headers={"Host": "10.0.0.7"}) for k in range(N)]
        assert [answer.status_code for answer in ready] == [answer.status_code for answer in answers]
        assert ready[3].json() == app.get("/readyz/unknown").json() == {"status": "failed"}
        assert app.get("/v1/portfolios").json()["failed"] == ["p003"]
        metrics = app.get("/metrics").text.splitlines()
        failed = [f'equipoise_portfolio_failed{{portfolio="p{k:03d}"}} {float(k == 3)}' for k in range(N)]
        assert set(metrics) > {*failed, "equipoise_failed_portfolios 1.0"}
        rows = app.get("/v1/overview").json()["portfolios"]
        assert [row["failure"] is not None for row in rows] == [k == 3 for k in range(N)]
        again = app.post("/v1/portfolios/p003/reopen")
        assert (again.status_code, again.json()["detail"]) == (503, problem["detail"])
        for end in ("", "-wal", "-shm", ".lock"):
            (data / f"p003.db{end}").unlink(missing_ok=True)
        assert app.post("/v1/portfolios/p003/reopen").json() == {"status": "ok"}
        assert app.post("/v1/portfolios/p003/decide", json={}).status_code == 200
        assert "failed" not in app.get("/v1/portfolios").json() and app.get("/readyz/p003").status_code == 200


BROKEN = {
    "syntax": (ARMS + "[[learner\n", "arms"),
    "no name": ("name = [\n", None),
    "no version": ('name = "arms"\n', "arms"),
    "unknown class": (ARMS.replace("UCB", "UCX"), "arms"),
    "name that cannot be served": (ARMS.replace('"arms"', '"../x"'), None),
    "name in a table": ('version = \n[[learner]]\nname = "arms"\n', None),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_one_file_with_a_fault_concerns_one_portfolio(fault: str, tmp_path: Path) -> None:
    """At a start that portfolio answers 503; on a reload it keeps what it has. Mended, it is served after a reload."""
    folder, data, tokens = tmp_path / "files", tmp_path / "data", tmp_path / "tokens.json"
    write(folder, 2)
    text, name = BROKEN[fault]
    (folder / "arms.toml").write_text(text)
    assert name_in(folder / "arms.toml") == name
    service = start(folder, data)
    with closing(service):
        assert sorted(service.portfolios) == ["p000", "p001"] and list(service.failed) == [name or "arms.toml"]
        assert service.ready and service.n_failed() == 1
        (folder / "arms.toml").write_text(ARMS)
        asyncio.run(reload_files(service, folder, tokens))
        assert sorted(service.portfolios) == ["arms", "p000", "p001"] and not service.failed
        (folder / "arms.toml").write_text(text)
        asyncio.run(reload_files(service, folder, tokens))
        served = service.portfolios["arms"]
        assert served.rejected and served.engine.failure is None and not service.failed
        (folder / "arms.toml").write_text(ARMS)
        asyncio.run(reload_files(service, folder, tokens))
        assert served.rejected == "" and service.portfolios["arms"] is served


def test_a_removed_file_ends_its_portfolio_and_keeps_its_journal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "equipoise.serve")
    folder, data, tokens = tmp_path / "files", tmp_path / "data", tmp_path / "tokens.json"
    first, second = write(folder, 2)
    service = start(folder, data)
    with closing(service):
        asyncio.run(service.portfolios["p001"].engine.run(lambda hosted: hosted.portfolio.decide(None, id="a")))
        text = second.read_text()
        second.unlink()
        asyncio.run(reload_files(service, folder, tokens))
        assert list(service.portfolios) == ["p000"] and service.ready and not service.failed
        assert "p001 has no file any more and is not served; its journal is kept" in caplog.text
        with closing(sqlite3.connect(data / "p001.db")) as connection:  # closed cleanly: with a snapshot of its end
            assert connection.execute("SELECT max(seq) FROM snapshots").fetchone() == (2,)
        second.write_text(text)
        asyncio.run(reload_files(service, folder, tokens))
        hosted = asyncio.run(service.portfolios["p001"].engine.run(lambda hosted: hosted))
        assert hosted.portfolio.pending == ("a",)
        for file in (first, second):
            file.unlink()
        asyncio.run(reload_files(service, folder, tokens))  # a folder that is not mounted, perhaps: nothing changes
        assert sorted(service.portfolios) == ["p000", "p001"]
        folder.rmdir()
        asyncio.run(reload_files(service, folder, tokens))
        assert sorted(service.portfolios) == ["p000", "p001"] and not service.failed


def test_nothing_to_serve_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    for file in write(folder, 2):
        file.write_text("version = 1\n")
    with pytest.raises(InvalidArgument, match=r"^no portfolio can be served: .*p000.toml: .*; .*p001.toml: "):
        check_any(start(folder, tmp_path / "data"))


def test_a_failed_journal_is_opened_again_without_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room on the disk again it answered 503 until a restart."""
    write_rows, lease, full = Writer._write, SQLiteJournal.lease, ["arms"]

    def write_or_fail(self: Writer, *arguments: Any) -> None:
        if self._thread.name.split()[-1] in full:
            raise sqlite3.OperationalError("database or disk is full")
        write_rows(self, *arguments)

    def lease_or_fail(self: SQLiteJournal) -> int:
        if self.portfolio in full:
            raise UnreadableFile("database or disk is full")
        return lease(self)

    with client(ARMS, COLORS, data=tmp_path) as made:
        decide = "/v1/portfolios/arms/decide"
        first = made.post(decide, json={"id": "a"}).json()
        assert made.post("/v1/portfolios/arms/reopen").json() == {"status": "ok"}  # nothing to do
        engine = service_of(made).portfolios["arms"].engine
        monkeypatch.setattr(Writer, "_write", write_or_fail)
        monkeypatch.setattr(SQLiteJournal, "lease", lease_or_fail)
        for _ in range(2):
            assert made.post(decide, json={"id": "b"}).json()["type"].endswith("read-only")
        answer = made.post("/v1/portfolios/arms/reopen")  # no room yet
        assert answer.status_code == 503 and "disk is full" in answer.json()["detail"]
        assert made.post(decide, json={"id": "b"}).json()["type"].endswith("failed-portfolio")
        assert (made.get("/readyz").status_code, made.get("/readyz/arms").status_code) == (200, 503)
        assert made.get("/readyz/colors").status_code == 200
        assert 'equipoise_portfolio_failed{portfolio="arms"} 1.0' in made.get("/metrics").text
        full.clear()
        assert made.post("/v1/portfolios/arms/reopen").json() == {"status": "ok"}
        assert service_of(made).portfolios["arms"].engine is not engine
        assert made.post(decide, json={"id": "a"}).json() == first
        assert made.post(decide, json={"id": "b"}).status_code == 200
        assert made.post("/v1/portfolios/none/reopen").status_code == 404


def test_a_journal_that_fails_while_a_file_is_refused_is_opened_again(tmp_path: Path) -> None:
    """It was left open, and so in use for whoever opened it again."""
    folder, data, tokens = tmp_path / "files", tmp_path / "data", tmp_path / "tokens.json"
    file, _ = write(folder, 2)
    text = file.read_text()
    service = start(folder, data)
    with closing(service):
        for refused in ("version = ", text.replace("arms = 3", "arms = 4"), text + TWO):
            engine: Any = service.portfolios["p000"].engine
            file.write_text(refused)
            if refused.endswith(TWO):  # it fails at the change
                engine.began = lambda engine=engine: setattr(engine._live, "_failure", JournalFailed("lost"))
            else:
                engine._live._failure = JournalFailed("the device is lost")
            asyncio.run(reload_files(service, folder, tokens))
            assert not service.is_ready("p000") and service.is_ready("p001")
            file.write_text(text)
            asyncio.run(reload_files(service, folder, tokens))
            assert service.is_ready("p000") and not service.failed


def test_a_reload_opens_failed_journals_again(tmp_path: Path) -> None:
    folder, data = tmp_path / "files", tmp_path / "data"
    write(folder, 2)
    service = start(folder, data)
    with closing(service):
        engine: Any = service.portfolios["p000"].engine
        engine._live._failure = JournalFailed("the device is lost")
        assert service.failure_of("p000") is not None and service.ready and not service.is_ready("p000")
        asyncio.run(reload_files(service, folder, tmp_path / "tokens.json"))
        assert service.failure_of("p000") is None and service.is_ready("p000")
        for served in service.portfolios.values():
            served.engine.close()
        assert not service.ready  # none of them serves


# Signals during a start.

SLOW = """
import sys, time
from pathlib import Path
from equipoise.serve import server
from equipoise.serve.service import open_in_memory

def slow(config):
    Path("opening").touch()
    time.sleep(float(sys.argv[1]))
    return open_in_memory(config)

server.serve(Path("arms.toml"), slow, port=0, token_file=Path("tokens.json"))
"""

IMPORTING = """
import sys, time
from pathlib import Path
from equipoise.cli import main, service

def slow(*packages):
    Path("opening").touch()
    time.sleep(float(sys.argv[1]))

service.require = slow
main(["serve", "arms.toml", "--memory", "--port", "0"])
"""


def begin(folder: Path, seconds: float, code: str = SLOW) -> subprocess.Popen[str]:
    (folder / "arms.toml").write_text(ARMS)
    command = [sys.executable, "-c", code, str(seconds)]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    while not (folder / "opening").exists():
        assert process.poll() is None
        asyncio.run(asyncio.sleep(0.01))
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_start_at_once(number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM was swallowed: the service came up and served."""
    process = begin(tmp_path, 600.0)
    process.send_signal(number)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0 and "serving" not in log and '"stopped"' in log


def test_a_hang_up_during_a_start_is_a_reload_after_it(tmp_path: Path) -> None:
    """It ended the process."""
    process = begin(tmp_path, 1.0)
    (tmp_path / "arms.toml").write_text(ARMS.replace("version = 1", "version = 1\nexplore = 0.25"))
    process.send_signal(signal.SIGHUP)
    assert process.stderr is not None
    with process.stderr as lines:
        log = ""
        for line in lines:
            log += line
            if "explore" in line and "serving" in log:
                process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0 and "config: changes {'explore': 0.25}" in log


def test_a_hang_up_before_a_start_is_harmless(tmp_path: Path) -> None:
    """While it imported its modules, it ended the process; no file was read yet."""
    process = begin(tmp_path, 0.2, IMPORTING)
    process.send_signal(signal.SIGHUP)
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            if "serving" in line:
                process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_signal_before_a_start_ends_it(tmp_path: Path) -> None:
    """Between the first file that is read and the start."""
    early = SLOW.replace("server.serve(", "server.file_limit = slow\nserver.serve(")
    process = begin(tmp_path, 1.0, early.replace("return open_in_memory(config)", "return 100"))
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0 and "serving" not in log and '"stopped"' in log
