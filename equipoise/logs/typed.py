"""Logs in dsjson whose columns are those of a schema, as the service makes them of the same features.

Objects of a list are joined. In the logs of Azure Personalizer, the features of a context are in the namespace
`FromUrl`, those of an action in `j`, and its id in `i`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.features import Schema
from equipoise.features.records import joined, with_id
from equipoise.logs.dsjson import DsjsonSource

CONTEXT, FEATURES, IDENTITY = "FromUrl", "j", "i"  # namespaces of Azure Personalizer


class TypedSource(DsjsonSource):
    """A log in dsjson, read with a schema."""

    def __init__(self, path: Path, schema: Schema) -> None:
        super().__init__(path)
        self._schema = schema
        self._shared.add(dict.fromkeys(schema.shared_columns, 0.0))
        self._own.add(dict.fromkeys(schema.action_columns, 0.0))

    def _columns(self, context: dict[str, Any], multi: list[dict[str, Any]]) -> tuple[bytes, bytes]:
        shared, rows = _record(context, CONTEXT), []
        for offer in multi:
            identity = offer.get(IDENTITY)
            id_ = identity.get("id") if isinstance(identity, Mapping) else None
            row = _record({name: value for name, value in offer.items() if name != IDENTITY}, FEATURES)
            rows.append(with_id(id_, row, self._schema.unknown))
        offers = self._schema.offers(shared, rows)
        numbers = np.empty(0) if offers.shared is None else offers.shared
        return numbers.tobytes(), offers.actions.tobytes()


def _record(data: Mapping[str, Any], outer: str) -> dict[str, Any]:
    """Return the features of a context or an action; those in the namespace `outer` have no prefix."""
    features: dict[str, Any] = {}
    for name, value in data.items():
        if name.startswith("_"):
            continue
        objects = isinstance(value, list) and all(isinstance(each, Mapping) for each in value)
        found = joined(value) if objects else value
        features |= found if name == outer and isinstance(found, dict) else {name: found}
    return features
