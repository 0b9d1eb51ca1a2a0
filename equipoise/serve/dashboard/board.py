"""What the dashboard knows of one portfolio: its timeline, the newest reading, and who watches."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from time import monotonic

from equipoise.certificates import Standing
from equipoise.errors import EquipoiseError
from equipoise.portfolio.statements import MIN_REPORTED
from equipoise.serve.dashboard.reading import MAX_LISTED, Reading
from equipoise.serve.dashboard.timeline import Row, Timeline, columns, mean_between, short, times_of
from equipoise.serve.hosted import Arrivals
from equipoise.storage.codec import decode, encode
from equipoise.storage.files import read_bytes, write_atomic
from equipoise.types import Config

logger = logging.getLogger("equipoise.serve")

RECENT_SHARE, MIN_RECENT = 0.1, 100  # "now" is the last tenth of the rewards, but at least so many
RATE_SECONDS = 60.0


class Board:
    """The dashboard's memory of one portfolio; a file keeps the timeline between two runs of the service."""

    def __init__(self, path: Path | None = None) -> None:
        self.timeline = Timeline()
        self.reading: Reading | None = None
        self.read_at = self.described_at = 0.0  # steady clock
        self.words: Config = {}
        self.watchers = 0
        self._path = path
        self._changed = asyncio.Event()
        self._earlier: Row | None = None  # the last sample of an earlier run
        self._restore()

    def take(self, reading: Reading) -> None:
        """Take in a reading, and wake up those who watch."""
        self.reading, self.read_at = reading, monotonic()
        if reading.words is not None:
            self.words, self.described_at = reading.words, self.read_at
        self.timeline.add(reading.row)
        self.timeline.start = self.timeline.start or reading.start
        self.wake()

    def wake(self) -> None:
        """Wake up the tasks that wait for a reading."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def resume(self, arrivals: Arrivals) -> None:
        """Continue the counts of rewards from an earlier run of the service, once."""
        if self._earlier is not None:
            arrivals.resume(zip(self._earlier.column(1), self._earlier.column(2), strict=True))
            self._earlier = None

    async def wait(self, seconds: float) -> None:
        """Return at the next reading, or after a time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    def store(self) -> None:
        """Keep the timeline; one that cannot be written is done without."""
        if self._path is None or self.reading is None:
            return
        try:
            write_atomic(self._path, encode(self.timeline.state()))
        except (OSError, EquipoiseError) as error:
            logger.warning("the timeline of the dashboard could not be written: %s", error)

    def _restore(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            self.timeline.restore(decode(read_bytes(self._path)))
            self._earlier = self.timeline.last
        except (EquipoiseError, ValueError, TypeError, KeyError, AttributeError) as error:
            self.timeline = Timeline()
            logger.warning("%s was not read, so charts start empty: %s", self._path.name, error)

    def summary(self, name: str, failure: str | None) -> Config:
        """The line of a portfolio among all."""
        if self.reading is None:
            return {"name": name, "failure": failure, "rounds": None}
        row, health = self.reading.row, self.reading.health
        states = [each["state"] for each in health["learners"]]
        return {
            "name": name,
            "failure": failure,
            "time": row["time"],
            "rounds": health["rounds"],
            "learners": {state: states.count(state) for state in dict.fromkeys(states)},
            "open": health["open"],
            "overdue": health["overdue"],
            "blocking": sum(each["holds_up"] >= MIN_REPORTED for each in health["blocking"]),
            "failed_updates": health["failed_updates"],
            "per_second": self._rate(row),
            **self._progress(row),
        }

    def view(self, name: str, failure: str | None) -> Config:
        """Everything that the page of a portfolio shows next to the charts."""
        assert self.reading is not None
        row, health, words = self.reading.row, self.reading.health, self.words
        rounds = [mark["round"] for mark in words.get("marks", ())]
        times = times_of(rounds, self.timeline.all_rows())
        return {
            **self.summary(name, failure),
            **words,
            "marks": [{**mark, "time": time} for mark, time in zip(words.get("marks", ()), times, strict=True)],
            "standing": [
                {**_learner(standing, about), "reward": short(total / n) if n else None, "rewards": int(n)}
                for standing, about, n, total in zip(
                    self.reading.standing, health["learners"], row.column(1), row.column(2), strict=True
                )
            ],
            "counts": {key: health[key] for key in COUNTS},
            "oldest_open": health["oldest_open"],
            "blocking_decisions": health["blocking"][:MAX_LISTED],
            "row": columns(self.timeline.rows("15m", row)[-2:]),
        }

    def _rate(self, row: Row) -> float | None:
        """Decisions per second over the last minute."""
        earlier = [each for each in self.timeline.rows("15m", row) if row["time"] - each["time"] <= RATE_SECONDS]
        seconds = row["time"] - earlier[0]["time"]
        return None if seconds <= 0.0 else short((row["round"] - earlier[0]["round"]) / seconds)

    def _progress(self, row: Row) -> Config:
        """Mean rewards in all, at the start and now, of the rewards that arrived."""
        rows = [each for each in self.timeline.all_rows() if each["time"] < row["time"]]
        n, total = row.arrived
        progress: Config = {"reward": short(total / n) if n else None, "start_reward": None, "recent_reward": None}
        recent = [each for each in rows if n - each.arrived[0] >= max(RECENT_SHARE * n, MIN_RECENT)]
        start = self.timeline.start
        if recent:
            progress["recent_reward"] = short(mean_between(recent[-1], row))
            progress["recent_rewards"] = int(n - recent[-1].arrived[0])
        if start is not None:
            first, total = start
            progress["start_reward"], progress["start_rewards"] = short(total / first), int(first)
        return progress


COUNTS = (
    *("rounds", "unplayed", "fallbacks", "withdrawn", "expired", "ignored", "clipped"),
    *("open", "overdue", "failed_updates", "forgotten_updates", "folded_differently"),
)


def _learner(standing: Standing, health: Config) -> Config:
    """A row of the table of learners; times are in milliseconds."""
    numbers = {name: short(getattr(standing, name)) for name in NUMBERS}
    times = {f"{name}_ms": short(1e3 * health[name]["mean_seconds"]) for name in ("decide", "learn")}
    return {**{key: health[key] for key in ABOUT}, **numbers, **times}


ABOUT = ("name", "state", "failures", "last_error", "paused_until_round")
NUMBERS = ("plays", "pending", "waiting", "left_out", "mean_reward", "mean_radius", "mean_lower", "mean_upper")
