"""The claims, how often each may be violated, and when violations are too many to be chance.

A claim with failure probability delta may be violated in a delta share of runs. It is rejected when the exact binomial
interval of its share of violations lies entirely above delta; a true claim is rejected with probability at most
(1 - CONFIDENCE)/2. A claim with delta = 0 always holds, and one violation rejects it.

Where a claim predicts no more than what is true of every run, such as a regret of at most w T in T rounds, no run can
violate it. Such runs are counted as vacuous, and a finding of vacuous runs only is not a check.

Reference: Clopper and Pearson (1934), "The use of confidence or fiducial limits illustrated in the case of the
binomial".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import nan
from statistics import median
from typing import NamedTuple

from equipoise.types import Config

CONFIDENCE = 0.999

# What is checked, by key; docs/theory.md names the theorems behind each.
CLAIMS = {
    "balancing": "bounds of active learners differ by at most one play",
    "radius": "rewards deviate by less than the radius, for all learners and all rounds simultaneously",
    "declared": "learners declared well specified keep their bound",
    "eliminated": "no learner that has kept its bound is eliminated",
    "general": "regret is within the general bound at the plays that happened",
    "closed form": "regret is within the theorem for this family of bounds",
    "gap theorem": "regret is within the gap-dependent theorem",
    "gap plays": "learners with a gap are eliminated within the plays that the lemma states",
    "certificate": "certified regret and optimum hold while an active learner keeps its bound",
    "epochs": "no well-specified learner is eliminated, so there are at most B + 1 epochs",
    "play counts": "no learner is drawn more often than the lemma on play counts states",
    "epoch bounds": "observed bounds of an epoch sum to at most what their lemma states",
    "ellipsoid": "theta* is in OFUL's ellipsoid at all times",
    "OFUL's regret": "OFUL's regret is within its lemma while the ellipsoid holds",
    "potential": "the elliptical potential is within its lemma",
    "random potential": "the random elliptical potential is within its lemma",
    "Bernstein": "sub-Poisson sums stay below the uniform Bernstein boundary",
    "noise": "sums of reward noise stay within the radius of adversarial contexts",
}


class Seen(NamedTuple):
    """One claim in one run: the predicted and the observed value, whether the claim is violated and whether it could
    have been: whether there are outcomes of a run of this length that violate it."""

    claim: str
    predicted: float
    observed: float
    violated: bool
    can_fail: bool = True


@dataclass(frozen=True)
class Finding:
    """A claim over all runs of a subject in which it applies; predicted and observed are medians over runs.

    `runs` are those in which the claim could have failed, `vacuous` the others; medians are over `runs`, or over the
    vacuous ones if there are no others.
    """

    subject: str
    claim: str
    predicted: float
    observed: float
    runs: int
    violations: int
    delta: float
    vacuous: int = 0

    @property
    def can_fail(self) -> bool:
        """Whether the finding is a check: some run could have violated the claim."""
        return self.runs > 0

    @property
    def interval(self) -> tuple[float, float]:
        return binomial_interval(self.violations, self.runs)

    @property
    def holds(self) -> bool:
        return self.interval[0] <= self.delta if self.delta > 0.0 else self.violations == 0

    def to_json(self) -> Config:
        low, high = self.interval
        share = self.violations / self.runs if self.runs else nan
        about = {"share": share, "share_low": low, "share_high": high, "holds": self.holds, "can_fail": self.can_fail}
        return asdict(self) | about


def findings(
    subject: str, seen: Iterable[Seen], delta: float, certain: Sequence[str] = ("balancing",)
) -> list[Finding]:
    """One finding per claim, in the order of CLAIMS; `certain` claims have failure probability 0."""
    rows = list(seen)
    found = []
    for claim in CLAIMS:
        own = [row for row in rows if row.claim == claim]
        checked = [row for row in own if row.can_fail or row.violated]
        if own:
            found.append(
                Finding(
                    subject,
                    claim,
                    median(row.predicted for row in checked or own),
                    median(row.observed for row in checked or own),
                    len(checked),
                    sum(row.violated for row in checked),
                    0.0 if claim in certain else delta,
                    len(own) - len(checked),
                )
            )
    return found


def binomial_interval(successes: int, runs: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact two-sided interval of a share.

    >>> [round(end, 4) for end in binomial_interval(0, 100, 0.95)]
    [0.0, 0.0362]
    """
    from scipy.special import betaincinv  # SciPy is slow to import

    if runs == 0:
        return 0.0, 1.0
    tail = (1 - confidence) / 2
    low = float(betaincinv(successes, runs - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, runs - successes, 1 - tail)) if successes < runs else 1.0
    return low, high
