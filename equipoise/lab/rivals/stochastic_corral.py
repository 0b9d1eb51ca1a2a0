"""Stochastic CORRAL: CORRAL over smoothed learners, which learn from plain rewards without importance weights.

`smoothing` describes the two rounds for which a learner is sampled, `corral` how the probabilities are updated.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation combined with CORRAL. The two steps and the
exponent of the rate agree with published code. The constant of the rate, 1, could not be checked against the paper, so
this is a variant in the style of stochastic CORRAL.
Departures: those of `smoothing`, which make it another algorithm than the published one, and of `corral`.

>>> selector = StochasticCorral(2, rounds=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, selector.task(second).policy
(True, 1)
"""

from __future__ import annotations

from functools import partial
from math import sqrt
from typing import ClassVar

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.lab.rivals.smoothing import SmoothedLearners, State, Task, choose, n_steps, open_state, stage
from equipoise.selector import Choice
from equipoise.selectors import corral
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.ledger import Accounts
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import at_least_two, fixed, seed_setting
from equipoise.selectors.corral import Odds, Params, loss_of
from equipoise.settings import configurable, describe, optional, setting
from equipoise.settings.checks import count, positive


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    if probability > 0.0:
        corral.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@describe(reward_range="Lowest and highest reward. Default: the portfolio's, or (0, 1).")
@configurable
class StochasticCorral(KernelSelector[Params, State[Odds], Elimination]):
    """CORRAL over smoothed learners.

    Two rounds make one step of the algorithm, so T below is rounds / 2.
    """

    name = "Stochastic corral"
    simulation_only = True
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, stage=stage)

    n_learners: int = setting("Number of learners M, at least 2.", at_least_two, kw_only=False)
    noise: float | None = fixed(None)
    radius_scale: float = fixed(1.0)
    seed: int = seed_setting()
    rounds: int = setting("Number of rounds T, at least 2.", partial(count, minimum=2))
    eta: float = setting("Initial learning rate. Default: sqrt(M / T).", optional(positive), default=None)

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = sqrt(self.n_learners / n_steps(self.rounds))
        super()._set_up()

    def _make_accounts(self) -> Accounts:
        self._learners = SmoothedLearners(self.n_learners, self.needs)
        return self._learners

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each learner for the next two rounds."""
        return tuple(row.probability for row in self.kernel_state.odds)

    def _chances(self) -> tuple[float, ...]:
        return self._learners.chances()

    def task(self, choice: Choice) -> Task:
        """Return what the learner of the newest round does in it."""
        return self._learners.task(choice)

    def _make_params(self, limits: evidence.Params) -> Params:
        return corral.make_params(limits, n_steps(self.rounds))

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, corral.open_odds(self.n_learners, self.eta))
