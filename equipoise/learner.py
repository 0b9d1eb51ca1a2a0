"""The contract of a learner: a bandit or reinforcement-learning algorithm that decides and learns.

Only `decide` and `learn` are required (`MinimalLearner`): `decide` may take just the context and return a bare action.
A portfolio wraps each learner in an `AdaptedLearner`, which has all members of `Learner`. By default `name` is the name
of the class, `accepts` and `provides` are empty, and the learner counts as randomized. A learner without
`state` and `restore` works, but cannot be saved.

Optional members, which `capabilities` finds:
- `delta`: the probability, in [0, 1), that its statements ("lower", "regret") are wrong; 0 by default.
- `regret_of(outcome)`: what a play adds to its observed regret bound if that is known only afterwards (an episode);
  called before the outcome is learned. A learner that has it may omit `regret` from its proposals. If several plays may
  be open at once, the present state is not that of the play: then put what `regret_of` needs to know about the play
  into the proposal's `plan`, as plain data. `regret_of(outcome, plan, in_order)` and `learn(..., plan=plan)` get it
  back. `in_order` tells whether the learner has learned exactly its earlier plays; if not, return an upper bound.

- `configure(reward_range=..., noise=...)`: what a portfolio says about rewards, once, before any update. The learner
  adopts what it does not state itself, and refuses what contradicts it (`AdoptsUnits`; `StatesUnits` has two more
  methods).
- `silent = True`: the learner is asked only in rounds that it plays, because its `decide` changes its state or cannot
  be called without playing. Next to learners that are asked in every round, it is compared by its own plays only.
- `pmf(context)`: the probability of every offered action in this context, given all that was learned so far; such a
  learner provides "pmf". Exact, so that logs can be evaluated with it; a learner that can only estimate it has none.

A learner that accepts "probability" gets the probability of the action as a keyword argument of `learn`, nan if it is
unknown; one that cannot learn without it raises InvalidArgument then, and changes nothing. A learner that does not
know the probability of its proposal says nan, never 1: a proposal of probability 1 is one that the learner makes
whatever the random numbers. A bare action counts as a proposal of probability 1 only if the learner declares
`randomized = False`.

A learner that accepts "weight" can learn from rounds in which a selector drew the learner at random. A round that it
played with probability p has weight 1/p, and a round that it did not play has weight 0 (its own proposal is the action,
and the reward is 0), so that in expectation every round has weight 1. What a weight means is up to the learner; the
package's learners weight the squared error of the round.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf, nan
from numbers import Real
from types import FunctionType, MethodType
from typing import Any, NamedTuple, Protocol, Self, TypeGuard, TypeVar, cast, get_origin, get_type_hints

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument, UnknownName
from equipoise.features import FeatureMap, Offers, Schema
from equipoise.types import Action, Array, Config, Context, Outcome, Plain, State

ACCEPTS = frozenset({"off_policy", "agreed", "weight", "probability"})
PROVIDES = frozenset({"lower", "regret", "greedy", "value", "pmf"})
PMF_TOLERANCE = 1e-9  # of the sum of the probabilities of all actions


class Proposal(NamedTuple):
    """The action that a learner proposes in a context, with what it knows about the action.

    Parameters
    ----------
    action
        The proposed action.
    lower
        Lower confidence bound on the expected reward of the action; -inf if the learner has none.
    regret
        What this play adds to the learner's observed regret bound; nan if the learner has none.
    probability
        Probability with which the learner chose this action; nan if unknown.
    greedy
        The action that the learner estimates to be best; None if unknown.
    value
        The learner's estimate of the expected reward of `action`; nan if unknown.
    plan
        What the learner's `regret_of` and `learn` need to know about this play; None if nothing.
    """

    action: Action
    lower: float = -inf
    regret: float = nan
    probability: float = 1.0
    greedy: Action = None
    value: float = nan
    plan: Plain = None


class Proposals(NamedTuple):
    """The proposals of all learners, for selector kernels: -1 and nan for those of a learner that was not asked."""

    actions: Sequence[int]
    greedy: Sequence[int]
    lowers: Sequence[float]
    regrets: Sequence[float]
    probabilities: Sequence[float]
    values: Sequence[float]


class MinimalLearner(Protocol):
    """The required part of a learner. `decide` may take a random generator, `rng`, as its second argument."""

    @property
    def decide(self) -> Callable[..., Proposal | Action]:
        """Propose an action in a context; changes nothing."""

    @property
    def learn(self) -> Callable[..., None]:
        """Learn from context, action and reward, and from a weight if the learner accepts one."""


class Learner(Protocol):
    """A learner with all members; see the module docstring for what is optional."""

    @property
    def name(self) -> str:
        """The name shown in tables and figures."""

    @property
    def accepts(self) -> frozenset[str]:
        """Subset of {"off_policy", "agreed", "weight", "probability"}.

        Rounds that others played; rounds of others in which the action is the one it proposed; importance-weighted
        rounds; the probability of the action, as a keyword argument of `learn`.
        """

    @property
    def provides(self) -> frozenset[str]:
        """Subset of {"lower", "regret", "greedy", "value", "pmf"}: what it provides besides the action."""

    @property
    def randomized(self) -> bool:
        """Whether deciding draws random numbers."""

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose an action in this context; changes nothing."""

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an action; the round has weight `weight`.

        A learner that accepts "probability" also takes `probability`, that of the action, as a keyword argument.
        """

    def config(self) -> Config:
        """The constructor's arguments, as plain data."""

    def state(self) -> State:
        """Everything learned, as arrays."""

    def restore(self, state: State) -> None:
        """Replace the current state by one that `state` returned."""


