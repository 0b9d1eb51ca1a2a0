"""Objects of other libraries as plain data, so that files and configurations can name them, and as bytes.

A description is {"class": "module.Class", setting: value, ...} with the settings that differ from their defaults,
nested where a setting is an object of the library itself. Only classes of the modules that an adapter lists can be
described or built, so a file cannot name anything else.

Bytes are in the format of skops, without pickle, made canonical, so that equal objects have equal bytes: ids and file
names, which are memory addresses in skops, are numbered in order, and times are dropped.

Before anything is built, every class that the bytes name must be one that skops trusts or a class of the given
packages; a function of these packages is refused.
"""

from __future__ import annotations

import inspect
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from equipoise.errors import InvalidArgument, UnknownName, UnreadableFile, require
from equipoise.types import Config, Plain

CLASS = "class"
SCHEMA = "schema.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
# Containers of the standard library that models hold.
PLAIN_TYPES = frozenset({"builtins.frozenset", "collections.Counter", "collections.defaultdict"})


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
            default = parameter.default
            if plain != (list(default) if isinstance(default, tuple) else default):
                settings[name] = plain
        return settings

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
        return ", ".join(f"{self.package}.{name}" for name in self.modules)


def pack(thing: Any) -> bytes:
    """The canonical bytes of an object."""
    require("saving this model", "skops")
    import skops.io

    with zipfile.ZipFile(io.BytesIO(skops.io.dumps(thing))) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    renamed: dict[str, str] = {}
    schema = _renumber(json.loads(files.pop(SCHEMA)), {}, renamed)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, new_name in renamed.items():
            archive.writestr(zipfile.ZipInfo(new_name, EPOCH), files[name])
        archive.writestr(zipfile.ZipInfo(SCHEMA, EPOCH), json.dumps(schema))
    return buffer.getvalue()


def unpack(data: bytes, packages: Sequence[str]) -> Any:
    """The object of these bytes, whose classes must belong to `packages`."""
    require("loading this model", "skops")
    import skops.io

    try:
        untrusted = skops.io.get_untrusted_types(data=data)
    except Exception as error:  # damaged bytes raise anything
        raise UnreadableFile(f"the state of a model is damaged: {error!r:.200}") from error
    for name in untrusted:
        _check_type(name, packages)
    return skops.io.loads(data, trusted=untrusted)


def unpack_like(own: Any, data: bytes, packages: Sequence[str]) -> Any:
    """The object of these bytes, which must be of the class of `own`."""
    restored = unpack(data, packages)
    if type(restored) is not type(own):
        raise InvalidArgument(f"state is of a {type(restored).__name__}, but must be of a {type(own).__name__}")
    return restored


def _check_type(name: str, packages: Sequence[str]) -> None:
    module, _, attribute = name.rpartition(".")
    if name in PLAIN_TYPES:
        return
    if module.split(".")[0] not in packages:
        raise InvalidArgument(f"the state of a model names {name}, but may name only classes of {', '.join(packages)}")
    if not isinstance(getattr(import_module(module), attribute, None), type):
        raise InvalidArgument(f"the state of a model names {name}, which is not a class")


def _renumber(node: Any, ids: dict[int, int], renamed: dict[str, str]) -> Any:
    """The tree with ids and file names in order of their first use."""
    if isinstance(node, list):
        return [_renumber(item, ids, renamed) for item in node]
    if not isinstance(node, dict):
        return node
    own = node.get("__id__")
    if own is not None:
        # An id that nothing else can have for a string or number, else that of the object.
        key = -len(ids) - 1 if node.get("is_json") else own
        ids.setdefault(key, len(ids))
        own = ids[key]
    renumbered = {name: _renumber(value, ids, renamed) for name, value in node.items() if name != "__id__"}
    if "file" in renumbered:
        suffix = str(node["file"]).rpartition(".")[2]
        renumbered["file"] = renamed.setdefault(node["file"], f"{len(renamed)}.{suffix}")
    return renumbered if own is None else {**renumbered, "__id__": own}
