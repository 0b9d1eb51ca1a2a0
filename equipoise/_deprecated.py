"""Deprecated names: all that were documented in version 0.1 and renamed since. They go in version 0.3.

Old spellings of names occur in this module only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeVar

REMOVED_IN = "0.3"
T = TypeVar("T")

# By module: old name -> (module, new name).
RENAMED: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "equipoise.errors": {"NotEntitled": ("equipoise.errors", "IncompatibleLearner")},
    "equipoise.theory.certificates": {
        "elimination_record": ("equipoise.certificates.records", "elimination_record"),
        "verify_file": ("equipoise.certificates.records", "verify_file"),
        "verify_record": ("equipoise.certificates.records", "verify_record"),
    },
}
# By class: old method -> new method.
RENAMED_METHODS: Mapping[str, Mapping[str, str]] = {
    "Certificate": {"words": "describe"},
    "Portfolio": {"words": "describe"},
    "Standing": {"words": "describe"},
}


def warn(old: str, new: str, stacklevel: int = 3) -> None:
    """Warn the caller's caller that `old` is deprecated in favor of `new`."""
    message = f"{old} is deprecated and will be removed in equipoise {REMOVED_IN}: use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


def renamed_attribute(module: str, name: str) -> Any:
    """What a module's `__getattr__` returns for a name that it had in version 0.1."""
    if name not in RENAMED.get(module, {}):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    new_module, new_name = RENAMED[module][name]
    warn(f"{module}.{name}", f"{new_module}.{new_name}", stacklevel=4)
    return getattr(import_module(new_module), new_name)


def with_old_methods(cls: type[T]) -> type[T]:
    """Give a class its methods of version 0.1, which warn and call the new ones."""
    for old, new in RENAMED_METHODS[cls.__name__].items():
        setattr(cls, old, _renamed_method(cls.__name__, old, new))
    return cls


def _renamed_method(owner: str, old: str, new: str) -> Callable[..., Any]:
    def call(self: object, *args: Any, **kwargs: Any) -> Any:
        warn(f"{owner}.{old}()", f"{new}()")
        return getattr(self, new)(*args, **kwargs)

    call.__name__, call.__qualname__, call.__doc__ = old, f"{owner}.{old}", f"Deprecated: use `{new}`."
    return call


def provided_as_offers(learner: object) -> frozenset[str]:
    """What a learner written for version 0.1 provides, which called it `offers`."""
    name = type(learner).__name__
    warn(f"{name}.offers", f"{name}.provides", stacklevel=4)
    provided: frozenset[str] = learner.offers  # type: ignore[attr-defined]
    return provided
