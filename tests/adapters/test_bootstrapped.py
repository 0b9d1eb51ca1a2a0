"""Bootstrapped: against members that are trained by hand, its propensities, and its weights."""

from math import exp, factorial
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from equipoise.adapters import Bootstrapped, Model, Sklearn
from equipoise.adapters.bootstrapped import DISTRIBUTIONS
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.settings import configurable
from equipoise.types import Array, State
from tests.adapters.subjects import needs


@configurable
class Sums(Model):
    """A model that adds up weighted rewards by columns, so that the weights of a member can be read off."""

    def open(self) -> None:
        self.sums, self.total = np.zeros(self.n_features), 0.0

    def scores(self, rows: Array) -> Array:
        scores: Array = rows @ self.sums
        return scores

    def learn(self, row: Array, reward: float, weight: float) -> None:
        self.sums += weight * reward * row
        self.total += weight

    def state(self) -> State:
        return {"sums": self.sums.copy(), "total": np.array([self.total])}

    def restore(self, state: State) -> None:
        self.sums, self.total = state["sums"].copy(), float(state["total"][0])


def totals(learner: Bootstrapped) -> list[float]:
    state = learner.state()
    return [float(state[f"{k}.total"][0]) for k in range(learner.members)]


def learner_of(weights: str, members: int = 5, seed: int = 3) -> Bootstrapped:
    return Bootstrapped(Sums(dim=3), members, weights=weights, seed=seed)


@pytest.mark.parametrize("weights", ["poisson", "double"])
def test_members_learn_resamples(weights: str) -> None:
    """By the law itself, from the same stream: the least n whose probability of at most n exceeds the number."""
    learner, expected = learner_of(weights), np.zeros(5)
    laws = {
        "poisson": lambda u: next(n for n in range(99) if sum(exp(-1) / factorial(k) for k in range(n + 1)) > u),
        "double": lambda u: 0 if u < 0.5 else 2,
    }
    for t in range(200):
        learner.learn(np.eye(3), t % 3, 1.0, 3.0)
        learner.learn(np.eye(3), t % 3, 1.0, 0.0)  # no update
        generator = np.random.Generator(
            np.random.Philox(key=np.array([3, 4 << 20], np.uint64), counter=np.array([0, 0, 0, t], np.uint64))
        )
        expected += [3.0 * laws[weights](u) for u in generator.random(5)]
    assert totals(learner) == expected.tolist()
    assert len(set(totals(learner))) > 1


@pytest.mark.parametrize("weights", DISTRIBUTIONS)
def test_weights_have_mean_and_variance_1(weights: str) -> None:
    """4,000 updates of 5 members: the mean within 5 standard errors. All numbers of a double have a weight."""
    learner, squares, before = learner_of(weights), 0.0, np.zeros(5)
    for _ in range(4_000):
        learner.learn(np.eye(3), 0, 1.0)
        now = np.array(totals(learner))
        squares, before = squares + float(((now - before) ** 2).sum()), now
    assert abs(np.mean(totals(learner)) / 4_000 - 1.0) < 5 / np.sqrt(20_000)
    assert squares / 20_000 - 1.0 == pytest.approx(1.0, abs=0.08)
    last = DISTRIBUTIONS[weights]
    assert np.searchsorted(last, 1.0 - 2.0**-53, side="right") <= len(last) and (np.diff(last) >= 0.0).all()


