"""Tables of pairs of experts: what rounds in which two experts disagree tell about the difference of their rewards.

The expert of a round is drawn with probabilities p, independently of what the experts propose. The action A is credited
to every expert that proposed it, with propensity q = sum of p over these. With lambda = min(p_j, p_k) and a number b in
the reward range, Y = lambda (r - b) (1{A = a_j} - 1{A = a_k}) / q has, given context and proposals, the expectation
lambda (mu(a_j) - mu(a_k)), and |Y| <= w. So the sum of Y estimates by how much the proposals of j are better than those
of k, weighted by lambda, whatever contexts, learners and probabilities depend on, and is exactly 0 where they agree.

Two tables come from this. For *choosing*, the mean reward of j where it differs from k, with weights min(p_j, p_k) / q
that grow linearly with the rounds, so that later proposals, made by learners that have learned more, count more. For
*certificates*, the plain sums of Y and of Y^2, with b the middle of the range, in the order of the rounds.

Reference: docs/counterfactual-balancing.md. The weights min(p_j, p_k) / q in place of 1 / q keep one play of a rarely
drawn expert from outweighing all earlier evidence.
Symbols: N_jk weight, sum of squared weights squares, S_jk rewards, L_jk overlap, sum of Y gain, of Y^2 gain_squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence

ALL, AGREED, OWN = 0, 1, 2  # from which rounds a learner learns


@dataclass(slots=True)
class Expert:
    """A learner, or its greedy twin, in the current round."""

    learner: int
    greedy: bool
    teaching: int  # of its learner: ALL, AGREED or OWN
    probability: float = 0.0  # with which it was drawn; 0 between rounds
    action: int = -1  # an index that is equal for equal actions
    taught: int = 0  # rounds that its learner has learned from


@dataclass(slots=True)
class Pair:
    """What is known of expert j where it differs from expert k; row j E + k."""

    weight: float = 0.0
    squares: float = 0.0
    rewards: float = 0.0
    overlap: float = 0.0
    gain: float = 0.0
    gain_squares: float = 0.0


@dataclass(slots=True)
class Spread:
    """Rewards of the rounds in which not all experts agreed."""

    rounds: int = 0
    mean_reward: float = 0.0
    squares: float = 0.0  # summed squared distances from the mean
    closed: int = 0  # rounds in the sums of the certificates
    matched: int = 0  # rounds in the tables for choosing


class State(NamedTuple):
    experts: list[Expert]
    pairs: list[Pair]
    spread: list[Spread]  # one row


def open_state(experts: list[Expert]) -> State:
    return State(experts, [Pair() for _ in range(len(experts) ** 2)], [Spread()])


@kernel
def propensity(state: State, e: int) -> float:
    """q: the probability with which the action of expert e is played in this round."""
    action, total = state.experts[e].action, 0.0
    for j in range(len(state.experts)):
        if state.experts[j].action == action:
            total += state.experts[j].probability
    return total


@kernel
def match(state: State, e: int, reward: float, all_shared: bool) -> None:
    """Credit the reward of a round, drawn for expert e, to all who proposed the action; for choosing."""
    experts, pairs, n = state.experts, state.pairs, len(state.experts)
    spread, action, q = state.spread[0], experts[e].action, propensity(state, e)
    spread.matched += 1
    growth, disagree = float(spread.matched), False
    for k in range(n):
        if experts[k].action != action:
            disagree = True
            for j in range(n):
                if experts[j].action == action:
                    share = min(experts[j].probability, experts[k].probability)
                    if share > 0.0:
                        weight = growth * share / q
                        pair = pairs[j * n + k]
                        pair.weight += weight
                        pair.squares += weight * weight
                        pair.rewards += weight * reward
    if not all_shared:
        for j in range(n):
            for k in range(j):
                share = growth * min(experts[j].probability, experts[k].probability)
                pairs[j * n + k].overlap += share
                pairs[k * n + j].overlap += share
    if disagree:
        spread.rounds += 1
        distance = reward - spread.mean_reward
        spread.mean_reward += distance / spread.rounds
        spread.squares += distance * (reward - spread.mean_reward)


@kernel
def teach(state: State, e: int) -> None:
    """Count who learns from a round that was drawn for expert e."""
    drawn = state.experts[e]
    for j in range(len(state.experts)):
        expert = state.experts[j]
        if learns(expert, drawn, state.experts[expert.learner].action):
            expert.taught += 1


@kernel
def learns(expert: Expert, drawn: Expert, proposed: int) -> bool:
    """Whether the learner of `expert`, which proposed `proposed`, learns from a round drawn for expert `drawn`."""
    if expert.teaching == ALL or (expert.teaching == AGREED and proposed == drawn.action):
        return True
    return expert.learner == drawn.learner and not drawn.greedy


@kernel
def close(params: evidence.Params, state: State, e: int, reward: float) -> None:
    """Add a round, in the order of rounds, to the sums of the certificates."""
    experts, n = state.experts, len(state.experts)
    action, q = experts[e].action, propensity(state, e)
    state.spread[0].closed += 1
    centered = (reward - (params.low + params.high) / 2.0) / q
    for k in range(n):
        if experts[k].action != action:
            for j in range(n):
                if experts[j].action == action:
                    gain = min(experts[j].probability, experts[k].probability) * centered
                    forth, back = state.pairs[j * n + k], state.pairs[k * n + j]
                    forth.gain += gain
                    forth.gain_squares += gain * gain
                    back.gain -= gain
                    back.gain_squares += gain * gain


@kernel
def variance(params: evidence.Params, state: State) -> float:
    """s^2: the variance of rewards where experts disagree."""
    spread = state.spread[0]
    observed = spread.squares / spread.rounds if spread.rounds > 0 else params.width**2 / 4.0
    return max(observed, 1e-4 * params.width**2)


@kernel
def squared_gap(state: State, k: int, e: int, bonus: float) -> float:
    """By how much expert k is better than expert e where they differ, after a bonus to e: the squared difference over
    its variance, in units of s^2, and 0 if it is not better."""
    n = len(state.experts)
    better, worse = state.pairs[k * n + e], state.pairs[e * n + k]
    if better.weight <= 0.0 or worse.weight <= 0.0:
        return 0.0
    gap = better.rewards / better.weight - worse.rewards / worse.weight
    if bonus > 0.0:
        disagreement = min(1.0, (better.weight + worse.weight) / (2.0 * better.overlap))
        gap -= bonus / disagreement
    if gap <= 0.0:
        return 0.0
    return gap * gap / (better.squares / better.weight**2 + worse.squares / worse.weight**2)


@kernel
def greatest_gap(state: State, e: int, bonus: float) -> tuple[float, int]:
    """The strongest evidence that the present proposals of expert e are worse than another's, and whose they are."""
    greatest, better = 0.0, e
    for k in range(len(state.experts)):
        if k != e:
            gap = squared_gap(state, k, e, bonus)
            if gap > greatest:
                greatest, better = gap, k
    return greatest, better
