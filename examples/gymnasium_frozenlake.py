"""Which agent for FrozenLake? Four learners play the stock environment, episode by episode, and a selector divides the
episodes among them by what they earn.

    python examples/gymnasium_frozenlake.py [--episodes N] [--picture FILE]

Two are model-based (UCBVI, with a bonus as printed and a small one), one is Q-learning, and one is LSVI-UCB on features
so coarse, the row and the column alone, that it cannot tell ice from holes. No regret bound is known that could be
trusted here, so each learner gets the same modest candidate bound, and those whose returns contradict it are
eliminated. The picture shows the returns of all episodes and the share of them that each learner played.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import gymnasium
import numpy as np
from numpy.typing import NDArray

from equipoise import Learner, Portfolio, rl
from equipoise.bounds import Power
from equipoise.learners import LSVI_UCB, UCBVI, QLearning
from equipoise.selectors import BalancedElimination

HORIZON = 30


def rows_and_columns(n_states: int, n_actions: int) -> NDArray[np.float64]:
    """For each action one feature per row and one per column of the map, scaled to norm 1."""
    side = round(n_states**0.5)
    features = np.zeros((n_states, n_actions, 2 * side * n_actions))
    for state in range(n_states):
        for action in range(n_actions):
            row, column = divmod(state, side)
            features[state, action, action * 2 * side + row] = 0.5**0.5
            features[state, action, action * 2 * side + side + column] = 0.5**0.5
    return features


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=6000)
    parser.add_argument("--picture", type=Path, default=Path("results/frozenlake.png"))
    arguments = parser.parse_args()
    episodes = arguments.episodes

    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=HORIZON)
    n_states, n_actions = env.observation_space.n, env.action_space.n  # type: ignore[attr-defined]
    sizes = {"horizon": HORIZON, "episodes": episodes}
    learners: list[Learner] = [
        UCBVI(n_states, n_actions, **sizes, name="UCBVI, printed bonus"),
        UCBVI(n_states, n_actions, **sizes, bonus=0.0005, name="UCBVI, small bonus"),
        QLearning(n_states, n_actions, **sizes, bonus=0.0005, name="Q-learning"),
        LSVI_UCB(
            rows_and_columns(n_states, n_actions),
            **sizes,
            bonus=0.001,
            low_switching=True,
            name="LSVI-UCB, rows and columns",
        ),
    ]
    # At most one step of an episode pays, so returns lie in [0, 1] although episodes have up to 30 steps.
    selector = BalancedElimination([Power(20.0)] * len(learners), reward_range=(0.0, 1.0))
    portfolio = Portfolio(learners, selector, seed=0)
    portfolio.on_elimination(
        lambda event: print(f"Episode {event.round:,}: {learners[event.learner.index].name} is eliminated")
    )
    results = rl.run(env, portfolio, episodes, seed=1, return_range=(0.0, 1.0))

    print(f"\n{'':<28} {'episodes':>9} {'mean return':>12} {'last tenth':>11}")
    for i, standing in enumerate(portfolio.standing()):
        own = results.returns[results.learners == i]
        late = own[-max(len(own) // 10, 1) :].mean()
        out = "" if standing.active else "  eliminated"
        print(f"{learners[i].name:<28} {standing.plays:>9,} {standing.mean_reward:>12.3f} {late:>11.3f}{out}")
    print(f"\n{portfolio.certificate().describe()}")
    draw(results, [learner.name for learner in learners], arguments.picture)
    print(f"Written: {arguments.picture}")


def draw(results: rl.Episodes, names: list[str], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_episodes = len(results.returns)
    window = max(n_episodes // 60, 1)
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(8, 6), sharex=True, layout="constrained")
    for i, name in enumerate(names):
        own = np.flatnonzero(results.learners == i)
        if len(own) >= window:
            smooth = np.convolve(results.returns[own], np.ones(window) / window, "valid")
            # The first is drawn thick: learners that never earn anything lie on one line.
            top.plot(own[window - 1 :] + 1, smooth, linewidth=1.5 if i else 4.0, label=name)
    smooth = np.convolve(results.returns, np.ones(window) / window, "valid")
    top.plot(np.arange(window, n_episodes + 1), smooth, color="black", linewidth=2, label="portfolio")
    top.set_ylabel(f"return, mean of {window} episodes")
    figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
    ends = np.arange(window, n_episodes + 1, window)
    shares = [[np.mean(results.learners[end - window : end] == i) for end in ends] for i in range(len(names))]
    bottom.stackplot(ends - window / 2, shares)
    bottom.set_ylabel("share of the episodes played")
    bottom.set_ylim(0, 1)
    bottom.margins(x=0)
    bottom.set_xlabel("episode")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
