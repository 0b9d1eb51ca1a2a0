"""Running the checks of a suite, and what all suites use."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TypeVar

import numpy as np

from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName

Subject = TypeVar("Subject")
Example = TypeVar("Example")
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
    """The call must raise an error with a message."""
    try:
        call()
    except ERRORS as error:
        if not str(error):
            raise AssertionError(f"{what} was rejected without a message") from error
        return
    raise AssertionError(f"{what} was not rejected")


def always(example: object) -> bool:
    return True


def require(condition: bool, finding: str) -> None:
    if not condition:
        raise AssertionError(finding)


def generator(*key: int) -> np.random.Generator:
    return np.random.default_rng(key)


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
