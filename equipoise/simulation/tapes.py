"""Tapes: each learner is recorded alone once, and selectors read the next play of the chosen learner from its tape.

A learner that learns only from its own plays, in a problem whose rounds are independent and identically distributed,
behaves the same whatever other learners play in between. So choices, rewards and regrets of a run from tapes have
exactly the joint distribution of a joint run, at the cost of learners plus selectors instead of learners times
selectors, and all selectors see the same randomness. `why_not_tapes` tells when this does not hold.

The tapes of one seed share the problem instance; contexts, rewards and learner i use random streams keyed by i, so two
equal learners have different tapes. A tape is recorded only as far as some selector needs it; playing the remaining
rounds afterwards, for the learner's own curve, stores no rows.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from time import perf_counter

import numpy as np

from equipoise.errors import EquipoiseError
from equipoise.learner import part_name
from equipoise.problem import AdaptedProblem
from equipoise.selector import needs_of
from equipoise.simulation.adapters import OnElimination, ignore
from equipoise.simulation.loops import Part, alone, can_compile, on_recorded, replays_policies
from equipoise.simulation.parts import Curves, Recorded, open_run
from equipoise.storage.files import write_atomic
from equipoise.types import AnyArray, Array, Integers

CHUNK = 4096
FILE_FORMAT = 2


class Tapes:
    """The tapes of one seed: all learners on one instance of a problem, recorded as far as needed."""

    def __init__(self, problem: Part, learners: Sequence[Part], marks: Integers, seed: int) -> None:
        self.problem = problem
        self.learners = tuple(learners)
        self.marks = marks
        self.seed = seed
        self.rounds = int(marks[-1])
        n_learners = len(self.learners)
        # Not initialized: the operating system provides a page only when it is first written.
        self.rows = np.empty((n_learners, self.rounds, 3))
        self.recorded = np.zeros(n_learners, np.int64)
        self.seconds = [0.0] * n_learners
        self.plays = [0] * n_learners  # number of plays in `seconds`
        self._runs = [open_run(seed, marks, 1) for _ in self.learners]

    def extend(self, i: int) -> None:
        recorded = int(self.recorded[i])
        if self._runs[i].progress.done[0] > recorded:
            raise EquipoiseError(f"learner {i} has played beyond its tape, which can no longer be extended")
        until = min(recorded + max(CHUNK, recorded // 4), self.rounds)
        self._play(i, until, self.rows[i])
        self.recorded[i] = until

    def curve(self, i: int) -> Array:
        """The regret of learner i alone at the marked rounds. Its tape cannot be extended afterwards."""
        return self._to_the_end(i).regret

    def total_reward(self, i: int) -> float:
        """The reward of learner i alone in all rounds. Its tape cannot be extended afterwards."""
        return float(self._to_the_end(i).reward[-1])

    def _to_the_end(self, i: int) -> Curves:
        curves = self._runs[i].curves
        if isnan(curves.regret[-1]) and self._runs[i].progress.done[0] < self.rounds:
            self._play(i, self.rounds, self.rows[i, : self.recorded[i]])
        return curves

    def seconds_per_play(self, i: int) -> float:
        return self.seconds[i] / self.plays[i] if self.plays[i] else 0.0

    def contents(self) -> dict[str, AnyArray]:
        """The rows and curves of all learners, for `restore`."""
        alone = [self._to_the_end(i) for i in range(len(self.learners))]
        curves = np.array([(curves.regret, curves.reward) for curves in alone])
        rows = {f"rows.{i}": self.rows[i, :recorded] for i, recorded in enumerate(self.recorded)}
        return {"curves": curves, "seconds": np.array(self.seconds), "plays": np.array(self.plays), **rows}

    def restore(self, contents: Mapping[str, AnyArray]) -> None:
        """Load what the same learners recorded before; to record more, they start again from the first play.

        Contents that do not match raise ValueError, or KeyError if something is missing, and change nothing.
        """
        n_learners = len(self.learners)
        recorded = [contents[f"rows.{i}"] for i in range(n_learners)]
        shapes = {name: contents[name].shape for name in ("curves", "seconds", "plays")}
        fitting = {"curves": (n_learners, 2, len(self.marks)), "seconds": (n_learners,), "plays": (n_learners,)}
        if shapes != fitting or any(len(rows) > self.rounds or rows.shape[1:] != (3,) for rows in recorded):
            raise ValueError("the tapes are of other learners or rounds")
        for i, rows in enumerate(recorded):
            self.rows[i, : len(rows)] = rows
            self.recorded[i] = len(rows)
            self._runs[i].curves.regret[:], self._runs[i].curves.reward[:] = contents["curves"][i]
        self.seconds, self.plays = contents["seconds"].tolist(), contents["plays"].tolist()

    def _play(self, i: int, until: int, tape: Array) -> None:
        run, loop = self._runs[i], alone(self.problem, self.learners[i], i, tape)
        self.plays[i] += until - int(run.progress.done[0])
        self.seconds[i] += loop.timed(run, until)


def run_alone(
    problem: Part, learner: Part, marks: Integers, seed: int, *, lane: int = 0, greedy: bool = False
) -> tuple[Curves, float]:
    """Run a learner on its own problem to its final state; returns curves and seconds, but records no rows."""
    return alone(problem, learner, lane, np.empty((0, 3)), greedy=greedy).complete(seed, marks)


def run_on_tapes(tapes: Tapes, selector: Part, *, on_elimination: OnElimination = ignore) -> tuple[Curves, float]:
    """Run a selector to its final state; returns curves and seconds. One without kernels calls `on_elimination`."""
    loop = on_recorded(Recorded(tapes.rows, tapes.recorded), selector, on_elimination)
    run = open_run(tapes.seed, tapes.marks, len(tapes.learners))
    loop.advance(run, 0)  # compile outside of the measured time
    seconds, short = 0.0, 0
    while short >= 0:
        start = perf_counter()
        short = loop.advance(run, int(tapes.marks[-1]))
        seconds += perf_counter() - start
        if short >= 0:
            tapes.extend(short)
    if can_compile(selector):
        selector.from_arrays(loop.components.selector[1])
    return run.curves, seconds


def why_not_tapes(problem: Part, selector: Part, share_data: bool | None) -> str | None:
    """Why a run from tapes would not have the distribution of a joint run; None if it would."""
    if share_data:
        return "learners share data, so the plays of a learner depend on those of others"
    adapted = AdaptedProblem(problem)
    if not adapted.iid:
        return f"the contexts of {adapted.name} are not independent and identically distributed"
    demands = {"actions": "asks every learner in every round", "weight": "gives learners importance-weighted rewards"}
    for need, reason in demands.items():
        if need in needs_of(selector):
            return f"{part_name(selector)} {reason}"
    if replays_policies(selector):
        return f"{part_name(selector)} plays earlier policies of its learners"
    return None


def save_tapes(tapes: Tapes, path: Path, key: str) -> None:
    """Write the tapes of the recording `key` atomically, after every learner has played to the end."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, format=np.array(FILE_FORMAT), key=np.array(key), **tapes.contents())
    write_atomic(path, buffer.getvalue())


def load_tapes(tapes: Tapes, path: Path, key: str) -> bool:
    """Load a file into new tapes; returns False if it is missing or damaged, or has another key or format."""
    try:
        with path.open("rb") as source, np.load(source, allow_pickle=False) as file:
            if int(file["format"]) != FILE_FORMAT or str(file["key"]) != key:
                return False
            tapes.restore({name: file[name] for name in file.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return False
    return True
