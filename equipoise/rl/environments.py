"""The finite decision processes of `equipoise.problems` as gymnasium environments.

Each class is both a `gymnasium.Env` and a problem with known optimal values, so the regret in it is exact.
"""

from __future__ import annotations

import gymnasium

from equipoise import problems
from equipoise.errors import InvalidArgument
from equipoise.problems.finite_mdp import FiniteMDP, advance
from equipoise.settings.checks import count
from equipoise.types import Action, Config, Context


class FiniteEnv(gymnasium.Env[Context, Action], FiniteMDP):
    """A finite decision process as an environment: observations and actions are indices, an episode has H steps."""

    def _set_up(self) -> None:
        super()._set_up()
        self.observation_space = gymnasium.spaces.Discrete(self.n_states)
        self.action_space = gymnasium.spaces.Discrete(self.n_actions)
        self._step = self.horizon  # outside an episode

    def reset(self, *, seed: int | None = None, options: Config | None = None) -> tuple[int, Config]:
        """Begin an episode in a random start state."""
        super().reset(seed=seed)
        self._step, self._state = 0, self.observe(self.np_random)
        return self._state, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, Config]:
        """Take one step; the episode terminates with the last one."""
        if self._step == self.horizon:
            raise InvalidArgument("step() was called outside an episode, but must be called after reset()")
        chosen = count("action", action, minimum=0, maximum=self.n_actions - 1)
        row = self._state * self.n_actions + chosen
        reward, self._state = advance(self.params, self._step, row, self.np_random)
        self._step += 1
        return self._state, reward, self._step == self.horizon, False, {}


class LinearMDP(FiniteEnv, problems.LinearMDP):
    """`equipoise.problems.LinearMDP` as an environment.

    >>> env = LinearMDP(seed=3)
    >>> state, _ = env.reset(seed=0)
    >>> env.optimal_value(state) > 2.0
    True
    """


class RiverSwim(FiniteEnv, problems.RiverSwim):
    """`equipoise.problems.RiverSwim` as an environment."""


class CombinationLock(FiniteEnv, problems.CombinationLock):
    """`equipoise.problems.CombinationLock` as an environment."""
