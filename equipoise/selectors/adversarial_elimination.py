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

from typing import ClassVar

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.learners._core.linear_class import well_spaced
from equipoise.selectors._core import evidence
from equipoise.selectors._core.epochs import State, add_round, begin_epoch, certify, smallest_active, test
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.nested import Params
from equipoise.selectors.epoch_balancing import EpochBalancing, choose


@kernel
def close_round(params: Params, state: State, i: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Add a round to the epoch; if the epoch ends, eliminate the smallest learner and begin the next epoch."""
    add_round(params.evidence, state, reward, regret, proposals)
    first = smallest_active(state)
    if state.ends[first].ended_at == 0 and test(params.evidence, state, first) and first < len(state.ends) - 1:
        account = state.evidence.accounts[first]
        account.active = False
        account.eliminated_at = state.ends[first].ended_at
        state.evidence.pool[0].eliminated += 1
        begin_epoch(params.evidence, state)


class AdversarialElimination(EpochBalancing):
    """Repeats epochs under adversarial contexts and eliminates the smallest learner after each.

    With probability 1 - delta, and if the confidence sets of the learners hold, no learner is eliminated whose class
    contains the true model.

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

    name = "Adversarial elimination"
    explanation = (
        "An active learner is sampled, the more often the smaller its model class; when the rewards show that "
        "some class is too small, the smallest one is eliminated."
    )
    kernels: ClassVar[Kernels] = nested_kernels(choose, close_round=close_round, certify=certify)

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that the filter excludes, so that they are never played."""
        return tuple(i for i, kept in enumerate(well_spaced(self.sizes)) if not kept)

    def _n_epochs(self) -> int:
        return self.n_learners

    def _make_state(self, accounts: evidence.State) -> State:
        for account, kept in zip(accounts.accounts, well_spaced(self.sizes), strict=True):
            account.active = kept
        return super()._make_state(accounts)
