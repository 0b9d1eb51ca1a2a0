"""The task that reads all portfolios for the dashboard, every second while that takes next to no time.

Readings go through the engines like requests. However many portfolios, learners and open decisions there are, they
take at most `MAX_SHARE` of the time; words are written only for portfolios that have watchers.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic

from equipoise.errors import EquipoiseError
from equipoise.serve.dashboard.board import Board
from equipoise.serve.dashboard.reading import Reading, read
from equipoise.serve.hosted import Hosted
from equipoise.serve.service import Served, Service

logger = logging.getLogger("equipoise.serve")

PERIOD_SECONDS = 1.0
MAX_SHARE = 0.05
STORE_SECONDS = 60.0


async def watch(service: Service) -> None:
    """Read all portfolios until canceled, and keep their timelines from time to time."""
    stored = monotonic()
    while True:
        busy = 0.0
        for served in list(service.portfolios.values()):
            reading = await _attempt(service, served)
            busy += 0.0 if reading is None else reading.seconds
        if monotonic() - stored >= STORE_SECONDS:
            stored = monotonic()
            for served in list(service.portfolios.values()):
                await asyncio.to_thread(served.board.store)
        await asyncio.sleep(max(PERIOD_SECONDS, busy / MAX_SHARE))


async def _attempt(service: Service, served: Served) -> Reading | None:
    if served.engine.failure is not None:
        return None
    try:
        return await update(service, served, with_text=served.board.watchers > 0)
    except EquipoiseError as error:
        logger.warning("the dashboard could not read %s: %s", served.name, error)
    except Exception:
        logger.exception("the dashboard could not read %s", served.name)
    return None


async def update(service: Service, served: Served, *, with_text: bool) -> Reading:
    counts = service.metrics.counts_of("decide")

    def operation(hosted: Hosted) -> Reading:
        served.board.resume(hosted.arrivals)
        return read(hosted, counts, with_text=with_text)

    reading = await served.engine.run(operation)
    served.board.take(reading)
    return reading


async def fresh(service: Service, served: Served, *, with_text: bool) -> Board:
    """The board of a portfolio, not older than the period; as it was, if the portfolio cannot be read any more."""
    board = served.board
    read_at = board.described_at if with_text else board.read_at
    if served.engine.failure is None and (not read_at or monotonic() - read_at > PERIOD_SECONDS):
        await update(service, served, with_text=with_text)
    return board
