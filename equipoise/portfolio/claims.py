"""Which portfolio uses which selector: two portfolios must not share the state of one selector."""

from __future__ import annotations

from weakref import WeakValueDictionary

from equipoise.errors import InvalidArgument

_OWNERS: WeakValueDictionary[int, object] = WeakValueDictionary()  # by the id of the selector


def claim(selector: object, portfolio: object) -> None:
    """Raise an error if another portfolio uses the selector."""
    if _OWNERS.setdefault(id(selector), portfolio) is not portfolio:
        name = type(selector).__name__
        raise InvalidArgument(f"selector is a {name} of another portfolio, but every portfolio needs its own")
