"""Every adapter with settings and contexts to test it with; those of a library that is not installed are skipped."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest

from equipoise.adapters import (
    VW,
    Bootstrapped,
    Epsilon,
    Exploring,
    InverseGap,
    LightGBM,
    MABWiser,
    Model,
    Network,
    NeuralLinear,
    River,
    Sklearn,
    Softmax,
    XGBoost,
)
from equipoise.features import Columns, Concat, Interactions, Offers, OneHot, Prefix, Shared
from equipoise.testing.learners import ContextSource, random_actions

DIM = 8  # of the contract suite's contexts


class Subject(NamedTuple):
    library: str
    make: Callable[[], Any]
    contexts: ContextSource = random_actions


def needs(library: str) -> pytest.MarkDecorator:
    """Skips a test where a library is not installed; the reason is what the closing line counts."""
    return pytest.mark.skipif(find_spec(library) is None, reason=f"{library} is not installed")


def sgd(**settings: Any) -> Model:
    return Sklearn({"class": "linear_model.SGDRegressor", **settings}, dim=5)


def mlp() -> Model:
    return Sklearn({"class": "neural_network.MLPClassifier", "hidden_layer_sizes": [4]}, dim=DIM)


def scaled_river() -> Model:
    steps = [{"class": "preprocessing.StandardScaler"}, {"class": "linear_model.LinearRegression", "l2": 0.01}]
    return River({"class": "compose.Pipeline", "steps": steps}, dim=DIM)


def network() -> Network:
    return Network(dim=DIM, hidden=6, width=4, window=30, every=10, lag=4, steps=5, batch=8)


def vector(rng: np.random.Generator) -> Any:
    return rng.standard_normal(3)


def nothing(rng: np.random.Generator) -> Any:
    return None


def mab(policy: str, **settings: Any) -> dict[str, Any]:
    return {"arms": ["a", "b", "c"], "policy": policy, **settings}


def offers(rng: np.random.Generator) -> Offers:
    """2 to 5 offers with ids, shared features and, in two of three rounds, a mask."""
    n = int(rng.integers(2, 6))
    mask = rng.random(n) < 0.7
    mask[int(rng.integers(n))] = True
    ids = [f"id {k}" for k in rng.permutation(5)[:n]]
    return Offers(rng.random((n, 3)) / 2, rng.random(2), ids, mask=mask if rng.random() < 2 / 3 else None)


def arms(rng: np.random.Generator) -> Offers:
    """Some of three arms, by id, with shared features; one id is unknown."""
    names = [["a", "b", "c", "d"][k] for k in rng.permutation(4)[: int(rng.integers(2, 5))]]
    return Offers(None, rng.random(3), names)


MAP = Concat([Columns([2, 0]), Interactions(Prefix(2), Shared(2)), OneHot([f"id {k}" for k in range(5)])])

SUBJECTS = {
    "sgd": Subject("sklearn", lambda: Exploring(sgd(eta0=0.05, alpha=0.01), Epsilon(0.2), seed=5)),
    "logistic": Subject(
        "sklearn",
        lambda: Exploring(Sklearn({"class": "linear_model.SGDClassifier", "loss": "log_loss"}, dim=DIM), Softmax(0.2)),
    ),
    "mlp": Subject("sklearn", lambda: Exploring(mlp(), Epsilon(0.2))),
    "lightgbm": Subject(
        "lightgbm",
        lambda: Exploring(
            LightGBM(dim=DIM, window=30, every=10, lag=4, trees=3, settings={"min_data_in_leaf": 3}),
            Softmax(0.3),
            reward_range=(-1.0, 2.0),
        ),
    ),
    "xgboost": Subject(
        "xgboost",
        lambda: Exploring(XGBoost(dim=DIM, window=25, every=10, lag=10, trees=2, settings={"max_depth": 2})),
    ),
    "river": Subject("river", lambda: Exploring(scaled_river(), InverseGap(20.0, exponent=0.3))),
    "bootstrapped sgd": Subject("sklearn", lambda: Bootstrapped(sgd(eta0=0.05, alpha=0.01), 4, seed=5)),
    "bootstrapped mlp": Subject(
        "sklearn",
        lambda: Bootstrapped(
            Sklearn({"class": "neural_network.MLPRegressor", "hidden_layer_sizes": [4]}, dim=DIM), 2, weights="double"
        ),
    ),
    "network": Subject("torch", lambda: Exploring(network(), Softmax(0.3))),
    "neural linear": Subject("torch", lambda: NeuralLinear(network(), scale=0.5, reward_range=(-1.0, 2.0), seed=5)),
    "vw squarecb": Subject("vowpalwabbit", lambda: VW("--squarecb --gamma_scale 20 -l 0.3", dim=DIM, seed=3)),
    "vw regcbopt": Subject("vowpalwabbit", lambda: VW("--regcbopt --mellowness 0.01", dim=DIM)),
    "vw epsilon": Subject("vowpalwabbit", lambda: VW("--epsilon 0.2 -q ff -b 12", dim=4)),
    "vw softmax": Subject("vowpalwabbit", lambda: VW("--softmax --lambda 5", dim=DIM, name="soft")),
    "mabwiser linucb": Subject("mabwiser", lambda: MABWiser(mab("LinUCB", alpha=0.5)), vector),
    "mabwiser lints": Subject("mabwiser", lambda: MABWiser(mab("LinTS")), vector),
    "mabwiser lingreedy": Subject("mabwiser", lambda: MABWiser(mab("LinGreedy", epsilon=0.3)), vector),
    "mabwiser ucb1": Subject("mabwiser", lambda: MABWiser(mab("UCB1", alpha=0.7)), nothing),
    "mabwiser softmax": Subject("mabwiser", lambda: MABWiser(mab("Softmax", tau=0.5)), nothing),
    "sgd on offers": Subject(
        "sklearn",
        lambda: Exploring(Sklearn({"class": "linear_model.SGDRegressor"}), Epsilon(0.2), features=MAP),
        offers,
    ),
    "bootstrapped on offers": Subject(
        "sklearn",
        lambda: Bootstrapped(Sklearn({"class": "linear_model.SGDRegressor", "eta0": 0.05}), 3, features=MAP),
        offers,
    ),
    "neural linear on offers": Subject(
        "torch",
        lambda: NeuralLinear(
            Network(hidden=6, width=4, window=30, every=10, lag=4, steps=5, batch=8), scale=0.5, features=MAP
        ),
        offers,
    ),
    "lightgbm on offers": Subject(
        "lightgbm",
        lambda: Exploring(
            LightGBM(window=30, every=10, lag=4, trees=3, settings={"min_data_in_leaf": 3}), Softmax(0.3), features=MAP
        ),
        offers,
    ),
    "xgboost on offers": Subject(
        "xgboost",
        lambda: Exploring(XGBoost(window=25, every=10, lag=10, trees=2, dim=MAP.dim), features=MAP),
        offers,
    ),
    "river on offers": Subject(
        "river",
        lambda: Exploring(River({"class": "linear_model.LinearRegression"}), InverseGap(20.0), features=MAP),
        offers,
    ),
    "vw on offers": Subject("vowpalwabbit", lambda: VW("--squarecb", features=MAP), offers),
    "vw on rows of offers": Subject("vowpalwabbit", lambda: VW("--epsilon 0.2", dim=2), offers),
    "mabwiser linucb on offers": Subject("mabwiser", lambda: MABWiser(mab("LinUCB", alpha=0.5)), arms),
    "mabwiser lints by row": Subject(
        "mabwiser",
        lambda: MABWiser({"arms": [0, 1, 2, 3, 4], "policy": "LinTS"}, features=Prefix(2)),
        lambda rng: Offers(offers(rng).actions, mask=None),
    ),
    "mabwiser ucb1 on offers": Subject("mabwiser", lambda: MABWiser(mab("UCB1", alpha=0.7)), arms),
}
CASES = [pytest.param(subject, id=name, marks=needs(subject.library)) for name, subject in SUBJECTS.items()]
