"""A process that plays and saves, and is killed: by itself at a given step of a save, or at random by its parent.

    python -m tests.saving_process FILE --killed-in-round N --at MOMENT
    python -m tests.saving_process FILE --killed-with-seed SEED

The second form forks processes that go on from the file, kills each after a random time and keeps a copy of the file
after every kill, until there were 25 kills and the last round is saved; on a fast machine it starts over for that.
"""

import argparse
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.learners import OFUL, EpsilonGreedy, LinearThompson
from equipoise.selectors import BalancedElimination

N_ROUNDS = 100
N_KILLS = 25
LONGEST_LIFE = 0.02  # seconds


def make_portfolio() -> Portfolio:
    """Random learners, learning in order, and enough numbers that writing the file takes a while."""
    learners = [EpsilonGreedy(5, epsilon=0.5), LinearThompson(3), OFUL(60)]
    return Portfolio(learners, BalancedElimination([Power(0.5), Power(1.0), Observed()]), seed=11)


def play_round(portfolio: Portfolio) -> None:
    """What happens in a round depends on the state of the portfolio alone; every third reward comes two rounds late."""
    t = portfolio.certificate().rounds
    rng = np.random.default_rng(t)
    portfolio.decide(rng.uniform(-0.1, 0.1, (5, 60)))
    for id_ in portfolio.pending[::-1][: t % 3]:
        portfolio.learn(id_, float(rng.random()))


def play_and_save(path: Path) -> None:
    """Up to the last round, from what the file holds."""
    portfolio = Portfolio.load(path) if path.exists() else make_portfolio()
    while portfolio.certificate().rounds < N_ROUNDS:
        play_round(portfolio)
        portfolio.save(path)


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(moment: str) -> None:
    """Let the next save kill the process at this step."""
    opened, replaced = Path.open, os.replace

    def write_half(path: Path, mode: str) -> Any:
        file: Any = opened(path, mode)
        os.write(file.fileno(), b"equipoise archive 1\nhalf of it")
        die()

    def replace_and_die(*arguments: Any) -> None:
        replaced(*arguments)
        die()

    if moment == "open":
        Path.open = die  # type: ignore[assignment, method-assign]
    elif moment == "half written":
        Path.open = write_half  # type: ignore[assignment, method-assign]
    elif moment == "fsync":
        os.fsync = die  # type: ignore[assignment]
    else:
        os.replace = replace_and_die if moment == "replaced" else die  # type: ignore[assignment]


def play_and_die(path: Path, round_: int, moment: str) -> None:
    portfolio = make_portfolio()
    for t in range(1, round_ + 1):
        play_round(portfolio)
        if t == round_:
            arm(moment)
        portfolio.save(path)


def kill_at_random(path: Path, seed: int) -> None:
    rng, n_kills, patience = np.random.default_rng(seed), 0, 1.0
    while True:
        child = os.fork()
        if child == 0:
            play_and_save(path)
            os._exit(0)
        before = path.read_bytes() if path.exists() else b""
        time.sleep(rng.uniform(0, LONGEST_LIFE) * patience)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            n_kills += 1
            progress = path.exists() and path.read_bytes() != before
            patience = 1.0 if progress else 1.5 * patience  # a slow machine needs longer lives
            if path.exists():
                shutil.copy(path, f"{path}.after-kill-{n_kills:04d}")
        elif n_kills >= N_KILLS:
            return
        else:
            path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--killed-in-round", type=int)
    parser.add_argument("--at")
    parser.add_argument("--killed-with-seed", type=int)
    options = parser.parse_args()
    if options.killed_with_seed is None:
        play_and_die(options.file, options.killed_in_round, options.at)
    else:
        kill_at_random(options.file, options.killed_with_seed)


if __name__ == "__main__":
    main()