def test_propensities_count_members_and_share_ties() -> None:
    learner, rows = learner_of("double", 4), np.array([[1.0, 0, 0], [0, 1.0, 0], [1.0, 0, 0], [0, 0, 1.0]])
    assert learner.pmf(rows).tolist() == [0.25] * 4  # nothing learned: all scores tie
    for t in range(9):
        learner.learn(np.eye(3), t % 3, [0.9, 0.8, 1.0][t % 3])
    state, expected = learner.state(), np.zeros(4)
    for k in range(4):
        scores = rows @ state[f"{k}.sums"]
        winners = np.flatnonzero(scores == scores.max())
        expected[winners] += 1 / 4 / len(winners)
    assert learner.pmf(rows) == pytest.approx(expected, abs=1e-15)
    assert 0.0 < expected[0] == expected[2] and len(set(expected)) > 1
    # Every number of a fine grid: the share of numbers that lead to an action is its probability.
    n = 4 * 12 * 25
    proposals = [learner.decide(rows, Mock(random=lambda m=m: (m + 0.5) / n)) for m in range(n)]
    counts = np.bincount([proposal.action for proposal in proposals], minlength=4) / n
    np.testing.assert_allclose(counts, expected, atol=1e-12)
    assert {proposal.probability for proposal in proposals} <= set(learner.pmf(rows).tolist())
    means = np.mean([rows @ state[f"{k}.sums"] for k in range(4)], axis=0)
    assert proposals[0].value == pytest.approx(
        np.mean([np.clip(0.5 + 0.5 * (rows @ state[f"{k}.sums"])[proposals[0].action], 0, 1) for k in range(4)])
    )
    assert means.shape == (4,)


def test_a_committee_that_agrees_is_certain() -> None:
    learner = learner_of("poisson")
    for t in range(60):
        learner.learn(np.eye(3), t % 3, float(t % 3 == 1))
    assert learner.pmf(np.eye(3)).tolist() == [0.0, 1.0, 0.0]
    assert learner.decide(np.eye(3)).probability == 1.0 and learner.decide(np.eye(3)).greedy == 1


def test_saved_and_replayed_committees_agree() -> None:
    """Resumed in the middle, and with other decisions in between, the weights are those of the number of the update."""
    whole, first, second = learner_of("poisson"), learner_of("poisson"), learner_of("poisson")
    for t in range(40):
        whole.learn(np.eye(3), t % 3, 0.7)
        (first if t < 20 else second).learn(np.eye(3), t % 3, 0.7)
        first.decide(np.eye(3))
        if t == 19:
            second.restore(first.state())
    assert totals(whole) == totals(second)
    assert totals(whole) != totals(learner_of("poisson", seed=4))


def test_refusals_name_argument_value_and_rule() -> None:
    made: Any = Bootstrapped
    for settings, message in (
        ({"members": 0}, "members is 0, but must be a whole number from 1 to 1000"),
        ({"weights": "normal"}, "weights is 'normal', but must be one of poisson, double"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            made(Sums(dim=2), **settings)


def test_a_model_that_predicts_nan_is_named() -> None:
    learner = learner_of("poisson")
    learner.learn(np.eye(3), 0, 1e100, 1e100)
    learner.learn(np.eye(3), 0, 1e100, 1e100)
    state = learner.state()
    state["2.sums"][:] = np.nan
    learner.restore(state)
    with pytest.raises(EquipoiseError, match="predicts nan"):
        learner.decide(np.eye(3))


@needs("sklearn")
def test_a_classifier_refuses_rewards_beyond_the_range_and_finds_the_better_action() -> None:
    from sklearn.linear_model import SGDClassifier

    learner = Bootstrapped(Sklearn(SGDClassifier(loss="log_loss", alpha=0.01), dim=3), 8, seed=1)
    with pytest.raises(InvalidArgument, match=r"reward is 1.5, but must lie in \[0.0, 1.0\] for SGDClassifier"):
        learner.learn(np.eye(3), 0, 1.5)
    rng, played = np.random.default_rng(2), []
    for _ in range(300):
        action = learner.decide(np.eye(3), rng).action
        learner.learn(np.eye(3), action, float(rng.random() < (0.2, 0.8, 0.3)[action]))
        played.append(action)
    assert np.mean(np.array(played[-100:]) == 1) > 0.9
    assert len(set(played[:20])) == 3  # it has tried them all
