"""Leave offers out of a context that a request excludes by their ids."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features import Offers
from equipoise.portfolio.slates import without
from equipoise.types import Context


def excluding(context: Context, ids: Sequence[str]) -> Offers:
    """Return the offers whose mask excludes these ids, too; raise an error if one is unknown, or none is left."""
    if not isinstance(context, Offers) or context.ids is None:
        raise InvalidArgument(
            f"exclude is {list(ids)!r:.80}, but needs offers with ids, or [actions] names in the file"
        )
    index = {id_: k for k, id_ in enumerate(context.ids)}
    for id_ in ids:
        if id_ not in index:
            raise UnknownName("excluded offer", id_, index)
    excluded = {index[id_] for id_ in ids}
    if excluded.issuperset(context.offered.tolist()):
        raise InvalidArgument(f"exclude has all {len(excluded)} offers, but must leave at least one")
    return without(context, excluded)
