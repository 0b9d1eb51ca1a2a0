"""Statements about two learners: how much more regret per play has one had than the other?

On the event of the radius D, for all learners and all numbers of plays at once, |n_i mu* - U_i - Reg_i| <= D(n_i).
Subtracting two of these, divided by the plays, mu* cancels:

  |(Reg_i/n_i - Reg_j/n_j) - (U_j/n_j - U_i/n_i)|  <=  D(n_i)/n_i + D(n_j)/n_j.

So the difference of the learners' mean rewards, each over its own plays, is the difference of their mean regrets up to
two radii. Nothing is presumed of the learners, their bounds or what they learned from; with late rewards n and U are
those of the resolved prefix of plays. All pairs hold at once with probability 1 - delta, at no cost beyond that of the
certificate. What is compared is the past: a learner that is still learning may do better in later plays.

This module also writes and checks that part of a record; `records` has the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from equipoise.certificates.fields import (
    Record,
    Test,
    number,
    recomputed_faults,
    rule_faults,
    sum_faults,
    text,
    whole,
)
from equipoise.certificates.radii import radius_of, total_delta
from equipoise.certificates.wording import about, at_least, at_most, confidence_text, law_clause
from equipoise.confidence import RADII, RADIUS_VERSIONS, radius_alpha, radius_shares, radius_sum
from equipoise.errors import InvalidArgument
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


@dataclass(frozen=True)
class Comparison:
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
        What is presumed of contexts: "random" or "fixed".
    valid
        False if `radius_scale` is below 1: then nothing is proved.
    rewards
        What a portfolio made of the rewards before they counted, such as "rewards clipped to [0, 1]"; empty if nothing.
    law_since
        The first round whose plays count: one law of contexts and rewards is assumed since then.
    law_refuted_at
        The last round in which an alarm refuted one law for all rounds before it; 0 if none did.
    """

    learner: Side
    other: Side
    width: float
    delta: float
    contexts: str
    valid: bool
    rewards: str = ""
    law_since: int = 1
    law_refuted_at: int = 0

    @property
    def difference(self) -> float:
        """The mean reward of the other learner minus that of the learner."""
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

    def describe(self, names: Sequence[str]) -> str:
        """The comparison as one sentence; `names` are those of all learners."""
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
            f"{about(self.rewards)}{law_clause(self.law_since, self.law_refuted_at)}"
        )

    def to_json(self) -> Config:
        """As plain data, with both ends of the difference."""
        ends = {"difference_lower": self.difference_lower, "difference_upper": self.difference_upper}
        return {**asdict(self), **ends}


def _plays(side: Side) -> str:
    pending = f" ({side.pending:,} more do not count)" if side.pending else ""
    return f"its {side.plays:,} {'play' if side.plays == 1 else 'plays'}{pending}"


def check_pair(learner: int, other: int, resolved: Sequence[int]) -> None:
    """Raise an error if two learners cannot be compared; `resolved` has the resolved plays of all."""
    for name, i in (("learner", learner), ("other", other)):
        if not whole(i) or not 0 <= i < len(resolved):
            raise InvalidArgument(f"{name} is {i!r}, but must be from 0 to {len(resolved) - 1}")
        if resolved[i] == 0:
            raise InvalidArgument(f"{name} is {i}, which has no resolved play, but a mean needs one")
    if learner == other:
        raise InvalidArgument(f"other is {other}, but must be different from learner")


_SIDE: dict[str, Test] = {
    "index": whole,
    "name": text,
    "plays": whole,
    "pending": whole,
    "reward_sum": number,
    "radius": number,
}
SIDES: dict[str, dict[str, Test]] = {"learner": _SIDE, "other": _SIDE}
FIELDS: dict[str, Test] = {
    "shares": whole,
    "radius_version": whole,
    "difference_lower": number,
    "difference_upper": number,
}


