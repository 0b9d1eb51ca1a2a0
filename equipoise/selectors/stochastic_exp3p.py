"""Stochastic EXP3.P: EXP3.P over smoothed learners, which learn from plain rewards without importance weights.

`smoothing` describes the two rounds for which a learner is sampled, `exp3p` how the probabilities are updated.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation combined with EXP3.P. The two steps and the
exponents of rate and floor agree with published code. The constants, those of `exp3p`, could not be checked against the
paper, so this is a variant in its style.
Departures: those of `smoothing`.

>>> selector = StochasticEXP3P(2, rounds=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, first.teach, second.teach, second.snapshot
(True, True, False, 1)
"""

from __future__ import annotations

from typing import ClassVar

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence, exp3p
from equipoise.selectors._core.exp3p import Odds, Params
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.sampling import loss_of
from equipoise.selectors._core.smoothing import SmoothedSelector, State, choose, open_state, stage
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    if probability > 0.0:
        exp3p.update_weights(params, state.odds, i, 1.0 - loss_of(params.evidence, reward), probability)


@configurable
class StochasticEXP3P(SmoothedSelector[Params, Odds]):
    """EXP3.P over smoothed learners, which must support snapshots.

    Two rounds make one step of the algorithm, so T below is rounds / 2.

    Parameters
    ----------
    n_learners
        Number of learners M, at least 2.
    delta
        Failure probability of the certificate; it does not affect choices.
    reward_range
        Lowest and highest reward. Default: as the portfolio says; alone (0, 1).
    contexts
        "fixed" if contexts and action sets never change, else "random"; only for the certificate.
    radius
        Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein"; only for the certificate.
    seed
        Seed of the selector's random numbers, used if `choose` gets no generator.
    rounds
        Number of rounds.
    eta
        Learning rate; 0.95 sqrt(ln M / (M T)) if not given.
    floor
        Smallest probability of a learner; T^(-1/3) M^(-2/3) if not given.
    """

    name = "Stochastic EXP3.P"
    explanation = (
        "A learner is sampled for two rounds; its probability increases exponentially with the rewards of second "
        "rounds, each divided by the probability with which it was sampled."
    )
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, stage=stage)

    eta: float = setting(default=None, check=optional(positive))
    floor: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = exp3p.default_rate(self.n_learners, self.turns)
        if self.floor is None:
            self.floor = exp3p.default_floor(self.n_learners, self.turns)
        if self.floor * self.n_learners > 1.0:
            limit = f"at most 1 / n_learners = {1 / self.n_learners:g}"
            raise InvalidArgument(f"floor is {self.floor!r}, but must be {limit}")
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.eta, self.floor)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, exp3p.open_odds(self.n_learners))
