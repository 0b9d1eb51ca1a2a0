"""Eliminations: proofs that a learner's regret bound, or its model class, is false.

By plays: learner i is eliminated when, for a witness j, (U_i + R_i + D(n_i)) / n_i < (U_j - D(n_j)) / n_j. If the bound
R_i held, the best expected reward would be below a mean that j has attained.

In the same rounds: if the bound R of a learner held, the best expected rewards of its own n rounds would add up to at
most U + R + D(n), D being a radius of the reward noise alone. If the lower bounds of a witness on its proposals in the
same rounds add up to more, the bound is false, or the confidence sets of the witness are.

By the end of an epoch, under adversarial contexts: if all learners of an epoch of t rounds were well specified, the
optima of its rounds would add up to at most U + R + D(t): the rewards, the regret bounds that the chosen learners gave
for their plays, and the radius of the reward noise. If the lower bounds of a witness on its proposals in the same
rounds add up to more, some learner is misspecified, and then so is the one with the smallest class, since every class
contains those before it.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1 (by plays) and its lemma on mu*, Algorithms 2 and 3 (epochs).
Symbols: n plays, t rounds, U reward_sum, R regret_bound, D radius, V spread (all totals), M n_learners,
alpha = delta / (shares (M + 1)), and delta / (4 M) for epochs.
`shares` is 2 for a radius that is the same on both sides, and one more with the same-round test.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

from equipoise.certificates.fields import Fields, Names, claim, fields_of, number, part, read, text, whole
from equipoise.certificates.proofs import PREMISES, Origin, Premises, Proof, Rule
from equipoise.certificates.wording import told_apart, with_confidence
from equipoise.confidence import (
    RADII,
    epoch_alpha,
    lower_sum,
    mixture,
    noise_radius,
    noise_variance,
    radius_alpha,
    radius_shares,
    radius_sum,
    upper_sum,
)
from equipoise.types import Plain


@dataclass(frozen=True)
class Evidence:
    """The resolved plays of one learner at one moment. All numbers are totals."""

    index: int
    plays: int
    reward_sum: float
    regret_bound: float
    radius: float  # on the side that the proof needs: above the learner's mean, below the witness's
    spread: float = 0.0  # sum of squared distances of the rewards from their running mean

    @property
    def mean_lower(self) -> float:
        return (self.reward_sum - self.radius) / self.plays

    @property
    def lower_text(self) -> str:
        return f"({self.reward_sum:,.1f} − {self.radius:,.1f}) / {self.plays:,}"

    @property
    def mean_upper(self) -> float:
        return (self.reward_sum + self.regret_bound + self.radius) / self.plays


@dataclass(frozen=True)
class EpochEvidence:
    """All resolved rounds of an epoch, whichever learner played. All numbers are totals.

    `index` is the learner with the smallest class.
    """

    index: int
    rounds: int
    reward_sum: float
    regret_bound: float  # sum of the regret bounds that the chosen learners gave for their plays
    radius: float

    @property
    def plays(self) -> int:
        return self.rounds

    @property
    def mean_upper(self) -> float:
        return (self.reward_sum + self.regret_bound + self.radius) / self.rounds


@dataclass(frozen=True)
class LowerEvidence:
    """The proposals of a learner in the same rounds, whether or not it was chosen."""

    index: int
    rounds: int
    lower_sum: float  # sum of its lower bounds on the expected rewards of its proposals

    @property
    def mean_lower(self) -> float:
        return self.lower_sum / self.rounds

    @property
    def lower_text(self) -> str:
        return f"{self.lower_sum:,.1f} / {self.rounds:,}"


_LEARNER: Fields = {**fields_of(Evidence, "spread"), "name": text, "mean_upper": claim}
_WITNESS: Fields = {**fields_of(Evidence, "regret_bound", "spread"), "name": text, "mean_lower": claim}
_LOWER_WITNESS = part({**fields_of(LowerEvidence, "rounds"), "name": text, "mean_lower": claim})


class Wording(NamedTuple):
    """The parts of the sentences about a kind of elimination; the first two are formats."""

    premise: str  # before the upper mean
    shown: str  # after it
    condition: str = "if its bound held"  # what is disproved
    proviso: str = ""  # what the witness needs
    conclusion: str = ""  # what follows for the learner


@dataclass(frozen=True)
class AnyElimination(Proof):
    """Proof that a claim about a learner is false: its upper mean is below the lower mean of a witness."""

    counted: ClassVar[str] = "learner"  # the part of the record with the rounds that count
    wording: ClassVar[Wording]

    round: int
    learner: Evidence | EpochEvidence
    witness: Evidence | LowerEvidence

    @property
    def magnitude(self) -> float:
        return self.learner.radius / self.learner.plays

    def faults(self, premises: Premises, origin: Origin) -> Iterator[str]:
        learner, witness, name = self.learner, self.witness, self.counted
        upper, lower = learner.mean_upper, witness.mean_lower
        if not upper < lower:
            yield f"nothing is disproved: the upper mean {upper!r} is not below the lower mean {lower!r}"
        yield from premises.regret_faults(f"{name}.regret_bound", learner.regret_bound, learner.plays)
        yield from premises.sum_faults(f"{name}.reward_sum", learner.reward_sum, learner.plays)
        if isinstance(witness, LowerEvidence):
            yield from premises.sum_faults("witness.lower_sum", witness.lower_sum, witness.rounds, "lower bounds")
        else:
            yield from premises.sum_faults("witness.reward_sum", witness.reward_sum, witness.plays)

    def describe(self, names: Names, delta: float) -> str:
        """Return the proof as a sentence with the numbers of the inequality; `delta` is its failure probability."""
        learner, witness, (upper, lower) = self.learner, self.witness, self._means()
        name, bound, plays = names[witness.index], f"{learner.regret_bound:,.1f}", f"{learner.plays:,}"
        premise = self.wording.premise.format(witness=name, bound=bound, plays=plays)
        return (
            f"{names[learner.index]} was eliminated {with_confidence(delta)}{premise} be at most "
            f"({learner.reward_sum:,.1f} + {bound} + {learner.radius:,.1f}) / {plays} = {upper}, but "
            f"{self.wording.shown.format(witness=name)} at least {witness.lower_text} = {lower}."
        )

    def _means(self) -> tuple[str, str]:
        """Return both means with as many digits as show their difference, at least four."""
        upper, lower = self.learner.mean_upper, self.witness.mean_lower
        places = next((n for n in range(4, 17) if f"{upper:.{n}f}" != f"{lower:.{n}f}"), 17)
        return f"{upper:.{places}f}", f"{lower:.{places}f}"

    def reason(self, witness: str) -> str:
        """Return why the learner was eliminated, in short; `witness` is the name of the witness."""
        upper, lower = told_apart(self.learner.mean_upper, self.witness.mean_lower)
        *_, condition, proviso, conclusion = self.wording
        shows = f"{witness}{proviso} shows at least {lower}{conclusion}"
        return f"{condition}, at most {upper} could be expected, but {shows}"


@dataclass(frozen=True)
class Elimination(AnyElimination):
    """Proof that a learner's regret bound is false: its upper mean is below the lower mean of a witness."""

    kind: ClassVar[str] = "plays"
    fields: ClassVar[Fields] = {
        "learner": part({**_LEARNER, "spread": number}),
        "witness": part({**_WITNESS, "spread": number}),
    }
    wording: ClassVar[Wording] = Wording(
        ": if its bound of {bound} on the regret of its {plays} plays held, the best expected reward would",
        "{witness} shows that it is",
    )

    learner: Evidence
    witness: Evidence

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        witness = read(Evidence, record["witness"], regret_bound=0.0)
        return cls(record["round"], read(Evidence, record["learner"]), witness)

    @property
    def magnitude(self) -> float:
        return max(side.radius / side.plays for side in (self.learner, self.witness))

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        learner, witness = self.learner, self.witness
        above, below = premises.radius_of(learner.index), premises.radius_of(witness.index)
        learner = replace(learner, radius=upper_sum(above, learner.plays, learner.spread, learner.regret_bound))
        witness = replace(witness, radius=lower_sum(below, witness.plays, witness.spread))
        alpha = radius_alpha(premises.n_learners, premises.delta, premises.shares)
        return replace(premises, alpha=alpha), replace(self, learner=learner, witness=witness)

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        yield from premises.radius_rules()
        yield _other_index(self.witness.index, self.learner.index)
        for name, side in (("learner", self.learner), ("witness", self.witness)):
            yield f"{name}.plays", side.plays, side.plays >= 1, "at least 1"
            yield f"{name}.spread", side.spread, side.spread >= 0, "at least 0"

    def faults(self, premises: Premises, origin: Origin) -> Iterator[str]:
        yield from super().faults(premises, origin)
        plays = self.learner.plays + self.witness.plays
        if plays > self.round:
            yield f"round is {self.round}, but the two learners had {plays} plays by then"


