"""Every registered problem with settings to test it with."""

from typing import Any

from equipoise.problems import (
    AdversarialBandit,
    CombinationLock,
    DisjointLinearBandit,
    DriftingBandit,
    GapBandit,
    Hiding,
    KArmedBandit,
    LinearBandit,
    LinearMDP,
    MisspecifiedLinearBandit,
    Predicting,
    Punishing,
    RiverSwim,
    SequenceBandit,
    Switching,
    TableBandit,
)

# Every registered class with settings that differ from the defaults.
SUBJECTS: list[tuple[type[Any], dict[str, Any]]] = [
    (LinearBandit, {"d_max": 6, "d_star": 3, "n_actions": 4, "seed": 5}),
    (LinearBandit, {"d_max": 4, "d_star": 4, "contexts": "table", "table_size": 3, "noise": "uniform"}),
    (LinearBandit, {"d_max": 3, "d_star": 2, "noise": "uniform", "noise_scale": 1.0}),
    (LinearBandit, {"d_max": 5, "n_actions": 3, "d_star": 2, "contexts": "fixed", "noise": "gaussian"}),
    (TableBandit, {"features": [[[1.0, 0.5], [0.2, 0.0]], [[0.0, 0.1], [0.3, 0.3]]], "theta": [0.5, 0.8]}),
    (TableBandit, {"features": [[[0.5], [0.25], [0.0]]], "theta": [2.0], "noise": "gaussian", "noise_scale": 0.3}),
    (SequenceBandit, {"features": [[[1.0, 0.5], [0.2, 0.0]], [[0.0, 0.1], [0.3, 0.3]]], "theta": [0.5, 0.8]}),
    (AdversarialBandit, {"d_max": 6, "d_star": 3, "n_actions": 4, "adversary": Switching(3, (1.0, 0.4, 0.0))}),
    (AdversarialBandit, {"d_max": 4, "d_star": 4, "seed": 2, "adversary": Predicting([1], 0.5, 4), "noise": "uniform"}),
    (AdversarialBandit, {"d_max": 5, "d_star": 3, "adversary": Punishing([0.2, 1.0], 5), "noise": "gaussian"}),
    (AdversarialBandit, {"d_max": 7, "d_star": 6, "n_actions": 3, "adversary": Hiding([2, 4, 7], 5)}),
    (MisspecifiedLinearBandit, {"dim": 3, "misspecification": 0.2, "seed": 4}),
    (MisspecifiedLinearBandit, {"dim": 2, "misspecification": 0.0, "noise": "uniform", "noise_scale": 0.5}),
    (DisjointLinearBandit, {"biases": [0.5, 0.4, 0.1], "weights": [[0.2, 0.1], [-0.4, 0.0], [0.0, 0.1]]}),
    (DisjointLinearBandit, {"biases": [0.3, 0.6], "weights": [[0.1, 0, 0], [0.2, 0, 0]], "noise": "gaussian"}),
    (DisjointLinearBandit, {"biases": [0.0, 1.0], "weights": [[0.0], [0.0]], "noise": "uniform"}),
    (GapBandit, {}),
    (GapBandit, {"rich": 0.7, "poor": 0.5, "share": 0.2, "gap": 0.1, "noise": "gaussian"}),
    (KArmedBandit, {"means": [0.1, 0.9, 0.4]}),
    (KArmedBandit, {"means": [0.0, 1.0], "noise": "uniform", "noise_scale": 0.5}),
    (KArmedBandit, {"means": [0.3, 0.2, 0.3], "noise": "gaussian", "noise_scale": 2.0}),
    (KArmedBandit, {"means": [0.0, 0.04, 1.0], "noise": "pareto"}),
    (DriftingBandit, {"means": [[0.9, 0.1], [0.1, 0.4], [0.2, 0.2]], "knots": [3, 4, 9]}),
]

# Those whose rounds are episodes: an action is a policy, and a context offers every policy.
EPISODIC: list[tuple[type[Any], dict[str, Any]]] = [
    (LinearMDP, {"n_states": 5, "n_actions": 3, "horizon": 3, "d_max": 6, "d_star": 4, "seed": 5}),
    (LinearMDP, {"n_states": 4, "n_actions": 2, "horizon": 2, "d_max": 3, "d_star": 3, "misspecification": 0.3}),
    (RiverSwim, {"n_states": 3, "horizon": 4}),
    (CombinationLock, {"horizon": 3, "n_actions": 2, "consolation": 0.3, "slip": 0.2, "seed": 5}),
]
