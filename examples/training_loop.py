"""A selector alone in a training loop of your own: which exploration rate to train with, episode by episode.

    python examples/training_loop.py [EPISODES]

Three agents learn to cross the frozen lake of Gymnasium by plain tabular Q-learning. They differ in how often they act
at random, and nobody knows beforehand which rate suits this lake. The selector chooses which agent gets the next
episode, sees the return, and does not need to know anything else about agents or environment.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium
import numpy as np

from equipoise.selectors import RealizedBalancing

RATES = (0.02, 0.3, 0.9)  # of random actions
EPISODES = 2_000
LEARNING_RATE, DISCOUNT = 0.3, 0.97


class Agent:
    """Tabular Q-learning with random actions at a fixed rate."""

    def __init__(self, n_states: int, n_actions: int, rate: float) -> None:
        self.values = np.zeros((n_states, n_actions))
        self.rate = rate

    def act(self, state: int, rng: np.random.Generator) -> int:
        row = self.values[state]
        if rng.random() < self.rate:
            return int(rng.integers(len(row)))
        return int(rng.choice(np.flatnonzero(row == row.max())))

    def learn(self, state: int, action: int, reward: float, following: int, ended: bool) -> None:
        target = reward if ended else reward + DISCOUNT * self.values[following].max()
        self.values[state, action] += LEARNING_RATE * (target - self.values[state, action])


def train(env: Any, agent: Agent, rng: np.random.Generator) -> float:
    """Train for one episode and return its return, which is 1 if the other side was reached, else 0."""
    state, total, ended, cut_off = int(env.reset()[0]), 0.0, False, False
    while not (ended or cut_off):
        action = agent.act(state, rng)
        following, reward, ended, cut_off, _ = env.step(action)
        agent.learn(state, action, float(reward), int(following), ended)
        state, total = int(following), total + float(reward)
    return total


def main(episodes: int) -> None:
    env: Any = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=60)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    agents = [Agent(env.observation_space.n, env.action_space.n, rate) for rate in RATES]
    selector = RealizedBalancing(len(agents))  # returns lie in [0, 1], the default range
    for _ in range(episodes):
        choice = selector.choose()
        selector.credit(choice, train(env, agents[choice.learner], rng))
    names = [f"rate {rate:g}" for rate in RATES]
    print(selector.certificate().describe(names))
    for row in selector.standing():
        print(row.describe(names[row.learner]))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else EPISODES)
