"""`equipoise.open`: a portfolio in a file, durable at each answer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from equipoise.errors import InvalidArgument, StoreConflict, UnreadableFile
from equipoise.journal.live import LivePortfolio
from equipoise.journal.recovery import CREATED, check_savable, first_state, recover
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.journal.writer import Commit
from equipoise.portfolio import Portfolio
from equipoise.portfolio.events import Event
from equipoise.portfolio.settings import PortfolioSettings, Retention
from equipoise.selector import traits_of
from equipoise.settings import equal_data
from equipoise.settings.checks import count
from equipoise.storage.files import canonical_json
from equipoise.types import Config, Plain


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
    the learners whose classes are not registered, and may be left out if all are. A setting that differs from the last
    `config` is changed, durably, if it may change while a portfolio runs; another difference is refused by name. What
    was changed at run time, by `reconfigure` or `add_learner`, stays.

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
        wanted: PortfolioSettings | None = None
        if journal.last_seq == 0:
            portfolio = _create(journal, config)
        else:
            template = None if config is None else _make(config)
            portfolio = recover(journal, template).portfolio
            if template is not None and not accept_changes:
                wanted = template.declared
                try:
                    portfolio.declare(wanted, check_only=True)
                except InvalidArgument as error:
                    raise StoreConflict(f"{str(journal.path)!r}: {error}") from None
                _check_parts(journal, portfolio, template)
        live = LivePortfolio(
            portfolio, journal, snapshot_every=snapshot_every, retention=retained, max_waiting=max_waiting
        )
    except BaseException:
        journal.close()
        raise
    try:
        live.transact(lambda portfolio, at: portfolio.note_rule())
        if wanted is not None:
            live.transact(lambda portfolio, at: portfolio.declare(wanted))
    except BaseException as error:
        live.close(snapshot=False)
        if isinstance(error, InvalidArgument):
            raise StoreConflict(f"{str(journal.path)!r}: {error}") from None
        raise
    return live


def _create(journal: SQLiteJournal, config: Any) -> Portfolio:
    if config is None:
        raise UnreadableFile(f"{str(journal.path)!r} has no events, so config is needed to make its portfolio")
    portfolio = _make(config)
    state, commit = check_savable(portfolio), Commit()
    journal.append([Event(CREATED, {"state": state}, portfolio.time, seq=1, portfolio=journal.portfolio)], commit)
    commit.wait()
    return portfolio


def _make(config: Any) -> Portfolio:
    make = getattr(config, "make", None) or getattr(config, "portfolio", config)
    portfolio = make() if not isinstance(make, Portfolio) and callable(make) else make
    if not isinstance(portfolio, Portfolio):
        raise InvalidArgument(f"config is {config!r:.80}, but must be a portfolio or make one")
    return portfolio


def _check_parts(journal: SQLiteJournal, portfolio: Portfolio, template: Portfolio) -> None:
    """Raise an error if the learners or the selector of the template differ from those of the journal.

    Each must be as the journal has it now, or as it began. A learner that was added at run time need not be in the
    template.
    """
    given, now = _parts(template.state(), portfolio), _parts(portfolio.state(), portfolio)
    began: dict[str, str] = {}
    with suppress(UnreadableFile):  # a snapshot was good, so the first event need not be
        began = _parts(first_state(journal), template)
    different = [key for key, part in given.items() if part not in (now.get(key), began.get(key))]
    different += [key for key in began if key in now and key not in given]
    # A portfolio that was given no selector says nothing about it, and the one that is recommended may change.
    if "selector" in different and template.recommendation:
        different.remove("selector")
    if different:
        raise StoreConflict(
            f"{str(journal.path)!r} has another portfolio than config makes (different: {', '.join(different)}): "
            "change the running one (add_learner, reconfigure, ...), or open it with accept_changes=True to keep the "
            "journal's"
        )


def _parts(state: Config, portfolio: Portfolio) -> dict[str, str]:
    """Return the learners and the selector as they were given, whatever the order in which learners joined.

    Settings of the selector that restarts have changed do not count, but for the delta that they began with. A range of
    rewards does not count either, if it is the one in effect: a part need not state it.
    """
    limits = portfolio.reward_range
    parts = {
        f"learner {member['name']!r}": _as_given(row, _without_range(row["config"], limits))
        for member, row in zip(state["members"], state["learners"], strict=True)
        if row is not None
    }
    changed, _ = portfolio.restarted_settings
    left_out = {"n_learners", *traits_of(portfolio.selector).per_learner, *changed}
    row = state["selector"]
    rules = {name: value for name, value in _without_range(row["config"], limits).items() if name not in left_out}
    bounds = sorted(canonical_json(bound).decode() for bound in (row["config"] or {}).get("bounds") or ())
    delta = state["drift"]["delta"] if "delta" in changed else None
    return {**parts, "selector": _as_given(row, [rules, bounds, delta])}


def _without_range(config: Config | None, limits: tuple[float, float] | None) -> Config:
    """Return the settings of a part, without a range of rewards that is not stated or is this one."""
    given = dict(config or {})
    stated = given.get("reward_range")
    if stated is None or equal_data(stated, limits):
        given.pop("reward_range", None)
    return given


def _as_given(row: Config, config: Plain) -> str:
    return canonical_json({"class": row["class"], "config": config}).decode()
