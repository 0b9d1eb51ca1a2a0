"""Logged rounds as a source of the simulation loop: compiled and by public methods, against a plain loop."""

from unittest.mock import Mock

import numpy as np
import pytest

from equipoise.kernels.streams import LEARNERS, generator_at
from equipoise.learner import Proposal
from equipoise.learners import OFUL, EpsilonGreedy, LinearThompson
from equipoise.simulation import logged
from equipoise.simulation.logged import Answers, Batch, LoggedLearner
from equipoise.simulation.loops import compiled_loop, plain_loop
from equipoise.simulation.parts import ALWAYS, NEVER, WHEN_PROPOSED
from tests.logs.generate import linear_truth
from tests.simulation.plain import Plain

MAKERS = {
    "deterministic": lambda: OFUL(3),
    "linear": lambda: LinearThompson(3, scale=0.2),
    "arms": lambda: EpsilonGreedy(4, epsilon=0.3),
}


def batch_of(n: int, seed: int = 0) -> Batch:
    truth, rng = linear_truth(n, seed), np.random.default_rng(seed)
    n_offered = rng.integers(2, 5, size=n)
    actions = np.minimum(truth.actions, n_offered - 1)
    updates = rng.choice([ALWAYS, NEVER, WHEN_PROPOSED], size=n)
    return Batch(truth.contexts, n_offered, actions, truth.rewards, rng.random(n) + 0.5, updates, truth.propensities)


def part(batch: Batch, which: slice) -> Batch:
    return Batch._make(array[which] for array in batch)


def plain(learner, batch: Batch, lane: int, seed: int) -> tuple[list[int], list[float]]:
    """The proposed action and the probability of the logged one in each round."""
    proposed, probabilities = [], []
    for n in range(len(batch.actions)):
        context = np.asarray(batch.contexts)[n, : batch.n_offered[n]]
        proposal = learner.decide(context, generator_at(seed, LEARNERS + lane, n))
        action, logged_action = proposal.action, batch.actions[n]
        proposed.append(action)
        if isinstance(learner, EpsilonGreedy):  # knows its probabilities
            exploits = (1 - learner.epsilon) * (proposal.greedy == logged_action)
            probabilities.append(exploits + learner.epsilon / len(context))
        elif isinstance(learner, LinearThompson):
            probabilities.append(learner.pmf(context)[logged_action])
        else:
            probabilities.append(float(action == logged_action))
        update = batch.updates[n]
        if update == ALWAYS or (update == WHEN_PROPOSED and action == batch.actions[n]):
            learner.learn(context, int(batch.actions[n]), float(batch.rewards[n]), float(batch.weights[n]))
    return proposed, probabilities


class Spread:
    """A learner that knows the probabilities of all actions."""

    provides = frozenset({"pmf"})

    def decide(self, context, rng):
        return Proposal(int(rng.integers(len(context))), probability=1 / len(context))

    def pmf(self, context):
        return np.full(len(context), 1 / len(context))

    def learn(self, context, action, reward):
        pass


@pytest.mark.parametrize(
    ("kind", "compiled"),
    [pytest.param("deterministic", True, marks=pytest.mark.compiled), *((k, False) for k in MAKERS)],
)
def test_batches_are_the_plain_loop(kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kind compiled, all of them by the same loop as plain Python, and by their public methods."""
    loop_of_kernels = Mock(side_effect=compiled_loop if compiled else plain_loop)
    monkeypatch.setattr(logged, "compiled_loop", loop_of_kernels)
    batch = batch_of(400)
    reference = MAKERS[kind]()
    expected, probabilities = plain(reference, batch, lane=2, seed=9)
    for make in (lambda learner: learner, Plain):
        learner = MAKERS[kind]()
        loop = LoggedLearner(make(learner), 4, lane=2, seed=9)
        answers = [loop.play(part(batch, which)) for which in (slice(0, 150), slice(150, 400))]
        proposed = np.concatenate([each.proposed for each in answers])
        assert proposed.tolist() == expected
        stated = np.concatenate([each.probabilities for each in answers])
        np.testing.assert_allclose(stated, probabilities, rtol=1e-12, atol=0)
        for name, array in reference.state().items():
            np.testing.assert_allclose(learner.state()[name], array, rtol=1e-9, atol=1e-9)
    assert loop_of_kernels.call_count == (2 if kind == "deterministic" else 0)  # both parts, unless kernels cannot tell


def test_probabilities_come_from_the_learner_if_it_knows_them() -> None:
    batch = batch_of(50)._replace(weights=np.ones(50))
    answers = LoggedLearner(Spread(), 4, lane=0, seed=1).play(batch)
    assert isinstance(answers, Answers)
    np.testing.assert_allclose(answers.probabilities, 1 / batch.n_offered)
    assert ((answers.proposed >= 0) & (answers.proposed < batch.n_offered)).all()
