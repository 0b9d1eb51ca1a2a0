"""Measurements of the service in the form of Prometheus.

A series is one row of a table: its name, where its value is found, and its meaning. What a portfolio does not report is
left out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, isfinite, nan
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from equipoise.serve.logs import suppressed_lines
from equipoise.types import Config

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
N_BUCKETS = len(SECONDS) + 1
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Series(NamedTuple):
    """A series; one whose name ends in `_total` is a counter, any other one a gauge."""

    name: str
    source: str  # keys of nested tables, joined by dots; a list counts its entries
    text: str


# Of a portfolio: its status, `queue` and the numbers of its journal.
PORTFOLIO = (
    Series("equipoise_portfolio_failed", "failed", "Whether the portfolio answers 503: file, start or journal failed"),
    Series("equipoise_reload_rejected", "rejected", "Whether the last reload of the file was rejected"),
    Series("equipoise_journal_failed", "journal.failed", "Whether the portfolio accepts nothing more"),
    Series("equipoise_journal_damaged", "journal.damaged", "Damaged events and snapshots that checks have found"),
    Series("equipoise_journal_checked_events_total", "journal.checked", "Events that the slow check has read"),
    Series("equipoise_queue_depth", "queue", "Requests that wait for the writer"),
    Series("equipoise_journal_bytes", "journal.bytes", "Size of the journal's files"),
    Series("equipoise_events_total", "journal.events", "Events in the journal"),
    Series("equipoise_snapshot_age_events", "journal.snapshot_age", "Events since the newest snapshot"),
    Series("equipoise_snapshot_seconds", "journal.snapshot_seconds", "Pause of the portfolio at the last snapshot"),
    Series("equipoise_state_bytes", "journal.state_bytes", "Size of the newest snapshot"),
    Series("equipoise_snapshot_failed", "journal.snapshot_failed", "Whether the last snapshot failed"),
    Series("equipoise_decisions_total", "health.rounds", "Rounds that were decided"),
    Series("equipoise_unplayed_total", "health.unplayed", "Rounds that no learner played"),
    Series("equipoise_withdrawn_total", "health.withdrawn", "Rounds that did not happen"),
    Series("equipoise_expired_total", "health.expired", "Decisions that reached their deadline"),
    Series("equipoise_late_rewards_total", "health.ignored", "Rewards that arrived after the deadline"),
    Series("equipoise_open_decisions", "health.open", "Decisions that wait for their reward"),
    Series("equipoise_open_bytes", "health.open_bytes", "Memory of the decisions that wait for their reward"),
    Series("equipoise_units_bytes", "health.units_bytes", "Memory of the decisions that units keep"),
    Series("equipoise_overdue_decisions", "health.overdue", "Decisions past their deadline that are not closed yet"),
    Series("equipoise_extended_decisions", "health.extended", "Open decisions with deadlines that a start extended"),
    Series("equipoise_blocking_decisions", "health.blocking", "Decisions that hold up the rewards of others"),
    Series("equipoise_waiting_rounds", "health.waiting_rounds", "Rewarded rounds behind a missing reward"),
    Series("equipoise_waiting_bytes", "health.waiting_bytes", "Memory of the rounds behind a missing reward"),
    Series("equipoise_failed_updates", "health.failed_updates", "Updates that learners failed to make"),
    Series(
        *("equipoise_folded_differently", "health.folded_differently"),
        "Logged decisions for which the present rule has other odds",
    ),
    Series("equipoise_regret_upper", "certificate.regret_upper", "Certified upper bound on the total regret"),
    Series("equipoise_regret_lower", "certificate.regret_lower", "Certified lower bound on the total regret"),
    Series("equipoise_resolved_rounds", "certificate.resolved_rounds", "Rounds that count as evidence"),
)
# Of a learner: its rows of the standing and of the health.
LEARNER = (
    Series("equipoise_plays_total", "plays", "Rounds that a learner played"),
    Series("equipoise_substituted_total", "substituted", "Rounds in which a substitute acted for a learner"),
    Series("equipoise_refused_contexts_total", "refused", "Rounds that a learner sat out because of the context"),
    Series("equipoise_clipped_rows_total", "clipped_rows", "Updates of a learner with features scaled to its bound"),
    Series("equipoise_learner_failures_total", "failures", "Failures of a learner"),
    Series("equipoise_mean_reward", "mean_reward", "Mean reward of a learner's plays"),
    Series("equipoise_active", "active", "Whether a learner may be chosen"),
)
# Of the process: `Metrics.levels`.
PROCESS = (
    Series("equipoise_failed_portfolios", "failed_portfolios", "Portfolios, and files that tell no name, not served"),
    Series("equipoise_connections", "connections", "Open connections"),
    Series("equipoise_streams", "streams", "Open streams of events"),
)
REQUESTS = Series("equipoise_requests_total", "", "Requests by operation and status")
TIMES = Series("equipoise_request_seconds", "", "Time from request to answer, as a histogram")
STATES = Series("equipoise_learner_state", "state", "1 for the state of a learner")
SUPPRESSED = Series("equipoise_log_lines_suppressed_total", "", "Log lines that were not written, by kind")
ALL = (*PORTFOLIO, *LEARNER, STATES, *PROCESS, REQUESTS, TIMES, SUPPRESSED)
OF_PROCESS = ProcessCollector(registry=None)  # process_*: memory, time, files; on Linux


@dataclass(slots=True)
class Times:
    counts: list[int] = field(default_factory=lambda: [0] * N_BUCKETS)  # by the first limit that is not exceeded
    seconds: float = 0.0


class Metrics(Collector):
    """Counts and times of requests. They are counted in the event loop only, so plain numbers do."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: defaultdict[str, Times] = defaultdict(Times)
        self.statuses: dict[str, Config] = {}  # the last known ones, by portfolio
        self.levels: dict[str, Callable[[], float]] = {}  # numbers of the process, by the source of their series

    def count(self, operation: str, status: int, seconds: float) -> None:
        self._requests[operation, status] += 1
        times = self._times[operation]
        times.counts[bisect_left(SECONDS, seconds)] += 1
        times.seconds += seconds

    def counts_of(self, operation: str) -> list[int]:
        """Numbers of the requests of an operation, by the first limit of `SECONDS` that they did not exceed."""
        times = self._times.get(operation)
        return [0] * N_BUCKETS if times is None else list(times.counts)

    def collect(self) -> Iterable[Metric]:
        requests = _family(REQUESTS, "operation", "status")
        for (operation, status), number in self._requests.items():
            requests.add_metric([operation, str(status)], number)
        yield requests
        histogram = HistogramMetricFamily(TIMES.name, TIMES.text, labels=["operation"])
        for operation, times in self._times.items():
            limits = map(floatToGoString, (*SECONDS, inf))
            histogram.add_metric([operation], list(zip(limits, accumulate(times.counts), strict=True)), times.seconds)
        yield histogram
        lines = _family(SUPPRESSED, "kind")
        for kind, number in suppressed_lines().items():
            lines.add_metric([kind], number)
        yield lines
        levels = {key: read() for key, read in self.levels.items()}
        yield from (_filled(series, [([], levels)]) for series in PROCESS)
        yield from OF_PROCESS.collect()

    def expose(self, portfolios: Mapping[str, Config]) -> bytes:
        """Return everything as text; `portfolios` has the facts of each by its name."""
        registry = CollectorRegistry()
        registry.register(self)
        facts: dict[str, Config] = {}
        for name, about in portfolios.items():
            facts[name] = dict(about)
            if journal := about.get("journal"):
                age, failed = journal["events"] - journal["snapshot"], journal["snapshot_error"] != ""
                facts[name]["journal"] = {**journal, "snapshot_age": age, "snapshot_failed": failed}
        registry.register(_Portfolios(facts))
        return bytes(generate_latest(registry))


