"""contextualbandits: LinUCB with one model per action, all on the same context."""

from typing import Any

import numpy as np
from contextualbandits.online import LinUCB

RUNS = "online.LinUCB(alpha=width, lambda_=ridge, method='sm', ucb_from_empty=True), a model per action"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.policy = LinUCB(
            n_actions,
            alpha=width,
            lambda_=ridge,
            fit_intercept=False,
            use_float=False,
            method="sm",
            ucb_from_empty=True,
            random_state=seed + 1,  # it takes no 0
            njobs=1,
        )

    def prepare(self, actions: Any) -> Any:
        return actions[:1].copy()

    def decide(self, context: Any) -> int:
        return int(self.policy.predict(context)[0])

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.policy.partial_fit(context, np.array([action]), np.array([reward]))
