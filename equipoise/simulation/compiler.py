"""Compiles kernels to machine code. This module and `normals` are the only ones that import Numba.

`compiled(function)` is the native version of a kernel, made in memory. `driver(binding)` is that of a bound round loop,
loaded from disk if it has been compiled before (see `cache`). Every function marked with `kernel` can be called from
compiled code, by its `native` version if it has one; functions marked with `dispatched` are selected by the class of
their first argument. Division by zero follows floating-point rules, compiled or not. With NUMBA_DISABLE_JIT=1
everything runs as plain Python.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core import cgutils, errors, event, types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.runtime.context import NRTContext
from numba.extending import intrinsic, overload

from equipoise.kernels.marks import DISPATCHED, KERNELS, NATIVE, REASSOCIATED
from equipoise.simulation import normals  # noqa: F401 - brings the compiled twins of the interpreted generator
from equipoise.simulation.binding import Binding, Function, interpreted, module_in_memory
from equipoise.simulation.cache import Entry, find_entry

F = TypeVar("F", bound=Callable[..., object])
REORDERED_SUMS = {"reassoc", "contract", "nsz"}
# Options of Numba that affect file locations or threads but not the machine code.
WITHOUT_EFFECT = ("CACHE_DIR", "CACHE_LOCATOR_CLASSES", "NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS")
_settings: Any = numba.config
_building: Any = cgutils
_types: Any = types
_intrinsic: Any = intrinsic
_njit: Any = numba.njit
_events: Any = event
_counting: Any = NRTContext
_Library: Any = JITCodeLibrary
_Compiler: Any = Compiler
_registered: set[Function] = set()


class _Counter(event.Listener):
    """Counts the functions that Numba has compiled, without those loaded from disk."""

    n_compiled = 0

    def on_start(self, event: object) -> None:
        self.n_compiled += 1

    def on_end(self, event: object) -> None:
        pass


_counter = _Counter()
_events.register("numba:compile", _counter)


def compilations() -> int:
    """Number of functions that this process has compiled so far, including inner ones."""
    return _counter.n_compiled


class _KernelCode(_Library):  # type: ignore[misc]
    """The code of a kernel. It is only ever inlined, so it is neither optimized on its own nor made machine code."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    @property
    def codegen(self) -> _KernelCode:
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Do nothing: without machine code there is no variable that could hold the environment."""


class _DriverCode(_Library):  # type: ignore[misc]
    """The code of a driver, optimized once, with all kernels in it.

    Numba would first optimize the loop without them, which takes up to two thirds of the time and changes nothing.
    The wrapper unpacks a hundred arrays once per call, and is not worth optimizing.
    """

    def _optimize_functions(self, module: Any) -> None:
        module.data_layout = self._codegen._data_layout

    def add_ir_module(self, module: Any) -> None:
        if module.name == "wrapper":
            for function in module.functions:
                if not function.is_declaration:
                    function.attributes.add("noinline")
                    function.attributes.add("optnone")
        super().add_ir_module(module)


class _KernelCompiler(_Compiler):  # type: ignore[misc]
    library_class: Any = _KernelCode

    def define_pipelines(self) -> Any:
        self.state.library = self.library_class(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        return super().define_pipelines()


class _DriverCompiler(_KernelCompiler):
    library_class = _DriverCode


@cache
def _compiled(function: Function) -> Function:
    if _settings.DISABLE_JIT:
        return function
    register()
    return _inlined(NATIVE.get(function, function))


def compiled(function: F) -> F:
    """The native version of `function`, one per process."""
    return _compiled(function)  # type: ignore[return-value]


def _inlined(implementation: Function) -> Function:
    native: Function = _njit(implementation, **_options(implementation))
    return native


def register() -> None:
    """Make every kernel defined so far callable from compiled code."""
    for function in (*KERNELS, *DISPATCHED):
        if function not in _registered:
            _registered.add(function)
            _overload(function)


def _overload(function: Function) -> None:
    implementation, name = NATIVE.get(function, function), function.__name__
    options: Any = {**_options(implementation), "pipeline_class": _KernelCompiler}
    offer = overload(function, strict=False, jit_options=options)
    if function in DISPATCHED:
        offer(lambda first, *rest: getattr(first.instance_class, name))
    else:
        offer(lambda *arguments: implementation)


def _options(implementation: Function) -> dict[str, object]:
    # Kernels are inlined so that the compiler sees that their arrays are borrowed. They count the references to arrays
    # of their own, though the loop that calls them counts none. Nobody calls them from C.
    fastmath = REORDERED_SUMS if implementation in REASSOCIATED else False
    options: dict[str, object] = {"error_model": "numpy", "_nrt": True, "no_cfunc_wrapper": True}
    return {**options, "forceinline": True, "fastmath": fastmath}


@cache
def driver(binding: Binding, entry: str = "drive") -> Function:
    """The native version of a bound loop, or of another function of the bound module; one per process."""
    if _settings.DISABLE_JIT:
        return interpreted(binding, "run_rounds" if entry == "drive" else entry)
    return Driver(binding, entry)


class Driver:
    """A bound loop in machine code: compiled at the first call with new argument types, or loaded from disk."""

    def __init__(self, binding: Binding, entry: str) -> None:
        self._binding, self._name = binding, entry
        self._entry = find_entry(binding, versions())
        self._load()

    def _load(self) -> None:
        name = "equipoise.simulation.bound"
        module = self._entry.module(name) if self._entry else module_in_memory(self._binding, name)
        for key, value in list(vars(module).items()):
            if inspect.isfunction(value) and value.__module__ == module.__name__:
                setattr(module, key, _njit(value, error_model="numpy", inline="always"))
        module.borrowed, module.release = borrowed, release  # type: ignore[attr-defined]
        self._native = _cached(getattr(module, self._name).py_func, self._entry)
        self._ready: set[object] = set()

    def __call__(self, *arguments: object) -> object:
        layout = _layout(arguments)
        if layout not in self._ready:
            self._prepare(tuple(self._native.typeof_pyval(argument) for argument in arguments))
            self._ready.add(layout)
        return self._native(*arguments)

    def _prepare(self, signature: tuple[object, ...]) -> None:
        register()
        if self._entry is None:
            self._compile(signature)
        else:
            with self._entry.locked():
                try:
                    self._compile(signature)
                except errors.NumbaError:
                    raise
                except Exception:  # files that Numba cannot load
                    self._entry.clear()
                    self._load()
                    self._compile(signature)

    def _compile(self, signature: tuple[object, ...]) -> None:
        with without_collection():
            self._native.compile(signature)


@contextmanager
def without_collection() -> Iterator[None]:
    """Pause the garbage collector: with it, compiling takes a fifth longer."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _layout(value: object) -> object:
    """A key that is equal for values of one compiled type; computing it is ten times as fast as Numba's own."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    return (type(value), *map(_layout, value)) if isinstance(value, tuple) else type(value)


def _cached(function: Function, entry: Entry | None) -> Any:
    """The dispatcher of a driver, whose machine code is stored only in its own cache entry."""
    elsewhere = {name: getattr(_settings, name) for name in WITHOUT_EFFECT[:2] if hasattr(_settings, name)}
    try:
        for name in elsewhere:
            setattr(_settings, name, "")
        # `drive` owns nothing: code that counts references would be a quarter of the work of the compiler.
        counting = function.__name__ != "drive"
        options = {"error_model": "numpy", "_nrt": counting, "no_cfunc_wrapper": True}
        return _njit(function, cache=entry is not None, pipeline_class=_DriverCompiler, **options)
    finally:
        for name, value in elsewhere.items():
            setattr(_settings, name, value)


def versions() -> Iterator[str]:
    """Everything besides the source that affects the machine code."""
    yield f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, numpy {np.__version__}"
    yield f"{llvmlite.binding.get_host_cpu_name()} {llvmlite.binding.get_host_cpu_features().flatten()}"
    for name in sorted(vars(_settings)):
        value = getattr(_settings, name)
        if name.isupper() and name not in WITHOUT_EFFECT and isinstance(value, str | int | float | None):
            yield f"{name} = {value}"


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
    """The same arrays without reference counting.

    Numba increments a reference count, by an atomic addition, whenever it takes an array out of a tuple. With a dozen
    arrays in the state of a learner this costs more than the arithmetic of a round. The arguments of a driver outlive
    the call, so counting is unnecessary.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without_owner(context, builder, value, arguments[0])

    return value(value), generate


@_intrinsic  # type: ignore[untyped-decorator]
def release(typing_context: Any, generator: Any) -> Any:
    """Give back the reference to a generator that a call without reference counting took of its argument."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _counting(context, True).decref(builder, generator, arguments[0])
        return context.get_dummy_value()

    return _types.none(generator), generate
