"""The story of one decision from its durable events: who proposed what, why this learner, its reward, the trail."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import Any

from msgspec.structs import asdict

from equipoise.errors import UnknownDecision
from equipoise.learner import Proposal
from equipoise.portfolio import Decision, Event, Portfolio, old_forms, text
from equipoise.selector import Choice
from equipoise.serve.dashboard.timeline import short
from equipoise.serve.hosted import Hosted
from equipoise.serve.schemas import Decided, plain
from equipoise.types import Config

MAX_RECENT = 20
NO_EVENTS = "no decision of this id is in the journal; a service without a journal keeps none"
# The first three may be about people: they stay in the journal.
HIDDEN = frozenset({"context", "digest", "outcome", "proposals", "choice", "learners_to_update", "id", "pmf", "unit"})
ENDS = ("rewarded", "expired", "withdrawn")


def story(hosted: Hosted, id_: str) -> Config:
    """Everything about one decision but its context; raises an error if it is not in the journal."""
    events, portfolio = hosted.find(id_), hosted.portfolio
    made = next((event for event in events if event.kind == "decided"), None)
    if made is None:
        raise UnknownDecision(NO_EVENTS)
    ends = [event for event in events if event.kind in ENDS and event.data.get("part") is None]
    return {
        **_line(made, portfolio),
        "reason": " ".join(_reasons(portfolio, made.data)),
        "rule": text.rule(portfolio.statements()),
        "proposals": list(_proposals(portfolio, made.data)),
        "state": ends[-1].kind if ends else "open",
        "reward": ends[-1].data["reward"] if ends and "reward" in ends[-1].data else None,
        "trail": [_trail(event) for event in events],
    }


def recent(hosted: Hosted, name: str | None = None) -> list[Config]:
    """The newest decisions, of one learner or of all."""
    events = [event for event in hosted.latest("decided") if name is None or event.data["name"] == name]
    return [_line(event, hosted.portfolio) for event in events[:MAX_RECENT]]


def _line(event: Event, portfolio: Portfolio) -> Config:
    decided = Decided.of(Decision.of_event(event.data), portfolio.learner_names)
    return {"time": event.time, "round": event.data["round"], **asdict(decided)}


def _reasons(portfolio: Portfolio, data: Any) -> Iterator[str]:
    data, left_out = old_forms.decided(data)
    names = portfolio.learner_names
    if data["choice"] is not None:
        choice = Choice(*data["choice"])
        drawn = names[choice.learner]
        if data["available"] is not None:
            yield f"Of {len(names):,} learners, {len(data['available']):,} could be drawn in this round."
        if choice.probability == 1.0:
            yield f"{drawn} was drawn because the rule of the selector named it, with probability 1."
        elif not isnan(choice.probability):
            yield f"{drawn} was drawn: it had the probability {choice.probability:.3g}."
    for i, error in data["failures"]:
        yield f"{names[i]} was asked, but failed ({error})."
    if data["fallback"]:
        yield "No learner could act, so the fallback action was taken."
    elif data["choice"] is None:
        yield "The round was used for exploration: an offered action was drawn uniformly, for no learner."
    elif data["learner"] != choice.learner:
        yield f"{data['name']} acted as the substitute of {drawn}, which gets the credit."
    elif choice.greedy:
        yield "Its best action by its own estimates was played."
    if left_out:
        yield "The round does not count as evidence, because the context had a part in who played it."


def _proposals(portfolio: Portfolio, data: Any) -> Iterator[Config]:
    names, ids = portfolio.learner_names, getattr(data["context"], "ids", None)
    for i, row in data["proposals"].items():
        proposal = Proposal(*row)
        action = plain(proposal.action)
        yield {
            "learner": names[int(i)],
            "played": int(i) == data["learner"],
            "action": action,
            "action_id": ids[action] if ids is not None and isinstance(action, int) else None,
            **{name: short(getattr(proposal, name)) for name in ("lower", "value", "probability", "regret")},
        }


def _trail(event: Event) -> Config:
    shown = {key: plain(value) for key, value in event.data.items() if key not in HIDDEN}
    rest = {key: value for key, value in shown.items() if value is not None and value is not False and value != []}
    return {"seq": event.seq, "kind": event.kind, "time": event.time, "data": rest}
