"""The contract of a selector: the rule that picks which learner plays, without seeing the context.

Confidence statements require that the choice is independent of the round's context given the past, so `choose` takes
no context. A play is open from `choose` until its reward is credited or the round is withdrawn. Rewards may arrive
late, in any order, or never.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import AnyElimination, Certificate, Comparison, Standing
from equipoise.certificates.proofs import Premises
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learner import (
    C,
    MinimalLearner,
    ModelClass,
    declared_words,
    find,
    fits,
    implements,
    part_name,
)
from equipoise.settings.checks import in_range, real
from equipoise.types import Config, Plain, State

if TYPE_CHECKING:
    from equipoise.drift_order import PairSums

NEEDS = frozenset({"bounds", "actions", "lower", "weight", "nested"})
TOLERANCE = 1e-9  # of probabilities that are computed twice, and of their sums


class Choice(NamedTuple):
    """The learner that a round is drawn for, and the key under which its reward is credited.

    Parameters
    ----------
    learner
        Index of the learner. A substitute may act for it; the reward is still credited to this learner.
    play
        Number of this play among the learner's plays, from 1.
    probability
        Probability with which the learner was chosen.
    greedy
        Whether the learner's greedy action is played instead of its proposal.
    """

    learner: int
    play: int
    probability: float
    greedy: bool = False


class Selector(Protocol):
    """A rule that chooses learners. All it knows comes through these calls, so it can be rebuilt from a log.

    These members are required, except that `config`, `state`, `restore` and `from_config` are needed only for saving,
    and that `choose` and `replay` need `available` only if a portfolio ever leaves a learner out of a choice.
    Everything further is a capability, which `capabilities` finds by the members of its Protocol: `ChecksCredit`,
    `KnowsChances`, `KnowsOdds`, `ReplaysOdds`, `HasRuleVersion`, `KnowsPropensity`, `Configures`, `CountsUnplayed`,
    `ChangesPool`, `AdmitsLearners`, `ChecksLearners`, `Reconfigures`, `ReportsPending`, `MeasuresPending`, `Compares`,
    `Updates`, `ExplainsDrift`, `ComparesPairs`, `Restarts`, `Provable`. Other attributes may have any name. Optional
    attributes:
    - `name`: the name shown in tables and figures; by default the class name.
    - `explanation`: how it chooses, in one sentence; used by `Portfolio.explain`.
    - `traits`: its properties, a `SelectorTraits`; by default the defaults of that class.
    - `eliminations`: all eliminations so far, in order. A simulation reports these, or what `credit` and `withdraw`
      have returned if the selector does not keep them.
    """

    @property
    def needs(self) -> frozenset[str]:
        """Subset of {"bounds", "actions", "lower", "weight", "nested"}; see `equipoise.compatibility`."""

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that may be chosen."""

    @property
    def choose(self) -> Callable[..., Choice]:
        """`choose(rng=None, available=None)`: draw the learner of this round; opens a play.

        The choice does not see the context. Only `available` learners are chosen; if none of them is active,
        `NoLearnerAvailable` is raised and nothing changes. Which ones are available may depend on the past, not on the
        context of the round.
        """

    @property
    def replay(self) -> Callable[..., object]:
        """`replay(choice, available=None)`: open a given play without random numbers, to rebuild it from a log.

        The probability of the choice is the logged one. It is never computed again: the rule may have changed since.
        """

    @property
    def observe(self) -> Callable[..., None]:
        """`observe(choice, proposals)`: receive the proposal of the drawn learner.

        With need "actions", `proposals` has every learner that could be drawn. A learner that cannot act has the action
        of its substitute, the lowest reward as lower bound, and the width of the rewards as regret. A selector whose
        `observe` takes `substitutes` also gets the learner that acts for each of these; None for the fallback.
        """

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[AnyElimination, ...]:
        """Credit the reward of a play, in any order and however late; returns the resulting eliminations."""

    def withdraw(self, choice: Choice) -> tuple[AnyElimination, ...]:
        """Remove the play of a round that did not happen; returns the resulting eliminations."""

    def standing(self) -> list[Standing]:
        """How every learner is doing, one row per learner."""

    def certificate(self) -> Certificate:
        """What the rewards so far prove."""

    def config(self) -> Config:
        """The constructor's arguments, as plain data."""

    def state(self) -> State:
        """Everything learned, as arrays."""

    def restore(self, state: State) -> None:
        """Replace the current state by one that `state` returned."""

    @classmethod
    def from_config(cls, config: Mapping[str, Plain]) -> Self:
        """The selector that `config` describes, in its initial state."""


