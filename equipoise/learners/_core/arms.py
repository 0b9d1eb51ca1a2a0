"""Arms that come and go: what a learner knows about each id, for the ids seen lately.

The arms of `Offers` with ids have names instead of numbers, and there is no limit to how many there are over time. An
arm is remembered from its first update until it has not been offered in `window` updates of the learner; if it is
offered again later, it counts as a new arm, about which nothing is known. So the memory is that of the arms offered in
the last `window` updates.

Share of delta. The n-th new arm (n = 1, 2, ..., arms that come back included) has the share

    delta_n = delta / (M b (b + 1)),   b = ceil(n / M),

of the probability delta that an interval of some arm ever fails: M arms have delta / (2 M) each, the next M have
delta / (6 M), and so on. All shares sum to sum_b delta / (b (b + 1)) = delta (the sum telescopes). The n-th new arm and
its share are known before its first reward is, so its interval fails with probability at most delta_n given the
past, whatever decided which arm is the n-th one; by a union bound over n all intervals hold with probability 1 - delta.
Forgetting an arm drops true statements only. The price for unlimited ids is a factor b (b + 1) inside a logarithm.

Symbols: M `arms`, the number of ids expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.records import check_layout
from equipoise.settings import setting
from equipoise.settings.checks import count
from equipoise.types import AnyArray, Integers, State

RowsT = TypeVar("RowsT", bound=tuple[AnyArray, ...])
MIN_CAPACITY = 8

window_setting = partial(
    setting,
    default=10_000,
    check=partial(count, maximum=10**12),
    doc="Number of updates after which an arm that is no longer offered is forgotten.",
)


def block_of(order: int, expected: int) -> int:
    """b of the module docstring for the arm with this number, from 0."""
    return order // expected + 1


def share_of_delta(delta: float, block: int, expected: int) -> float:
    """delta_n of an arm in a block.

    >>> sum(3 * share_of_delta(0.1, block, 3) for block in range(1, 1000))
    0.0999...
    """
    return delta / (expected * block * (block + 1))


class Arms(Generic[RowsT]):
    """A growing table of arms by id; `memory` has one row per arm, and a last row for arms that are not known."""

    def __init__(self, unknown: RowsT, window: int) -> None:
        self._unknown = unknown  # a tuple of arrays with the single row of an unknown arm
        self._window = window
        self.updates = 0
        self.n_new = 0  # new arms so far
        self._slots: dict[str, int] = {}  # the row of each arm: 0, 1, ... in the order of their updates
        self._resize(MIN_CAPACITY)

    def find(self, ids: Sequence[str]) -> Integers:
        """The row of each id in `memory`; -1, the last row, for one that is not known."""
        slots = np.array([self._slots.get(id_, -1) for id_ in ids], np.int64)
        slots[self._seen[slots] < self.updates - self._window] = -1
        return slots

    def open(self, id_: str) -> int:
        """The row of an arm that has an update; reset if the arm is new."""
        slot = int(self.find((id_,))[0])
        if slot >= 0:
            return slot
        if id_ not in self._slots:
            if len(self._slots) == len(self.orders):
                self._make_room()
            self._slots[id_] = len(self._slots)
        slot = self._slots[id_]
        self.orders[slot], self._seen[slot] = self.n_new, self.updates
        self.n_new += 1
        for array, row in zip(self.memory, self._unknown, strict=True):
            array[slot] = row[0]
        return slot

    def see(self, ids: Sequence[str]) -> None:
        """Count an update in which these arms were offered."""
        self.updates += 1
        known = self.find(ids)
        self._seen[known[known >= 0]] = self.updates

    def known(self) -> list[tuple[str, int]]:
        """The arms that are remembered, with their rows."""
        oldest = self.updates - self._window
        return [(id_, slot) for id_, slot in self._slots.items() if self._seen[slot] >= oldest]

    def _make_room(self) -> None:
        """Forget what is older than the window; afterwards at least half of the rows are free."""
        kept = self.known()
        slots = np.array([slot for _, slot in kept], np.int64)
        seen, orders, memory = self._seen[slots], self.orders[slots], [array[slots] for array in self.memory]
        self._resize(max(MIN_CAPACITY, 2 * len(kept)))
        self._fill([id_ for id_, _ in kept], seen, orders, memory)

    def _resize(self, capacity: int) -> None:
        # The last row is that of unknown arms, which were never seen and are as new as anything.
        self._seen = np.full(capacity + 1, np.iinfo(np.int64).max)
        self.orders = np.zeros(capacity, np.int64)
        self.memory: RowsT = type(self._unknown)(*(np.repeat(row, capacity + 1, axis=0) for row in self._unknown))

    def _fill(self, ids: Sequence[str], seen: Integers, orders: Integers, memory: Sequence[AnyArray]) -> None:
        n = len(ids)
        self._slots = {id_: slot for slot, id_ in enumerate(ids)}
        self._seen[:n], self.orders[:n] = seen, orders
        for array, rows in zip(self.memory, memory, strict=True):
            array[:n] = rows

    def state(self) -> State:
        kept = self.known()
        slots = np.array([slot for _, slot in kept], np.int64)
        encoded = [id_.encode() for id_, _ in kept]
        rows = {f"arms.{name}": array[slots] for name, array in zip(self._fields(), self.memory, strict=True)}
        return {
            "arms.counts": np.array([self.updates, self.n_new]),
            "arms.id_bytes": np.frombuffer(b"".join(encoded), np.uint8).copy(),
            "arms.id_lengths": np.array([len(id_) for id_ in encoded], np.int64),
            "arms.seen": self._seen[slots],
            "arms.orders": self.orders[slots],
            **rows,
        }

    def from_state(self, state: State) -> Arms[RowsT]:
        """A new table with the arms of a saved state, none if it is empty; raises an error if it does not fit."""
        arms = Arms(self._unknown, self._window)
        if not state:
            return arms
        expected = arms.state()
        check_layout(state, expected, "its arms", any_length=expected)
        n = len(state["arms.id_lengths"])
        for name, array in state.items():
            length = {"arms.counts": 2, "arms.id_bytes": int(state["arms.id_lengths"].sum())}.get(name, n)
            if len(array) != length:
                raise InvalidArgument(f"state {name!r} has {len(array)} rows, but must have {length}")
        ends = np.cumsum(state["arms.id_lengths"])
        text = state["arms.id_bytes"].tobytes()
        ids = [text[end - length : end].decode() for end, length in zip(ends, state["arms.id_lengths"], strict=True)]
        arms.updates, arms.n_new = (int(number) for number in state["arms.counts"])
        arms._resize(max(MIN_CAPACITY, 2 * n))
        arms._fill(ids, state["arms.seen"], state["arms.orders"], [state[f"arms.{name}"] for name in self._fields()])
        return arms

    def _fields(self) -> tuple[str, ...]:
        fields: tuple[str, ...] = self._unknown._fields  # type: ignore[attr-defined]
        return fields


def split_arms(state: State) -> tuple[State, State]:
    """The state of a learner without its arms, and the state of the arms."""
    by_id = {name: array for name, array in state.items() if name.startswith("arms.")}
    return {name: array for name, array in state.items() if name not in by_id}, by_id
