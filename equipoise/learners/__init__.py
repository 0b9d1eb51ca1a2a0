"""Learners, one algorithm per file. `LEARNERS` is the registry used by the contract suite and the command line."""

from __future__ import annotations

from typing import Any

from equipoise.learners._core.ball import Ball
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners.constant import Constant
from equipoise.learners.disjoint_oful import DisjointOFUL
from equipoise.learners.eleanor import Eleanor
from equipoise.learners.epsilon_greedy import EpsilonGreedy
from equipoise.learners.linear_thompson import LinearThompson
from equipoise.learners.logistic_thompson import LogisticThompson
from equipoise.learners.logistic_ucb import LogisticUCB
from equipoise.learners.lsvi_ucb import LSVI_UCB
from equipoise.learners.oful import OFUL
from equipoise.learners.q_learning import QLearning
from equipoise.learners.scheduled import Scheduled
from equipoise.learners.square_cb import SquareCB
from equipoise.learners.ucb import UCB
from equipoise.learners.ucbvi import UCBVI

_LOGISTIC = (LogisticUCB, LogisticThompson)
_OF_ACTIONS = (OFUL, DisjointOFUL, UCB, EpsilonGreedy, LinearThompson, SquareCB, *_LOGISTIC, Constant)
_OF_EPISODES = (LSVI_UCB, UCBVI, QLearning, Eleanor)
LEARNERS: dict[str, type[Any]] = {cls.__name__: cls for cls in (*_OF_ACTIONS, *_OF_EPISODES, Scheduled)}

__all__ = [
    "LEARNERS",
    "LSVI_UCB",
    "OFUL",
    "UCB",
    "UCBVI",
    "Ball",
    "Constant",
    "DisjointOFUL",
    "Eleanor",
    "EpsilonGreedy",
    "LinearClass",
    "LinearThompson",
    "LogisticThompson",
    "LogisticUCB",
    "QLearning",
    "Scheduled",
    "SquareCB",
]
