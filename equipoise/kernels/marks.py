"""Decorators that mark functions for compilation.

An algorithm is written once, as small functions over arrays that run as plain Python. `kernel` marks them; the
simulator, the only part that uses a compiler, makes each marked function callable from compiled code.
If one implementation cannot be fast both ways (matrix products when interpreted, loops when compiled), `native` gives a
marked function a second implementation with the same signature, and a parity test compares the two. `dispatched` marks
a function that calls the method of the same name of its first argument, a NamedTuple; compiled code selects the method
by the class of that argument at compile time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

KERNELS: list[Callable[..., Any]] = []
NATIVE: dict[Callable[..., Any], Callable[..., Any]] = {}
REASSOCIATED: set[Callable[..., Any]] = set()
DISPATCHED: list[Callable[..., Any]] = []


def kernel(function: F) -> F:
    """Mark `function` as callable from compiled code; called from Python, it runs as plain Python."""
    KERNELS.append(function)
    return function


def native(interpreted: Callable[..., Any], *, reassociate: bool = False) -> Callable[[F], F]:
    """Mark the decorated function as what compiled code runs instead of the kernel `interpreted`.

    `reassociate` lets the compiler reorder sums and fuse multiplications and additions, as matrix libraries do: results
    may differ in the last digits; nan and infinities are still respected.
    """

    def mark(function: F) -> F:
        NATIVE[interpreted] = function
        if reassociate:
            REASSOCIATED.add(function)
        return function

    return mark


def dispatched(function: F) -> F:
    """Mark `function` as calling the method of the same name of its first argument, which is written as a kernel."""
    DISPATCHED.append(function)
    return function
