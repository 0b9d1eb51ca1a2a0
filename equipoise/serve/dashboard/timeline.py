"""Samples of a portfolio over time, bounded: fine ones of the last minutes, coarse ones of the last months.

Every number of a sample that is counted (plays, rewards, requests) is a total since the first round, so a coarser
timeline is the same with samples left out, and what happened between any two samples is their difference. Each tier
keeps `MAX_ROWS` samples that are at least its period apart.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, isnan, nan

import numpy as np

from equipoise.portfolio.statements import Sample
from equipoise.serve.metrics import N_BUCKETS, quantile
from equipoise.types import Config, Plain

MAX_ROWS = 180
SPANS = {"15m": 900, "2h": 7_200, "1d": 86_400, "1w": 604_800, "90d": 7_776_000}  # seconds
MANY_LEARNERS, THINNED = 16, 2  # with more learners, every second sample is sent
VERSION = 1
FIXED = (
    *("time", "round", "regret_lower", "regret_upper", "optimum_lower", "optimum_upper"),
    *("open", "overdue", "failed_updates"),
)
HEAD = len(FIXED) + N_BUCKETS
PER_LEARNER = 5  # plays; number and sum of rewards that arrived; mean reward of what counts, and its radius


@dataclass(frozen=True, slots=True)
class Row:
    """One sample. Means and radii are nan for a learner without a play that counts."""

    numbers: array[float]

    def __getitem__(self, name: str) -> float:
        return self.numbers[FIXED.index(name)]

    @property
    def requests(self) -> Sequence[float]:
        """Totals of requests by time, in the buckets of `latency`."""
        return self.numbers[len(FIXED) : HEAD]

    @property
    def n_learners(self) -> int:
        return (len(self.numbers) - HEAD) // PER_LEARNER

    def column(self, k: int) -> Sequence[float]:
        """One number of each learner, in the order of `PER_LEARNER`."""
        return self.numbers[HEAD + k :: PER_LEARNER]

    @property
    def arrived(self) -> tuple[float, float]:
        """Number and sum of all rewards."""
        return sum(self.column(1)), sum(self.column(2))


class Timeline:
    def __init__(self) -> None:
        self._tiers: dict[str, deque[Row]] = {span: deque(maxlen=MAX_ROWS) for span in SPANS}
        self.start: tuple[float, float] | None = None  # number and sum of the rewards of the first decisions
        self.last: Row | None = None

    def add(self, row: Row) -> None:
        """Add a sample, later than all before."""
        self.last = row
        for span, rows in self._tiers.items():
            if not rows or row["time"] - rows[-1]["time"] >= SPANS[span] / MAX_ROWS:
                rows.append(row)

    def rows(self, span: str, now: Row) -> list[Row]:
        """The samples of a span up to now, the oldest first, with one from just before it if there is one."""
        since = now["time"] - SPANS[span]
        rows = [row for row in self._tiers[span] if row["time"] > since and row["time"] < now["time"]]
        return [*rows[:: THINNED if now.n_learners > MANY_LEARNERS else 1], now]

    def all_rows(self) -> list[Row]:
        by_time = {row["time"]: row for rows in self._tiers.values() for row in rows}
        if self.last is not None:
            by_time[self.last["time"]] = self.last
        return [by_time[time] for time in sorted(by_time)]

    def state(self) -> Config:
        rows = self.all_rows()
        return {
            "version": VERSION,
            "buckets": N_BUCKETS,
            "start": self.start,
            "lengths": np.array([len(row.numbers) for row in rows], np.int64),
            "numbers": np.array([number for row in rows for number in row.numbers], np.float64),
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Load what `state` returned; nothing if it is of another form, because a timeline can be done without."""
        if state.get("version") != VERSION or state.get("buckets") != N_BUCKETS:
            return
        self.start = None if state["start"] is None else (float(state["start"][0]), float(state["start"][1]))
        ends = np.cumsum(state["lengths"])
        for numbers in np.split(np.asarray(state["numbers"], np.float64), ends[:-1]) if len(ends) else ():
            self.add(Row(array("d", numbers.tolist())))


def times_of(rounds: Sequence[int], rows: Sequence[Row]) -> list[float | None]:
    """When each round was, as exactly as the samples tell; None if it was before the first."""
    seen = [row["round"] for row in rows]
    places = [bisect_left(seen, round_) for round_ in rounds]
    return [rows[k]["time"] if 0 < k < len(rows) else None for k in places]


def columns(rows: Sequence[Row]) -> Config:
    """Samples as columns, as the page draws them; `reward` and latencies are about the time since the sample before."""
    n_learners = rows[-1].n_learners
    between = [None, *pairwise(rows)]
    return {
        **{name: [short(row[name]) for row in rows] for name in FIXED},
        "time": [round(row["time"], 1) for row in rows],
        "reward": [None if pair is None else short(mean_between(*pair)) for pair in between],
        **{
            name: [None if pair is None else _latency(q, *pair) for pair in between]
            for name, q in (("median_ms", 0.5), ("slow_ms", 0.99))
        },
        **{
            name: [[_entry(row, k, i) for row in rows] for i in range(n_learners)]
            for name, k in (("plays", 0), ("mean_rewards", 3), ("mean_radii", 4))
        },
    }


def history_columns(samples: Sequence[Sample], now: Row) -> Config:
    """The history of a portfolio, at log-spaced rounds since the first, in the form of `columns`."""
    blank = [nan] * (3 + N_BUCKETS)
    rows = []
    for each in samples:
        if each.round < now["round"]:
            learners = _flat(each.plays, each.mean_rewards, each.mean_radii)
            rows.append(Row(array("d", [nan, each.round, *each.regret, *each.optimum, *blank, *learners])))
    last = Row(array("d", [*now.numbers[:HEAD], *_flat(*(now.column(k) for k in (0, 3, 4)))]))
    return {**columns([*rows, last]), "time": [None] * (len(rows) + 1)}


def _flat(plays: Sequence[float], means: Sequence[float], radii: Sequence[float]) -> list[float]:
    """The numbers of all learners; a history knows the rewards that count, not those that arrived."""
    rows = zip(plays, means, radii, strict=True)
    return [
        number
        for n, mean, radius in rows
        for number in ((n, 0.0, 0.0, mean, radius) if isnan(mean) else (n, n, n * mean, mean, radius))
    ]


def mean_between(before: Row, after: Row) -> float:
    """Mean of the rewards that arrived between two samples; nan if there were none, or it is not known."""
    (n, total), (n_after, total_after) = before.arrived, after.arrived
    return (total_after - total) / (n_after - n) if n_after > n else nan


def _latency(q: float, before: Row, after: Row) -> float | None:
    counts = [b - a for a, b in zip(before.requests, after.requests, strict=True)]
    if any(count < 0 for count in counts):  # the service was started in between
        counts = list(after.requests)
    return None if isnan(sum(counts)) else short(1e3 * quantile(q, counts))


def _entry(row: Row, k: int, i: int) -> float | None:
    return short(row.numbers[HEAD + PER_LEARNER * i + k]) if i < row.n_learners else None


def short(number: float) -> float | int | None:
    """A number for a chart: whole, or with five digits; None if it is not finite."""
    if not isfinite(number):
        return None
    return int(number) if abs(number) < 1e15 and number == int(number) else float(f"{number:.5g}")
