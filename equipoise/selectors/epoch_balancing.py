"""Epoch balancing: one epoch of selection under adversarial contexts.

In each round every learner proposes an action with a lower bound on its expected reward, and one learner is played: it
is sampled with probability proportional to 1/z_i, independently of the context. The epoch ends when its rewards, plus
the regret that the played learners report, are below the sum of some learner's lower bounds over the same rounds: then
not all learners are well specified. z_i is the order of the squared regret of learner i, so that all learners have
about the same regret.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 2.
Symbols: those of `epochs`; z_i sizes, p_i probabilities.
Departures: those of `epochs`; z is that of the proof by default, and the two forms in the text can be selected, all
extended to ladders of confidence scales and approximation errors (`linear_class` has the proof); delta
is split over four one-sided events (noise above and below, potential, play counts), of which the test uses one. After
the epoch has ended, rounds continue without tests. Rewards may be late: the test uses the longest resolved prefix of
rounds.

>>> from equipoise.learners import OFUL
>>> selector = EpochBalancing.for_learners([OFUL(2), OFUL(4), OFUL(8)])
>>> [round(probability, 3) for probability in selector.probabilities]
[0.667, 0.25, 0.083]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any, ClassVar, Self

import numpy as np

from equipoise.bounds import Bound, Observed
from equipoise.certificates import Certificate, Comparison, EpochEnd, EpochEvidence, LowerEvidence, Standing
from equipoise.compatibility import check_compatible
from equipoise.confidence import Confidence, epoch_alpha, noise_radius, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.learners._core.linear_class import SIZES, LinearClass, check_class, check_nested, linear_class
from equipoise.selector import SelectorTraits
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import KernelSelector
from equipoise.selectors._core.epochs import Claim, End, Epoch, State, add_round, certify, smallest_active, test
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.nested import Params
from equipoise.selectors._core.settings import Seeded
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import count, interval, one_of, positive, probability
from equipoise.types import Config


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """An active learner, sampled with probability proportional to its weight."""
    total = 0.0
    for i in range(len(state.claims)):
        if state.evidence.accounts[i].active:
            total += state.claims[i].weight
    left, chosen = rng.random() * total, -1
    for i in range(len(state.claims)):
        # If rounding leaves a remainder beyond the last learner, the last one is chosen.
        if state.evidence.accounts[i].active and (left >= 0.0 or chosen < 0):
            chosen = i
            left -= state.claims[i].weight
    return chosen, state.claims[chosen].weight / total


@kernel
def close_round(params: Params, state: State, i: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Add a round to the epoch; record the proof the first time that the test fails."""
    add_round(params.evidence, state, reward, regret, proposals)
    first = smallest_active(state)
    if state.ends[first].ended_at == 0:
        test(params.evidence, state, first)


def check_classes(name: str, classes: object) -> tuple[LinearClass, ...]:
    """Check that there is one class per learner, each containing the one before it."""
    if not isinstance(classes, Iterable):
        raise InvalidArgument(f"{name} is {classes!r}, but must have one LinearClass per learner")
    checked = tuple(check_class(claimed) for claimed in classes)
    if not checked:
        raise InvalidArgument(f"{name} is empty, but must have one LinearClass per learner")
    check_nested(checked)
    return checked


def classes_to_json(classes: Iterable[LinearClass]) -> list[Config]:
    rows = [{**claimed._asdict(), "reward_range": list(claimed.reward_range)} for claimed in classes]
    for row in rows:
        features = row.pop("features")
        row |= {"features": list(features)} if features else {}
    return rows


def classes_from_json(rows: Iterable[Config]) -> list[LinearClass]:
    sequences = ("reward_range", "features")
    return [LinearClass(**{**row, **{name: tuple(row[name]) for name in sequences if name in row}}) for row in rows]


