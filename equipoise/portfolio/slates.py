"""Slates: several slots of one page, filled one after the other with different offers.

Every slot is a round of its own: it is decided as if the offers of the slots before it were not there, and it has its
own id, propensity and reward. So slots count as independent rounds: a reward that depends on its neighbors belongs to
the slot that it is reported for.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from equipoise.errors import DuplicateDecision, InvalidArgument
from equipoise.features import Offers
from equipoise.features.offers import as_offers
from equipoise.portfolio.pool import listed
from equipoise.portfolio.state import PortfolioState
from equipoise.portfolio.tickets import MAX_ID_LENGTH, Decision
from equipoise.settings.checks import count
from equipoise.types import Context


def slot_id(id_: str, slot: int) -> str:
    """Return the id of a slot of a slate that has a caller's id; the first slot has the caller's.

    >>> [slot_id("page-1", slot) for slot in (1, 2, 3)]
    ['page-1', 'page-1/2', 'page-1/3']
    """
    return id_ if slot == 1 else f"{id_}/{slot}"


def another_size(id_: str) -> DuplicateDecision:
    """Return the error that says that the decisions of an id are not a slate of this size."""
    return DuplicateDecision(f"id {id_!r} was used for a slate of another size, but must be unique")


def without(context: Context, actions: Iterable[int]) -> Offers:
    """Return the offers of a context without some actions, which the mask excludes; at least one must be left."""
    offers = as_offers(context)
    mask = np.ones(len(offers), np.bool_) if offers.mask is None else offers.mask.copy()
    mask[list(actions)] = False
    return offers.masked(mask)


def decide(
    state: PortfolioState,
    context: Context,
    k: int,
    *,
    id: str | None,
    available: Iterable[str] | None,
    at: float | None,
    propensity: bool,
    unit: str | None,
) -> tuple[Decision, ...]:
    """Decide the slots of a slate: all or, after an error, none."""
    offers, tickets, made = as_offers(context), state.tickets, list[Decision]()
    if count("k", k) > offers.n_offered:
        raise InvalidArgument(f"k is {k}, but must be at most {offers.n_offered}, the number of offers to choose from")
    available = listed(available)
    if id is not None:
        longest = MAX_ID_LENGTH - len(slot_id("", k))
        if len(id) > longest:
            raise InvalidArgument(f"id has {len(id)} characters, but must have at most {longest} for {k} slots")
        known = [tickets.callers.round_of(slot_id(id, slot)) is not None for slot in range(1, k + 2)]
        if unit is None and any(known) and known != [True] * k + [False]:
            raise another_size(id)
    decisions = list[Decision]()
    try:
        for slot in range(1, k + 1):
            before = tickets.round
            decision = state.decide(
                offers if slot == 1 else without(offers, [each.action for each in decisions]),
                id=None if id is None else slot_id(id, slot),
                available=available,
                at=at,
                propensity=propensity,
                unit=unit,
                slot=slot,
            )
            decisions.append(decision)
            if tickets.round > before:
                made.append(decision)
    except BaseException:
        for decision in reversed(made):
            ticket = tickets.find(decision)
            if ticket is not None:  # else its deadline has passed
                state.withdraw(ticket)
        raise
    return tuple(decisions)
