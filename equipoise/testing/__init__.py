"""Test suites for your own learners, selectors and problems."""

from __future__ import annotations

from equipoise.testing.learners import check_learner
from equipoise.testing.problems import check_problem
from equipoise.testing.selectors import check_selector

__all__ = ["check_learner", "check_problem", "check_selector"]
