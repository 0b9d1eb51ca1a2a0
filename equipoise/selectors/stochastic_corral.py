"""Stochastic CORRAL: CORRAL over learners that are smoothed, so that plain rewards are enough for them.

`smoothing` says what a learner does in the two rounds for which it is drawn, `log_barrier` how the probabilities move.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation with CORRAL above it. The two steps and the
exponent of the rate agree with published code; the constant of the rate, 1, could not be checked against the paper, so
this is stochastic-CORRAL-style.
Departures: those of `smoothing` and of `log_barrier`.

>>> selector = StochasticCorral(2, horizon=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, first.teach, second.teach, second.snapshot
(True, True, False, 1)
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence, log_barrier
from equipoise.selectors._core.drawn import loss_of
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.log_barrier import Odds, Params
from equipoise.selectors._core.smoothing import SmoothedSelector, State, choose, open_state, stage
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def book(params: Params, state: State[Odds], i: int, reward: float, regret: float, probability: float) -> None:
    evidence.book(params.evidence, state.evidence, i, reward, regret)
    if probability > 0.0:
        log_barrier.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@configurable
class StochasticCorral(SmoothedSelector[Params, Odds]):
    """CORRAL over smoothed learners, whose policies can be kept, for `horizon` rounds.

    Rewards must lie in `reward_range`. Two rounds make one of the rule, so T = horizon / 2: `eta` is its learning rate,
    sqrt(M / T) unless given. `delta` and `contexts` concern the certificate alone; `seed` is that of the selector's own
    random stream, used where `choose` is given none.
    """

    name = "Stochastic corral"
    kernels: ClassVar[Kernels] = nested_kernels(choose, book=book, stage=stage)

    eta: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = sqrt(self.n_learners / self.turns)
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return log_barrier.make_params(limits, self.turns)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, log_barrier.open_odds(self.n_learners, self.eta))
