"""State and tests of selection under adversarial contexts: what the proposals and rewards of an epoch prove.

An epoch is a sequence of rounds over one set of learners. In each round every learner proposes an action, with a lower
bound B_{k,i} on its expected reward, and one learner is played, which gives a reward and an upper bound on the regret
of the play. If all learners are well specified, then for all t at once, on the event of the radius D,
  sum_k B_{k,i} <= sum_k mu*_k <= U + (sum of the played learners' regrets) + D(t)
for every learner i, where mu*_k is the optimum of round k. `test` looks for a learner that violates this. Both sides
concern the same rounds, so it does not matter which learner was played in which context.

`certify` bounds the regret. If any learner is well specified, the last one is, because its class contains all others.
Then mu*_k is at most its optimistic value, the lower bound plus the regret of its proposal, played or not. Let V be the
sum of these values. The expected rewards of the played actions add up to at least U - D(t), D summed over the epochs,
so regret = sum_k (mu*_k - E r_k) <= V - U + D(t),
and U - D(t) <= sum_k mu*_k <= V bounds the mean optimum. There is no lower bound on the regret.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 2 and the lemmas of its appendix; the certificate is the first step of the proof of its
regret theorem, with observed numbers.
Symbols: t rounds, U rewards, sum of R_i(n_i) regrets, sum_k B_{k,i} lower_sum, 1/z_i weight, V optimistic.
Departures: the radius is stitched, with explicit constants, and covers the reward noise only; a regret is clipped at
the width of the expected rewards, a lower bound to their range. Sums are compensated (Kahan).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from equipoise.confidence import radius_sum
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params as Limits
from equipoise.selectors._core.evidence import add, rounds_made
from equipoise.selectors._core.kernels import Params


@dataclass(slots=True)
class Claim:
    """The lower bounds of one learner's proposals, played or not."""

    weight: float  # proportional to the probability that the learner plays
    lower_sum: float = 0.0  # over the resolved rounds of this epoch
    lower_carry: float = 0.0


@dataclass(slots=True)
class Epoch:
    """Sums over the resolved rounds of this epoch, and those over all epochs for the certificate."""

    rounds: int = 0
    rewards: float = 0.0
    rewards_carry: float = 0.0
    regrets: float = 0.0  # upper bounds that the played learners reported
    regrets_carry: float = 0.0
    past_rounds: int = 0  # of earlier epochs
    past_rewards: float = 0.0
    past_radius: float = 0.0
    optimistic: float = 0.0  # optimistic values of the last learner, over all epochs
    optimistic_carry: float = 0.0


@dataclass(slots=True)
class End:
    """The proof that ended the epoch in which this learner was the smallest."""

    ended_at: int = 0  # round, 0 if it has not ended
    rounds: int = 0
    rewards: float = 0.0
    regrets: float = 0.0
    witness: int = -1
    lower_sum: float = 0.0


class State(NamedTuple):
    evidence: evidence.State
    claims: list[Claim]
    epoch: list[Epoch]  # one row
    ends: list[End]


def open_state(accounts: evidence.State, sizes: Sequence[float]) -> State:
    """Return the initial state; a learner plays in inverse proportion to the size of its class."""
    return State(accounts, [Claim(1 / size) for size in sizes], [Epoch()], [End() for _ in sizes])


@kernel
def add_round(limits: Limits, state: State, reward: float, regret: float, proposals: Proposals) -> None:
    """Add the next round: its reward, the regret of the play, and what every learner proposed."""
    epoch, last = state.epoch[0], len(state.claims) - 1
    epoch.rounds += 1
    epoch.rewards, epoch.rewards_carry = add(epoch.rewards, epoch.rewards_carry, reward)
    epoch.regrets, epoch.regrets_carry = add(epoch.regrets, epoch.regrets_carry, at_most_width(limits, regret))
    for j in range(len(state.claims)):
        if state.evidence.accounts[j].active:
            claim = state.claims[j]
            claim.lower_sum, claim.lower_carry = add(
                claim.lower_sum, claim.lower_carry, within(limits, proposals.lowers[j])
            )
    optimistic = within(limits, within(limits, proposals.lowers[last]) + at_most_width(limits, proposals.regrets[last]))
    epoch.optimistic, epoch.optimistic_carry = add(epoch.optimistic, epoch.optimistic_carry, optimistic)


@kernel
def at_most_width(limits: Limits, regret: float) -> float:
    """The regret, at most the width; an unknown regret counts as the full width."""
    return min(regret, limits.width) if regret == regret else limits.width


@kernel
def within(limits: Limits, value: float) -> float:
    """The value in the range of rewards; the lowest reward if it is unknown."""
    return min(max(value, limits.low), limits.high) if value == value else limits.low


@kernel
def test(limits: Limits, state: State, first: int) -> bool:
    """Whether some learner of the epoch is misspecified; stores the proof in the row of `first`, the smallest."""
    epoch, witness, greatest = state.epoch[0], -1, -inf
    for j in range(len(state.claims)):
        if state.evidence.accounts[j].active and state.claims[j].lower_sum > greatest:
            witness, greatest = j, state.claims[j].lower_sum
    if epoch.rewards + epoch.regrets + radius_sum(limits.radius, epoch.rounds) >= greatest:
        return False
    end = state.ends[first]
    end.ended_at = rounds_made(state.evidence)
    end.rounds = epoch.rounds
    end.rewards = epoch.rewards
    end.regrets = epoch.regrets
    end.witness = witness
    end.lower_sum = greatest
    return True


@kernel
def begin_epoch(limits: Limits, state: State) -> None:
    """Reset the sums of the epoch; those over all epochs continue."""
    epoch = state.epoch[0]
    epoch.past_rounds += epoch.rounds
    epoch.past_rewards += epoch.rewards
    epoch.past_radius += radius_sum(limits.radius, epoch.rounds)
    epoch.rounds = 0
    epoch.rewards = 0.0
    epoch.rewards_carry = 0.0
    epoch.regrets = 0.0
    epoch.regrets_carry = 0.0
    for j in range(len(state.claims)):
        state.claims[j].lower_sum = 0.0
        state.claims[j].lower_carry = 0.0


@kernel
def certify(params: Params, state: State) -> tuple[float, float, float, float, bool]:
    """(optimum_lower, optimum_upper, regret_lower, regret_upper, consistent) over all rounds, as in `Certificate`."""
    limits, epoch, rounds = params.evidence, state.epoch[0], rounds_made(state.evidence)
    counted, rewards, radius = epoch.past_rounds + epoch.rounds, epoch.past_rewards + epoch.rewards, epoch.past_radius
    if epoch.rounds > 0:
        radius += radius_sum(limits.radius, epoch.rounds)
    lower, upper = limits.low, limits.high
    if counted > 0:
        lower, upper = max(lower, (rewards - radius) / counted), epoch.optimistic / counted
    # An epoch in which the last learner is alone ends only if that learner is misspecified.
    consistent = lower <= upper and state.ends[len(state.ends) - 1].ended_at == 0
    regret_upper = limits.width * rounds
    if consistent:
        # A round without a reward, or whose reward came after its epoch had ended, counts the full width.
        excess = epoch.optimistic - rewards + radius + limits.width * (rounds - counted)
        regret_upper = max(0.0, min(regret_upper, excess))
    return min(lower, limits.high), upper, 0.0, regret_upper, consistent
