"""What there is to compute, and how: the runs of a suite, grouped by what they have in common.

A selector that tapes allow is run on the tapes of an instance and seed, all such selectors in one go; the tapes are
kept on disk. Shared data, importance weights, stored policies, questions to every learner and laws that change need a
joint run, one selector on one instance for all seeds in one go; late rewards need a portfolio. A learner that selects a
model inside itself plays alone in their place. The rows of all learners alone and of all greedy experts alone are
references.
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
from equipoise.lab.runs.runner import run_from_tapes, violates
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.late import LateLearner, LatePortfolio, run_late
from equipoise.lab.suite.setups import InstanceSetup
from equipoise.learner import Learner, provides
from equipoise.problem import FullProblem
from equipoise.selector import Selector, needs_of, traits_of
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.loops import can_compile, replays_policies
from equipoise.simulation.parts import Curves
from equipoise.simulation.sources import code_digest
from equipoise.simulation.tapes import Tapes, load_tapes, run_alone, save_tapes, why_not_tapes
from equipoise.storage.files import digest
from equipoise.types import Config as Row

# These stand for a selector's label in the rows of all learners alone, and of the greedy expert of each.
LEARNERS, GREEDY = "learners", "greedy"
TAPES, JOINT, ALONE, IN_PORTFOLIO = "tapes", "joint", "alone", "portfolio"  # ways to run
MAX_INTERPRETED_ROUNDS = 5_000  # of runs that cannot be compiled
ROW_FORMAT = 2  # the fields of a row


@dataclass(frozen=True)
class Task:
    """Runs that one process performs together."""

    instance: str
    rounds: int
    seeds: tuple[int, ...]
    labels: tuple[str, ...]
    shared: bool
    way: str

    @property
    def n_runs(self) -> int:
        return len(self.seeds) * len(self.labels)


@cache
def _first_seed(instance: str, rounds: int) -> InstanceSetup:
    return INSTANCES[instance].set_up(0, rounds)


@cache
def run_mode_of(instance: str, rounds: int, label: str, shared: bool) -> str | None:
    """How a contender runs on an instance; None if it is not compatible with it."""
    setup, contender = _first_seed(instance, rounds), CONTENDERS[label]
    if shared and not (setup.can_share and contender.can_share):
        return None
    try:
        if contender.whole:
            contender.learner_for(setup, rounds)
            return ALONE if setup.delays is None else None
        selector = contender.selector_for(setup, rounds, shared)
        check_compatible(selector, setup.learners)
    except IncompatibleLearner:
        return None
    stores_more = "weight" in needs_of(selector) or replays_policies(selector)
    affordable = rounds <= MAX_INTERPRETED_ROUNDS and not stores_more
    if setup.delays is not None:
        return IN_PORTFOLIO if affordable and not traits_of(selector).simulation_only else None
    if why_not_tapes(setup.problem, selector, shared) is None:
        return TAPES
    # Long interpreted runs would take hours.
    return JOINT if can_compile(setup.problem, selector, *setup.learners) or affordable else None


def run_mode_of_learners(instance: str, rounds: int) -> str:
    """How the learners of an instance run alone."""
    setup = _first_seed(instance, rounds)
    return IN_PORTFOLIO if setup.delays is not None else TAPES if setup.problem.iid else ALONE


@cache
def has_greedy(instance: str, rounds: int) -> bool:
    """Whether greedy experts of its learners are run alone: of learners that tell their greedy action."""
    setup = _first_seed(instance, rounds)
    return setup.delays is None and any("greedy" in provides(learner) for learner in setup.learners)


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
        joint = {JOINT: "equipoise.simulation.joint", IN_PORTFOLIO: "equipoise.lab.suite.late"}
        modules |= {joint[way] for way in [run_mode_of(instance, rounds, label, shared)] if way in joint}
    modules |= {type(part).__module__ for part in parts}
    configs = [{"class": type(part).__name__, **part.config()} for part in parts]
    about = {
        "format": ROW_FORMAT,
        "version": __version__,
        "code": code_digest(modules),
        "rounds": rounds,
        "instance": instance,
    }
    return digest({**about, "parts": configs, "run": [label, shared]})


def key_of(instance: str, rounds: int, label: str, shared: bool, seed: int) -> str:
    """The key of a result: equal keys mean equal results."""
    return digest({"basis": _basis(instance, rounds, label, shared), "seed": seed})


def perform(tape_folder: Path, task: Task, report: Report) -> list[Row]:
    """Run a task and return its rows; `report` is called with numbers of runs."""
    rows: list[Row] = []
    for seed in task.seeds:
        for row in _perform_on_tapes(task, seed, tape_folder) if task.way == TAPES else [_run(task, seed)]:
            rows.append(row)
            report(f"{task.instance}: {row['selector']}", 1)
    return rows


def _perform_on_tapes(task: Task, seed: int, tape_folder: Path) -> Iterator[Row]:
    instance = INSTANCES[task.instance]
    setup = instance.set_up(seed, task.rounds)
    tapes = Tapes(setup.problem, setup.learners, instance.marks(task.rounds), seed)
    path = tape_folder / f"{task.instance}-{seed:05d}.npz"
    key = key_of(task.instance, task.rounds, TAPES, False, seed)
    known = load_tapes(tapes, path, key)
    recorded = tapes.recorded.copy()
    for label in task.labels:
        if label == LEARNERS:
            alone = range(len(setup.learners))
            regrets, rewards = [float(tapes.curve(i)[-1]) for i in alone], [tapes.total_reward(i) for i in alone]
            figures = {"regrets": regrets, "rewards": rewards, "seconds": sum(tapes.seconds)}
            yield {**_about(task, label, seed), **figures}
        else:
            selector = CONTENDERS[label].selector_for(setup, task.rounds)
            yield _result(task, label, seed, *run_from_tapes(tapes, selector))
    if not known or (tapes.recorded > recorded).any():
        save_tapes(tapes, path, key)


def _perform_solos(task: Task, label: str, seed: int) -> Row:
    """Every learner alone, or the greedy expert of every learner; each on a problem of its own, which may change."""
    instance, total = INSTANCES[task.instance], 0.0
    regrets: list[float | None] = []
    rewards: list[float | None] = []
    for i in range(len(_first_seed(task.instance, task.rounds).learners)):
        setup = instance.set_up(seed, task.rounds)
        problem, learner, marks = setup.problem, setup.learners[i], instance.marks(task.rounds)
        if label == GREEDY and "greedy" not in provides(learner):
            regrets.append(None)
            rewards.append(None)
            continue
        if setup.delays is not None:
            run, seconds = run_late(problem, LateLearner(learner), marks, seed, setup.delays)
        else:
            run, seconds = run_alone(problem, learner, marks, seed, lane=i, greedy=label == GREEDY)
        regrets.append(float(run.regret[-1]))
        rewards.append(float(run.reward[-1]))
        total += seconds
    return {**_about(task, label, seed), "regrets": regrets, "rewards": rewards, "seconds": total}


def _run(task: Task, seed: int) -> Row:
    (label,) = task.labels
    if label in (LEARNERS, GREEDY):
        return _perform_solos(task, label, seed)
    instance, contender = INSTANCES[task.instance], CONTENDERS[label]
    setup, marks = instance.set_up(seed, task.rounds), instance.marks(task.rounds)
    if task.way == ALONE:
        learner = contender.learner_for(setup, task.rounds)
        return _result(task, label, seed, *run_alone(setup.problem, learner, marks, seed))
    selector = contender.selector_for(setup, task.rounds, task.shared)
    shares = (task.shared and contender.build_shared is None) or None  # otherwise the selector decides who learns
    if setup.delays is None:
        run = run_jointly(setup.problem, setup.learners, selector, marks, seed, share_data=shares)
    else:
        player = LatePortfolio(setup.learners, selector, seed, shares)
        run = run_late(setup.problem, player, marks, seed, setup.delays)
    return _result(task, label, seed, *run)


def _about(task: Task, label: str, seed: int) -> Row:
    key = key_of(task.instance, task.rounds, label, task.shared, seed)
    return {"key": key, "instance": task.instance, "seed": seed, "selector": label, "shared": task.shared}


def _result(task: Task, label: str, seed: int, run: Curves, seconds: float) -> Row:
    instance = INSTANCES[task.instance]
    change, marks = instance.change(task.rounds), instance.marks(task.rounds)
    before = 0.0 if change is None else float(run.regret[np.searchsorted(marks, change)])
    return {
        **_about(task, label, seed),
        "regret": float(run.regret[-1]),
        "reward": float(run.reward[-1]),
        "regret_after_change": None if change is None else float(run.regret[-1]) - before,
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

        ways = {label: run_mode_of(name, length, label, False) for label in labels}
        learners = run_mode_of_learners(name, length)
        taped = [label for label, way in ways.items() if way == TAPES]
        taped += [LEARNERS] if learners == TAPES else []  # last: they play on beyond the tapes
        lacking = {label: set(missing(label, False)) for label in taped}
        for seed in seeds:
            wanted = tuple(label for label in taped if seed in lacking[label])
            if wanted:
                tasks.append(Task(name, length, (seed,), wanted, shared=False, way=TAPES))
        references = [] if learners == TAPES else [(LEARNERS, learners)]
        references += [(GREEDY, ALONE)] if has_greedy(name, length) else []
        for label, way in references:
            if left := missing(label, False):
                tasks.append(Task(name, length, tuple(left), (label,), shared=False, way=way))
        for shared in (False, True):
            for label in labels:
                way_or_none = run_mode_of(name, length, label, shared)
                if way_or_none not in (None, TAPES) and (left := missing(label, shared)):
                    tasks.append(Task(name, length, tuple(left), (label,), shared, way_or_none))
    return tasks