class ModelClass(Protocol):
    """The class of reward functions that a learner assumes, for selectors that need nested classes.

    A learner returns it from a method `model_class()`; see `equipoise.learners.LinearClass` for an example.
    """

    def check_contains(self, smaller: Self) -> None:
        """Raise an error if this class does not contain `smaller`."""

    def check_equals(self, expected: Self, selector_name: str) -> None:
        """Raise an error if this is not the class that the selector was created for."""


class HasModelClass(Protocol):
    """A learner that returns its model class."""

    def model_class(self) -> ModelClass: ...


class KnowsPmf(Protocol):
    """A learner that knows the probability of every offered action."""

    def pmf(self, context: Context) -> Array: ...


class KnowsRegret(Protocol):
    """A learner that knows only after a play how much the play adds to its observed regret bound."""

    def regret_of(self, outcome: Outcome) -> float: ...


class Saves(Protocol):
    """A learner or selector whose state can be saved and restored."""

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


class Freezes(Protocol):
    """A learner or selector that returns its state in little time, as values that are made later."""

    def frozen(self) -> Config:
        """Return the state as it is now; entries may be `Later` values."""


class HasSettings(Protocol):
    """A learner or selector that returns its constructor's arguments."""

    def config(self) -> Config: ...


class MadeFromConfig(Protocol):
    """A class of learners or selectors that are made from what `config` returned."""

    def from_config(self, config: Config) -> Any: ...


class AdoptsUnits(Protocol):
    """A learner that adopts the range and noise of rewards before the first round."""

    def configure(self, *, reward_range: tuple[float, float] | None, noise: float | None) -> None: ...


class AdoptsSchema(Protocol):
    """A learner that takes features from the schema of its portfolio where it states none; called before any update.

    `schema` is None if the portfolio has none; `action_names` are the ids of all actions, if the portfolio names them.
    """

    def adopt_schema(self, schema: Schema | None, action_names: Sequence[str] | None) -> None: ...


class StatesUnits(Protocol):
    """A learner or selector that says which units of rewards it states itself, and refuses others beforehand."""

    def states(self, name: str) -> bool: ...

    def check_units(self, reward_range: tuple[float, float] | None, noise: float | None) -> None: ...


class Compiles(Protocol):
    """A learner or selector made of kernels, which the simulation compiles."""

    @property
    def kernels(self) -> tuple[Callable[..., Any], ...]: ...


class LearnsEpisodes(Protocol):
    """A learner with a kernel that learns from a whole episode."""

    def learn_episode(self, params: Any, memory: Any, states: Any, actions: Any, rewards: Any) -> None: ...


class ChecksContexts(Protocol):
    """A learner that raises an error for a context it cannot use, and changes nothing."""

    def check_context(self, context: Context) -> object: ...


class BoundsRows(Protocol):
    """A learner that does not choose an action with features longer than its bound, unless it scales them down."""

    @property
    def action_bound(self) -> float: ...

    @property
    def clip_norm(self) -> bool: ...


class ClipsRows(Protocol):
    """A learner that counts its updates with features that it scaled down to its bound."""

    @property
    def clipped_rows(self) -> int: ...


C = TypeVar("C")


def implements(part: object, protocol: type[C]) -> TypeGuard[C]:
    """Whether a part, an object or a class, has every member of a capability.

    A method counts only if it is callable with the parameters that the capability requires, and an attribute only if
    its value has the declared type, so a member that happens to have the same name is not mistaken for the capability.

    >>> class Ruler:
    ...     state = 3  # not a method
    >>> implements(Ruler(), Saves)
    False
    """
    return all(fits(part, name, protocol) for name in vars(protocol) if not name.startswith("_"))


