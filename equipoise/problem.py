"""The contract of a problem: where contexts and rewards come from, for simulations.

Only `observe` and `respond` are required (`Problem`). Simulations wrap a problem in an `AdaptedProblem`, which fills in
what it omits. Optional members:
- `name`: the name shown in tables and figures; by default the class name.
- `reward_range`: range of the rewards, or of the expected rewards if the noise is unbounded; (0, 1) by default.
- `noise`: sub-Gaussian factor of unbounded noise; None, the default, if rewards are in the range.
- `iid`: whether contexts are independent and identically distributed, whatever was played; False by default.
- `gap(context, action)`: exact difference between the expected reward of the best action and that of `action`. Without
  it the regret is unknown.
- `record(learner, action, reward)`: called after every round, for adversaries that use the history.
- `play(context, action, rng)`: reward and outcome, if learners learn from more than the action (an episode); replaces
  `respond`.
- `config()`: the constructor's arguments, as plain data.
"""

from __future__ import annotations

from math import nan
from typing import Protocol

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.types import Action, Config, Context, Outcome


class Problem(Protocol):
    """A source of contexts and rewards; see the module docstring for optional members."""

    def observe(self, rng: np.random.Generator) -> Context:
        """The context of the next round."""

    def respond(self, context: Context, action: Action, rng: np.random.Generator) -> float:
        """The reward of an action."""


class FullProblem(Problem, Protocol):
    """A problem with all members that experiments, suite and audit use; see the module docstring."""

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
    """A problem with all members: fills in what the wrapped one omits."""

    def __init__(self, problem: Problem) -> None:
        if isinstance(problem, type):
            name = problem.__name__
            raise InvalidArgument(f"problem is the class {name}, but must be an instance: write {name}(...)")
        lacking = [method for method in ("observe", "respond") if not callable(getattr(problem, method, None))]
        if lacking and (lacking != ["respond"] or not hasattr(problem, "play")):
            name = type(problem).__name__
            raise InvalidArgument(
                f"problem is a {name} without {lacking[0]}(), but must have one: see equipoise.Problem"
            )
        self.problem = problem
        self.name = str(getattr(problem, "name", type(problem).__name__))
        self.reward_range: tuple[float, float] = getattr(problem, "reward_range", (0.0, 1.0))
        self.noise: float | None = getattr(problem, "noise", None)
        self.iid = bool(getattr(problem, "iid", False))
        self.observe = problem.observe
        self._gap = getattr(problem, "gap", None)
        self._record = getattr(problem, "record", None)
        self._play = getattr(problem, "play", None)

    def __repr__(self) -> str:
        return f"AdaptedProblem({self.problem!r})"

    @property
    def knows_gaps(self) -> bool:
        return self._gap is not None

    def play(self, context: Context, action: Action, rng: np.random.Generator) -> tuple[float, Outcome]:
        """Reward and outcome of an action; the outcome is None if learners learn from the action itself."""
        if self._play is None:
            return self.problem.respond(context, action, rng), None
        reward, outcome = self._play(context, action, rng)
        return reward, outcome

    def gap(self, context: Context, action: Action) -> float:
        """Expected loss of an action compared with the best one in this context; nan if unknown."""
        return nan if self._gap is None else float(self._gap(context, action))

    def record(self, learner: int, action: Action, reward: float) -> None:
        """Report a finished round."""
        if self._record is not None:
            self._record(learner, action, reward)
