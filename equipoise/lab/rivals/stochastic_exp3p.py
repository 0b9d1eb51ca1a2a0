"""Stochastic EXP3.P: EXP3.P over smoothed learners, which learn from plain rewards without importance weights.

`smoothing` describes the two rounds for which a learner is sampled. EXP3.P has exponential weights with a lower limit
on every probability and a bonus for rarely sampled learners: in every step each gain estimate increases by half the
floor divided by the learner's probability, in addition to the importance-weighted reward, so that it is an upper bound
on the true gain with high probability; the floor limits the bonus.

Reference: Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit
problems", figure 3.2 (EXP3.P). Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model
selection in contextual stochastic bandit problems", the smoothing transformation combined with EXP3.P. The two steps
and the exponents of rate and floor agree with published code. The constants could not be checked against the paper, so
this is a variant in its style.
Symbols: G gain, q probability, p floor, eta rate; their beta is p / 2 and their gamma M p.
Departures: those of `smoothing`.

>>> selector = StochasticEXP3P(2, rounds=1000)
>>> first, second = selector.choose(), selector.choose()
>>> first.learner == second.learner, selector.kernel_state.policies[second.learner].kept
(True, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import ClassVar, NamedTuple

from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.lab.rivals.smoothing import SmoothedLearners, State, chances, choose, n_steps, open_state, stage
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import bounded_rewards, seed_setting
from equipoise.selectors.corral import loss_of
from equipoise.settings import optional, setting
from equipoise.settings.checks import at_least_2, positive


@dataclass(slots=True)
class Odds:
    """Sampling weight of one learner."""

    probability: float
    gain: float = 0.0  # relative to the largest


class Params(NamedTuple):
    evidence: evidence.Params
    rate: float
    floor: float


@kernel
def update_weights(params: Params, odds: list[Odds], i: int, gain: float, probability: float) -> None:
    """Update the probabilities after a gain in [0, 1] of learner i, which was sampled with `probability`."""
    n_learners, bonus = len(odds), 0.5 * params.floor
    for j in range(n_learners):
        odds[j].gain += (gain + bonus) / probability if j == i else bonus / odds[j].probability
    greatest = odds[0].gain
    for j in range(1, n_learners):
        greatest = max(greatest, odds[j].gain)
    total = 0.0
    for j in range(n_learners):
        odds[j].gain -= greatest
        total += exp(params.rate * odds[j].gain)
    for j in range(n_learners):
        share = exp(params.rate * odds[j].gain) / total
        odds[j].probability = (1.0 - n_learners * params.floor) * share + params.floor


@kernel
def arrive(params: Params, state: State[Odds], i: int, reward: float, probability: float) -> None:
    if probability > 0.0:
        update_weights(params, state.odds, i, 1.0 - loss_of(params.evidence, reward), probability)


@bounded_rewards
class StochasticEXP3P(KernelSelector[Params, State[Odds], Elimination]):
    """EXP3.P over smoothed learners.

    Two rounds make one step of the algorithm, so T below is rounds / 2.
    """

    name = "Stochastic EXP3.P"
    simulation_only = True
    accounts, _chances = SmoothedLearners, chances
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, stage=stage)

    n_learners: int = setting("Number of learners M, at least 2.", at_least_2, kw_only=False)
    seed: int = seed_setting()
    rounds: int = setting("Number of rounds T, at least 2.", at_least_2)
    eta: float = setting("Learning rate. Default: 0.95 sqrt(ln M / (M T)).", optional(positive), default=None)
    floor: float = setting(
        "Smallest probability of a learner. Default: T^(-1/3) M^(-2/3).", optional(positive), default=None
    )

    def _set_up(self) -> None:
        self.eta = self.eta or 0.95 * sqrt(log(self.n_learners) / (self.n_learners * n_steps(self.rounds)))
        if self.floor is None:
            # For learners whose regret is of order sqrt(T) with an unknown factor.
            floor = float(n_steps(self.rounds) ** (-1 / 3) * self.n_learners ** (-2 / 3))
            self.floor = min(floor, 1.0 / self.n_learners)
        if self.floor * self.n_learners > 1.0:
            limit = f"at most 1 / n_learners = {1 / self.n_learners:g}"
            raise InvalidArgument(f"floor is {self.floor!r}, but must be {limit}")
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.eta, self.floor)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return open_state(accounts, [Odds(1.0 / self.n_learners) for _ in range(self.n_learners)])