def find(part: object, protocol: type[C]) -> C | None:
    """Return the part as this capability; None if it lacks it."""
    return part if implements(part, protocol) else None


def fits(part: object, name: str, protocol: type) -> bool:
    """Whether a part has this member of a Protocol: a method with its parameters, or a value of its type."""
    found, call = getattr(part, name, None), _call(protocol, name)
    if call is None:
        return isinstance(found, _type_of(protocol, name))
    if not callable(found):
        return False
    # Unless it is a function of a class, it is bound to its object.
    given = call.n_positions + (isinstance(part, type) and isinstance(found, FunctionType))
    if isinstance(found, MethodType) and isinstance(found.__func__, FunctionType):
        return _takes(found.__func__, given + 1, call.names)
    return _takes(found, given, call.names) if isinstance(found, FunctionType) else _binds(found, given, call.names)


def _binds(function: Callable[..., Any], n_positions: int, names: tuple[str, ...]) -> bool:
    try:
        inspect.signature(function).bind(*[None] * n_positions, **dict.fromkeys(names))
    except TypeError:
        return False
    except ValueError:  # a function without a signature, such as a builtin
        return True
    return True


_takes = lru_cache(maxsize=1024)(_binds)  # for plain functions: they have many instances, and signatures take long


class _Call(NamedTuple):
    """How a method of a capability is called at least: without its optional arguments."""

    n_positions: int
    names: tuple[str, ...]


@cache
def _call(protocol: type, name: str) -> _Call | None:
    """Return how a member of a Protocol is called; None if it is a property."""
    member = vars(protocol)[name]
    if not isinstance(member, FunctionType):
        return None
    parameters = list(inspect.signature(member).parameters.values())[1:]  # without self
    required = [each for each in parameters if each.default is each.empty and each.kind is not each.VAR_KEYWORD]
    names = tuple(each.name for each in required if each.kind is each.KEYWORD_ONLY)
    return _Call(len(required) - len(names), names)


@cache
def _type_of(protocol: type, name: str) -> type:
    """Return the class of the values of a property of a Protocol."""
    declared: type = get_type_hints(vars(protocol)[name].fget)["return"]
    return get_origin(declared) or declared


def compilable(part: object) -> bool:
    """Whether a learner, selector or problem is made of kernels, and runs them as they are with its settings."""
    if not implements(part, Compiles) or getattr(part, "compilable", True) is not True:
        return False
    return bool(getattr(part.kernels, "_fields", ())) and all(map(callable, part.kernels))


@dataclass(frozen=True)
class LearnerCapabilities:
    """What portfolios and simulations ask of a learner beyond `decide` and `learn`; `find` knows all capabilities."""

    name: str
    accepts: frozenset[str]
    provides: frozenset[str]
    randomized: bool  # whether deciding draws random numbers
    delta: float  # probability that its statements are wrong
    learns: bool  # False for a fixed rule
    silent: bool  # whether it is asked only in rounds that it plays
    ignores_contexts: bool
    arms: int | None  # number of actions, if the learner fixes it
    n_columns: int | None  # of a matrix of offers that the learner uses
    n_actions: int | None  # of the environment, for a learner of episodes
    n_states: int | None
    horizon: int | None  # largest number of steps of an episode
    features: FeatureMap | None
    saves: Saves | None
    adopts: AdoptsUnits | None
    regret: KnowsRegret | None
    pmf: KnowsPmf | None


def capabilities(learner: object) -> LearnerCapabilities:
    """Return the capabilities that rounds need; this module is the one place that looks for optional members."""
    features, learns = getattr(learner, "features", None), getattr(learner, "learns", True)
    return LearnerCapabilities(
        name=part_name(learner),
        accepts=accepts(learner),
        provides=provides(learner),
        randomized=getattr(learner, "randomized", True) is not False,
        delta=_delta(learner),
        learns=learns is not False,
        silent=getattr(learner, "silent", False) is True,
        ignores_contexts=getattr(learner, "ignores_contexts", False) is True,
        arms=_whole(learner, "arms"),
        n_columns=_whole(learner, "n_columns"),
        n_actions=_whole(learner, "n_actions"),
        n_states=_whole(learner, "n_states"),
        horizon=_whole(learner, "horizon"),
        features=features if isinstance(features, FeatureMap) else None,
        saves=find(learner, Saves),
        adopts=find(learner, AdoptsUnits),
        regret=find(learner, KnowsRegret),
        pmf=find(learner, KnowsPmf),
    )


