"""Online model selection for contextual bandits and reinforcement learning.

If you have several learning algorithms, or one algorithm with several settings, and do not know which one fits your
problem, a `Portfolio` runs them on live traffic, moves the traffic to the best one, and proves at any time how much
regret the search has cost at most.
"""

from __future__ import annotations

__version__ = "0.2.0"

from importlib import import_module
from typing import TYPE_CHECKING, Any

from equipoise import bounds, errors, features
from equipoise.certificates import Certificate, Elimination, EpochEnd, Standing
from equipoise.features import Offers
from equipoise.learner import Learner, Proposal
from equipoise.portfolio import Decision, Portfolio
from equipoise.problem import Problem
from equipoise.selector import Choice, Selector
from equipoise.storage.parts import load, save

if TYPE_CHECKING:
    from equipoise import learners, problems, selectors
    from equipoise.journal.opening import open
    from equipoise.lab.runs.results import load_results
    from equipoise.learners import Ball, LinearClass
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
    "Offers",
    "Portfolio",
    "Problem",
    "Proposal",
    "Selector",
    "Standing",
    "bounds",
    "errors",
    "features",
    "learners",
    "load",
    "load_results",
    "open",
    "problems",
    "save",
    "selectors",
    "simulate",
]


# Loaded on first access, so that a service loads only what it uses.
_FOLDERS = ("learners", "problems", "selectors")
_LAZY = {
    "Ball": "equipoise.learners",
    "LinearClass": "equipoise.learners",
    "load_results": "equipoise.lab.runs.results",
    "open": "equipoise.journal.opening",
    "simulate": "equipoise.simulation.api",
}


def __getattr__(name: str) -> Any:
    if name in _FOLDERS:
        return import_module(f"equipoise.{name}")
    if name in _LAZY:
        if name == "simulate":
            errors.require("equipoise.simulate", "numba")
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'equipoise' has no attribute {name!r}")
