"""Rewards as they arrive, in any order: what a choice may use that no statement is built on.

Confidence statements need evidence in play order, because delays may depend on rewards. An index needs no validity: it
may use everything that has arrived, so that late or lost rewards do not blind the choice. If every reward arrives at
once, these sums are those of the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import add
from equipoise.selectors._core.nested import HasParams
from equipoise.selectors._core.parts import P


@dataclass(slots=True)
class Arrivals:
    """The rewards of one learner that have arrived, as a compensated sum."""

    plays: int = 0
    rewards: float = 0.0
    rewards_carry: float = 0.0


class State(NamedTuple):
    """State of a selector that adds only the arrivals."""

    evidence: evidence.State
    arrivals: list[Arrivals]


def open_state(accounts: evidence.State) -> State:
    return State(accounts, [Arrivals() for _ in accounts.accounts])


@kernel
def arrive(params: HasParams, state: State, i: int, reward: float, probability: float) -> None:
    """Add a reward of learner i that has just arrived."""
    add_arrival(state.arrivals[i], reward)


@kernel
def add_arrival(row: Arrivals, reward: float) -> None:
    row.plays += 1
    row.rewards, row.rewards_carry = add(row.rewards, row.rewards_carry, reward)


class ArrivalSelector(EvidenceSelector[P, State]):
    """A selector that adds only the arrivals to `evidence`."""

    def _make_state(self, accounts: evidence.State) -> State:
        return open_state(accounts)

    def _grow(self) -> None:
        self.kernel_state.arrivals.append(Arrivals())

    def _adopt_evidence(self) -> None:
        adopt(self.kernel_state.arrivals, self.evidence.accounts)


def adopt(arrivals: Sequence[Arrivals], accounts: list[evidence.Account]) -> None:
    """Set the arrivals to what counts as evidence."""
    for row, account in zip(arrivals, accounts, strict=True):
        row.plays, row.rewards, row.rewards_carry = account.booked_plays, account.rewards, account.rewards_carry
