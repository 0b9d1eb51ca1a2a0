"""What the tests of journals share: a portfolio, learners that fail, and the image that a crash leaves."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.journal import LivePortfolio
from equipoise.learners import OFUL, UCB
from equipoise.types import Action, Context, State


class Flaky:
    """A learner that is not registered, and cannot cope with some contexts; it fails before it changes itself."""

    def __init__(self, name: str = "flaky") -> None:
        self.name = name
        self.updates = 0

    def decide(self, context: Context) -> Action:
        if context[0, 0] > 0.8:
            raise RuntimeError("cannot decide")
        return self.updates % 2

    def learn(self, context: Context, action: Action, reward: float) -> None:
        if context[0, 0] < 0.2:
            raise RuntimeError("cannot learn")
        self.updates += 1

    def config(self) -> dict[str, Any]:
        return {}

    def state(self) -> State:
        return {"updates": np.array([self.updates])}

    def restore(self, state: State) -> None:
        self.updates = int(state["updates"][0])


def offers(number: float) -> Any:
    """Two offers with two features, by a number from 0 to 1."""
    return np.array([[number, 0.5], [1.0 - number, 0.25]])


def make(**settings: Any) -> Portfolio:
    """A portfolio of registered learners."""
    return Portfolio([UCB(2), OFUL(2, action_bound=2.0), OFUL(1, action_bound=2.0)], seed=5, **settings)


def make_flaky() -> Portfolio:
    """One with a deadline, and a learner that fails."""
    return Portfolio([UCB(2), Flaky(), OFUL(2)], seed=5, deadline="100s", default_reward=0.25)


def play(portfolio: Any, rounds: int, first: int = 0) -> None:
    """Decide and reward some rounds under own ids; every fourth reward is missing."""
    for t in range(first, first + rounds):
        decision = portfolio.decide(offers(t % 10 / 10), id=f"round {t}", at=float(t))
        if t % 4:
            portfolio.learn(decision, float(t % 3 == 0), at=float(t))


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Return when a background thread has made a condition true."""
    until = monotonic() + seconds
    while not condition():
        assert monotonic() < until, "it took too long"
        sleep(0.005)


def image(path: Path, folder: Path) -> Path:
    """The files of a journal that is in use, as a crash at this moment would leave them; SQLite's index is lost."""
    folder.mkdir(parents=True)
    for suffix in ("", "-wal", ".lock"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            shutil.copy(source, folder / source.name)
    return folder / path.name


def memory_folder() -> str | None:
    """A folder in memory if the system has one, for tests with very many flushes to disk."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def reopened(path: Path, config: Callable[[], Portfolio] | None = None) -> LivePortfolio:
    """Opened again; snapshots only by request, so that tests know where they are."""
    return equipoise.open(path, config, snapshot_every=10**9)
