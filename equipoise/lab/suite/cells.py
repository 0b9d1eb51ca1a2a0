"""What there is to compute, and how: the runs of a suite, grouped by what they have in common.

A selector that tapes allow is run on the tapes of an instance and seed, all such selectors in one go; the tapes are
kept on disk. Shared data, importance weights, snapshots and questions to every learner need a joint run, one selector
on one instance for all seeds in one go. A learner that selects a model inside itself plays alone in their place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import isnan
from pathlib import Path

import numpy as np

from equipoise import __version__
from equipoise.compatibility import check_compatible
from equipoise.errors import IncompatibleLearner
from equipoise.lab.executor import Report
from equipoise.lab.runs.results import log_rounds
from equipoise.lab.runs.seeds import run_from_tapes, violates
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES, InstanceSetup
from equipoise.lab.suite.results import Row
from equipoise.learner import Learner
from equipoise.problem import FullProblem
from equipoise.selector import Selector
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.loops import can_compile
from equipoise.simulation.parts import Curves, open_curves
from equipoise.simulation.sources import code_digest
from equipoise.simulation.tape_files import load_tapes, save_tapes
from equipoise.simulation.tapes import Tapes, why_not_tapes
from equipoise.storage.files import digest

LEARNERS = "learners"  # stands for a selector's label in the row of all learners alone


@dataclass(frozen=True)
class Task:
    """Runs that one process performs together."""

    instance: str
    rounds: int
    seeds: tuple[int, ...]
    labels: tuple[str, ...]
    shared: bool
    way: str  # "tapes", "joint" or "alone"

    @property
    def n_runs(self) -> int:
        return len(self.seeds) * len(self.labels)


@cache
def _first_seed(instance: str, rounds: int) -> InstanceSetup:
    return INSTANCES[instance].set_up(0, rounds)


@cache
def way_of(instance: str, rounds: int, label: str, shared: bool) -> str | None:
    """How a contender runs on an instance: "tapes", "joint", "alone", or None if it is not compatible with it."""
    setup, contender = _first_seed(instance, rounds), CONTENDERS[label]
    if shared and not (setup.can_share and contender.can_share):
        return None
    try:
        if contender.whole:
            contender.learner_for(setup, rounds)
            return "alone"
        selector = contender.selector_for(setup, rounds, shared)
        check_compatible(selector, setup.learners)
    except IncompatibleLearner:
        return None
    if why_not_tapes(setup.problem, selector, shared) is None:
        return "tapes"
    # Interpreted runs would take hours.
    return "joint" if can_compile(setup.problem, selector, *setup.learners) else None


@cache
def _basis(instance: str, rounds: int, label: str, shared: bool) -> str:
    """What a result depends on besides the seed: settings and code."""
    setup = _first_seed(instance, rounds)
    contender = CONTENDERS.get(label)  # none of the tapes and of the learners on them
    modules = {"equipoise.simulation.tapes"}
    parts: list[FullProblem | Learner | Selector] = [setup.problem]
    if contender and contender.whole:
        parts.append(contender.learner_for(setup, rounds))
    else:
        parts += setup.learners
    if contender and not contender.whole:
        parts.append(contender.selector_for(setup, rounds, shared))
        modules |= {"equipoise.simulation.joint"} if way_of(instance, rounds, label, shared) == "joint" else set()
    modules |= {type(part).__module__ for part in parts}
    return digest(
        {
            "version": __version__,
            "code": code_digest(modules),
            "rounds": rounds,
            "instance": instance,
            "parts": [{"class": type(part).__name__, **part.config()} for part in parts],
            "run": [label, shared],
        }
    )


def key_of(instance: str, rounds: int, label: str, shared: bool, seed: int) -> str:
    """The key of a result: equal keys mean equal results."""
    return digest({"basis": _basis(instance, rounds, label, shared), "seed": seed})


def perform(tape_folder: Path, task: Task, report: Report) -> list[Row]:
    """Run a task and return its rows; `report` is called with numbers of runs."""
    rows: list[Row] = []
    for seed in task.seeds:
        for row in _runs(task, seed, tape_folder):
            rows.append(row)
            report(f"{task.instance}: {row['selector']}", 1)
    return rows


def _runs(task: Task, seed: int, tape_folder: Path) -> Iterator[Row]:
    if task.way == "tapes":
        yield from _perform_on_tapes(task, seed, tape_folder)
    else:
        yield _perform_jointly(task, seed) if task.way == "joint" else _perform_alone(task, seed)


def _perform_on_tapes(task: Task, seed: int, tape_folder: Path) -> Iterator[Row]:
    setup = INSTANCES[task.instance].set_up(seed, task.rounds)
    tapes = Tapes(setup.problem, setup.learners, log_rounds(task.rounds), seed)
    path = tape_folder / f"{task.instance}-{seed:05d}.npz"
    key = key_of(task.instance, task.rounds, "tapes", False, seed)
    known = load_tapes(tapes, path, key)
    recorded = tapes.recorded.copy()
    for label in task.labels:
        if label == LEARNERS:
            regrets = [float(tapes.curve(i)[-1]) for i in range(len(setup.learners))]
            yield {**_about(task, label, seed), "regrets": regrets, "seconds": sum(tapes.seconds)}
        else:
            selector = CONTENDERS[label].selector_for(setup, task.rounds)
            yield _result(task, label, seed, *run_from_tapes(tapes, selector))
    if not known or (tapes.recorded > recorded).any():
        save_tapes(tapes, path, key)


def _perform_jointly(task: Task, seed: int) -> Row:
    (label,) = task.labels
    setup = INSTANCES[task.instance].set_up(seed, task.rounds)
    selector, marks = CONTENDERS[label].selector_for(setup, task.rounds, task.shared), log_rounds(task.rounds)
    run = run_jointly(setup.problem, setup.learners, selector, marks, seed, share_data=task.shared)
    return _result(task, label, seed, *run)


def _perform_alone(task: Task, seed: int) -> Row:
    (label,) = task.labels
    setup = INSTANCES[task.instance].set_up(seed, task.rounds)
    marks, learner = log_rounds(task.rounds), CONTENDERS[label].learner_for(setup, task.rounds)
    tapes = Tapes(setup.problem, [learner], marks, seed)
    run = open_curves(len(marks), 1)
    run.regret[:] = tapes.curve(0)
    run.plays[:, 0] = marks
    return _result(task, label, seed, run, tapes.seconds[0])


def _about(task: Task, label: str, seed: int) -> Row:
    key = key_of(task.instance, task.rounds, label, task.shared, seed)
    return {"key": key, "instance": task.instance, "seed": seed, "selector": label, "shared": task.shared}


def _result(task: Task, label: str, seed: int, run: Curves, seconds: float) -> Row:
    return {
        **_about(task, label, seed),
        "regret": float(run.regret[-1]),
        "certified": None if isnan(run.certified[-1]) or np.isinf(run.certified[-1]) else float(run.certified[-1]),
        "violated": violates(run),
        "plays": run.plays[-1].tolist(),
        "seconds": seconds,
    }


def plan(
    instances: Sequence[str],
    rounds: Mapping[str, int],
    seeds: Sequence[int],
    labels: Sequence[str],
    known: Mapping[str, Row],
) -> list[Task]:
    """The tasks whose results are missing, by key."""
    tasks = []
    for name in instances:
        length = rounds[name]

        def missing(label: str, shared: bool, name: str = name, length: int = length) -> list[int]:
            return [seed for seed in seeds if key_of(name, length, label, shared, seed) not in known]

        ways = {label: way_of(name, length, label, False) for label in labels}
        taped = [*(label for label, way in ways.items() if way == "tapes"), LEARNERS]  # who play on beyond the tapes
        lacking = {label: set(missing(label, False)) for label in taped}
        for seed in seeds:
            wanted = tuple(label for label in taped if seed in lacking[label])
            if wanted:
                tasks.append(Task(name, length, (seed,), wanted, shared=False, way="tapes"))
        for shared in (False, True):
            for label in labels:
                way = way_of(name, length, label, shared)
                if way in ("joint", "alone") and (left := missing(label, shared)):
                    tasks.append(Task(name, length, tuple(left), (label,), shared, way))
    return tasks
