"""A portfolio: several learners and the selector that chooses among them."""

from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.events import Event
from equipoise.portfolio.portfolio import Portfolio

__all__ = ["Decision", "Event", "Portfolio"]
