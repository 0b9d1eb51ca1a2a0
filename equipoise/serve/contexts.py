"""From the JSON of a request to the context that learners decide on.

| the request has | the context is |
|---|---|
| `offers` | `Offers` with their ids and features; `context` is what they share |
| no offers, but the file has `[actions] names` | `Offers` with these ids; `context` is what they share |
| a list of lists as `context` | a matrix with one offered action per row |
| nothing | None: all arms are offered |

Features are lists of numbers, or objects of named numbers where the file names them (`[context] features` for what is
shared, `[actions] features` for the offers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.config import PortfolioConfig
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features import Offers, Vectorizer
from equipoise.serve.schemas import Offer
from equipoise.types import Array, Context


class ContextReader:
    def __init__(self, config: PortfolioConfig) -> None:
        settings = config.settings
        self._action_names = settings.action_names
        self._shared = None if settings.context_features is None else Vectorizer(settings.context_features)
        self._features = None if settings.action_features is None else Vectorizer(settings.action_features)

    def read(self, context: Any, offers: Sequence[Offer] | None) -> Context:
        """The context of a request; raises an error that names what is wrong with it."""
        if offers is not None:
            return self._offered(offers, self._vector(context))
        if self._action_names is not None:
            return Offers(None, self._vector(context), self._action_names)
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
        if self._shared is None:
            return self.read(None, None)
        names = self._shared.names or ()
        return self.read({name: attributes[name] for name in names if name in attributes}, None)

    def read_free(self, context: Mapping[str, Any], actions: Mapping[str, Mapping[str, Any]]) -> Offers:
        """The context of features of any form, with the features of each action by its id.

        Without features in the file, only ids count. Where the file names the actions, the others are masked.
        """
        ids = list(actions) if self._action_names is None else self._action_names
        for id_ in actions:
            if id_ not in ids:
                raise UnknownName("action", id_, ids)
        offers = Offers(None, None, ids)
        return offers.masked(np.array([id_ in actions for id_ in ids]))

    def _offered(self, offers: Sequence[Offer], shared: Array | None) -> Offers:
        ids = [offer.id for offer in offers if offer.id is not None]
        rows = [offer.features for offer in offers if offer.features is not None]
        for name, given in (("id", ids), ("features", rows)):
            if len(given) not in (0, len(offers)):
                raise InvalidArgument(
                    f"offers have {name} in {len(given)} of {len(offers)} cases, but must in all or none"
                )
        if {*map(type, rows)} != {list}:  # some have names
            rows = [self._row(k, features) for k, features in enumerate(rows)]
        if len({*map(len, rows)}) > 1:
            raise InvalidArgument("offers have different numbers of features, but must have the same number")
        return Offers(np.array(rows, np.float64) if rows else None, shared, ids or None)

    def _row(self, k: int, features: Any) -> Any:
        if type(features) is list:
            return features
        if self._features is None:
            raise InvalidArgument(f"offers[{k}].features has names, which need [actions] features in the configuration")
        return self._features.vector(features)

    def _vector(self, context: Any) -> Array | None:
        if context is None:
            return None
        if isinstance(context, Mapping):
            if self._shared is None:
                raise InvalidArgument("context has names, which need [context] features in the configuration")
            return self._shared.vector(context)
        if any(isinstance(entry, list) for entry in context):
            raise InvalidArgument("context has rows, but must be a vector: the features of actions belong to offers")
        if self._shared is not None and len(context) != self._shared.dim:
            raise InvalidArgument(f"context has {len(context)} features, but must have {self._shared.dim}")
        return np.array(context, dtype=np.float64)
