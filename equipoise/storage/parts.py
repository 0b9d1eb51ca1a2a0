"""How learners, selectors and portfolios are describe_part in a file and built again from it.

Registered classes, those of the package and of installed packages, are rebuilt from their name and settings. Any other
class is never imported from a file: the user passes a new object, and its class name and settings are compared with
what was saved.

A learner or a selector that is used without a portfolio, in a loop of one's own, is saved and loaded here too:

>>> from equipoise.selectors import UCB1
>>> selector = UCB1(2)
>>> _ = selector.credit(selector.choose(), reward=1.0)
>>> save(selector, "selector.eqp")
>>> load("selector.eqp") == selector
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from equipoise.compatibility import check_selector
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict, UnreadableFile
from equipoise.learner import MinimalLearner, part_name
from equipoise.selector import Selector
from equipoise.settings import equal_data
from equipoise.storage import migrations
from equipoise.storage.archive import pack, unpack
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.storage.registry import registered_classes
from equipoise.types import Config, Context, Plain, State

VERSION = 2


@runtime_checkable
class Savable(Protocol):
    """What can be saved: a learner or selector that tells what it learned and can take it on again."""

    def state(self) -> State: ...

    def restore(self, state: State) -> None: ...


Part = TypeVar("Part")


def save(part: Savable, path: str | Path) -> None:
    """Write a learner or selector that stands alone to a file, with all that it has learned and its open plays."""
    write_part(path, "part", describe_part(part))


def load(path: str | Path, part: Savable | None = None) -> Any:
    """Read what `save` wrote; it goes on exactly as the saved one would have.

    A class of the package is built again from the file. For any other pass a new object with the same settings.
    """
    saved = read_part(path, "part")
    everything = {**registered_classes("learners"), **registered_classes("selectors")}
    loaded = _rebuild(saved, everything, "part") if part is None else _check_matches(part, saved)
    loaded.restore(saved["state"])
    return loaded


def write_part(path: str | Path, kind: str, content: Config) -> None:
    """Write an archive of one thing; a crash or a full disk leaves an old file as it was."""
    write_atomic(path, pack({"version": VERSION, kind: content}))


def read_part(path: str | Path, kind: str) -> Config:
    """What `write_part` wrote, in the present form whatever release wrote it."""
    content = unpack(read_bytes(path), Path(path))
    if not isinstance(content, dict) or kind not in content:
        raise UnreadableFile(f"{path} holds no {kind}")
    version = content.get("version", 1)  # release 0.1 wrote none
    if version > VERSION:
        raise UnreadableFile(f"{path} has version {version}, but this release reads versions up to {VERSION}")
    saved: Config = content[kind]
    return migrations.portfolio_0_1(saved) if version == 1 else saved


def describe_part(part: object) -> Config:
    """Class, settings and state of a learner or selector."""
    name = part_name(part)
    if not isinstance(part, Savable):
        raise InvalidArgument(f"{name!r} has no state() and restore(), so it cannot be saved")
    return {**fingerprint(part), "name": name, "state": part.state()}


def fingerprint(part: object) -> Config:
    """What has to be the same in an object that takes on a saved state."""
    cls = type(part)
    config = part.config() if isinstance(part, _Configured) else {}
    known = cls in (registered_classes(kind).get(cls.__name__) for kind in ("learners", "selectors"))
    return {"class": cls.__name__, "ours": known, "config": config}


@runtime_checkable
class _Configured(Protocol):
    def config(self) -> Config: ...


def rebuild_learners(saved: Sequence[Config], given: Sequence[MinimalLearner] | None) -> Sequence[MinimalLearner]:
    """The learners of a file, or the given ones if they are what was saved."""
    if given is None:
        return [_rebuild(row, registered_classes("learners"), "learners") for row in saved]
    if len(given) != len(saved):
        raise StoreConflict(f"learners has {len(given)} entries, but the saved portfolio has {len(saved)}")
    return [_check_matches(learner, row) for learner, row in zip(given, saved, strict=True)]


def rebuild_selector(saved: Config, given: Selector | None) -> Selector:
    """The selector of a file, or the given one if it is what was saved."""
    if given is None:
        rebuilt: Selector = _rebuild(saved, registered_classes("selectors"), "selector")
        return rebuilt
    check_selector(given)
    return _check_matches(given, saved)


def context_to_plain(context: Context, decision: int) -> Plain:
    """A context as data that an archive can hold."""
    from equipoise.learners import Ball

    if isinstance(context, Ball):
        return {"ball": (context.dim, context.radius)}
    return {f"context of decision {decision}": context}


def context_from_plain(data: Mapping[str, Plain]) -> Context:
    from equipoise.learners import Ball

    ((kind, value),) = data.items()
    return Ball(*value) if kind == "ball" else value


def _rebuild(row: Config, registry: Mapping[str, type[Any]], argument: str) -> Any:
    if not row["ours"] or row["class"] not in registry:
        raise StoreConflict(f"{row['name']!r} is a {row['class']}, which is not registered: pass {argument}=...")
    try:
        cls = registry[row["class"]]
        return cls.from_config(row["config"]) if hasattr(cls, "from_config") else cls(**row["config"])
    except EquipoiseError as error:
        raise StoreConflict(f"{row['name']!r} cannot be built from the file ({error}): pass {argument}=...") from error


def _check_matches(part: Part, row: Config) -> Part:
    own, saved = fingerprint(part), {key: row[key] for key in ("class", "ours", "config")}
    if not equal_data(own, saved):
        raise StoreConflict(
            f"{part_name(part)!r} is a {own['class']} with {own['config']}, but the saved one a {saved['class']} "
            f"with {saved['config']}"
        )
    return part
