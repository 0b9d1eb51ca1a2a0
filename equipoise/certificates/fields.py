"""Fields of records: how values are checked and written, and the premises that every proof of a selector rests on.

A kind of proof is a dataclass. Its record states where the proof was made (`Origin`), the settings of the selector
(`Premises`) and the numbers of the proof. The type of a field says how it is checked and written. A field with a
default is left out of the record where it has that value.

The M learners of the start and the pool of all rounds spend delta/(M + 1) each. The j-th learner that is added later,
j = 0, 1, ..., spends delta/((j + 1)(j + 2)) in addition: all that are ever added spend at most delta together. Learners
keep their index, so late ones have indices from M on. A selector that plays a learner in several ways has one account
for each, stated as `accounts`: M counts the accounts of the start, and a late learner divides its share among its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from math import isclose, isfinite
from typing import Any, ClassVar, Self, TypeAlias, TypeGuard, TypeVar, get_type_hints

from equipoise.confidence import RADII, Radius, make_radius, radius_shares
from equipoise.storage.files import digest
from equipoise.types import Plain

VERSION = 1  # of the form of all records
CLOSE = 1e-12  # relative; logarithms and roots may differ in the last digits between machines
TWO_SIDED = 2  # shares of a radius that is used on both sides

T = TypeVar("T")
Record: TypeAlias = dict[str, Plain]  # as read from JSON
Names: TypeAlias = Sequence[str] | Mapping[int, str]  # of the learners, by index
Rule: TypeAlias = tuple[str, object, bool, str]  # field, value, whether it is valid, the rule


@dataclass(frozen=True)
class Field:
    """One field of a record."""

    type: type  # of its value, or of each of several
    rule: str  # "a whole number"
    accepts: Callable[[object], bool]
    plain: Callable[[Any], Plain]  # makes the value that is written
    required: bool = True
    absent: object = None  # the value for which an optional field is left out
    claimed: bool = False  # whether it is a difference of larger numbers, and may be off by their rounding
    stated_with: str = ""  # an optional field; where that is stated, so is this
    parts: Fields | None = None  # of an object


Fields: TypeAlias = Mapping[str, Field]


def is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    # A whole number too large for a float would break later comparisons.
    return (is_whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def _are_numbers(value: object, n: int | None = None) -> bool:
    return isinstance(value, list | tuple) and len(value) == (n or len(value)) > 0 and all(map(is_number, value))


whole = Field(int, "a whole number", is_whole, int)
positive = Field(int, "a whole number of at least 1, or left out", lambda value: is_whole(value) and value >= 1, int)
number = Field(float, "a finite number", is_number, float)
claim = replace(number, claimed=True)
text = Field(str, "a nonempty string", lambda value: isinstance(value, str) and value != "", str)
true = Field(bool, "true, or left out", lambda value: value is True, bool)
numbers = Field(list, "a nonempty list of finite numbers", _are_numbers, lambda values: list(map(float, values)))
pair = replace(numbers, rule="a pair of finite numbers", accepts=lambda value: _are_numbers(value, 2))
optional_number = Field(
    float,
    "a finite number or null",
    lambda value: value is None or is_number(value),
    lambda value: None if value is None else float(value),
)
BY_TYPE = {
    int: whole,
    float: number,
    str: text,
    bool: true,
    float | None: optional_number,
    tuple[float, float]: pair,
}


def part(parts: Fields) -> Field:
    """Return the field of an object with these parts."""
    return Field(dict, "an object", lambda value: isinstance(value, Mapping), dict, parts=parts)


def maybe(field: Field, absent: object, stated_with: str = "") -> Field:
    """Return the field as one that is left out if its value is `absent`, unless the field `stated_with` is stated."""
    return replace(field, required=False, absent=absent, stated_with=stated_with)


def fields_of(made: type, *left_out: str) -> dict[str, Field]:
    """Return the fields of a dataclass as fields of a record."""
    types, found = get_type_hints(made), {}
    for each in fields(made):
        if each.name not in left_out:
            field = BY_TYPE[types[each.name]]
            found[each.name] = field if each.default is MISSING else maybe(field, each.default)
    return found


def read(made: type[T], *sources: Mapping[str, Plain], **others: Plain) -> T:
    """Return the dataclass whose fields the sources and the other arguments hold; later ones take precedence."""
    held: Record = {}
    for source in (*sources, others):
        held.update(source)
    own = {each.name for each in fields(made)}  # type: ignore[arg-type]
    return made(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in held.items() if name in own}
    )


def write(source: Any, stated: Fields, names: Names = ()) -> Record:
    """Return the stated fields of an object as plain data; "name" is the name of the learner with its index."""
    content: Record = {}
    for name, field in stated.items():
        value = names[source.index] if name == "name" else getattr(source, name)
        other = field.stated_with
        needed = field.required or (other != "" and getattr(source, other) != stated[other].absent)
        if needed or value != field.absent:
            content[name] = field.plain(value) if field.parts is None else write(value, field.parts, names)
    return content


def shape_faults(data: Mapping[str, object], stated: Fields, prefix: str = "") -> list[str]:
    """Return sentences about fields that are missing, unknown or of another type."""
    faults = [f"{prefix}{name} is missing" for name, field in stated.items() if field.required and name not in data]
    faults += [f"{prefix}{name} is not a field of a record" for name in data if name not in stated]
    for name, field in stated.items():
        if name not in data:
            continue
        value = data[name]
        if not field.accepts(value):
            faults.append(f"{prefix}{name} is {value!r:.80}, but must be {field.rule}")
        elif field.parts is not None and isinstance(value, Mapping):
            faults += shape_faults(value, field.parts, f"{name}.")
    return faults


def rule_faults(rules: Iterable[Rule]) -> list[str]:
    """Return sentences about the rules that are not satisfied."""
    return [f"{name} is {value!r}, but must be {rule}" for name, value, satisfied, rule in rules if not satisfied]


def recomputed_faults(
    data: Mapping[str, Plain], recomputed: Mapping[str, Plain], stated: Fields, magnitude: float, prefix: str = ""
) -> Iterator[str]:
    """Yield sentences about numbers that differ from the recomputed ones by more than rounding."""
    for name, value in recomputed.items():
        field = stated[name]
        if field.parts is not None:
            yield from recomputed_faults(data[name], value, field.parts, magnitude, f"{name}.")
        elif isinstance(value, int | float):
            slack = CLOSE * abs(magnitude) if field.claimed else 0.0
            if name not in data or not isclose(data[name], value, rel_tol=CLOSE, abs_tol=slack):
                yield f"{prefix}{name} is {data.get(name)!r}, but the recomputed value is {value!r}"


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


def content(proof: Proof, premises: Premises, names: Names) -> Record:
    """Return premises and proof as plain data."""
    return {**write(premises, proof.premises), **write(proof, proof.fields, names)}


def sealed(proof: Proof, origin: Origin, premises: Premises, names: Names) -> Record:
    """Return the record of a proof, with its digest."""
    record = {**write(origin, proof.origin), **content(proof, premises, names)}
    return {**record, "digest": digest(record)}
