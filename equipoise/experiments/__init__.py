"""Named experiments, one file each. The registry is what the command line enumerates."""

from __future__ import annotations

from equipoise.experiments.adversarial import ADVERSARIAL
from equipoise.experiments.bellman_error import BELLMAN_ERROR
from equipoise.experiments.confidence import CONFIDENCE
from equipoise.experiments.context_or_not import CONTEXT_OR_NOT
from equipoise.experiments.experiment import Experiment, Setup
from equipoise.experiments.exploration_bonus import EXPLORATION_BONUS
from equipoise.experiments.linear_mdp import LINEAR_MDP
from equipoise.experiments.misspecification import MISSPECIFICATION
from equipoise.experiments.nested import NESTED
from equipoise.experiments.results import load_results
from equipoise.experiments.ucb_width import UCB_WIDTH

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        NESTED,
        MISSPECIFICATION,
        CONFIDENCE,
        UCB_WIDTH,
        CONTEXT_OR_NOT,
        ADVERSARIAL,
        LINEAR_MDP,
        EXPLORATION_BONUS,
        BELLMAN_ERROR,
    )
}

__all__ = ["EXPERIMENTS", "Experiment", "Setup", "load_results"]
