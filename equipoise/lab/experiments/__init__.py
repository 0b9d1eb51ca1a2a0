"""Named experiments, one file each. The registry is what the command line enumerates."""

from __future__ import annotations

from equipoise.lab.experiment import Experiment, Setup
from equipoise.lab.experiments.adversarial import ADVERSARIAL
from equipoise.lab.experiments.ball import BALL
from equipoise.lab.experiments.bellman_error import BELLMAN_ERROR
from equipoise.lab.experiments.confidence import CONFIDENCE
from equipoise.lab.experiments.context_or_not import CONTEXT_OR_NOT
from equipoise.lab.experiments.exploration_bonus import EXPLORATION_BONUS
from equipoise.lab.experiments.linear_mdp import LINEAR_MDP
from equipoise.lab.experiments.misspecification import MISSPECIFICATION
from equipoise.lab.experiments.nested import NESTED
from equipoise.lab.experiments.ucb_width import UCB_WIDTH
from equipoise.lab.runs.results import load_results

_FINITE = (NESTED, MISSPECIFICATION, CONFIDENCE, UCB_WIDTH, CONTEXT_OR_NOT, ADVERSARIAL)
_EPISODIC = (LINEAR_MDP, EXPLORATION_BONUS, BELLMAN_ERROR)
EXPERIMENTS = {experiment.name: experiment for experiment in (*_FINITE, *_EPISODIC, BALL)}

__all__ = ["EXPERIMENTS", "Experiment", "Setup", "load_results"]
