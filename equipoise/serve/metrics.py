"""Measurements of the service in the form of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import inf, isfinite, nan

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from equipoise.types import Config

SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
N_BUCKETS = len(SECONDS) + 1
MEDIA_TYPE = CONTENT_TYPE_LATEST

# Names and meaning of what is read from `Portfolio.health()`.
COUNTS = {
    "rounds": ("decisions", "Rounds that were decided"),
    "unplayed": ("unplayed", "Rounds that no learner played"),
    "withdrawn": ("withdrawn", "Rounds that did not happen"),
    "expired": ("expired", "Decisions that reached their deadline"),
    "ignored": ("late_rewards", "Rewards that arrived after the deadline"),
}
LEVELS = {
    "open": ("open_decisions", "Decisions that wait for their reward"),
    "overdue": ("overdue_decisions", "Decisions past their deadline that are not closed yet"),
    "failed_updates": ("failed_updates", "Updates that learners failed to make"),
    "folded_differently": ("folded_differently", "Logged decisions for which the present rule has other odds"),
}
CERTIFIED = {
    "regret_upper": ("regret_upper", "Certified upper bound on the total regret"),
    "regret_lower": ("regret_lower", "Certified lower bound on the total regret"),
    "resolved_rounds": ("resolved_rounds", "Rounds that count as evidence"),
}


@dataclass(slots=True)
class Times:
    counts: list[int] = field(default_factory=lambda: [0] * N_BUCKETS)  # by the first limit that is not exceeded
    seconds: float = 0.0


class Metrics(Collector):
    """Counts and times of requests. They are counted in the event loop only, so plain numbers do."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times: defaultdict[str, Times] = defaultdict(Times)

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
        labels = ["operation", "status"]
        requests = CounterMetricFamily("equipoise_requests", "Requests by operation and status", labels=labels)
        for (operation, status), number in self._requests.items():
            requests.add_metric([operation, str(status)], number)
        yield requests
        text = "Time from request to answer"
        histogram = HistogramMetricFamily("equipoise_request_seconds", text, labels=["operation"])
        for operation, times in self._times.items():
            limits = map(floatToGoString, (*SECONDS, inf))
            histogram.add_metric([operation], list(zip(limits, accumulate(times.counts), strict=True)), times.seconds)
        yield histogram

    def expose(self, statuses: Mapping[str, Config], depths: Mapping[str, int]) -> bytes:
        """Everything as text; `statuses` and `depths` are those of the portfolios."""
        registry = CollectorRegistry()
        registry.register(self)
        registry.register(_Portfolios(statuses, depths))
        return bytes(generate_latest(registry))


class _Portfolios(Collector):
    """What the portfolios say about themselves at the time of the request."""

    def __init__(self, statuses: Mapping[str, Config], depths: Mapping[str, int]) -> None:
        self._statuses, self._depths = statuses, depths

    def collect(self) -> Iterable[Metric]:
        yield _levels("equipoise_queue_depth", "Requests that wait for the writer", self._depths)
        for key, (suffix, text) in COUNTS.items():
            counts = CounterMetricFamily(f"equipoise_{suffix}", text, labels=["portfolio"])
            for name, status in self._statuses.items():
                counts.add_metric([name], status["health"][key])
            yield counts
        for part, table in (("health", LEVELS), ("certificate", CERTIFIED)):
            for key, (suffix, text) in table.items():
                values = {name: status[part][key] for name, status in self._statuses.items()}
                yield _levels(f"equipoise_{suffix}", text, values)
        blocked = {name: len(status["health"]["blocking"]) for name, status in self._statuses.items()}
        yield _levels("equipoise_blocking_decisions", "Decisions that hold up the rewards of others", blocked)
        yield from self._learners()

    def _learners(self) -> Iterable[Metric]:
        labels = ["portfolio", "learner"]
        plays = CounterMetricFamily("equipoise_plays", "Rounds that a learner played", labels=labels)
        means = GaugeMetricFamily("equipoise_mean_reward", "Mean reward of a learner's plays", labels=labels)
        active = GaugeMetricFamily("equipoise_active", "Whether a learner may be chosen", labels=labels)
        states = GaugeMetricFamily("equipoise_learner_state", "1 for the state of a learner", labels=[*labels, "state"])
        for name, status in self._statuses.items():
            for row, about in zip(status["standing"], status["health"]["learners"], strict=True):
                pair = [name, row["name"]]
                plays.add_metric(pair, row["plays"])
                active.add_metric(pair, float(row["active"]))
                states.add_metric([*pair, about["state"]], 1.0)
                if row["mean_reward"] is not None:
                    means.add_metric(pair, row["mean_reward"])
        yield from (plays, means, active, states)


def _levels(name: str, text: str, values: Mapping[str, float | None]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=["portfolio"])
    for portfolio, value in values.items():
        if value is not None and isfinite(value):
            family.add_metric([portfolio], value)
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
