"""Objects of other libraries as bytes, without pickle: the format of skops, made canonical.

skops writes a zip archive of arrays and a tree of nodes, whose ids and file names are memory addresses and whose
entries have times. Here ids are numbered in order and times are dropped, so that equal objects have equal bytes.
Strings and numbers get an id of their own each, as whether two equal ones are the same object is an accident.

Before anything is built, every class that the bytes name must be one that skops trusts or a class of the given
packages; a function of these packages is refused.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from equipoise.errors import InvalidArgument, UnreadableFile, require

SCHEMA = "schema.json"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
# Containers of the standard library that models hold.
PLAIN_TYPES = frozenset({"builtins.frozenset", "collections.Counter", "collections.defaultdict"})


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