def _delta(learner: object) -> float:
    delta: Any = getattr(learner, "delta", 0.0)
    if callable(delta):
        return 0.0
    number = float(delta) if isinstance(delta, Real) and not isinstance(delta, bool) else inf
    if not 0.0 <= number < 1.0:
        raise InvalidArgument(
            f"delta of learner {part_name(learner)!r} is {delta!r:.80}, but must be a number in [0, 1)"
        )
    return number


def _whole(learner: object, name: str) -> int | None:
    number = getattr(learner, name, None)
    return int(number) if isinstance(number, int | np.integer) and not isinstance(number, bool) else None


def declared_words(part: object, name: str, known: frozenset[str], what: str = "learner") -> frozenset[str]:
    """Return the words that a learner or selector declares under a name, if any; raise an error for an unknown one."""
    declared: Any = getattr(part, name, frozenset())
    if not isinstance(declared, frozenset | set | tuple | list) or not all(isinstance(word, str) for word in declared):
        raise InvalidArgument(
            f"{name} of {what} {part_name(part)!r} is {declared!r:.80}, but must be a set of words from "
            f"{', '.join(sorted(known))}"
        )
    words: frozenset[str] = frozenset(declared)
    for word in sorted(words - known):
        raise UnknownName(f"{name} of {what} {part_name(part)!r}: word", word, known)
    return words


def model_class_of(learner: object) -> ModelClass:
    """Return the model class of a learner; raise an error if it has none."""
    if not implements(learner, HasModelClass):
        raise IncompatibleLearner(
            f"learner {part_name(learner)!r} has no model_class(), but must state what it presumes"
        )
    return learner.model_class()


class AdaptedLearner:
    """A learner with all members of `Learner`: fills in what the wrapped one omits."""

    def __init__(self, learner: MinimalLearner) -> None:
        _check_is_learner(learner)
        self.learner = learner
        self.can = can = capabilities(learner)
        self.name, self.accepts, self.provides, self.delta = can.name, can.accepts, can.provides, can.delta
        self.randomized, self.has_map = can.randomized, can.features is not None
        # decide(context, rng) of the learner, which returns a proposal or a bare action
        self.ask: Callable[..., Proposal | Action] = learner.decide
        if not _takes_rng_by_position(learner):
            self.ask = self._ask_with_name if _takes_rng_by_name(learner) else self._ask_without_rng

    def __repr__(self) -> str:
        return f"AdaptedLearner({self.learner!r})"

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        return self.proposal(self.ask(context, rng))

    def _ask_with_name(self, context: Context, rng: np.random.Generator | None) -> Proposal | Action:
        return self.learner.decide(context, rng=rng)

    def _ask_without_rng(self, context: Context, rng: np.random.Generator | None) -> Proposal | Action:
        return self.learner.decide(context)

    def proposal(self, answer: Proposal | Action) -> Proposal:
        """Return what `ask` has returned as a proposal."""
        if isinstance(answer, Proposal):
            return answer
        return Proposal(answer, probability=nan if self.randomized else 1.0)

    def sees(self, context: Context, offers: Offers | None) -> Context:
        """Return the context, or the offers that it was turned into, if any, for a learner with a feature map."""
        return context if offers is None or not self.has_map else offers

    def learn(
        self, context: Context, outcome: Outcome, reward: float, weight: float = 1.0, probability: float = nan
    ) -> None:
        """Teach the learner a round; `probability`, that of the action, is passed on if the learner accepts it."""
        weights = () if weight == 1.0 else (weight,)
        known = {"probability": probability} if "probability" in self.accepts else {}
        self.learner.learn(context, outcome, reward, *weights, **known)

    def pmf(self, context: Context) -> Array | None:
        """The probability of every offered action: by `pmf` if the learner has it, else from a certain proposal.

        None if the learner is randomized and has no `pmf`, or if its actions are not indices. Where the number of
        offers is unknown, actions beyond the last entry have probability 0.
        """
        if "pmf" in self.provides:
            if self.can.pmf is None:
                raise InvalidArgument(f"learner {self.name!r} provides 'pmf', but must then have pmf(context)")
            return check_pmf(self.name, self.can.pmf.pmf(context))
        action = None if self.randomized else self.decide(context).action
        if not isinstance(action, int | np.integer):
            return None
        finite = isinstance(context, Offers) or (isinstance(context, np.ndarray) and context.ndim == 2)
        return one_hot(int(action), len(context) if finite else int(action) + 1)

    def configure(self, reward_range: tuple[float, float] | None = None, noise: float | None = None) -> None:
        """Say the units of rewards to the learner, if it asks for them."""
        if self.can.adopts is not None:
            self.can.adopts.configure(reward_range=reward_range, noise=noise)

    def regret_after(self, proposed: float, outcome: Outcome, plan: Plain = None, in_order: bool = True) -> float:
        """What a play adds to the observed regret bound: by `regret_of` if the learner has it, else as proposed."""
        if self.can.regret is None or outcome is None:
            return proposed
        regret_of = cast(Callable[..., float], self.can.regret.regret_of)
        return float(regret_of(outcome) if plan is None else regret_of(outcome, plan, in_order))

    def state(self) -> State:
        """Everything learned; raises an error if the learner cannot be saved."""
        return self._saved().state()

    def restore(self, state: State) -> None:
        self._saved().restore(state)

    def _saved(self) -> Saves:
        return savable(self.learner) if self.can.saves is None else self.can.saves


