"""Selectors and learners of the literature that run in simulations only, one algorithm per file.

The suite compares them with the selectors and learners of the package. A portfolio refuses them, and files cannot name
them.
"""

from __future__ import annotations

from typing import Any

from equipoise.lab.rivals.alb_dim import ALBDim
from equipoise.lab.rivals.alb_norm import ALBNorm
from equipoise.lab.rivals.explore_commit_exploit import ExploreCommitExploit
from equipoise.lab.rivals.misspecification_adaptive import MisspecificationAdaptive
from equipoise.lab.rivals.modcb import ModCB
from equipoise.lab.rivals.osom import OSOM
from equipoise.lab.rivals.rate_adaptive import RateAdaptive
from equipoise.lab.rivals.stochastic_corral import StochasticCorral
from equipoise.lab.rivals.stochastic_exp3p import StochasticEXP3P
from equipoise.lab.rivals.tsallis_corral import TsallisCorral
from equipoise.lab.rivals.ucbc import UCBC

RIVAL_SELECTORS: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (ExploreCommitExploit, RateAdaptive, StochasticCorral, StochasticEXP3P, TsallisCorral, UCBC)
}
RIVAL_LEARNERS: dict[str, type[Any]] = {
    cls.__name__: cls for cls in (ModCB, OSOM, ALBNorm, ALBDim, MisspecificationAdaptive)
}

__all__ = [
    "OSOM",
    "RIVAL_LEARNERS",
    "RIVAL_SELECTORS",
    "UCBC",
    "ALBDim",
    "ALBNorm",
    "ExploreCommitExploit",
    "MisspecificationAdaptive",
    "ModCB",
    "RateAdaptive",
    "StochasticCorral",
    "StochasticEXP3P",
    "TsallisCorral",
]
