"""What a selector states: how its learners are doing, and what their rewards prove about optimum and regret."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf, isnan
from typing import NamedTuple

from equipoise.certificates.wording import (
    at_least,
    at_most,
    confidence_text,
    counted,
    law_clause,
    name_of,
    total_at_least,
    total_at_most,
)
from equipoise.types import Config


class Standing(NamedTuple):
    """How one learner is doing. Means are per play, over its plays that count as evidence.

    These are the longest prefix of its plays whose rewards are known, without those that are left out.

    Attributes
    ----------
    learner
        Index of the learner.
    plays
        Number of rounds it has played.
    pending
        Plays that do not count as evidence, or not yet.
    mean_reward
        Mean reward; nan before the first play that counts, as are all means.
    mean_radius
        Confidence radius of the mean reward.
    mean_bound
        Candidate regret bound per play; the width of the reward range if the learner has no bound.
    mean_lower
        The best expected reward is not below this; at least `mean_reward - mean_radius`.
    mean_upper
        If the learner's bound holds, the best expected reward is not above this; at most
        `mean_reward + mean_radius + mean_bound`.
    active
        Whether the learner may be chosen.
    waiting
        Of the pending plays, those whose reward is known and does not count yet: it waits for that of an earlier play
        or, with a deadline, until its play is as old as most plays are when their reward comes.
    left_out
        Of the pending plays, those that will never count: their context had a part in who played, or their reward was
        not there in time.
    removed
        Whether the learner was removed from the pool.
    """

    learner: int
    plays: int
    pending: int
    mean_reward: float
    mean_radius: float
    mean_bound: float
    mean_lower: float
    mean_upper: float
    active: bool
    waiting: int = 0
    left_out: int = 0
    removed: bool = False

    def describe(
        self,
        name: str,
        certificate: Certificate | None = None,
        reward_range: tuple[float, float] = (-inf, inf),
        state: str | None = None,
    ) -> str:
        """The row in sentences.

        Without the `certificate` of the selector, which has the confidence, only counts and the mean reward are
        stated. Bounds on the best expected reward that `reward_range` implies anyway are left out. `state` says why a
        learner is not active, if that is known.
        """
        inactive = "removed" if self.removed else state or "inactive"
        status = "" if self.active else f", {inactive}"
        facts = f"{name}: {counted(self.plays, 'play')}{self._pending_parts()}{status}"
        if isnan(self.mean_reward):
            return f"{facts}."
        facts += f", mean reward {self.mean_reward:.4g}."
        if certificate is None or not certificate.valid or certificate.delta >= 1.0:
            return facts
        return facts + "".join(f" {sentence}" for sentence in self._statements(certificate, reward_range))

    def _pending_parts(self) -> str:
        """What is known about the pending plays."""
        parts = {
            "without a reward": self.pending - self.waiting - self.left_out,
            "with a reward that does not count yet": self.waiting,
            "left out of the evidence": self.left_out,
        }
        known = ", ".join(f"{n:,} {what}" for what, n in parts.items() if n)
        return f" ({known})" if known else ""

    def _statements(self, certificate: Certificate, reward_range: tuple[float, float]) -> Iterator[str]:
        low, high = reward_range
        parts = []
        if self.mean_lower > low:
            parts.append(f"at least {at_least(min(self.mean_lower, high))}")
        if self.active and certificate.assumes_bounds and self.mean_upper < high:
            parts.append(f"at most {at_most(max(self.mean_upper, low))} if the bound of this learner holds")
        if parts:
            yield f"{certificate.own_clause}, the best expected reward is {', and '.join(parts)}."
        regret = certificate.learner_regret_lowers[self.learner]
        if regret > 0:
            yield f"{certificate.own_clause}, its own regret is at least {total_at_least(regret)}."

    def to_json(self) -> Config:
        """As plain data; unknown numbers are None."""
        return {key: None if value != value else value for key, value in self._asdict().items()}


class Outlook(NamedTuple):
    """When the next elimination would happen if mean rewards and shares of plays stay as they are."""

    learner: int
    witness: int
    rounds: int  # from now on
    plays: int  # of the learner, from now on


@dataclass(frozen=True)
class Certificate:
    """What the rewards so far prove, with confidence `1 - delta - learners_delta`.

    Upper ends presume something of the learners: that the bound of some active learner holds, or under adversarial
    contexts that the class of the `presumed` one contains the true model. A statement that presumes a bound has nothing
    to subtract for it, so `learners_delta` is 0 then.

    Attributes
    ----------
    rounds
        Number of rounds so far, since `law_since`.
    resolved_rounds
        Number of rounds that count as evidence: those of the longest prefix whose rewards are all known, without those
        that are left out.
    optimum_lower, optimum_upper
        Interval that contains the best expected reward.
    regret_lower
        Lower bound on the total regret of the resolved rounds.
    regret_upper
        Upper bound on the total regret of all rounds.
    learner_regret_lowers
        For each learner, a lower bound on the total regret of its resolved plays.
    delta
        Failure probability of the selector's own statements.
    learners_delta
        Failure probability of the `presumed` learner's confidence sets, if the statements use them beyond what they
        presume; never a sum over learners.
    consistent
        False if the rewards contradict what the upper ends presume.
    valid
        False if `radius_scale` is below 1: then nothing is proved.
    adversarial
        True if contexts are adversarial: every round has its own optimum, and `optimum_lower` and `optimum_upper`
        bound the mean of these over the rounds that count as evidence.
    next_elimination
        When the next elimination would happen if mean rewards stay as they are; None if none is in sight.
    assumes_bounds
        True if the upper bounds hold only if the bound of at least one active learner does.
    presumed
        Under adversarial contexts, the learner whose class the upper ends presume to contain the true model.
    radius
        Form of the confidence radius.
    pool_since
        Number of rounds before the last learner was added or removed; 0 if the pool has never changed.
    late_learners
        Learners that were added after the start. Their shares are part of `delta`, even after they are removed.
    entrants
        Active learners that were added and have no play that counts yet, so that with them nothing bounds the best
        expected reward from above; empty if no tighter statement is possible without them.
    earlier_optimum_upper, earlier_regret_upper
        The upper bounds if the bound of an active learner that is not an entrant holds; None without entrants.
    law_since
        The first of these rounds: all of this assumes one law of contexts and rewards since then. Rounds before it do
        not count, because an alarm or a change of the deadline or the default reward began a new law.
    law_refuted_at
        The round of the last alarm; 0 if there was none.
    law_refuted
        The null hypothesis that this alarm refuted, such as "one law, or that UCB keeps its bound"; else empty.
    """

    rounds: int
    resolved_rounds: int
    optimum_lower: float
    optimum_upper: float
    regret_lower: float
    regret_upper: float
    learner_regret_lowers: tuple[float, ...]
    delta: float
    learners_delta: float
    consistent: bool
    valid: bool
    adversarial: bool = False
    next_elimination: Outlook | None = None
    assumes_bounds: bool = False
    pool_since: int = 0
    late_learners: tuple[int, ...] = ()
    entrants: tuple[int, ...] = ()
    earlier_optimum_upper: float | None = None
    earlier_regret_upper: float | None = None
    presumed: int | None = None
    radius: str = ""
    law_since: int = 1
    law_refuted_at: int = 0
    law_refuted: str = ""

    def to_json(self) -> Config:
        """As plain data."""
        data = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        data["next_elimination"] = None if self.next_elimination is None else self.next_elimination._asdict()
        stated = {"law_since": self.law_since > 1 or self.law_refuted_at}
        stated |= dict.fromkeys(("law_refuted_at", "law_refuted"), self.law_refuted_at)
        return {key: value for key, value in data.items() if stated.get(key, True)}

    def with_learners(self, deltas: Mapping[int, float]) -> Certificate:
        """The same with the failure probability of the learner whose confidence sets it uses without presuming them.

        `deltas` has that of every learner whose bound is observed.
        """
        delta = float(deltas.get(-1 if self.presumed is None else self.presumed, 0.0))
        return self if delta == self.learners_delta else replace(self, learners_delta=delta)

    @property
    def has_confidence(self) -> bool:
        """Whether anything is proved about the optimum and the total regret."""
        return self.valid and self.delta + self.learners_delta < 1.0

    @property
    def confidence_clause(self) -> str:
        """How every sentence about the optimum and the total regret begins."""
        return f"With confidence {confidence_text(self.delta + self.learners_delta)}"

    @property
    def own_clause(self) -> str:
        """How every sentence begins that rests on the selector's radii alone."""
        return f"With confidence {confidence_text(self.delta)}"

    def describe(self, names: Sequence[str] | None = None) -> str:
        """The certificate in sentences; `names` are those of the learners."""
        if not self.valid:
            return "No statement: radius_scale is below 1, and a narrowed radius proves nothing."
        if not self.has_confidence:
            whose = f" of the selector and of {self._presumed_name(names)}" if self.learners_delta else ""
            parts = [self.delta, self.learners_delta] if self.learners_delta else [self.delta]
            numbers = " + ".join(f"{part:.4g}" for part in parts)
            return f"No statement: the failure probabilities{whose} add up to 1 or more ({numbers})."
        if not self.consistent:
            return f"{self.confidence_clause}, {self._contradicted(names)}."
        averaged = ", averaged over the rounds that count as evidence," if self.adversarial else ""
        return (
            f"{self.confidence_clause}, {self._assumption(names)}the best expected reward{averaged} lies in "
            f"[{at_least(self.optimum_lower)}, {at_most(self.optimum_upper)}] and the total regret of "
            f"{counted(self.rounds, 'round')} is at least {total_at_least(self.regret_lower)} and at most "
            f"{total_at_most(self.regret_upper)}.{self._without_entrants(names)}{self._forecast(names)}"
            f"{law_clause(self.law_since, self.law_refuted_at, self.law_refuted)}"
        )

    def _presumed_name(self, names: Sequence[str] | None) -> str:
        return "some active learner" if self.presumed is None else name_of(self.presumed, names)

    def _assumption(self, names: Sequence[str] | None) -> str:
        if self.adversarial:
            return f"if the class of {self._presumed_name(names)} contains the true model, "
        return "if the bound of some active learner holds, " if self.assumes_bounds else ""

    def _contradicted(self, names: Sequence[str] | None) -> str:
        if self.adversarial:
            name = self._presumed_name(names)
            return f"the class of {name}, which contains all others, lacks the true model: the rewards contradict it"
        return "the bounds of all active learners are false: the rewards contradict them"

    def _without_entrants(self, names: Sequence[str] | None) -> str:
        if self.earlier_optimum_upper is None or self.earlier_regret_upper is None:
            return ""
        entrants = ", ".join(name_of(i, names) for i in self.entrants)
        return (
            f" Nothing is known yet about {entrants}, added after the start. If the bound of some other active learner "
            f"holds, the best expected reward is at most {at_most(self.earlier_optimum_upper)} and the total regret at "
            f"most {total_at_most(self.earlier_regret_upper)}."
        )

    def _forecast(self, names: Sequence[str] | None) -> str:
        if self.next_elimination is None:
            return ""
        learner, witness, rounds, plays = self.next_elimination
        first, second = name_of(learner, names), name_of(witness, names)
        return (
            f" If mean rewards stay as they are, {first} would be eliminated on the evidence of {second} after "
            f"{counted(plays, 'more play')}, in about {counted(rounds, 'round')}."
        )
