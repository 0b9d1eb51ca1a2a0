"""Tables of pairs of experts: what rounds in which two experts disagree tell about the difference of their rewards.

The expert of a round is drawn with probabilities p, independently of what the experts propose. The action A is credited
to every expert that proposed it, with propensity q = sum of p over these. With lambda = min(p_j, p_k) and a number b in
the reward range, Y = lambda (r - b) (1{A = a_j} - 1{A = a_k}) / q has, given context and proposals, the expectation
lambda (mu(a_j) - mu(a_k)), and |Y| <= w. So the sum of Y estimates by how much the proposals of j are better than those
of k, weighted by lambda, whatever contexts, learners and probabilities depend on, and is exactly 0 where they agree.

Two tables come from this. For *choosing*, the mean reward of j where it differs from k, with weights min(p_j, p_k) / q
that grow linearly with the rounds, so that later proposals, made by learners that have learned more, count more. For
*certificates*, the plain sums of Y and of Y^2, with b the middle of the range, in the order of the rounds.

A silent expert proposes only in rounds drawn for it, so nothing tells whether it would have proposed the action of
another round. Rounds drawn for it are in no pair of others, and q sums over the others: the same expectation holds.
Its own pairs compare mean rewards of own plays, a fair sample since draws are blind to contexts, and certify nothing.

A third table, also for choosing, costs no play: where two learners proposed the action that was played, the squared
errors of what they predicted for it. Good predictions are not good decisions, so this evidence is limited, and what
rewards say against it is subtracted.

Reference: docs/counterfactual-balancing.md. The weights min(p_j, p_k) / q in place of 1 / q keep one play of a rarely
drawn expert from outweighing all earlier evidence. Squared errors of predictions, scored one by one: Dawid (1984),
"Statistical theory: the prequential approach".
What a draw needs of a row is computed when it is first needed after the row has changed (`summarize`).
Symbols: N_jk weight, sum of squared weights squares, S_jk rewards, L_jk overlaps, sum of Y gain, of Y^2 gain_squares,
f_jk fit, sum of differences of squared errors excess, of their squares excess_squares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from equipoise.drift_order import PairSums
from equipoise.kernels.marks import kernel
from equipoise.kernels.records import derived
from equipoise.selectors._core import evidence

ALL, AGREED, OWN, SILENT = 0, 1, 2, 3  # from which rounds a learner learns; a silent one is asked only in its own
MAX_FIT = 2.5  # standard errors that poorer predictions count as, at most
EARLY_SHARE = 0.25  # of the evidence against experts that explore counts in the first rounds
EARLY_ROUNDS = 500.0  # after which that share increases


@dataclass(slots=True)
class Expert:
    """A learner, or its greedy action, in the current round."""

    learner: int
    greedy: bool
    learning: int  # of its learner: ALL, AGREED, OWN or SILENT
    own: int  # row of the expert that is its learner, itself unless it is greedy
    has_greedy: bool  # whether it is a learner whose greedy action is another expert
    probability: float = 0.0  # with which it was drawn; 0 between rounds
    action: int = -1  # an index that is equal for equal actions
    updates: int = 0  # rounds that its learner has learned from
    predicts: bool = derived(False)  # whether it is a learner that predicted the reward of the action
    error: float = derived(0.0)  # of that prediction, squared
    bonus: float = derived(0.0)
    against: float = derived(0.0)  # z^2: the strongest evidence that it is worse than another expert
    rival: int = derived(-1)  # the first expert from which that comes
    weight: float = derived(0.0)  # exp(-z^2)
    weighed: bool = derived(False)  # whether it was active when that was computed


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
    changed: bool = derived(True)  # whether what follows has to be computed, here and in row k E + j
    gap: float = derived(0.0)  # by how much the mean of k is higher
    error: float = derived(0.0)  # of that, squared, in units of the variance of rewards; 0 if one has no mean
    fit: float = derived(0.0)  # standard errors of the excess, from -MAX_FIT to MAX_FIT


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
    weighed: int = derived(-1)  # the same when the weights of experts were computed
    weights: float = derived(0.0)  # their sum


class State(NamedTuple):
    experts: list[Expert]
    pairs: list[Pair]
    overlaps: list[Overlap]
    spread: list[Spread]  # one row


def open_state(experts: list[Expert]) -> State:
    state = State(experts, [], [Overlap()], [Spread()])  # a table has at least one row
    add_pairs(state, 0)
    return state


def add_pairs(state: State, known: int) -> None:
    """Add the rows of all pairs with an expert beyond the first `known`; what is known of the others stays."""
    n = len(state.experts)
    rows = [state.pairs[j * known : (j + 1) * known] if j < known else [] for j in range(n)]
    state.pairs[:] = [pair for row in rows for pair in (*row, *(Pair() for _ in range(n - len(row))))]
    state.overlaps.extend(Overlap() for _ in range(n * (n - 1) // 2 - len(state.overlaps)))


@kernel
def add_round(params: evidence.Params, state: State, e: int, reward: float, choosing: bool, certifying: bool) -> None:
    """Credit the reward of a round, drawn for expert e, to all who proposed its action.

    For choosing, when the reward comes; for certificates, in the order of rounds. Both in one pass if it comes at once.
    """
    experts, rows, spread, n = state.experts, state.pairs, state.spread[0], len(state.experts)
    action, q, centered = experts[e].action, 0.0, reward - (params.low + params.high) / 2.0
    spread.matched += choosing
    spread.closed += certifying
    growth, disagree, silent = float(spread.matched), False, experts[e].learning == SILENT
    for k, expert in enumerate(experts):
        if k != e and (silent or expert.learning == SILENT):
            disagree = True
            if choosing:
                add_own_play(rows[e * n + k], rows[k * n + e], growth, reward)
        elif expert.action == action:
            q += expert.probability
        elif expert.action >= 0:  # -1 is no proposal
            disagree = True
    if not disagree:
        return
    for k, other in enumerate(experts):
        probability = 0.0 if silent or other.learning == SILENT else other.probability
        if other.action != action and probability > 0.0:  # mostly fewer than the proposers
            first = k * n
            for j, proposer in enumerate(experts):
                if proposer.action == action:
                    own = proposer.probability
                    share = (own if own < probability else probability) / q
                    if share > 0.0:
                        pair = rows[j * n + k]
                        if choosing:
                            pair.changed = rows[first + j].changed = True
                            weight = growth * share
                            pair.weight += weight
                            pair.squares += weight * weight
                            pair.rewards += weight * reward
                        if certifying:
                            gain = share * centered
                            pair.gain += gain
                            pair.gain_squares += gain * gain
    if choosing:
        spread.rounds += 1
        distance = reward - spread.mean_reward
        spread.mean_reward += distance / spread.rounds
        spread.squares += distance * (reward - spread.mean_reward)


@kernel
def add_own_play(row: Pair, back: Pair, growth: float, reward: float) -> None:
    """Add the reward of a round drawn for the expert of `row`, one of a pair that is compared by own plays."""
    row.changed = back.changed = True
    row.weight += growth
    row.squares += growth * growth
    row.rewards += growth * reward


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

    `values` has what each learner predicted for its own proposal, nan if it predicts nothing. An expected reward lies
    in the range, so a prediction beyond it counts as its end.
    """
    experts, n, action, growth = state.experts, len(state.experts), state.experts[e].action, state.spread[0].matched
    low, high = params.low, params.high
    for j, expert in enumerate(experts):
        predicts = not expert.greedy and expert.action == action
        if predicts:
            value = values[expert.learner]
            predicts = value == value
            distance = reward - (low if value < low else high if value > high else value)
            expert.error = error = distance * distance
            for k in range(j if predicts else 0):
                other = experts[k]
                if other.predicts:
                    excess = growth * (error - other.error)
                    square = excess * excess
                    forth, back = state.pairs[j * n + k], state.pairs[k * n + j]
                    forth.changed = back.changed = True
                    forth.excess += excess
                    forth.excess_squares += square
                    back.excess -= excess
                    back.excess_squares += square
        expert.predicts = predicts


