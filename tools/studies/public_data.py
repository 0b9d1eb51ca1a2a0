"""Classification data of public packages as bandit problems: contexts are rows, actions are classes, reward 1 if right.

The data are those that scikit-learn brings along: handwritten digits (1,797 rows, 10 classes, 64 pixels reduced to 12
principal components), wine (178 rows, 3 classes, 13 features) and breast cancer (569 rows, 2 classes, 30 features).
Features are standardized and rows are scaled to a norm of at most 1; a round draws a row with replacement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from equipoise.adapters import VW, Epsilon, Exploring, InverseGap, LightGBM, Sklearn
from equipoise.learner import MinimalLearner
from equipoise.learners import OFUL, UCB, LinearThompson
from equipoise.logs import LoggedRounds, from_arrays
from equipoise.types import Array, Integers

N_COMPONENTS = 12  # of the digits
FLOOR = 0.4  # share of uniform actions in a log


class Problem(NamedTuple):
    """Rows with their classes."""

    name: str
    rows: Array
    labels: Integers

    @property
    def n_actions(self) -> int:
        return int(self.labels.max()) + 1

    @property
    def dim(self) -> int:
        """Columns of a context: a constant and the features of the row, for each action of its own."""
        return self.n_actions * (int(self.rows.shape[1]) + 1)

    def draw(self, rng: np.random.Generator, rounds: int) -> tuple[Array, Integers]:
        drawn = rng.integers(len(self.rows), size=rounds)
        return self.rows[drawn], self.labels[drawn]

    def contexts(self, rows: Array) -> Iterator[Array]:
        """As those of a log without features of offers: see `equipoise.logs.rounds.contexts`."""
        n = len(rows)
        log = from_arrays(rows, np.zeros(n, np.int64), np.zeros(n), np.ones(n), n_actions=self.n_actions)
        return (logged.context.actions for logged in log.each_round())

    def log(self, rounds: int, seed: int) -> LoggedRounds:
        """A log of a policy that has seen 50 labeled rows: nearest class mean, softened, above a uniform floor."""
        rng = np.random.default_rng([seed, 5])
        seen, labels = self.draw(rng, 50)
        overall = seen.mean(axis=0)
        means = np.stack(
            [seen[labels == k].mean(axis=0) if (labels == k).any() else overall for k in range(self.n_actions)]
        )
        rows, labels = self.draw(rng, rounds)
        scores = np.exp(3.0 * rows @ (means - overall).T)
        pmf = (1 - FLOOR) * scores / scores.sum(axis=1, keepdims=True) + FLOOR / self.n_actions
        actions = (pmf.cumsum(axis=1) > rng.random(rounds)[:, None] * (1 - 1e-12)).argmax(axis=1)
        rewards = (actions == labels).astype(float)
        return from_arrays(rows, actions, rewards, pmf[np.arange(rounds), actions], pmf=pmf)


def problems() -> dict[str, Problem]:
    """All problems by name."""
    from sklearn import datasets

    found = {}
    for name, load in (
        ("digits", datasets.load_digits),
        ("wine", datasets.load_wine),
        ("breast cancer", datasets.load_breast_cancer),
    ):
        rows, labels = load(return_X_y=True)
        rows = (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-9)
        if name == "digits":
            _, _, directions = np.linalg.svd(rows, full_matrices=False)
            rows = rows @ directions[:N_COMPONENTS].T
        rows = rows / np.linalg.norm(rows, axis=1).max()
        found[name] = Problem(name, rows, labels.astype(np.int64))
    return found


Maker = Callable[[Problem], MinimalLearner]
LINEAR: dict[str, Any] = {"scale": 0.1, "norm_bound": 3.0, "action_bound": 1.5}  # a row has a constant and the features
SGD = {"class": "linear_model.SGDRegressor", "eta0": 0.3, "alpha": 1e-6, "learning_rate": "constant"}

LEARNERS: dict[str, Maker] = {
    "UCB, no features": lambda problem: UCB(problem.n_actions, scale=0.3),
    "OFUL": lambda problem: OFUL(problem.dim, **LINEAR),
    "OFUL, half the features": lambda problem: OFUL(problem.n_actions * (problem.rows.shape[1] // 2 + 1), **LINEAR),
    "Thompson sampling": lambda problem: LinearThompson(problem.dim, **LINEAR),
    "SGD, epsilon 0.1": lambda problem: Exploring(Sklearn(SGD, dim=problem.dim), Epsilon(0.1)),
    "SGD, inverse gaps": lambda problem: Exploring(Sklearn(SGD, dim=problem.dim), InverseGap(30.0)),
    "LightGBM, inverse gaps": lambda problem: Exploring(
        LightGBM(dim=problem.dim, window=4_096, every=256, lag=64, trees=30), InverseGap(30.0)
    ),
    "VW --squarecb": lambda problem: VW("--squarecb --gamma_scale 30", dim=problem.dim),
}


def play_live(
    learner: Any, problem: Problem, rounds: int, seed: int, reward_range: tuple[float, float] = (0.0, 1.0)
) -> Array:
    """Which choices of a learner that plays alone are right (1 or 0); it gets the high or the low end of the range."""
    low, high = reward_range
    rng = np.random.default_rng([seed, 6])
    rows, labels = problem.draw(rng, rounds)
    rewards = np.empty(rounds)
    for t, context in enumerate(problem.contexts(rows)):
        action = learner.decide(context, rng).action
        rewards[t] = float(action == labels[t])
        learner.learn(context, action, low + (high - low) * rewards[t])
    return rewards


def mean_with_error(values: Array) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"
