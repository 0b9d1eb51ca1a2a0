"""Problems, one family per file. The registry is what the contract suite and the command line enumerate."""

from __future__ import annotations

from typing import Any

from equipoise.problems.k_armed_bandit import KArmedBandit
from equipoise.problems.linear_bandit import LinearBandit
from equipoise.problems.table_bandit import TableBandit

PROBLEMS: dict[str, type[Any]] = {cls.__name__: cls for cls in (KArmedBandit, LinearBandit, TableBandit)}

__all__ = ["PROBLEMS", "KArmedBandit", "LinearBandit", "TableBandit"]
