"""Runs the suite: finds missing results, computes them, and gathers the tables.

A result is a function of instance, seed, selector and code alone. Results are appended to a log as they come in, one
row per instance, seed and selector, each with its cache key and checksum. A line that was cut off or altered is passed
over, and its result is computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from equipoise.errors import EquipoiseError, UnknownName
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.lab.experiment import chosen_labels, reward_width
from equipoise.lab.runs.summary import regret_unit
from equipoise.lab.suite.cells import GREEDY, LEARNERS, has_greedy, key_of, perform, plan, run_mode_of
from equipoise.lab.suite.contenders import CONTENDERS
from equipoise.lab.suite.instances import INSTANCES
from equipoise.lab.suite.leaderboard import Scores, with_references
from equipoise.settings.checks import count
from equipoise.storage.files import canonical_json, digest, make_folder, write_atomic
from equipoise.storage.registry import command_name
from equipoise.types import Array, Config

Row = Config  # of one run, or of all learners alone


class ResultLog:
    """The rows of a file by key; the latest counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, Row] = {}
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise EquipoiseError(f"'{path}' cannot be read: {error.strerror}") from error
        rows = [_row(line) for line in lines if line]
        self.rows = {row["key"]: row for row in rows if row is not None}
        if None in rows or lines[-1]:  # what follows must not be joined to half a line
            write_atomic(path, b"".join(_line(row) for row in self.rows.values()))

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows, each with its "key", on disk before anything else happens."""
        new = list(rows)
        with self.path.open("ab") as file:
            file.write(b"".join(_line(row) for row in new))
            file.flush()
            os.fsync(file.fileno())
        self.rows |= {row["key"]: row for row in new}


def _line(row: Row) -> bytes:
    return canonical_json({**row, "digest": digest(row)}) + b"\n"


def _row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
        return row if row["digest"] == digest(row) and isinstance(row["key"], str) else None
    except (ValueError, TypeError, KeyError):
        return None


LOG, TAPES = "results.jsonl", "tapes"
SEEDS = 20
TUNING_SEEDS = 1_000  # seeds below it are for tuning, the others for evaluation
FIRST_SEED = 2_000  # those from 1,000 on were seen with earlier versions
QUICK_INSTANCES = ("nested-middle", "ucb-width-noisy", "exploration-trap", "drift-swap", "late-rewards")
QUICK_ROUNDS, QUICK_SEEDS, QUICK_FIRST_SEED = 100, 2, 0
TABLES = ("alone", "shared")  # each learner learns from its own plays, or from all rounds it can use


@dataclass(frozen=True)
class Outcome:
    """A finished suite."""

    instances: tuple[str, ...]
    rounds: Mapping[str, int]  # by instance
    seeds: range
    learners: Mapping[str, tuple[str, ...]]  # their names by instance
    greedy: Mapping[str, Array]  # by instance: (seeds, learners) regrets of greedy experts alone, nan where none
    scores: Mapping[str, Scores]  # by table
    rows: Mapping[str, Mapping[tuple[str, str], list[Row]]]  # by table, then by label and instance: one row per seed

    def rows_of(self, table: str, label: str, within: Container[str]) -> list[Row]:
        """All rows of a selector on some instances."""
        mine = (rows for (other, name), rows in self.rows[table].items() if other == label and name in within)
        return [row for rows in mine for row in rows]

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)

    def after_change(self, table: str, label: str, instance: str) -> float | None:
        """The mean regret after the law has changed; None if it does not, or the selector is not compatible."""
        rows = self.rows[table].get((label, instance), [])
        after = [row["regret_after_change"] for row in rows]
        return None if not after or None in after else float(np.mean(after))

    @property
    def is_whole(self) -> bool:
        """Whether all instances, seeds and rounds are included."""
        every = {label for label in CONTENDERS if any(label in scores.selectors for scores in self.scores.values())}
        lengths = all(self.rounds.get(name) == instance.rounds for name, instance in INSTANCES.items())
        fresh = self.seeds.start == FIRST_SEED and self.n_seeds >= SEEDS
        return lengths and fresh and every == set(CONTENDERS)


def run_suite(
    *,
    out: Path,
    instances: Sequence[str] | None = None,
    selectors: Sequence[str] | None = None,
    seeds: int | None = None,
    first_seed: int | None = None,
    jobs: Jobs | None = None,
    executor: Executor | None = None,
    quick: bool = False,
    progress: Report = silent,
) -> Outcome:
    """Compute what the folder `out` lacks of these selectors; the tables show all that it has of any.

    `jobs` is a number of local processes; `executor`, of `concurrent.futures`, runs tasks elsewhere, on machines that
    see the folder `out`. `progress` is called with shares of the whole. Results are kept as they finish.
    """
    names = chosen_instances(instances, quick)
    selector_names = {label: command_name(each.selector) for label, each in CONTENDERS.items()}
    labels = chosen_labels("selector of the suite", selector_names, selectors or None)
    n_seeds = count("seeds", (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds)
    first = QUICK_FIRST_SEED if quick else FIRST_SEED
    first = first if first_seed is None else count("first_seed", first_seed, minimum=0)
    chosen = range(first, first + n_seeds)
    workers = checked_jobs(jobs, executor)
    rounds = {name: QUICK_ROUNDS if quick else INSTANCES[name].rounds for name in names}
    tape_folder = out / TAPES
    make_folder(tape_folder)
    log = ResultLog(out / LOG)
    tasks = plan(names, rounds, chosen, labels, log.rows)
    n_runs = sum(task.n_runs for task in tasks)
    progress(f"{n_runs:,} runs left" if n_runs else "nothing left to run", 0.0 if n_runs else 1.0)

    def advance(what: str, finished_runs: float) -> None:
        progress(what, finished_runs / n_runs)

    with run_tasks(partial(perform, tape_folder), tasks, jobs=workers, what="the suite", report=advance) as finished:
        for _, rows in finished:
            log.add(rows)
    return _gather(names, rounds, chosen, log)


def chosen_instances(wanted: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
    """The instances that are wanted, in the order of the suite."""
    for name in wanted or ():
        if name not in INSTANCES:
            raise UnknownName("instance", name, INSTANCES)
    kept = wanted or (QUICK_INSTANCES if quick else INSTANCES)
    return tuple(name for name in INSTANCES if name in set(kept))


def _gather(names: Sequence[str], rounds: Mapping[str, int], seeds: range, log: ResultLog) -> Outcome:
    def rows_of(name: str, label: str, shared: bool) -> list[Row]:
        keys = [key_of(name, rounds[name], label, shared, seed) for seed in seeds]
        return [log.rows[key] for key in keys if key in log.rows]

    solos = {name: rows_of(name, LEARNERS, False) for name in names}
    alone = {name: np.array([row["regrets"] for row in rows]) for name, rows in solos.items()}
    earned = {name: np.array([row["rewards"] for row in rows]) for name, rows in solos.items()}
    greedy = {
        name: np.array([row["regrets"] for row in rows_of(name, GREEDY, False)], float)
        for name in names
        if has_greedy(name, rounds[name])
    }
    setups = {name: INSTANCES[name].set_up(0, rounds[name]) for name in names}
    scores: dict[str, Scores] = {}
    gathered: dict[str, dict[tuple[str, str], list[Row]]] = {}
    for table in TABLES:
        shared = table == "shared"
        within = [name for name in names if setups[name].can_share or not shared]
        selectors: dict[str, dict[str, Array]] = {}
        gathered[table] = {}
        for label in CONTENDERS:
            compatible = [name for name in within if run_mode_of(name, rounds[name], label, shared)]
            found = {name: rows_of(name, label, shared) for name in compatible}
            if found and all(len(rows) == len(seeds) for rows in found.values()):
                selectors[label] = {
                    name: np.array([row["regret"] for row in rows], float) for name, rows in found.items()
                }
                gathered[table] |= {(label, name): rows for name, rows in found.items()}
        units = {name: regret_unit(rounds[name], reward_width(setups[name].problem)) for name in within}
        if within:
            learners_alone = {name: alone[name] for name in within}, {name: earned[name] for name in within}
            scores[table] = with_references(Scores(*learners_alone, selectors, units), greedy)
    learners = {name: tuple(learner.name for learner in setups[name].learners) for name in names}
    return Outcome(tuple(names), rounds, seeds, learners, greedy, scores, gathered)
