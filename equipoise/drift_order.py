"""The order of two experts that learn nothing, over windows of rounds; `equipoise.portfolio.drift` has the alarms.

By lemma 2 given the past alone (docs/theory-notes.md) the sum of Y over a window, minus its radius, bounds from below
how much the proposals of j were expected to be worth more than those of k, also under drift. Under one law this
expectation is one number for two fixed rules, so two windows with opposite signs refute one law. Windows begin at the
sums of a check.
While rewards come at once these are the multiples of a period, and the j-th has the share alpha/(2 (j + 1)(j + 2)),
divided by the E (E - 1) ordered pairs that there are when it begins; it monitors these only. Late rewards, whose delays
may depend on what they are, can make a window begin after any round s, as can experts that join, with which the period
may change: such a window has the share alpha/(2 (s + 1)(s + 2)), so that all that are possible share alpha.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, NamedTuple

from equipoise.certificates.comparisons import paired_radius
from equipoise.types import Config

MAX_WINDOWS = 12  # that are kept
PAIRS_EVERY = 128  # rounds between two checks of pairs, at least


def share(delta: float, s: int) -> float:
    """The share of the s-th of any number of events, from 0; all shares add up to delta.

    >>> [round(share(0.06, s), 3) for s in range(3)]
    [0.03, 0.01, 0.005]
    """
    return delta / ((s + 1) * (s + 2))


def thinned(windows: list[Any], ages: Sequence[int]) -> None:
    """Drop a window if there are too many: the one whose neighbors are closest in age, so that ages stay geometric."""
    if len(windows) > MAX_WINDOWS:
        del windows[min(range(1, len(windows) - 1), key=lambda k: ages[k - 1] / ages[k + 1])]


def check_period(n_experts: int) -> int:
    """Rounds between two checks: the more pairs, the longer."""
    return max(PAIRS_EVERY, n_experts**2)


class PairSums(NamedTuple):
    """Sums of Y and of Y^2 of all ordered pairs of experts, with the number of rounds in them."""

    rounds: int
    gains: Sequence[float]  # row-major, E x E
    squares: Sequence[float]


@dataclass(slots=True)
class PairWindow:
    alpha: float
    sums: PairSums  # at its beginning

    def pairs(self, n_experts: int) -> Iterable[tuple[int, float, float]]:
        """The pairs that it monitors, as rows of a table of `n_experts`, and their sums at its beginning."""
        known = isqrt(len(self.sums.gains))
        rows = (j * n_experts + k for j in range(known) for k in range(known))
        return zip(range(known**2) if known == n_experts else rows, self.sums.gains, self.sums.squares, strict=True)


class Pairs:
    """Windows over the sums of lemma 2, for every pair of experts."""

    def __init__(self, delta: float, n_experts: int, width: float, start: PairSums) -> None:
        self.delta, self.n_experts, self.width = delta, n_experts, width
        self.period = check_period(n_experts)  # at the start
        self.windows = [PairWindow(self._alpha(start.rounds), start)]
        self.better: set[int] = set()  # pairs j E + k of which j was better in some window

    def _alpha(self, rounds: int) -> float:
        """The share of a window after so many rounds, for one pair."""
        n = self.n_experts
        j, rest = divmod(rounds, self.period)
        return share(self.delta / 2, rounds if rest else j) / (n * (n - 1))

    def grow(self, n_experts: int) -> None:
        """Monitor the pairs of more experts; only windows that begin now know of them."""
        self.better = {j * n_experts + k for j, k in (divmod(p, self.n_experts) for p in self.better)}
        self.n_experts = n_experts

    def check(self, sums: PairSums, fixed: Collection[int]) -> tuple[int, int] | None:
        """A pair of `fixed` experts each of which was better than the other in some window; None if there is none."""
        n = self.n_experts
        monitored = {j * n + k for j in fixed for k in fixed}
        for window in self.windows:
            for p, gain, squares in window.pairs(n):
                gained = sums.gains[p] - gain
                if gained <= 0.0 or p in self.better or p not in monitored:
                    continue
                if gained > paired_radius(sums.squares[p] - squares, self.width, window.alpha):
                    self.better.add(p)
        self.windows.append(PairWindow(self._alpha(sums.rounds), sums))
        thinned(self.windows, [sums.rounds - window.sums.rounds + check_period(n) for window in self.windows])
        for p in sorted(self.better):
            j, k = divmod(p, n)
            if j < k and k * n + j in self.better:
                return j, k
        return None

    def state(self) -> Config:
        return {
            "settings": (self.delta, self.n_experts, self.width),
            "period": self.period,
            "better": sorted(self.better),
            "windows": [
                (window.alpha, window.sums.rounds, list(window.sums.gains), list(window.sums.squares))
                for window in self.windows
            ],
        }

    @classmethod
    def from_state(cls, state: Config) -> Pairs:
        delta, n_experts, width = state["settings"]
        windows = [
            PairWindow(alpha, PairSums(rounds, tuple(gains), tuple(squares)))
            for alpha, rounds, gains, squares in state["windows"]
        ]
        pairs = cls(delta, int(n_experts), width, windows[0].sums)
        pairs.windows, pairs.better, pairs.period = windows, set(state["better"]), state["period"]
        return pairs
