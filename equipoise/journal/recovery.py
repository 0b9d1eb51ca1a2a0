"""Recovery: the newest good snapshot and the events after it; rebuilding: everything from the first event.

What was decided is taken from the log. A damaged snapshot is skipped for the one before it, finally for the first
event. A damaged log is an error: it never starts empty, and never with a part of what was acknowledged.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import NamedTuple

from equipoise import __version__
from equipoise.errors import EquipoiseError, FileUnavailable, StoreConflict, UnreadableFile
from equipoise.journal.protocol import Journal, WrittenBy
from equipoise.learner import MinimalLearner, part_name, savable
from equipoise.portfolio import Portfolio
from equipoise.portfolio.events import Event, logger
from equipoise.selector import capabilities
from equipoise.storage import codec
from equipoise.storage.parts import rebuild_learners
from equipoise.types import Config

CREATED, REDACTED, ADDED, DECIDED = "created", "redacted", "learner_added", "decided"
OF_JOURNAL = frozenset({CREATED, REDACTED})  # kinds that change no portfolio


class Recovered(NamedTuple):
    """A portfolio, the last event in it, the event it started from, and the snapshots that were damaged."""

    portfolio: Portfolio
    seq: int
    start: int
    damaged: tuple[int, ...] = ()


class Start(NamedTuple):
    """A state from which events can be folded."""

    seq: int
    state: Callable[[], Config]


def recover(journal: Journal, template: Portfolio | None = None) -> Recovered:
    """The state of a journal that has events; `template` has the learners and selector that are not registered."""
    damaged = []
    for start in starts(journal):
        try:
            with _uncollected():
                state = start.state()
        except FileUnavailable:
            raise  # that the file cannot be read now says nothing about the snapshot
        except UnreadableFile as error:
            logger.warning("%s; trying the one before it", error)
            damaged.append(start.seq)
            continue
        if start.seq > journal.last_seq:
            raise UnreadableFile(f"the journal ends at event {journal.last_seq}, before its snapshot at {start.seq}")
        return fold(journal, state, start.seq, template)._replace(damaged=tuple(damaged))
    raise UnreadableFile(
        f"the journal has {journal.last_seq} events, but no good snapshot ({len(damaged)} are damaged) and no good "
        "first event to start from: restore a backup"
    )


Read = Callable[[int], Iterator[Event]]  # the events from a number on


def rebuild(journal: Journal, template: Portfolio | None = None, read: Read | None = None) -> Recovered:
    """The state by the longest way: from the base snapshot, or from the first event if there is none.

    There is a base if older events lost data or were archived. If `read` is given, it reads archived events too, and
    the fold begins at the first event.
    """
    if read is not None:
        return fold(journal, first_state(journal), 1, template, read)
    *_, start = starts(journal)
    return fold(journal, start.state(), start.seq, template)


def starts(journal: Journal) -> Iterator[Start]:
    """Where a fold can start: snapshots, the newest first, down to a base or the first event."""
    for snapshot in journal.snapshots():
        yield Start(snapshot.seq, lambda seq=snapshot.seq: journal.get_snapshot(seq))  # type: ignore[misc]
        if snapshot.is_base:
            return
    yield Start(1, lambda: first_state(journal))


def first_state(journal: Journal) -> Config:
    first = next(iter(journal.read(1)), None)
    if first is None or first.kind != CREATED:
        raise UnreadableFile("the journal does not begin with the event 'created'")
    state: Config = first.data["state"]
    return state


def fold(journal: Journal, state: Config, seq: int, template: Portfolio | None, read: Read | None = None) -> Recovered:
    start = seq
    try:
        with _uncollected():
            portfolio = restore(state, template)
    except StoreConflict:
        raise
    except Exception as error:
        if by := _by_another(journal.writer_of_snapshot(seq) if seq > 1 else journal.writer_of(seq)):
            raise UnreadableFile(f"the state at event {seq} could not be restored: {error}{by}") from error
        raise
    for event in (read or journal.read)(seq + 1):
        if event.kind == DECIDED and event.data["digest"] is None:
            raise UnreadableFile(f"event {event.seq} has lost its context, so nothing can be folded from before it")
        if event.kind not in OF_JOURNAL:
            try:
                portfolio.apply(event, _added(event, template) if event.kind == ADDED else None)
            except Exception as error:
                by = _by_another(journal.writer_of(event.seq))
                raise UnreadableFile(f"event {event.seq} ({event.kind}) could not be folded: {error}{by}") from error
        seq = event.seq
    portfolio.end_id_epoch()
    changed = describe_changed_rule(portfolio)
    if changed:
        logger.info("%s", changed)
    if template is not None:
        portfolio.give_fallback(template.settings.fallback)
    return Recovered(portfolio, seq, start)


def _by_another(writer: WrittenBy) -> str:
    """Return who wrote what could not be read, if it was another release that said so."""
    if writer.release in (None, __version__):
        return ""
    return f"; {writer} wrote it, and this is equipoise {__version__}: use that release, or restore a backup"


def note_writer(journal: Journal, portfolio: Portfolio) -> None:
    """Note which rule decides from now on; warn if a later version of it has decided before."""
    can = capabilities(portfolio.selector)
    name, version = can.name, None if can.rule is None else can.rule.rule_version
    before = journal.writer_of(journal.last_seq) if journal.last_seq else WrittenBy()
    if version is not None and before.rule is not None and before.selector == name and before.rule > version:
        logger.warning(
            "%s: %s wrote up to event %d, and this is equipoise %s with rule %d, which continues with the logged odds",
            *(journal.portfolio, before, journal.last_seq, __version__, version),
        )
    journal.note_rule(name, version)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make many objects at once: looking through them again and again would take as long as making them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def describe_changed_rule(portfolio: Portfolio) -> str:
    """Return how many decisions of the log the present rule would have drawn otherwise; empty if none."""
    health = portfolio.health()
    if not health["folded_differently"]:
        return ""
    return (
        f"{health['folded_differently']:,} logged decisions have other probabilities than the present rule of the "
        f"selector gives, first {health['first_folded_differently']}; evidence rests on the logged ones"
    )


def restore(state: Config, template: Portfolio | None) -> Portfolio:
    """The portfolio of a state; parts that are not registered are copied from the template."""
    rows = [row for row in state["learners"] if row is not None]
    learners = None if all(row["ours"] for row in rows) else [_learner(row, template) for row in rows]
    selector = None
    if not state["selector"]["ours"]:
        selector = deepcopy(_need(template, state["selector"]["class"]).selector)
    return Portfolio.from_state(state, learners, selector)


def _learner(row: Config, template: Portfolio | None) -> MinimalLearner:
    if row["ours"]:
        (rebuilt,) = rebuild_learners([row], None)
        return rebuilt
    return _copy_of(row["class"], row["name"], template)


def _added(event: Event, template: Portfolio | None) -> MinimalLearner | None:
    if event.data["learner"].get("ours", True):
        return None
    row = event.data["learner"]
    learner = _copy_of(row["class"], row["name"], template)
    savable(learner).restore(row["state"])
    return learner


def _copy_of(class_name: str, name: str, template: Portfolio | None) -> MinimalLearner:
    learners: Sequence[MinimalLearner] = _need(template, class_name).learners
    same = [learner for learner in learners if type(learner).__name__ == class_name]
    for learner in same:
        if part_name(learner) == name:
            return deepcopy(learner)
    raise StoreConflict(f"{name!r} is a {class_name}, which is not registered, and config has no such learner")


def _need(template: Portfolio | None, class_name: str) -> Portfolio:
    if template is None:
        raise StoreConflict(f"the journal has a {class_name}, which is not registered: give config")
    return template


def digest(portfolio: Portfolio) -> str:
    """SHA-256 of the whole state, in hexadecimal: equal for equal portfolios."""
    return codec.digest(portfolio.state())


def check_savable(portfolio: Portfolio) -> Config:
    """The state of a portfolio that can be stored in a journal; raises an error for another one."""
    try:
        state = portfolio.state()
        codec.encode(state)
    except EquipoiseError as error:
        raise StoreConflict(f"the portfolio cannot be kept in a journal: {error}") from error
    return state
