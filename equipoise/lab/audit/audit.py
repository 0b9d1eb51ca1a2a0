"""What is audited, with how many runs and rounds, how a subject is run, and the outcome of all.

A subject is an experiment's instance, a family of scheduled learners, a lemma, a sharp setting, late rewards learned in
order, delays of some kind, or a control; each is one task. Its runs are functions of settings and seed alone, so the
findings do not depend on how subjects are spread over processes. An audit passes if every claim holds and every control
is detected by the claim it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import nan
from statistics import median
from typing import NamedTuple

import numpy as np

from equipoise import __version__
from equipoise.lab.audit.claims import CLAIMS, CONFIDENCE, Finding, Seen, findings
from equipoise.lab.audit.controls import CONTROLS
from equipoise.lab.audit.judging import run_and_evaluate
from equipoise.lab.audit.late import IN_ORDER, VALID_DELAYS
from equipoise.lab.audit.lemmas import CERTAIN, LEMMAS, drawn_plays
from equipoise.lab.audit.pools import FAMILIES, make_pool
from equipoise.lab.audit.sharp import SHARP, could_have_ended
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.lab.experiment import Experiment, reward_width
from equipoise.lab.experiments import EXPERIMENTS
from equipoise.lab.runs.runner import violates
from equipoise.learners._core.linear_class import well_spaced
from equipoise.selectors import AdversarialElimination, BalancedElimination
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import Curves, log_rounds
from equipoise.simulation.tapes import Tapes
from equipoise.simulation.watch import Facts, optimum_of
from equipoise.theory.adversarial import adversarial_guarantee, balanced_regret_bounds
from equipoise.types import Config, Integers, Plain

LATE, LATE_EPISODES = 200, 40  # delay of low rewards, in rounds and in episodes
DELTA = 0.05
VERSION = 1  # of audit.json

# Rounds and runs of a full audit; the runs are spread over the instances of an experiment.
SIZES: dict[str, tuple[int, int]] = {
    "nested": (3000, 1000),
    "misspecification": (4000, 1000),
    "confidence": (2000, 1000),
    "ucb-width": (4000, 1000),
    "context-or-not": (2000, 1000),
    "adversarial": (2000, 1000),
    "linear-mdp": (400, 100),
    "exploration-bonus": (400, 100),
    "bellman-error": (400, 100),
    "ball": (600, 100),
}
EPISODIC = ("linear-mdp", "exploration-bonus", "bellman-error")
SAME_OPTIMUM = ("nested",)  # for all seeds, as the distribution of actions is rotation invariant
QUICK, SLOW_LEMMAS = ("ucb-width",), ("least squares",)  # included in, and left out of, a quick audit
SCHEDULED, LEMMA = (6000, 1000), (2000, 1000)
OTHER_SIZES = {"sharp": (1000, 300), "in order": (1500, 100), "delays": (700, 300)}
# By kind, what simulates one run of each subject.
SIMULATED: dict[str, Mapping[str, Callable[[int, int], Iterator[Seen]]]] = {
    "lemma": LEMMAS,
    "sharp": SHARP,
    "in order": IN_ORDER,
    "delays": VALID_DELAYS,
}
QUICK_RUNS = {"experiment": 20, "scheduled": 20, "lemma": 40, "sharp": 15, "in order": 2, "delays": 20}


class Task(NamedTuple):
    """One subject."""

    kind: str  # experiment, scheduled, lemma, sharp, in order, delays or control
    name: str
    instance: str
    rounds: int
    runs: int

    @property
    def subject(self) -> str:
        return f"{self.name}: {self.instance}" if self.instance else self.name


class Ratio(NamedTuple):
    """Certified over true regret, the median over the runs in which an active learner has kept its bound."""

    subject: str
    selector: str
    rounds: int
    late: bool
    runs: int
    certified: float
    true: float
    ratio: float


class Outcome(NamedTuple):
    """The findings of a task."""

    task: Task
    findings: list[Finding]
    ratios: list[Ratio]


def tasks(quick: bool = False) -> list[Task]:
    """All tasks, the longest first so that processes finish at about the same time."""
    found = []
    for name, (rounds, runs) in SIZES.items():
        if not quick or name in QUICK:
            instances = EXPERIMENTS[name].instances
            each = QUICK_RUNS["experiment"] if quick else -(-runs // len(instances))
            found += [Task("experiment", name, instance, rounds, each) for instance in instances]
    for kind, subjects, (rounds, runs) in (
        ("scheduled", product(FAMILIES, ("gap", "no gap")), SCHEDULED),
        ("lemma", [(name, "") for name in LEMMAS if not quick or name not in SLOW_LEMMAS], LEMMA),
        *((kind, [(name, "") for name in SIMULATED[kind]], size) for kind, size in OTHER_SIZES.items()),
    ):
        found += [Task(kind, *subject, rounds, QUICK_RUNS[kind] if quick else runs) for subject in subjects]
    found += [
        Task("control", name, "", control.rounds, control.quick_runs if quick else control.runs)
        for name, control in CONTROLS.items()
    ]
    return found


def perform(task: Task, report: Report = silent) -> Outcome:
    """Run a subject."""
    match task.kind:
        case "experiment" if task.name == "adversarial":
            return _adversarial(task)
        case "experiment":
            return _experiment(task)
        case "scheduled":
            return _scheduled(task)
        case kind:
            simulate = CONTROLS[task.name].simulate if kind == "control" else SIMULATED[kind][task.name]
            seen = [row for seed in range(task.runs) for row in simulate(seed, task.rounds)]
            certain = CERTAIN if kind == "lemma" else ("balancing",)
            return Outcome(task, findings(f"{kind}: {task.name}", seen, DELTA, certain), [])


def _experiment(task: Task) -> Outcome:
    experiment = EXPERIMENTS[task.name]
    settings = {**experiment.defaults, "rounds": task.rounds, "selectors": list(experiment.selectors)}
    episodic = task.name in EPISODIC
    seen: dict[tuple[str, int], list[Seen]] = {}
    facts: dict[tuple[str, int], list[Facts]] = {}
    for seed in range(task.runs):
        setup = experiment.set_up(settings, seed, task.instance)
        tapes = Tapes(setup.problem, setup.learners, np.array([task.rounds]), seed)
        optimum = _optimum(task.name, task.instance, task.rounds) if task.name in SAME_OPTIMUM else None
        # The paper's claims are about selectors that are given candidate bounds.
        for label, selector in setup.selectors.items():
            if not isinstance(selector, BalancedElimination):
                continue
            if label in setup.shared:
                seen.setdefault((label, 0), []).append(_shared_certificate(experiment, settings, task, seed, label))
                continue
            # An observed bound of an episode is known only at its end, but tapes hold it from the start.
            comes_late = not (episodic and selector.observed)
            for late in (0, LATE_EPISODES if episodic else LATE) if comes_late else (0,):
                known = optimum_of(setup.problem, seed) if optimum is None else optimum
                optimum = known
                found, claims = run_and_evaluate(tapes, selector, known, late=late)
                seen.setdefault((label, late), []).extend(claims)
                facts.setdefault((label, late), []).append(found)
    rows = []
    for (label, late), own in seen.items():
        subject = f"{task.subject}, {label}{', late rewards' if late else ''}"
        rows += findings(subject, own, settings["delta"])
    ratios = [_ratio(task, label, late, own, row) for (label, late), own in facts.items() for row in range(2)]
    return Outcome(task, rows, ratios)


def _shared_certificate(
    experiment: Experiment, settings: Mapping[str, Plain], task: Task, seed: int, label: str
) -> Seen:
    """The certificate where learners share data, at recorded rounds of a joint run, whether or not bounds hold."""
    setup = experiment.set_up(settings, seed, task.instance)
    marks = log_rounds(task.rounds)
    run, _ = run_jointly(setup.problem, setup.learners, setup.selectors[label], marks, seed, share_data=True)
    can_fail = bool(run.certified[-1] < reward_width(setup.problem) * task.rounds)
    return Seen("certificate", float(run.certified[-1]), float(run.regret[-1]), violates(run), can_fail)


def _scheduled(task: Task) -> Outcome:
    subject, rows, ratios = f"scheduled {task.subject}", [], []
    for late in (0, LATE):
        seen: list[Seen] = []
        facts = []
        for seed in range(task.runs):
            pool = make_pool(task.name, gap=task.instance == "gap", delta=DELTA)
            tapes = Tapes(pool.problem, pool.learners, np.array([task.rounds]), seed)
            found, claims = run_and_evaluate(
                tapes, pool.selector, pool.problem.optimum, late=late, declared=pool.declared, gaps=pool.gaps
            )
            seen += claims
            facts.append(found)
        rows += findings(f"{subject}{', late rewards' if late else ''}", seen, DELTA, ("balancing", "declared"))
        ratios += [_ratio(task, "balanced", late, facts, row) for row in range(2)]
    return Outcome(task, rows, ratios)


def _ratio(task: Task, label: str, late: int, facts: list[Facts], row: int) -> Ratio:
    pairs = [(float(found.certified[row]), float(found.regret[row])) for found in facts if found.supported[row]]
    return _median_ratio(task.subject, label, (task.rounds // 4, task.rounds)[row], late > 0, pairs)


def _median_ratio(subject: str, label: str, rounds: int, late: bool, pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Of pairs of certified and true regret."""
    shares = [certified / regret for certified, regret in pairs if regret > 0]
    certified, true = (median(pair[k] for pair in pairs) if pairs else nan for k in range(2))
    return Ratio(subject, label, rounds, late, len(pairs), certified, true, median(shares) if shares else nan)


