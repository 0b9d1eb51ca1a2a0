"""Problems, one family per file. `PROBLEMS` is the registry used by the contract suite and the command line."""

from __future__ import annotations

from typing import Any

from equipoise.problems.adversarial_bandit import AdversarialBandit
from equipoise.problems.adversaries import Hiding, Predicting, Punishing, Switching
from equipoise.problems.combination_lock import CombinationLock
from equipoise.problems.disjoint_linear_bandit import DisjointLinearBandit
from equipoise.problems.drifting_bandit import DriftingBandit
from equipoise.problems.gap_bandit import GapBandit
from equipoise.problems.k_armed_bandit import KArmedBandit
from equipoise.problems.linear_bandit import LinearBandit
from equipoise.problems.linear_mdp import LinearMDP
from equipoise.problems.misspecified_linear_bandit import MisspecifiedLinearBandit
from equipoise.problems.river_swim import RiverSwim
from equipoise.problems.sequence_bandit import SequenceBandit
from equipoise.problems.table_bandit import TableBandit

_FIXED = (KArmedBandit, GapBandit, LinearBandit, TableBandit, MisspecifiedLinearBandit, DisjointLinearBandit)
_CHANGING = (AdversarialBandit, SequenceBandit, DriftingBandit)
_EPISODIC = (LinearMDP, RiverSwim, CombinationLock)
PROBLEMS: dict[str, type[Any]] = {cls.__name__: cls for cls in (*_FIXED, *_CHANGING, *_EPISODIC)}

__all__ = [
    "PROBLEMS",
    "AdversarialBandit",
    "CombinationLock",
    "DisjointLinearBandit",
    "DriftingBandit",
    "GapBandit",
    "Hiding",
    "KArmedBandit",
    "LinearBandit",
    "LinearMDP",
    "MisspecifiedLinearBandit",
    "Predicting",
    "Punishing",
    "RiverSwim",
    "SequenceBandit",
    "Switching",
    "TableBandit",
]
