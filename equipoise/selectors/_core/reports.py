"""Standings and certificates of selectors made of kernels."""

from __future__ import annotations

from dataclasses import replace
from math import nan

from equipoise.certificates import Certificate, Comparison, Side, Standing
from equipoise.certificates.comparisons import check_pair
from equipoise.confidence import RADIUS_VERSIONS, radius_sum
from equipoise.selectors._core import evidence
from equipoise.selectors._core.parts import D, P, S
from equipoise.selectors._core.saving import Saving


class Reporting(Saving[P, S, D]):
    """A selector that tells how its learners are doing, and what their rewards prove."""

    def standing(self) -> list[Standing]:
        """The standing of each learner; nan if it has no play that counts."""
        rows, active, width = [], self.active, self.reward_range[1] - self.reward_range[0]
        for i, account in enumerate(self.evidence.accounts):
            n = account.booked_plays
            rows.append(
                Standing(
                    learner=i,
                    plays=account.plays,
                    pending=account.plays - n,
                    mean_reward=account.rewards / n if n else nan,
                    mean_radius=radius_sum(self.confidence_of(i).radius, n) / n if n else nan,
                    mean_bound=min(account.booked_bound / n, width) if n else nan,
                    mean_lower=account.mean_lower if n else nan,
                    mean_upper=account.mean_upper if n else nan,
                    active=i in active,
                    waiting=self._ledger.waiting[i],
                    left_out=account.skipped,
                    removed=i in self._removed,
                )
            )
        return rows

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner whose rewards wait: the play that they wait for, and how many they are."""
        return self._ledger.blocking()

    def certificate(self) -> Certificate:
        """What the rewards so far prove about the optimum and the regret."""
        width, unplayed, shares = self.reward_range[1] - self.reward_range[0], self._unplayed_rounds, self._start_shares
        lower, upper, regret_lower, regret_upper, consistent = self.kernels.certify(self.params, self.kernel_state)
        proved = []
        for i, account in enumerate(self.evidence.accounts):
            n = account.booked_plays
            radius = radius_sum(self.confidence_of(i).radius, n) if n > 0 else 0.0
            proved.append(max(0.0, n * lower - account.rewards - radius))
        certificate = Certificate(
            rounds=evidence.rounds_made(self.evidence) + unplayed,
            resolved_rounds=self.evidence.pool[0].plays,
            optimum_lower=lower,
            optimum_upper=upper,
            regret_lower=regret_lower,
            regret_upper=regret_upper + width * unplayed,  # whatever was played instead may have lost that much
            learner_regret_lowers=tuple(proved),
            delta=self._total_delta,
            learners_delta=0.0,
            consistent=consistent,
            valid=self.confidence.valid,
            assumes_bounds=bool(self._bounds),
            radius=self.confidence.name,
            radius_version=RADIUS_VERSIONS[self.confidence.name],
            learner_shares=(*shares, *(late.delta for late in self._late.values())) if shares else (),
        )
        return self._for_changed_pool(certificate) if self._late or self._removed else certificate

    def compare(self, learner: int, other: int) -> Comparison:
        """How much more regret per play `learner` has had than `other`, each over its own plays that count."""
        check_pair(learner, other, [account.booked_plays for account in self.evidence.accounts[: self.pool_size]])
        low, high = self.reward_range
        contexts, delta = getattr(self, "contexts", "random"), self._total_delta
        return Comparison(self._side(learner), self._side(other), high - low, delta, contexts, self.confidence.valid)

    def _side(self, i: int) -> Side:
        account = self.evidence.accounts[i]
        n = account.booked_plays
        return Side(i, n, account.plays - n, account.rewards, radius_sum(self.confidence_of(i).radius, n))

    @property
    def _total_delta(self) -> float:
        """What the statements about all learners spend, those included that were added later."""
        return self.delta + sum(late.delta for late in self._late.values())

    def _for_changed_pool(self, certificate: Certificate) -> Certificate:
        """The certificate with what it says about a pool that has changed."""
        changed = [late.round for late in self._late.values()] + list(self._removed.values())
        accounts = self.evidence.accounts
        entrants = [i for i in self._late if accounts[i].active and accounts[i].booked_plays == 0]
        about = replace(certificate, pool_since=max(changed), late_learners=tuple(self._late))
        if not self._bounds or not entrants or len(entrants) == len(self.active):
            return about
        for i in entrants:
            accounts[i].active = False
        _, upper, _, regret_upper, consistent = self.kernels.certify(self.params, self.kernel_state)
        for i in entrants:
            accounts[i].active = True
        if not consistent:
            return about
        width = self.reward_range[1] - self.reward_range[0]
        return replace(
            about,
            entrants=tuple(entrants),
            earlier_optimum_upper=upper,
            earlier_regret_upper=regret_upper + width * self._unplayed_rounds,
        )
