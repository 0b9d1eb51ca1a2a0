"""Stochastic CORRAL: CORRAL over smoothed learners, which learn from plain rewards without importance weights.

`smoothing` describes the two rounds for which a learner is sampled, `log_barrier` how the probabilities are updated.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation combined with CORRAL. The two steps and the
exponent of the rate agree with published code. The constant of the rate, 1, could not be checked against the paper, so
this is a variant in the style of stochastic CORRAL.
Departures: those of `smoothing`, which make it another algorithm than the published one, and of `log_barrier`.

>>> selector = StochasticCorral(2, rounds=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, first.teach, second.teach, second.snapshot
(True, True, False, 1)
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence, log_barrier
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.log_barrier import Odds, Params
from equipoise.selectors._core.sampling import loss_of
from equipoise.selectors._core.smoothing import SmoothedSelector, State, choose, open_state, stage
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    if probability > 0.0:
        log_barrier.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@configurable
class StochasticCorral(SmoothedSelector[Params, Odds]):
    """CORRAL over smoothed learners, which must support snapshots.

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
        Initial learning rate; sqrt(M / T) if not given.
    """

    name = "Stochastic corral"
    explanation = (
        "A learner is sampled for two rounds; its probability decreases with the losses of second rounds, each "
        "divided by the probability with which it was sampled."
    )
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, stage=stage)

    eta: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = sqrt(self.n_learners / self.turns)
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return log_barrier.make_params(limits, self.turns)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, log_barrier.open_odds(self.n_learners, self.eta))
