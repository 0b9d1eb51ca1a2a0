"""Selectors, one algorithm per file. The registry is what the contract suite and the command line enumerate."""

from __future__ import annotations

from typing import Any

from equipoise.selectors.balanced_elimination import BalancedElimination

SELECTORS: dict[str, type[Any]] = {cls.__name__: cls for cls in (BalancedElimination,)}

__all__ = ["SELECTORS", "BalancedElimination"]
