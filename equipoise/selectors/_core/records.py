"""What a selector says about its learners: standings, eliminations, comparisons and the certificate.

A learner with several accounts, such as an account for its greedy action, has one row with the plays of all of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan
from typing import NamedTuple

from equipoise.certificates import AnyElimination, Certificate, Comparison, Elimination, Evidence, Side, Standing
from equipoise.certificates.comparisons import check_pair
from equipoise.confidence import lower_sum, upper_sum
from equipoise.selectors._core import evidence
from equipoise.selectors._core.ledger import Rounds
from equipoise.selectors._core.state import Changes


class Terms(NamedTuple):
    """The settings of a selector that its statements name."""

    delta: float
    reward_range: tuple[float, float]
    contexts: str

    @property
    def width(self) -> float:
        return self.reward_range[1] - self.reward_range[0]


class Records:
    """The statements of a selector, from its rounds."""

    def __init__(self, rounds: Rounds, changes: Changes, terms: Terms) -> None:
        self.rounds, self.changes, self.terms = rounds, changes, terms

    def standing(self) -> list[Standing]:
        """Return the standing of each learner; nan if it has no play that counts."""
        active, accounts, rows = self.rounds.active, self.rounds.accounts, []
        for i in range(accounts.n_learners):
            own, *others = accounts.of(i)
            row = self._account_row(own)._replace(learner=i, active=i in active, removed=i in self.changes.removed)
            for e in others:
                if self.rounds.evidence.accounts[e].plays > 0:
                    row = self._with_account(row, e)
            rows.append(row)
        return rows

    def _account_row(self, e: int) -> Standing:
        account, n = self.rounds.evidence.accounts[e], self.rounds.evidence.accounts[e].booked_plays
        return Standing(
            learner=e,
            plays=account.plays,
            pending=account.plays - n,
            mean_reward=account.rewards / n if n else nan,
            mean_radius=self.rounds.radii.sum_of(e, n) / n if n else nan,
            mean_bound=min(account.booked_bound / n, self.terms.width) if n else nan,
            mean_lower=account.mean_lower if n else nan,
            mean_upper=account.mean_upper if n else nan,
            active=account.active,
            waiting=self.rounds.ledger.waiting[e],
            left_out=account.skipped,
        )

    def _with_account(self, row: Standing, e: int) -> Standing:
        """Return the row of a learner with the plays of account e; the lower mean of either bounds the optimum."""
        account = self.rounds.evidence.accounts[e]
        own, n = row.plays - row.pending, account.booked_plays
        plays, resolved = row.plays + account.plays, own + n
        if n > 0:
            share, radius = n / resolved, self.rounds.radii.sum_of(e, n) / n
            row = row._replace(
                mean_reward=_mean_of_both(row.mean_reward, account.rewards / n, share),
                mean_radius=_mean_of_both(row.mean_radius, radius, share),
                mean_bound=_mean_of_both(row.mean_bound, account.booked_bound / n, share),
                mean_lower=max(account.mean_lower, row.mean_lower if own else -inf),
                mean_upper=min(account.mean_upper, row.mean_upper if own else inf),
            )
        left_out, waiting = row.left_out + account.skipped, row.waiting + self.rounds.ledger.waiting[e]
        return row._replace(plays=plays, pending=plays - resolved, left_out=left_out, waiting=waiting)

    def blocking(self) -> dict[int, tuple[int, int]]:
        """Return, for each learner whose rewards wait, the first play that they wait for, and how many they are."""
        blocked: dict[int, tuple[int, int]] = {}
        for e, (play, n_waiting) in self.rounds.ledger.blocking().items():
            learner = self.rounds.accounts.learner_of(e)
            first, others = blocked.get(learner, (play, 0))
            blocked[learner] = min(first, play), others + n_waiting
        return blocked

    def certificate(self) -> Certificate:
        """Return what the rewards so far prove about the optimum and the regret."""
        rounds, sums, radii, terms = self.rounds, self.rounds.evidence, self.rounds.radii, self.terms
        lower, upper, regret_lower, regret_upper, consistent = rounds.kernels.certify(radii.params, rounds.state)
        proved = [0.0] * rounds.accounts.n_learners
        for e, account in enumerate(sums.accounts):
            n = account.booked_plays
            proved[rounds.accounts.learner_of(e)] += max(0.0, n * lower - account.rewards - radii.sum_of(e, n))
        certificate = Certificate(
            rounds=evidence.rounds_made(sums) + rounds.unplayed,
            resolved_rounds=sums.pool[0].plays,
            optimum_lower=lower,
            optimum_upper=upper,
            regret_lower=regret_lower,
            regret_upper=regret_upper + terms.width * rounds.unplayed,  # an unplayed round may have lost that much
            learner_regret_lowers=tuple(proved),
            delta=self.total_delta,
            learners_delta=0.0,
            consistent=consistent,
            valid=radii.confidence.valid,
            assumes_bounds=bool(rounds.bounds),
            radius=radii.confidence.name,
        )
        return self._for_changed_pool(certificate) if self.changes else certificate

    @property
    def total_delta(self) -> float:
        """What the statements about all learners spend, those included that were added later."""
        return self.terms.delta + self.changes.delta

    def _for_changed_pool(self, certificate: Certificate) -> Certificate:
        """Return the certificate with what it says about a pool that has changed."""
        rounds, late = self.rounds, self.changes.late
        about = replace(certificate, pool_since=self.changes.since, late_learners=tuple(late))
        if not rounds.bounds:
            return about
        accounts = rounds.evidence.accounts
        entrants = [i for i in late if accounts[i].active and accounts[i].booked_plays == 0]
        if not entrants or len(entrants) == len(rounds.active):
            return about
        for i in entrants:
            accounts[i].active = False
        _, upper, _, regret_upper, consistent = rounds.kernels.certify(rounds.radii.params, rounds.state)
        for i in entrants:
            accounts[i].active = True
        if not consistent:
            return about
        return replace(
            about,
            entrants=tuple(entrants),
            earlier_optimum_upper=upper,
            earlier_regret_upper=regret_upper + self.terms.width * rounds.unplayed,
        )

    def compare(self, learner: int, other: int) -> Comparison:
        """Return how much more regret per play `learner` has had than `other`, each over its own counted plays."""
        accounts, rows, valid = self.rounds.accounts, self.rounds.evidence.accounts, self.rounds.radii.confidence.valid
        of = [accounts.of(i) for i in range(accounts.n_learners)]
        check_pair(learner, other, [rows[own[0]].booked_plays for own in of])
        sides, terms = (self._side(learner), self._side(other)), self.terms
        compared = Comparison(*sides, terms.width, self.total_delta, terms.contexts, valid)
        n_accounts = tuple(map(len, of))
        return replace(compared, accounts=n_accounts) if max(n_accounts) > 1 else compared

    def _side(self, i: int) -> Side:
        """Return the plays of learner i itself; those of its other accounts do not count."""
        own, *others = self.rounds.accounts.of(i)
        rows = self.rounds.evidence.accounts
        account, n = rows[own], rows[own].booked_plays
        pending = account.plays - n + sum(rows[e].plays for e in others)
        return Side(i, n, pending, account.rewards, self.rounds.radii.sum_of(own, n))

    def elimination(self, i: int) -> AnyElimination:
        """Return the proof by which the test of Algorithm 1 eliminated learner i, as its account stored it."""
        radii, account = self.rounds.radii, self.rounds.evidence.accounts[i]
        plays, bound, witness = account.proof_plays, account.proof_bound, account.witness
        above = upper_sum(radii.confidence_of(i).radius, plays, account.proof_spread, bound)
        below = lower_sum(radii.confidence_of(witness).radius, account.witness_plays, account.witness_spread)
        proof = Evidence(
            witness,
            account.witness_plays,
            account.witness_rewards,
            account.witness_bound,
            below,
            account.witness_spread,
        )
        eliminated = Evidence(i, plays, account.proof_rewards, bound, above, account.proof_spread)
        return Elimination(account.eliminated_at, eliminated, proof)


def _mean_of_both(old: float, new: float, share: float) -> float:
    """Return the mean of two means, the new one with weight `share`; the old one is nan if that is 1."""
    return new if share == 1.0 else (1.0 - share) * old + share * new
