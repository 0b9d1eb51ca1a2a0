"""Ids of decisions: unique over restarts, copies and processes.

A portfolio's own id is "EPOCH-ROUND". The epoch is random and drawn anew whenever a portfolio was created, loaded or
copied and then decides, so ids never repeat, even if a portfolio is loaded twice from one file. The portfolio knows
the rounds of each of its epochs, so it can tell a closed decision from an unknown one without remembering either.

A caller may give its own id instead. The portfolio then remembers the decision, and after it is closed for as long as
it is among the last `REMEMBERED` of these, so that a repeated request gets the same answer.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from secrets import token_hex
from typing import NamedTuple

from equipoise.errors import DuplicateDecision, InvalidArgument
from equipoise.portfolio.decisions import Decision
from equipoise.storage.archive import pack
from equipoise.storage.parts import context_to_plain
from equipoise.types import Config, Context, Plain

REMEMBERED = 10_000  # closed decisions with a caller's id
MAX_EPOCHS = 1_000  # ids of earlier epochs count as unknown
MAX_LENGTH = 200  # of a caller's id
EPOCH_BYTES = 8
ID = str | int  # integers were the ids of releases before 0.3


class OwnIds:
    """The ids that a portfolio gives out."""

    def __init__(self) -> None:
        self._epoch: str | None = None  # drawn with the first decision
        self._rounds: dict[str, list[int]] = {}  # first and last round of each epoch
        self._last_integer = 0  # ids of releases before 0.3

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_epoch": None}  # a copy must not give out the ids of the original

    def next(self, round_: int) -> str:
        """The id of the decision of a round."""
        if self._epoch is None:
            self.begin(token_hex(EPOCH_BYTES), round_)
        epoch = self._epoch
        self._rounds[epoch][1] = round_  # type: ignore[index]  # set by `begin`
        return f"{epoch}-{round_}"

    def begin(self, epoch: str, round_: int) -> None:
        """Begin an epoch with this round."""
        self._epoch = epoch
        self._rounds[epoch] = [round_, round_]
        if len(self._rounds) > MAX_EPOCHS:
            del self._rounds[next(iter(self._rounds))]

    def end_epoch(self) -> None:
        """The next id begins an epoch."""
        self._epoch = None

    def record(self, id_: str) -> None:
        """Note an id that was given out according to a log."""
        epoch, _, number = id_.rpartition("-")
        if epoch not in self._rounds:
            self.begin(epoch, int(number))
        self._rounds[epoch][1] = int(number)

    def round_of(self, id_: ID) -> int | None:
        """The round of an id that this portfolio gave out; None if it did not."""
        if isinstance(id_, int):
            return id_ if 0 < id_ <= self._last_integer else None
        epoch, _, number = id_.rpartition("-")
        first, last = self._rounds.get(epoch, (1, 0))
        return int(number) if number.isdecimal() and first <= int(number) <= last else None

    def reserves(self, id_: str) -> bool:
        """Whether this is an id that this portfolio gave out, or may give out later."""
        epoch, _, number = id_.rpartition("-")
        return epoch in self._rounds and number.isdecimal()

    def state(self) -> Config:
        return {"epochs": [(epoch, *rounds) for epoch, rounds in self._rounds.items()], "integers": self._last_integer}

    def restore(self, state: Config) -> None:
        self._epoch = None
        self._rounds = {epoch: [first, last] for epoch, first, last in state["epochs"]}
        self._last_integer = state["integers"]


class Remembered(NamedTuple):
    """A decision under a caller's id, the digest of its context, and its round."""

    digest: str
    decision: Decision
    round: int


class CallerIds:
    """Decisions under ids that callers gave: open ones, and the newest of the closed ones."""

    def __init__(self) -> None:
        self._open: dict[str, Remembered] = {}
        self._closed: OrderedDict[str, Remembered] = OrderedDict()

    def round_of(self, id_: ID) -> int | None:
        """The round of a decision that is remembered."""
        remembered = self._open.get(str(id_)) or self._closed.get(str(id_))
        return None if remembered is None else remembered.round

    def find(self, id_: str, digest: str) -> Decision | None:
        """The decision that was made under this id, if there is one; raises an error if its context was another."""
        remembered = self._open.get(id_) or self._closed.get(id_)
        if remembered is None:
            return None
        if remembered.digest != digest:
            raise DuplicateDecision(f"id {id_!r} was used for a decision with another context, but must be unique")
        return remembered.decision

    def remember(self, digest: str, decision: Decision, round_: int) -> None:
        self._open[decision.id] = Remembered(digest, decision, round_)

    def close(self, id_: ID) -> None:
        """Move a closed decision to the window, and forget the oldest one if the window is full."""
        if self._open and id_ in self._open:
            self._closed[str(id_)] = self._open.pop(str(id_))
            if len(self._closed) > REMEMBERED:
                self._closed.popitem(last=False)

    def state(self) -> list[Plain]:
        rows = [(True, remembered) for remembered in self._open.values()]
        rows += [(False, remembered) for remembered in self._closed.values()]
        return [(is_open, digest, tuple(decision), round_) for is_open, (digest, decision, round_) in rows]

    def restore(self, rows: list[Plain]) -> None:
        self._open, self._closed = {}, OrderedDict()
        for is_open, digest, decision, round_ in rows:
            remembered = Remembered(digest, Decision(*decision), round_)
            (self._open if is_open else self._closed)[remembered.decision.id] = remembered


def check_caller_id(id_: object, own: OwnIds) -> str:
    """A caller's id: a short string that is none of the portfolio's own ids."""
    if not isinstance(id_, str) or not 0 < len(id_) <= MAX_LENGTH or not id_.isprintable():
        raise InvalidArgument(f"id is {id_!r:.80}, but must be a printable string of 1 to {MAX_LENGTH} characters")
    if own.reserves(id_):
        raise InvalidArgument(f"id is {id_!r}, but must not be one of the portfolio's own ids")
    return id_


def context_digest(context: Context) -> str:
    """The digest by which a repeated request is compared with the first one."""
    return hashlib.sha256(pack(context_to_plain(context))).hexdigest()