@dataclass(frozen=True)
class SameRoundElimination(AnyElimination):
    """Proof that a learner's bound is false, if the confidence sets of a witness hold.

    The witness's lower bounds on its proposals in the learner's own rounds add up to more than the best expected
    rewards of these rounds could, if the bound held.
    """

    kind: ClassVar[str] = "same round"
    fields: ClassVar[Fields] = {"learner": part(_LEARNER), "witness": _LOWER_WITNESS}
    wording: ClassVar[Wording] = Wording(
        ", if the confidence sets of {witness} hold: if its bound of {bound} on the regret of its {plays} plays held, "
        "the best expected reward in these rounds would on average",
        "by the lower bounds of {witness} in the same rounds it is",
        proviso=", if its own confidence sets hold,",
    )

    learner: Evidence
    witness: LowerEvidence

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        learner = read(Evidence, record["learner"])
        return cls(record["round"], learner, read(LowerEvidence, record["witness"], rounds=learner.plays))

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        shares = radius_shares(premises.radius, premises.contexts, separate_lower=False) + 1
        alpha = radius_alpha(premises.n_learners, premises.delta, shares)
        noise = mixture(noise_variance(premises.width, premises.noise), alpha, premises.radius_scale)
        learner = replace(self.learner, radius=radius_sum(noise, self.learner.plays))
        return replace(premises, alpha=alpha, shares=shares), replace(self, learner=learner)

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        yield from premises.radius_rules([name for name in RADII if name != "paper"])
        yield _other_index(self.witness.index, self.learner.index)
        yield "learner.plays", self.learner.plays, 1 <= self.learner.plays <= self.round, "from 1 to round"


