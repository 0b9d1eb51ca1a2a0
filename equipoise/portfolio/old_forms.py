"""Forms of data that earlier releases wrote, as the forms of this one.

Before intention to treat, a substitute was drawn from the other learners and got the credit, the round was left out of
evidence unless the setting `availability` allowed it, and a choice said so in a fifth entry. Such rounds stay left out.

Before schemas, features were lists of names, each of a number that is a column as it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import numpy as np

from equipoise.types import Config, Plain

AVAILABILITY = "availability"
LISTS = {"context": "context_features", "actions": "action_features"}
NUMBER = {"type": "number", "scaled": False, "missing": "zero"}  # what a name in such a list stood for
logger = logging.getLogger("equipoise")


def settings(given: Mapping[str, Plain]) -> Config:
    """Return settings without the ones that have no effect any more, which it says, and with lists as a schema."""
    if AVAILABILITY in given:
        logger.info("the setting availability has no effect now: a round counts for the learner that was drawn")
    left_out = (AVAILABILITY, *LISTS.values())
    kept = {name: value for name, value in given.items() if name not in left_out}
    lists = {side: given[name] for side, name in LISTS.items() if given.get(name) is not None}
    return {**kept, "schema": schema(lists)} if lists else kept


def schema(lists: Mapping[str, Sequence[str]]) -> Config:
    """Return the schema of lists of names, whose values were columns as they are and counted as 0 if missing."""
    return {side: {name: dict(NUMBER) for name in names} for side, names in lists.items()}


def decided(data: Mapping[str, Plain]) -> tuple[Mapping[str, Plain], bool]:
    """Return the data of an event `decided`, and whether the round is left out of evidence."""
    if "drawn" in data:
        return data, False
    left_out = data["choice"] is not None and not _is_evidence(data["choice"])
    added = {"drawn": data["learner"], "substitutes": (), "weight": _weight(data["choice"])}
    return {**data, **added, "choice": _choice(data["choice"])}, left_out


def ticket(row: Mapping[str, Plain]) -> Mapping[str, Plain]:
    """Return the row of a ticket."""
    if "learner" in row:
        return row
    choice = row["choice"]
    learner = None if choice is None else choice[0]
    return {**row, "choice": _choice(choice), "learner": learner, "weight": _weight(choice)}


def selector_state(state: Mapping[str, Plain], open_tickets: Sequence[Mapping[str, Plain]]) -> Mapping[str, Plain]:
    """Return the state of a selector: of experts, with the learners that learn from each of its open plays."""
    if "ledger.experts.odds" not in state or "ledger.experts.learns" in state:
        return state
    updates = {tuple(row["choice"][:2]): row["learners_to_update"] for row in open_tickets if row["choice"]}
    learner_of = state["credit.experts.learner"]
    learns = np.zeros((len(state["ledger.accounts"]), state["ledger.experts.values"].shape[1]), np.bool_)
    for k, (account, play) in enumerate(zip(state["ledger.accounts"], state["ledger.tickets"], strict=True)):
        learns[k, list(updates.get((int(learner_of[account]), int(play)), ()))] = True
    return {**state, "ledger.experts.learns": learns}


def decision(row: Sequence[Plain]) -> Sequence[Plain]:
    """Return the entries of a decision: the learner that acted had been drawn."""
    return row if len(row) >= 9 else (*row[:4], row[2], *row[4:])


def _choice(choice: Sequence[Plain] | None) -> Sequence[Plain] | None:
    return None if choice is None else tuple(choice[:4])


def _is_evidence(choice: Sequence[Plain]) -> bool:
    return len(choice) < 5 or bool(choice[4])


def _weight(choice: Sequence[Plain] | None) -> float:
    return 1.0 if choice is None else 1.0 / choice[2]
