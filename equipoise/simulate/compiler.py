"""Turns kernels into machine code. The only module that imports Numba.

`compiled(function)` is the native version of a kernel or driver. Every function marked with `kernel` becomes callable
from compiled code, its `native` twin taking its place where it has one. Drivers are closures over the compiled kernels
of one combination of algorithms, so that the compiler sees through the calls; Numba's disk cache never hits for such
closures and misses changes in other files, so nothing is cached on disk. Division by zero follows floating-point rules
in both worlds. With NUMBA_DISABLE_JIT=1 everything runs as plain Python.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numba
from numba.extending import overload

from equipoise.kernel import KERNELS, NATIVE, REASSOCIATED

F = TypeVar("F", bound=Callable[..., Any])
REORDERED_SUMS = {"reassoc", "contract", "nsz"}
_settings: Any = numba.config
_registered: set[Callable[..., Any]] = set()


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    if _settings.DISABLE_JIT:
        return function
    register()
    implementation = NATIVE.get(function, function)
    native: Callable[..., Any] = numba.njit(implementation, **_options(implementation))
    return native


def compiled(function: F) -> F:
    """The native version of `function`, one per process."""
    return _compiled(function)  # type: ignore[return-value]


def register() -> None:
    """Make every kernel defined so far callable from compiled code."""
    for function in KERNELS:
        if function not in _registered:
            _registered.add(function)
            _overload(function)


def _overload(function: Callable[..., Any]) -> None:
    implementation = NATIVE.get(function, function)
    options: Any = _options(implementation)
    overload(function, strict=False, jit_options=options)(lambda *arguments: implementation)


def _options(implementation: Callable[..., Any]) -> dict[str, Any]:
    # Inlining lets the compiler see that the arrays of a state outlive the round, instead of counting references.
    fastmath = REORDERED_SUMS if implementation in REASSOCIATED else False
    return {"error_model": "numpy", "forceinline": True, "fastmath": fastmath}
