"""A portfolio: several learners and the selector that chooses among them."""

from equipoise.portfolio.events import Event
from equipoise.portfolio.portfolio import Portfolio
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.portfolio.tickets import Decision

__all__ = ["Decision", "Event", "Portfolio", "PortfolioSettings"]
