"""Tables of pairs of experts: what rounds in which two experts disagree tell about the difference of their rewards.

The expert of a round is drawn with probabilities p, independently of what the experts propose. The action A is credited
to every expert that proposed it, with propensity q = sum of p over these. With lambda = min(p_j, p_k) and a number b in
the reward range, Y = lambda (r - b) (1{A = a_j} - 1{A = a_k}) / q has, given context and proposals, the expectation
lambda (mu(a_j) - mu(a_k)), and |Y| <= w. So the sum of Y estimates by how much the proposals of j are better than those
of k, weighted by lambda, whatever contexts, learners and probabilities depend on, and is exactly 0 where they agree.

Two tables come from this. For *choosing*, the mean reward of j where it differs from k, with weights min(p_j, p_k) / q
that grow linearly with the rounds, so that later proposals, made by learners that have learned more, count more. For
*certificates*, the plain sums of Y and of Y^2, with b the middle of the range, in the order of the rounds.

A third table, also for choosing, costs no play: where two learners proposed the action that was played, the squared
errors of what they predicted for it. Good predictions are not good decisions, so this evidence is limited, and what
rewards say against it is subtracted.

Reference: docs/counterfactual-balancing.md. The weights min(p_j, p_k) / q in place of 1 / q keep one play of a rarely
drawn expert from outweighing all earlier evidence. Squared errors of predictions, scored one by one: Dawid (1984),
"Statistical theory: the prequential approach".
Symbols: N_jk weight, sum of squared weights squares, S_jk rewards, L_jk overlaps, sum of Y gain, of Y^2 gain_squares,
f_jk fit, sum of differences of squared errors excess, of their squares excess_squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence

ALL, AGREED, OWN = 0, 1, 2  # from which rounds a learner learns
MAX_FIT = 2.5  # standard errors that poorer predictions count as, at most
CURIOSITY = 0.15  # as a share of sqrt(2 ln(t/n)): standard errors of evidence that explorers are spared
EARLY_ROUNDS = 100.0  # rounds with evidence after which these decrease


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
    gain: float = 0.0  # Y of rounds with A = a_j; those with A = a_k are in row k E + j, with the other sign
    gain_squares: float = 0.0
    excess: float = 0.0  # of squared errors; in rows of two learners, as excess_squares
    excess_squares: float = 0.0


@dataclass(slots=True)
class Overlap:
    """L of the experts j and k < j; row j (j - 1)/2 + k. In rows of their own, as all of them change in every round."""

    total: float = 0.0


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
    overlaps: list[Overlap]
    spread: list[Spread]  # one row


def open_state(experts: list[Expert]) -> State:
    n = len(experts)
    overlaps = [Overlap() for _ in range(max(1, n * (n - 1) // 2))]  # a table has at least one row
    return State(experts, [Pair() for _ in range(n**2)], overlaps, [Spread()])


@kernel
def propensity(state: State, e: int) -> float:
    """q: the probability with which the action of expert e is played in this round."""
    action, total = state.experts[e].action, 0.0
    for j in range(len(state.experts)):
        if state.experts[j].action == action:
            total += state.experts[j].probability
    return total


@kernel
def add_round(params: evidence.Params, state: State, e: int, reward: float, choosing: bool, certifying: bool) -> None:
    """Credit the reward of a round, drawn for expert e, to all who proposed its action.

    For choosing, when the reward comes; for certificates, in the order of rounds. Both in one pass if it comes at once.
    """
    experts, spread, n = state.experts, state.spread[0], len(state.experts)
    action, q, centered = experts[e].action, propensity(state, e), reward - (params.low + params.high) / 2.0
    spread.matched += choosing
    spread.closed += certifying
    growth, disagree = float(spread.matched), False
    for j in range(n):
        if experts[j].action == action:
            for k in range(n):
                if experts[k].action != action:
                    disagree = True
                    share = min(experts[j].probability, experts[k].probability) / q
                    if share > 0.0:
                        pair = state.pairs[j * n + k]
                        if choosing:
                            weight = growth * share
                            pair.weight += weight
                            pair.squares += weight * weight
                            pair.rewards += weight * reward
                        if certifying:
                            gain = share * centered
                            pair.gain += gain
                            pair.gain_squares += gain * gain
    if choosing and disagree:
        spread.rounds += 1
        distance = reward - spread.mean_reward
        spread.mean_reward += distance / spread.rounds
        spread.squares += distance * (reward - spread.mean_reward)


@kernel
def add_overlap(state: State) -> None:
    """Add to L, which only experts with a bonus need; after `add_round`."""
    experts, overlaps, growth = state.experts, state.overlaps, float(state.spread[0].matched)
    for j in range(len(experts)):
        first, own = j * (j - 1) // 2, experts[j].probability
        for k in range(j):
            overlaps[first + k].total += growth * min(own, experts[k].probability)


@kernel
def score(params: evidence.Params, state: State, e: int, reward: float, values: Sequence[float]) -> None:
    """Compare the predictions of learners that proposed the action of expert e; for choosing, after `add_round`.

    `values` has what each learner predicted for its own proposal, nan if it predicts nothing. Learners are the first
    experts. An expected reward lies in the range, so a prediction beyond it counts as its end.
    """
    experts, n, action, growth = state.experts, len(state.experts), state.experts[e].action, state.spread[0].matched
    for j in range(n):
        if experts[j].greedy:
            break
        if experts[j].action == action and values[j] == values[j]:
            error = (reward - min(max(values[j], params.low), params.high)) ** 2
            for k in range(j):
                if experts[k].action == action and values[k] == values[k]:
                    excess = growth * (error - (reward - min(max(values[k], params.low), params.high)) ** 2)
                    forth, back = state.pairs[j * n + k], state.pairs[k * n + j]
                    forth.excess += excess
                    forth.excess_squares += excess * excess
                    back.excess -= excess
                    back.excess_squares += excess * excess


@kernel
def has_twin(state: State, e: int) -> bool:
    """Whether the greedy action of the learner of e is an expert."""
    for k in range(len(state.experts) - 1, -1, -1):  # twins are the last
        if not state.experts[k].greedy:
            return False
        if state.experts[k].learner == state.experts[e].learner:
            return True
    return False


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
def variance(params: evidence.Params, state: State) -> float:
    """s^2: the variance of rewards where experts disagree."""
    spread = state.spread[0]
    observed = spread.squares / spread.rounds if spread.rounds > 0 else params.width**2 / 4.0
    return max(observed, 1e-4 * params.width**2)


@kernel
def deviation(state: State, k: int, e: int, bonus: float, squared_scale: float) -> float:
    """By how many standard errors expert k is better than expert e where they differ, after a bonus to e."""
    n = len(state.experts)
    better, worse = state.pairs[k * n + e], state.pairs[e * n + k]
    if better.weight <= 0.0 or worse.weight <= 0.0:
        return 0.0
    gap = better.rewards / better.weight - worse.rewards / worse.weight
    if bonus > 0.0:
        j = max(e, k)
        overlap = state.overlaps[j * (j - 1) // 2 + min(e, k)].total
        disagreement = min(1.0, (better.weight + worse.weight) / (2.0 * overlap))
        gap -= bonus / disagreement
    return gap / sqrt(squared_scale * (better.squares / better.weight**2 + worse.squares / worse.weight**2))


@kernel
def fit(state: State, k: int, e: int) -> float:
    """By how many standard errors the learner of expert k predicts better than that of e, from 0 to MAX_FIT.

    The rounds that compare two learners are lessons of both. Not so if the learner of e learns from own plays only:
    then poor predictions may only say that it had few lessons, and count as 0.
    """
    if state.experts[e].teaching == OWN:
        return 0.0
    row = state.pairs[state.experts[e].learner * len(state.experts) + state.experts[k].learner]
    if row.excess <= 0.0:
        return 0.0
    return min(MAX_FIT, row.excess / sqrt(row.excess_squares))


@kernel
def explores(state: State, e: int) -> bool:
    """Whether expert e is a learner with a twin that learns from all rounds, so that its plays are for exploring."""
    return not state.experts[e].greedy and state.experts[e].teaching == ALL and has_twin(state, e)


@kernel
def curiosity(state: State, k: int, e: int) -> float:
    """How many standard errors of evidence that it is worse than expert k are ignored for a learner that explores.

    What a learner explores is worse than what twins exploit, also where it is needed: all twins may have settled on the
    second best action. So such evidence counts less while it rests on few of the rounds so far.
    """
    row = state.pairs[e * len(state.experts) + k]
    n_effective = row.weight * row.weight / row.squares
    fading = min(1.0, sqrt(sqrt(EARLY_ROUNDS / n_effective)))
    return CURIOSITY * fading * sqrt(2.0 * max(0.0, log(state.spread[0].matched / n_effective)))


@kernel
def squared_z(state: State, k: int, e: int, bonus: float, squared_scale: float, explorer: bool) -> float:
    """The evidence that the present proposals of expert e are worse than those of k, as the square of a deviation.

    Rewards and predictions are added as independent evidence if they agree; else rewards count against predictions.
    `explorer` says whether e explores; it is spared some evidence unless it also predicts worse.
    """
    z, f = deviation(state, k, e, bonus, squared_scale), fit(state, k, e)
    if z >= 0.0:
        if explorer and z > 0.0 and f == 0.0:
            z = max(0.0, z - curiosity(state, k, e))
        return z * z + f * f
    return max(0.0, f + z) ** 2


@kernel
def greatest_squared_z(state: State, e: int, bonus: float, squared_scale: float) -> tuple[float, int]:
    """The strongest evidence that the present proposals of expert e are worse than another's, and whose they are."""
    greatest, better, explorer = 0.0, e, explores(state, e)
    for k in range(len(state.experts)):
        if k != e:
            squared = squared_z(state, k, e, bonus, squared_scale, explorer)
            if squared > greatest:
                greatest, better = squared, k
    return greatest, better
