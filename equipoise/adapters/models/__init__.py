"""Models of other libraries; `MODELS` is the registry that configurations use. None imports its library yet."""

from __future__ import annotations

from equipoise.adapters.model import Model
from equipoise.adapters.models.boosted_trees import LightGBM, XGBoost
from equipoise.adapters.models.network import Network
from equipoise.adapters.models.river import River
from equipoise.adapters.models.scikit_learn import Sklearn

MODELS: dict[str, type[Model]] = {cls.__name__: cls for cls in (Sklearn, LightGBM, XGBoost, River, Network)}

__all__ = ["MODELS", "LightGBM", "Network", "River", "Sklearn", "XGBoost"]
