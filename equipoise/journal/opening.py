"""`equipoise.open`: a portfolio in a file, durable at each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from equipoise.errors import InvalidArgument, StoreConflict, UnreadableFile
from equipoise.journal.declaring import Plan
from equipoise.journal.live import LivePortfolio
from equipoise.journal.protocol import Journal
from equipoise.journal.recovery import CREATED, check_savable, first_state, note_writer, recover
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.journal.writer import Commit
from equipoise.portfolio import Portfolio
from equipoise.portfolio.events import Event
from equipoise.portfolio.settings import Retention
from equipoise.settings.checks import count
from equipoise.types import Config


def open(
    path: str | Path,
    config: Portfolio | Callable[[], Portfolio] | Any = None,
    *,
    name: str | None = None,
    snapshot_every: int = 20_000,
    retention: Retention | timedelta | str | None = None,
    max_waiting: int = 1024,
    accept_changes: bool = False,
) -> LivePortfolio:
    """Open a portfolio that is kept in a journal; the file is created if there is none.

    What was learned is in the journal. `config` makes the portfolio when the file is new. For an existing file it gives
    the learners whose classes are not registered, and may be left out if all are. Where it differs from the last
    `config`, settings that may change while a portfolio runs are changed, durably, and learners join or leave; another
    difference is refused by name. What was changed at run time, by `reconfigure` or `add_learner`, stays.

    Parameters
    ----------
    path
        The file, on a local disk. Beside it stand its WAL and a lock file.
    config
        A portfolio, a function that makes one, or an object whose method `make` or `portfolio` does.
    name
        Name of the portfolio in its events, for a new file. Default: the name of the file.
    snapshot_every
        Number of events between two snapshots, after which a start has to fold at most about so many.
    retention
        Age at which contexts of closed decisions are removed from the journal, such as "30d"; or a `Retention`, which
        can also archive old events. Default: all is kept.
    max_waiting
        Number of calls that may wait for the disk; one more gets `JournalBusy`.
    accept_changes
        Whether a `config` that differs from the journal is ignored, instead of an error.

    Examples
    --------
    >>> from equipoise import Portfolio
    >>> from equipoise.learners import UCB
    >>> with open("shop.db", lambda: Portfolio([UCB(3, scale=0.1), UCB(3, scale=1.0)])) as portfolio:
    ...     portfolio.learn(portfolio.decide(None), reward=1.0)
    >>> with open("shop.db") as portfolio:
    ...     portfolio.certificate().rounds
    1
    """
    count("snapshot_every", snapshot_every)
    count("max_waiting", max_waiting)
    retained = Retention.of(retention)
    journal = SQLiteJournal(path, name, create=config is not None)
    journal.lease()
    try:
        plan: Plan | None = None
        if journal.last_seq == 0:
            portfolio = _create(journal, config)
        else:
            template = None if config is None else _make(config)
            portfolio = recover(journal, template).portfolio
            if template is not None and not accept_changes:
                with _naming(journal):
                    plan = Plan.of(portfolio, template, began(journal))
            note_writer(journal, portfolio)
        live = LivePortfolio(
            portfolio, journal, snapshot_every=snapshot_every, retention=retained, max_waiting=max_waiting
        )
    except BaseException:
        journal.close()
        raise
    try:
        with _naming(journal):
            live.transact(_begin, plan)
    except BaseException:
        live.close(snapshot=False)
        raise
    return live


@contextmanager
def _naming(journal: SQLiteJournal) -> Iterator[None]:
    """Let the refusal of a declaration name the journal."""
    try:
        yield
    except InvalidArgument as error:
        raise StoreConflict(f"{str(journal.path)!r}: {error}") from None


def _begin(portfolio: Portfolio, at: float, plan: Plan | None) -> None:
    portfolio.note_rule()
    if plan is not None:
        plan.apply(portfolio)


def began(journal: Journal) -> Config | None:
    """Return the state in which a journal began; None if its first event is damaged, which no start needs."""
    with suppress(UnreadableFile):
        return first_state(journal)
    return None


def _create(journal: SQLiteJournal, config: Any) -> Portfolio:
    if config is None:
        raise UnreadableFile(f"{str(journal.path)!r} has no events, so config is needed to make its portfolio")
    portfolio = _make(config)
    state, commit = check_savable(portfolio), Commit()
    note_writer(journal, portfolio)
    journal.append([Event(CREATED, {"state": state}, portfolio.time, seq=1, portfolio=journal.portfolio)], commit)
    commit.wait()
    return portfolio


def _make(config: Any) -> Portfolio:
    make = getattr(config, "make", None) or getattr(config, "portfolio", config)
    portfolio = make() if not isinstance(make, Portfolio) and callable(make) else make
    if not isinstance(portfolio, Portfolio):
        raise InvalidArgument(f"config is {config!r:.80}, but must be a portfolio or make one")
    return portfolio
