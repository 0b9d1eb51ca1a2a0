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
...     selector.credit(choice, reward=float(choice.learner))
>>> selector.probabilities[1] > 0.7
True
"""

from __future__ import annotations

from math import sqrt
from typing import ClassVar

from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import Kernels
from equipoise.selectors.drawn import DrawnBooks, DrawnSelector, at_least_two, choose, loss_of
from equipoise.selectors.evidence import open_books_without_bounds
from equipoise.selectors.log_barrier import BarrierRules, barrier_rules, feel, open_barrier_odds
from equipoise.validation import count, positive


@kernel
def book(rules: BarrierRules, books: DrawnBooks, i: int, reward: float, regret: float, probability: float) -> None:
    evidence.book(rules, books, i, reward, regret)
    feel(rules, books.odds, i, loss_of(rules, reward), probability)


class Corral(DrawnSelector):
    """CORRAL over `n_learners` learners that accept weights, for `horizon` rounds.

    Rewards must lie in `reward_range`. `eta` is the first learning rate. `delta` and `contexts` concern the certificate
    alone; `seed` is that of the selector's own random stream, used where `choose` is given none.
    """

    name = "Corral"
    needs = frozenset({"weight"})
    kernels: ClassVar[Kernels] = Kernels(choose, book)
    own_settings = ("eta",)

    def __init__(
        self,
        n_learners: int,
        *,
        horizon: int,
        reward_range: tuple[float, float] = (0.0, 1.0),
        eta: float | None = None,
        delta: float = 0.05,
        contexts: str = "random",
        seed: int = 0,
    ) -> None:
        usual = sqrt(at_least_two(n_learners) / count("horizon", horizon, least=2))
        self.eta = positive("eta", usual if eta is None else eta)
        super().__init__(
            n_learners, horizon=horizon, reward_range=reward_range, delta=delta, contexts=contexts, seed=seed
        )

    @property
    def params(self) -> BarrierRules:
        return barrier_rules(self.rules, self.horizon)

    def _open_books(self) -> DrawnBooks:
        books = open_books_without_bounds(self.n_learners, self.rules.width)
        return DrawnBooks(books.accounts, books.pool, open_barrier_odds(self.n_learners, self.eta))
