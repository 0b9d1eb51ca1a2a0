"""Binds the round loop to the kernels of one combination of problem, learners and selector.

The source of a bound module is that of `rounds`, followed by one assignment per hook. For compilation it is written to
the driver cache and imported from there, so that Numba finds its machine code in the next process. Without compilation
the module is made in memory under the file name of `rounds`, so that debuggers and coverage see the loop.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, cast

from equipoise.simulation import rounds

Function = Callable[..., object]
TEMPLATE = Path(inspect.getfile(rounds)).read_text(encoding="utf-8")


class Group(NamedTuple):
    decide: Function
    learn: Function
    size: int


class Binding(NamedTuple):
    """The functions and constants assigned to the hooks of `rounds`."""

    names: tuple[tuple[str, Function | bool], ...]
    groups: tuple[Group, ...] = ()

    @property
    def kernels(self) -> dict[str, Function]:
        """The functions that are not defined in `rounds`, by the name of their hook."""
        outside = {name: value for name, value in self.names if not isinstance(value, bool) and not _own(value)}
        for g, group in enumerate(self.groups):
            outside |= {f"decide_{g}": group.decide, f"learn_{g}": group.learn}
        return outside

    def text(self) -> Iterator[str]:
        """The lines of source that assign the hooks, except for kernels."""
        for name, value in self.names:
            if isinstance(value, bool):
                yield f"{name} = {value}"
            elif inspect.isfunction(value) and _own(value):
                yield f"{name} = {value.__name__}"
        if self.groups:
            sizes = [group.size for group in self.groups]
            # Indexing a tuple increments reference counts in compiled code unless the element is borrowed again.
            call = "{}_{{g}}(source.learners[{{g}}][{{m}}], borrowed({}[{{g}}][{{m}}]), {})"
            given = "actions, rng"
            yield from chain("decide", f"memories, {given}", call.format("decide", "memories", given), sizes)
            given = "actions, action, reward, weight"
            yield from chain("learn", given, call.format("learn", "source.memories", given), sizes)


DEFAULTS: dict[str, Function | bool] = {
    **dict.fromkeys(("ASKS_ALL", "EXPERTS", "WEIGHTED", "SMOOTHED", "SHARED", "TWIN"), False),
    "exhausted": rounds.never_exhausted,
    "certified": rounds.no_certificate,
    "probe_round": rounds.probe_nothing,
}


def bind(names: Mapping[str, Function | bool], groups: Sequence[Group] = ()) -> Binding:
    """Assign hooks; those that are not given do nothing."""
    return Binding(tuple(sorted({**DEFAULTS, **names}.items())), tuple(groups))


def _own(value: object) -> bool:
    return inspect.isfunction(value) and value.__module__ == rounds.__name__


def chain(name: str, parameters: str, call: str, sizes: Sequence[int]) -> Iterator[str]:
    """The source of a function that finds the group of a learner by comparisons and calls the kernel of the group.

    >>> print("\\n".join(chain("f", "x", "f_{g}(source[{g}][{m}], x)", [2, 1])))
    def f(source, i, x):
        if source.places[i, 0] == 0:
            return f_0(source[0][source.places[i, 1]], x)
        return f_1(source[1][0], x)
    """
    yield f"def {name}(source, i, {parameters}):"
    for g, size in enumerate(sizes):
        # A constant index avoids copying the states of all members.
        line = f"return {call.format(g=g, m='source.places[i, 1]' if size > 1 else 0)}"
        if g + 1 < len(sizes):
            yield f"    if source.places[i, 0] == {g}:"
            line = f"    {line}"
        yield f"    {line}"


class _InMemory(importlib.abc.SourceLoader):
    def __init__(self, text: str) -> None:
        self.text = text

    def get_filename(self, fullname: str) -> str:
        return inspect.getfile(rounds)

    def get_data(self, path: str | bytes) -> bytes:
        return self.text.encode()


def module_in_memory(binding: Binding, name: str) -> ModuleType:
    loader = _InMemory("\n".join((TEMPLATE, *binding.text(), "")))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    vars(module).update(binding.kernels)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@cache
def interpreted(binding: Binding, entry: str = "run_rounds") -> Function:
    """The loop, or another function of the bound module, as plain Python."""
    return cast(Function, getattr(module_in_memory(binding, "equipoise.simulation.bound"), entry))