@cache
def _optimum(name: str, instance: str, rounds: int) -> float:
    experiment = EXPERIMENTS[name]
    settings = {**experiment.defaults, "rounds": rounds}
    return float(np.mean([optimum_of(experiment.set_up(settings, seed, instance).problem, seed) for seed in range(5)]))


def _adversarial(task: Task) -> Outcome:
    """Algorithm 3 with learners that learn from their own rounds, and from all."""
    experiment = EXPERIMENTS[task.name]
    settings = {**experiment.defaults, "rounds": task.rounds}
    rows, ratios = [], []
    for label in ("adversarial", "adversarial-shared"):
        seen: list[Seen] = []
        pairs = []
        for seed in range(task.runs):
            setup = experiment.set_up(settings, seed, task.instance)
            selector, marks = setup.selectors[label], log_rounds(task.rounds)
            assert isinstance(selector, AdversarialElimination)
            run, _ = run_jointly(setup.problem, setup.learners, selector, marks, seed, share_data=label in setup.shared)
            true = list(setup.well_specified()) if setup.well_specified else []
            seen += _evaluate_epochs(selector, run, marks, true)
            pairs.append((float(run.certified[-1]), float(run.regret[-1])))
        rows += findings(f"{task.subject}, {label}", seen, settings["delta"])
        ratios.append(_median_ratio(task.subject, label, task.rounds, False, pairs))
    return Outcome(task, rows, ratios)


