"""Runs an experiment: seeds in parallel processes, finished seeds kept, missing ones computed, files written.

A seed is a function of settings and seed number alone. On each instance, every learner plays alone and every selector
runs: from tapes wherever that has the distribution of a joint run, and jointly with new learners elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from equipoise.certificates.fields import Record
from equipoise.certificates.records import elimination_record
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.lab.executor import Jobs, Report, checked_jobs, run_tasks, silent
from equipoise.lab.experiment import Experiment, Setup, chosen_labels, reward_width
from equipoise.lab.runs.results import Curve, Results, SeedResult
from equipoise.lab.runs.store import RunFolder
from equipoise.learner import find, part_name, unique_names
from equipoise.selector import Provable, Selector, eliminations_of
from equipoise.selectors import Oracle
from equipoise.settings.checks import count
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import Curves, log_rounds
from equipoise.simulation.tapes import Tapes, run_on_tapes, why_not_tapes
from equipoise.storage.registry import command_name
from equipoise.types import Array, Config, Integers, Plain


def simulate_seed(experiment: Experiment, settings: Mapping[str, Plain], seed: int, report: Report) -> SeedResult:
    """The results of one seed, from complete settings; `report` is called with numbers of rounds."""
    curves: list[Curve] = []
    records: list[Record] = []
    facts: dict[str, Mapping[str, float]] = {}
    for instance in experiment.instances:
        one = _open(experiment, settings, seed, instance)
        where = f"seed {seed}, {instance}" if instance else f"seed {seed}"
        selector_curves = []
        for label in settings["selectors"]:
            curve, eliminations = _run_selector(one, label)
            selector_curves.append(curve)
            records += eliminations
            report(f"{where}: {label}", settings["rounds"])
        alone = []
        for i, name in enumerate(one.names):
            alone.append(_play_alone(one, i))
            report(f"{where}: {name}", settings["rounds"])
        curves += [*_learner_curves(one, alone), *selector_curves]
        if found := one.setup.facts():
            facts[instance] = found
    return SeedResult(seed, tuple(curves), tuple(records), facts)


class _Instance(NamedTuple):
    setup: Setup
    fresh: Callable[[], Setup]  # a new, unused setup
    names: tuple[str, ...]  # of the learners, unique: results are stored and shown by name
    tapes: Tapes
    marks: Integers
    seed: int
    instance: str


def _open(experiment: Experiment, settings: Mapping[str, Plain], seed: int, instance: str) -> _Instance:
    def fresh() -> Setup:
        return experiment.set_up(settings, seed, instance)

    setup, marks = fresh(), log_rounds(settings["rounds"])
    names = unique_names([part_name(learner) for learner in setup.learners])
    return _Instance(setup, fresh, names, Tapes(setup.problem, setup.learners, marks, seed), marks, seed, instance)


def _run_selector(one: _Instance, label: str) -> tuple[Curve, list[Record]]:
    """The curve of a selector and the records of its eliminations, if they can be verified."""
    setup, tapes, marks, seed = one.setup, one.tapes, one.marks, one.seed
    selector, shared = setup.selectors[label], label in setup.shared
    if why_not_tapes(setup.problem, selector, shared) is None:
        run, seconds = run_from_tapes(tapes, selector)
    else:
        fresh = one.fresh()  # those on tape have already learned
        selector = fresh.selectors[label]
        run, seconds = run_jointly(fresh.problem, fresh.learners, selector, marks, seed, share_data=shared)
    certified = None if np.isnan(run.certified).all() else run.certified
    curve = Curve(
        "selector",
        label,
        marks,
        run.regret,
        certified,
        run.plays,
        one.instance,
        seconds=seconds,
        violated=violates(run),
    )
    proves = find(selector, Provable)
    if proves is None:
        return curve, []
    about: Config = {"selector_label": label, "seed": seed, "learner_names": one.names, "instance": one.instance}
    eliminations = eliminations_of(selector) or ()
    return curve, [elimination_record(proof, premises=proves.premises, **about) for proof in eliminations]


def run_from_tapes(tapes: Tapes, selector: Selector) -> tuple[Curves, float]:
    """A run on tapes, with the seconds that selector and learners would take together."""
    run, seconds = run_on_tapes(tapes, selector)
    plays = run.plays[-1].tolist()
    return run, seconds + sum(n * tapes.seconds_per_play(i) for i, n in enumerate(plays))


def violates(run: Curves) -> bool:
    """Whether the certificate was below the true regret at a recorded round (allowing for rounding in long sums)."""
    return bool(np.any(run.certified < run.regret * (1 - 1e-12)))


def _play_alone(one: _Instance, i: int) -> tuple[Array, float, float]:
    """Regret over time, total reward and seconds."""
    if one.setup.problem.iid:
        return one.tapes.curve(i), one.tapes.total_reward(i), one.tapes.seconds[i]
    # Contexts that depend on what is played are not on tape. The learner keeps its index, and with it its stream.
    setup = one.fresh()
    problem = setup.problem
    only = Oracle(len(setup.learners), best=i, reward_range=problem.reward_range, noise=problem.noise)
    run, seconds = run_jointly(problem, setup.learners, only, one.marks, one.seed)
    return run.regret, float(run.reward[-1]), seconds


def _learner_curves(one: _Instance, alone: list[tuple[Array, float, float]]) -> list[Curve]:
    check = one.setup.well_specified
    well_specified = [None] * len(alone) if check is None else check()
    return [
        Curve("learner", name, one.marks, regret, None, None, one.instance, reward, seconds, well_specified=holds)
        for name, (regret, reward, seconds), holds in zip(one.names, alone, well_specified, strict=True)
    ]


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
    selectors = experiment.set_up(settings, 0, experiment.instances[0]).selectors
    names = {label: command_name(type(selectors[label]).__name__) for label in experiment.selectors}
    return chosen_labels(f"selector of {experiment.name}", names, wanted)


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
    depend on them. `progress` is told shares of the whole run.
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
    widths = [reward_width(setup.problem) for setup in setups]
    return folder.finish(dict(zip(experiment.instances, widths, strict=True)))
