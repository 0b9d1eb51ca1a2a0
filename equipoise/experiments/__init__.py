"""Named experiments, one file each. The registry is what the command line enumerates."""

from __future__ import annotations

from equipoise.experiments.experiment import Experiment, Setup
from equipoise.experiments.nested import NESTED
from equipoise.experiments.results import load_results

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (NESTED,)}

__all__ = ["EXPERIMENTS", "Experiment", "Setup", "load_results"]
