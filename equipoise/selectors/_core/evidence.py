"""Sums and confidence bounds of each learner, which every selector has, and what they prove.

The account of a learner holds its plays n_i, its total reward U_i and its admissible bound R_i twice: at all plays made
(for balancing) and at the plays that count as evidence (for testing): a prefix of its plays, in play order, some of
which may be left out (`skip`). Then n_i and U_i are over the counted plays, an observed R_i is the sum over them, and a
closed form is taken at all plays up to the last counted one. On the event of the radius D, for all n at
once, |n_i mu* - U_i - Reg_i| <= D(n_i); so mu* >= (U_i - D)/n_i, and mu* <= (U_i + R_i + D)/n_i if the bound of i
holds. If one side of the radius has a sharper form, that form is used. A learner without a candidate bound has the
bound w n, which always holds. `eliminate` is the test of Algorithm 1; `certify` bounds the optimum and the regret of
all rounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1 and its lemma on mu*. Departures: an unplayed learner is neither tested nor a witness (the
paper divides by zero there); all tests use the active set at the start of the round and eliminations happen together,
so the learner with the highest lower mean always remains. Sums are compensated (Kahan), for runs of 1e8 rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from equipoise.bounds import POWER, SUMMED, Bound, bound_code, closed_form
from equipoise.confidence import Radius, both_sums, radius_sum
from equipoise.kernels.boundaries import add_spread
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals

# What a learner does in a round: play and learn; play and learn, and its policy is stored first; play the stored policy
# without learning.
TEACH, KEEP, REPLAY = 0, 1, 2


class Params(NamedTuple):
    """Constants of a run."""

    radius: Radius
    low: float  # the range of rewards, or of expected rewards under sub-Gaussian noise
    high: float
    width: float


@dataclass(slots=True)
class Account:
    """One learner's row. A sum and its carry make one compensated total; `booked_` means over the counted plays."""

    bound_kind: int
    bound_coefficient: float
    bound_shape: float
    plays: int = 0  # plays made, including pending ones
    increments: float = 0.0  # observed regret over plays made
    increments_carry: float = 0.0
    regret_bound: float = 0.0  # R_i at plays made
    booked_plays: int = 0  # plays that count as evidence
    booked_increments: float = 0.0
    booked_increments_carry: float = 0.0
    booked_bound: float = 0.0  # R_i at the counted plays
    rewards: float = 0.0  # total over the counted plays
    rewards_carry: float = 0.0
    spread: float = 0.0  # sum of squared deviations of the rewards from their running mean, over the counted plays
    mean_lower: float = -inf
    mean_upper: float = inf
    least_upper: float = inf  # the smallest mean_upper so far
    active: bool = True
    eliminated_at: int = 0  # round, 0 while active; the following fields are the proof
    proof_plays: int = 0
    proof_rewards: float = 0.0
    proof_bound: float = 0.0
    proof_spread: float = 0.0
    witness: int = -1
    witness_plays: int = 0
    witness_rewards: float = 0.0
    witness_bound: float = 0.0
    witness_spread: float = 0.0
    skipped: int = 0  # plays before the last counted one, or after it and passed over, that are left out
    skipped_bound: float = 0.0  # what these add to an observed bound, for balancing only
    extra_radius: float = 0.0  # by how much the radius of a learner with its own share exceeds that of `Params`


@dataclass(slots=True)
class Pool:
    """All rounds together."""

    plays: int = 0  # rounds that count as evidence
    rewards: float = 0.0
    rewards_carry: float = 0.0
    best_lower: float = -inf  # the highest mean_lower of any learner so far
    eliminated: int = 0  # number of learners


class State(NamedTuple):
    """Rows are objects in a portfolio, and records of an array in compiled code."""

    accounts: list[Account]
    pool: list[Pool]  # one row


def open_state(bounds: Sequence[Bound], n_learners: int, width: float) -> State:
    """The initial state; without `bounds`, every learner has the width of the rewards per play as its bound."""
    codes = [bound_code(bound) for bound in bounds] or [(POWER, width, 1.0)] * n_learners
    return State([Account(*code) for code in codes], [Pool()])


@kernel
def add(total: float, carry: float, amount: float) -> tuple[float, float]:
    """Add `amount` to a compensated total (Kahan); returns the total and its carry."""
    corrected = amount - carry
    new_total = total + corrected
    return new_total, (new_total - total) - corrected