@dataclass(frozen=True)
class SelectorTraits:
    """Properties of a selector besides its needs."""

    n_learners: int | None = None  # in its pool, also those added later or removed; None for any number
    randomized: bool = True  # whether choosing draws random numbers
    reward_range: tuple[float, float] | None = None  # of rewards or, with noise, of their expectations; None for any
    noise: float | None = None  # sub-Gaussian factor of unbounded rewards; None if rewards are in the range
    observed: tuple[int, ...] = ()  # the learners whose bound is `Observed`
    copies: int = 1  # number of consecutive equal learners that count as copies of one
    classes: tuple[ModelClass, ...] | None = None  # the nested model classes that it was created for
    per_learner: tuple[str, ...] = ("bounds",)  # settings with one entry for each learner
    readmits: bool = False  # whether an inactive learner may become active again
    excluded: tuple[int, ...] = ()  # learners that are never played
    delta: float = 0.05  # failure probability of its statements
    contexts: str = "random"  # "fixed" if contexts and action sets never change
    experts: tuple[tuple[int, bool], ...] = ()  # learners it draws, True: their greedy actions; empty: learners only
    restart_settings: tuple[str, ...] = ()  # settings that `restart` changes, besides delta
    learning_modes: tuple[str, ...] = ()  # from which rounds each learner learns, if that is part of the rule
    simulation_only: bool = False  # whether it runs in simulations only: a portfolio refuses it

    @property
    def greedy_learners(self) -> frozenset[int]:
        """The learners whose greedy action may be played."""
        return frozenset(i for i, greedy in self.experts if greedy)

    def check_reward(self, reward: float) -> float:
        """The reward as a float; raises an error if it is invalid."""
        return in_range("reward", reward, self.reward_range if self.noise is None else None)


