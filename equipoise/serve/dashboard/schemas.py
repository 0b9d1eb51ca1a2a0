"""What the dashboard's routes answer, as types."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

SPAN_PATTERN = "^(15m|2h|1d|1w|90d|all)$"
ID_PATTERN = "^[ -~]{1,200}$"


class Overview(Struct):
    """The portfolios that the token may read, at a glance, and what the token allows."""

    version: str
    time: float
    token: str
    scopes: list[str]
    admin: list[str]  # names of the portfolios that it may change
    portfolios: list[dict[str, Any]]


class View(Struct):
    """Everything about a portfolio that its page shows beside the charts."""

    view: dict[str, Any]


class Columns(Struct):
    """Samples over a span of time, or over all rounds, as columns."""

    span: str
    names: list[str]
    columns: dict[str, Any]


class LearnerView(Struct):
    """Why a learner plays as often as it does, what is proved about it, and its newest decisions."""

    learner: dict[str, Any]
    decisions: list[dict[str, Any]]


class DecisionView(Struct):
    """Who proposed what, why this learner played, the reward and the trail of events; without the context."""

    decision: dict[str, Any]


class DecisionList(Struct):
    """The newest decisions."""

    decisions: list[dict[str, Any]]
