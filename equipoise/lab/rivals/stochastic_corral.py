"""Stochastic CORRAL: CORRAL over smoothed learners, which learn from plain rewards without importance weights.

`smoothing` describes the two rounds for which a learner is sampled, `corral` how the probabilities are updated.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation combined with CORRAL. The two steps and the
exponent of the rate agree with published code. The constant of the rate, 1, could not be checked against the paper, so
this is a variant in the style of stochastic CORRAL.
Departures: those of `smoothing`, which make it another algorithm than the published one, and of `corral`.

>>> selector = StochasticCorral(2, rounds=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, selector.kernel_state.policies[second.learner].kept
(True, 1)
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.lab.rivals.smoothing import SmoothedLearners, State, chances, choose, n_steps, open_state, stage
from equipoise.selectors import corral
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import bounded_rewards, seed_setting
from equipoise.selectors.corral import Odds, Params, loss_of
from equipoise.settings import optional, setting
from equipoise.settings.checks import at_least_2, positive


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    if probability > 0.0:
        corral.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@bounded_rewards
class StochasticCorral(KernelSelector[Params, State[Odds], Elimination]):
    """CORRAL over smoothed learners.

    Two rounds make one step of the algorithm, so T below is rounds / 2.
    """

    name = "Stochastic corral"
    simulation_only = True
    accounts, _chances = SmoothedLearners, chances
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, stage=stage)

    n_learners: int = setting("Number of learners M, at least 2.", at_least_2, kw_only=False)
    seed: int = seed_setting()
    rounds: int = setting("Number of rounds T, at least 2.", at_least_2)
    eta: float = setting("Initial learning rate. Default: sqrt(M / T).", optional(positive), default=None)

    def _set_up(self) -> None:
        self.eta = self.eta or sqrt(self.n_learners / n_steps(self.rounds))
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return corral.make_params(limits, n_steps(self.rounds))

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, [corral.new_odds(self.n_learners, self.eta) for _ in range(self.n_learners)])
