"""Epoch balancing: one epoch of selection under adversarial contexts.

Each round every learner proposes an action with a lower bound on its expected reward, and one learner, drawn with
probability proportional to 1/z_i independently of the context, is played. The epoch ends once its rewards, with all
that the played learners admit to have lost, fall short of what some learner's lower bounds add up to over the same
rounds: then not all learners are well specified. z_i is the order of the squared regret of learner i, so that all
learners have about the same regret.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 2.
Symbols: those of `epochs`; z_i sizes, p_i probabilities.
Departures: those of `epochs`; z is that of the proof, the two forms that the text prints can be selected; delta pays
for four one-sided events (noise above and below, potential, play counts), of which the test uses one. Once the epoch
has ended, play goes on untested. Rewards may come late: the test sees the longest prefix of rounds that is resolved.

>>> from equipoise.learners import OFUL
>>> selector = EpochBalancing.for_learners([OFUL(2), OFUL(4), OFUL(8)])
>>> [round(probability, 3) for probability in selector.probabilities]
[0.667, 0.25, 0.083]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Any, ClassVar, Self

import numpy as np

from equipoise.bounds import Observed
from equipoise.confidence import Radius, epoch_alpha, noise_radius, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernel import kernel
from equipoise.learner import Proposal
from equipoise.ledger import Bookkeeping, Notes
from equipoise.nesting import SIZES, LinearClass, check_class, check_nested, linear_class
from equipoise.selector import Certificate, Choice, EpochEnd, EpochEvidence, LowerEvidence, Standing, check_entitled
from equipoise.selectors import evidence
from equipoise.selectors.base import BookedSelector, Kernels
from equipoise.selectors.epochs import EpochBooks, add_round, certify, open_epoch_books, smallest_active, test
from equipoise.selectors.evidence import Rules
from equipoise.validation import one_of, real


@kernel
def choose(rules: Rules, books: EpochBooks, rng: np.random.Generator) -> tuple[int, float]:
    """An active learner, drawn with probability proportional to its weight."""
    total = 0.0
    for i in range(len(books.claims)):
        if books.accounts[i].active:
            total += books.claims[i].weight
    left, chosen = rng.random() * total, -1
    for i in range(len(books.claims)):
        # Rounding may leave a rest beyond the last one; that one is chosen then.
        if books.accounts[i].active and (left >= 0.0 or chosen < 0):
            chosen = i
            left -= books.claims[i].weight
    return chosen, books.claims[chosen].weight / total


@kernel
def book(rules: Rules, books: EpochBooks, i: int, reward: float, regret: float, probability: float) -> None:
    """Book one reward; what it proves waits for its turn in the order of rounds."""
    evidence.book(rules, books, i, reward, regret)


@kernel
def close_round(
    rules: Rules,
    books: EpochBooks,
    i: int,
    reward: float,
    regret: float,
    lowers: Sequence[float],
    regrets: Sequence[float],
) -> None:
    """Add a round to the epoch; the first time that the test fails, note how."""
    add_round(rules, books, reward, regret, lowers, regrets)
    first = smallest_active(books)
    if books.ends[first].ended_at == 0:
        test(rules, books, first)


class EpochBalancing(BookedSelector):
    """Algorithm 2 of the paper: one epoch over all the given learners; `ended` proves that it ended, once it has.

    `classes` has one `LinearClass` per learner, each containing the one before it; `for_learners` reads them off the
    learners. `delta` is the selector's own failure probability; learners spend theirs separately. Rewards lie in
    `reward_range` (unless given, that of the last class); with sub-Gaussian `noise` (its factor) the range concerns
    expected rewards and a reward only has to be finite. `size` is "proof", "text" or "theorem", the paper's three forms
    of z. `radius_scale` multiplies the radius, and below 1 voids every certificate. `seed` is that of the selector's
    own random stream, used where `choose` is given none.
    """

    name = "Epoch balancing"
    needs = frozenset({"proposals", "nested"})
    randomized = True
    worlds = ("adversarial",)
    kernels: ClassVar[Kernels] = Kernels(choose, book, close_round=close_round, certify=certify)

    def __init__(
        self,
        classes: Sequence[LinearClass],
        *,
        delta: float = 0.05,
        reward_range: tuple[float, float] | None = None,
        noise: float | None = None,
        size: str = "proof",
        radius_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not isinstance(classes, Iterable):
            raise InvalidArgument(f"classes is {classes!r}, but must have one LinearClass per learner")
        self.classes = tuple(check_class(claimed) for claimed in classes)
        if not self.classes:
            raise InvalidArgument("classes is empty, but must have one LinearClass per learner")
        check_nested(self.classes)
        self.size = one_of("size", size, tuple(SIZES))
        self.sizes = tuple(SIZES[size](claimed) for claimed in self.classes)
        super().__init__(
            len(self.classes),
            [Observed()] * len(self.classes),
            delta=delta,
            reward_range=self.classes[-1].reward_range if reward_range is None else reward_range,
            noise=noise,
            contexts="adversarial",
            radius="stitched",
            radius_scale=radius_scale,
            seed=seed,
        )

    @classmethod
    def for_learners(cls, learners: Sequence[Any], **settings: Any) -> Self:
        """The selector for these learners; refuses what a portfolio would refuse."""
        selector = cls([linear_class(learner) for learner in learners], **settings)
        check_entitled(selector, learners)
        return selector

    def _share_of_delta(self) -> float:
        return epoch_alpha(self._n_epochs(), self.delta)

    def _n_epochs(self) -> int:
        return 1

    def _make_radius(self) -> Radius:
        low, high = self.reward_range
        return noise_radius(alpha=self.alpha, width=high - low, noise=self.noise, scale=self.radius_scale)

    def _open_books(self) -> EpochBooks:
        return open_epoch_books([1 / size for size in self.sizes])

    def _bookkeeping(self) -> Bookkeeping:
        return super()._bookkeeping()._replace(close_round=self._close_round)

    def _n_notes(self) -> int:
        # The number of learners dropped before the round was chosen, then every learner's lower bound and regret.
        return 1 + 2 * self.n_learners

    def _close_round(self, i: int, reward: float, regret: float, notes: Notes) -> None:
        if notes[0] == self.books.pool[0].eliminated:  # else it was chosen in an epoch that has ended since
            lowers, regrets = notes[1 : 1 + self.n_learners], notes[1 + self.n_learners :]
            self.kernels.close_round(self.params, self.kernel_state, i, reward, regret, lowers, regrets)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """With which each learner is drawn."""
        weights = [claim.weight if i in self.active else 0.0 for i, claim in enumerate(self.books.claims)]
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def ended(self) -> EpochEnd | None:
        """The proof that the first epoch has ended; None while it goes on."""
        smallest = [i for i, end in enumerate(self.books.ends) if end.ended_at > 0]
        return self._elimination(smallest[0]) if smallest else None

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        choice = super().choose(rng)
        unknown = (nan,) * (2 * self.n_learners)
        self._ledger.note(choice.learner, choice.play, (self.books.pool[0].eliminated, *unknown))
        return choice

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Take in what every active learner proposed."""
        epoch = self._ledger.entry(choice.learner, choice.play).notes[0]
        asked = self.active if epoch == self.books.pool[0].eliminated else (choice.learner,)
        missing = [j for j in asked if j not in proposals]
        if missing:
            raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {missing[0]} too")
        lowers, regrets = [nan] * self.n_learners, [nan] * self.n_learners
        for j in asked:
            lowers[j] = real(f"lower of learner {j}", proposals[j].lower)
            regrets[j] = self._check_regret(proposals[j].regret)
        super().observe(choice, proposals)
        self._ledger.note(choice.learner, choice.play, (epoch, *lowers, *regrets))

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        checked = super().check_credit(choice, reward, regret)
        if isnan(self._ledger.entry(choice.learner, choice.play).notes[1 + choice.learner]):
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return checked

    def standing(self) -> list[Standing]:
        """How every learner stands. Its plays are rounds of its own, so they bound no optimum that others share."""
        return [row._replace(mean_radius=nan, mean_lower=nan, mean_upper=nan) for row in super().standing()]

    def certificate(self) -> Certificate:
        """What the rewards prove if any learner is well specified; the module `epochs` has the argument."""
        nothing = (0.0,) * self.n_learners
        return replace(super().certificate(), learner_regret_lowers=nothing, adversarial=True)

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        return {
            "classes": [{**claimed._asdict(), "reward_range": list(claimed.reward_range)} for claimed in self.classes],
            "delta": self.delta,
            "reward_range": list(self.reward_range),
            "noise": self.noise,
            "size": self.size,
            "radius_scale": self.radius_scale,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The selector that `config` describes, in its initial state."""
        classes = [
            LinearClass(**{**claimed, "reward_range": tuple(claimed["reward_range"])}) for claimed in config["classes"]
        ]
        return cls(**{**config, "classes": classes, "reward_range": tuple(config["reward_range"])})

    def _elimination(self, i: int) -> EpochEnd:
        end = self.books.ends[i]
        radius = radius_sum(self.rules.radius, end.rounds)
        return EpochEnd(
            end.ended_at,
            EpochEvidence(i, end.rounds, end.rewards, end.regrets, radius),
            LowerEvidence(end.witness, end.rounds, end.lower_sum),
        )