class _Portfolios(Collector):
    """What the portfolios say about themselves at the time of the request."""

    def __init__(self, facts: Mapping[str, Config]) -> None:
        self._facts = facts

    def collect(self) -> Iterable[Metric]:
        of_portfolios = [([name], facts) for name, facts in self._facts.items()]
        yield from (_filled(series, of_portfolios, "portfolio") for series in PORTFOLIO)
        of_learners = list(self._learners())
        yield from (_filled(series, of_learners, "portfolio", "learner") for series in LEARNER)
        states = _family(STATES, "portfolio", "learner", "state")
        for labels, row in of_learners:
            states.add_metric([*labels, row["state"]], 1.0)
        yield states

    def _learners(self) -> Iterator[tuple[list[str], Config]]:
        for name, facts in self._facts.items():
            if "health" in facts:
                for row, about in zip(facts["standing"], facts["health"]["learners"], strict=True):
                    yield [name, row["name"]], {**about, **row}


def _family(series: Series, *labels: str) -> Any:
    make = CounterMetricFamily if series.name.endswith("_total") else GaugeMetricFamily
    return make(series.name, series.text, labels=labels)


def _filled(series: Series, rows: Iterable[tuple[list[str], Config]], *labels: str) -> Metric:
    family = _family(series, *labels)
    for values, row in rows:
        value: Any = row
        for key in series.source.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        number = len(value) if isinstance(value, list) else value
        if number is not None and isfinite(number):
            family.add_metric(values, float(number))
    return family


def quantile(q: float, counts: Sequence[float]) -> float:
    """Return the time in seconds that a share q of the requests did not exceed, interpolated within its bucket.

    >>> quantile(0.5, [0.0] * 4 + [10.0] + [0.0] * 7)
    0.0075
    """
    rank, below = q * sum(counts), 0.0
    if not rank:
        return nan
    for k, count in enumerate(counts[:-1]):
        if below + count >= rank:
            low = SECONDS[k - 1] if k else 0.0
            return low + (SECONDS[k] - low) * (rank - below) / count
        below += count
    return SECONDS[-1]
