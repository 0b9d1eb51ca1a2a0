"""Logged rounds: what was offered, which action was taken with which probability, and which reward it got.

A `LoggedRounds` is read in batches (`Rounds`), as often as one likes, so that a log may be larger than memory. Opening
it reads the whole log once: every row is checked, and a log with faults is refused before anything is learned from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.features.offers import Offers, nth_offered
from equipoise.learner import LearnerCapabilities
from equipoise.portfolio.warm_start import LoggedRound, OfSchema
from equipoise.settings.checks import LARGEST, count
from equipoise.types import Array, Context, Integers

MAX_LISTED = 10  # faults in a message
BATCH_CELLS = 1 << 22  # numbers that are read or written at once: 32 MB
SUM_TOLERANCE = 1e-4  # of probabilities, which other systems store as 32-bit floats
NO_ID = np.uint64(0)
T = TypeVar("T")


class Rounds(NamedTuple):
    """Consecutive rounds of a log, one entry per round."""

    rows: Integers  # row or line of the file, from 1
    shared: Array  # (n, shared columns) features of the round
    offers: Array  # (n, actions, offer columns) features of the offered actions; 0 beyond the last offered one
    n_offered: Integers  # offered actions are 0, ..., n_offered - 1
    actions: Integers
    rewards: Array
    propensities: Array  # probability of the logged action
    pmf: Array  # (n, actions) probability of every action; nan where the log does not say
    weights: Array  # how many rounds it stands for: 1 / (1 - pdrop) if rounds were dropped at random
    times: Array  # seconds since 1970; nan where the log does not say
    ids: NDArray[np.uint64]  # digest of the event's id; 0 where it has none
    offer_ids: NDArray[np.object_] | None = None  # tuples: the ids of the offered actions; None where they have none
    contexts: NDArray[np.object_] | None = None  # of a journal: tuples of the context alone, as it was decided on

    @property
    def n_rounds(self) -> int:
        return len(self.rows)

    def at(self, which: slice | NDArray[np.bool_]) -> Rounds:
        """Some of the rounds."""
        return Rounds._make(None if array is None else array[which] for array in self)


def in_batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of this size; the last one may be shorter."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def take(rounds: Rounds, which: NDArray[np.bool_]) -> Rounds:
    """The selected rounds."""
    return rounds if which.all() else rounds.at(which)


def contexts(rounds: Rounds, columns: int | None = None) -> Array:
    """The first `columns` columns (default: all) of the contexts, (rounds, actions, columns); 0 where not offered.

    If the offers have features, a row is those features followed by the shared ones. Otherwise every action has its own
    coefficients: the first K columns are the indicator of the action, and shared feature j has columns K (j + 1) to
    K (j + 2) - 1, the indicator times its value. So the first K (m + 1) columns are the model with the first m
    features, and models of different sizes are nested.
    """
    n, n_actions, n_own = rounds.offers.shape
    n_shared = rounds.shared.shape[1]
    if n_own:
        rows = np.empty((n, n_actions, n_own + n_shared))
        rows[:, :, :n_own] = rounds.offers
        offered = np.arange(n_actions) < rounds.n_offered[:, None]
        rows[:, :, n_own:] = rounds.shared[:, None, :] * offered[:, :, None]
        return rows[:, :, :columns] if columns is not None else rows
    total = n_actions * (n_shared + 1)
    width = total if columns is None else min(columns, total)
    rows = np.zeros((n, n_actions, width))
    each = np.arange(n_actions)
    for j in range(-(-width // n_actions)):
        own = each[: width - j * n_actions]
        rows[:, own, j * n_actions + own] = 1.0 if j == 0 else rounds.shared[:, j - 1, None]
    return rows


def objects(items: Sequence[object]) -> NDArray[np.object_]:
    """An array of objects, which may be sequences."""
    array = np.empty(len(items), np.object_)
    for k, item in enumerate(items):
        array[k] = item
    return array


def each_context(rounds: Rounds) -> Iterator[Context]:
    """The contexts as learners see them: those of a journal as they were decided on.

    Otherwise `Offers` with the rows of `contexts`, the features of the round as shared features and the ids of the
    actions; the rows alone if there is nothing else.
    """
    rows = contexts(rounds)
    for n in range(rounds.n_rounds):
        if rounds.contexts is not None and rounds.contexts[n] is not None:
            yield rounds.contexts[n][0]
            continue
        actions = rows[n, : rounds.n_offered[n]]
        ids = None if rounds.offer_ids is None else rounds.offer_ids[n]
        shared = rounds.shared[n] if rounds.shared.shape[1] else None
        yield actions if shared is None and ids is None else Offers(actions, shared, ids)


class Fault(NamedTuple):
    row: int
    rule: str


class InvalidLog(InvalidArgument):
    """A log has faulty rows; the message lists the first ten."""

    def __init__(self, name: str, faults: tuple[Fault, ...], n_faults: int) -> None:
        self._arguments = name, faults, n_faults
        listed = "".join(f"\n  row {fault.row}: {fault.rule}" for fault in faults)
        more = f"\n  and {n_faults - len(faults)} more" if n_faults > len(faults) else ""
        rows = "1 faulty row" if n_faults == 1 else f"{n_faults} faulty rows"
        super().__init__(f"{name} has {rows}, and nothing was used:{listed}{more}")

    def __reduce__(self) -> tuple[type[InvalidLog], tuple[str, tuple[Fault, ...], int]]:
        return type(self), self._arguments


class Faults:
    """Collects faulty rows: counts all, keeps the first ten."""

    def __init__(self) -> None:
        self.first: list[Fault] = []
        self.n_faults = 0

    def add(self, row: int, rule: str) -> None:
        self.n_faults += 1
        self.first.append(Fault(row, rule))
        self.first.sort()
        del self.first[MAX_LISTED:]


class Source(Protocol):
    """A file or table that can be read again and again."""

    name: str
    n_skipped: int  # events of the last reading that the log itself excludes
    floor: float  # no offered action was less probable in the last reading; nan if unknown

    @property
    def shared_names(self) -> tuple[str, ...]:
        """The columns of shared features found so far."""

    @property
    def offer_names(self) -> tuple[str, ...]:
        """The columns of features of an offer found so far."""

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the actions found so far; empty if actions are numbers."""

    def read(self, faults: Faults) -> Iterator[Rounds]:
        """Batches of rounds without the faulty ones, which are added to `faults`."""


