"""From the JSON of a request to the context that learners decide on.

| the request has | the context is |
|---|---|
| `offers` | `Offers` with their ids and features; `context` is what they share |
| no offers, but the file has `[actions] names` | `Offers` with these ids; `context` is what they share |
| a list of lists as `context` | a matrix with one offered action per row |
| nothing | None: all arms are offered |

Features are objects of named values where the file has a schema (`[context.NAME]` for what is shared,
`[actions.features.NAME]` for the offers), or lists of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.config import PortfolioConfig
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features import Offers, Schema
from equipoise.features.records import with_id
from equipoise.portfolio.inputs import offers_of, some_or_none
from equipoise.serve.schemas import Offer
from equipoise.types import Context


class ContextReader:
    """Reads the contexts of requests; `schema` returns the one in effect, with the scales learned so far."""

    def __init__(self, config: PortfolioConfig, schema: Callable[[], Schema | None]) -> None:
        self._action_names, self._schema = config.settings.action_names, schema

    def read(self, context: Any, offers: Sequence[Offer] | None) -> Context:
        """The context of a request; raises an error that names what is wrong with it."""
        if offers is not None:
            ids = some_or_none("id", [offer.id for offer in offers])
            return offers_of(self._schema(), context, some_or_none("features", [each.features for each in offers]), ids)
        if self._action_names is not None:
            return offers_of(self._schema(), context, None, self._action_names)
        if context is None:
            return None
        if isinstance(context, list) and context and all(isinstance(row, list) for row in context):
            if len({len(row) for row in context}) > 1:
                raise InvalidArgument("context has rows of different lengths, but must be a matrix")
            return np.array(context)
        raise InvalidArgument(
            "context is not a matrix, but must be a list of rows unless there are offers, or names of actions in the "
            "configuration"
        )

    def read_attributes(self, attributes: Mapping[str, Any]) -> Context:
        """The context of attributes; those that the file does not name are ignored, as other flags may use them."""
        schema = self._schema()
        if schema is None:
            return self.read(None, None)
        return self.read(schema.known_in_context(attributes), None)

    def read_free(self, context: Mapping[str, Any], actions: Mapping[str, Mapping[str, Any]]) -> Offers:
        """The context of features of any form, with the features of each action by its id.

        Without a schema, only ids count. Where the file names the actions, the others are masked.
        """
        ids, schema = list(actions) if self._action_names is None else self._action_names, self._schema()
        for id_ in actions:
            if id_ not in ids:
                raise UnknownName("action", id_, ids)
        mask = np.array([id_ in actions for id_ in ids])
        if schema is None:
            return Offers(None, None, ids).masked(mask)
        rows = [with_id(id_, actions.get(id_, {}), schema.unknown) for id_ in ids]
        return schema.offers(context, rows, ids=ids).masked(mask)
