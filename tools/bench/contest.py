"""The rounds that every contender plays, and the loop that plays them one step at a time.

Needs nothing but NumPy, because it also runs in the environment of the other libraries.
"""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np

from equipoise.types import Array, Context, Integers

WIDTH = 0.5  # of the confidence interval, in units of the norm of an action
RIDGE = 1.0
PART_A, PART_B = 3, 6  # entries of the two parts of a context in the contest of feature maps


class Rounds(NamedTuple):
    """Every round offers a stored action set; the reward of an action is its expected reward plus the round's noise.

    The first action of a set is also its context: see `tools.bench.linucb`.
    """

    table: Array  # (n, K, d) action sets
    means: Array  # (n, K) expected rewards
    sets: Integers  # (T,) which set a round offers
    noise: Array  # (T,)


class Contender(Protocol):
    """The common interface of all libraries."""

    def prepare(self, actions: Array) -> Context:
        """An action set in the format of this library; not timed."""

    def decide(self, context: Context) -> int:
        """The chosen action."""

    def learn(self, context: Context, action: int, reward: float) -> None:
        """Learn from the reward of the action that was just chosen."""


def play(rounds: Rounds, contender: Contender) -> tuple[float, Integers]:
    """Seconds that all decisions and updates took, and the chosen actions."""
    contexts = [contender.prepare(actions) for actions in rounds.table]
    offered = [contexts[n] for n in rounds.sets]
    means, noises = rounds.means[rounds.sets].tolist(), rounds.noise.tolist()
    decide, learn, actions = contender.decide, contender.learn, []
    gc.collect()
    gc.disable()
    start = perf_counter()
    for context, expected, noise in zip(offered, means, noises, strict=True):
        action = decide(context)
        learn(context, action, expected[action] + noise)
        actions.append(action)
    seconds = perf_counter() - start
    gc.enable()
    return seconds, np.array(actions, np.int64)


def average_regret(rounds: Rounds, actions: Integers) -> float:
    means = rounds.means[rounds.sets]
    return float(np.mean(means.max(axis=1) - means[np.arange(len(actions)), actions]))


def save(rounds: Rounds, path: Path) -> None:
    np.savez(path, **rounds._asdict())


def load(path: Path) -> Rounds:
    with np.load(path, allow_pickle=False) as arrays:
        return Rounds(**arrays)


def load_module(path: Path) -> ModuleType:
    """Load a Python file that is not part of a package."""
    spec = importlib.util.spec_from_file_location(f"bench_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
