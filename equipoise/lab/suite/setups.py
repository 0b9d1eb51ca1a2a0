"""What an instance of the suite is: a name, settings as plain data, and a way to make one seed of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from equipoise.bounds import Bound, Observed
from equipoise.lab.experiment import Experiment
from equipoise.learner import Learner, accepts, provides
from equipoise.learners import Constant
from equipoise.problem import FullProblem
from equipoise.selectors import BalancedElimination
from equipoise.simulation.parts import log_rounds
from equipoise.types import Array, Config, Integers, Plain

ROUNDS = 100_000
EPISODES = 5_000  # an episode of the decision process stands for several rounds, and takes as long
HALVES = ("tuning", "report")
GROUPS = ("bandits", "episodes", "quiet start", "poor start", "drift", "late rewards", "further")
BANDITS, EPISODIC, QUIET, POOR, DRIFT, LATE, FURTHER = GROUPS


class InstanceSetup(NamedTuple):
    """One seed of an instance: fresh objects, ready to run."""

    problem: FullProblem
    learners: tuple[Learner, ...]
    scaled: tuple[Bound, ...]  # candidate bounds in the learner's plays, with practical constants
    contexts: str = "random"  # or "fixed", where every round offers the same actions
    delays: Array | None = None  # by round: rounds until the reward arrives, inf if never; None if all come at once
    continuous: bool = False  # whether actions are vectors of a continuous set

    @property
    def observed(self) -> tuple[Bound, ...]:
        """Observed bounds, and scaled ones for learners that provide none."""
        pairs = zip(self.learners, self.scaled, strict=True)
        return tuple(Observed() if "regret" in provides(learner) else bound for learner, bound in pairs)

    @property
    def can_share(self) -> bool:
        """Whether some learner can learn from rounds it did not play; fixed rules do not learn."""
        learning = (learner for learner in self.learners if not isinstance(learner, Constant))
        return any("off_policy" in accepts(learner) for learner in learning)


@dataclass(frozen=True)
class Instance:
    """A named instance; `build` makes one seed from `settings`, which are plain data and have "rounds"."""

    name: str
    tests: str  # what is hard about it, in one sentence
    half: str
    build: Callable[[Mapping[str, Plain], int], InstanceSetup]
    settings: Mapping[str, Plain] = field(default_factory=dict)
    rounds: int = ROUNDS
    group: str = BANDITS

    def set_up(self, seed: int, rounds: int | None = None) -> InstanceSetup:
        """One seed, by default with the instance's own number of rounds."""
        return self.build(self.complete_settings(rounds), seed)

    def complete_settings(self, rounds: int | None = None) -> Config:
        """All that the instance depends on besides the seed, as plain data."""
        return {**self.settings, "rounds": self.rounds if rounds is None else rounds}

    def change(self, rounds: int) -> int | None:
        """The last round before the expected rewards begin to change; None if they never do."""
        share = self.settings.get("change")
        return None if share is None else max(1, int(share * rounds))

    def marks(self, rounds: int) -> Integers:
        """The rounds at which curves are recorded."""
        change = self.change(rounds)
        return log_rounds(rounds) if change is None else np.unique([*log_rounds(rounds), change]).astype(np.int64)


def _as_experiment(experiment: Experiment, settings: Mapping[str, Plain], seed: int) -> InstanceSetup:
    setup = experiment.build({**settings, "rounds": settings.get("built_for", settings["rounds"])}, seed)
    scaled = setup.selectors["balanced-scaled"]
    assert isinstance(scaled, BalancedElimination) and scaled.bounds is not None
    kept = settings.get("learners", range(len(setup.learners)))
    learners, bounds = tuple(setup.learners[i] for i in kept), tuple(scaled.bounds[i] for i in kept)
    late = "delay" in settings
    delays = drawn_delays(settings["delay"], settings["lost"], settings["rounds"], seed) if late else None
    return InstanceSetup(setup.problem, learners, bounds, scaled.contexts, delays)


def from_experiment(
    experiment: Experiment,
    name: str,
    tests: str,
    half: str,
    *,
    rounds: int = ROUNDS,
    group: str = BANDITS,
    **changes: Plain,
) -> Instance:
    """An instance of an experiment of the paper, with its scaled bounds."""
    settings = {**experiment.defaults, **changes}
    return Instance(name, tests, half, partial(_as_experiment, experiment), settings, rounds, group)


def drawn_delays(mean: float, lost: float, rounds: int, seed: int) -> Array:
    """Exponential delays in whole rounds, drawn before the run; a share of the rewards never comes."""
    rng = np.random.default_rng([seed, rounds])
    delays = np.floor(rng.exponential(mean, rounds)) if mean > 0 else np.zeros(rounds)
    delays[rng.random(rounds) < lost] = np.inf
    return delays
