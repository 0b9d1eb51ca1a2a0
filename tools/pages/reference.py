"""The public names of the package, with signatures and docstrings: `python -m tools.pages reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, ForwardRef

# Which modules are public, and what their names are for.
MODULES = {
    "equipoise": "What most programs need",
    "equipoise.learners": "Algorithms that decide and learn",
    "equipoise.selectors": "Rules that choose which learner plays",
    "equipoise.features": "Offers with ids, and feature maps",
    "equipoise.bounds": "Candidate regret bounds",
    "equipoise.journal": "A portfolio in a durable log of its events",
    "equipoise.problems": "Sources of contexts and rewards, for simulations",
    "equipoise.adapters": "Models and bandits of other libraries (each needs an extra)",
    "equipoise.testing": "Checks for your own classes",
    "equipoise.rl": "Reinforcement learning with Gymnasium (needs the extra `rl`)",
    "equipoise.errors": "Errors",
}
SHORT_DEFAULT = 40  # characters of a default value that are shown


@cache
def page() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# API reference\n"
    yield "Written from the docstrings by `python -m tools.pages reference`. The [guide](guide.md) explains how to use"
    yield "these names; [algorithms](algorithms.md) has the papers behind them.\n"
    for name, purpose in MODULES.items():
        yield f"- [`{name}`](#{name.replace('.', '')}): {purpose}"
    for name, purpose in MODULES.items():
        yield f"\n## {name}\n"
        yield f"{purpose}.\n"
        module = import_module(name)
        for public in public_names(module):
            yield from _entry(public, getattr(module, public))


def public_names(module: ModuleType) -> list[str]:
    """Public classes and functions in alphabetical order: those of `__all__`, else the classes it defines."""
    if hasattr(module, "__all__"):
        listed = ((name, getattr(module, name)) for name in module.__all__)
        names = [name for name, value in listed if inspect.isclass(value) or inspect.isfunction(value)]
    else:
        own = inspect.getmembers(module, inspect.isclass)
        names = [name for name, cls in own if cls.__module__ == module.__name__ and not name.startswith("_")]
    return sorted(names, key=str.lower)


def _entry(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    yield "```text"
    yield signature(name, value)
    yield "```\n"
    yield _source(value) + "\n"
    if docstring := _docstring(value):
        yield docstring + "\n"
    for method, function in _methods(value):
        text = (_docstring(function) or "").split("\n\n")[0].replace("\n", " ")
        yield f"- `{signature(method, function, bound=True)}`: {text}"
    if any(True for _ in _methods(value)):
        yield ""


def signature(name: str, value: Any, bound: bool = False) -> str:
    """Name and parameters; one per line where they do not fit on one."""
    try:
        parameters = list(inspect.signature(value).parameters.values())
    except ValueError:
        return name
    if getattr(value, "_is_protocol", False) or (inspect.isclass(value) and issubclass(value, Exception)):
        return name
    shown = list(_parameters(parameters[1:] if bound else parameters))
    line = f"{name}({', '.join(shown)})"
    remarks = {} if bound else _remarks(value)
    if bound or (len(line) <= 100 and not remarks):
        return line
    rows = (f"    {text},{remarks.get(text.partition(':')[0], '')}\n" for text in shown)
    return f"{name}(\n" + "".join(rows) + ")"


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    starred = False
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        yield _parameter(parameter)


def _remarks(value: Any) -> dict[str, str]:
    """What a class says beside its fields, in comments."""
    remarks: dict[str, str] = {}
    for cls in reversed(value.__mro__) if inspect.isclass(value) else ():
        if cls.__module__.startswith("equipoise"):
            remarks |= _comments(cls)
    return remarks


@cache
def _comments(cls: type[Any]) -> dict[str, str]:
    return dict(re.findall(r"^    (\w+): .*?(  # .+)$", inspect.getsource(cls), re.MULTILINE))


def _parameter(parameter: inspect.Parameter) -> str:
    many = parameter.kind is parameter.VAR_POSITIONAL, parameter.kind is parameter.VAR_KEYWORD
    text = "*" * many.index(True) + "*" + parameter.name if any(many) else parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = repr(parameter.default)
        clear = len(default) <= SHORT_DEFAULT and not default.startswith("<")
        text += f" = {default if clear else '...'}"
    return text


def _annotation(annotation: Any) -> str:
    if isinstance(annotation, str | ForwardRef):
        return annotation if isinstance(annotation, str) else str(annotation.__forward_arg__)
    plain = inspect.formatannotation(annotation)
    return re.sub(r"\b(?:equipoise|collections|typing|numpy)\.(?:\w+\.)*", "", plain)


def _docstring(value: Any) -> str:
    """The text of an object; nothing for one that a dataclass or named tuple made up. Examples become code."""
    own = value.__doc__
    if not own or own.startswith(f"{value.__name__}("):
        return ""
    return "\n\n".join(_paragraph(text) for text in inspect.cleandoc(own).split("\n\n"))


def _paragraph(text: str) -> str:
    """A paragraph as Markdown: examples as code, sections with a row for each parameter as lists."""
    if text.startswith(">>>"):
        return f"```python\n{text}\n```"
    text = re.sub(r"(`[^`]*`)|\*", lambda found: found[1] or r"\*", text)
    section = re.match(r"(\w+)(?:\n-+|:)\n", text)
    if section is None:
        return text
    rows = inspect.cleandoc("\n" + text[section.end() :])
    rows = re.sub(r"^(\S[^\n:]*?)(?:: *| : [^\n]*\n +|\n +)", r"- `\1`: ", rows, flags=re.MULTILINE)
    return f"**{section[1]}**\n\n{rows}"


def _methods(value: Any) -> Iterator[tuple[str, Any]]:
    """The public methods that a class defines itself, with their text."""
    if not inspect.isclass(value):
        return
    for name, member in vars(value).items():
        function = member.__func__ if isinstance(member, classmethod) else member
        deprecated = (getattr(function, "__doc__", None) or "").startswith("Deprecated")
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__ and not deprecated:
            yield name, function


def _source(value: Any) -> str:
    path = value.__module__.replace(".", "/")
    module = import_module(value.__module__)
    file = f"{path}/__init__.py" if hasattr(module, "__path__") else f"{path}.py"
    return f"[`{file}`](../{file})"
