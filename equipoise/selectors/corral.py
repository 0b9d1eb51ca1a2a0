"""CORRAL: learners as the arms of an adversarial bandit, each told what it would have earned on its own.

Every round a learner is drawn, its loss divided by its probability estimates without bias what it would have lost had
it always played, and mirror descent with the log barrier moves the probabilities. Every learner is told of every
round: the drawn one with weight 1/probability, the others with weight 0, so that each faces, in expectation, the
problem it would face alone. The regret is then of the order of the best learner's under such feedback, which is why
learners must stand importance weights.

Reference: Agarwal, Luo, Neyshabur and Schapire (2017), "Corralling a band of bandit algorithms", algorithm 1 and
theorem 4. Symbols and the algorithm's second half are in `log_barrier`.
Departures: learners get reward and weight apart, not their product, so that a regression can weigh its squared error;
`eta` unless given is sqrt(M / T), the theorem's choice but for its term 1 / (40 R ln T), whose regret bound R of the
best learner nobody knows. A reward that comes late is divided by the probability of its own choice and moves the
probabilities as they are when it is booked.

>>> selector = Corral(2, horizon=1000)
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
from equipoise.selectors._core.drawn import DrawnSelector, State, choose, loss_of
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.log_barrier import Odds, Params
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import positive


@kernel
def book(params: Params, state: State[Odds], i: int, reward: float, regret: float, probability: float) -> None:
    evidence.book(params.evidence, state.evidence, i, reward, regret)
    log_barrier.update_weights(params, state.odds, i, loss_of(params.evidence, reward), probability)


@configurable
class Corral(DrawnSelector[Params, Odds]):
    """CORRAL over `n_learners` learners that accept weights, for `horizon` rounds.

    Rewards must lie in `reward_range`. `eta` is the first learning rate. `delta` and `contexts` concern the certificate
    alone; `seed` is that of the selector's own random stream, used where `choose` is given none.
    """

    name = "Corral"
    needs = frozenset({"weight"})
    kernels: ClassVar[Kernels] = nested_kernels(choose, book=book)

    eta: float = setting(default=None, check=optional(positive))

    def _set_up(self) -> None:
        if self.eta is None:
            self.eta = sqrt(self.n_learners / self.horizon)
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        return log_barrier.make_params(limits, self.horizon)

    def _make_state(self, accounts: evidence.State) -> State[Odds]:
        return State(accounts, log_barrier.open_odds(self.n_learners, self.eta))
