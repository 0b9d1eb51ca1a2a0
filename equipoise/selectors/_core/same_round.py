"""The same-round test: a learner's own rounds against what a witness says is attainable in those very rounds.

Algorithm 1 compares the mean rewards of two learners over different rounds, so its radius must cover how contexts
differ between them. If a witness j reports a lower bound on the expected reward of its proposal in every round that i
plays, both sides concern the same rounds. Let i have played n rounds with optima mu*_k. Then

  sum_k lower_{j,k}  <=  sum_k mu*_k          if the confidence sets of j hold
  sum_k mu*_k  <=  U_i + R_i(n) + D(n)        if the bound of i holds,

where D is a radius of the reward noise alone (v = w^2/4, or sigma^2), on one side. If the first sum is above the right
side of the second, one hypothesis is false. Algorithm 1 asks nothing of its witness; this test does, so j is one of the
learners after i in a nested pool: if the class of i contains the true model, so does that of j. A misspecified witness
would eliminate perfect learners. A learner is eliminated only while its witness is active, so at least one learner
remains. One event per learner: alpha = delta / (3 (M + 1)), in addition to the two of the radius. The statement on the
eliminated learner adds the failure probability of the witness's confidence sets.

Symbols: U_i rewards, R_i bound, sum of lower_{j,k} lower_sum; all over the resolved prefix of all rounds, in order,
without those that are left out. These count in the n of a closed form R_i, which bounds the regret of all plays.
A witness that was not asked in a round, because it is eliminated or suspended, and one that could not act, count the
lowest reward.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from equipoise.bounds import SUMMED
from equipoise.confidence import Mixture, radius_sum
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import add, admissible, mark_eliminated
from equipoise.selectors._core.kernels import Arrivals, add_arrival


class Params(NamedTuple):
    evidence: evidence.Params
    noise_radius: Mixture


class State(NamedTuple):
    evidence: evidence.State
    own: list[Own]
    claimed: list[Claimed]


@dataclass(slots=True)
class Own(Arrivals):
    """The resolved rounds of one learner. A sum and its carry make one compensated total."""

    increments: float = 0.0  # observed regret
    increments_carry: float = 0.0
    bound: float = 0.0  # R_i at `plays` and those that are left out
    witness: int = -1  # of the elimination by this test; the following fields are the proof
    proof_plays: int = 0
    proof_rewards: float = 0.0
    proof_bound: float = 0.0
    proof_lower_sum: float = 0.0


@dataclass(slots=True)
class Claimed:
    """What learner j says is attainable in the rounds of learner i; the row of the pair is i M + j."""

    lower_sum: float = 0.0
    lower_carry: float = 0.0


def open_state(accounts: evidence.State) -> State:
    n_learners = len(accounts.accounts)
    return State(accounts, [Own() for _ in range(n_learners)], [Claimed() for _ in range(n_learners**2)])


@kernel
def close_round(params: Params, state: State, i: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Add a round of learner i; eliminate i if a witness says that more was attainable in its rounds."""
    limits, account, own = params.evidence, state.evidence.accounts[i], state.own[i]
    n_learners = len(state.own)
    add_arrival(own, reward)
    if account.bound_kind == SUMMED:
        increment = limits.width if regret != regret else regret
        own.increments, own.increments_carry = add(own.increments, own.increments_carry, increment)
    position = own.plays + account.skipped  # the regret of a subset of plays is at most that of all of them
    own.bound = admissible(account, position, own.increments, own.bound, limits.width)
    witness, greatest = -1, -inf
    for j in range(i + 1, n_learners):
        lower, claimed = proposals.lowers[j], state.claimed[i * n_learners + j]
        stated = min(max(lower, limits.low), limits.high) if lower == lower else limits.low
        claimed.lower_sum, claimed.lower_carry = add(claimed.lower_sum, claimed.lower_carry, stated)
        if state.evidence.accounts[j].active and claimed.lower_sum > greatest:
            witness, greatest = j, claimed.lower_sum
    if witness < 0 or not account.active:
        return
    if own.rewards + own.bound + radius_sum(params.noise_radius, own.plays) < greatest:
        mark_eliminated(state.evidence, i)
        own.witness = witness
        own.proof_plays = own.plays
        own.proof_rewards = own.rewards
        own.proof_bound = own.bound
        own.proof_lower_sum = greatest
