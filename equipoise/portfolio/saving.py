"""A portfolio as plain data, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

from equipoise.learner import MinimalLearner
from equipoise.portfolio.counts import Counts
from equipoise.portfolio.deadlines import deadline_to_plain
from equipoise.portfolio.events import Listeners, logger
from equipoise.portfolio.state import PortfolioState
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Selector
from equipoise.storage.parts import describe_part, rebuild_learners, rebuild_selector
from equipoise.types import Config, Plain

AnyPortfolio = TypeVar("AnyPortfolio", bound=PortfolioState)


def state(portfolio: PortfolioState) -> Config:
    """Everything: settings, learned state, open decisions."""
    return {
        "learners": [
            None if member.learner is None else describe_part(member.learner.learner) for member in portfolio._members
        ],
        "members": [member.state() for member in portfolio._members],
        "selector": describe_part(portfolio._selector),
        "settings": {
            "seed": portfolio.seed,
            "share_data": portfolio.share_data,
            "deadline": deadline_to_plain(portfolio.deadline),
            "default_reward": portfolio.default_reward,
            "aggregate": portfolio.aggregate,
            "delays": portfolio.delays,
            "window": portfolio.window,
            "fallback": None if callable(portfolio.fallback) else portfolio.fallback,
            "explore": portfolio.explore,
            "availability": portfolio.availability,
            "reward_range": portfolio.reward_range,
            "clip": portfolio.clip,
            "on_drift": portfolio.on_drift,
        },
        "recommendation": portfolio._recommendation,
        "drift": portfolio._drift.state(),
        "fallback_is_function": callable(portfolio.fallback),
        "round": portfolio._round,
        "expired_round": portfolio._expired_round,
        "time": portfolio._time,
        "counts": asdict(portfolio._counts),
        "history": portfolio._history.state(),
        "ids": portfolio._ids.state(),
        "callers": portfolio._callers.state(),
        "kept": portfolio._policies.state(),
        "tickets": [ticket.to_row() for ticket in portfolio._open.values()],
        "teaching": portfolio._teaching.state(),
    }


def rehearsal(portfolio: AnyPortfolio) -> AnyPortfolio:
    """A copy to try changes on: it tells nobody of them, not even the log."""
    copy = from_state(type(portfolio), state(portfolio), None, None)
    copy._listeners = Listeners(logs=False)
    return copy


def from_state(
    cls: type[AnyPortfolio],
    saved: Mapping[str, Plain],
    learners: Sequence[MinimalLearner] | None,
    selector: Selector | None,
) -> AnyPortfolio:
    """The portfolio that `state` described."""
    rows = [row for row in saved["learners"] if row is not None]
    given = iter(rebuild_learners(rows, learners))
    rebuilt = [None if row is None else next(given) for row in saved["learners"]]
    restored = rebuild_selector(saved["selector"], selector)
    restored.restore(saved["selector"]["state"])
    portfolio = cls.__new__(cls)
    # An earlier release watched for nothing, and what it kept of the past would not do for a watch.
    portfolio._set_up(rebuilt, restored, **{"on_drift": "ignore", **saved["settings"]})
    for member, part in zip(portfolio._members, saved["learners"], strict=True):
        if part is not None:
            member.adapted.restore(part["state"])
    for member, row in zip(portfolio._members, saved["members"], strict=True):
        member.restore(row)
    portfolio._round, portfolio._expired_round = saved["round"], saved["expired_round"]
    portfolio._time = saved["time"]
    portfolio._recommendation = saved.get("recommendation", "")  # not in files of earlier releases
    portfolio._counts = Counts(**saved["counts"])
    if "drift" in saved:  # nor this
        portfolio._drift.restore(saved["drift"])
    if "history" in saved:  # which files of earlier releases do not have
        portfolio._history.restore(saved["history"])
    portfolio._ids.restore(saved["ids"])
    portfolio._callers.restore(saved["callers"])
    portfolio._policies.restore(saved["kept"])
    tickets = [Ticket.from_row(row) for row in saved["tickets"]]
    portfolio._open = {ticket.id: ticket for ticket in tickets}
    portfolio._teaching.restore(saved["teaching"], tickets)
    if saved["fallback_is_function"]:
        logger.warning("the fallback of the saved portfolio was a function: give it again with reconfigure(fallback=)")
    return portfolio
