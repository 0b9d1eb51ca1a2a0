"""Learners of other libraries. Nothing here imports a library before a learner that needs it is created.

`Exploring` turns a regression (`Sklearn`, `LightGBM`, `XGBoost`, `River`, `Network`) into a learner, `Bootstrapped` a
committee of them, and `NeuralLinear` the features of a `Network`. `VW` and `MABWiser` are the bandits of these
libraries. `ADAPTERS` is the registry by which files and configurations name them.
"""

from __future__ import annotations

from typing import Any

from equipoise.adapters.bootstrapped import Bootstrapped
from equipoise.adapters.exploring import EXPLORATIONS, Epsilon, Exploring, InverseGap, Softmax
from equipoise.adapters.mab_wiser import MABWiser
from equipoise.adapters.model import Model
from equipoise.adapters.models import MODELS, LightGBM, Network, River, Sklearn, XGBoost
from equipoise.adapters.neural_linear import NeuralLinear
from equipoise.adapters.vowpal_wabbit import VW

ADAPTERS: dict[str, type[Any]] = {cls.__name__: cls for cls in (Exploring, Bootstrapped, NeuralLinear, VW, MABWiser)}

__all__ = [
    "ADAPTERS",
    "EXPLORATIONS",
    "MODELS",
    "VW",
    "Bootstrapped",
    "Epsilon",
    "Exploring",
    "InverseGap",
    "LightGBM",
    "MABWiser",
    "Model",
    "Network",
    "NeuralLinear",
    "River",
    "Sklearn",
    "Softmax",
    "XGBoost",
]
