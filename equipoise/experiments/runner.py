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

from equipoise.errors import UnknownName
from equipoise.experiments.experiment import Experiment
from equipoise.experiments.names import command_name
from equipoise.experiments.results import Results, SeedResult
from equipoise.experiments.simulation import Report, simulate_seed
from equipoise.experiments.store import RunFolder
from equipoise.validation import count

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
    for label, selector in experiment.set_up(settings, 0, experiment.instances[0]).selectors.items():
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
    # Building refuses impossible settings before anything is written.
    setups = [experiment.set_up(settings, 0, instance) for instance in experiment.instances]
    about = {"title": experiment.title, "section": experiment.section, "claim": experiment.claim}
    named = {"instances": list(experiment.instances)} if len(experiment.instances) > 1 else {}
    folder = RunFolder(out, settings, {**about, **named})
    missing = folder.missing()
    n_curves = sum(len(setup.learners) + len(settings["selectors"]) for setup in setups)
    rounds_per_seed = settings["rounds"] * n_curves

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
    ranges = [setup.problem.reward_range for setup in setups]
    return folder.finish({name: high - low for name, (low, high) in zip(experiment.instances, ranges, strict=True)})


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
