"""Training slices of stable-baselines3 agents: which learning rate gets the next slice of the training budget.

Three PPO agents with different learning rates balance a pole, and nobody knows beforehand which rate suits. A selector
gives one slice of training after the other to an agent, and sees the mean return of the episodes that ended in it. It
sees nothing of agents and environment, so any training that goes by slices can be chosen this way.

`learn(slice)` would end all schedules with the first slice. Here an agent is asked to learn its whole remaining budget
and a callback stops it when its slice is over. A slice begins with a new episode, and ends after a whole rollout, which
is then learned. Generators of torch and of the environment are not part of a saved agent, so a run that is resumed from
files does not repeat the original to the last bit.

    pip install 'equipoise[sb3]'
    python examples/stable_baselines3_slices.py [SLICES] [STEPS]
"""

import sys
from typing import Any

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from equipoise.selectors import RealizedBalancing

RATES = (1e-5, 1e-3, 3e-2)
SLICES, STEPS = 30, 1_024
ROLLOUT = 128  # steps after which PPO learns
LONGEST = 500.0  # the highest return of an episode


class Slice(BaseCallback):  # type: ignore[misc]  # untyped
    """Stops training after a number of steps, and collects the returns of the episodes that end meanwhile."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps, self.returns = steps, list[float]()

    def _on_training_start(self) -> None:
        self.last_step = self.num_timesteps + self.steps

    def _on_step(self) -> bool:
        if self.num_timesteps > self.last_step:  # the first step after the last rollout, which has been learned
            return False
        self.returns += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        return True


def train(agent: Any, steps: int, budget: int) -> float:
    """Train for one slice and return its reward: the mean return of its episodes as a share of the highest."""
    part = Slice(steps)
    agent.set_env(agent.get_env())  # with the next call a new episode begins
    agent.learn(budget - agent.num_timesteps, callback=part, reset_num_timesteps=False)
    return float(np.mean(part.returns)) / LONGEST if part.returns else 1.0  # no episode ended: the pole stayed up


def main(slices: int, steps: int) -> None:
    steps = -(-steps // ROLLOUT) * ROLLOUT
    budget = slices * (steps + 1)  # of each agent, if it were given all slices
    settings = {"n_steps": ROLLOUT, "n_epochs": 4, "device": "cpu", "seed": 0}
    agents = [PPO("MlpPolicy", "CartPole-v1", learning_rate=rate, **settings) for rate in RATES]
    selector = RealizedBalancing(len(agents))
    for _ in range(slices):
        choice = selector.choose()
        selector.credit(choice, train(agents[choice.learner], steps, budget))
    for rate, agent, row in zip(RATES, agents, selector.standing(), strict=True):
        returns = f"mean return {LONGEST * row.mean_reward:5.1f}"
        print(f"learning rate {rate:<6g} {row.plays:>3} slices, {agent.num_timesteps:>6,} steps, {returns}")


if __name__ == "__main__":
    main(*(int(given) for given in (*sys.argv[1:], *map(str, (SLICES, STEPS)[len(sys.argv) - 1 :]))))