@configurable
class EpochBalancing(Seeded, KernelSelector[Params, State, EpochEnd]):
    """One epoch of selection under adversarial contexts; `ended` is the proof that it has ended, once it has.

    Parameters
    ----------
    classes
        One `LinearClass` per learner, each containing the one before it; see `for_learners`.
    seed
        Seed of the selector's random numbers, used if `choose` gets no generator.
    delta
        Failure probability of the selector's statements, in addition to that of the learners.
    reward_range
        Lowest and highest (expected) reward; that of the last class if not given.
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    size
        Which of the paper's three forms of z is used: "proof", "text" or "theorem".
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    rounds
        Number of rounds, which z depends on if a class has a misspecification; needed only then.
    """

    name = "Epoch balancing"
    explanation = "A learner is sampled, the more often the smaller its model class, whatever the rewards."
    needs = frozenset({"actions", "lower", "nested"})
    kernels: ClassVar[Kernels] = nested_kernels(choose, close_round=close_round, certify=certify)

    classes: Sequence[LinearClass] = setting(
        check=check_classes, encode=classes_to_json, decode=classes_from_json, kw_only=False
    )
    delta: float = setting(default=0.05, check=probability)
    reward_range: tuple[float, float] = setting(default=None, check=optional(interval))
    noise: float | None = setting(default=None, check=optional(positive))
    size: str = setting(default="proof", check=partial(one_of, options=tuple(SIZES)))
    radius_scale: float = setting(default=1.0, check=positive)
    rounds: int | None = setting(default=None, check=optional(count))

    # The names that records of eliminations use.
    contexts: ClassVar[str] = "adversarial"
    radius: ClassVar[str] = "stitched"

    def _set_up(self) -> None:
        if self.reward_range is None:
            self.reward_range = self.classes[-1].reward_range
        self.n_learners = len(self.classes)
        self.sizes = tuple(SIZES[self.size](claimed, self.rounds) for claimed in self.classes)
        super()._set_up()

    @classmethod
    def for_learners(cls, learners: Sequence[Any], **settings: Any) -> Self:
        """Make the selector for these learners; raises what a portfolio of them would raise."""
        selector = cls([linear_class(learner) for learner in learners], **settings)
        check_compatible(selector, learners)
        return selector

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        """For each learner the regret that it reports."""
        return (Observed(),) * self.n_learners

    @property
    def traits(self) -> SelectorTraits:
        return replace(super().traits, classes=tuple(self.classes))

    def _n_epochs(self) -> int:
        return 1

    def _make_confidence(self, n_learners: int, delta: float | None = None) -> Confidence:
        low, high = self.reward_range
        alpha, scale = epoch_alpha(self._n_epochs(), self.delta if delta is None else delta), self.radius_scale
        radius = noise_radius(alpha=alpha, width=high - low, noise=self.noise, scale=scale)
        return Confidence(self.radius, radius, alpha, 2, self.noise, scale >= 1.0)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits)

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Claim(1 / size) for size in self.sizes], [Epoch()], [End() for _ in self.sizes])

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each learner."""
        return self._chances()

    def _chances(self) -> tuple[float, ...]:
        weights = [claim.weight if i in self.active else 0.0 for i, claim in enumerate(self.kernel_state.claims)]
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def ended(self) -> EpochEnd | None:
        """The proof that the first epoch has ended; None while it continues."""
        smallest = [i for i, end in enumerate(self.kernel_state.ends) if end.ended_at > 0]
        return self._elimination(smallest[0]) if smallest else None

    def standing(self) -> list[Standing]:
        """The standing of each learner. Learners play in different rounds, so their means bound no common optimum."""
        return [row._replace(mean_radius=nan, mean_lower=nan, mean_upper=nan) for row in super().standing()]

    def certificate(self) -> Certificate:
        """What the rewards prove if the class of the last learner, which contains all others, contains the true model;
        the module `epochs` has the proof."""
        nothing, last = (0.0,) * self.n_learners, self.n_learners - 1
        return replace(super().certificate(), learner_regret_lowers=nothing, adversarial=True, presumed=last)

    def compare(self, learner: int, other: int) -> Comparison:
        """Refused: a comparison presumes that both learners met contexts of one distribution."""
        raise InvalidArgument(
            f"learner is {learner} and other is {other}, but {self.name} compares no learners: under adversarial "
            "contexts each learner plays in rounds of its own, whose optima may differ"
        )

    def _elimination(self, i: int) -> EpochEnd:
        end = self.kernel_state.ends[i]
        radius = radius_sum(self.confidence.radius, end.rounds)
        return EpochEnd(
            self.evidence.accounts[i].eliminated_at or end.ended_at,
            EpochEvidence(i, end.rounds, end.rewards, end.regrets, radius),
            LowerEvidence(end.witness, end.rounds, end.lower_sum),
        )
