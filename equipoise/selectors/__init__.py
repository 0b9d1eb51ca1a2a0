"""Selectors, one algorithm per file. The registry is what the contract suite and the command line enumerate."""

from __future__ import annotations

from typing import Any

from equipoise.selectors.adversarial_elimination import AdversarialElimination
from equipoise.selectors.balanced_elimination import BalancedElimination
from equipoise.selectors.epoch_balancing import EpochBalancing
from equipoise.selectors.uniform import Uniform

SELECTORS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        BalancedElimination,
        EpochBalancing,
        AdversarialElimination,
        Uniform,
    )
}

__all__ = [
    "SELECTORS",
    "AdversarialElimination",
    "BalancedElimination",
    "EpochBalancing",
    "Uniform",
]
