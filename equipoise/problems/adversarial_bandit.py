"""A nested linear bandit with contexts chosen by an adversary.

The adversary takes the fresh action sets of `LinearBandit` and scales them or hides features, depending on the number
of the round and on the learners that were played before; `adversaries` has the kinds. Expected rewards stay linear in
the first d* features, so learners that use these are well specified on every sequence. But rounds are not identically
distributed, so the rewards of one learner in its rounds say nothing about what another could have earned in others.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.problems import adversaries, linear_bandit
from equipoise.problems.adversaries import Adversary, History, Rule, n_hidden, new_history, scale_of
from equipoise.problems.base import ColumnReader, Kernels, Workspace, reward
from equipoise.problems.linear_bandit import LinearBandit
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count
from equipoise.types import Action, Array


class Params(NamedTuple):
    bandit: linear_bandit.Params
    theta: Array  # of the bandit
    rule: Rule
    history: History


@kernel
def draw(params: Params, workspace: Workspace, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw fresh actions and their expected rewards, scaled and with features hidden."""
    linear_bandit.draw(params.bandit, workspace, rng)
    scale, hidden = scale_of(params.rule, params.history), n_hidden(params.rule, params.history, params.bandit.n_signal)
    for k in range(len(workspace.means)):
        for j in range(1, hidden):
            workspace.means[k] -= workspace.actions[k, j] * params.theta[j]
            workspace.actions[k, j] = 0.0
        workspace.means[k] *= scale
        for j in range(workspace.actions.shape[1]):
            workspace.actions[k, j] *= scale
    return workspace.actions, workspace.means


@kernel
def record(params: Params, learner: int, action: int, reward: float) -> None:
    adversaries.record(params.rule, params.history, learner)


@configurable
class AdversarialBandit(LinearBandit):
    """`LinearBandit` with fresh contexts that an adversary changes.

    Asking for a context changes nothing; `record`, called after every round, tells the adversary which learner played.

    Examples
    --------
    >>> from equipoise.problems.adversaries import Switching
    >>> problem = AdversarialBandit(4, 2, 3, adversary=Switching(period=1, scales=(1.0, 0.0)))
    >>> rich = problem.observe(np.random.default_rng(0))
    >>> problem.record(learner=0, action=0, reward=1.0)
    >>> bool(rich.any()), bool(problem.observe(np.random.default_rng(0)).any())
    (True, False)
    """

    adversary: Adversary = setting(
        "A `Switching`, `Predicting`, `Punishing` or `Hiding`.",
        lambda _, value: adversaries.from_json(value),
        encode=adversaries.to_json,
    )
    # Contexts are fresh, with the full signal, before the adversary changes them.
    contexts: str = field(default="fresh", init=False)
    table_size: int = field(default=0, init=False)
    signal: float = field(default=1.0, init=False)

    kernels: ClassVar[Kernels] = Kernels(draw, reward, record)
    iid: ClassVar[bool] = False

    def _set_up(self) -> None:
        super()._set_up()
        kind = type(self.adversary).__name__
        self.name = f"{kind} contexts(d*={self.d_star} of {self.d_max}, K={self.n_actions})"
        bandit = self.params
        self.params = Params(bandit, bandit.theta, self.adversary.rule(), new_history())  # type: ignore[assignment]  # for its own kernels

    def record(self, learner: int, action: Action, reward: float) -> None:
        """End a round: tell the adversary which learner played."""
        self.kernels.record(self.params, count("learner", learner, minimum=0), action, reward)

    def columns_for(self, learner: ColumnReader) -> int:
        return self.n_columns
