"""A portfolio: learners and a selector, held together by decisions that are tickets."""

from equipoise.portfolio.portfolio import Decision, Portfolio

__all__ = ["Decision", "Portfolio"]