@kernel
def open_play(params: object, state: State, i: int) -> None:
    """Count a play of learner i, which was just chosen."""
    state.accounts[i].plays += 1


@kernel
def stage(params: object, state: object, i: int, probability: float, rng: np.random.Generator) -> int:
    """Begin a round of learner i; returns what the learner does in it."""
    return TEACH


@kernel
def rewind(params: object, state: State, i: int) -> None:
    """Reset the balanced bound of learner i to the plays that are counted or left out."""
    account = state.accounts[i]
    account.increments = account.booked_increments + account.skipped_bound
    account.increments_carry = account.booked_increments_carry
    account.regret_bound = account.booked_bound + account.skipped_bound


@kernel
def play(params: Params, state: State, i: int, position: int, regret: float) -> None:
    """Extend the balanced bound of learner i to play number `position`; an unknown regret counts the full width."""
    account = state.accounts[i]
    if account.bound_kind == SUMMED:
        increment = params.width if regret != regret else regret
        account.increments, account.increments_carry = add(account.increments, account.increments_carry, increment)
    account.regret_bound = admissible(account, position, account.increments, account.regret_bound, params.width)


@kernel
def admissible(account: Account, n: int, increment_sum: float, previous: float, width: float) -> float:
    """R(n) from R(n - 1) = `previous`; `increment_sum` is raw(n) if the bound is observed."""
    kind = account.bound_kind
    raw = increment_sum if kind == SUMMED else closed_form(kind, account.bound_coefficient, account.bound_shape, n)
    if not raw > previous:
        return previous
    most = previous + width
    return most if raw > most else raw


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float) -> None:
    """Count one more play of learner i as evidence."""
    account, width = state.accounts[i], params.width
    n, rewards = account.booked_plays, account.rewards
    account.spread = spread = add_spread(account.spread, n, rewards, (params.low + params.high) / 2, reward)
    account.booked_plays = n = n + 1
    if account.bound_kind == SUMMED:
        account.booked_increments, account.booked_increments_carry = add(
            account.booked_increments, account.booked_increments_carry, width if regret != regret else regret
        )
    previous = account.booked_bound
    account.booked_bound = bound = admissible(account, n + account.skipped, account.booked_increments, previous, width)
    account.rewards, account.rewards_carry = rewards, _ = add(rewards, account.rewards_carry, reward)
    below, above = both_sums(params.radius, n, spread, bound)
    account.mean_lower = lower = (rewards - below) / n
    account.mean_upper = upper = (rewards + bound + above) / n
    if upper < account.least_upper:
        account.least_upper = upper
    pooled = state.pool[0]
    if lower > pooled.best_lower:
        pooled.best_lower = lower


@kernel
def skip(params: Params, state: State, i: int, increment: float, regret: float) -> None:
    """Pass over the next play of learner i, which is left out.

    A closed form goes on to the position of the play; `increment` is that of a `Custom` bound. An observed bound, whose
    `increment` is nan, leaves the play out, and only the balanced bound includes its `regret`.
    """
    account = state.accounts[i]
    account.skipped += 1
    if account.bound_kind == SUMMED and increment != increment:
        account.skipped_bound += params.width if regret != regret else min(regret, params.width)
        return
    if account.bound_kind == SUMMED:
        account.booked_increments, account.booked_increments_carry = add(
            account.booked_increments, account.booked_increments_carry, increment
        )
    position, previous = account.booked_plays + account.skipped, account.booked_bound
    account.booked_bound = admissible(account, position, account.booked_increments, previous, params.width)


@kernel
def ignore_arrival(params: object, state: object, i: int, reward: float, probability: float) -> None:
    """Do nothing when a reward arrives: for selectors whose choices use nothing but evidence."""


