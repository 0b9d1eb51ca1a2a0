"""Marks functions that may be compiled.

An algorithm is written once, as small functions over arrays that run as plain Python. `kernel` marks them; the
simulator, the only place that knows a compiler, makes each marked function callable from compiled code.
Where one formulation cannot be fast both ways (matrix products interpreted, loops compiled), `native` gives a marked
function a compiled twin of the same signature; a parity test holds the two together. `dispatched` marks a function
whose implementation is the method of the same name of its first argument, a NamedTuple; compiled code picks the method
by the class of that argument, once, when it is compiled.
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
    """Mark `function` as callable from compiled code; calling it from Python stays plain Python."""
    KERNELS.append(function)
    return function


def native(interpreted: Callable[..., Any], *, reassociate: bool = False) -> Callable[[F], F]:
    """Mark the decorated function as what compiled code runs in place of the kernel `interpreted`.

    `reassociate` lets the compiler reorder its sums and fuse its products, as matrix libraries do: results may differ
    in the last digits, nan and infinities keep their meaning.
    """

    def mark(function: F) -> F:
        NATIVE[interpreted] = function
        if reassociate:
            REASSOCIATED.add(function)
        return function

    return mark


def dispatched(function: F) -> F:
    """Mark `function` as calling the method of its own name of its first argument, which is written as a kernel."""
    DISPATCHED.append(function)
    return function
