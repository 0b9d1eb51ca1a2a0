"""Saving and loading of learners, selectors and portfolios.

Registered classes, those of equipoise and of installed packages, are rebuilt from their name and settings. Other
classes are never imported because of a file: the user passes a new object, and its class name and settings are compared
with those in the file.

Layout of a file: the line `equipoise archive 1`, the SHA-256 of everything after it as a line, and the value as the
codec writes it. A learner or selector that is used without a portfolio can be saved too:

>>> from equipoise.selectors import UCB1
>>> selector = UCB1(2)
>>> _ = selector.credit(selector.choose(), reward=1.0)
>>> save(selector, "selector.eqp")
>>> load("selector.eqp") == selector
True
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from equipoise.errors import EquipoiseError, StoreConflict, UnreadableFile
from equipoise.features.maps import follows_from_schema
from equipoise.learner import (
    Freezes,
    HasSettings,
    MadeFromConfig,
    MinimalLearner,
    Saves,
    implements,
    part_name,
    savable,
)
from equipoise.selector import Selector, check_selector
from equipoise.settings import equal_data
from equipoise.storage.codec import Encoded, check_savable, decode, encode, encode_body
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.storage.registry import registered_classes
from equipoise.types import Config, Plain

MAGIC = "equipoise archive"
ARCHIVE_VERSION = 1  # of the layout of a file
VERSION = 1  # of its content


Part = TypeVar("Part")


def save(part: Saves, path: str | Path) -> None:
    """Write a learner or selector to a file, with its settings and its state."""
    write_part(path, "part", describe_part(part))


def load(path: str | Path, part: Saves | None = None) -> Any:
    """Read what `save` wrote; the result continues exactly as the saved object would have.

    Registered classes are created from the file. For another class, pass a new object with the same settings as `part`.
    """
    saved = read_part(path, "part")
    classes = {**registered_classes("learners"), **registered_classes("selectors")}
    loaded = _rebuild(saved, classes, "part") if part is None else _check_matches(part, saved)
    loaded.restore(saved["state"])
    return loaded


def write_part(path: str | Path, kind: str, content: Config) -> None:
    """Write an archive; if that fails, an old file remains unchanged."""
    write_atomic(path, pack({"version": VERSION, kind: content}))


def read_part(path: str | Path, kind: str) -> Config:
    """Return the content that `write_part` wrote."""
    content = unpack(read_bytes(path), Path(path))
    if not isinstance(content, dict) or kind not in content:
        raise UnreadableFile(f"{path} contains no {kind}")
    if content.get("version") != VERSION:
        raise UnreadableFile(f"{path} has version {content.get('version')}, but this release reads version {VERSION}")
    saved: Config = content[kind]
    return saved


def pack(value: Plain) -> bytes:
    """Return the archive of a value; raise an error that names the place of anything that would not come back."""
    check_savable(value, "value", inf)
    content = encode(value)
    return f"{MAGIC} {ARCHIVE_VERSION}\n{hashlib.sha256(content).hexdigest()}\n".encode() + content


def unpack(data: bytes, path: Path) -> Plain:
    """Return the value of an archive; `path` names the file in errors."""
    first, _, rest = data.partition(b"\n")
    digest, _, content = rest.partition(b"\n")
    name, _, version = first.decode("ascii", "replace").rpartition(" ")
    if name != MAGIC:
        raise UnreadableFile(f"{path} is not an equipoise file")
    if version != str(ARCHIVE_VERSION):
        raise UnreadableFile(f"{path} has version {version}, but this release reads version {ARCHIVE_VERSION}")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise UnreadableFile(f"{path} is truncated or was modified: its digest does not match its content")
    return decode(content)


def describe_part(part: object, *, frozen: bool = False) -> Config:
    """Class, settings and state of a learner or selector; a frozen state may have values that are made later."""
    saved = fingerprint(part)
    state: Plain = part.frozen() if frozen and implements(part, Freezes) else savable(part).state()
    if frozen and not saved["ours"]:
        state = Encoded(encode_body(state))  # now, as its arrays may be the ones that the part goes on with
    return {**saved, "name": part_name(part), "state": state}


def fingerprint(part: object) -> Config:
    """What must be equal in an object that is restored from a saved state."""
    cls = type(part)
    config = part.config() if implements(part, HasSettings) else {}
    is_registered = cls in (registered_classes(kind).get(cls.__name__) for kind in ("learners", "selectors"))
    return {"class": cls.__name__, "ours": is_registered, "config": config}


def rebuild_learners(saved: Sequence[Config], given: Sequence[MinimalLearner] | None) -> Sequence[MinimalLearner]:
    """The learners of a file, or the given ones if they match it."""
    if given is None:
        return [_rebuild(row, registered_classes("learners"), "learners") for row in saved]
    if len(given) != len(saved):
        raise StoreConflict(f"learners has {len(given)} entries, but the saved portfolio has {len(saved)}")
    return [_check_matches(learner, row) for learner, row in zip(given, saved, strict=True)]


def rebuild_selector(saved: Config, given: Selector | None) -> Selector:
    """The selector of a file, or the given one if it matches it."""
    if given is None:
        rebuilt: Selector = _rebuild(saved, registered_classes("selectors"), "selector")
        return rebuilt
    check_selector(given)
    return _check_matches(given, saved)


def _rebuild(row: Config, registry: Mapping[str, type[Any]], argument: str) -> Any:
    if not row["ours"] or row["class"] not in registry:
        raise StoreConflict(f"{row['name']!r} is a {row['class']}, which is not registered: pass {argument}=...")
    try:
        cls = registry[row["class"]]
        return cls.from_config(row["config"]) if implements(cls, MadeFromConfig) else cls(**row["config"])
    except EquipoiseError as error:
        raise StoreConflict(
            f"{row['name']!r} cannot be created from the file ({error}): pass {argument}=..."
        ) from error


def _check_matches(part: Part, row: Config) -> Part:
    savable(part)
    part = _with_saved_features(part, row["config"] or {})
    own, saved = fingerprint(part), {key: row[key] for key in ("class", "ours", "config")}
    if not equal_data(own, saved):
        raise StoreConflict(
            f"{part_name(part)!r} is a {own['class']} with {own['config']}, but must be a {saved['class']} "
            f"with {saved['config']}, as in the file"
        )
    return part


def _with_saved_features(part: Part, saved: Config) -> Part:
    """Return a learner whose features follow from a schema with those of the file: the schema may have grown since."""
    cls, own = type(part), part.config() if implements(part, HasSettings) else {}
    if not (follows_from_schema(own) and follows_from_schema(saved)):
        return part
    now, before = own["features"], saved["features"]
    if (
        equal_data(now, before)
        or not equal_data(now.get("stated"), before.get("stated"))
        or not implements(cls, MadeFromConfig)
    ):
        return part
    followed: Config = {name: saved[name] for name in ("dim", "features", "action_bound") if name in saved}
    remade: Part = cls.from_config({**own, **followed})
    return remade
