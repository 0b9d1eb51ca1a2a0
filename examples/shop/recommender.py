"""A learner of the shop's own: the best offer for each kind of visitor, from a model server that can fail.

The model server is a file here: while it exists, the server is down, and `decide` raises an error as a real call would.
"""

from __future__ import annotations

import os
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.features import Offers

OUTAGE = "SHOP_MODEL_SERVER_DOWN"  # names the file
N_OFFERS, N_KINDS = 4, 4


class Recommender:
    """Optimistic means of the offers, kept apart for phones and returning visitors."""

    def __init__(self, name: str = "recommender") -> None:
        self.name = name
        self.plays = np.zeros((N_KINDS, N_OFFERS))
        self.rewards = np.zeros((N_KINDS, N_OFFERS))

    def __repr__(self) -> str:
        return "Recommender()"

    def decide(self, visitor: Offers) -> int:
        if Path(os.environ.get(OUTAGE, "/nowhere")).exists():
            raise ConnectionError("the model server does not answer")
        plays, rewards = self.plays[kind_of(visitor)], self.rewards[kind_of(visitor)]
        if not plays.all():
            return int(plays.argmin())
        return int((rewards / plays + np.sqrt(0.3 * log(plays.sum()) / plays)).argmax())

    def learn(self, visitor: Offers, offer: int, reward: float) -> None:
        self.plays[kind_of(visitor), offer] += 1
        self.rewards[kind_of(visitor), offer] += reward

    def config(self) -> dict[str, Any]:
        return {"name": self.name}

    def state(self) -> dict[str, Any]:
        return {"plays": self.plays.copy(), "rewards": self.rewards.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.plays, self.rewards = np.array(state["plays"]), np.array(state["rewards"])


def kind_of(visitor: Offers) -> int:
    phone, returning = (int(x > 0.5) for x in np.asarray(visitor.shared)[:2])
    return 2 * phone + returning
