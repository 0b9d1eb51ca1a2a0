"""A portfolio: learners and a selector, held together by decisions that are tickets."""

from equipoise.portfolio.portfolio import Portfolio
from equipoise.portfolio.decisions import Decision

__all__ = ["Decision", "Portfolio"]
