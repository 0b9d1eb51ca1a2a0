"""Network and NeuralLinear: against torch called directly, and a regression that is solved from scratch."""

from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from equipoise.adapters import Network, NeuralLinear
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL
from equipoise.types import Array
from tests.adapters.subjects import needs

pytestmark = needs("torch")
SMALL: dict[str, Any] = {"dim": 3, "hidden": 5, "width": 4, "steps": 20, "batch": 16}


def updates(n: int, seed: int = 0) -> list[tuple[Array, int, float]]:
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((4, 3)), int(rng.integers(4)), float(rng.random())) for _ in range(n)]


def by_torch(rows: Array, targets: Array, weights: Array) -> Any:
    """The same network as a module of torch with its own layers, trained from the same weights on the same batches."""
    import torch
    from torch import nn

    net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1)).double()
    drawn = np.random.Generator(np.random.Philox(key=np.array([0, 1], np.uint64)))
    with torch.no_grad():
        for layer, (inputs, outputs) in zip(list(net)[::2], ((3, 5), (5, 4), (4, 1)), strict=True):
            matrix: Any = layer
            matrix.weight.copy_(torch.from_numpy(drawn.standard_normal((inputs, outputs)).T.copy() / np.sqrt(inputs)))
            matrix.bias.zero_()
    batches = np.random.Generator(np.random.Philox(key=np.array([0, 4 << 20], np.uint64))).integers(
        len(rows), size=(20, 16)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for batch in batches:
        optimizer.zero_grad()
        scores = net(torch.from_numpy(rows[batch]))[:, 0]
        errors = (scores - torch.from_numpy(targets[batch])) ** 2
        (torch.from_numpy(weights[batch] / weights.mean()) * errors).mean().backward()
        optimizer.step()
    return net


def test_the_network_is_that_of_torch() -> None:
    import torch

    model, data, threads = Network(**SMALL, window=40, every=30, lag=7), updates(50), torch.get_num_threads()
    model.open()
    rows = np.array([actions[action] for actions, action, _ in data])
    targets, weights = np.array([2 * reward - 1 for *_, reward in data]), np.linspace(0.5, 2.0, 50)
    started = model.features(rows)
    for n, (row, target, weight) in enumerate(zip(rows, targets, weights, strict=True), start=1):
        model.learn(row, float(target), float(weight))
        assert model.n_fits == int(n >= 37)
        assert np.array_equal(model.features(rows), started) == (n < 37)
    reference = by_torch(rows[:30], targets[:30], weights[:30])
    with torch.no_grad():
        expected = reference(torch.from_numpy(rows))[:, 0].numpy()
        features = reference[:4](torch.from_numpy(rows)).numpy()
    np.testing.assert_allclose(model.scores(rows), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.features(rows), features, rtol=1e-8, atol=1e-10)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("lag", [1, 30])
def test_fits_are_counted_when_they_take_effect(lag: int) -> None:
    model = Network(**SMALL, window=20, every=30, lag=lag)
    model.open()
    seen = []
    for actions, action, reward in updates(100):
        before = model.features(actions)
        model.learn(actions[action], reward, 1.0)
        seen.append((model.n_fits, not np.array_equal(before, model.features(actions))))
    fits = [n for n, _ in seen]
    assert [n > before for n, before in zip(fits, [0, *fits], strict=False)] == [changed for _, changed in seen]
    assert fits[-1] == (3 if lag == 1 else 2)


def test_the_regression_is_that_of_the_window_and_of_updates_since() -> None:
    learner = NeuralLinear(
        Network(**SMALL, window=25, every=20, lag=5), regularization=0.4, scale=0.7, reward_range=(1.0, 3.0)
    )
    kept: list[tuple[Array, float, float]] = []
    since = 0  # the first update that the regression has learned
    for n, (actions, action, reward) in enumerate(updates(70), start=1):
        weight = (1.0, 0.0, 2.5)[n % 3]
        learner.learn(actions, action, 1.0 + 2.0 * reward, weight)
        if weight > 0.0:
            kept.append((actions[action], reward, weight))
            if len(kept) % 20 == 5 and len(kept) > 20:
                since = len(kept) - 25
        state = learner.state()
        parts = [np.frombuffer(state["network.model"].tobytes())]
        phi = features_of(parts[0], np.array([row for row, *_ in kept[since:]]))
        if len(parts[0]):
            shares, weights = (np.array([each[k] for each in kept[since:]]) for k in (1, 2))
            sigma = 0.4 * np.eye(5) + (phi.T * weights) @ phi
            theta = np.linalg.solve(sigma, phi.T @ (weights * shares))
            np.testing.assert_allclose(state["ridge.theta"], theta, rtol=1e-7, atol=1e-9)
            factor = state["ridge.factor"]
            np.testing.assert_allclose(factor @ factor.T @ sigma, np.eye(5), atol=1e-8)
            proposal = learner.decide(actions, np.random.default_rng(n))
            mine = features_of(parts[0], actions)
            drawn = directions(5)[int(np.random.default_rng(n).random() * 256)]
            assert proposal.action == int((mine @ (theta + 0.35 * factor @ drawn)).argmax())
            assert proposal.greedy == int((mine @ theta).argmax())
            value = 1.0 + 2.0 * float(np.clip(mine[proposal.action] @ theta, 0.0, 1.0))
            assert proposal.value == pytest.approx(value)
    assert since == 20


def directions(dim: int) -> Array:
    half = np.random.Generator(np.random.Philox(key=np.array([0, dim], np.uint64))).standard_normal((128, dim))
    return np.vstack([half, -half])


def features_of(numbers: Array, rows: Array) -> Array:
    """Features by the numbers of a saved network: 3 x 5 weights, 5 offsets, 5 x 4 weights, 4 offsets, and the rest."""
    if not len(numbers):
        return np.zeros((len(rows), 5))
    first = np.tanh(rows @ numbers[:15].reshape(3, 5) + numbers[15:20])
    second = np.tanh(first @ numbers[20:40].reshape(5, 4) + numbers[40:44])
    phi: Array = np.hstack([second, np.ones((len(rows), 1))]) / np.sqrt(5.0)
    return phi


def test_pmf_counts_the_decisions_of_all_directions() -> None:
    learner = NeuralLinear(Network(**SMALL, window=25, every=20, lag=5))
    for actions, action, reward in updates(60):
        learner.learn(actions, action, reward)
    n, counts = 256, np.zeros(4, int)
    for m in range(n):
        counts[learner.decide(actions, Mock(random=lambda m=m: (m + 0.5) / n)).action] += 1
    np.testing.assert_array_equal(learner.pmf(actions), counts / n)
    assert np.count_nonzero(counts) > 1


def regret_of(learner: Any, rounds: int) -> float:
    """Regret of the second half of a problem without linear structure: the reward is high where x1 x2 > 0."""
    rng, total = np.random.default_rng(7), 0.0
    for t in range(rounds):
        rows = rng.uniform(-0.7, 0.7, (4, 2))
        means = 0.2 + 0.6 * (rows[:, 0] * rows[:, 1] > 0.0)
        action = learner.decide(rows, rng).action
        total += float(means.max() - means[action]) if t >= rounds // 2 else 0.0
        learner.learn(rows, action, float(rng.random() < means[action]))
    return total


@pytest.mark.slow
def test_it_learns_what_a_linear_learner_cannot() -> None:
    """1,200 rounds; the linear learner, the control, stays near the regret of random actions (187 in 600 rounds)."""
    neural = regret_of(NeuralLinear(Network(dim=2, window=1_000, every=100, lag=20, steps=200)), 1_200)
    linear = regret_of(OFUL(2, scale=0.1), 1_200)
    assert neural < 0.5 * linear


def test_refusals_name_argument_value_and_rule() -> None:
    made: Any = NeuralLinear
    for settings, message in (
        ({"model": 3}, "model is 3, but must be one of Network"),
        ({"model": Network(**SMALL, lag=300)}, "lag is 300, but must be at most every = 256"),
        ({"model": Network(**SMALL), "scale": 0.0}, "scale is 0.0, but must be positive"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            made(**settings)
