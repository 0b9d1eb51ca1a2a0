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
from numba.core import cgutils, types
from numba.extending import intrinsic, overload

from equipoise.kernel import DISPATCHED, KERNELS, NATIVE, REASSOCIATED

F = TypeVar("F", bound=Callable[..., Any])
REORDERED_SUMS = {"reassoc", "contract", "nsz"}
_settings: Any = numba.config
_building: Any = cgutils
_types: Any = types
_intrinsic: Any = intrinsic
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
    for function in DISPATCHED:
        if function not in _registered:
            _registered.add(function)
            _dispatch(function)


def _overload(function: Callable[..., Any]) -> None:
    implementation = NATIVE.get(function, function)
    options: Any = _options(implementation)
    overload(function, strict=False, jit_options=options)(lambda *arguments: implementation)


def _dispatch(function: Callable[..., Any]) -> None:
    name = function.__name__
    options: Any = _options(function)
    overload(function, strict=False, jit_options=options)(lambda first, *rest: getattr(first.instance_class, name))


def _options(implementation: Callable[..., Any]) -> dict[str, Any]:
    # Inlined into their driver, kernels are seen to work on borrowed arrays.
    fastmath = REORDERED_SUMS if implementation in REASSOCIATED else False
    return {"error_model": "numpy", "forceinline": True, "fastmath": fastmath}


def driver(function: F) -> F:
    """The native version of a function that runs many rounds on arrays that its caller holds."""
    native = compiled(function)
    if native is function:
        return function

    def drive(*arguments: Any) -> Any:
        return native(*borrowed(arguments))

    return numba.njit(drive, error_model="numpy")  # type: ignore[no-any-return]


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, (_types.Array, _types.NumPyRandomGeneratorType)):
        fields = _building.create_struct_proxy(kind)(context, builder, value)
        fields.meminfo = _building.get_null_value(fields.meminfo.type)
        return fields._getvalue()
    if isinstance(kind, _types.BaseTuple):
        parts = zip(kind, _building.unpack_tuple(builder, value), strict=True)
        return context.make_tuple(builder, kind, [_without_owner(context, builder, *part) for part in parts])
    return value


@_intrinsic  # type: ignore[untyped-decorator]
def borrowed(typing_context: Any, value: Any) -> Any:
    """The same arrays, without an owner whose references are counted.

    Numba counts a reference whenever it takes an array out of a tuple, by an atomic addition: with a dozen arrays in
    the state of a learner that costs more than the arithmetic of a round. What a driver is given outlives the call.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, value, arguments[0])

    return value(value), generate
