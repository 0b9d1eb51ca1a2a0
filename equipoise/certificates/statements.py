"""What a selector states: how its learners stand, what it eliminated and why, and what the rewards so far prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import NamedTuple

from equipoise.types import Config


class Standing(NamedTuple):
    """How a learner stands: sums and counts over its longest resolved prefix of plays, per play where it says mean."""

    learner: int
    plays: int
    pending: int  # plays beyond the resolved prefix
    mean_reward: float
    mean_radius: float
    mean_bound: float
    mean_lower: float  # at least mean_reward - mean_radius: the optimum is not below this
    mean_upper: float  # at most mean_reward + mean_radius + mean_bound: if the bound is true, the optimum is not above
    active: bool

    def describe(self, name: str) -> str:
        """The row as a sentence."""
        state = "" if self.active else ", dropped"
        waiting = f" ({self.pending:,} without a reward)" if self.pending else ""
        if isnan(self.mean_reward):
            return f"{name}: {self.plays:,} plays{waiting}{state}."
        proof = ""
        if not isnan(self.mean_lower):
            proof = f"; the best expected reward is at least {self.mean_lower:.4g}"
            if self.active:
                proof += f", and at most {self.mean_upper:.4g} if its bound is true"
        return f"{name}: {self.plays:,} plays{waiting}{state}, mean reward {self.mean_reward:.4g}{proof}."

    def to_json(self) -> Config:
        """As plain data; what is not known is None."""
        return {key: None if value != value else value for key, value in self._asdict().items()}


@dataclass(frozen=True)
class Evidence:
    """The resolved plays of one learner at one moment; all totals."""

    index: int
    plays: int
    reward_sum: float
    regret_bound: float
    radius: float  # of the side that the proof needs: above the mean of the learner, below that of the witness
    spread: float = 0.0  # of the rewards around their running mean, a sum of squares

    @property
    def mean_lower(self) -> float:
        return (self.reward_sum - self.radius) / self.plays

    @property
    def mean_upper(self) -> float:
        return (self.reward_sum + self.regret_bound + self.radius) / self.plays


@dataclass(frozen=True)
class Elimination:
    """Proof that a learner's bound is false: its upper mean lies below the lower mean of a witness."""

    round: int
    learner: Evidence
    witness: Evidence


@dataclass(frozen=True)
class EpochEvidence:
    """All resolved rounds of an epoch, whoever played them; all totals. `index` is the learner of smallest class."""

    index: int
    rounds: int
    reward_sum: float
    regret_bound: float  # sum of what the played learners said their plays lose at most
    radius: float

    @property
    def mean_upper(self) -> float:
        return (self.reward_sum + self.regret_bound + self.radius) / self.rounds


@dataclass(frozen=True)
class LowerEvidence:
    """What a learner proposed in the same rounds, played or not."""

    index: int
    rounds: int
    lower_sum: float  # of the lower bounds on the expected rewards of its proposals

    @property
    def mean_lower(self) -> float:
        return self.lower_sum / self.rounds


@dataclass(frozen=True)
class EpochEnd:
    """Proof that some learner of an epoch is misspecified, hence the one of smallest class: were all well specified,
    the best expected reward of the epoch's rounds would be less than a witness's own lower bounds add up to."""

    round: int
    learner: EpochEvidence
    witness: LowerEvidence


AnyElimination = Elimination | EpochEnd


class Outlook(NamedTuple):
    """The next elimination, if mean rewards and shares of plays stay as they are."""

    learner: int
    witness: int
    rounds: int  # more, of all learners
    plays: int  # more, of the learner


@dataclass(frozen=True)
class Certificate:
    """What the rewards so far prove, with confidence 1 - delta (`learners_delta` more where bounds are the learners'
    own).

    The upper bounds presume that at least one active learner has kept its bound; `consistent` is False once the rewards
    disprove even that. `valid` is False where a radius was narrowed by hand. With `adversarial` contexts every round
    has an optimum of its own, and what is bounded is the mean of these over the resolved rounds.
    """

    rounds: int
    resolved_rounds: int  # length of the longest prefix of rounds whose rewards are all in
    optimum_lower: float
    optimum_upper: float
    regret_lower: float  # total over the resolved rounds
    regret_upper: float  # total over all rounds
    learner_regret_lowers: tuple[float, ...]  # proved regret of each learner, a total over its resolved plays
    delta: float
    learners_delta: float
    consistent: bool
    valid: bool
    adversarial: bool = False
    next_elimination: Outlook | None = None  # None if none is in sight

    def to_json(self) -> Config:
        """As plain data."""
        data = {**asdict(self), "learner_regret_lowers": list(self.learner_regret_lowers)}
        data["next_elimination"] = None if self.next_elimination is None else self.next_elimination._asdict()
        return data

    def describe(self, names: Sequence[str] | None = None) -> str:
        """The certificate as sentences; `names` are those of the learners."""
        if not self.valid:
            return (
                "No statement: the radius was narrowed by hand (radius_scale below 1), which voids every certificate."
            )
        confidence = f"With confidence {1 - self.delta - self.learners_delta:.4g}"
        averaged = ", averaged over the rounds," if self.adversarial else ""
        optimum = f"the best expected reward{averaged} lies in [{self.optimum_lower:.4g}, {self.optimum_upper:.4g}]"
        if not self.consistent:
            return f"{confidence}, no learner that is still active keeps its bound; the rewards contradict all of them."
        return (
            f"{confidence}, and if some active learner keeps its bound, {optimum} and the regret of {self.rounds:,} "
            f"rounds is at least {_readable(self.regret_lower)} and at most {_readable(self.regret_upper)}."
            f"{self._outlook_words(names)}"
        )

    def _outlook_words(self, names: Sequence[str] | None) -> str:
        if self.next_elimination is None:
            return ""
        learner, witness, rounds, plays = self.next_elimination
        first, second = (f"learner {i}" if names is None else names[i] for i in (learner, witness))
        more = f"{plays:,} more plays of its own" if plays > 1 else "one more play of its own"
        return (
            f" At the present means {first} would be dropped, on the evidence of {second}, after {more}, in about "
            f"{rounds:,} rounds."
        )


def _readable(total: float) -> str:
    return f"{total:,.0f}" if total >= 1000.0 else f"{total:.4g}"
