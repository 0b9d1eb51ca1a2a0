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
>>> [round(probability, 3) for probability in selector.choice_probabilities()]
[0.667, 0.25, 0.083]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from functools import partial
from math import nan
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np

from equipoise.certificates import Certificate, Comparison, EpochEnd, EpochEvidence, LowerEvidence, Standing
from equipoise.compatibility import check_compatible
from equipoise.confidence import Confidence, epoch_alpha, noise_radius, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.learners._core.linear_class import SIZES, LinearClass, check_class, check_nested, linear_class
from equipoise.selectors._core import evidence
from equipoise.selectors._core.epochs import State, add_round, certify, open_state, test
from equipoise.selectors._core.evidence import nth_active
from equipoise.selectors._core.kernels import Kernels, Params, nested_kernels
from equipoise.selectors._core.records import Records
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import fix, seed_setting
from equipoise.settings import configurable, describe, optional, setting
from equipoise.settings.checks import count, one_of
from equipoise.types import Config

E = TypeVar("E", bound=KernelSelector[Any, Any, Any])


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
    first = nth_active(state.evidence, 0)
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


CLASSES_DOC = "One `LinearClass` per learner, each containing the one before it; see `for_learners`."


def size_setting() -> Any:
    doc = 'Which of the paper\'s three forms of z is used: "proof", "text" or "theorem".'
    return setting(doc, partial(one_of, options=tuple(SIZES)), default="proof")


def rounds_setting() -> Any:
    doc = "Number of rounds, needed if a class has a misspecification. Default: none."
    return setting(doc, optional(count), default=None)


def epoch_confidence(selector: KernelSelector[Any, Any, Any], n_epochs: int, delta: float | None) -> Confidence:
    """Return the confidence of statements about all epochs; delta is by default that of the settings."""
    low, high = selector.reward_range
    alpha, scale = epoch_alpha(n_epochs, selector.delta if delta is None else delta), selector.radius_scale
    radius = noise_radius(alpha=alpha, width=high - low, noise=selector.noise, scale=scale)
    return Confidence(selector.radius, radius, alpha, 2, selector.noise, scale >= 1.0)


def sizes_of(selector: Any) -> tuple[float, ...]:
    """Return z of every class, in one of the forms of the paper."""
    return tuple(SIZES[selector.size](claimed, selector.rounds) for claimed in selector.classes)


def make_state(selector: Any, accounts: evidence.State) -> State:
    return open_state(accounts, selector.sizes)


def chances(selector: KernelSelector[Any, State, Any]) -> tuple[float, ...]:
    """Return the probability of each learner in the next round."""
    accounts, claims = selector.evidence.accounts, selector.kernel_state.claims
    weights = [claim.weight if accounts[i].active else 0.0 for i, claim in enumerate(claims)]
    return tuple(weight / sum(weights) for weight in weights)


class EpochRecords(Records):
    """The statements of a selector under adversarial contexts, in which learners play rounds with different optima."""

    def standing(self) -> list[Standing]:
        """Return the standing of each learner, whose means do not bound a common optimum."""
        return [row._replace(mean_radius=nan, mean_lower=nan, mean_upper=nan) for row in super().standing()]

    def certificate(self) -> Certificate:
        """Return what the rewards prove if the class of the last learner contains the true model.

        It contains all other classes; the module `epochs` has the proof.
        """
        n_learners = self.rounds.accounts.n_learners
        nothing, last = (0.0,) * n_learners, n_learners - 1
        return replace(super().certificate(), learner_regret_lowers=nothing, adversarial=True, presumed=last)

    def compare(self, learner: int, other: int) -> Comparison:
        """Refuse: a comparison presumes that both learners met contexts of one distribution."""
        raise InvalidArgument(
            f"learner is {learner} and other is {other}, but this selector compares no learners: under adversarial "
            "contexts each learner plays in rounds of its own, whose optima may differ"
        )

    def elimination(self, i: int) -> EpochEnd:
        """Return the proof that ended the epoch in which learner i was the smallest."""
        end = self.rounds.state.ends[i]
        radius = radius_sum(self.rounds.radii.confidence.radius, end.rounds)
        return EpochEnd(
            self.rounds.evidence.accounts[i].eliminated_at or end.ended_at,
            EpochEvidence(i, end.rounds, end.rewards, end.regrets, radius),
            LowerEvidence(end.witness, end.rounds, end.lower_sum),
        )


@dataclass_transform(kw_only_default=True, field_specifiers=(setting, field))
def adversarial_contexts(cls: type[E]) -> type[E]:
    """Make a selector configurable that tests the proposals of epochs over learners of nested classes."""
    cls.needs, cls.records = frozenset({"actions", "lower", "nested"}), EpochRecords
    cls.units = ()  # the classes state them
    fix(cls, contexts="adversarial", radius="stitched")  # the names that records of eliminations use
    docs = describe(
        delta="Failure probability of the selector's statements, besides the learners'.",
        reward_range="Lowest and highest (expected) reward. Default: the range of the last class.",
        noise="Sub-Gaussian factor of rewards without known limits. Default: none.",
    )
    return docs(configurable(cls))


@adversarial_contexts
class EpochBalancing(KernelSelector[Params, State, EpochEnd]):
    """One epoch of selection under adversarial contexts; `ended` is the proof that it has ended, once it has."""

    name = "Epoch balancing"
    explanation = "A learner is sampled, the more often the smaller its model class, whatever the rewards."
    kernels: ClassVar[Kernels] = nested_kernels(choose, close_round=close_round, certify=certify)

    classes: Sequence[LinearClass] = setting(
        CLASSES_DOC, check_classes, encode=classes_to_json, decode=classes_from_json, kw_only=False
    )
    seed: int = seed_setting()
    size: str = size_setting()
    rounds: int | None = rounds_setting()

    @property
    def ended(self) -> EpochEnd | None:
        """The proof that the epoch has ended; None while it continues."""
        return self._proofs([0])[0] if self.kernel_state.ends[0].ended_at else None

    sizes = property(sizes_of)
    _make_state, _chances = make_state, chances

    @classmethod
    def for_learners(cls, learners: Sequence[Any], **settings: Any) -> Self:
        """Make the selector for these learners; raises what a portfolio of them would raise."""
        return check_compatible(cls([linear_class(learner) for learner in learners], **settings), learners)

    def _make_confidence(self, n_accounts: int, delta: float | None = None) -> Confidence:
        return epoch_confidence(self, 1, delta)
