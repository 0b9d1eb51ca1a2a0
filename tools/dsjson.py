"""Write logs as dsjson, for tests and studies of its reader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from equipoise.logs import LoggedRounds, Rounds
from equipoise.logs.rounds import NO_ID
from equipoise.storage.files import open_atomic


def write_dsjson(log: LoggedRounds | Iterable[Rounds], path: str | Path) -> None:
    """Write rounds as dsjson, atomically. Where the log lacks probabilities, the other actions share the rest."""
    encode = msgspec.json.Encoder().encode
    with open_atomic(path) as file:
        for batch in log:
            file.write(b"".join(encode(event) + b"\n" for event in _events(batch)))


def _events(batch: Rounds) -> Iterator[dict[str, Any]]:
    for i in range(batch.n_rounds):
        n, action, propensity = int(batch.n_offered[i]), int(batch.actions[i]), float(batch.propensities[i])
        pmf = batch.pmf[i, :n].tolist()
        if np.isnan(batch.pmf[i, 0]):
            pmf = [(1.0 - propensity) / max(n - 1, 1)] * n
            pmf[action] = propensity
        order = [action, *(k for k in range(n) if k != action)]
        offers, time = batch.offers[i, :n].tolist(), float(batch.times[i])
        event = {
            "_label_cost": -float(batch.rewards[i]),
            "_label_probability": propensity,
            "_label_Action": action + 1,
            "_labelIndex": action,
            "Timestamp": None if np.isnan(time) else f"{np.datetime64(round(time * 1e6), 'us')}Z",
            "EventId": f"{int(batch.ids[i]):016x}" if batch.ids[i] != NO_ID else f"row-{int(batch.rows[i])}",
            "a": [k + 1 for k in order],
            "p": [pmf[k] for k in order],
            "c": {"shared": batch.shared[i].tolist(), "_multi": [{"offer": row} for row in offers]},
            "pdrop": 1.0 - 1.0 / float(batch.weights[i]),
        }
        yield {key: value for key, value in event.items() if value is not None}