def one_hot(action: int, n_actions: int) -> Array:
    """The probabilities of `n_actions` actions of which one is certain."""
    probabilities = np.zeros(n_actions)
    probabilities[action] = 1.0
    return probabilities


def check_pmf(name: str, pmf: object) -> Array:
    """The probabilities that a learner's `pmf` returned; raises an error if they cannot be that."""
    try:
        probabilities = np.asarray(pmf, np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(f"pmf of {name!r} is {pmf!r:.80}, but must be an array of numbers") from None
    if probabilities.ndim != 1 or not len(probabilities):
        raise InvalidArgument(f"pmf of {name!r} has shape {probabilities.shape}, but must have one entry per action")
    if not (probabilities.min() >= 0.0 and abs(probabilities.sum() - 1.0) <= PMF_TOLERANCE):
        raise InvalidArgument(f"pmf of {name!r} is {probabilities!r:.80}, but must not be negative and must sum to 1")
    return probabilities


def _takes_rng_by_name(learner: MinimalLearner) -> bool:
    """Whether `decide` takes a random generator as the keyword argument `rng`."""
    rng = inspect.signature(learner.decide).parameters.get("rng")
    return rng is not None and rng.kind is rng.KEYWORD_ONLY


def _takes_rng_by_position(learner: MinimalLearner) -> bool:
    """Whether `decide` takes a random generator as its second argument, which is a setting in decide(context, k=5)."""
    parameters = list(inspect.signature(learner.decide).parameters.values())
    if len(parameters) < 2 or _takes_rng_by_name(learner):
        return False
    second = parameters[1]
    by_position = second.kind in (second.POSITIONAL_ONLY, second.POSITIONAL_OR_KEYWORD, second.VAR_POSITIONAL)
    return by_position and (second.name == "rng" or second.default in (None, second.empty))


def _check_is_learner(learner: object) -> None:
    if isinstance(learner, type):
        name = learner.__name__
        raise InvalidArgument(f"learners has the class {name}, but must have instances: write {name}(...)")
    for method in ("decide", "learn"):
        if not callable(getattr(learner, method, None)):
            raise InvalidArgument(
                f"learner {part_name(learner)!r} has no {method}(), but must have one: see equipoise.Learner"
            )


def part_name(part: object) -> str:
    """Return the name of a learner or selector; its class name if it declares no text as its name."""
    name = declared_name(part)
    return str(name) if isinstance(name, str) and name else type(part).__name__


def declared_name(part: object) -> object:
    return getattr(part, "name", type(part).__name__)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with a number after each one that has occurred before.

    >>> unique_names(["UCB", "OFUL", "UCB"])
    ('UCB', 'OFUL', 'UCB (2)')
    """
    unique: list[str] = []
    for i, name in enumerate(names):
        candidate, n = name, 1
        while candidate in unique or (n > 1 and candidate in names[i:]):
            n += 1
            candidate = f"{name} ({n})"
        unique.append(candidate)
    return tuple(unique)


def accepts(learner: object) -> frozenset[str]:
    """Return what a learner accepts besides its own rounds with weight 1."""
    return declared_words(learner, "accepts", ACCEPTS)


def provides(learner: object) -> frozenset[str]:
    """Return what a learner provides besides the action of its proposals."""
    return declared_words(learner, "provides", PROVIDES)


def savable(part: object) -> Saves:
    """Return a learner or selector whose state can be saved and restored; raise an error if it cannot."""
    if not implements(part, Saves):
        raise InvalidArgument(f"{part_name(part)!r} has no state() and restore(), so it cannot be saved")
    return part


def can_be_restored(part: object) -> bool:
    """Whether the state of a learner or selector can be saved and restored."""
    return implements(part, Saves)


def runs_in_simulations_only(learner: object) -> bool:
    """Whether a portfolio refuses the learner."""
    return getattr(learner, "simulation_only", False) is True
