"""Regret bound balancing and elimination with adversarial contexts.

The model classes of the learners are nested. Epoch balancing runs over all of them. When an epoch ends, at least one
class is misspecified; since every class contains those before it, the smallest class is. That learner is eliminated and
the next epoch runs over the others, which keep what they have learned, with new sums. The last learner plays alone. If
the test fails even then, no learner is consistent with the rewards, and the certificate says so.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 3.
Symbols: those of `epochs`; s the smallest active learner, M n_learners.
Departures: those of `epoch_balancing`, delta being split over the M epochs. Learners are first filtered from the top so
that 2 z_i <= z_{i+1} (the paper's remark before its regret theorem); excluded learners are never asked. A round that
was chosen before its epoch ended and whose reward came afterwards counts in no epoch.

>>> from equipoise.learners import OFUL
>>> selector = AdversarialElimination.for_learners([OFUL(dim) for dim in (2, 4, 6, 8)])
>>> selector.active, selector.excluded
((0, 1, 3), (2,))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from equipoise.certificates import EpochEnd
from equipoise.compatibility import check_compatible
from equipoise.confidence import Confidence
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.learners._core.linear_class import LinearClass, linear_class, well_spaced
from equipoise.selectors import epoch_balancing as one_epoch
from equipoise.selectors._core.epochs import State, add_round, begin_epoch, certify, test
from equipoise.selectors._core.evidence import mark_eliminated, nth_active
from equipoise.selectors._core.kernels import Kernels, Params, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import seed_setting
from equipoise.selectors.epoch_balancing import CLASSES_DOC, check_classes, classes_from_json, classes_to_json
from equipoise.settings import setting


@kernel
def close_round(params: Params, state: State, i: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Add a round to the epoch; if the epoch ends, eliminate the smallest learner and begin the next epoch."""
    add_round(params.evidence, state, reward, regret, proposals)
    first = nth_active(state.evidence, 0)
    if state.ends[first].ended_at == 0 and test(params.evidence, state, first) and first < len(state.ends) - 1:
        mark_eliminated(state.evidence, first)
        begin_epoch(params.evidence, state)


@one_epoch.adversarial_contexts
class AdversarialElimination(KernelSelector[Params, State, EpochEnd]):
    """Repeats epochs under adversarial contexts and eliminates the smallest learner after each.

    With probability 1 - delta, and if the confidence sets of the learners hold, no learner is eliminated whose class
    contains the true model.
    """

    name = "Adversarial elimination"
    explanation = (
        "An active learner is sampled, the more often the smaller its model class; when the rewards show that "
        "some class is too small, the smallest one is eliminated."
    )
    kernels: ClassVar[Kernels] = nested_kernels(one_epoch.choose, close_round=close_round, certify=certify)

    classes: Sequence[LinearClass] = setting(
        CLASSES_DOC, check_classes, encode=classes_to_json, decode=classes_from_json, kw_only=False
    )
    seed: int = seed_setting()
    size: str = one_epoch.size_setting()
    rounds: int | None = one_epoch.rounds_setting()

    sizes = property(one_epoch.sizes_of)
    _make_state, _chances = one_epoch.make_state, one_epoch.chances

    @classmethod
    def for_learners(cls, learners: Sequence[Any], **settings: Any) -> Self:
        """Make the selector for these learners; raises what a portfolio of them would raise."""
        return check_compatible(cls([linear_class(learner) for learner in learners], **settings), learners)

    def _make_confidence(self, n_accounts: int, delta: float | None = None) -> Confidence:
        return one_epoch.epoch_confidence(self, len(self.classes), delta)

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that the filter excludes, so that they are never played."""
        return tuple(i for i, kept in enumerate(well_spaced(self.sizes)) if not kept)
