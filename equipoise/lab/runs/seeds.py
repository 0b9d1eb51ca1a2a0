"""One seed of an experiment: on each instance, every learner alone and every selector.

Selectors run from tapes wherever that has the law of a joint run, and jointly with fresh learners elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from equipoise.certificates.fields import Record
from equipoise.certificates.records import Provable, elimination_record
from equipoise.errors import InvalidArgument
from equipoise.lab.executor import Report
from equipoise.lab.experiment import Experiment, Setup
from equipoise.lab.runs.results import Curve, SeedResult, log_rounds
from equipoise.learner import part_name
from equipoise.selector import Selector
from equipoise.selectors import Oracle
from equipoise.simulation.joint import run_jointly
from equipoise.simulation.parts import Curves
from equipoise.simulation.tapes import Tapes, run_on_tapes, why_not_tapes
from equipoise.types import Array, Integers, Plain


def simulate_seed(experiment: Experiment, settings: Mapping[str, Plain], seed: int, report: Report) -> SeedResult:
    """Everything one seed gives, from complete settings; reports are in rounds."""
    curves: list[Curve] = []
    records: list[Record] = []
    facts: dict[str, Mapping[str, float]] = {}
    for instance in experiment.instances:
        world = _open(experiment, settings, seed, instance)
        where = f"seed {seed}, {instance}" if instance else f"seed {seed}"
        selector_curves = []
        for label in settings["selectors"]:
            curve, eliminations = _run_selector(world, label)
            selector_curves.append(curve)
            records += eliminations
            report(f"{where}: {label}", settings["rounds"])
        alone = []
        for i, name in enumerate(world.names):
            alone.append(_play_alone(world, i))
            report(f"{where}: {name}", settings["rounds"])
        curves += [*_learner_curves(world, alone), *selector_curves]
        if found := world.setup.facts():
            facts[instance] = found
    return SeedResult(seed, tuple(curves), tuple(records), facts)


class _World(NamedTuple):
    """One seed of one instance."""

    setup: Setup
    fresh: Callable[[], Setup]  # the same again, untouched
    names: list[str]  # of the learners
    tapes: Tapes
    marks: Integers
    seed: int
    instance: str


def _open(experiment: Experiment, settings: Mapping[str, Plain], seed: int, instance: str) -> _World:
    def fresh() -> Setup:
        return experiment.set_up(settings, seed, instance)

    setup, marks = fresh(), log_rounds(settings["rounds"])
    names = [part_name(learner) for learner in setup.learners]
    if len(set(names)) != len(names):
        raise InvalidArgument(f"learners are named {names}, but names must differ: results are kept by name")
    return _World(setup, fresh, names, Tapes(setup.problem, setup.learners, marks, seed), marks, seed, instance)


def _run_selector(world: _World, label: str) -> tuple[Curve, list[Record]]:
    """The curve of a selector and the records of what it eliminated, if it states what proves them."""
    setup, tapes, marks, seed = world.setup, world.tapes, world.marks, world.seed
    selector, shared = setup.selectors[label], label in setup.shared
    if why_not_tapes(setup.problem, selector, shared) is None:
        run, seconds = run_from_tapes(tapes, selector)
    else:
        fresh = world.fresh()  # the learners on tape have learned already
        selector = fresh.selectors[label]
        run, seconds = run_jointly(fresh.problem, fresh.learners, selector, marks, seed, share_data=shared)
    certified = None if np.isnan(run.certified).all() else run.certified
    curve = Curve(
        "selector", label, marks, run.regret, certified, run.plays, world.instance, seconds, violated=violates(run)
    )
    if not isinstance(selector, Provable):
        return curve, []
    return curve, [
        elimination_record(
            gone,
            selector_label=label,
            seed=seed,
            selector=selector,
            learner_names=world.names,
            instance=world.instance,
        )
        for gone in selector.eliminations
    ]


def run_from_tapes(tapes: Tapes, selector: Selector) -> tuple[Curves, float]:
    """A run on tapes, with the seconds that selector and learners would take together."""
    run, seconds = run_on_tapes(tapes, selector)
    plays = run.plays[-1].tolist()
    return run, seconds + sum(n * tapes.seconds_per_play(i) for i, n in enumerate(plays))


def violates(run: Curves) -> bool:
    """Whether the certificate was below the true regret at a recorded round (allowing for rounding in long sums)."""
    return bool(np.any(run.certified < run.regret * (1 - 1e-12)))


def _play_alone(world: _World, i: int) -> tuple[Array, float]:
    """Regret and seconds of learner i alone."""
    if world.setup.problem.iid:
        return world.tapes.curve(i), world.tapes.seconds[i]
    # Contexts that depend on what is played are not on tape. The learner keeps its index, and with it its stream.
    setup = world.fresh()
    problem = setup.problem
    only = Oracle(len(setup.learners), best=i, reward_range=problem.reward_range, noise=problem.noise)
    run, seconds = run_jointly(problem, setup.learners, only, world.marks, world.seed)
    return run.regret, seconds


def _learner_curves(world: _World, alone: list[tuple[Array, float]]) -> list[Curve]:
    known = world.setup.well_specified
    true = [None] * len(alone) if known is None else known()
    return [
        Curve("learner", name, world.marks, regret, instance=world.instance, seconds=seconds, well_specified=holds)
        for name, (regret, seconds), holds in zip(world.names, alone, true, strict=True)
    ]
