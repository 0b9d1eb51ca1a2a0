"""The figures by which learners and selectors are compared, over the seeds of a run.

On the same instance, with b the least mean regret of a learner alone, w the width of the rewards and T the rounds,

    ratio       = mean regret of the selector / b
    excess      = (mean regret of the selector - b) / (w sqrt(T))
    reward lost = (mean regret of the selector - b) / mean reward of that learner

The ratio says what selecting cost against knowing the best learner beforehand. Where that learner loses next to
nothing it is large whatever the selector does, as no selector avoids regret of order sqrt(T): excess and reward lost
say how much it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan, sqrt

import numpy as np

from equipoise import __version__
from equipoise.lab.runs.results import Curve, SeedResult
from equipoise.types import Config, Plain

Row = Config  # of `summary.json`, for one learner, selector or fact


def regret_unit(rounds: int, width: float) -> float:
    """Return w sqrt(T), the unit of excess regret."""
    return width * sqrt(rounds)


def summarize(
    seeds: Sequence[SeedResult], *, experiment: str, rounds: int, reward_width: float | Mapping[str, float]
) -> Config:
    """The content of `summary.json`. Standard errors are null with a single seed.

    `reward_width` is one for all instances, or by instance. Rows name their instance where there are several; "facts"
    is there only where an experiment states some.
    """
    learner_rows, selector_rows, fact_rows = [], [], []
    for instance in seeds[0].instances:
        width = reward_width[instance] if isinstance(reward_width, Mapping) else reward_width
        unit = regret_unit(rounds, width)
        named = {"instance": instance} if instance else {}
        learners = [{**named, **_learner_row(curves)} for curves in _curves(seeds, "learner", instance)]
        best = min(learners, key=lambda row: float(row["regret_mean"]), default=None)
        for curves in _curves(seeds, "selector", instance):
            shares = _eliminated_share(seeds, curves[0], len(learners))
            selector_rows.append({**named, **_selector_row(curves, best, unit, shares)})
        learner_rows += learners
        for name in seeds[0].facts.get(instance, {}):
            values = [seed.facts[instance][name] for seed in seeds]
            spread = {"median": float(np.median(values)), "least": min(values), "greatest": max(values)}
            fact_rows.append({**named, "name": name, **spread})
    return {
        "experiment": experiment,
        "rounds": rounds,
        "seeds": len(seeds),
        "version": __version__,
        "learners": learner_rows,
        "selectors": selector_rows,
        **({"facts": fact_rows} if fact_rows else {}),
    }


def rows_of(summary: Mapping[str, Plain], what: str, instance: str = "") -> list[Row]:
    """The rows "learners", "selectors" or "facts" of one instance."""
    return [row for row in summary.get(what, []) if row.get("instance", "") == instance]


def facts(summary: Mapping[str, Plain], instance: str = "") -> str:
    """Return the values that the simulation knows and the learners do not, as text; empty if there are none."""
    parts = []
    for fact in rows_of(summary, "facts", instance):
        smallest, median, largest = (f"{fact[key]:.3g}" for key in ("least", "median", "greatest"))
        spread = "" if smallest == largest else f" (median over seeds; {smallest} to {largest})"
        parts.append(f"{fact['name']} = {median}{spread}")
    return ", ".join(parts)


def small_percent(share: float | None) -> str:
    """Return a small share in percent; a dash if it is not known.

    >>> small_percent(0.01234), small_percent(-0.0004), small_percent(0.3), small_percent(None)
    ('1.2 %', '−0.04 %', '30 %', '–')
    """
    if share is None or isnan(share):
        return "–"
    value = abs(100 * share)
    places = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{'−' if share < 0 and round(value, places) else ''}{value:.{places}f} %"


def _curves(seeds: Sequence[SeedResult], kind: str, instance: str) -> list[tuple[Curve, ...]]:
    by_seed = []
    for seed in seeds:
        curves = {curve.name: curve for curve in seed.of_kind(kind, instance)}
        by_seed.append([curves[curve.name] for curve in seeds[0].of_kind(kind, instance)])
    return list(zip(*by_seed, strict=True))


def _learner_row(curves: Sequence[Curve]) -> Row:
    rewards = [curve.reward for curve in curves if curve.reward is not None]
    reward = float(np.mean(rewards)) if len(rewards) == len(curves) else None
    row = {"name": curves[0].name, **_regret(curves), "reward_mean": reward, "seconds": _seconds(curves)}
    if curves[0].well_specified is None:
        return row
    return {**row, "well_specified_share": sum(bool(curve.well_specified) for curve in curves) / len(curves)}


def _selector_row(curves: Sequence[Curve], best: Row | None, unit: float, eliminated_share: list[float]) -> Row:
    regret = _regret(curves)
    return {
        "name": curves[0].name,
        **regret,
        **_cost(regret, best, unit),
        "plays_mean": np.mean([() if curve.plays is None else curve.plays[-1] for curve in curves], axis=0).tolist(),
        "eliminated_share": eliminated_share,
        "certificate_violations": sum(bool(curve.violated) for curve in curves),
        "seconds": _seconds(curves),
    }


def _cost(regret: Row, best: Row | None, unit: float) -> Row:
    """What a selector loses beside the best learner alone; None where that is not defined."""
    if best is None:
        return dict.fromkeys(("ratio_mean", "ratio_se", "excess", "reward_lost"))
    least, reward, error = best["regret_mean"], best["reward_mean"], regret["regret_se"]
    more = regret["regret_mean"] - least
    return {
        "ratio_mean": regret["regret_mean"] / least if least > 0 else None,
        "ratio_se": error / least if least > 0 and error is not None else None,
        "excess": more / unit,
        "reward_lost": more / reward if reward is not None and reward > 0 else None,
    }


def _regret(curves: Sequence[Curve]) -> Row:
    regrets = np.array([curve.regret[-1] for curve in curves])
    error = float(regrets.std(ddof=1)) / sqrt(len(regrets)) if len(regrets) > 1 else None
    return {"regret_mean": float(regrets.mean()), "regret_se": error}


def _seconds(curves: Sequence[Curve]) -> float:
    return float(sum(curve.seconds for curve in curves))


def _eliminated_share(seeds: Sequence[SeedResult], selector: Curve, n_learners: int) -> list[float]:
    n_eliminated = [0] * n_learners
    for seed in seeds:
        for record in seed.eliminations:
            if (record.get("instance", ""), record["selector"]) == (selector.instance, selector.name):
                n_eliminated[record["learner"]["index"]] += 1
    return [n / len(seeds) for n in n_eliminated]
