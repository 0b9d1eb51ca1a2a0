"""Tasks give the same results wherever they run, tell how far they are, and end together."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName
from equipoise.lab.executor import ONE_THREAD, Jobs, Report, checked_jobs, run_tasks

ROOT = Path(__file__).resolve().parents[2]


def square(number: int, report: Report) -> int:
    report(f"number {number}", number)
    return number * number


def refuse(number: int, report: Report) -> int:
    if number == 1:
        raise UnknownName("number", "one", ["two", "three"])
    if number > 1:
        time.sleep(60)
    return number


def threads(name: str, report: Report) -> str | None:
    return os.environ.get(name)


def vanish(number: int, report: Report) -> None:
    os._exit(1)


@pytest.mark.slow
@pytest.mark.parametrize("where", ["this process", "two processes", "threads"])
def test_results_and_reports_are_the_same_everywhere(where: str) -> None:
    told: list[tuple[str, float]] = []
    executor: Jobs = {"this process": 1, "two processes": 2}.get(where) or ThreadPoolExecutor(3)
    with run_tasks(square, range(5), jobs=executor, report=lambda what, amount: told.append((what, amount))) as found:
        results = dict(found)
    assert results == {number: number * number for number in range(5)}
    assert sorted(told) == [(f"number {number}", number) for number in range(5)]


@pytest.mark.slow
def test_an_error_ends_everything_and_comes_through_whole() -> None:
    others = set(multiprocessing.active_children())
    start = time.monotonic()
    with (
        pytest.raises(UnknownName, match=r"number 'one' is unknown; did you mean"),
        run_tasks(refuse, [1, 2, 3], jobs=2) as found,
    ):
        list(found)
    assert time.monotonic() - start < 30
    assert _all_end(others)


def test_whoever_leaves_early_ends_everything() -> None:
    others = set(multiprocessing.active_children())
    with pytest.raises(ZeroDivisionError), run_tasks(refuse, [0, 2, 3], jobs=2) as found:
        assert next(found) == (0, 0)
        raise ZeroDivisionError
    assert _all_end(others)


@pytest.mark.slow
def test_an_interruption_ends_all_processes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from equipoise.lab.executor import run_tasks\n"
        "def nap(path, report):\n"
        "    path.write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    with run_tasks(nap, [Path(sys.argv[1], name) for name in 'ab'], jobs=2) as found:\n"
        "        list(found)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
    files = [tmp_path / name for name in "ab"]
    while not all(file.exists() and file.read_text() for file in files):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert b"KeyboardInterrupt" in errors
    for file in files:
        with pytest.raises(ProcessLookupError):
            os.kill(int(file.read_text()), 0)


@pytest.mark.slow
def test_every_process_has_one_thread_and_this_one_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ONE_THREAD[0], raising=False)
    monkeypatch.setenv(ONE_THREAD[1], "3")
    with run_tasks(threads, ONE_THREAD[:2], jobs=2) as found:
        assert dict(found) == {ONE_THREAD[0]: "1", ONE_THREAD[1]: "3"}
    assert ONE_THREAD[0] not in os.environ


def test_what_cannot_be_sent_is_refused_in_one_line() -> None:
    with (
        pytest.raises(
            InvalidArgument, match=r"^experiment 'x' cannot be sent to another process \(.*lambda.*or use one"
        ),
        run_tasks(lambda number, report: number, [1, 2], jobs=2, what="experiment 'x'"),
    ):
        pass
    with run_tasks(lambda number, report: number, [1, 2], jobs=1) as found:
        assert dict(found) == {1: 1, 2: 2}


def test_what_was_typed_in_is_refused_in_one_line() -> None:
    program = (
        "from equipoise.lab.executor import run_tasks\n"
        "def work(number, report): return number\n"
        "with run_tasks(work, [1, 2], jobs=2) as found: print(sorted(found))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert run.stderr.endswith(
        "task cannot be sent to another process, as it was defined interactively: define it in a module, or use one "
        "job\n"
    )


@pytest.mark.slow
def test_a_process_that_ends_before_its_task_is_one_line() -> None:
    with (
        pytest.raises(EquipoiseError, match="a process ended before its task"),
        run_tasks(vanish, [1, 2], jobs=2) as found,
    ):
        list(found)


def vanish_once(path: Path, report: Report) -> str:
    report(path.name, 0.5)
    if path.name == "b" and not path.exists():
        path.touch()
        os._exit(1)
    report(path.name, 0.5)
    return path.name


@pytest.mark.slow
def test_tasks_of_a_lost_process_start_again_and_count_once(tmp_path: Path) -> None:
    amounts: list[float] = []
    paths = [tmp_path / name for name in "abcd"]
    with run_tasks(vanish_once, paths, jobs=2, report=lambda what, amount: amounts.append(amount)) as found:
        assert dict(found) == {path: path.name for path in paths}
    assert (tmp_path / "b").exists()
    assert sum(amounts) == pytest.approx(len(paths))


def test_executor_is_used_alone() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert checked_jobs(None, threads) is threads
        with pytest.raises(InvalidArgument, match="jobs is 2, but must not be given together with executor"):
            checked_jobs(2, threads)
    with pytest.raises(InvalidArgument, match="executor is 'ray', but must be an Executor"):
        checked_jobs(None, "ray")  # type: ignore[arg-type]


def test_number_of_jobs() -> None:
    assert checked_jobs(None) == (os.cpu_count() or 1)
    assert checked_jobs(3) == 3
    with pytest.raises(InvalidArgument, match="jobs is 0, but must"):
        checked_jobs(0)


def _all_end(others: set[BaseProcess]) -> bool:
    """Whether no process is left but those that other tests have started."""
    deadline = time.monotonic() + 60
    while set(multiprocessing.active_children()) - others and time.monotonic() < deadline:
        time.sleep(0.02)
    return not set(multiprocessing.active_children()) - others
