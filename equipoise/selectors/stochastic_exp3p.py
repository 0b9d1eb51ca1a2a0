"""Stochastic EXP3.P: EXP3.P over learners that are smoothed, so that plain rewards are enough for them.

`smoothing` says what a learner does in the two rounds for which it is drawn, `exp3p` how the probabilities move.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation with EXP3.P above it. The two steps and the
exponents of rate and floor agree with published code; the constants, those of `exp3p`, could not be checked against the
paper, so this is in its style.
Departures: those of `smoothing`.

>>> selector = StochasticEXP3P(2, horizon=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, first.teach, second.teach, second.snapshot
(True, True, False, 1)
"""

from __future__ import annotations

from typing import ClassVar

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence, exp3p
from equipoise.selectors._core.drawn import loss_of
from equipoise.selectors._core.exp3p import Odds, Params
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.smoothing import SmoothedSelector, State, choose, open_state, stage
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def book(params: Params, state: State[Odds], i: int, reward: float, regret: float, probability: float) -> None:
    evidence.book(params.evidence, state.evidence, i, reward, regret)
    if probability > 0.0:
        exp3p.update_weights(params, state.odds, i, 1.0 - loss_of(params.evidence, reward), probability)


@configurable
class StochasticEXP3P(SmoothedSelector[Params, Odds]):
    """EXP3.P over smoothed learners, whose policies can be kept, for `horizon` rounds.

    Two rounds make one of the rule, so T = horizon / 2: `eta` is its learning rate, 0.95 sqrt(ln M / (M T)) unless
    given, `floor` the least probability, T^(-1/3) M^(-2/3) unless given. The other settings are those of
    `StochasticCorral`.
    """

    name = "Stochastic EXP3.P"
    kernels: ClassVar[Kernels] = nested_kernels(choose, book=book, stage=stage)

    eta: float = setting(default=None, check=optional(positive))
    floor: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = exp3p.usual_rate(self.n_learners, self.turns)
        if self.floor is None:
            self.floor = exp3p.usual_floor(self.n_learners, self.turns)
        if self.floor * self.n_learners > 1.0:
            limit = f"at most 1 / n_learners = {1 / self.n_learners:g}"
            raise InvalidArgument(f"floor is {self.floor!r}, but must be {limit}")
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.eta, self.floor)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, exp3p.open_odds(self.n_learners))
