"""Runs an audit over processes. It passes if every claim holds and every control is detected by the claim it names."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass

from equipoise import __version__
from equipoise.lab.audit.claims import CLAIMS, CONFIDENCE, Finding
from equipoise.lab.audit.controls import CONTROLS
from equipoise.lab.audit.subjects import LATE, LATE_EPISODES, Outcome, Ratio, Task, perform, tasks
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.types import Config

VERSION = 3  # of audit.json


@dataclass(frozen=True)
class Audit:
    """All outcomes, in the order of the tasks for any number of processes."""

    outcomes: tuple[Outcome, ...]
    quick: bool

    @property
    def findings(self) -> list[Finding]:
        """The findings of all subjects except the controls."""
        return [row for outcome in self.outcomes if outcome.task.kind != "control" for row in outcome.findings]

    @property
    def checked(self) -> list[Finding]:
        """The findings that could have failed."""
        return [row for row in self.findings if row.can_fail]

    @property
    def broken(self) -> list[Finding]:
        return [row for row in self.findings if not row.holds]

    @property
    def ratios(self) -> list[Ratio]:
        return [ratio for outcome in self.outcomes for ratio in outcome.ratios]

    @property
    def caught(self) -> dict[str, list[str]]:
        """The rejected claims of each control."""
        controls = [outcome for outcome in self.outcomes if outcome.task.kind == "control"]
        return {o.task.name: [row.claim for row in o.findings if not row.holds] for o in controls}

    @property
    def passed(self) -> bool:
        return not self.broken and not self.missed

    @property
    def missed(self) -> list[str]:
        """The controls whose named claim was not rejected."""
        return [name for name, claims in self.caught.items() if CONTROLS[name].caught_by not in claims]

    def to_json(self) -> Config:
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
                {"control": o.task.name, "must_be_caught_by": CONTROLS[o.task.name].caught_by}
                | {"caught_by": self.caught[o.task.name]}
                | {"findings": [row.to_json() for row in o.findings]}
                for o in self.outcomes
                if o.task.kind == "control"
            ],
        }


def run(
    *, quick: bool = False, jobs: Jobs | None = None, executor: Executor | None = None, progress: Report = silent
) -> Audit:
    """Perform all tasks. `jobs` is a number of local processes; `executor`, of `concurrent.futures`, runs tasks
    elsewhere. `progress` is called with shares of the whole."""
    todo = tasks(quick)
    done: dict[Task, Outcome] = {}
    with run_tasks(perform, todo, jobs=checked_jobs(jobs, executor), what="the audit") as finished:
        for task, outcome in finished:
            done[task] = outcome
            progress(task.subject, 1 / len(todo))
    return Audit(tuple(done[task] for task in todo), quick)
