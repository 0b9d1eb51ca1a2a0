"""Paired certificates: by how much the proposals of one expert were better than those of another.

In a round whose expert was drawn with probabilities p, independently of the proposals, with propensity q of the
action A, lambda = min(p_j, p_k) and b the middle of the range, let Y = lambda (r - b)(1{A = a_j} - 1{A = a_k})/q. Given
past, context and proposals it has the expectation lambda (mu(a_j) - mu(a_k)), and |Y| <= w/2. With probability
1 - alpha, for all numbers of rounds at once, the sum of these expectations is at least sum Y - D, where D is the
stitched boundary for V = max(w^2/4, sum Y^2) and scale c = w/2. Nothing is asked of contexts, learners or stationarity.
A certificate is such a statement; its record holds what it is computed from, and `verify_pair` recomputes it.

Reference: docs/counterfactual-balancing.md, lemma 2. For y >= -1 and 0 <= x < 1, exp(x y - (-ln(1 - x) - x) y^2) <=
1 + x y is from Fan, Grama and Liu (2015), "Exponential inequalities for martingales with applications"; the boundary
follows Howard, Ramdas, McAuliffe and Sekhon (2021), eq. (10).
Symbols: sum Y gain, sum Y^2 gain_squares, D radius, E n_experts at the start, alpha = delta / (E (E - 1)). The j-th
learner that is added later, j = 0, 1, ..., spends delta/((j + 1)(j + 2)) in addition, divided among the ordered pairs
of its experts with each other and with those that were there. Such a pair has weight 0 in the rounds before, so its
sums begin when it joins, which the past decides.

A record of version 2 has `n_late`, the number of learners that were added, and `late` if one of the two was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

from equipoise.certificates.fields import (
    Record,
    Test,
    mapping,
    number,
    pair,
    recomputed_faults,
    rule_faults,
    shape_faults,
    text,
    whole,
)
from equipoise.certificates.radii import late_share, total_delta
from equipoise.certificates.wording import confidence_text, total_at_least
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, STITCHED_WEIGHT
from equipoise.storage.files import digest
from equipoise.types import Plain

KIND = "pair"


class LatePair(NamedTuple):
    """What a pair with a learner that was added later spends."""

    joined: int  # number of learners that were added before it
    n_pairs: int  # ordered pairs that divide its share
    since: int  # number of rounds before it joined


def paired_alpha(n_experts: int, delta: float, late: LatePair | None = None) -> float:
    """The share of one ordered pair of experts."""
    if late is None:
        return delta / (n_experts * (n_experts - 1))
    return late_share(delta, late.joined) / late.n_pairs


def paired_radius(gain_squares: float, width: float, alpha: float) -> float:
    """D: how far the sum of Y may exceed the sum of its expectations."""
    least, level = width**2 / 4, log(STITCHED_RATIO / alpha)
    variance = max(least, gain_squares)
    iterated = log(log(2 * variance / least))
    root = STITCHED_FACTOR * sqrt(variance * (iterated + STITCHED_WEIGHT * level))
    return root + width / 2 * (1.4 * iterated + level)


class ExpertName(NamedTuple):
    """A learner, or its greedy twin."""

    learner: int
    greedy: bool = False

    def text(self, names: Sequence[str]) -> str:
        return f"the greedy twin of {names[self.learner]}" if self.greedy else names[self.learner]


@dataclass(frozen=True)
class PairedCertificate:
    """By how much, at least, the proposals of `better` were worth more than those of `worse`, weighted by lambda."""

    rounds: int  # resolved, of all rounds
    better: ExpertName
    worse: ExpertName
    gain: float
    gain_squares: float
    n_experts: int  # at the start
    reward_range: tuple[float, float]
    delta: float  # failure probability of the statements about all pairs of the start together
    n_late: int = 0  # learners that were added later
    late: LatePair | None = None  # if one of the two experts is of such a learner

    @property
    def alpha(self) -> float:
        return paired_alpha(self.n_experts, self.delta, self.late)

    @property
    def total_delta(self) -> float:
        """Failure probability of the statements about all pairs together."""
        return total_delta({"delta": self.delta, "n_late": self.n_late})

    @property
    def radius(self) -> float:
        low, high = self.reward_range
        return paired_radius(self.gain_squares, high - low, self.alpha)

    @property
    def lower(self) -> float:
        """The certified gap; it says something only if it is positive."""
        return self.gain - self.radius

    def describe(self, names: Sequence[str]) -> str:
        """The certificate as a sentence."""
        better, worse = self.better.text(names), self.worse.text(names)
        if self.lower <= 0.0:
            return f"Nothing is proved yet about {better} and {worse}."
        later, joined = names[max(self.better.learner, self.worse.learner)], ""
        if self.late is not None:
            joined = f", {later} having joined after round {self.late.since:,}"
        return (
            f"With confidence {confidence_text(self.total_delta)}: weighted by the lesser of the two probabilities of "
            f"being chosen, the proposals of {better} were worth at least {total_at_least(self.lower)} more in "
            f"expected reward than those of {worse}, over {self.rounds:,} rounds{joined}."
        )

    def record(self, *, selector_label: str, seed: int, names: Sequence[str]) -> Record:
        """Everything that the statement is computed from, as plain data, with a digest."""
        content: Record = {
            "kind": KIND,
            "version": 2 if self.n_late else 1,
            "selector": selector_label,
            "seed": int(seed),
            "rounds": int(self.rounds),
            "delta": float(self.delta),
            "alpha": float(self.alpha),
            "n_experts": int(self.n_experts),
            "reward_range": [float(end) for end in self.reward_range],
            **{
                side: {"index": expert.learner, "greedy": int(expert.greedy), "name": str(names[expert.learner])}
                for side, expert in (("better", self.better), ("worse", self.worse))
            },
            "gain": float(self.gain),
            "gain_squares": float(self.gain_squares),
            "radius": float(self.radius),
            "lower": float(self.lower),
        }
        if self.n_late:
            content["n_late"] = int(self.n_late)
        if self.late is not None:
            content["late"] = {name: int(number) for name, number in self.late._asdict().items()}
        return {**content, "digest": digest(content)}


_EXPERT: dict[str, Test] = {"index": whole, "greedy": whole, "name": text}
_LATE: dict[str, Test] = dict.fromkeys(LatePair._fields, whole)
_FIELDS: dict[str, Test] = {
    "kind": text,
    "version": whole,
    "selector": text,
    "seed": whole,
    "rounds": whole,
    "delta": number,
    "alpha": number,
    "n_experts": whole,
    "reward_range": pair,
    "better": mapping,
    "worse": mapping,
    "gain": number,
    "gain_squares": number,
    "radius": number,
    "lower": number,
    "digest": text,
}


def verify_pair(record: Mapping[str, Plain]) -> list[str]:
    """What is wrong with the record of a paired certificate, in sentences; empty if it proves its gap."""
    if whole(record.get("version")) and record["version"] not in (1, 2):
        return [f"version is {record['version']}, but only 1 and 2 are known"]
    changed: dict[str, Test] = {"n_late": whole} if record.get("version") == 2 else {}
    if changed and "late" in record:
        changed["late"] = mapping
    faults = shape_faults("", record, _FIELDS | changed)
    for part, fields in (("better", _EXPERT), ("worse", _EXPERT), ("late", _LATE)):
        if part in _FIELDS | changed and isinstance(record.get(part), Mapping):
            faults += shape_faults(f"{part}.", record[part], fields)
    if faults:
        return faults
    if digest(record) != record["digest"]:
        faults.append("digest does not match the record: it was changed after it was written")
    (low, high), squares, n_experts = record["reward_range"], record["gain_squares"], record["n_experts"]
    half, rounds, n_late = (high - low) / 2, record["rounds"], record.get("n_late", 0)
    late = LatePair(**record["late"]) if "late" in record else None
    sides = [(record[side]["index"], record[side]["greedy"]) for side in ("better", "worse")]
    rules = [
        ("delta", record["delta"], 0 < record["delta"] < 1, "in (0, 1)"),
        ("n_experts", n_experts, n_experts >= (2 if late is None else 1), "at least 2, or 1 with a late learner"),
        ("reward_range", record["reward_range"], low < high, "a pair (low, high) with low < high"),
        ("rounds", rounds, rounds >= 1, "at least 1"),
        ("gain_squares", squares, 0 <= squares <= half**2 * rounds * (1 + 1e-9), "at most rounds times w^2/4"),
        ("worse", record["worse"], sides[0] != sides[1], "another expert than better"),
    ]
    if "n_late" in record:
        rules.append(("n_late", n_late, n_late >= 1, "at least 1"))
    if late is not None:
        rules += [
            ("late.joined", late.joined, 0 <= late.joined < n_late, f"from 0 to n_late − 1 = {n_late - 1}"),
            ("late.n_pairs", late.n_pairs, late.n_pairs >= 2, "at least 2"),
            ("late.since", late.since, late.since >= 0, "at least 0"),
        ]
    faults += rule_faults(rules)
    if faults:
        return faults
    if record["gain"] ** 2 > squares * rounds * (1 + 1e-9):
        faults.append(f"gain is {record['gain']!r}, but {rounds} terms with these squares cannot add up to it")
    alpha = paired_alpha(n_experts, record["delta"], late)
    radius = paired_radius(squares, high - low, alpha)
    faults += recomputed_faults(
        [
            ("alpha", record["alpha"], alpha, alpha),
            ("radius", record["radius"], radius, radius),
            ("lower", record["lower"], record["gain"] - radius, radius),
        ]
    )
    if not record["gain"] > radius:
        faults.append(f"nothing is proved: the gain {record['gain']!r} is not above the radius {radius!r}")
    return faults
