"""Every registered learner with settings and contexts to test it with."""

from typing import Any

import numpy as np

from equipoise import learners
from equipoise.features import Columns, Concat, Interactions, Offers, Prefix, Shared
from equipoise.lab.rivals import OSOM, ALBDim, ALBNorm, MisspecificationAdaptive, ModCB
from equipoise.problems.finite_mdp import one_hot
from equipoise.testing.learners import ContextSource, random_actions
from tests.episodes import HORIZON, N_ACTIONS, N_STATES


def random_offers(rng: np.random.Generator) -> Offers:
    """2 to 5 of 12 ids, with a mask, and 3 features and 2 shared ones, of small norm."""
    n_actions = int(rng.integers(2, 6))
    ids = [f"item {k}" for k in rng.choice(12, n_actions, replace=False)]
    mask = rng.random(n_actions) < 0.8
    mask[int(rng.integers(n_actions))] = True
    return Offers(rng.random((n_actions, 3)) / 2, shared=rng.random(2) / 2, ids=ids, mask=mask)


# Every registered class with settings that differ from the defaults where there are any, and the contexts it takes.
SUBJECTS: list[tuple[type[Any], dict[str, Any], ContextSource]] = [
    (learners.OFUL, {"dim": 5, "noise": 0.3, "scale": 0.5, "misspecification": 0.01, "name": "mine"}, random_actions),
    (learners.OFUL, {"dim": 3, "action_bound": 2.0, "reward_range": (-1.0, 1.0)}, lambda rng: learners.Ball(4, 1.5)),
    (learners.UCB, {"arms": 6, "noise": 0.4, "delta": 0.1}, random_actions),
    (learners.UCB, {"arms": 6, "scale": 0.3}, lambda rng: None),
    (learners.EpsilonGreedy, {"arms": 7, "epsilon": 0.3, "seed": 5}, random_actions),
    (learners.EpsilonGreedy, {"arms": 3, "epsilon": 1.0}, lambda rng: None),
    (learners.LinearThompson, {"dim": 4, "scale": 0.2, "regularization": 2.0, "seed": 5}, random_actions),
    (learners.SquareCB, {"dim": 4, "scale": 3.0, "misspecification": 0.1, "seed": 5}, random_actions),
    (learners.OFUL, {"dim": 4, "discount": 0.8, "scale": 0.5}, random_actions),
    (learners.LogisticUCB, {"dim": 4, "scale": 0.7, "regularization": 0.5}, random_actions),
    (learners.LogisticThompson, {"dim": 4, "scale": 0.5, "seed": 5}, random_actions),
    (ModCB, {"dims": [2, 4, 7], "exploration": 0.2, "noise": 0.3, "seed": 5}, random_actions),
    (OSOM, {"arms": 6, "dim": 5, "delta": 0.1}, random_actions),
    (ALBNorm, {"dim": 5, "arms": 6, "first_epoch": 10, "norm_bound": 4.0}, random_actions),
    (ALBNorm, {"dim": 3, "first_epoch": 7, "reward_range": (-1.0, 1.0)}, random_actions),
    (ALBDim, {"dim": 5, "first_phase": 16, "seed": 5}, random_actions),
    (MisspecificationAdaptive, {"dim": 5, "arms": 6, "rounds": 500, "seed": 5}, random_actions),
    (learners.Scheduled, {"family": "power", "coefficient": 2.0, "shape": 0.5, "gap": 0.3}, random_actions),
    (learners.Scheduled, {"family": "linear-sqrt", "coefficient": 1.0, "shape": 0.1}, lambda rng: None),
    (
        learners.DisjointOFUL,
        {"dim": 3, "arms": 4, "window": 30, "scale": 0.5, "reward_range": (-1.0, 1.0)},
        random_actions,
    ),
    (learners.DisjointOFUL, {"features": Shared(2), "arms": 3, "window": 20}, random_offers),
    (learners.DisjointOFUL, {"features": Shared(2), "arms": 3, "window": 20, "discount": 0.9}, random_offers),
    (learners.OFUL, {"dim": 2, "discount": 0.5}, lambda rng: learners.Ball(2)),
    (learners.LogisticUCB, {"features": Concat([Columns([1]), Shared(2)])}, random_offers),
    (learners.LogisticThompson, {"features": Interactions(Prefix(2), Shared(1))}, random_offers),
    (learners.UCB, {"arms": 2, "window": 25, "scale": 0.3}, random_offers),
    (learners.EpsilonGreedy, {"arms": 3, "window": 25, "epsilon": 0.4}, random_offers),
    (learners.OFUL, {"features": Concat([Columns([2, 0]), Interactions(Prefix(1), Shared(2))])}, random_offers),
    (learners.SquareCB, {"features": Columns([1])}, random_offers),
    (ModCB, {"dims": [1, 3], "features": Concat([Shared(1), Prefix(2)])}, random_offers),
    (learners.Constant, {"action": 0}, lambda rng: Offers(rng.random((3, 2)))),
    (learners.Constant, {"action": 1}, random_actions),
    (learners.Constant, {"action": 3}, lambda rng: None),
]

# The registered learners of episodes, with settings; contexts and trajectories come from `tests.episodes`.
FEATURES = one_hot(N_STATES, N_ACTIONS)[:, :, :5].tolist()
EPISODIC: list[tuple[type[Any], dict[str, Any]]] = [
    (
        learners.LSVI_UCB,
        {"features": FEATURES, "horizon": HORIZON, "episodes": 90, "bonus": 0.1, "misspecification": 0.01},
    ),
    (
        learners.LSVI_UCB,
        {"features": FEATURES, "dim": 3, "horizon": HORIZON, "episodes": 9, "low_switching": True, "name": "x"},
    ),
    (learners.UCBVI, {"n_states": N_STATES, "n_actions": N_ACTIONS, "horizon": HORIZON, "episodes": 90, "bonus": 0.1}),
    (
        learners.QLearning,
        {"n_states": N_STATES, "n_actions": N_ACTIONS, "horizon": HORIZON, "episodes": 90, "bonus": 0.1},
    ),
    (
        learners.Eleanor,
        {
            "features": [[[0.6, 0.0], [0.0, 0.8]]] * N_STATES,
            "horizon": HORIZON,
            "n_starts": 0,
            "scale": 0.1,
            "finest_step": 0.05,
        },
    ),
]
