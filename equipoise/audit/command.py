"""Runs an audit over processes and judges it: everything must hold, and every control must be caught."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from equipoise import __version__
from equipoise.audit.claims import CLAIMS, CONFIDENCE, Finding
from equipoise.audit.subjects import LATE, LATE_EPISODES, Outcome, Ratio, Task, perform, tasks
from equipoise.validation import count

VERSION = 2  # of audit.json
Progress = Callable[[str, float], None]  # (what is finished, share of the whole)


@dataclass(frozen=True)
class Audit:
    """All outcomes, in the order of the tasks whatever the number of processes."""

    outcomes: tuple[Outcome, ...]
    quick: bool

    @property
    def findings(self) -> list[Finding]:
        """Of everything but the controls."""
        return [row for outcome in self.outcomes if outcome.task.kind != "control" for row in outcome.findings]

    @property
    def broken(self) -> list[Finding]:
        return [row for row in self.findings if not row.holds]

    @property
    def ratios(self) -> list[Ratio]:
        return [ratio for outcome in self.outcomes for ratio in outcome.ratios]

    @property
    def caught(self) -> dict[str, list[str]]:
        """The claims that each control broke."""
        controls = [outcome for outcome in self.outcomes if outcome.task.kind == "control"]
        return {o.task.name: [row.claim for row in o.findings if not row.holds] for o in controls}

    @property
    def passed(self) -> bool:
        return not self.broken and all(self.caught.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "equipoise": __version__,
            "quick": self.quick,
            "passed": self.passed,
            "confidence": CONFIDENCE,
            "late_rounds": LATE,
            "late_episodes": LATE_EPISODES,
            "claims": CLAIMS,
            "subjects": [outcome.task._asdict() for outcome in self.outcomes],
            "findings": [row.to_json() for row in self.findings],
            "certified_over_true": [
                {key: None if value != value else value for key, value in ratio._asdict().items()}
                for ratio in self.ratios
            ],
            "controls": [
                {"control": o.task.name, "caught_by": self.caught[o.task.name]}
                | {"findings": [row.to_json() for row in o.findings]}
                for o in self.outcomes
                if o.task.kind == "control"
            ],
        }


def run(*, quick: bool = False, jobs: int | None = None, progress: Progress = lambda what, share: None) -> Audit:
    """Perform all tasks, in parallel processes if there are several."""
    todo = tasks(quick)
    n_jobs = os.cpu_count() or 1 if jobs is None else count("jobs", jobs)
    done: dict[Task, Outcome] = {}

    def finish(outcome: Outcome) -> None:
        done[outcome.task] = outcome
        progress(outcome.task.subject, 1 / len(todo))

    if n_jobs == 1:
        for task in todo:
            finish(perform(task))
    else:
        _run_in_parallel(todo, n_jobs, finish)
    return Audit(tuple(done[task] for task in todo), quick)


def _run_in_parallel(todo: Sequence[Task], n_jobs: int, finish: Callable[[Outcome], None]) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(n_jobs, len(todo)), context, initializer=_start_worker) as pool:
        waiting = {pool.submit(perform, task) for task in todo}
        try:
            while waiting:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in finished:
                    finish(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its workers
