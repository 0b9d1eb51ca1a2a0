"""Runs an experiment: seeds in parallel processes, finished seeds kept, missing ones computed, files written.

A seed is a function of settings and seed number alone, so results do not depend on the number of processes or on the
order in which they finish.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.lab.experiment import Experiment
from equipoise.lab.runs.results import Results
from equipoise.lab.runs.seeds import simulate_seed
from equipoise.lab.runs.store import RunFolder
from equipoise.settings.checks import count
from equipoise.storage.registry import command_name
from equipoise.types import Config, Plain


def complete_settings(
    experiment: Experiment,
    *,
    rounds: int | None = None,
    seeds: int | None = None,
    selectors: Sequence[str] | None = None,
    overrides: Mapping[str, Plain] | None = None,
) -> Config:
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


def _labels(experiment: Experiment, settings: Mapping[str, Plain], wanted: Sequence[str]) -> list[str]:
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
    jobs: Jobs | None = None,
    executor: Executor | None = None,
    overrides: Mapping[str, Plain] | None = None,
    progress: Report = silent,
) -> Results:
    """Run whatever seeds the folder `out` lacks and write its files.

    `jobs` is a number of local processes; `executor`, of `concurrent.futures`, runs seeds elsewhere. The results do not
    depend on them.
    `progress` is told shares of the whole run.
    """
    if not isinstance(experiment, Experiment):
        raise InvalidArgument(f"experiment is {experiment!r:.80}, but must be an Experiment")
    settings = complete_settings(experiment, rounds=rounds, seeds=seeds, selectors=selectors, overrides=overrides)
    workers = checked_jobs(jobs, executor)
    # Building refuses impossible settings before anything is written.
    setups = [experiment.set_up(settings, 0, instance) for instance in experiment.instances]
    about = {"title": experiment.title, "section": experiment.section, "claim": experiment.claim}
    named = {"instances": list(experiment.instances)} if len(experiment.instances) > 1 else {}
    folder = RunFolder(out, settings, {**about, **named})
    missing = folder.missing()
    n_curves = sum(len(setup.learners) + len(settings["selectors"]) for setup in setups)
    rounds_per_seed = settings["rounds"] * n_curves

    def tell(what: str, finished_rounds: float) -> None:
        progress(what, finished_rounds / (settings["seeds"] * rounds_per_seed))

    n_kept = settings["seeds"] - len(missing)
    tell(f"{n_kept} seeds kept from before" if n_kept else "compiling, then the first seeds", n_kept * rounds_per_seed)
    simulate = partial(simulate_seed, experiment, settings)
    name = f"experiment {experiment.name!r}"
    with run_tasks(simulate, missing, jobs=workers, what=name, report=tell) as finished:
        for _, result in finished:
            folder.add(result)
    widths = [setup.reward_width for setup in setups]
    return folder.finish(dict(zip(experiment.instances, widths, strict=True)))
