"""Learners of other libraries. Nothing here imports a library before a learner that needs it is created.

`Exploring` turns a regression (`Sklearn`, `LightGBM`, `XGBoost`, `River`) into a learner; `VW` and `MABWiser` are the
bandits of these libraries. `ADAPTERS` is the registry by which files and configurations name them.
"""

from __future__ import annotations

from typing import Any

from equipoise.adapters.exploring import EXPLORATIONS, Epsilon, Exploring, InverseGap, Softmax
from equipoise.adapters.mab_wiser import MABWiser
from equipoise.adapters.model import Model
from equipoise.adapters.models import MODELS, LightGBM, River, Sklearn, XGBoost
from equipoise.adapters.vowpal_wabbit import VW

ADAPTERS: dict[str, type[Any]] = {cls.__name__: cls for cls in (Exploring, VW, MABWiser)}

__all__ = [
    "ADAPTERS",
    "EXPLORATIONS",
    "MODELS",
    "VW",
    "Epsilon",
    "Exploring",
    "InverseGap",
    "LightGBM",
    "MABWiser",
    "Model",
    "River",
    "Sklearn",
    "Softmax",
    "XGBoost",
]
