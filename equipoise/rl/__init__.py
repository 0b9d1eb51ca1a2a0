"""Reinforcement learning: finite decision processes as gymnasium environments, and portfolios in any environment.

Importing this module imports gymnasium. Learners and problems for finite processes are in `equipoise.learners` and
`equipoise.problems`.
"""

from __future__ import annotations

from equipoise.errors import MissingExtra

try:
    import gymnasium  # noqa: F401
except ModuleNotFoundError:
    raise MissingExtra("equipoise.rl", "gymnasium", "rl") from None

from equipoise.learners._core.trajectory import Trajectory
from equipoise.rl.environments import CombinationLock, LinearMDP, RiverSwim
from equipoise.rl.feature_lsvi import FeatureLSVI
from equipoise.rl.running import Episodes, Scale, run

__all__ = ["CombinationLock", "Episodes", "FeatureLSVI", "LinearMDP", "RiverSwim", "Scale", "Trajectory", "run"]
