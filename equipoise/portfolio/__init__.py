"""A portfolio: several learners and the selector that chooses among them."""

from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.portfolio import Portfolio

__all__ = ["Decision", "Portfolio"]
