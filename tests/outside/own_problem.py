"""Problems written from the `Problem` Protocol: one with all that is required, one that also knows its gaps."""

from typing import Any

import numpy as np


class Coins:
    """Offers the same coins in every round; a reward of 1 is heads."""

    def __init__(self, chances: tuple[float, ...] = (0.3, 0.5, 0.8)) -> None:
        self.chances = chances

    def observe(self, rng: np.random.Generator) -> Any:
        return np.eye(len(self.chances))

    def respond(self, context: Any, action: Any, rng: np.random.Generator) -> float:
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(self.chances):
            raise ValueError(f"action is {action!r}, but must be a coin")
        return float(rng.random() < self.chances[action])


class KnownCoins(Coins):
    """Coins that also say what an action loses, and that rounds are independent."""

    name = "known coins"
    iid = True

    def gap(self, context: Any, action: Any) -> float:
        if isinstance(action, bool) or not isinstance(action, int | np.integer) or not 0 <= action < len(self.chances):
            raise ValueError(f"action is {action!r}, but must be a coin")
        return max(self.chances) - self.chances[action]

    def config(self) -> dict[str, Any]:
        return {"chances": list(self.chances)}
