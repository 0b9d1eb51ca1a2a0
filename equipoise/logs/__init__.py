"""Logs of other systems: readers, health checks, off-policy estimates and replay. Needs the extra `logs`."""

from __future__ import annotations

from equipoise.logs.arrays import from_arrays, from_bandit_feedback
from equipoise.logs.formats import open_log
from equipoise.logs.rounds import InvalidLog, LoggedRounds, Rounds

__all__ = ["InvalidLog", "LoggedRounds", "Rounds", "from_arrays", "from_bandit_feedback", "open_log"]