@kernel
def count_updates(state: State, e: int) -> None:
    """Count the learners that learn from a round that was drawn for expert e."""
    experts = state.experts
    drawn = experts[e]
    for expert in experts:
        if expert.learning == ALL or learns(expert, drawn, experts[expert.own].action, drawn.action):
            expert.updates += 1


@kernel
def learns(expert: Expert, drawn: Expert, proposed: int, played: int) -> bool:
    """Whether the learner of `expert` learns from a round that was drawn for expert `drawn`; from two actions."""
    if expert.learning == ALL or (expert.learning == AGREED and proposed == played):
        return True
    return expert.learner == drawn.learner and not drawn.greedy


@kernel
def variance(params: evidence.Params, state: State) -> float:
    """s^2: the variance of rewards where experts disagree."""
    spread = state.spread[0]
    squared_width = params.width * params.width
    observed = spread.squares / spread.rounds if spread.rounds > 0 else squared_width / 4.0
    return max(observed, 1e-4 * squared_width)


@kernel
def summarize(row: Pair, back: Pair) -> None:
    """Compute what every draw needs of two experts, if one of their two rows has changed."""
    row.changed = back.changed = False
    weight, back_weight = row.weight, back.weight
    if weight > 0.0 and back_weight > 0.0:
        row.gap = gap = back.rewards / back_weight - row.rewards / weight
        back.gap = -gap
        row.error = back.error = back.squares / (back_weight * back_weight) + row.squares / (weight * weight)
    if row.excess_squares > 0.0:  # it may round to 0 where the excess does not
        fit = row.excess / sqrt(row.excess_squares)
        row.fit = fit = MAX_FIT if fit > MAX_FIT else -MAX_FIT if fit < -MAX_FIT else fit
        back.fit = -fit


