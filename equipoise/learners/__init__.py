"""Learners, one algorithm per file. The registry is what the contract suite and the command line enumerate."""

from __future__ import annotations

from typing import Any

from equipoise.learners.ball import Ball
from equipoise.learners.constant import Constant
from equipoise.learners.epsilon_greedy import EpsilonGreedy
from equipoise.learners.linear_thompson import LinearThompson
from equipoise.learners.oful import OFUL
from equipoise.learners.ucb import UCB

LEARNERS: dict[str, type[Any]] = {cls.__name__: cls for cls in (OFUL, UCB, EpsilonGreedy, LinearThompson, Constant)}

__all__ = ["LEARNERS", "OFUL", "UCB", "Ball", "Constant", "EpsilonGreedy", "LinearThompson"]
