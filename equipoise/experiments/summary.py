"""The figures by which learners and selectors are compared, over the seeds of a run.

price = mean regret of the selector / max(least mean regret of a learner alone, w sqrt(T) / 4), with w the width of the
rewards and T the rounds: what selecting cost against knowing the best learner beforehand. The floor is there because
no selector avoids regret of order sqrt(T), however easy the problem is for its best learner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.experiments.results import SeedResult

PRICE_FLOOR = 0.25  # of w sqrt(T)


def summarize(seeds: Sequence[SeedResult], *, experiment: str, rounds: int, reward_width: float) -> dict[str, Any]:
    """The content of `summary.json`. Standard errors are null with a single seed."""
    learners = [curve.name for curve in seeds[0].of_kind("learner")]
    selectors = [curve.name for curve in seeds[0].of_kind("selector")]
    learner_rows: list[dict[str, Any]] = [
        {"name": name, **_regret(seeds, "learner", name), "seconds": _seconds(seeds, f"learner:{name}")}
        for name in learners
    ]
    floor = PRICE_FLOOR * reward_width * sqrt(rounds)
    denominator = max(floor, min((row["regret_mean"] for row in learner_rows), default=floor))
    selector_rows = []
    for name in selectors:
        regret = _regret(seeds, "selector", name)
        error = regret["regret_se"]
        selector_rows.append(
            {
                "name": name,
                **regret,
                "price_mean": regret["regret_mean"] / denominator,
                "price_se": None if error is None else error / denominator,
                "plays_mean": _final_plays(seeds, name).mean(axis=0).tolist(),
                "eliminated_share": _eliminated_share(seeds, name, len(learners)),
                "certificate_violations": sum(bool(seed.violations[name]) for seed in seeds),
                "seconds": _seconds(seeds, f"selector:{name}"),
            }
        )
    return {
        "experiment": experiment,
        "rounds": rounds,
        "seeds": len(seeds),
        "version": __version__,
        "learners": learner_rows,
        "selectors": selector_rows,
    }


def _regret(seeds: Sequence[SeedResult], kind: str, name: str) -> dict[str, Any]:
    regrets = np.array([curve.regret[-1] for curve in _curves(seeds, kind, name)])
    error = float(regrets.std(ddof=1)) / sqrt(len(regrets)) if len(regrets) > 1 else None
    return {"regret_mean": float(regrets.mean()), "regret_se": error}


def _curves(seeds: Sequence[SeedResult], kind: str, name: str) -> Iterable[Any]:
    for seed in seeds:
        (curve,) = (curve for curve in seed.of_kind(kind) if curve.name == name)
        yield curve


def _seconds(seeds: Sequence[SeedResult], key: str) -> float:
    return float(sum(seed.seconds.get(key, 0.0) for seed in seeds))


def _final_plays(seeds: Sequence[SeedResult], selector: str) -> NDArray[np.int64]:
    return np.array([curve.plays[-1] for curve in _curves(seeds, "selector", selector)])


def _eliminated_share(seeds: Sequence[SeedResult], selector: str, n_learners: int) -> list[float]:
    n_eliminated = [0] * n_learners
    for seed in seeds:
        for record in seed.eliminations:
            if record["selector"] == selector:
                n_eliminated[record["learner"]["index"]] += 1
    return [n / len(seeds) for n in n_eliminated]
