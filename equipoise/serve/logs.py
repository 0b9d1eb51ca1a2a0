"""Log lines as JSON on standard error, written by a thread of their own.

A pipe that is full blocks its writer, so the event loop only puts lines into a queue. What does not fit into the queue
is dropped and counted. Lines about requests of strangers have a kind, and of each kind only a few are written per
period: a client without a token cannot fill the disk. A later line says how many lines of which kind are missing. Lines
of the HTTP server, which any client can cause, are one kind.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import Counter
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

MAX_BYTES = 1 << 22  # of the lines that wait
MAX_SAME = 10  # lines of one limited kind per period
PERIOD_SECONDS = 10.0
CLOSE_SECONDS = 1.0  # that the end of the process waits for a reader
STANDARD_ERROR = 2
UNFORMATTED = "the line of %s could not be formatted"
FULL, UNWRITABLE = "full", "unwritable"
SERVER = "http-server"  # kind of the lines of the HTTP server


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        row: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info:
            row["error"] = self.formatException(record.exc_info)
        return json.dumps(row, ensure_ascii=True, default=str)


class LineWriter(logging.Handler):
    """Writes lines to a descriptor in a thread; a record with the attribute `limited` has that kind."""

    def __init__(self, descriptor: int, *, max_bytes: int = MAX_BYTES) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.suppressed: Counter[str] = Counter()  # since the start, by kind
        self._told: Counter[str] = Counter()
        self._descriptor, self._max_bytes, self._waiting = descriptor, max_bytes, 0
        self._counts: Counter[str] = Counter()  # of this period
        self._until = 0.0
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()  # never held while a line is written
        self._thread = threading.Thread(target=self._write, name="equipoise-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        kind = getattr(record, "limited", None)
        if kind is not None and not self._has_room_for(kind):
            return
        try:
            text = self.format(record)
        except Exception:  # of an argument, or a wrong call: the caller must not fail because of it
            where = f"{record.pathname}:{record.lineno}"
            text = self.format(logging.makeLogRecord({**vars(record), "msg": UNFORMATTED, "args": (where,)}))
        line = text.encode() + b"\n"
        with self._lock:
            if self._waiting + len(line) > self._max_bytes:
                self.suppressed[FULL] += 1
                return
            self._waiting += len(line)
        self._lines.put(line)

    def _has_room_for(self, kind: str) -> bool:
        with self._lock:
            now = monotonic()
            if now >= self._until:
                self._counts.clear()
                self._until = now + PERIOD_SECONDS
            self._counts[kind] += 1
            if self._counts[kind] > MAX_SAME:
                self.suppressed[kind] += 1
                return False
            return True

    def _write(self) -> None:
        report_at = monotonic() + PERIOD_SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(report_at - monotonic(), 0.0))
            except Empty:
                line = b""
            if not line or monotonic() >= report_at:
                self._report()
                report_at = monotonic() + PERIOD_SECONDS
            if line is None:
                return
            self._put(line)
            with self._lock:
                self._waiting -= len(line)

    def _report(self) -> None:
        with self._lock:
            new = self.suppressed - self._told
            self._told = self.suppressed.copy()
        if new:
            text = "%d log lines were suppressed"
            record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (new.total(),), None)
            record.facts = {"suppressed": dict(new)}
            self._put(self.format(record).encode() + b"\n")

    def _put(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._descriptor, line) :]
        except OSError:  # the reader is gone
            with self._lock:
                self.suppressed[UNWRITABLE] += 1

    def close(self) -> None:
        """Write what waits, unless the reader does not read; also called at the end of the process."""
        if self._thread.is_alive():
            self._lines.put(None)
            self._thread.join(CLOSE_SECONDS)
        super().close()


def suppressed_lines(logger: logging.Logger | None = None) -> Counter[str]:
    """Return the numbers of suppressed lines by kind, of the handlers of a logger (default: the root)."""
    handlers = (logger or logging.getLogger()).handlers
    return sum((each.suppressed for each in handlers if isinstance(each, LineWriter)), Counter())


def log_as_json(*, debug: bool) -> None:
    """Send the lines of all loggers to standard error; with `debug`, lines of every request."""
    root = logging.getLogger()
    root.handlers[:] = [LineWriter(STANDARD_ERROR)]
    root.setLevel(logging.INFO)
    logging.getLogger("equipoise.serve").setLevel(logging.DEBUG if debug else logging.INFO)
    server = logging.getLogger("uvicorn.error")
    server.setLevel(logging.WARNING)
    server.addFilter(_limit)


def _limit(record: logging.LogRecord) -> bool:
    record.limited = SERVER
    return True
