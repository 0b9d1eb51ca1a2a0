"""Online model selection for contextual bandits and reinforcement learning.

If you have several learning algorithms, or one algorithm with several settings, and do not know which one fits your
problem, a `Portfolio` runs them on live traffic, moves the traffic to the best one, and proves at any time how much
regret the search has cost at most.
"""

from __future__ import annotations

__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import bounds, errors, learners, selectors
from equipoise.certificates import Certificate, Elimination, EpochEnd, Standing
from equipoise.learner import Learner, Proposal
from equipoise.learners import Ball, LinearClass
from equipoise.portfolio import Decision, Portfolio
from equipoise.problem import Problem
from equipoise.selector import Choice, Selector
from equipoise.storage.parts import load, save

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
    "load",
    "load_results",
    "problems",
    "save",
    "selectors",
    "simulate",
]


def __getattr__(name: str) -> Any:
    # Lazy, so that a service loads neither simulated problems nor the compiler.
    if name == "problems":
        return import_module("equipoise.problems")
    if name == "load_results":
        from equipoise.lab.runs.results import load_results

        return load_results
    if name == "simulate":
        from equipoise.simulation.api import simulate

        return simulate
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