def _evaluate_epochs(
    selector: AdversarialElimination, run: Curves, marks: Integers, true: list[bool]
) -> Iterator[Seen]:
    regret, rounds = float(run.regret[-1]), int(marks[-1])
    trivial = reward_width(selector) * rounds
    eliminated = [end.learner.index for end in selector.eliminations]
    wrong = sum(not holds for holds in true)
    could_end = bool(eliminated) or could_have_ended(selector)
    yield Seen("epochs", wrong + 1.0, len(eliminated) + 1.0, any(true[i] for i in eliminated), could_end)
    yield Seen("certificate", float(run.certified[-1]), regret, violates(run), bool(run.certified[-1] < trivial))
    promise = adversarial_guarantee(selector.classes, wrong, rounds=rounds, delta=selector.delta, noise=selector.noise)
    yield Seen("closed form", promise, regret, regret > promise, promise < trivial)
    kept = [i for i, fine in enumerate(well_spaced(selector.sizes)) if fine]
    weights = {i: 1 / selector.sizes[i] for i in kept}
    first_end = selector.eliminations[0].round if eliminated else rounds
    chances = [weights.get(i, 0.0) / sum(weights.values()) for i in range(selector.n_learners)]
    marked = [(mark, plays) for mark, plays in zip(marks.tolist(), run.plays, strict=True) if mark <= first_end]
    moments = ((mark, float(plays[i]), chances[i]) for mark, plays in marked for i in kept)
    yield drawn_plays(moments, len(kept), selector.confidence.alpha)
    if not eliminated:
        limit = balanced_regret_bounds(
            selector.classes, rounds=rounds, alpha=selector.confidence.alpha, chances=chances
        )
        total = float(selector.kernel_state.epoch[0].regrets)
        yield Seen("epoch bounds", limit, total, total > limit, limit < trivial)


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
            "certified_over_true": [ratio._asdict() for ratio in self.ratios],
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
