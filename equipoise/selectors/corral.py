"""CORRAL: learners are the arms of an adversarial bandit and learn from importance-weighted rewards.

In every round one learner is sampled. Its loss divided by its probability is an unbiased estimate of its loss if it
always played, and mirror descent with the log barrier updates the probabilities. Every learner learns from every round:
the sampled one with weight 1/probability, the others with weight 0, so that each faces, in expectation, the problem it
would face alone. The regret is then of the order of the best learner's under such feedback, which is why learners must
accept importance weights.

Reference: Agarwal, Luo, Neyshabur and Schapire (2017), "Corralling a band of bandit algorithms", algorithm 1 and
theorem 4. Symbols and the algorithm's second half are in `log_barrier`.
Departures: learners get the reward and the weight separately, not their product, so that a regression can weight its
squared error; the default of `eta` is sqrt(M / T), the theorem's choice without its term 1 / (40 R ln T), because the
regret bound R of the best learner is unknown. A late reward is divided by the probability of its own choice and updates
the probabilities that hold when it is credited.

>>> selector = Corral(2, rounds=1000)
>>> for _ in range(100):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=float(choice.learner))
>>> selector.probabilities[1] > 0.7
True
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence, log_barrier
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.log_barrier import Odds, Params
from equipoise.selectors._core.sampling import SamplingSelector, State, choose, loss_of
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    log_barrier.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@configurable
class Corral(SamplingSelector[Params, Odds]):
    """CORRAL over learners that accept importance weights.

    Parameters
    ----------
    n_learners
        Number of learners, at least 2.
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
        Number of rounds T.
    eta
        Initial learning rate; sqrt(n_learners / rounds) if not given.
    """

    name = "Corral"
    explanation = (
        "A learner is sampled; its probability decreases with its losses, each divided by the probability with "
        "which it was played."
    )
    needs = frozenset({"weight"})
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)

    eta: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = sqrt(self.n_learners / self.rounds)
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return log_barrier.make_params(limits, self.rounds)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return State(accounts, log_barrier.open_odds(self.n_learners, self.eta))
