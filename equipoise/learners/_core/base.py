"""Base class of learners made of kernels: parameters, memory, saving, and checks of contexts.

Settings that several learners share are declared once, as functions that make the field: `name_setting`,
`seed_setting` of learners that draw random numbers, and those of `equipoise.settings.units`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.records import check_layout
from equipoise.kernels.streams import LEARNERS, open_stream, seek
from equipoise.learner import Learner, Proposal, one_hot
from equipoise.learners._core.arms import Arms, split_arms
from equipoise.learners._core.rows import Choices, choices_of
from equipoise.settings import Configured, configurable, optional, setting, settings_of
from equipoise.settings.checks import measured, non_negative, seed_number, text
from equipoise.settings.units import Units, units_columns
from equipoise.types import Action, AnyArray, Array, Context, State

# Covariant, so that learners of different algorithms have a type in common.
ParamsT = TypeVar("ParamsT", covariant=True)
MemoryT = TypeVar("MemoryT", covariant=True)

name_setting = partial(
    setting,
    default=None,
    check=optional(text),
    derived="default_name",
    doc="Name of the learner in tables and certificates. Default: made from the other settings.",
)
seed_setting = partial(
    setting, default=0, check=seed_number, doc="Seed of its own random stream, used if `decide` gets no generator."
)


class Kernels(NamedTuple):
    """The functions of a learner, all over (params, memory, ...).

    Every proposal has an index for `action` and, so that all learners have one compiled type, for `greedy`: -1 where
    the learner does not know it. `weight` is 1 for learners that do not accept "weight"; 0 changes nothing in others.
    """

    decide: Callable[..., Proposal]  # (actions, generator)
    learn: Callable[..., None]  # (actions, action, reward, weight)


@configurable
class KernelLearner(Configured, Units, Generic[ParamsT, MemoryT]):
    """A learner whose decisions and updates are kernels over a tuple of arrays.

    A subclass declares its settings, creates `params` and `memory` in `_set_up`, and implements `check_context`. Its
    actions are indices of finitely many offers. Kernels know only the offers that the mask leaves and the learner
    takes; the indices in proposals are those of all offers.
    """

    name: str = name_setting()

    accepts: ClassVar[frozenset[str]] = frozenset()
    provides: ClassVar[frozenset[str]] = frozenset()
    randomized: ClassVar[bool] = False  # whether deciding draws random numbers, from `seed` if it is a setting
    simulation_only: ClassVar[bool] = False  # whether a portfolio refuses it
    kernels: ClassVar[Kernels]
    params: ParamsT = field(init=False)  # what the kernels take first; it does not change
    memory: MemoryT = field(init=False)  # what the kernels take second; a tuple of arrays that they change in place
    _arms: Arms[Any] | None = field(default=None, init=False)  # what it knows about arms by id, if it does
    _draws: int = field(default=0, init=False)  # generators taken from the learner's own random stream

    def _set_up(self) -> None:
        self._fill_in_units()
        super()._set_up()
        has_seed = any(each.name == "seed" for each in settings_of(type(self)))
        self._stream = open_stream(self.seed) if has_seed else None  # type: ignore[attr-defined]

    def default_name(self) -> str:
        return type(self).__name__

    @property
    def n_columns(self) -> int | None:
        """Number of leading columns of a context that the learner uses; None if it may use all of them."""
        return None

    @property
    def n_ids(self) -> int:
        """Number of ids that are remembered, by a learner that addresses arms by id."""
        return 0 if self._arms is None else len(self._arms.known())

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose an action. Changes nothing, except the learner's own random stream if no `rng` is given."""
        choices = self.offered(context)
        if rng is None:
            rng = self._own_generator()
        proposal = self.kernels.decide(self.params, self.memory_for(context), choices.rows, rng)
        return self.among_all(proposal if proposal.greedy >= 0 else proposal._replace(greedy=None), choices)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action."""
        actions, position = self.check_offered(context, action)
        number = self.check_reward(reward, weight)
        self.kernels.learn(self.params, self.memory, actions, position, number, float(weight))

    def pmf(self, context: Context) -> Array:
        """The probability of every action, given the context and what has been learned. Changes nothing."""
        if "pmf" not in self.provides:
            raise InvalidArgument(f"{self.name} has no pmf")
        choices = self.offered(context)
        return choices.spread(self._pmf(context, choices.rows))

    def _pmf(self, context: Context, actions: Array) -> Array:
        """The probabilities of the actions with these rows; a learner that draws random numbers overrides it."""
        proposal = self.kernels.decide(self.params, self.memory_for(context), actions, None)
        return one_hot(proposal.action, len(actions))

    def memory_for(self, context: Context) -> MemoryT:
        """The memory that deciding in this context uses."""
        return self.memory

    def check_context(self, context: Context) -> Array:
        """Return the offered actions as an array, one row each; raise an error if this learner cannot use them."""
        raise NotImplementedError  # abstract

    def offered(self, context: Context) -> Choices:
        """Return the offers that the learner takes; raise an error if it takes none."""
        return choices_of(context, self.check_context(context))

    def among_all(self, proposal: Proposal, choices: Choices) -> Proposal:
        """Return a proposal among the choices as one among all offers."""
        return choices.among_all(proposal)

    def check_offered(self, context: Context, action: Action) -> tuple[Array, int]:
        """Return the rows of the offers that the learner takes, and the position of `action` among them."""
        choices = self.offered(context)
        return choices.rows, choices.position(action)

    def check_reward(self, reward: float, weight: float) -> float:
        return check_update(self, reward, weight)

    def state(self) -> State:
        """The learned state as a dictionary of arrays."""
        arrays = {name: array.copy() for name, array in arrays_of(self.memory)}
        by_id = self._arms.state() if self._arms is not None and self._arms.n_new else {}
        return {"draws": np.array([self._draws]), **units_columns(self._adopted), **arrays, **by_id}

    def restore(self, state: State) -> None:
        """Restore a state returned by `state`. Any other state raises an error and changes nothing."""
        own, by_id = (state, {}) if self._arms is None else split_arms(state)
        arms = None if self._arms is None else self._arms.from_state(by_id)
        fresh = self._in_units_of(state)
        check_layout(own, split_arms(fresh.state())[0], self.name)
        if fresh is not self:
            vars(self).update(vars(fresh))
        for name, array in arrays_of(self.memory):
            array[...] = own[name]
        self._draws, self._arms = int(own["draws"][0]), arms

    def _own_generator(self) -> np.random.Generator | None:
        if self._stream is None:
            return None
        seek(self._stream, LEARNERS, self._draws)
        self._draws += 1
        return self._stream.generator


def arrays_of(part: object, name: str = "") -> Iterator[tuple[str, AnyArray]]:
    """Yield the arrays of a memory with the names of their fields; nested fields are named "field.name"."""
    if isinstance(part, np.ndarray):
        yield name, part
    elif isinstance(part, tuple):
        names = range(len(part)) if type(part) is tuple else part._fields  # type: ignore[attr-defined]
        for own, value in zip(names, part, strict=True):
            if own != "scratch":  # temporary storage of compiled code
                yield from arrays_of(value, f"{name}.{own}" if name else str(own))


def check_update(learner: Learner, reward: float, weight: float) -> float:
    """Return the reward as a number; raise an error if the learner cannot learn from it with this weight."""
    number = measured("reward", reward)
    if weight != 1.0:
        if "weight" not in learner.accepts:
            raise InvalidArgument(f"weight is {weight!r}, but must be 1 for {learner.name}")
        non_negative("weight", weight)
    return number
