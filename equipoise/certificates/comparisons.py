"""Comparisons of two learners: by their own plays, or by their proposals in the same rounds.

By plays, how much more regret per play has one learner had than the other? On the event of the radius D, for all
learners and all numbers of plays at once, |n_i mu* - U_i - Reg_i| <= D(n_i). Subtracting two of these, divided by the
plays, mu* cancels:

  |(Reg_i/n_i - Reg_j/n_j) - (U_j/n_j - U_i/n_i)|  <=  D(n_i)/n_i + D(n_j)/n_j.

So the difference of the learners' mean rewards, each over its own plays, is the difference of their mean regrets up to
two radii. Nothing is presumed of the learners, their bounds or their data; with late rewards n and U are counted over
the resolved prefix of plays. All pairs hold at once with probability 1 - delta, as part of the certificate.
The comparison is about the past: a learner that is still learning may do better in later plays.

By proposals, how much better did one expert propose than another? In a round whose expert was drawn
with probabilities p, independently of the proposals, with propensity q of the action A, lambda = min(p_j, p_k) and the
middle b of the range, let Y = lambda (r - b)(1{A = a_j} - 1{A = a_k})/q. Given past, context and proposals it has the
expectation lambda (mu(a_j) - mu(a_k)), and |Y| <= w/2. With probability 1 - alpha, for all numbers of rounds at once,
the sum of these expectations is at least sum Y - D, where D is the stitched boundary for V = max(w^2/4, sum Y^2) and
scale c = w/2. Nothing is asked of contexts, learners or stationarity.

Reference: docs/counterfactual-balancing.md, lemma 2 and what follows it on learners that join. Its inequality is from
Fan, Grama and Liu (2015), "Exponential inequalities for martingales with applications"; the boundary follows Howard,
Ramdas, McAuliffe and Sekhon (2021), eq. (10).
Symbols: n plays, U reward_sum, D radius; sum Y gain, sum Y^2 gain_squares, E n_experts at the start, alpha = delta /
(E (E - 1)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import log, sqrt
from typing import ClassVar, NamedTuple, Self

from equipoise.certificates.fields import (
    Fields,
    Names,
    claim,
    fields_of,
    is_whole,
    maybe,
    number,
    numbers,
    pair,
    part,
    positive,
    read,
    text,
    whole,
)
from equipoise.certificates.proofs import ORIGIN, Origin, Premises, Proof, Rule, late_share, total_delta
from equipoise.certificates.wording import (
    about,
    at_least,
    at_most,
    confidence_text,
    counted,
    law_clause,
    total_at_least,
)
from equipoise.confidence import radius_alpha, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import STITCHED_FACTOR, STITCHED_RATIO, STITCHED_WEIGHT
from equipoise.types import Config, Plain

FIXED = "if contexts, offered actions and the law of rewards never change"
RANDOM = (
    "if contexts are independent and identically distributed, the learner is chosen before each is seen and the law of "
    "rewards never changes"
)


@dataclass(frozen=True)
class Side:
    """The resolved plays of one of the two learners. All numbers are totals."""

    index: int
    plays: int
    pending: int  # plays that do not count as evidence, or not yet
    reward_sum: float
    radius: float


_SIDE = part({**fields_of(Side), "name": text})


@dataclass(frozen=True)
class Comparison(Proof):
    """How much more regret per play `learner` has had than `other`, each over its own resolved plays.

    Attributes
    ----------
    learner, other
        The plays of both.
    width
        Width of the reward range: no difference exceeds it.
    delta
        Failure probability of all comparisons, at all times, and of the selector's other statements together.
    contexts
        The assumption about contexts: "random" or "fixed".
    valid
        False if `radius_scale` is below 1: then nothing is proved.
    rewards
        How a portfolio changed the rewards before they counted, such as "rewards clipped to [0, 1]"; else empty.
    law_since
        The first round whose plays count: one law of contexts and rewards is assumed since then.
    law_refuted_at
        The round of the last alarm; 0 if there was none.
    law_refuted
        The null hypothesis that this alarm refuted; else empty.
    accounts
        In how many ways each learner is played, if that is not one for all; each has its own share of delta.
    """

    kind: ClassVar[str] = "comparison"
    fields: ClassVar[Fields] = {
        "learner": _SIDE,
        "other": _SIDE,
        "difference_lower": claim,
        "difference_upper": claim,
        "law_since": maybe(whole, 1, stated_with="law_refuted_at"),
        "law_refuted_at": maybe(whole, 0),
        "law_refuted": maybe(text, ""),
        "accounts": maybe(replace(numbers, plain=list), ()),
    }

    learner: Side
    other: Side
    width: float
    delta: float
    contexts: str
    valid: bool
    rewards: str = ""
    law_since: int = 1
    law_refuted_at: int = 0
    law_refuted: str = ""
    accounts: tuple[int, ...] = ()

    @property
    def difference(self) -> float:
        """The other learner's mean reward minus the learner's mean reward."""
        return self.other.reward_sum / self.other.plays - self.learner.reward_sum / self.learner.plays

    @property
    def mean_radius(self) -> float:
        return self.learner.radius / self.learner.plays + self.other.radius / self.other.plays

    @property
    def difference_lower(self) -> float:
        """The learner has had at least this much more regret per play; negative if less is possible."""
        return min(max(self.difference - self.mean_radius, -self.width), self.width)

    @property
    def difference_upper(self) -> float:
        """The learner has had at most this much more regret per play."""
        return min(max(self.difference + self.mean_radius, -self.width), self.width)

    @property
    def magnitude(self) -> float:
        return self.mean_radius

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        settings = {"width": premises.width, "delta": premises.total_delta, "valid": premises.radius_scale >= 1}
        sides = {side: read(Side, record[side]) for side in ("learner", "other")}
        return read(cls, record, settings, sides)

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        alpha = radius_alpha(premises.start_accounts(self.accounts), premises.delta, premises.shares)
        learner, other = (
            replace(side, radius=radius_sum(premises.radius_of(side.index, self.accounts), side.plays))
            for side in (self.learner, self.other)
        )
        return replace(premises, alpha=alpha), replace(self, learner=learner, other=other)

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        yield from premises.radius_rules()
        yield "other.index", self.other.index, self.other.index != self.learner.index, "different from learner.index"
        if self.accounts:
            n = premises.n_learners + premises.n_late
            fits = len(self.accounts) == n and all(is_whole(each) and each >= 1 for each in self.accounts)
            yield "accounts", list(self.accounts), fits, f"{n} whole numbers of at least 1"
        for name, side in (("learner", self.learner), ("other", self.other)):
            yield f"{name}.plays", side.plays, side.plays >= 1, "at least 1"
            yield f"{name}.pending", side.pending, side.pending >= 0, "at least 0"

    def faults(self, premises: Premises, origin: Origin) -> Iterator[str]:
        plays = sum(side.plays + side.pending for side in (self.learner, self.other))
        if plays > origin.round - self.law_since + 1:
            yield f"round is {origin.round}, but the two learners had {plays} plays by then"
        for name, side in (("learner", self.learner), ("other", self.other)):
            yield from premises.sum_faults(f"{name}.reward_sum", side.reward_sum, side.plays)

    def describe(self, names: Names) -> str:
        """Return the comparison as one sentence; `names` has the names of all learners."""
        if not self.valid:
            return "No statement: radius_scale is below 1, and a narrowed radius proves nothing."
        if self.delta >= 1.0:
            return f"No statement: the failure probabilities add up to 1 or more ({self.delta:.4g})."
        first, second = names[self.learner.index], names[self.other.index]
        low, high = self.difference_lower, self.difference_upper
        if low > 0.0:
            relation = f"has had between {at_least(low)} and {at_most(high)} more regret than"
        elif high < 0.0:
            relation = f"has had between {at_least(-high)} and {at_most(-low)} less regret than"
        else:
            relation = f"has had at most {at_most(-low)} less and at most {at_most(high)} more regret than"
        presumed = FIXED if self.contexts == "fixed" else RANDOM
        since = "so far" if self.law_since == 1 else f"since round {self.law_since:,}"
        return (
            f"With confidence {confidence_text(self.delta)}, {presumed}: per play, over "
            f"{_plays(self.learner)} {since}, {first} {relation} {second} over {_plays(self.other)}."
            f"{about(self.rewards)}{law_clause(self.law_since, self.law_refuted_at, self.law_refuted)}"
        )

    def to_json(self) -> Config:
        """As plain data, with both ends of the difference."""
        ends = {"difference_lower": self.difference_lower, "difference_upper": self.difference_upper}
        return {**asdict(self), **ends}


def _plays(side: Side) -> str:
    pending = f" ({side.pending:,} more do not count)" if side.pending else ""
    return f"its {counted(side.plays, 'play')}{pending}"


def check_pair(learner: int, other: int, resolved: Sequence[int]) -> None:
    """Raise an error if two learners cannot be compared; `resolved` has the resolved plays of all."""
    for name, i in (("learner", learner), ("other", other)):
        if not is_whole(i) or not 0 <= i < len(resolved):
            raise InvalidArgument(f"{name} is {i!r}, but must be from 0 to {len(resolved) - 1}")
        if resolved[i] == 0:
            raise InvalidArgument(f"{name} is {i}, which has no resolved play, but a mean needs one")
    if learner == other:
        raise InvalidArgument(f"other is {other}, but must be different from learner")


class LatePair(NamedTuple):
    """The share of delta of a pair with a learner that was added later."""

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


@dataclass(frozen=True)
class ExpertName:
    """A learner, or its greedy expert."""

    index: int
    greedy: bool = False

    def text(self, names: Names) -> str:
        """Return its name; `names` has the names of the learners."""
        return f"the greedy expert of {names[self.index]}" if self.greedy else names[self.index]


_EXPERT = part({"index": whole, "greedy": whole, "name": text})


@dataclass(frozen=True)
class PairedCertificate(Proof):
    """Lower bound on the summed gain of proposals of `better` over proposals of `worse`, weighted by lambda."""

    kind: ClassVar[str] = "pair"
    origin: ClassVar[Fields] = {name: ORIGIN[name] for name in ("version", "selector", "seed")}
    premises: ClassVar[Fields] = {}
    fields: ClassVar[Fields] = {
        "kind": text,
        "rounds": whole,
        "delta": number,
        "alpha": number,
        "n_experts": whole,
        "reward_range": pair,
        "better": _EXPERT,
        "worse": _EXPERT,
        "gain": number,
        "gain_squares": number,
        "radius": number,
        "lower": claim,
        "n_late": maybe(positive, 0),
        "late": maybe(part(dict.fromkeys(LatePair._fields, whole)), None),
    }

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
        return total_delta(self.delta, self.n_late)

    @property
    def radius(self) -> float:
        low, high = self.reward_range
        return paired_radius(self.gain_squares, high - low, self.alpha)

    @property
    def lower(self) -> float:
        """The certified gap; it says something only if it is positive."""
        return self.gain - self.radius

    def describe(self, names: Names) -> str:
        """Return the certificate as a sentence."""
        better, worse = self.better.text(names), self.worse.text(names)
        if self.lower <= 0.0:
            return f"Nothing is proved yet about {better} and {worse}."
        later, joined = names[max(self.better.index, self.worse.index)], ""
        if self.late is not None:
            joined = f", {later} having joined after round {self.late.since:,}"
        return (
            f"With confidence {confidence_text(self.total_delta)}: weighted by the lesser of the two probabilities of "
            f"being chosen, the proposals of {better} were worth at least {total_at_least(self.lower)} more in "
            f"expected reward than those of {worse}, over {self.rounds:,} rounds{joined}."
        )

    @property
    def magnitude(self) -> float:
        return self.radius

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        experts = {side: read(ExpertName, record[side]) for side in ("better", "worse")}
        return read(cls, record, experts, late=LatePair(**record["late"]) if "late" in record else None)

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        """Return both unchanged: alpha, radius and gap are always computed from the sums."""
        return premises, self

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        (low, high), n, late = self.reward_range, self.n_experts, self.late
        most = ((high - low) / 2) ** 2 * self.rounds * (1 + 1e-9)
        yield "delta", self.delta, 0 < self.delta < 1, "in (0, 1)"
        yield "n_experts", n, n >= (2 if late is None else 1), "at least 2, or 1 with a late learner"
        yield "reward_range", list(self.reward_range), low < high, "a pair (low, high) with low < high"
        yield "rounds", self.rounds, self.rounds >= 1, "at least 1"
        yield "gain_squares", self.gain_squares, 0 <= self.gain_squares <= most, "at most rounds times w^2/4"
        yield "worse", self.worse, self.better != self.worse, "another expert than better"
        if late is not None:
            last = self.n_late - 1
            yield "late.joined", late.joined, 0 <= late.joined <= last, f"from 0 to n_late − 1 = {last}"
            yield "late.n_pairs", late.n_pairs, late.n_pairs >= 2, "at least 2"
            yield "late.since", late.since, late.since >= 0, "at least 0"

    def faults(self, premises: Premises, origin: Origin) -> Iterator[str]:
        if self.gain**2 > self.gain_squares * self.rounds * (1 + 1e-9):
            yield f"gain is {self.gain!r}, but {self.rounds} terms with these squares cannot add up to it"
        if not self.gain > self.radius:
            yield f"nothing is proved: the gain {self.gain!r} is not above the radius {self.radius!r}"

    def record(self, *, selector_label: str, seed: int, names: Names) -> Config:
        """Return everything that the statement is computed from, as plain data, with a digest."""
        return self.sealed(Origin(selector_label, seed), names)
