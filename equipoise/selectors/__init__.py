"""Selectors, one algorithm per file. The registry is what the contract suite and the command line enumerate."""

from __future__ import annotations

from typing import Any

from equipoise.selectors.adversarial_elimination import AdversarialElimination
from equipoise.selectors.balanced_elimination import BalancedElimination
from equipoise.selectors.corral import Corral
from equipoise.selectors.epoch_balancing import EpochBalancing
from equipoise.selectors.stochastic_corral import StochasticCorral
from equipoise.selectors.tsallis_corral import TsallisCorral
from equipoise.selectors.ucbc import UCBC
from equipoise.selectors.uniform import Uniform

SELECTORS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        BalancedElimination,
        EpochBalancing,
        AdversarialElimination,
        Uniform,
        Corral,
        StochasticCorral,
        TsallisCorral,
        UCBC,
    )
}

__all__ = [
    "SELECTORS",
    "UCBC",
    "AdversarialElimination",
    "BalancedElimination",
    "Corral",
    "EpochBalancing",
    "StochasticCorral",
    "TsallisCorral",
    "Uniform",
]