@kernel
def credit_only(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward without a test; for selectors that read the accounts when they choose."""
    credit(params, state, i, reward, regret)


@kernel
def pool(params: object, state: State, reward: float) -> None:
    """Count one more round of all rounds as evidence."""
    pooled = state.pool[0]
    pooled.plays += 1
    pooled.rewards, pooled.rewards_carry = add(pooled.rewards, pooled.rewards_carry, reward)


@kernel
def close_round(params: object, state: object, i: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Ignore the proposals of a round; selectors that use them have their own kernel."""


@kernel
def evidence_of(params: Params, state: State) -> tuple[Params, State]:
    """The params and state of this module within those of a selector: here all of them."""
    return params, state


@kernel
def learner_of(params: object, state: object, i: int) -> tuple[int, bool]:
    """The learner that account i belongs to, and whether its greedy action is played: every learner has one account."""
    return i, False


@kernel
def is_active(params: Params, state: State, i: int) -> bool:
    return state.accounts[i].active


@kernel
def rounds_made(state: State) -> int:
    rounds = 0
    for i in range(len(state.accounts)):
        rounds += state.accounts[i].plays
    return rounds


@kernel
def count_active(state: State) -> int:
    n_active = 0
    for account in state.accounts:
        n_active += account.active
    return n_active


@kernel
def nth_active(state: State, n: int) -> int:
    """The n-th active learner, from 0."""
    i = -1
    while n >= 0:
        i += 1
        n -= state.accounts[i].active
    return i


@kernel
def comes_first(value: float, plays: int, least: float, fewest: int) -> bool:
    """Whether a learner precedes the best one so far: smaller value first, then fewer plays, then lower index."""
    return value < least or (value == least and plays < fewest)


@kernel
def best_mean_lower(state: State) -> float:
    """The highest mean_lower of any learner now; -inf while nothing is resolved."""
    greatest = -inf
    for account in state.accounts:
        if account.mean_lower > greatest:
            greatest = account.mean_lower
    return greatest


@kernel
def eliminate(state: State) -> None:
    """Eliminate every active learner whose upper mean is below the highest lower mean of an active learner."""
    witness, best_lower, least_upper = 0, -inf, inf
    for j, account in enumerate(state.accounts):
        if account.active:
            # Without a counted play these means are -inf and inf, so the learner is neither witness nor eliminated.
            if account.mean_upper < least_upper:
                least_upper = account.mean_upper
            if account.mean_lower > best_lower:
                witness, best_lower = j, account.mean_lower
    if least_upper >= best_lower:
        return
    for i, account in enumerate(state.accounts):
        if account.active and account.mean_upper < best_lower:
            eliminate_learner(state, i, witness)


@kernel
def mark_eliminated(state: State, i: int) -> None:
    account = state.accounts[i]
    account.active = False
    account.eliminated_at = rounds_made(state)
    state.pool[0].eliminated += 1


@kernel
def eliminate_learner(state: State, i: int, witness: int) -> None:
    """Eliminate learner i and store the proof: its upper mean is below the lower mean of the witness."""
    account, proof = state.accounts[i], state.accounts[witness]
    mark_eliminated(state, i)
    account.proof_plays = account.booked_plays
    account.proof_rewards = account.rewards
    account.proof_bound = account.booked_bound
    account.proof_spread = account.spread
    account.witness = witness
    account.witness_plays = proof.booked_plays
    account.witness_rewards = proof.rewards
    account.witness_bound = proof.booked_bound
    account.witness_spread = proof.spread


@kernel
def certify(params: Params, state: State) -> tuple[float, float, float, float, bool]:
    """(optimum_lower, optimum_upper, regret_lower, regret_upper, consistent) over all rounds, as in `Certificate`."""
    upper = -inf
    for i in range(len(state.accounts)):
        if state.accounts[i].active:
            upper = max(upper, state.accounts[i].least_upper)
    pooled = state.pool[0]
    rounds, resolved, pool_radius = rounds_made(state), pooled.plays, 0.0
    lower = max(params.low, pooled.best_lower)
    if resolved > 0:
        pool_radius = radius_sum(params.radius, resolved)
        lower = max(lower, (pooled.rewards - pool_radius) / resolved)
    consistent = lower <= upper
    lower, upper = min(lower, params.high), max(min(upper, params.high), params.low)
    by_pool = resolved * upper - pooled.rewards + pool_radius + params.width * (rounds - resolved)
    by_learner = 0.0
    for i in range(len(state.accounts)):
        account = state.accounts[i]
        n = account.booked_plays
        if n > 0:
            by_learner += n * upper - account.rewards + radius_sum(params.radius, n) + account.extra_radius
        by_learner += params.width * (account.plays - n)
    regret_upper = max(0.0, min(params.width * rounds, by_pool, by_learner)) if consistent else params.width * rounds
    regret_lower = max(0.0, resolved * lower - pooled.rewards - pool_radius)
    return lower, upper, regret_lower, regret_upper, consistent
