"""The state of a selector as arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from equipoise.bounds import Bound, bound_of
from equipoise.errors import InvalidArgument
from equipoise.kernels.records import check_columns, check_shapes, load_columns, state_columns
from equipoise.selectors._core.ledger import Rounds
from equipoise.types import AnyArray, Config

FORMAT = 1
DELAYS = ("any", "independent", "exogenous")
COUNTS = ("draws", "clock", "unplayed_rounds", "unreported", "format")


class Late(NamedTuple):
    """A learner that was added later."""

    round: int  # number of rounds before it was added
    delta: float  # its share
    mode: Any = None  # how it plays and learns, if the selector has several modes


class Changes:
    """How the pool of a selector has changed since the start."""

    def __init__(self) -> None:
        self.late: dict[int, Late] = {}  # learners that were added
        self.removed: dict[int, int] = {}  # learners that were removed, with the number of rounds before

    def __bool__(self) -> bool:
        return bool(self.late or self.removed)

    @property
    def since(self) -> int:
        """The number of rounds before the last change."""
        return max([late.round for late in self.late.values()] + list(self.removed.values()))

    @property
    def delta(self) -> float:
        """What the statements about the learners that were added spend, in addition to delta."""
        return sum(late.delta for late in self.late.values())


class Joined(NamedTuple):
    """A learner of a saved state that was added later."""

    round: int
    bound: Bound | None
    mode: Any


def save(rounds: Rounds, changes: Changes, delays: str) -> Config:
    """Return everything that a selector has learned, as arrays; those of the ledger are made later."""
    rounds.accounts.clear()
    rounds.count_pending()  # so that equal histories give equal states
    counts = (rounds.draws, rounds.clock, rounds.unplayed, len(rounds.unreported), FORMAT)
    late, fields = changes.late.values(), rounds.accounts.mode_fields
    modes = np.array([each.mode for each in late], np.int64).reshape(-1, len(fields)) if fields else None
    return {
        **state_columns(rounds.state),
        **{f"ledger.{name}": array for name, array in rounds.ledger.frozen().items()},
        "eliminated": np.array(rounds.eliminated, np.int64),
        **{name: np.array([number], np.int64) for name, number in zip(COUNTS, counts, strict=True)},
        "delays": np.array([DELAYS.index(delays), rounds.ledger.window], np.int64),
        "added": np.array([each.round for each in late], np.int64),
        "removed": np.array(list(changes.removed.items()), np.int64).reshape(-1, 2),
        **({} if modes is None else {"added_modes": modes}),
    }


def joined_learners(state: Mapping[str, AnyArray], rounds: Rounds) -> list[Joined]:
    """Return the learners of a saved state that were added later; `rounds` has the learners of the start.

    Raise an error if the state does not fit them.
    """
    check_shapes(state, dict.fromkeys(COUNTS, (1,)))
    if int(state["format"][0]) != FORMAT:
        raise InvalidArgument(f"state format is {int(state['format'][0])}, but must be {FORMAT}")
    n_added = state["added"].size if "added" in state else 0
    n_removed = state["removed"].shape[0] if "removed" in state else 0
    check_shapes(state, {"delays": (2,), "added": (n_added,), "removed": (n_removed, 2)})
    accounts = rounds.accounts
    modes: list[Any] = [None] * n_added
    if accounts.mode_fields:
        check_shapes(state, {"added_modes": (n_added, len(accounts.mode_fields))})
        modes = [accounts.mode_of(row) for row in state["added_modes"].tolist()]
    n_late = sum(map(accounts.n_accounts_of, modes))
    columns = [f"{_prefix(state)}bound_{part}" for part in ("kind", "coefficient", "shape")]
    check_shapes(state, dict.fromkeys(columns, (accounts.size + n_late,)))
    codes = list(zip(*(state[name].tolist() for name in columns), strict=True))[accounts.size :]
    bounds = [bound_of(code) for code in codes] if rounds.bounds else [None] * n_added
    return [Joined(*each) for each in zip(state["added"].tolist(), bounds, modes, strict=True)]


def load(state: Mapping[str, AnyArray], rounds: Rounds, changes: Changes) -> str:
    """Load a saved state, all of whose learners have joined; return the promise about delays."""
    changes.removed.update({int(i): int(round_) for i, round_ in state["removed"]})
    level, rounds.ledger.window = state["delays"].tolist()
    ledger = {name.removeprefix("ledger."): array for name, array in state.items() if name.startswith("ledger.")}
    check_columns(rounds.state, state)
    check_shapes(state, {"eliminated": (int(np.count_nonzero(state[f"{_prefix(state)}eliminated_at"])),)})
    rounds.ledger.check_state(ledger)
    rounds.accounts.check_saved(ledger)
    load_columns(rounds.state, state)
    rounds.ledger.restore(ledger)
    rounds.draws, rounds.clock, rounds.unplayed, n_unreported, _ = (int(state[name][0]) for name in COUNTS)
    rounds.eliminated[:] = state["eliminated"].tolist()
    rounds.unreported[:] = rounds.eliminated[len(rounds.eliminated) - n_unreported :]
    return DELAYS[level]


def _prefix(state: Mapping[str, AnyArray]) -> str:
    """Return the path of the accounts in a saved state."""
    return next((name for name in state if name.endswith("accounts.bound_kind")), "").removesuffix("bound_kind")
