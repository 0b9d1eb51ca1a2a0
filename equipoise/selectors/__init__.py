"""Selectors, one algorithm per file. The contract suite and the command line enumerate the registry `SELECTORS`."""

from __future__ import annotations

from typing import Any

from equipoise.selectors.adversarial_elimination import AdversarialElimination
from equipoise.selectors.balanced_elimination import BalancedElimination
from equipoise.selectors.corral import Corral
from equipoise.selectors.counterfactual_balancing import CounterfactualBalancing
from equipoise.selectors.d3rb import D3RB
from equipoise.selectors.dynamic_balancing import DynamicBalancing
from equipoise.selectors.ed2rb import ED2RB
from equipoise.selectors.epoch_balancing import EpochBalancing
from equipoise.selectors.exp3 import EXP3
from equipoise.selectors.greedy_mean import GreedyMean
from equipoise.selectors.oracle import Oracle
from equipoise.selectors.realized_balancing import RealizedBalancing
from equipoise.selectors.regret_balancing import RegretBalancing
from equipoise.selectors.ucb1 import UCB1
from equipoise.selectors.uniform import Uniform

SELECTORS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        BalancedElimination,
        EpochBalancing,
        AdversarialElimination,
        RealizedBalancing,
        CounterfactualBalancing,
        RegretBalancing,
        DynamicBalancing,
        D3RB,
        ED2RB,
        Uniform,
        Corral,
        GreedyMean,
        UCB1,
        EXP3,
        Oracle,
    )
}

__all__ = [
    "D3RB",
    "ED2RB",
    "EXP3",
    "SELECTORS",
    "UCB1",
    "AdversarialElimination",
    "BalancedElimination",
    "Corral",
    "CounterfactualBalancing",
    "DynamicBalancing",
    "EpochBalancing",
    "GreedyMean",
    "Oracle",
    "RealizedBalancing",
    "RegretBalancing",
    "Uniform",
]