@kernel
def compare(state: State, leader: int, bonuses: bool, squared_scale: float) -> None:
    """Evidence against all experts that are `weighed`: that their present proposals are worse than another's, as z^2.

    z is by how many standard errors the other one is better where they differ, after a bonus, and f by how many its
    learner predicts better, from 0 to MAX_FIT. Both learners learn from the rounds that compare predictions. A learner
    that learns from its own plays only does not: its poor predictions can mean that it had few updates, and f is 0.
    Both are added as independent evidence if they agree; else rewards count against predictions. Evidence against an
    exploring expert is down-weighted, unless the expert also predicts worse. All pairs are compared or, if `leader` is
    not -1, those with it.
    """
    experts, rows, n = state.experts, state.pairs, len(state.experts)
    exploring_share = counted_share(state.spread[0].matched)
    for expert in experts:
        expert.against, expert.rival = 0.0, -1
    for j, expert in enumerate(experts):
        first, own, begin, end = j * n, expert.own * n, 0, j
        if leader >= 0 and j != leader:
            begin, end = leader, leader + 1 if j > leader else leader
        for k in range(begin, end if expert.weighed else begin):
            other = experts[k]
            if not other.weighed:
                continue
            row, predictions = rows[first + k], rows[own + other.own]
            if row.changed:
                summarize(row, rows[k * n + j])
            if predictions.changed:
                summarize(predictions, rows[other.own * n + expert.own])
            z_j = z_k = f_k = 0.0
            f_j = predictions.fit
            if row.error > 0.0:
                z_j = row.gap / sqrt(squared_scale * row.error)
                z_k = -z_j
                if bonuses and (expert.bonus > 0.0 or other.bonus > 0.0):
                    z_j, z_k = after_bonuses(state, j, k, squared_scale)
            if f_j < 0.0:
                f_j, f_k = 0.0, 0.0 if other.learning >= OWN else -f_j
            elif f_j > 0.0 and expert.learning >= OWN:
                f_j = 0.0
            if f_j + z_j > 0.0:
                squared = z_j * z_j + f_j * f_j if z_j >= 0.0 else (f_j + z_j) * (f_j + z_j)
                if squared > expert.against:
                    if f_j == 0.0 and explores(expert):
                        squared *= exploring_share
                    if squared > expert.against:
                        expert.against, expert.rival = squared, k
            if f_k + z_k > 0.0:
                squared = z_k * z_k + f_k * f_k if z_k >= 0.0 else (f_k + z_k) * (f_k + z_k)
                if squared > other.against:
                    if f_k == 0.0 and explores(other):
                        squared *= exploring_share
                    if squared > other.against:
                        other.against, other.rival = squared, j


@kernel
def after_bonuses(state: State, j: int, k: int, squared_scale: float) -> tuple[float, float]:
    """z of the experts j and k < j, at least one of which has a bonus."""
    experts, rows, n = state.experts, state.pairs, len(state.experts)
    row, back, overlap = rows[j * n + k], rows[k * n + j], state.overlaps[j * (j - 1) // 2 + k].total
    error, disagreement = sqrt(squared_scale * row.error), 1.0
    if row.weight + back.weight < 2.0 * overlap:
        disagreement = (row.weight + back.weight) / (2.0 * overlap)
    return (row.gap - experts[j].bonus / disagreement) / error, (-row.gap - experts[k].bonus / disagreement) / error


@kernel
def explores(expert: Expert) -> bool:
    """Whether an expert is a learner with a greedy expert that learns from all rounds: its plays are for exploring."""
    return expert.has_greedy and expert.learning == ALL


@kernel
def counted_share(n_rounds: int) -> float:
    """The share of z^2 that counts against experts that explore.

    An action that explores is worse than one that exploits, also where exploring is needed: all greedy experts may have
    settled on the second best action. That becomes less likely the more rounds all have learned from.
    """
    return min(1.0, EARLY_SHARE * sqrt(sqrt(sqrt(max(1.0, n_rounds / EARLY_ROUNDS)))))


def pair_sums(state: State) -> PairSums:
    """Return the sums of Y and Y^2 of all pairs; the row of a pair has only the rounds played as its first expert."""
    n, rows = len(state.experts), state.pairs
    both = [(rows[j * n + k], rows[k * n + j]) for j in range(n) for k in range(n)]
    gains = [forth.gain - back.gain for forth, back in both]
    return PairSums(state.spread[0].closed, gains, [forth.gain_squares + back.gain_squares for forth, back in both])
