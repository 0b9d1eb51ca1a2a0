"""Running the checks of a suite, and what all suites use: comparisons of values and of states."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import isnan
from numbers import Real
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TypeVar

import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName
from equipoise.learner import HasSettings, Saves
from equipoise.types import AnyArray, Config, Context, Outcome, State

Subject = TypeVar("Subject")
Example = TypeVar("Example")
Configured = TypeVar("Configured", bound=HasSettings)
ERRORS = (EquipoiseError, ValueError, TypeError, LookupError)


def run_checks(
    checks: Mapping[Callable[[Subject], None], Callable[[Example], bool]],
    subject: Subject,
    example: Callable[[], Example],
) -> list[str]:
    """Run every check that applies to an example; returns the names of the checks that were run.

    The first check that fails raises an AssertionError with its name and what it found. An unexpected error of the
    subject is a failure too.
    """
    names = []
    for check, applies in checks.items():
        name = check.__name__.replace("_", " ")
        try:
            if not applies(example()):
                continue
            check(subject)
        except Exception as error:
            finding = str(error) if isinstance(error, AssertionError) else f"it raised {error!r}"
            raise AssertionError(f"check {name!r} failed: {finding}") from error
        names.append(name)
    return names


def without(
    checks: Mapping[Callable[[Subject], None], Callable[[Example], bool]], exempt: Mapping[str, str]
) -> dict[Callable[[Subject], None], Callable[[Example], bool]]:
    """The checks but those that are exempt; every exemption must name a check and have a reason."""
    names = {check.__name__.replace("_", " "): check for check in checks}
    for name, reason in exempt.items():
        if name not in names:
            raise UnknownName("check", name, names)
        if not reason:
            raise InvalidArgument(f"exempt[{name!r}] is {reason!r}, but must be a reason")
    return {check: checks[check] for name, check in names.items() if name not in exempt}


def require_error(call: Callable[[], object], what: str) -> None:
    try:
        call()
    except ERRORS as error:
        if not str(error):
            raise AssertionError(f"{what} was rejected without a message") from error
        return
    raise AssertionError(f"{what} was not rejected")


def made_again(part: HasSettings, make: Callable[[Config], Configured]) -> Configured:
    """Make an equal part from the `config` of another one, which must be plain data and stay the same."""
    config = part.config()
    require(json.loads(json.dumps(config)) == config, f"config() is {config}, not plain data")
    rebuilt = make(config)
    require(rebuilt.config() == config, f"config() is {config}, but {rebuilt.config()} once rebuilt from it")
    return rebuilt


def require_constant_size(part: object, play: Callable[[int, int], object], n_rounds: int) -> None:
    """`play` plays the rounds from its first argument to its second."""
    play(0, n_rounds)
    before = size_in_bytes(part)
    play(n_rounds, 2 * n_rounds)
    growth = (size_in_bytes(part) - before) / n_rounds
    require(growth < 1.0, f"it grew by {growth:.1f} bytes per round")


def always(example: object) -> bool:
    return True


def require(condition: bool, finding: str) -> None:
    if not condition:
        raise AssertionError(finding)


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(_entropy(*key))


@lru_cache(maxsize=10_000)
def _entropy(*key: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(key)


@lru_cache(maxsize=100_000)
def uniform(*key: int) -> float:
    """The first number of `generator(*key)`, which takes longer to make than to use."""
    return float(generator(*key).random())


def size_in_bytes(learner: object) -> int:
    """Memory of an object and all that it refers to, without code."""
    total, seen, waiting = 0, set(), [learner]
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type | ModuleType | FunctionType | BuiltinFunctionType):
            continue
        seen.add(id(thing))
        total += sys.getsizeof(thing)
        waiting.extend(referents(thing))
    return total


def referents(thing: object) -> Iterable[object]:
    if isinstance(thing, np.ndarray):  # the garbage collector does not look into arrays
        return [thing.base, *(thing.ravel().tolist() if thing.dtype.hasobject else [])]
    return gc.get_referents(thing)


def is_matrix(context: Context) -> bool:
    return isinstance(context, np.ndarray) and context.ndim == 2


def equal(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, Real) and isinstance(other, Real):
        return one == other or (isnan(one) and isnan(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(np.array_equal(one, other))


def require_same_arrays(expected: State, seen: State, when: str) -> None:
    require(expected.keys() == seen.keys(), f"state {when} has {sorted(seen)}, not {sorted(expected)}")
    for name, array in expected.items():
        finding = first_difference(array, seen[name])
        require(not finding, f"state {name!r} {when} has {finding}")


def first_difference(expected: AnyArray, seen: AnyArray) -> str:
    """Where two arrays first differ; empty if they are equal."""
    if expected.dtype != seen.dtype or expected.shape != seen.shape:
        return f"{seen.dtype} of shape {seen.shape}, not {expected.dtype} of shape {expected.shape}"
    differs = (expected != seen) & ~((expected != expected) & (seen != seen))
    if not differs.any():
        return ""
    place = tuple(int(index[0]) for index in np.nonzero(differs))
    return f"{seen[place]!r} at {list(place)}, not {expected[place]!r} ({int(differs.sum())} of {differs.size} differ)"


def copied(state: Mapping[str, object]) -> State:
    return {name: np.array(array) for name, array in state.items()}


def saved(part: Saves) -> State:
    return copied(part.state())


def hand_over(state: Mapping[str, object], successor: Saves) -> None:
    """Restore a copy of a state, which must be plain data, and overwrite the copy, which must not matter."""
    for name, array in state.items():
        plain = isinstance(array, np.ndarray) and not array.dtype.hasobject
        require(plain, f"state {name!r} is {type(array).__name__}, not an array of numbers")
    handed_over = copied(state)
    successor.restore(handed_over)
    for array in handed_over.values():
        array[...] = 0


def incompatibilities(state: State) -> Iterator[tuple[str, State]]:
    """States that lack an entry, or have one of another shape, with what is wrong with them."""
    for name, array in state.items():
        yield f"a state without {name!r}", {key: value for key, value in state.items() if key != name}
        yield f"a state whose {name!r} has another shape", {**state, name: np.zeros((*array.shape, 2), array.dtype)}
