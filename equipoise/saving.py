"""How the parts of a portfolio are described in a file and built again from it.

Classes of the package are rebuilt from their registry name and settings. A class of the user's own is never imported
from a file: the user passes a new object, and its class name and settings are compared with what was saved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.archive import pack
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict
from equipoise.learner import learner_name
from equipoise.learners import LEARNERS, Ball
from equipoise.selectors import SELECTORS


def described(part: Any, name: str) -> dict[str, Any]:
    """Class, settings and state of a learner or selector."""
    for method in ("state", "restore"):
        if not callable(getattr(part, method, None)):
            raise InvalidArgument(f"{name!r} has no {method}(), so this portfolio cannot be saved")
    return {**fingerprint(part), "name": name, "state": part.state()}


def fingerprint(part: Any) -> dict[str, Any]:
    """What has to be the same in an object that takes on a saved state."""
    cls = type(part)
    config = part.config() if callable(getattr(part, "config", None)) else {}
    ours = cls in (LEARNERS.get(cls.__name__), SELECTORS.get(cls.__name__))
    return {"class": cls.__name__, "ours": ours, "config": config}


def rebuild_learners(saved: Sequence[Mapping[str, Any]], given: Sequence[Any] | None) -> list[Any]:
    """The learners of a file, or the given ones if they are what was saved."""
    if given is None:
        return [_rebuilt(row, LEARNERS, lambda cls, config: cls(**config), "learners") for row in saved]
    if len(given) != len(saved):
        raise StoreConflict(f"learners has {len(given)} entries, but the saved portfolio has {len(saved)}")
    return [_compared(learner, row, learner_name(learner)) for learner, row in zip(given, saved, strict=True)]


def rebuild_selector(saved: Mapping[str, Any], given: Any | None) -> Any:
    """The selector of a file, or the given one if it is what was saved."""
    if given is None:
        return _rebuilt(saved, SELECTORS, lambda cls, config: cls.from_config(config), "selector")
    return _compared(given, saved, learner_name(given))


def plain_context(context: Any, decision: int) -> Any:
    """A context as data that an archive can hold."""
    if isinstance(context, Ball):
        return {"ball": (context.dim, context.radius)}
    return {f"context of decision {decision}": context}


def live_context(data: Mapping[str, Any]) -> Any:
    ((kind, value),) = data.items()
    return Ball(*value) if kind == "ball" else value


def _rebuilt(row: Mapping[str, Any], registry: Mapping[str, Any], build: Any, argument: str) -> Any:
    if not row["ours"] or row["class"] not in registry:
        raise StoreConflict(f"{row['name']!r} is a {row['class']}, which is not part of equipoise: pass {argument}=...")
    try:
        return build(registry[row["class"]], row["config"])
    except EquipoiseError as error:
        raise StoreConflict(f"{row['name']!r} cannot be built from the file ({error}): pass {argument}=...") from error


def _compared(part: Any, row: Mapping[str, Any], name: str) -> Any:
    own, saved = fingerprint(part), {key: row[key] for key in ("class", "ours", "config")}
    if pack(own) != pack(saved):  # as files, because settings may be arrays, whose == is no yes or no
        raise StoreConflict(
            f"{name!r} is a {own['class']} with {own['config']}, but the saved one a {saved['class']} with "
            f"{saved['config']}"
        )
    return part
