"""Objects of other libraries as plain data, so that files and configurations can name them.

A description is {"class": "module.Class", setting: value, ...} with the settings that differ from their defaults,
nested where a setting is an object of the library itself. Only classes of the modules that an adapter lists can be
described or built, so a file cannot name anything else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from equipoise.errors import InvalidArgument, UnknownName, require
from equipoise.types import Config, Plain

CLASS = "class"


class Library(NamedTuple):
    """A library and the modules whose classes may be named."""

    package: str
    modules: tuple[str, ...]  # within the package
    refused: Mapping[str, str] = {}  # classes of these modules that cannot be used, and why

    def describe(self, thing: Any) -> Plain:
        """The description of an object of the library; other values must be plain data."""
        if thing is None or isinstance(thing, bool | int | float | str):
            return thing
        if isinstance(thing, list | tuple):
            return [self.describe(item) for item in thing]
        cls = type(thing)
        return {CLASS: self._path(cls), **self._settings(cls, thing)}

    def build(self, description: Plain) -> Any:
        """A new object from its description."""
        if isinstance(description, list):
            return [self.build(item) for item in description]
        if not isinstance(description, Mapping):
            return description
        cls = self._class(description.get(CLASS, ""))
        settings = {name: self.build(value) for name, value in description.items() if name != CLASS}
        steps = settings.pop(self._variadic(cls), [])
        unknown = set(settings) - set(inspect.signature(cls).parameters)
        if unknown:
            raise UnknownName(f"setting of {cls.__name__}", min(unknown), inspect.signature(cls).parameters)
        return cls(*steps, **settings)

    def _settings(self, cls: type[Any], thing: Any) -> Config:
        settings: Config = {}
        for name, parameter in inspect.signature(cls).parameters.items():
            value = getattr(thing, name)
            if isinstance(value, Mapping) and parameter.kind is parameter.VAR_POSITIONAL:
                value = list(value.values())
            plain = self.describe(value)
            if plain != self._described_default(parameter):
                settings[name] = plain
        return settings

    def _described_default(self, parameter: inspect.Parameter) -> Plain:
        default = parameter.default
        return list(default) if isinstance(default, tuple) else default

    def _variadic(self, cls: type[Any]) -> str:
        """The name of the parameter that takes any number of arguments; empty if there is none."""
        parameters = inspect.signature(cls).parameters.values()
        return next((each.name for each in parameters if each.kind is each.VAR_POSITIONAL), "")

    def _namespaces(self) -> Iterator[tuple[str, Any]]:
        require(f"a model of {self.package}", self.package)
        for name in self.modules:
            yield name, import_module(f"{self.package}.{name}")

    def _path(self, cls: type[Any]) -> str:
        for name, module in self._namespaces():
            if getattr(module, cls.__name__, None) is cls:
                self._check_not_refused(cls.__name__)
                return f"{name}.{cls.__name__}"
        raise InvalidArgument(
            f"a {cls.__module__}.{cls.__qualname__} was given, but must be a class of {self._known_modules()}"
        )

    def _class(self, path: object) -> type[Any]:
        module, _, name = str(path).rpartition(".")
        namespaces = dict(self._namespaces())
        found = getattr(namespaces.get(module), name, None) if not name.startswith("_") else None
        if not isinstance(found, type):
            raise InvalidArgument(f"class is {path!r}, but must be a class of {self._known_modules()}")
        self._check_not_refused(name)
        return found

    def _check_not_refused(self, name: str) -> None:
        if name in self.refused:
            raise InvalidArgument(f"class is {name}, but must not be: {self.refused[name]}")

    def _known_modules(self) -> str:
        names: Sequence[str] = [f"{self.package}.{name}" for name in self.modules]
        return ", ".join(names)
