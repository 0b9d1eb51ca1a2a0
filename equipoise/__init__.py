"""Online model selection for bandits and reinforcement learning, with proofs attached.

You have several learning algorithms, or several settings of one, and do not know which fits your problem. A `Portfolio`
plays them against each other on the live problem, keeps their candidate regret bounds in balance, drops a learner once
its own rewards disprove its bound, and can show at any time how much regret it can possibly have run up.
"""

from __future__ import annotations

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import bounds, errors, learners, selectors
from equipoise.certificates import Certificate, Elimination, EpochEnd, Standing
from equipoise.learner import Learner, Proposal
from equipoise.learners import Ball
from equipoise.learners._core.linear_class import LinearClass
from equipoise.portfolio.portfolio import Decision, Portfolio
from equipoise.problem import Problem
from equipoise.selector import Choice, Selector

if TYPE_CHECKING:
    from equipoise import problems
    from equipoise.lab.runs.results import load_results
    from equipoise.simulation.api import simulate

__all__ = [
    "Ball",
    "Certificate",
    "Choice",
    "Decision",
    "Elimination",
    "EpochEnd",
    "Learner",
    "LinearClass",
    "Portfolio",
    "Problem",
    "Proposal",
    "Selector",
    "Standing",
    "bounds",
    "errors",
    "learners",
    "load_results",
    "problems",
    "selectors",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # Whoever serves decisions should wait neither for problems to simulate nor for the compiler.
    if name == "problems":
        return import_module("equipoise.problems")
    if name == "load_results":
        from equipoise.lab.runs.results import load_results

        return load_results
    if name == "simulate":
        from equipoise.simulation.api import simulate

        return simulate
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
