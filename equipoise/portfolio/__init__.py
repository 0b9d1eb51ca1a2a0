"""A portfolio: learners and a selector, held together by decisions that are tickets."""

from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.portfolio import Portfolio

__all__ = ["Decision", "Portfolio"]
