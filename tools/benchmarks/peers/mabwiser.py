"""MABWiser: LinUCB with a single arm, whose contexts are the features of the actions.

That gives one model for all actions, less regret and several times the speed of one arm per action.
"""

from typing import Any

from mabwiser.mab import MAB, LearningPolicy

RUNS = "LearningPolicy.LinUCB(alpha=width, l2_lambda=ridge), one arm, predict_expectations over the actions"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.mab = MAB([0], LearningPolicy.LinUCB(alpha=width, l2_lambda=ridge), seed=seed)
        self.fitted = False

    def prepare(self, actions: Any) -> Any:
        return actions

    def decide(self, context: Any) -> int:
        if not self.fitted:  # it refuses to predict before the first reward
            return 0
        scores = self.mab.predict_expectations(context)
        return max(range(len(scores)), key=lambda action: scores[action][0])

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.mab.partial_fit([0], [reward], context[action : action + 1])
        self.fitted = True
