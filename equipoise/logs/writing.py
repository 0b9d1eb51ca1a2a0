"""Writing of logs that need not fit into memory: atomically, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from equipoise.errors import InvalidArgument
from equipoise.logs.rounds import BATCH_CELLS, NO_ID, LoggedRounds, Rounds
from equipoise.storage.files import replacing


def write_parquet(log: LoggedRounds | Iterable[Rounds], path: str | Path) -> None:
    """Write rounds as Parquet with the columns of `equipoise.logs.tables`, atomically and batch by batch."""
    frames = (_frame(batch) for batch in log)
    first = next(frames, None)
    if first is None:
        raise InvalidArgument("log has no rounds, but must have at least one")
    schema = first.schema

    def produce(*request: object) -> Iterator[pl.DataFrame]:
        for frame in chain([first], frames):
            if frame.schema != schema:
                raise InvalidArgument("log has batches with different columns, but all must have the same")
            yield frame

    with replacing(path) as temporary:
        # Groups of the size that is read at once: a reader must decode whole groups.
        size = max(BATCH_CELLS // len(schema), 1)
        register_io_source(produce, schema=schema).sink_parquet(temporary, maintain_order=True, row_group_size=size)


def _frame(batch: Rounds) -> pl.DataFrame:
    """The columns of a batch; times and ids are empty where unknown."""
    columns = {"action": batch.actions, "reward": batch.rewards, "propensity": batch.propensities}
    columns |= {"weight": batch.weights, "time": batch.times}
    if not np.isnan(batch.pmf).all():
        columns |= {f"pmf.{k}": batch.pmf[:, k] for k in range(batch.pmf.shape[1])}
    columns |= {f"x{j}": batch.shared[:, j] for j in range(batch.shared.shape[1])}
    offered = np.arange(batch.offers.shape[1]) < batch.n_offered[:, None]
    offers = np.where(offered[:, :, None], batch.offers, np.nan)
    for k in range(offers.shape[1]):
        columns |= {f"offers.{k}.a{j}": offers[:, k, j] for j in range(offers.shape[2])}
    ids = pl.Series("id", batch.ids).replace(int(NO_ID), None)
    return pl.DataFrame(columns).fill_nan(None).with_columns(ids)