@dataclass(frozen=True)
class EpochEnd(AnyElimination):
    """Proof that some learner of an epoch is misspecified, and therefore the one with the smallest class.

    If all were well specified, the best expected rewards of the epoch's rounds would add up to less than the lower
    bounds of a witness do.
    """

    kind: ClassVar[str] = "epoch end"
    premises: ClassVar[Fields] = {
        name: field for name, field in PREMISES.items() if name not in ("shares", "n_late", "same_round")
    }
    fields: ClassVar[Fields] = {
        "learner": part({"index": whole, "name": text}),
        "epoch": part({**fields_of(EpochEvidence, "index"), "mean_upper": claim}),
        "witness": _LOWER_WITNESS,
    }
    counted: ClassVar[str] = "epoch"
    wording: ClassVar[Wording] = Wording(
        ": if the confidence sets of all learners held, the best expected reward in the {plays} rounds of the epoch "
        "would on average",
        "by the lower bounds of {witness} it is",
        "if all active classes contained the rewards",
        conclusion=", and its class is the smallest",
    )

    learner: EpochEvidence
    witness: LowerEvidence

    @property
    def epoch(self) -> EpochEvidence:
        """The rounds of the epoch, which a record states apart from the learner."""
        return self.learner

    @classmethod
    def from_record(cls, record: Mapping[str, Plain], premises: Premises) -> Self:
        epoch = read(EpochEvidence, record["learner"], record["epoch"])
        return cls(record["round"], epoch, read(LowerEvidence, record["witness"], rounds=epoch.rounds))

    def recompute(self, premises: Premises) -> tuple[Premises, Self]:
        alpha, scale = epoch_alpha(premises.n_learners, premises.delta), premises.radius_scale
        noise = noise_radius(alpha=alpha, width=premises.width, noise=premises.noise, scale=scale)
        epoch = replace(self.epoch, radius=radius_sum(noise, self.epoch.rounds))
        return replace(premises, alpha=alpha), replace(self, learner=epoch)

    def rules(self, premises: Premises, origin: Origin) -> Iterator[Rule]:
        learner, witness, rounds = self.learner.index, self.witness.index, self.epoch.rounds
        yield "radius", premises.radius, premises.radius == "stitched", "stitched"
        yield "contexts", premises.contexts, premises.contexts == "adversarial", "adversarial"
        yield "learner.index", learner, learner < premises.n_learners - 1, "less than that of the last learner"
        rule = "at least learner.index: earlier learners are eliminated"
        yield "witness.index", witness, witness >= learner, rule
        yield "epoch.rounds", rounds, 1 <= rounds <= self.round, f"from 1 to round = {self.round}"


def _other_index(witness: int, learner: int) -> Rule:
    return "witness.index", witness, witness != learner, "different from learner.index"
