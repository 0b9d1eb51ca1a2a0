"""Health of a log: whether its propensities, its order and its events can be what they are said to be.

If an action with offered alternatives 1, ..., K was drawn with probability p, then 1 / (K p) has expectation 1 as long
as every offered action can be taken: it is the importance weight of the uniform policy. With the probabilities of all
actions in the log, the expectation is known even if some are 0, and so are the variance and the largest weight, which
may not occur in the log. Wrong propensities move the mean away from its expectation.
One reading of the log in memory that does not grow with it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from math import log as ln
from math import sqrt

import numpy as np

from equipoise.logs.intervals import Interval
from equipoise.logs.rounds import NO_ID, LoggedRounds, Rounds
from equipoise.types import Array, Config, Integers

DELTA = 0.001  # of the interval of the mean weight
MAX_BACKWARD_SHARE = 0.01  # of rounds whose time is before that of the round above
N_SEGMENTS = 10  # of the log, to look for shifts
SHIFT_DEVIATIONS = 4.5  # standard errors from which on a segment counts as shifted: about 1e-5 for one segment
MAX_IDS = 1 << 20  # kept to count duplicates; beyond, a random part of them


@dataclass(frozen=True)
class Check:
    """One property of a log; `passed` is None for what is reported but may have good reasons."""

    name: str
    passed: bool | None
    text: str


@dataclass(frozen=True)
class Health:
    n_rounds: int
    n_actions: int
    n_excluded: int  # events that the log itself excludes
    n_skipped: int  # faulty rows
    reward_range: tuple[float, float]
    mean_reward: float
    min_propensity: float
    mean_weight: float  # of the uniform policy
    expected_weight: float
    weight_interval: Interval
    effective_sample_size: float  # of the uniform policy
    max_weight: float
    action_shares: tuple[float, ...]
    segment_rewards: tuple[float, ...]
    segment_shares: tuple[tuple[float, ...], ...]
    checks: tuple[Check, ...] = field(default=())

    @property
    def passed(self) -> bool:
        return all(check.passed is not False for check in self.checks)

    def to_json(self) -> Config:
        return {**asdict(self), "passed": self.passed}

    def describe(self) -> str:
        """One line per check."""
        marks = {True: "ok", False: "FAILED", None: "note"}
        return "\n".join(f"{marks[check.passed]:>6}  {check.name}: {check.text}" for check in self.checks)


def health(log: LoggedRounds) -> Health:
    """Read a log once and check it: importance weights, duplicates, order, shifts of rewards and of action shares.

    Examples
    --------
    >>> from equipoise.logs import from_arrays
    >>> log = from_arrays(None, [0, 1] * 500, [1.0, 0.0] * 500, [0.5] * 1_000)
    >>> health(log).passed, health(from_arrays(None, [0, 1] * 500, [1.0] * 1_000, [0.9] * 1_000)).passed
    (True, False)
    """
    totals, ids = _Totals(log), _Duplicates()
    backward, last_time = 0, -np.inf
    for batch in log:
        totals.add(batch)
        ids.add(batch)
        times = np.concatenate([[last_time], batch.times])
        backward += int((times[1:] < times[:-1]).sum())
        last_time = times[-1] if not np.isnan(times[-1]) else last_time
    return totals.result(ids.share, backward)


class _Totals:
    def __init__(self, log: LoggedRounds) -> None:
        self.log, self.done = log, 0
        self.weight_sum = self.weight_squares = self.max_weight = self.expected_sum = 0.0
        self.error_sum = self.error_squares = 0.0  # of rounds without the probabilities of all actions
        self.variance_sum = self.largest_possible = 0.0  # of rounds with them
        self.counts: Integers = np.zeros((N_SEGMENTS, log.n_actions), np.int64)
        self.rewards: Array = np.zeros((N_SEGMENTS, 2))  # sums of rewards and of their squares
        self.has_times = False

    def add(self, batch: Rounds) -> None:
        weights = 1.0 / (batch.n_offered * batch.propensities)
        known = ~np.isnan(batch.pmf).all(axis=1)
        supported = (batch.pmf > 0.0).sum(axis=1) / batch.n_offered
        expected = np.where(known, supported, 1.0)
        self.weight_sum += float(weights.sum())
        self.weight_squares += float((weights**2).sum())
        self.expected_sum += float(expected.sum())
        errors = np.where(known, 0.0, weights - expected)
        self.error_squares += float((errors**2).sum())
        self.error_sum += float(errors.sum())
        taken = batch.pmf > 0.0
        possible = np.where(taken, 1.0 / (batch.n_offered[:, None] * np.where(taken, batch.pmf, 1.0)), 0.0)
        second_moments = (possible**2 * np.where(taken, batch.pmf, 0.0)).sum(axis=1)
        self.variance_sum += float((second_moments - supported**2)[known].sum())
        self.largest_possible = max(self.largest_possible, float(possible.max(initial=0.0)))
        self.max_weight = max(self.max_weight, float(weights.max()))
        segments = (np.arange(self.done, self.done + batch.n_rounds) * N_SEGMENTS) // self.log.n_rounds
        np.add.at(self.counts, (segments, batch.actions), 1)
        np.add.at(self.rewards, segments, np.stack([batch.rewards, batch.rewards**2], axis=1))
        self.done += batch.n_rounds
        self.has_times = self.has_times or bool((~np.isnan(batch.times)).any())

    def result(self, duplicate_share: float | None, backward: int) -> Health:
        log, n = self.log, self.log.n_rounds
        mean, expected = self.weight_sum / n, self.expected_sum / n
        error = self.error_sum / n
        variance = max(self.error_squares / n - error**2, 0.0) + max(self.variance_sum / n, 0.0)
        level, largest = ln(4.0 / DELTA), max(self.max_weight, self.largest_possible)
        radius = sqrt(2.0 * variance * level / n) + 7.0 * largest * level / (3.0 * max(n - 1, 1))
        radius *= variance > 1e-12  # equal propensities: the mean is exact
        sizes = np.maximum(self.counts.sum(axis=1), 1)
        means = self.rewards[:, 0] / sizes
        checks = (
            self._weight_check(mean, expected, Interval(expected - radius, expected + radius)),
            _duplicate_check(duplicate_share),
            _order_check(self.has_times, backward / n),
            _shift_note("rewards", *self._reward_shift(means, sizes)),
            _shift_note("action shares", *self._share_shift(sizes)),
            _support_note(self.counts.sum(axis=0), log),
        )
        shares = self.counts / sizes[:, None]
        counts = n, log.n_actions, log.n_excluded, log.n_skipped
        rewards = log.reward_range, float(self.rewards[:, 0].sum()) / n
        interval = Interval(mean - radius, mean + radius)
        observed = self.weight_sum**2 / self.weight_squares, self.max_weight
        segments = tuple(means.tolist()), tuple(map(tuple, shares.tolist()))
        overall = tuple((self.counts.sum(axis=0) / n).tolist())
        return Health(
            *counts, *rewards, log.min_propensity, mean, expected, interval, *observed, overall, *segments, checks
        )

    def _weight_check(self, mean: float, expected: float, allowed: Interval) -> Check:
        slack = 1e-6
        passed = bool(allowed.low - slack <= mean <= allowed.high + slack)
        rule = f"mean of 1 / (K p) is {mean:.4f}, and must be within {allowed.low:.4f} to {allowed.high:.4f}"
        side = "small, or rounds are missing" if mean > expected else "large, or some offered actions are never taken"
        return Check("importance weights", passed, rule if passed else f"{rule}: propensities are too {side}")

    def _reward_shift(self, means: Array, sizes: Integers) -> tuple[float, str]:
        total, n = self.rewards.sum(axis=0), self.log.n_rounds
        mean = total[0] / n
        deviation = sqrt(max(total[1] / n - mean**2, 0.0))
        scores = np.abs(means - mean) * np.sqrt(sizes) / deviation if deviation else np.zeros(N_SEGMENTS)
        worst = int(scores.argmax())
        return float(scores[worst]), f"mean {means[worst]:.4g} in tenth {worst + 1} of the log, {mean:.4g} overall"

    def _share_shift(self, sizes: Integers) -> tuple[float, str]:
        share = self.counts.sum(axis=0) / self.log.n_rounds
        own = self.counts / sizes[:, None]
        deviation = np.sqrt(np.maximum(share * (1 - share), 1e-300)[None, :] / sizes[:, None])
        scores = np.where(share > 0.0, np.abs(own - share) / deviation, 0.0)
        segment, action = np.unravel_index(int(scores.argmax()), scores.shape)
        name, usual = self.log.action_names[int(action)], f"{share[action]:.1%} overall"
        text = f"action {name} has {own[segment, action]:.1%} in tenth {segment + 1} of the log, {usual}"
        return float(scores[segment, action]), text


def _duplicate_check(share: float | None) -> Check:
    if share is None:
        return Check("duplicates", None, "the log has no ids, so duplicates cannot be found")
    return Check("duplicates", share == 0.0, f"{share:.2%} of the events repeat an id, and none must")


def _order_check(has_times: bool, share: float) -> Check:
    if not has_times:
        return Check("time order", None, "the log has no times; its rows are taken to be in order")
    rule = f"{share:.2%} of the rows are earlier than the row above, at most {MAX_BACKWARD_SHARE:.0%} may be"
    return Check("time order", share <= MAX_BACKWARD_SHARE, rule)


def _shift_note(what: str, score: float, text: str) -> Check:
    if score <= SHIFT_DEVIATIONS:
        return Check(f"shift of {what}", True, f"none: largest deviation {score:.1f} standard errors")
    return Check(f"shift of {what}", None, f"{text} ({score:.1f} standard errors)")


def _support_note(counts: Integers, log: LoggedRounds) -> Check:
    never = [log.action_names[k] for k in np.flatnonzero(counts == 0)]
    if not never:
        return Check("support", True, f"every action is taken; smallest propensity {log.min_propensity:.4g}")
    return Check("support", None, f"{len(never)} actions are never taken: {', '.join(never[:5])}")


class _Duplicates:
    """Counts repeated ids; keeps those whose digest is below a limit, which halves whenever there are too many."""

    def __init__(self) -> None:
        self.limit, self.seen, self.repeats, self.kept = 1 << 64, set[int](), 0, 0

    def add(self, batch: Rounds) -> None:
        for digest in batch.ids[batch.ids != NO_ID].tolist():
            if digest < self.limit:
                self.kept += 1
                self.repeats += digest in self.seen
                self.seen.add(digest)
        while len(self.seen) > MAX_IDS:
            self.limit //= 2
            self.seen = {digest for digest in self.seen if digest < self.limit}

    @property
    def share(self) -> float | None:
        return self.repeats / self.kept if self.kept else None
