"""Open Bandit Pipeline: LinUCB with one model per action, all on the same context.

obp imports torch for its neural learners, which are not timed; an empty module stands in for those gigabytes.
"""

import sys
from types import ModuleType
from typing import Any


class Hollow(ModuleType):
    """A module that has whatever is asked of it: classes by capital letter, else modules."""

    __path__ = ()  # it passes for a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else Hollow(name)


for name in ("torch", "torch.nn", "torch.optim", "torch.utils", "torch.utils.data"):
    sys.modules.setdefault(name, Hollow(name))

from obp.policy import LinUCB  # noqa: E402 - after what stands in for torch

RUNS = "policy.LinUCB(epsilon=width), a model per action, ridge 1"


class Peer:
    def __init__(self, dim: int, n_actions: int, width: float, ridge: float, seed: int) -> None:
        self.policy = LinUCB(dim=dim, n_actions=n_actions, epsilon=width, random_state=seed)

    def prepare(self, actions: Any) -> Any:
        return actions[:1].copy()

    def decide(self, context: Any) -> int:
        return int(self.policy.select_action(context)[0])

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.policy.update_params(action, reward, context)
