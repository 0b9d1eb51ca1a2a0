"""Runs an experiment: seeds in parallel processes, finished seeds kept, missing ones computed, files written.

A seed is a function of settings and seed number alone, so results do not depend on the number of processes or on the
order in which they finish.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.experiments.experiment import Experiment, Setup
from equipoise.experiments.names import command_name
from equipoise.experiments.results import Curve, Results, SeedResult, log_rounds
from equipoise.experiments.store import RunFolder
from equipoise.simulate.tapes import Curves, Tapes, run_on_tapes, why_not_tapes
from equipoise.theory.certificates import elimination_record
from equipoise.validation import count

Report = Callable[[str, int], None]  # (what is going on, rounds finished since the last report)
Progress = Callable[[str, float], None]  # (what is going on, share of the whole run finished since the last call)
_report: Report = lambda what, rounds: None  # noqa: E731 - replaced in worker processes


def complete_settings(
    experiment: Experiment,
    *,
    rounds: int | None = None,
    seeds: int | None = None,
    selectors: Sequence[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The settings of a run, defaults filled in; unknown keys and labels are refused."""
    settings = {"experiment": experiment.name, **experiment.defaults}
    for key, value in (overrides or {}).items():
        if key not in experiment.defaults:
            raise UnknownName(f"setting of {experiment.name}", key, experiment.defaults)
        settings[key] = value
    for key, value in (("rounds", rounds), ("seeds", seeds)):
        settings[key] = count(key, settings[key] if value is None else value)
    labels = experiment.selectors if selectors is None else _labels(experiment, settings, selectors)
    return {**settings, "selectors": list(labels)}


def _labels(experiment: Experiment, settings: Mapping[str, Any], wanted: Sequence[str]) -> list[str]:
    """The labels that are wanted, in the experiment's order; the name of a selector stands for all its variants."""
    variants: dict[str, set[str]] = {label: {label} for label in experiment.selectors}
    for label, selector in experiment.build(settings, 0).selectors.items():
        variants.setdefault(command_name(type(selector).__name__), set()).add(label)
    for name in wanted:
        if name not in variants:
            raise UnknownName(f"selector of {experiment.name}", name, variants)
    chosen = set().union(*(variants[name] for name in wanted))
    return [label for label in experiment.selectors if label in chosen]


def run(
    experiment: Experiment,
    *,
    out: str | Path,
    rounds: int | None = None,
    seeds: int | None = None,
    selectors: Sequence[str] | None = None,
    jobs: int | None = None,
    overrides: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Results:
    """Run whatever seeds the folder `out` lacks and write its files."""
    settings = complete_settings(experiment, rounds=rounds, seeds=seeds, selectors=selectors, overrides=overrides)
    n_jobs = os.cpu_count() or 1 if jobs is None else count("jobs", jobs)
    setup = experiment.build(settings, 0)  # refuses impossible settings before anything is written
    about = {"title": experiment.title, "section": experiment.section, "claim": experiment.claim}
    folder = RunFolder(out, settings, about)
    missing = folder.missing()
    rounds_per_seed = settings["rounds"] * (len(setup.learners) + len(settings["selectors"]))

    def tell(what: str, finished_rounds: int) -> None:
        if progress is not None:
            progress(what, finished_rounds / (settings["seeds"] * rounds_per_seed))

    n_kept = settings["seeds"] - len(missing)
    tell(f"{n_kept} seeds kept from before" if n_kept else "compiling, then the first seeds", n_kept * rounds_per_seed)
    if n_jobs == 1 or len(missing) <= 1:
        for seed in missing:
            folder.add(simulate_seed(experiment, settings, seed, tell))
    else:
        _run_in_parallel(experiment, settings, missing, min(n_jobs, len(missing)), folder, tell)
    low, high = setup.problem.reward_range
    return folder.finish(high - low)


def simulate_seed(experiment: Experiment, settings: Mapping[str, Any], seed: int, report: Report) -> SeedResult:
    """One seed: every learner alone and every selector, on the same instance."""
    setup = experiment.build(settings, seed)
    chosen = {label: setup.selectors[label] for label in settings["selectors"]}
    marks = log_rounds(settings["rounds"])
    names = _learner_names(setup)
    tapes = Tapes(setup.problem, setup.learners, marks, seed)
    seconds: dict[str, float] = {}
    selector_curves: list[Curve] = []
    records: list[dict[str, Any]] = []
    violations = {}
    for label, selector in chosen.items():
        reason = why_not_tapes(setup.problem, selector, setup.share_data)
        if reason is not None:
            raise InvalidArgument(f"{label} cannot run from tapes: {reason}")
        curves, own_seconds = run_on_tapes(tapes, selector)
        plays = curves.plays[-1]
        seconds[f"selector:{label}"] = own_seconds + sum(
            int(plays[i]) * tapes.seconds_per_play(i) for i in range(len(names))
        )
        selector_curves.append(Curve("selector", label, marks, curves.regret, curves.certified, curves.plays))
        violations[label] = _violated(curves)
        records += [
            elimination_record(elimination, selector_label=label, seed=seed, selector=selector, learner_names=names)
            for elimination in selector.eliminations
        ]
        report(f"seed {seed}: {label}", settings["rounds"])
    learner_curves = []
    for i, name in enumerate(names):
        learner_curves.append(Curve("learner", name, marks, tapes.curve(i)))
        seconds[f"learner:{name}"] = tapes.seconds[i]
        report(f"seed {seed}: {name}", settings["rounds"])
    return SeedResult(seed, (*learner_curves, *selector_curves), tuple(records), seconds, violations)


def _violated(curves: Curves) -> bool:
    """Whether the certificate was below the true regret at a recorded round (allowing for rounding in long sums)."""
    return bool(np.any(curves.certified < curves.regret * (1 - 1e-12)))


def _learner_names(setup: Setup) -> list[str]:
    names = [learner.name for learner in setup.learners]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"learners are named {names}, but names must differ: results are kept by name")
    return names


def _run_in_parallel(
    experiment: Experiment,
    settings: Mapping[str, Any],
    seeds: Sequence[int],
    n_jobs: int,
    folder: RunFolder,
    tell: Report,
) -> None:
    context = multiprocessing.get_context("spawn")  # forking is unsafe once polars has started its threads
    reports: Any = context.Queue()
    with ProcessPoolExecutor(n_jobs, context, initializer=_start_worker, initargs=(reports,)) as pool:
        waiting = {pool.submit(_work, experiment.name, dict(settings), seed) for seed in seeds}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.1, return_when=FIRST_COMPLETED)
                _forward(reports, tell)
                for future in done:
                    folder.add(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise
    _forward(reports, tell)


def _forward(reports: Any, tell: Report) -> None:
    while True:
        try:
            tell(*reports.get_nowait())
        except queue.Empty:
            return


def _start_worker(reports: Any) -> None:
    global _report
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process ends its workers
    _report = lambda what, rounds: reports.put((what, rounds))  # noqa: E731


def _work(name: str, settings: Mapping[str, Any], seed: int) -> SeedResult:
    from equipoise.experiments import EXPERIMENTS

    return simulate_seed(EXPERIMENTS[name], settings, seed, _report)
