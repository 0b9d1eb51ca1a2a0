"""The proof of an elimination by the test of Algorithm 1, from what the accounts stored when it happened."""

from __future__ import annotations

from equipoise.certificates import Elimination, Evidence
from equipoise.confidence import Radius, lower_sum, upper_sum
from equipoise.selectors._core.evidence import State


def elimination_by_plays(state: State, i: int, radius: Radius, witness_radius: Radius) -> Elimination:
    """The proof by which the test of Algorithm 1 eliminated learner i, with the radii of learner and witness."""
    account = state.accounts[i]
    plays, bound = account.proof_plays, account.proof_bound
    above = upper_sum(radius, plays, account.proof_spread, bound)
    below = lower_sum(witness_radius, account.witness_plays, account.witness_spread)
    return Elimination(
        account.eliminated_at,
        Evidence(i, plays, account.proof_rewards, bound, above, account.proof_spread),
        Evidence(
            account.witness,
            account.witness_plays,
            account.witness_rewards,
            account.witness_bound,
            below,
            account.witness_spread,
        ),
    )
