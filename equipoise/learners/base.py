"""What every learner made of kernels has in common: parameters, state, saving, and checks of what it is offered."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from operator import index
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument
from equipoise.learner import Proposal
from equipoise.streams import LEARNERS, open_stream, seek
from equipoise.validation import LARGEST, count, non_negative, real, text

FLOAT64 = np.dtype(np.float64)


class Kernels(NamedTuple):
    """The functions of a learner, all over (params, memory, ...).

    Every proposal has an index for `action` and, so that all learners have one compiled type, for `greedy`: -1 where
    the learner cannot tell. `weight` is 1 for learners that do not accept "weight"; 0 changes nothing in those that do.
    """

    decide: Callable[..., Proposal]  # (actions, generator)
    learn: Callable[..., None]  # (actions, action, reward, weight)


class KernelLearner:
    """A learner whose decisions and updates are kernels over a tuple of arrays.

    A subclass keeps each constructor argument under its own name, sets `params` and `memory` and says how it checks a
    context.
    """

    name: str
    accepts: frozenset[str] = frozenset()
    offers: frozenset[str] = frozenset()
    randomized: ClassVar[bool] = False  # whether deciding draws random numbers
    kernels: ClassVar[Kernels]
    params: Any  # what the kernels take first; plain numbers
    memory: Any  # what the kernels take second; a tuple of arrays that they change in place

    def __init__(self, *, default_name: str, name: str | None, seed: int = 0) -> None:
        self.name = default_name if name is None else text("name", name)
        self.seed = count("seed", seed, least=0, most=2**64 - 1)
        self._stream = open_stream(self.seed)
        self._draws = 0

    def decide(self, context: Any, rng: np.random.Generator | None = None) -> Proposal:
        """What to do in this context; changes nothing but, where no rng is given, the learner's own stream."""
        actions = self.check_context(context)
        if rng is None and self.randomized:
            rng = self._own_generator()
        proposal = self.kernels.decide(self.params, self.memory, actions, rng)
        return proposal if proposal.greedy >= 0 else proposal._replace(greedy=None)

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        """Take in the reward of an action that was offered."""
        actions, position = self.check_offered(context, action)
        number = self.check_reward(reward, weight)
        self.kernels.learn(self.params, self.memory, actions, position, number, float(weight))

    def check_context(self, context: Any) -> NDArray[np.float64]:
        """The offered actions as an array, one row each; raises if they are not what this learner can work with."""
        raise NotImplementedError  # an abstract method: every learner states its own rule

    def check_offered(self, context: Any, action: Any) -> tuple[NDArray[np.float64], int]:
        """The offered actions and the position of `action` among them."""
        actions = self.check_context(context)
        return actions, check_index(action, len(actions))

    def check_reward(self, reward: float, weight: float) -> float:
        number = real("reward", reward)
        if "weight" in self.accepts:
            non_negative("weight", weight)
        elif weight != 1.0:
            raise InvalidArgument(f"weight is {weight!r}, but {self.name} takes only weight 1")
        return number

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        arguments = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in arguments.items()}

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        return {"draws": np.array([self._draws]), **{name: array.copy() for name, array in self._arrays().items()}}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take on a state that `state` returned; any other is refused and changes nothing."""
        own = self.state()
        if state.keys() != own.keys():
            raise InvalidArgument(f"state has entries {sorted(state)}, but {self.name} needs {sorted(own)}")
        for name, array in own.items():
            given = np.asarray(state[name])
            if given.shape != array.shape or given.dtype != array.dtype:
                raise InvalidArgument(
                    f"state {name!r} of {self.name} is {given.dtype} of shape {given.shape}, "
                    f"but must be {array.dtype} of shape {array.shape}"
                )
        for name, array in self._arrays().items():
            array[...] = state[name]
        self._draws = int(state["draws"][0])

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return dict(_arrays_of(self.memory))

    def _own_generator(self) -> np.random.Generator:
        seek(self._stream, LEARNERS, self._draws)
        self._draws += 1
        return self._stream.generator


def _arrays_of(memory: tuple[Any, ...], prefix: str = "") -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a memory under the names of their fields, those of tuples within it as "field.name"."""
    names = getattr(memory, "_fields", None) or range(len(memory))
    for name, value in zip(names, memory, strict=True):
        if isinstance(value, np.ndarray):
            yield f"{prefix}{name}", value
        elif isinstance(value, tuple) and name != "scratch":  # room of compiled code, which holds nothing for long
            yield from _arrays_of(value, f"{prefix}{name}.")


def check_index(action: Any, n_actions: int) -> int:
    """The action as an index from 0 to n_actions - 1."""
    try:
        position = index(action)
    except TypeError:
        position = -1
    if not 0 <= position < n_actions:
        raise InvalidArgument(f"action is {action!r:.80}, but must be an index from 0 to {n_actions - 1}")
    return position


def as_matrix(context: Any, dim: int = 0) -> NDArray[np.float64]:
    """The context as a matrix with one offered action in each row and `dim` columns at least, entries unseen."""
    actions = context if type(context) is np.ndarray and context.dtype is FLOAT64 else _converted(context)
    if actions.ndim != 2 or len(actions) == 0:
        raise InvalidArgument(f"context has shape {actions.shape}, but must be a K x d matrix with K >= 1 rows")
    if actions.shape[1] < dim:
        raise InvalidArgument(f"context has {actions.shape[1]} columns, but must have at least dim = {dim}")
    return actions


def _converted(context: Any) -> NDArray[np.float64]:
    try:
        numbers = np.asarray(context)
    except ValueError:  # rows of different lengths
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "fiub":
        raise InvalidArgument(f"context is {context!r:.80}, but must be a K x d matrix of numbers")
    with np.errstate(over="ignore"):  # beyond the range of a float64: refused as infinite
        return numbers.astype(np.float64)


def check_entries(actions: NDArray[np.float64]) -> None:
    """Refuse entries that are not finite or of absurd magnitude."""
    # One sum of squares for all entries, nan and infinities included (vdot does not warn when it overflows); only if it
    # is out of range are the entries looked at one by one.
    if not np.vdot(actions, actions) <= LARGEST:
        worst = float(np.abs(actions).max())
        if not worst <= LARGEST:
            raise InvalidArgument(f"context has an entry {worst!r}, but entries must be finite and at most {LARGEST:g}")