class LoggedRounds:
    """A log that has been read once and checked; iterate over it for batches of rounds. See `open_log`."""

    def __init__(self, source: Source, *, skip_bad_rows: int = 0, n_actions: int | None = None) -> None:
        self._source, self.name = source, source.name
        allowed, faults = count("skip_bad_rows", skip_bad_rows, minimum=0), Faults()
        self.n_rounds, self.n_actions, self.min_propensity = 0, 0, 1.0
        self.reward_range = (np.inf, -np.inf)
        self.min_exposure = self.min_offered_exposure = np.inf
        self.has_ids = False
        self.n_decided_on: int | None = None  # least number of columns of the contexts that a journal keeps
        self._least_actions = np.inf  # for which a round without features of offers states probabilities
        for batch in checked(source.read(faults), faults):
            self._add(batch)
        if faults.n_faults > allowed:
            raise InvalidLog(self.name, tuple(faults.first), faults.n_faults)
        if not self.n_rounds:
            raise InvalidArgument(f"{self.name} has no rounds, but must have at least one")
        if n_actions is not None:
            self.n_actions = count("n_actions", n_actions, minimum=self.n_actions)
        if self._least_actions < self.n_actions:
            self.min_offered_exposure = np.nan  # the others are offered as well
        elif 0.0 < source.floor <= self.min_propensity * (1 + 1e-9):  # which is rounded
            self.min_offered_exposure = min(source.floor, self.min_propensity)
        self.skipped, self.n_skipped = tuple(faults.first), faults.n_faults
        self.n_excluded = source.n_skipped
        self.shared_names, self.offer_names = source.shared_names, source.offer_names
        self.schema = source.schema if isinstance(source, OfSchema) else None  # that says what the columns are
        self._has_names = len(source.action_names) == self.n_actions and not source.offer_names
        self.has_ids = self.has_ids or self._has_names
        self.action_names = source.action_names or tuple(str(action) for action in range(self.n_actions))

    def _add(self, batch: Rounds) -> None:
        if not batch.n_rounds:
            return
        self.n_rounds += batch.n_rounds
        self.n_actions = max(self.n_actions, int(batch.n_offered.max()), batch.pmf.shape[1])
        self.min_propensity = min(self.min_propensity, float(batch.propensities.min()))
        exposures = batch.propensities / batch.weights
        self.min_exposure = min(self.min_exposure, float(exposures.min()))
        offered = np.arange(batch.pmf.shape[1]) < batch.n_offered[:, None]
        each = np.where(offered, batch.pmf / batch.weights[:, None], np.inf)
        self.min_offered_exposure = float(np.minimum(self.min_offered_exposure, each.min(initial=np.inf)))  # nan stays
        low, high = self.reward_range
        self.reward_range = (min(low, float(batch.rewards.min())), max(high, float(batch.rewards.max())))
        self._add_contexts(batch)
        if not batch.offers.shape[2]:
            self._least_actions = min(self._least_actions, batch.pmf.shape[1])

    def _add_contexts(self, batch: Rounds) -> None:
        if batch.offer_ids is not None:
            self.has_ids = self.has_ids or any(ids is not None for ids in batch.offer_ids)
        for kept in () if batch.contexts is None else batch.contexts:
            if kept is not None:
                (context,) = kept
                actions = context.actions if isinstance(context, Offers) else context
                self.has_ids = self.has_ids or (isinstance(context, Offers) and context.ids is not None)
                least = actions.shape[1] if self.n_decided_on is None else self.n_decided_on
                self.n_decided_on = min(least, actions.shape[1])

    def fits_rows(self, learner: LearnerCapabilities) -> bool:
        """Whether a learner sees the same in rows of `contexts` as in each context: it needs no ids and no columns
        that the contexts of a journal lack."""
        if self.has_ids and learner.arms is not None:
            return False
        return self.n_decided_on is None or (learner.n_columns is not None and learner.n_columns <= self.n_decided_on)

    @property
    def n_columns(self) -> int:
        """Number of columns of a context."""
        n_shared, n_own = len(self.shared_names), len(self.offer_names)
        return n_own + n_shared if n_own else self.n_actions * (n_shared + 1)

    def thinning(self, batch: Rounds) -> Array:
        """The probability with which each round is kept, so that all actions and rounds are equally likely to be."""
        known = self.min_offered_exposure > 0.0
        return (self.min_offered_exposure if known else self.min_exposure) * batch.weights / batch.propensities

    def each_round(self) -> Iterator[LoggedRound]:
        """The rounds one by one, with contexts as learners see them."""
        for batch in self:
            for n, context in enumerate(each_context(batch)):
                yield LoggedRound(
                    context,
                    nth_offered(context, int(batch.actions[n])),
                    float(batch.rewards[n]),
                    float(batch.propensities[n]),
                    float(batch.weights[n]),
                    int(batch.rows[n]),
                )

    def __len__(self) -> int:
        return self.n_rounds

    def __iter__(self) -> Iterator[Rounds]:
        faults, done = Faults(), 0
        for batch in checked(self._source.read(faults), faults):
            done += batch.n_rounds
            if done > self.n_rounds:
                raise self._changed("more")
            if batch.n_rounds:
                yield self._named(_widened(batch, self.n_actions))
        if faults.n_faults != self.n_skipped:
            raise InvalidLog(self.name, tuple(faults.first), faults.n_faults)  # the file has changed
        if done != self.n_rounds:
            raise self._changed(f"{done:,}")

    def _named(self, batch: Rounds) -> Rounds:
        """The batch with the names of the actions as ids, if the log has names and no other ids."""
        if not self._has_names:
            return batch
        return batch._replace(offer_ids=objects([self.action_names] * batch.n_rounds))

    def _changed(self, now: str) -> UnreadableFile:
        return UnreadableFile(f"{self.name} had {self.n_rounds:,} rounds when it was opened, but has {now} now")

    def __repr__(self) -> str:
        return f"LoggedRounds({self.name!r}, {self.n_rounds:,} rounds, {self.n_actions} actions)"