def proof(comparison: Comparison, learner_names: Sequence[str]) -> Record:
    """Both ends of the difference and what they are computed from, as plain data."""
    sides = {name: asdict(getattr(comparison, name)) for name in SIDES}
    for side in sides.values():
        side["name"] = str(learner_names[side["index"]])
    low, high = comparison.difference_lower, comparison.difference_upper
    law = {"law_since": int(comparison.law_since), "law_refuted_at": int(comparison.law_refuted_at)}
    ends = {"difference_lower": float(low), "difference_upper": float(high)}
    return {**ends, **sides, **(law if comparison.law_refuted_at else {})}


def from_record(record: Mapping[str, Plain]) -> Comparison:
    """The comparison that a record states."""
    learner, other = (
        Side(**{key: value for key, value in record[name].items() if key != "name"}) for name in ("learner", "other")
    )
    low, high = record["reward_range"]
    settings = total_delta(record), record["contexts"], record["radius_scale"] >= 1, record.get("rewards", "")
    return Comparison(
        learner, other, high - low, *settings, record.get("law_since", 1), record.get("law_refuted_at", 0)
    )


def describe(record: Mapping[str, Plain]) -> str:
    """The record as one sentence."""
    names = {record[side]["index"]: record[side]["name"] for side in SIDES}
    return from_record(record).describe([names.get(i, "") for i in range(max(names) + 1)])


def range_faults(record: Mapping[str, Plain]) -> list[str]:
    """Fields that are out of range."""
    radius_version, newest = record["radius_version"], RADIUS_VERSIONS.get(record["radius"], 1)
    rules = [
        ("radius", record["radius"], record["radius"] in RADII, f"one of {', '.join(RADII)}"),
        ("radius_version", radius_version, 1 <= radius_version <= newest, f"from 1 to {newest}"),
        ("contexts", record["contexts"], record["contexts"] in ("random", "fixed"), "random or fixed"),
        (
            "other.index",
            record["other"]["index"],
            record["other"]["index"] != record["learner"]["index"],
            "different from learner.index",
        ),
    ]
    for name in SIDES:
        plays, pending = record[name]["plays"], record[name]["pending"]
        rules += [
            (f"{name}.plays", plays, plays >= 1, "at least 1"),
            (f"{name}.pending", pending, pending >= 0, "at least 0"),
        ]
    return rule_faults(rules)


def mathematical_faults(record: Mapping[str, Plain]) -> list[str]:
    """What does not follow from the sums in the record."""
    low, high = record["reward_range"]
    extra_events = int(record.get("same_round", False))
    separate_lower = record["shares"] - extra_events == 3
    if record["shares"] != radius_shares(record["radius"], record["contexts"], separate_lower) + extra_events:
        return [f"shares is {record['shares']}, but its radius uses another number"]
    try:
        alpha = radius_alpha(record["n_learners"], record["delta"], record["shares"])
        stated = from_record(record)
        radii = {
            name: radius_sum(
                radius_of(record, record[name]["index"], separate_lower=separate_lower), record[name]["plays"]
            )
            for name in SIDES
        }
        mean_radius = sum(radii[name] / record[name]["plays"] for name in SIDES)
        ends = [min(max(stated.difference + sign * mean_radius, low - high), high - low) for sign in (-1, 1)]
    except (InvalidArgument, ArithmeticError, ValueError, LookupError):
        return ["the radius cannot be computed from the settings in the record"]
    faults = recomputed_faults(
        [
            ("alpha", record["alpha"], alpha, alpha),
            *((f"{name}.radius", record[name]["radius"], radii[name], radii[name]) for name in SIDES),
            ("difference_lower", record["difference_lower"], ends[0], mean_radius),
            ("difference_upper", record["difference_upper"], ends[1], mean_radius),
        ]
    )
    plays = sum(record[name]["plays"] + record[name]["pending"] for name in SIDES)
    if plays > record["round"] - stated.law_since + 1:
        faults.append(f"round is {record['round']}, but the two learners had {plays} plays by then")
    for name in SIDES if record["noise"] is None else ():
        faults += sum_faults(
            f"{name}.reward_sum", record[name]["reward_sum"], low, high, record[name]["plays"], "rewards"
        )
    return faults
