"""Made-up seed results in the shape of real ones, so that files, figures and report are tested without a simulator."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.bounds import Power
from equipoise.certificates import Elimination, Evidence
from equipoise.certificates.records import elimination_record
from equipoise.confidence import radius_sum
from equipoise.lab.runs.results import Curve, Results, SeedResult, log_rounds
from equipoise.lab.runs.store import RunFolder
from equipoise.selectors import BalancedElimination
from equipoise.storage.files import digest

LEARNERS = ("small", "right", "large")
SELECTORS = ("balanced-a", "balanced-b")
ABOUT = {"title": "A made-up experiment", "section": "Nowhere", "claim": "The selector finds the right learner."}


def settings(rounds: int = 1000, seeds: int = 3, **others: Any) -> dict[str, Any]:
    return {
        "experiment": "made-up",
        "rounds": rounds,
        "seeds": seeds,
        "selectors": list(SELECTORS),
        "size": 4,
        **others,
    }


def record_of(seed: int, selector: str, learners: Sequence[str], learner: int, rounds: int) -> dict[str, Any]:
    """A true elimination record: the learner earned nothing, its witness everything."""
    maker = BalancedElimination([Power(1.0)] * len(learners))
    n = rounds // 2

    def evidence(index: int, reward_sum: float) -> Evidence:
        return Evidence(index, n, reward_sum, float(np.sqrt(n)), radius_sum(maker.confidence.radius, n))

    witness = (learner + 1) % len(learners)
    elimination = Elimination(rounds, evidence(learner, 0.0), evidence(witness, float(n)))
    return elimination_record(
        elimination, selector_label=selector, seed=seed, premises=maker.premises, learner_names=learners
    )


def seed_result(
    seed: int,
    rounds: int = 1000,
    learners: Sequence[str] = LEARNERS,
    selectors: Sequence[str] = SELECTORS,
    eliminate: bool = True,
    instances: Sequence[str] = ("",),
) -> SeedResult:
    """One seed, with facts and true and false presumptions where there are several instances."""
    curves, records = [], []
    for position, instance in enumerate(instances):
        found, eliminations = _curves(seed, rounds, learners, selectors, eliminate)
        for i, curve in enumerate(found):
            named = replace(curve, seconds=0.5, instance=instance, regret=(1 + position) * curve.regret)
            known = curve.kind == "learner" and len(instances) > 1
            curves.append(replace(named, well_specified=i > 0) if known else named)
        records += [sealed({**record, "instance": instance}) if instance else record for record in eliminations]
    facts = {instance: {"size*": 0.5 + 0.1 * seed} for instance in instances if instance}
    return SeedResult(seed, tuple(curves), tuple(records), facts)


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with the digest it needs."""
    content = {key: value for key, value in record.items() if key != "digest"}
    return {**content, "digest": digest(content)}


def _curves(
    seed: int, rounds: int, learners: Sequence[str], selectors: Sequence[str], eliminate: bool
) -> tuple[list[Curve], list[dict[str, Any]]]:
    """Linear regret for the first learner and root-like for the others; the first selector eliminates the first."""
    recorded = log_rounds(rounds)
    chances = np.random.default_rng([seed, rounds, len(learners)])
    curves = []
    for i, name in enumerate(learners):
        regret = np.asarray(0.3 * recorded if i == 0 else i * np.sqrt(recorded), np.float64)
        curves.append(Curve("learner", name, recorded, regret * chances.uniform(0.9, 1.1)))
    for j, name in enumerate(selectors):
        turns = np.arange(rounds) % len(learners)  # in turn; once the first is eliminated, the second plays for it
        if j == 0 and eliminate:
            turns[(turns == 0) & (np.arange(rounds) >= rounds // 2)] = 1
        counts = np.cumsum(turns[:, None] == np.arange(len(learners)), axis=0)
        plays = counts[recorded - 1]
        regret = (2 + j) * np.sqrt(recorded) * chances.uniform(0.9, 1.1)
        curves.append(Curve("selector", name, recorded, regret, np.minimum(5 * regret, recorded), plays))
    records = [record_of(seed, selectors[0], learners, 0, rounds - seed)] if eliminate else []
    return curves, records


def finished_run(folder: Path, rounds: int = 1000, seeds: int = 3, **shape: Any) -> Results:
    """A finished run folder of made-up results."""
    named = {"instances": list(shape["instances"])} if "instances" in shape else {}
    run = RunFolder(folder, settings(rounds, seeds), {**ABOUT, **named})
    for seed in run.missing():
        run.add(seed_result(seed, rounds, **shape))
    return run.finish(reward_width=1.0)