def _widened(batch: Rounds, n_actions: int) -> Rounds:
    """The batch with room for all actions of the log. If the log has a fixed number of actions, all are offered."""
    lacking = n_actions - batch.pmf.shape[1]
    if lacking <= 0:
        return batch
    pmf = np.pad(batch.pmf, ((0, 0), (0, lacking)), constant_values=np.nan)
    offers = batch.offers
    if offers.shape[2] == 0:  # without features of offers every round offers all actions
        return batch._replace(
            pmf=pmf, offers=np.empty((batch.n_rounds, n_actions, 0)), n_offered=np.full(batch.n_rounds, n_actions)
        )
    return batch._replace(pmf=pmf, offers=np.pad(offers, ((0, 0), (0, lacking), (0, 0))))


def checked(batches: Iterator[Rounds], faults: Faults) -> Iterator[Rounds]:
    """The rounds that keep the rules of every format; the others are added to `faults`."""
    for batch in batches:
        good = np.ones(batch.n_rounds, np.bool_)
        for violations, rule in _violations(batch):
            for i in map(int, np.flatnonzero(violations & good)):
                faults.add(int(batch.rows[i]), rule(i))
            good &= ~violations
        yield take(batch, good)


def _violations(batch: Rounds) -> Iterator[tuple[NDArray[np.bool_], _Rule]]:
    """Every rule with the rounds that violate it, and its message."""
    actions, p, rewards, pmf = batch.actions, batch.propensities, batch.rewards, batch.pmf
    yield (
        (actions < 0) | (actions >= batch.n_offered),
        lambda i: f"action is {actions[i]}, but must be one of the {batch.n_offered[i]} offered, from 0",
    )
    yield np.isnan(p), lambda i: "propensity is missing, but every row must have one"
    yield ~((p > 0.0) & (p <= 1.0)), lambda i: f"propensity is {p[i]:g}, but must lie in (0, 1]"
    weights = batch.weights
    yield (
        ~((weights > 0.0) & (weights <= LARGEST)),
        lambda i: f"weight is {weights[i]:g}, but must be positive and finite",
    )
    yield ~(np.abs(rewards) <= LARGEST), lambda i: f"reward is {rewards[i]:g}, but must be finite"
    with np.errstate(invalid="ignore"):
        finite = np.all(np.abs(batch.shared) <= LARGEST, axis=1) & np.all(np.abs(batch.offers) <= LARGEST, axis=(1, 2))
    bad: NDArray[np.bool_] = ~finite
    yield bad, lambda i: "the context has nan or infinite entries, but must be finite"
    if not pmf.shape[1]:
        return
    known: NDArray[np.bool_] = ~np.all(np.isnan(pmf), axis=1)
    if not known.any():
        return
    sums: Array = np.nansum(pmf, axis=1)
    yield (
        known & ~(np.abs(sums - 1.0) <= SUM_TOLERANCE),
        lambda i: f"probabilities sum to {sums[i]:.6g}, but must sum to 1",
    )
    yield (
        known & (np.nanmin(np.where(known[:, None], pmf, 0.0), axis=1) < 0.0),
        lambda i: "a probability is negative, but must not be",
    )
    beyond = np.where(np.arange(pmf.shape[1]) >= batch.n_offered[:, None], np.nan_to_num(pmf), 0.0)
    yield (
        np.any(beyond > 0.0, axis=1),
        lambda i: (
            f"action {beyond[i].argmax()} has probability {beyond[i].max():g}, "
            f"but only {batch.n_offered[i]} actions are offered"
        ),
    )
    own = pmf[np.arange(batch.n_rounds), np.clip(actions, 0, pmf.shape[1] - 1)]
    yield (
        known & ~(np.abs(own - p) <= SUM_TOLERANCE * p),
        lambda i: f"propensity is {p[i]:g}, but must be the probability {own[i]:g} of the logged action",
    )


class _Rule(Protocol):
    def __call__(self, i: int, /) -> str: ...
