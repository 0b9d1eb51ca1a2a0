"""Every registered selector with settings to test it with."""

from typing import Any

import numpy as np

from equipoise import selectors
from equipoise.bounds import Custom, LinearSqrt, Observed, Power, SqrtLog
from equipoise.lab import rivals
from equipoise.learners._core.linear_class import LinearClass

# Every registered class with settings that differ from the defaults where there are any, and the checks left out.
REORDERING = "reordering_learners_changes_no_more_than_how_ties_break"
REBUILDING = "config_rebuilds_an_equal_selector"
REPLAYING = "replaying_its_choices_gives_the_same_state"  # rivals run in simulations, never from a log
RIVAL = {REORDERING, REPLAYING}
CLASSES = [LinearClass(f"{dim} features", dim, noise=0.01) for dim in (2, 4, 8, 16)]
UNSPACED = [*CLASSES[:3], LinearClass("too near", 9, noise=0.01), CLASSES[3]]
SUBJECTS: list[tuple[type[Any], Any, dict[str, Any], set[str]]] = [
    (selectors.BalancedElimination, [Power(0.01), SqrtLog(0.02, 0.1), LinearSqrt(0.0, 0.03), Observed()], {}, set()),
    (
        selectors.BalancedElimination,
        [Observed(), Observed()],
        {"delta": 0.2, "reward_range": (-3.0, -1.0), "contexts": "fixed", "radius": "paper", "radius_scale": 1.5},
        set(),
    ),
    (
        selectors.BalancedElimination,
        [Power(0.1), Power(2.0, 0.7), Power(0.2)],
        {"noise": 0.3, "reward_range": (0, 4)},
        set(),
    ),
    (selectors.BalancedElimination, [Power(0.3), Power(0.3)], {}, {REORDERING}),
    (selectors.BalancedElimination, [Custom(np.log1p, "log"), Power(0.1)], {}, {REORDERING, REBUILDING}),
    (selectors.EpochBalancing, CLASSES, {"delta": 0.3, "seed": 4, "reward_range": (-1.0, 1.0)}, {REORDERING}),
    (selectors.EpochBalancing, CLASSES[1:], {"noise": 0.3, "size": "text", "radius_scale": 0.5}, {REORDERING}),
    (selectors.AdversarialElimination, CLASSES, {"radius_scale": 0.4}, {REORDERING}),
    (
        selectors.AdversarialElimination,
        CLASSES,
        {"noise": 0.4, "size": "theorem", "reward_range": (0, 1)},
        {REORDERING},
    ),
    (selectors.AdversarialElimination, UNSPACED, {"radius_scale": 0.4}, {REORDERING}),
    (selectors.RegretBalancing, [Power(0.3), SqrtLog(0.2, 0.1), Observed()], {"delta": 0.1}, set()),
    (selectors.DynamicBalancing, [Power(0.01), LinearSqrt(0.0, 0.02), Observed()], {}, set()),
    (selectors.DynamicBalancing, [Power(0.1), Power(0.3)], {"scales": (1.0, 0.5), "biases": (0.1, 0.0)}, set()),
    (selectors.RealizedBalancing, 3, {"reward_range": (-2.0, 3.0)}, set()),
    (selectors.RealizedBalancing, 2, {"contexts": "fixed", "radius": "bernstein", "slack": 1.0, "floor": 0.1}, set()),
    (
        selectors.RealizedBalancing,
        3,
        {"bounds": [Power(0.01), LinearSqrt(0.0, 0.02), Observed()], "radius_scale": 0.2, "radius": "paper"},
        set(),
    ),
    (
        selectors.CounterfactualBalancing,
        3,
        {"reward_range": (-2.0, 3.0), "seed": 3, "greedy_experts": [0, 1, 2]},
        {REORDERING},
    ),
    (
        selectors.CounterfactualBalancing,
        2,
        {"contexts": "fixed", "learning": ["all", "agreed"], "greedy_experts": [0], "slack": 1.0, "floor": 0.1},
        {REORDERING},
    ),
    (selectors.D3RB, 3, {"d_min": 0.3, "reward_range": (-2.0, 3.0)}, set()),
    (selectors.ED2RB, 2, {"d_min": 0.2, "contexts": "fixed", "radius": "paper"}, set()),
    (rivals.ExploreCommitExploit, [Power(0.03), Power(0.02), Power(0.04)], {"radius_scale": 0.5, "seed": 2}, RIVAL),
    (rivals.RateAdaptive, 3, {"reward_range": (-2.0, 3.0), "seed": 5}, RIVAL),
    (selectors.Uniform, 3, {"delta": 0.1, "reward_range": (-2.0, 3.0), "seed": 5}, {REORDERING}),
    (
        selectors.Corral,
        3,
        {"rounds": 400, "reward_range": (-2.0, 3.0), "eta": 0.1, "delta": 0.1, "seed": 5},
        {REORDERING},
    ),
    (rivals.TsallisCorral, 3, {"rounds": 400, "reward_range": (-2.0, 3.0), "contexts": "fixed", "seed": 5}, RIVAL),
    (rivals.StochasticCorral, 3, {"rounds": 400, "reward_range": (-2.0, 3.0), "eta": 0.05, "seed": 5}, RIVAL),
    (rivals.StochasticEXP3P, 3, {"rounds": 400, "floor": 0.05, "delta": 0.1}, RIVAL),
    (rivals.UCBC, [Power(0.1), Observed(), Power(0.3)], {"rounds": 400, "reward_range": (-2.0, 3.0)}, {REPLAYING}),
    (rivals.UCBC, [Power(0.1), Observed()], {"rounds": 400, "copies": 3, "delta": 0.1, "contexts": "fixed"}, RIVAL),
    (selectors.GreedyMean, 3, {"reward_range": (-2.0, 3.0)}, set()),
    (selectors.UCB1, 4, {"exploration": 4.0, "noise": 0.3}, set()),
    (selectors.EXP3, 3, {"reward_range": (-2.0, 3.0), "rounds": 500}, {REORDERING}),
    (selectors.Oracle, 3, {"best": 2, "reward_range": (-2.0, 3.0)}, {REORDERING}),
]
