"""The contract of a selector: the rule that picks which learner plays, without seeing the context.

The confidence statements need the choice to be independent of the round's context given the past, so `choose` takes no
context. A play is open from `choose` until its reward is credited or the round is withdrawn; rewards may come late, in
any order, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan, nan
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument, NotEntitled
from equipoise.learner import Proposal, accepts, can_be_restored, learner_name, offers
from equipoise.nesting import LinearClass, check_learners
from equipoise.validation import real

NEEDS = frozenset({"bounds", "actions", "lower", "weight", "snapshots", "nested"})


class Choice(NamedTuple):
    """Which learner plays; the ticket under which its reward is credited."""

    learner: int
    play: int  # this learner's play number, from 1
    probability: float
    snapshot: int | None = None  # play an earlier policy of this learner: the kept one, which has this number
    teach: bool = True  # whether the learner learns from this round
    keep: int | None = None  # keep the policy that plays this round, under this number


@dataclass(frozen=True)
class SelectorTraits:
    """What portfolios, simulations and checks read of a selector beside its methods; the defaults suit one of a user's
    own."""

    n_learners: int | None = None  # that it was made for; None if it takes any number
    randomized: bool = True  # whether choosing draws random numbers
    reward_range: tuple[float, float] | None = None
    noise: float | None = None  # sub-Gaussian factor of the rewards; None if they are bounded
    observed: tuple[int, ...] = ()  # learners whose bound is `Observed`
    copies: int = 1  # equal copies of each learner that it wants in a row
    classes: tuple[LinearClass, ...] | None = None  # nested classes that it was made for
    per_learner: tuple[str, ...] = ("bounds",)  # settings with an entry per learner
    readmits: bool = False  # whether a learner that is not active may become so again
    left_out: tuple[int, ...] = ()  # learners that are never played
    compilable: bool = False


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

    def words(self, name: str) -> str:
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

    def to_json(self) -> dict[str, Any]:
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


Dropped = Elimination | EpochEnd


class Outlook(NamedTuple):
    """The next elimination, if mean rewards and shares of plays stay as they are; see `equipoise.outlook`."""

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

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        data = {**asdict(self), "learner_regret_lowers": list(self.learner_regret_lowers)}
        data["next_elimination"] = None if self.next_elimination is None else self.next_elimination._asdict()
        return data

    def words(self, names: Sequence[str] | None = None) -> str:
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


class Selector(Protocol):
    """A rule that picks learners. Everything it knows comes through these calls, so it can be rebuilt from a log.

    A selector of your own may leave out `name` (the class name is shown), `n_learners` (it then takes any number) and
    the two checks (rewards then only have to be finite, and what `credit` refuses is known only after the learners have
    learned). One that needs "snapshots" has `keeps(choice)`, asked once the chosen learner has proposed: the
    number under which the policy that plays the choice is to be kept, or None if it is not.
    """

    name: str
    needs: frozenset[str]  # of {"bounds", "actions", "lower", "weight", "snapshots", "nested"}
    n_learners: int

    @property
    def eliminations(self) -> Sequence[Dropped]: ...

    @property
    def active(self) -> tuple[int, ...]: ...

    @property
    def traits(self) -> SelectorTraits: ...

    def choose(self, rng: np.random.Generator | None = None) -> Choice: ...

    def replay(self, choice: Choice) -> None:
        """Open exactly this play, as if it had been chosen, and draw nothing: recovery from a log."""
        ...

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None: ...

    def check_reward(self, reward: float) -> float:
        """The reward as a float, or the reason why it cannot be booked."""
        ...

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Raise what `credit` would and change nothing; else reward and regret as floats, nan if unknown."""
        ...

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[Dropped, ...]:
        """Book the reward of a play, in any order and however late; returns what it eliminated."""
        ...

    def withdraw(self, choice: Choice) -> tuple[Dropped, ...]:
        """Strike a play whose round did not happen; returns what that eliminated."""
        ...

    def standing(self) -> list[Standing]: ...

    def certificate(self) -> Certificate: ...

    def config(self) -> dict[str, Any]: ...

    def state(self) -> dict[str, NDArray[Any]]: ...

    def restore(self, state: dict[str, NDArray[Any]]) -> None: ...


def check_entitled(selector: Any, learners: Sequence[Any]) -> None:
    """Refuse learners that do not offer what the selector needs, naming the learner and the demand."""
    selector_name, n_learners = learner_name(selector), getattr(selector, "n_learners", len(learners))
    if n_learners != len(learners):
        raise InvalidArgument(f"learners has {len(learners)} entries, but {selector_name} was made for {n_learners}")
    for i, learner in enumerate(learners):
        name = learner_name(learner)
        if "weight" in selector.needs and "weight" not in accepts(learner):
            raise NotEntitled(f"{selector_name} needs learners that accept importance weights, but {name!r} does not")
        if "snapshots" in selector.needs and not can_be_restored(learner):
            raise NotEntitled(
                f"{selector_name} needs learners whose policies can be kept, but {name!r} has no state() and restore()"
            )
        if "lower" in selector.needs and "lower" not in offers(learner):
            raise NotEntitled(f"{selector_name} needs a lower bound from every learner, but {name!r} offers none")
        if i in getattr(selector, "observed", ()) and "regret" not in offers(learner):
            raise NotEntitled(
                f"bound {i} of {selector_name} is Observed, but learner {name!r} offers no 'regret' in its proposals"
            )
    _check_copies(selector_name, getattr(selector, "copies", 1), learners)
    if "nested" in selector.needs:
        try:
            check_learners(selector_name, getattr(selector, "classes", None), learners)
        except NotEntitled as refusal:
            raise NotEntitled(f"{selector_name} needs learners of nested classes: {refusal}") from None


def _check_copies(selector_name: str, copies: int, learners: Sequence[Any]) -> None:
    for i, learner in enumerate(learners if copies > 1 else ()):
        first = learners[i - i % copies]
        if type(learner) is not type(first) or _settings(learner) != _settings(first):
            raise NotEntitled(
                f"{selector_name} needs {copies} copies of every learner, but {learner_name(learner)!r} (learner {i}) "
                f"is none of {learner_name(first)!r} (learner {i - i % copies})"
            )


def _settings(learner: Any) -> Any:
    config = learner.config() if callable(getattr(learner, "config", None)) else {}
    return {key: value for key, value in config.items() if key not in ("name", "seed")}


def credit_in_two_steps(
    selector: Any,
) -> tuple[Callable[..., tuple[float, float]], Callable[[Choice, float, float], Sequence[Dropped]]]:
    """`credit` as a check that changes nothing and the booking of what it returned; learners learn in between."""
    if hasattr(selector, "credit_checked"):
        return selector.check_credit, selector.credit_checked

    def check(choice: Choice, reward: float, regret: float | None) -> tuple[float, float]:
        return real("reward", reward), nan if regret is None else real("regret", regret)

    def credit(choice: Choice, reward: float, regret: float) -> Sequence[Dropped]:
        return selector.credit(choice, reward, None if isnan(regret) else regret) or ()

    return getattr(selector, "check_credit", check), credit
