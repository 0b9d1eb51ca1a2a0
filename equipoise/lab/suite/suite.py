"""Runs the suite: finds missing results, computes them, and gathers the tables.

What is computed is a function of instance, seed, selector and code alone, so the tables do not depend on the number of
processes, on the order in which they finish or on how often the run was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equipoise.errors import EquipoiseError, UnknownName
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.lab.suite.cells import LEARNERS, key_of, perform, plan, way_of
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Scores, floor, with_oracle
from equipoise.lab.suite.results import ResultLog, Row
from equipoise.settings.checks import count
from equipoise.storage.registry import command_name
from equipoise.types import Array

LOG, TAPES = "results.jsonl", "tapes"
SEEDS = 20
FIRST_SEED = 1_000  # seeds below it are for tuning, the others for evaluation
QUICK_INSTANCES, QUICK_ROUNDS, QUICK_SEEDS = ("nested-middle", "ucb-width-noisy", "exploration-trap"), 100, 2
TABLES = ("alone", "shared")  # each learner learns from its own plays, or from all rounds it can use


@dataclass(frozen=True)
class Outcome:
    """A finished suite."""

    instances: tuple[str, ...]
    rounds: Mapping[str, int]  # by instance
    n_seeds: int
    learners: Mapping[str, tuple[str, ...]]  # their names by instance
    scores: Mapping[str, Scores]  # by table
    rows: Mapping[str, Mapping[tuple[str, str], list[Row]]]  # by table, then by label and instance: one row per seed

    def rows_of(self, table: str, label: str) -> list[Row]:
        """All rows of a selector."""
        return [row for (other, _), rows in self.rows[table].items() if other == label for row in rows]

    @property
    def is_whole(self) -> bool:
        """Whether all instances, seeds and rounds are included."""
        every = {label for label in CONTENDERS if any(label in scores.selectors for scores in self.scores.values())}
        lengths = all(self.rounds.get(name) == instance.rounds for name, instance in INSTANCES.items())
        return lengths and self.n_seeds >= SEEDS and every == set(CONTENDERS)


def run_suite(
    *,
    out: Path,
    instances: Sequence[str] | None = None,
    selectors: Sequence[str] | None = None,
    seeds: int | None = None,
    jobs: Jobs | None = None,
    executor: Executor | None = None,
    quick: bool = False,
    progress: Report = silent,
) -> Outcome:
    """Compute what the folder `out` lacks of these selectors; the tables show all that it has of any.

    `jobs` is a number of local processes; `executor`, of `concurrent.futures`, runs tasks elsewhere, on machines that
    see the folder `out`. `progress` is told shares of the whole.
    """
    names = chosen_instances(instances, quick)
    labels = chosen_labels(selectors)
    n_seeds = count("seeds", (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds)
    workers = checked_jobs(jobs, executor)
    rounds = {name: QUICK_ROUNDS if quick else INSTANCES[name].rounds for name in names}
    tape_folder = out / TAPES
    try:
        tape_folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EquipoiseError(f"folder '{tape_folder}' cannot be made: {error.strerror}") from error
    log = ResultLog(out / LOG)
    tasks = plan(names, rounds, seeds_of(n_seeds), labels, log.rows)
    n_runs = sum(task.n_runs for task in tasks)
    progress(f"{n_runs:,} runs left" if n_runs else "nothing left to run", 0.0 if n_runs else 1.0)

    def advance(what: str, finished_runs: float) -> None:
        progress(what, finished_runs / n_runs)

    with run_tasks(partial(perform, tape_folder), tasks, jobs=workers, what="the suite", report=advance) as finished:
        for _, rows in finished:
            log.add(rows)
    return _gather(names, rounds, n_seeds, log)


def seeds_of(n_seeds: int) -> range:
    return range(FIRST_SEED, FIRST_SEED + n_seeds)


def chosen_instances(wanted: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
    """The instances that are wanted, in the order of the suite."""
    for name in wanted or ():
        if name not in INSTANCES:
            raise UnknownName("instance", name, INSTANCES)
    kept = wanted or (QUICK_INSTANCES if quick else INSTANCES)
    return tuple(name for name in INSTANCES if name in set(kept))


def chosen_labels(wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The contenders that are wanted, by label or by the name of their selector, in the order of the suite."""
    variants: dict[str, set[str]] = {}
    for label, contender in CONTENDERS.items():
        for name in {label, command_name(contender.selector)}:
            variants.setdefault(name, set()).add(label)
    for name in wanted or ():
        if name not in variants:
            raise UnknownName("selector of the suite", name, variants)
    chosen = set().union(*(variants[name] for name in wanted)) if wanted else set(CONTENDERS)
    return tuple(label for label in CONTENDERS if label in chosen)


def _gather(names: Sequence[str], rounds: Mapping[str, int], n_seeds: int, log: ResultLog) -> Outcome:
    """The tables of every contender whose results are complete."""

    def rows_of(name: str, label: str, shared: bool) -> list[Row]:
        keys = [key_of(name, rounds[name], label, shared, seed) for seed in seeds_of(n_seeds)]
        return [log.rows[key] for key in keys if key in log.rows]

    alone = {name: np.array([row["regrets"] for row in rows_of(name, LEARNERS, False)]) for name in names}
    setups = {name: INSTANCES[name].set_up(0, rounds[name]) for name in names}
    scores: dict[str, Scores] = {}
    gathered: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for table in TABLES:
        shared = table == "shared"
        within = [name for name in names if setups[name].can_share or not shared]
        selectors: dict[str, dict[str, Array]] = {}
        gathered[table] = {}
        for label in CONTENDERS:
            compatible = [name for name in within if way_of(name, rounds[name], label, shared)]
            found = {name: rows_of(name, label, shared) for name in compatible}
            if found and all(len(rows) == n_seeds for rows in found.values()):
                selectors[label] = {
                    name: np.array([row["regret"] for row in rows], float) for name, rows in found.items()
                }
                gathered[table] |= {(label, name): rows for name, rows in found.items()}
        floors = {name: floor(rounds[name], setups[name].width) for name in within}
        if within:
            scores[table] = with_oracle(Scores({name: alone[name] for name in within}, selectors, floors))
    learners = {name: tuple(learner.name for learner in setups[name].learners) for name in names}
    return Outcome(tuple(names), rounds, n_seeds, learners, scores, gathered)
