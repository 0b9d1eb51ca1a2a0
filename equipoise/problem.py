"""The contract of a problem: where contexts and rewards come from, for simulations.

Only `observe` and `respond` are required (`Problem`). Whoever plays a problem wraps it once into an `AdaptedProblem`,
which fills in what it leaves out. What else a problem may have, and what for:
- `name`: what people see; the class name unless given.
- `reward_range`: of the rewards, or of the expected rewards where the noise is unbounded; (0, 1) unless given.
- `noise`: the sub-Gaussian factor of unbounded noise, None where rewards keep to the range.
- `iid`: whether contexts are independent and identically distributed, whatever was played; False unless given.
- `gap(context, action)`: the exact expected loss of an action against the best one. A problem that knows it makes
  regret exact; without it regret is not known.
- `record(learner, action, reward)`: called after every round, for adversaries that look at the history.
- `play(context, action, rng)`: reward and outcome at once, where more than the action is learned from (an episode);
  takes the place of `respond`.
- `config()`: the constructor's arguments, as plain data.
"""

from __future__ import annotations

from math import nan
from typing import Protocol

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.types import Action, Config, Context, Outcome


class Problem(Protocol):
    """A source of rounds; see the module's text for what may be added."""

    def observe(self, rng: np.random.Generator) -> Context:
        """The context of the next round."""
        ...

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        """The reward of an action."""
        ...


class FullProblem(Problem, Protocol):
    """A problem with all that experiments, suite and audit look at; see the module's text for what the members mean."""

    @property
    def name(self) -> str: ...

    @property
    def reward_range(self) -> tuple[float, float]: ...

    @property
    def noise(self) -> float | None: ...

    @property
    def iid(self) -> bool: ...

    def gap(self, context: Context, action: Action) -> float: ...

    def config(self) -> Config: ...


class AdaptedProblem:
    """Any problem with all members; the only place that looks for what a problem may leave out."""

    def __init__(self, problem: Problem) -> None:
        if isinstance(problem, type):
            name = problem.__name__
            raise InvalidArgument(f"problem is the class {name}, but must be an object: write {name}(...)")
        lacking = [method for method in ("observe", "respond") if not callable(getattr(problem, method, None))]
        if lacking and (lacking != ["respond"] or not hasattr(problem, "play")):
            name = type(problem).__name__
            raise InvalidArgument(f"problem is a {name} without {lacking[0]}(): see equipoise.Problem")
        self.problem = problem
        self.name = str(getattr(problem, "name", type(problem).__name__))
        self.reward_range: tuple[float, float] = getattr(problem, "reward_range", (0.0, 1.0))
        self.noise: float | None = getattr(problem, "noise", None)
        self.iid = bool(getattr(problem, "iid", False))
        self.observe = problem.observe
        self._gap = getattr(problem, "gap", None)
        self._record = getattr(problem, "record", None)
        self._play = getattr(problem, "play", None)

    @property
    def knows_gaps(self) -> bool:
        return self._gap is not None

    def play(self, context: Context, action: Action, rng: np.random.Generator) -> tuple[float, Outcome]:
        """Reward and outcome of an action; the outcome is None where the action is all there is to learn from."""
        if self._play is None:
            return self.problem.respond(context, action, rng), None
        reward, outcome = self._play(context, action, rng)
        return reward, outcome

    def gap(self, context: Context, action: Action) -> float:
        """The expected loss of an action against the best one in this context; nan if it is not known."""
        return nan if self._gap is None else float(self._gap(context, action))

    def record(self, learner: int, action: Action, reward: float) -> None:
        """A round is over."""
        if self._record is not None:
            self._record(learner, action, reward)
