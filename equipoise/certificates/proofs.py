"""What every proof of a selector rests on: where it was made, the settings it is computed from, and how it is sealed.

A kind of proof is a dataclass. Its record states where the proof was made (`Origin`), the settings of the selector
(`Premises`) and the numbers of the proof.

The M learners of the start and the pool of all rounds spend delta/(M + 1) each. The j-th learner that is added later,
j = 0, 1, ..., spends delta/((j + 1)(j + 2)) in addition: all that are ever added spend at most delta together. Learners
keep their index, so late ones have indices from M on. A selector that plays a learner in several ways has one account
for each, stated as `accounts`: M counts the accounts of the start, and a late learner divides its share among its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

from equipoise.certificates.fields import CLOSE, Fields, Names, Record, fields_of, whole, write
from equipoise.confidence import RADII, Radius, make_radius, radius_shares
from equipoise.storage.files import digest
from equipoise.types import Plain

VERSION = 1  # of the form of all records
TWO_SIDED = 2  # shares of a radius that is used on both sides
Rule: TypeAlias = tuple[str, object, bool, str]  # field, value, whether it is valid, the rule


@dataclass(frozen=True)
class Origin:
    """Where and when a proof was made."""

    version: ClassVar[int] = VERSION
    selector: str  # its label
    seed: int
    round: int = 0
    instance: str = ""  # of the problem, if an experiment has several
    rewards: str = ""  # how the rewards were changed before they counted, such as "rewards clipped to [0, 1]"


ORIGIN: Fields = {"version": whole, **fields_of(Origin), "round": whole}


@dataclass(frozen=True)
class Premises:
    """The settings of a selector that its proofs are computed from."""

    delta: float
    alpha: float  # failure probability of one side of one radius
    n_learners: int  # at the start
    radius: str
    radius_scale: float
    reward_range: tuple[float, float]
    noise: float | None
    contexts: str
    shares: int  # one-sided events that alpha counts for each learner and for the pool
    n_late: int = 0  # learners that were added later
    same_round: bool = False  # whether the same-round test takes one more share of delta

    @property
    def width(self) -> float:
        return self.reward_range[1] - self.reward_range[0]

    @property
    def total_delta(self) -> float:
        """Failure probability of the statements about all learners, late ones included."""
        return total_delta(self.delta, self.n_late)

    @property
    def separate_lower(self) -> bool:
        """Whether the lower side has a radius of its own."""
        return self.shares - self.same_round != TWO_SIDED

    def radius_of(self, index: int, accounts: Sequence[int] = ()) -> Radius:
        """Return the radius of a learner."""
        n_accounts, late, delta = self.start_accounts(accounts), index - self.n_learners, self.delta
        # The radius that M learners and the pool would have if each of them had this share.
        if late >= 0:
            delta = late_share(delta, late) * (n_accounts + 1) / (accounts[index] if accounts else 1)
        return make_radius(
            self.radius,
            n_learners=n_accounts,
            delta=delta,
            width=self.width,
            noise=self.noise,
            contexts=self.contexts,
            scale=self.radius_scale,
            separate_lower=self.separate_lower,
            extra_events=int(self.same_round),
        )

    def start_accounts(self, accounts: Sequence[int]) -> int:
        """Return the number of accounts that share delta: one for each learner of the start, unless there are more."""
        return sum(accounts[: self.n_learners]) if accounts else self.n_learners

    def rules(self) -> Iterator[Rule]:
        """Yield the rules of the settings."""
        yield "delta", self.delta, 0 < self.delta < 1, "in (0, 1)"
        yield "n_learners", self.n_learners, self.n_learners >= 2 or self.n_late >= 1, "at least 2"
        yield "n_late", self.n_late, self.n_late >= 0, "at least 0"
        rule = "at least 1: a narrowed radius proves nothing"
        yield "radius_scale", self.radius_scale, self.radius_scale >= 1, rule
        yield "reward_range", list(self.reward_range), self.width > 0, "a pair (low, high) with low < high"
        yield "noise", self.noise, self.noise is None or self.noise > 0, "positive or null"

    def radius_rules(self, known: Sequence[str] = RADII) -> Iterator[Rule]:
        """Yield the rules of a radius over all plays, of one of the known forms."""
        yield "radius", self.radius, self.radius in known, f"one of {', '.join(known)}"
        yield "contexts", self.contexts, self.contexts in ("random", "fixed"), "random or fixed"
        needed = radius_shares(self.radius, self.contexts, self.separate_lower) + self.same_round
        yield "shares", self.shares, self.shares == needed, f"{needed} with this radius"

    def regret_faults(self, name: str, total: float, n: int) -> list[str]:
        """Return a sentence if n plays with expected rewards in the range cannot have the regret `total`."""
        possible = -self._slack * n <= total <= (self.width + self._slack) * n
        most = self.width * n
        return [] if possible else [f"{name} is {total!r}, but the regret of {n} plays is from 0 to {most!r}"]

    def sum_faults(self, name: str, total: float, n: int, what: str = "rewards") -> list[str]:
        """Return a sentence if n numbers in the range cannot add up to `total`; with noise, rewards may be anything."""
        low, high = self.reward_range
        possible = (low - self._slack) * n <= total <= (high + self._slack) * n
        if possible or (what == "rewards" and self.noise is not None):
            return []
        return [f"{name} is {total!r}, but {n} {what} in [{low!r}, {high!r}] cannot add up to it"]

    @property
    def _slack(self) -> float:
        # Sums are compensated, so their rounding does not grow with the plays.
        return CLOSE * max(map(abs, self.reward_range))


PREMISES: Fields = fields_of(Premises)
UNSTATED = Premises(0.0, 0.0, 0, "", 1.0, (0.0, 0.0), None, "", TWO_SIDED)  # of a record that does not state them


def late_share(delta: float, j: int) -> float:
    """Return the failure probability that the j-th late learner, from 0, spends in addition to delta."""
    return delta / ((j + 1) * (j + 2))


def total_delta(delta: float, n_late: int) -> float:
    """Return the failure probability that all learners spend together, late ones included."""
    return delta + sum(late_share(delta, j) for j in range(n_late))


class Proof:
    """A kind of proof: its fields in a record, how it is recomputed from them, and which sentence it proves."""

    kind: ClassVar[str]
    origin: ClassVar[Fields] = ORIGIN  # the fields of these three that its records state
    premises: ClassVar[Fields] = PREMISES
    fields: ClassVar[Fields]

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        """Return the proof that a record states."""
        raise NotImplementedError  # abstract

    @property
    def magnitude(self) -> float:
        """The size of the numbers whose differences it claims."""
        raise NotImplementedError  # abstract

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        """Return premises and proof with everything computed that follows from settings and sums."""
        raise NotImplementedError  # abstract

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        """Yield the rules of the stated numbers."""
        raise NotImplementedError  # abstract

    def faults(self, premises: Premises, origin: Origin) -> Iterator[str]:
        """Yield sentences about claims that do not follow; the proof is a recomputed one."""
        raise NotImplementedError  # abstract

    def content(self, premises: Premises, names: Names) -> Record:
        """Return premises and proof as plain data."""
        return {**write(premises, self.premises), **write(self, self.fields, names)}

    def sealed(self, origin: Origin, names: Names, premises: Premises = UNSTATED) -> Record:
        """Return the record of the proof, with its digest."""
        record = {**write(origin, self.origin), **self.content(premises, names)}
        return {**record, "digest": digest(record)}

    def rule_faults(self, premises: Premises, origin: Origin) -> list[str]:
        """Return sentences about the rules that are not satisfied."""
        rules: list[Rule] = [("seed", origin.seed, origin.seed >= 0, "at least 0")]
        if self.premises:
            rules += premises.rules()
            last = premises.n_learners + premises.n_late - 1
            for side in (name for name, field in self.fields.items() if field.parts and "index" in field.parts):
                index = getattr(self, side).index
                rule = f"from 0 to n_learners + n_late − 1 = {last}"
                rules.append((f"{side}.index", index, 0 <= index <= last, rule))
        rules += self.rules(premises, origin)
        return [f"{name} is {value!r}, but must be {rule}" for name, value, satisfied, rule in rules if not satisfied]