class ChecksCredit(Protocol):
    """Checks a reward before any learner learns from it, so that an invalid one changes nothing."""

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Return reward and regret as floats, nan for an unknown regret; raise what `credit` would raise."""


class KnowsChances(Protocol):
    """Knows the probability of every learner in the next `choose`."""

    def choice_probabilities(self, available: Collection[int] | None = None) -> Sequence[float]: ...


class HasRuleVersion(Protocol):
    """Counts the changes of its rule, so that a journal tells which plays were drawn by which rule."""

    @property
    def rule_version(self) -> int:
        """A constant of the class, increased when equal rewards lead to other probabilities than before."""


class Configures(Protocol):
    """Adopts what a portfolio states about its rewards before the first round."""

    def configure(
        self,
        *,
        delays: str,
        window: int | None,
        reward_range: tuple[float, float] | None = None,
        noise: float | None = None,
    ) -> None: ...


class CountsUnplayed(Protocol):
    """Counts rounds that no learner played."""

    def tick(self, rounds: int = 1) -> Sequence[AnyElimination]: ...


class ChangesPool(Protocol):
    """Takes and removes learners while it runs. Indices are stable: a learner that was removed keeps its own."""

    def add_learner(self, bound: Bound | None = None) -> int:
        """Add a learner and return its index; a selector that `AdmitsLearners` takes further arguments."""

    def remove_learner(self, learner: int) -> None: ...


class AdmitsLearners(Protocol):
    """Decides how a learner joins a running pool."""

    def joining(self, learner: MinimalLearner) -> dict[str, Any]:
        """Return further arguments of `add_learner` for this learner; raise an error if it cannot join."""


class ChecksLearners(Protocol):
    """Refuses learners that it cannot work with."""

    def check_learners(self, learners: Sequence[MinimalLearner]) -> None: ...


class Reconfigures(Protocol):
    """Changes settings while it runs."""

    def reconfigure(self, **changes: Any) -> None: ...


class ReportsPending(Protocol):
    """Reports the plays that rewards wait for."""

    def blocking(self) -> Mapping[int, tuple[int, int]]:
        """Return, for each learner whose rewards wait, the play that they wait for, and how many they are."""


class MeasuresPending(Protocol):
    """Says how much memory rewarded plays take that wait behind a missing reward."""

    def pending_bytes(self) -> int: ...


class Compares(Protocol):
    """Compares learners by their regret per play."""

    def compare(self, learner: int, other: int) -> Comparison: ...


class Updates(Protocol):
    """Decides, when a round is decided, which learners learn from it."""

    def learners_updated_by(self, choice: Choice | None) -> Sequence[int]:
        """Return the learners that learn from a play; with None, from a round that was drawn for no learner."""


class KnowsOdds(Protocol):
    """Knows the probability of each of its experts, in the order of `SelectorTraits.experts`."""

    def odds(self, choice: Choice | None = None, available: Collection[int] | None = None) -> Sequence[float]:
        """Return the probabilities with which an open play was drawn; with None, those of the next choice."""


class ReplaysOdds(Protocol):
    """Rests its evidence on the odds of all experts, and takes them from a log again."""

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        """Open a given play with these odds, or those of the rule if None; return whether the rule has other ones."""


class KnowsPropensity(Protocol):
    """Knows the probability of the action of a round given its proposals, once they are observed."""

    def propensity(self, choice: Choice) -> float: ...


class ExplainsDrift(Protocol):
    """Has evidence about the law of rewards besides the rewards themselves."""

    def drift_evidence(self) -> Mapping[int, float]:
        """Return the regret bounds at the plays that count, of learners with a candidate bound."""


class ComparesPairs(Protocol):
    """Compares pairs of its experts over the rounds in which they disagree."""

    def pair_rounds(self) -> int:
        """Return the number of rounds in the sums."""

    def pair_sums(self) -> PairSums: ...


class LeavesOut(Protocol):
    """Can leave an open play out of evidence for good, as events of earlier releases can say."""

    def leave_out(self, choice: Choice) -> None: ...


class Restarts(Protocol):
    """Can forget all rounds and begin again, after the law of rewards has changed."""

    def restart(self, delta: float) -> None: ...


class Provable(Protocol):
    """States everything that its eliminations are computed from, so that others can recompute them."""

    @property
    def premises(self) -> Premises:
        """The settings that its proofs rest on."""

    @property
    def eliminations(self) -> Sequence[AnyElimination]: ...


@dataclass(frozen=True)
class SelectorCapabilities:
    """What a portfolio asks of a selector in its rounds beyond the required members; `find` knows all capabilities."""

    name: str
    explanation: str  # how it chooses, in one sentence; may be empty
    takes_available: bool  # whether choose() and replay() can leave learners out
    takes_substitutes: bool  # whether observe() wants to know who acts for learners that cannot
    credit: ChecksCredit | None
    chances: KnowsChances | None
    rule: HasRuleVersion | None
    configures: Configures | None
    unplayed: CountsUnplayed | None
    admits: AdmitsLearners | None
    pending: ReportsPending | None
    sizes: MeasuresPending | None
    updates: Updates | None
    odds: KnowsOdds | None
    replays: ReplaysOdds | None
    propensity: KnowsPropensity | None
    drift: ExplainsDrift | None
    pairs: ComparesPairs | None
    proves: Provable | None


def capabilities(selector: object) -> SelectorCapabilities:
    """Return the capabilities that rounds need; this module is the one place that looks for optional members."""
    explanation = getattr(selector, "explanation", "")
    return SelectorCapabilities(
        name=part_name(selector),
        explanation=explanation if isinstance(explanation, str) else "",
        takes_available=takes_available(selector),
        takes_substitutes=_takes(getattr(selector, "observe", None), "substitutes"),
        credit=find(selector, ChecksCredit),
        chances=find(selector, KnowsChances),
        rule=find(selector, HasRuleVersion),
        configures=find(selector, Configures),
        unplayed=find(selector, CountsUnplayed),
        admits=find(selector, AdmitsLearners),
        pending=find(selector, ReportsPending),
        sizes=find(selector, MeasuresPending),
        updates=find(selector, Updates),
        odds=find(selector, KnowsOdds),
        replays=find(selector, ReplaysOdds),
        propensity=find(selector, KnowsPropensity),
        drift=find(selector, ExplainsDrift),
        pairs=find(selector, ComparesPairs),
        proves=find(selector, Provable),
    )


METHODS = ("choose", "replay", "observe", "credit", "withdraw", "standing", "certificate")
REQUIRED = ("needs", "active", *METHODS)


def check_selector(selector: object) -> None:
    """Raise an error if this is not a selector."""
    if isinstance(selector, type):
        name = selector.__name__
        raise InvalidArgument(f"selector is the class {name}, but must be an instance: write {name}(...)")
    lacking = [member for member in REQUIRED if not hasattr(selector, member)]
    if lacking:
        raise InvalidArgument(
            f"selector is a {type(selector).__name__} without {', '.join(lacking)}, but must have all "
            "members of equipoise.Selector"
        )
    for member in METHODS:
        if not fits(selector, member, Selector):
            raise InvalidArgument(f"{_member(selector, member)}, but must be a method as in equipoise.Selector")
    needs_of(selector)
    active_of(selector)


def _member(selector: object, name: str) -> str:
    return f"{name} of selector {part_name(selector)!r} is {getattr(selector, name)!r:.80}"


def needs_of(selector: object) -> frozenset[str]:
    """Return what a selector needs from every learner."""
    return declared_words(selector, "needs", NEEDS, "selector")


def active_of(selector: object) -> tuple[int, ...]:
    """Return the learners that may be chosen; raise an error if they are not indices."""
    active: Any = getattr(selector, "active", None)
    if not isinstance(active, Collection) or not all(map(_is_index, active)):
        raise InvalidArgument(f"{_member(selector, 'active')}, but must be a tuple of indices of learners")
    return tuple(active)


def _is_index(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def takes_available(selector: object) -> bool:
    """Whether `choose` and `replay` of a selector can leave learners out."""
    return all(_takes(getattr(selector, name, None), "available") for name in ("choose", "replay"))


def _takes(method: object, parameter: str) -> bool:
    return callable(method) and parameter in inspect.signature(method).parameters


def differ(odds: Sequence[float], others: Sequence[float]) -> bool:
    """Whether two probabilities of the same expert differ by more than rounding explains.

    >>> differ((0.5, 0.5), (0.5, 0.5 + 1e-12)), differ((0.5, 0.5), (0.6, 0.4))
    (False, True)
    """
    if odds == others:  # fast path
        return False
    return any([not abs(p - q) <= TOLERANCE for p, q in zip(odds, others, strict=True)])


def check_odds(odds: Sequence[float], n_experts: int) -> tuple[float, ...]:
    """Return logged odds as a tuple; raise an error if they are not the probabilities of so many experts."""
    given = tuple(odds)
    if len(given) != n_experts:
        raise InvalidArgument(f"odds has {len(given)} entries, but must have {n_experts}, one for each expert")
    if not min(given) >= 0.0 or not abs(sum(given) - 1.0) <= TOLERANCE:
        raise InvalidArgument(f"odds is {given}, but its entries must lie in [0, 1] and sum to 1")
    return given


def replay(selector: Selector, choice: Choice, available: Collection[int] | None = None) -> None:
    """Open a given play; `available` are the learners that could be chosen, all if None."""
    if available is None:
        selector.replay(choice)
    elif takes_available(selector):
        selector.replay(choice, available)
    else:
        name = type(selector).__name__
        raise InvalidArgument(
            f"selector is a {name}, but its choose() and replay() must take `available` to leave learners out"
        )


def require(selector: object, protocol: type[C], purpose: str) -> C:
    """Return a selector as a capability; raise an error that says what the capability is needed for."""
    found = find(selector, protocol)
    if found is None:
        members = " and ".join(f"{name}()" for name in vars(protocol) if not name.startswith("_"))
        raise InvalidArgument(f"selector is a {type(selector).__name__}, but must have {members} to {purpose}")
    return found


def configure(selector: object, *, delays: str = "any", **facts: Any) -> None:
    """Tell a selector the `facts` of its portfolio; without `configure` it cannot be told of exogenous delays."""
    if delays == "exogenous" or implements(selector, Configures):
        require(selector, Configures, f"be told that delays are {delays!r}").configure(delays=delays, **facts)


def traits_of(selector: object) -> SelectorTraits:
    """Return the traits of a selector, or the defaults if it has none."""
    traits = getattr(selector, "traits", None)
    return traits if isinstance(traits, SelectorTraits) else SelectorTraits()


def eliminations_of(selector: object) -> tuple[AnyElimination, ...] | None:
    """Return all eliminations of a selector so far; None if it does not keep them."""
    kept = getattr(selector, "eliminations", None)
    known = isinstance(kept, list | tuple) and all(isinstance(each, AnyElimination) for each in kept)
    return tuple(kept) if known else None  # type: ignore[arg-type]  # checked above


def compare_learners(selector: object, learner: int | str, other: int | str, names: Sequence[str]) -> Comparison:
    """Compare two learners, given by index or name; raise an error if the selector compares none."""
    compares = require(selector, Compares, "compare learners")
    for argument, given in (("learner", learner), ("other", other)):
        if isinstance(given, str) and given not in names:
            raise UnknownName(argument, given, names)
    first, second = (names.index(given) if isinstance(given, str) else given for given in (learner, other))
    return compares.compare(first, second)


def check_credit(selector: Selector, choice: Choice, reward: float, regret: float | None) -> tuple[float, float]:
    """Return reward and regret as floats, nan for an unknown regret; raise an error if they are invalid."""
    if implements(selector, ChecksCredit):
        return selector.check_credit(choice, reward, regret)
    return traits_of(selector).check_reward(reward), nan if regret is None else real("regret", regret)
