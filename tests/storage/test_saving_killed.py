"""A process that is killed while it saves: the file on disk always loads and resumes bit-exactly."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise import Portfolio
from tests.recorders import saved
from tests.saving_process import N_KILLS, N_ROUNDS, make_portfolio, play_round


def undisturbed_saves() -> list[bytes]:
    """What an undisturbed run saves after each of its rounds."""
    portfolio, contents = make_portfolio(), []
    for _ in range(N_ROUNDS):
        play_round(portfolio)
        contents.append(saved(portfolio))
    return contents


def check_resumes(path: Path, contents: list[bytes], more: int = 3) -> int:
    """The file is one of the undisturbed run, loads, and goes on like it; returns its round."""
    portfolio = Portfolio.load(path)
    round_ = contents.index(saved(portfolio))
    for following in contents[round_ + 1 : round_ + 1 + more]:
        play_round(portfolio)
        assert saved(portfolio) == following
    return round_ + 1


def start_saving(path: Path, *arguments: str) -> "subprocess.Popen[bytes]":
    program = [sys.executable, "-m", "tests.saving_process", str(path), *arguments]
    return subprocess.Popen(program, cwd=Path(__file__).resolve().parents[2])


@pytest.mark.slow
def test_killed_at_random_moments_the_file_always_loads_and_resumes(tmp_path: Path) -> None:
    """A process saves after each of 100 rounds; it is killed again and again and goes on from what is on disk."""
    contents, path = undisturbed_saves(), tmp_path / "p"
    process = start_saving(path, "--killed-with-seed", "5")
    assert process.wait(timeout=120) == 0
    copies = sorted(tmp_path.glob("p.after-kill-*"))
    assert len(copies) > N_KILLS // 2  # a kill before the first save leaves nothing to copy
    assert all(1 <= check_resumes(copy, contents) <= N_ROUNDS for copy in copies)
    assert saved(Portfolio.load(path)) == contents[-1]


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["open", "half written", "fsync", "replace", "replaced"])
def test_killed_at_every_step_of_a_save_the_file_loads_and_resumes(tmp_path: Path, moment: str) -> None:
    contents, path = undisturbed_saves(), tmp_path / "p"
    process = start_saving(path, "--killed-in-round", "4", "--at", moment)
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert check_resumes(path, contents) == (4 if moment == "replaced" else 3)
    left_over = {file.name for file in tmp_path.iterdir()} - {"p"}
    assert all(name.startswith(".p.") and name.endswith(".tmp") for name in left_over)
    assert len(left_over) == (0 if moment in ("open", "replaced") else 1)


@pytest.mark.slow
def test_every_random_number_after_a_restart_is_that_of_the_undisturbed_run(tmp_path: Path) -> None:
    """Saved and loaded after every single round, the run is the undisturbed one."""
    contents, path = undisturbed_saves(), tmp_path / "p"
    make_portfolio().save(path)
    for expected in contents[:30]:
        portfolio = Portfolio.load(path)
        play_round(portfolio)
        portfolio.save(path)
        assert saved(portfolio) == saved(Portfolio.load(path)) == expected
