"""Opening a log of any format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.features import Schema
from equipoise.logs.rounds import LoggedRounds, Source
from equipoise.settings.checks import one_of

FORMATS = ("dsjson", "vw", "csv", "parquet", "journal")


def open_log(
    path: str | Path,
    format: str = "auto",
    *,
    skip_bad_rows: int = 0,
    n_actions: int | None = None,
    schema: Schema | None = None,
) -> LoggedRounds:
    """Open a log, and read it once to check every row.

    Parameters
    ----------
    path
        The file.
    format
        "dsjson", "vw" (text), "csv", "parquet", "journal" (of a portfolio), or "auto": by what the file begins with.
    skip_bad_rows
        Number of faulty rows to skip; with more, an error lists the first ten with their row numbers.
    n_actions
        Number of actions, if more than those that occur in the log.
    schema
        The features that learners are made for. Columns of dsjson and of a journal are then those of the schema, in its
        order, and what the log lacks is missing. Default: a column for each feature of the log, those of a journal as
        the portfolio had them in each round.
    """
    file = Path(path)
    chosen = detect(file) if format == "auto" else one_of("format", format, (*FORMATS, "auto"))
    return LoggedRounds(_source(file, chosen, schema), skip_bad_rows=skip_bad_rows, n_actions=n_actions)


def _source(path: Path, format: str, schema: Schema | None) -> Source:
    if not path.is_file():
        raise UnreadableFile(f"{str(path)!r} could not be read: there is no such file")
    # Each format imports its own libraries.
    if format == "dsjson":
        from equipoise.logs.dsjson import DsjsonSource
        from equipoise.logs.typed import TypedSource

        return DsjsonSource(path) if schema is None else TypedSource(path, schema)
    if format == "vw":
        from equipoise.logs.vw_text import TextSource

        return TextSource(path)
    if format == "journal":
        from equipoise.logs.journal import JournalSource

        return JournalSource(path, schema)
    from equipoise.logs import tables

    make: Callable[[Path], Source] = tables.parquet_source if format == "parquet" else tables.csv_source
    return make(path)


def detect(path: Path) -> str:
    """The format of a file, by its first line."""
    try:
        with path.open("rb") as file:
            first = file.readline(1 << 20).strip()
            while first == b"" and (line := file.readline(1 << 20)):
                first = line.strip()
    except OSError as error:
        raise UnreadableFile(f"{str(path)!r} could not be read: {error.strerror or error}") from error
    if first.startswith(b"PAR1"):
        return "parquet"
    if first.startswith(b"SQLite format 3"):
        return "journal"
    if first.startswith(b"{"):
        return "dsjson"
    if b"|" in first and b"," not in first.split(b"|", 1)[0]:
        return "vw"
    if b"," in first:
        return "csv"
    raise InvalidArgument(
        f"format of {str(path)!r} could not be told by its first line {first[:60]!r}: give one of {', '.join(FORMATS)}"
    )
