"""`equipoise.open`: a portfolio in a file, durable at each answer."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from equipoise.errors import InvalidArgument, StoreConflict, UnreadableFile
from equipoise.journal.live import LivePortfolio
from equipoise.journal.protocol import Commit
from equipoise.journal.recovery import CREATED, check_savable, first_state, recover
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.portfolio import Portfolio
from equipoise.portfolio.deadlines import check_deadline
from equipoise.portfolio.drifting import changed_settings
from equipoise.portfolio.events import Event
from equipoise.settings import equal_data
from equipoise.settings.checks import count
from equipoise.types import Config


def open(
    path: str | Path,
    config: Portfolio | Callable[[], Portfolio] | Any = None,
    *,
    name: str | None = None,
    snapshot_every: int = 20_000,
    retention: timedelta | str | None = None,
    max_waiting: int = 1024,
    accept_changes: bool = False,
) -> LivePortfolio:
    """Open a portfolio that is kept in a journal; the file is created if there is none.

    What is in the journal holds. `config` makes the portfolio when the file is new. For an existing file it is compared
    with the settings in the journal and gives the learners whose classes are not registered; it may be left out if all
    are.

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
        Age at which contexts of closed decisions are removed from the journal, such as "30d". Default: never.
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
    seconds = None if retention is None else _seconds(retention)
    journal = SQLiteJournal(path, name, create=config is not None)
    journal.lease()
    try:
        if journal.last_seq == 0:
            portfolio = _create(journal, config)
        else:
            template = None if config is None else _make(config)
            portfolio = recover(journal, template).portfolio
            if template is not None and not accept_changes:
                _check_unchanged(journal, portfolio, template)
        return LivePortfolio(
            portfolio,
            journal,
            snapshot_every=snapshot_every,
            retention_seconds=seconds,
            max_waiting=max_waiting,
        )
    except BaseException:
        journal.close()
        raise


def _seconds(retention: timedelta | str) -> float:
    seconds = check_deadline(retention)
    if not isinstance(seconds, float):
        raise InvalidArgument(f"retention is {retention!r}, but must be a timedelta or a text such as '30d'")
    return seconds


def _create(journal: SQLiteJournal, config: Any) -> Portfolio:
    if config is None:
        raise UnreadableFile(f"{str(journal.path)!r} has no events, so config is needed to make its portfolio")
    portfolio = _make(config)
    state, commit = check_savable(portfolio), Commit()
    journal.append([Event(CREATED, {"state": state}, portfolio._time, seq=1, portfolio=journal.portfolio)], commit)
    commit.wait()
    return portfolio


def _make(config: Any) -> Portfolio:
    make = getattr(config, "make", None) or getattr(config, "portfolio", config)
    portfolio = make() if not isinstance(make, Portfolio) and callable(make) else make
    if not isinstance(portfolio, Portfolio):
        raise InvalidArgument(f"config is {config!r:.80}, but must be a portfolio or make one")
    return portfolio


def _check_unchanged(journal: SQLiteJournal, portfolio: Portfolio, template: Portfolio) -> None:
    """The settings must be those that the journal began with, or those that it has now."""
    # A portfolio that was given no selector says nothing about it, and the one that is recommended may change.
    said, changed = not template._recommendation, changed_settings(portfolio)
    given, now = (_settings(each.state(), said, changed) for each in (template, portfolio))
    if equal_data(given, now):
        return
    with suppress(UnreadableFile):  # a snapshot was good, so the first event need not be
        if equal_data(_settings(template.state(), said), _settings(first_state(journal), said)):
            return
    different = [key for key in {**given, **now} if not equal_data(given.get(key), now.get(key))]
    raise StoreConflict(
        f"{str(journal.path)!r} has another portfolio than config makes (different: {', '.join(different)}): change "
        "the running one (add_learner, reconfigure, ...), or open it with accept_changes=True to keep the journal's"
    )


def _settings(state: Config, with_selector: bool, changed: Collection[str] = ()) -> Config:
    """What was given when the portfolio was made, without what was learned.

    Settings of the selector that restarts have `changed` do not count, but for the delta that they began with.
    """
    parts = {f"learner {i}": row for i, row in enumerate(state["learners"]) if row is not None}
    rows = {key: {"class": row["class"], "config": row["config"]} for key, row in parts.items()}
    rules = {name: value for name, value in state["selector"]["config"].items() if name not in changed}
    selector = {"class": state["selector"]["class"], "config": rules}
    if changed:
        selector["delta"] = state["drift"]["delta"]
    settings = {**rows, "selector": selector, **state["settings"]}
    return (
        settings if with_selector else {key: settings[key] for key in settings if key not in ("selector", "share_data")}
    )
