"""River: LinUCB with one Bayesian regression per action, all on the same context.

Its upper bound is mean plus posterior standard deviation; alpha = beta = 1/width^2 makes that the width asked for, with
ridge 1, but for the variance of the noise, which it counts in.
"""

from typing import Any

from river import bandit

RUNS = "bandit.LinUCBDisjoint(alpha=1/width^2, beta=1/width^2), a model per action"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.policy = bandit.LinUCBDisjoint(alpha=ridge / width**2, beta=1.0 / width**2, seed=seed)
        self.actions = list(range(n_actions))

    def prepare(self, actions: Any) -> dict[int, float]:
        return dict(enumerate(actions[0].tolist()))

    def decide(self, context: dict[int, float]) -> int:
        return int(self.policy.pull(self.actions, context))

    def learn(self, context: dict[int, float], action: int, reward: float) -> None:
        self.policy.update(action, context, reward)
