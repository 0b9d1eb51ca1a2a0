"""Discounted rewards: against matrices that are multiplied out, and what such a learner states."""

from math import log
from typing import Any

import numpy as np
import pytest

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features import Offers, Shared
from equipoise.learners import OFUL, Ball, DisjointOFUL
from equipoise.learners._core.ridge import ellipsoid_radius
from equipoise.selectors import EpochBalancing
from equipoise.types import Array


class Reference:
    """One regression with Sigma itself, which is discounted, refilled and solved."""

    def __init__(self, dim: int, discount: float, regularization: float) -> None:
        self.discount, self.regularization, self.n = discount, regularization, 0
        self.sigma, self.products = regularization * np.eye(dim), np.zeros(dim)
        self.penalty = np.full(dim, regularization)

    def forget(self, update: int) -> None:
        dim, gamma = len(self.products), self.discount
        self.sigma, self.products, self.penalty = gamma * self.sigma, gamma * self.products, gamma * self.penalty
        refill = self.regularization * (1 - gamma**dim) if gamma < 1 else 0.0
        self.sigma[update % dim, update % dim] += refill
        self.penalty[update % dim] += refill

    def add(self, row: Array, reward: float, weight: float) -> None:
        self.sigma += weight * np.outer(row, row)
        self.products += weight * reward * row


def check_same(reference: Reference, factor: Array, theta: Array, log_determinant: float) -> None:
    sigma, dim = reference.sigma, len(theta)
    np.testing.assert_allclose(factor @ factor.T @ sigma, np.eye(dim), atol=1e-8)
    np.testing.assert_allclose(theta, np.linalg.solve(sigma, reference.products), rtol=1e-8, atol=1e-9)
    expected = np.linalg.slogdet(sigma)[1] - dim * log(reference.regularization)
    assert log_determinant == pytest.approx(expected, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(("dim", "discount", "rounds"), [(1, 0.5, 200), (4, 0.75, 400), (3, 0.99, 5_000), (3, 1.0, 50)])
def test_oful_is_the_discounted_regression(dim: int, discount: float, rounds: int) -> None:
    rng, learner = np.random.default_rng(5), OFUL(dim, discount=discount, regularization=0.7, reward_range=(-1.0, 2.0))
    reference, total = Reference(dim, discount, 0.7), 0.0
    for t in range(rounds):
        rows = rng.standard_normal((3, dim))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        action, reward, weight = int(rng.integers(3)), float(rng.uniform(-1, 2)), float(rng.choice([0.0, 1.0, 2.5]))
        learner.learn(rows, action, reward, weight)
        if weight > 0.0:
            reference.forget(reference.n)
            reference.add(rows[action], reward + 1.0, weight)
            reference.n, total = reference.n + 1, discount * total + weight
        assert (reference.penalty >= 0.25 * 0.7 * (1 - 1e-9)).all() and (reference.penalty <= 1.4).all()
        if t % 50 == 49:
            memory = learner.memory
            check_same(reference, memory.factor, memory.theta, memory.log_determinant[0])
            assert memory.weights[0] == pytest.approx(total) and memory.updates[0] == reference.n
            norms = np.sqrt(np.vecdot(rows, np.linalg.solve(reference.sigma, rows.T).T))
            optimistic = rows @ memory.theta + ellipsoid_radius(learner.params.ellipsoid, memory) * norms
            assert learner.decide(rows).action == optimistic.argmax()


def test_all_actions_of_disjoint_oful_are_discounted() -> None:
    rng = np.random.default_rng(6)
    learner = DisjointOFUL(features=Shared(2), arms=3, discount=0.9, scale=0.5)
    references: dict[str, Reference] = {}
    for t in range(300):
        x = rng.random(2) / 2
        ids = ["a", "b", "c"]
        offers = Offers(None, shared=x, ids=ids)
        action, reward = int(rng.integers(2 if t >= 100 else 3)), float(rng.random())
        learner.learn(offers, action, reward)
        for reference in references.values():
            reference.forget(t)
        references.setdefault(ids[action], Reference(2, 0.9, 1.0)).add(x, reward, 1.0)
    state = learner.state()
    names = bytes(state["arms.id_bytes"]).decode()
    assert sorted(names) == ["a", "b", "c"]
    for k, name in enumerate(names):
        check_same(
            references[name], state["arms.factor"][k], state["arms.theta"][k], state["arms.log_determinant"][k, 0]
        )
    # The action that was not played for 200 updates is as uncertain as an unknown one, up to its refilled penalty.
    assert np.linalg.norm(state["arms.factor"][names.index("c")] @ [0.6, 0.8]) == pytest.approx(1.0, abs=0.1)


def test_without_a_discount_nothing_changes() -> None:
    rows = np.array([[0.6, 0.0], [0.0, 0.8]])
    for make in (lambda **more: OFUL(2, **more), lambda **more: DisjointOFUL(2, arms=2, **more)):
        plain, stated = make(), make(discount=1.0)
        for t in range(20):
            for learner in (plain, stated):
                learner.learn(rows, t % 2, 0.3 * (t % 3))
        assert plain.state().keys() == stated.state().keys()
        assert all(np.array_equal(array, stated.state()[name]) for name, array in plain.state().items())
        assert plain.config() == stated.config() and "discount" not in plain.config()  # as in older files
        assert plain.name == stated.name and make(discount=0.9).config()["discount"] == 0.9


@pytest.mark.parametrize("context", [np.array([[0.6, 0.0], [0.0, 0.8]]), Ball(2)])
def test_a_discounted_learner_states_the_ends_of_the_range(context: Any) -> None:
    """Also after data that would make the bounds narrow, as those of the control are."""
    made: list[Any] = [OFUL(2, discount=discount, scale=0.1, reward_range=(-1.0, 3.0)) for discount in (0.999, 1.0)]
    if not isinstance(context, Ball):
        made.append(DisjointOFUL(2, arms=2, discount=0.999, scale=0.1, reward_range=(-1.0, 3.0)))
    for learner in made:
        for _ in range(300):
            learner.learn(context, learner.decide(context).action, 1.5)
    discounted, plain, *others = [learner.decide(context) for learner in made]
    for proposal in (discounted, *others):
        assert (proposal.lower, proposal.regret) == (-1.0, 4.0)
    assert plain.lower > 0.0 and plain.regret < 2.0


def test_a_discounted_learner_states_no_class_of_rewards() -> None:
    learners = [OFUL(2), OFUL(4, discount=0.9)]
    with pytest.raises(IncompatibleLearner, match=r"discount of OFUL\(d=4, discount=0.9\) is 0.9, but must be 1"):
        EpochBalancing.for_learners(learners, rounds=100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 2, "discount": 0.0}, r"discount is 0.0, but must lie in \(0, 1\]"),
        ({"dim": 2, "discount": 1.01}, r"discount is 1.01, but must lie in \(0, 1\]"),
        ({"dim": 1, "discount": 0.4}, "discount is 0.4, but must be at least 0.5 with dim = 1"),
        ({"dim": 10, "discount": 0.85}, "discount is 0.85, but must be at least 0.9 with dim = 10"),
        ({"dim": 2, "discount": "0.9"}, "discount is '0.9', but must be a real number"),
    ],
)
def test_impossible_discounts_are_refused(settings: dict[str, Any], message: str) -> None:
    for cls, more in ((OFUL, {}), (DisjointOFUL, {"arms": 3})):
        made: Any = cls
        with pytest.raises(InvalidArgument, match=message):
            made(**settings, **more)
