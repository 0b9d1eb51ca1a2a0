"""The tables of a run as text, the same in the terminal and in the report."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import NamedTuple

from equipoise.lab.runs.summary import rows_of
from equipoise.types import Plain

COLUMNS = ("regret", "price", "eliminated", "violations", "seconds")


class Row(NamedTuple):
    kind: str  # "learner" or "selector"
    name: str
    cells: tuple[str, ...]  # one per column


def overview(summary: Mapping[str, Plain], instance: str = "") -> list[Row]:
    """Learners alone, then selectors, with the numbers of `summary.json`; cells that do not apply are empty."""
    learners, seeds = rows_of(summary, "learners", instance), summary["seeds"]
    rows = [Row("learner", row["name"], (_regret(row), "", "", "", _seconds(row["seconds"]))) for row in learners]
    for row in rows_of(summary, "selectors", instance):
        shares = zip(learners, row["eliminated_share"], strict=True)
        eliminated = [f"{learner['name']} {round(share * seeds)}/{seeds}" for learner, share in shares if share > 0]
        price = with_error(row["price_mean"], row["price_se"])
        violations = f"{row['certificate_violations']} of {seeds}"
        cells = (_regret(row), price, "\n".join(eliminated) or "none", violations, _seconds(row["seconds"]))
        rows.append(Row("selector", row["name"], cells))
    return rows


def plays(summary: Mapping[str, Plain], instance: str = "") -> list[Row]:
    """Mean plays of every learner, as share of the rounds, one row per selector and one cell per learner."""
    return [
        Row("selector", row["name"], tuple(f"{100 * mean / summary['rounds']:.1f} %" for mean in row["plays_mean"]))
        for row in rows_of(summary, "selectors", instance)
    ]


def facts(summary: Mapping[str, Plain], instance: str = "") -> str:
    """What the simulation knows but the learners do not; empty where the experiment states nothing."""
    parts = []
    for fact in rows_of(summary, "facts", instance):
        smallest, median, largest = (f"{fact[key]:.3g}" for key in ("least", "median", "greatest"))
        spread = "" if smallest == largest else f" (median over seeds; {smallest} to {largest})"
        parts.append(f"{fact['name']} = {median}{spread}")
    return ", ".join(parts)


def with_error(mean: float, error: float | None) -> str:
    """A mean and its standard error, with a number of digits that suits the mean.

    >>> with_error(4782.2, 379.7), with_error(47.23, 3.64), with_error(0.0123, None)
    ('4,782 ± 380', '47.2 ± 3.6', '0.0123')
    """
    places = 0 if abs(mean) >= 100 else 1 if abs(mean) >= 10 else 2
    if 0 < abs(mean) < 1:
        return f"{mean:.3g}" if error is None else f"{mean:.3g} ± {error:.2g}"
    return f"{mean:,.{places}f}" if error is None else f"{mean:,.{places}f} ± {error:,.{places}f}"


def _regret(row: Mapping[str, Plain]) -> str:
    return with_error(row["regret_mean"], row["regret_se"])


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.2f}"


def command_line(settings: Mapping[str, Plain], defaults: Mapping[str, Plain], selectors: tuple[str, ...]) -> str:
    """The command that repeats a run; settings at their default and a full set of selectors are left out."""
    words = ["equipoise", "run", settings["experiment"]]
    words += ["--rounds", str(settings["rounds"]), "--seeds", str(settings["seeds"])]
    if tuple(settings["selectors"]) != selectors:
        words += ["--selectors", ",".join(settings["selectors"])]
    for key, value in settings.items():
        if key in ("experiment", "rounds", "seeds", "selectors") or (key in defaults and defaults[key] == value):
            continue
        words += ["--set", f"{key}={json.dumps(value, ensure_ascii=False)}"]
    return shlex.join(words)
