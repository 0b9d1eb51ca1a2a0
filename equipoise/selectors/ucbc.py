"""UCB-C: the learner whose median mean reward, with all that its bound and chance leave open, is highest.

Each algorithm stands as several independent copies that all play when it is chosen, one round each. What an algorithm
can earn is at most its mean reward plus R_i(n)/n, what it lost while learning, plus the deviation of a mean; the median
over the copies is far less likely to be misled by one unlucky copy than any single mean.

Reference: Arora, Marinov and Mohri (2021), "Corralling stochastic bandit algorithms", the UCB-C algorithm. The paper's
text could not be consulted and the authors' code adds 8 sqrt(k ln t) / n, which lacks the root of n that R(n) = sqrt(k
n ln t) has; so this is UCB-C-style with the bonus written out: R_i(n)/n + w sqrt(ln T / (2 n)), n the plays of a copy.
The authors take ceil(ln(1 + 1/delta)) copies; here one unless told otherwise.
Departures: while no reward of a copy is in, its mean counts as the greatest possible; the bonus counts all plays made.

>>> from equipoise.bounds import Power
>>> selector = UCBC([Power(1.0), Power(1.0)], horizon=100, copies=2)
>>> selector.n_learners, [selector.choose().learner for _ in range(4)]
(4, [0, 1, 2, 3])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, log, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from equipoise import bounds as bounds_module
from equipoise.bounds import BOUNDS, Bound
from equipoise.confidence import Radius
from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels
from equipoise.selectors.evidence import Books
from equipoise.validation import count


class CopyRules(NamedTuple):
    """`Rules`, and what is added to them here."""

    radius: Radius
    low: float
    high: float
    width: float
    copies: int
    log_horizon: float


@kernel
def choose(rules: CopyRules, books: Books, rng: np.random.Generator) -> tuple[int, float]:
    """The next copy of the algorithm whose turn it is, else the first copy of that with the highest index."""
    n_groups, best, highest = len(books.accounts) // rules.copies, 0, -inf
    for group in range(n_groups):
        first = group * rules.copies
        for i in range(first + 1, first + rules.copies):
            if books.accounts[i].plays < books.accounts[first].plays:
                return i, 1.0
        index = group_index(rules, books, first)
        if index > highest:
            best, highest = first, index
    return best, 1.0


@kernel
def group_index(rules: CopyRules, books: Books, first: int) -> float:
    """Median mean reward of the copies from `first` on, plus the bonus; infinite while unplayed."""
    plays = books.accounts[first].plays
    if plays == 0:
        return inf
    bound = 0.0
    for i in range(first, first + rules.copies):
        bound = max(bound, books.accounts[i].regret_bound)
    return median_mean(rules, books, first) + bound / plays + rules.width * sqrt(rules.log_horizon / (2.0 * plays))


@kernel
def median_mean(rules: CopyRules, books: Books, first: int) -> float:
    """The upper median of the copies' mean rewards."""
    for i in range(first, first + rules.copies):
        mean, below, at_most = mean_reward(rules, books, i), 0, 0
        for j in range(first, first + rules.copies):
            other = mean_reward(rules, books, j)
            below += other < mean
            at_most += other <= mean
        if 2 * below <= rules.copies < 2 * at_most:
            return mean
    return rules.high


@kernel
def mean_reward(rules: CopyRules, books: Books, i: int) -> float:
    account = books.accounts[i]
    return account.rewards / account.booked_plays if account.booked_plays > 0 else rules.high


class UCBC(BookedSelector):
    """UCB-C over algorithms with candidate `bounds`, for `horizon` rounds.

    With `copies` > 1 learners copies * i to copies * (i + 1) - 1 of the portfolio are the copies of algorithm i: equal
    settings, objects of their own. `delta` and `contexts` concern the certificate alone.
    """

    name = "UCB-C"
    needs = frozenset({"bounds"})
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.book_only)

    def __init__(
        self,
        bounds: Sequence[Bound],
        *,
        horizon: int,
        copies: int = 1,
        reward_range: tuple[float, float] = (0.0, 1.0),
        delta: float = 0.05,
        contexts: str = "random",
    ) -> None:
        if not isinstance(bounds, Iterable):
            raise InvalidArgument(f"bounds is {bounds!r}, but must have one bound per algorithm")
        candidates = tuple(bounds)
        if not candidates:
            raise InvalidArgument("bounds is empty, but must have one bound per algorithm")
        for bound in candidates:
            if not isinstance(bound, tuple(BOUNDS.values())):
                raise InvalidArgument(f"bounds has {bound!r}, but every entry must be one of {', '.join(BOUNDS)}")
        self.horizon = count("horizon", horizon, least=2)
        self.copies = count("copies", copies)
        each = tuple(bound for bound in candidates for _ in range(self.copies))
        super().__init__(len(each), each, delta=delta, reward_range=reward_range, contexts=contexts)

    @property
    def params(self) -> CopyRules:
        return CopyRules(*self.rules, copies=self.copies, log_horizon=log(self.horizon))

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        bounds = (self.bounds or ())[:: self.copies]
        return {
            "bounds": [bounds_module.to_json(bound) for bound in bounds],
            "horizon": self.horizon,
            "copies": self.copies,
            "delta": self.delta,
            "reward_range": list(self.reward_range),
            "contexts": self.contexts,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The selector that `config` describes, in its initial state."""
        bounds = [bounds_module.from_json(bound) for bound in config["bounds"]]
        return cls(**{**config, "bounds": bounds, "reward_range": tuple(config["reward_range"])})
