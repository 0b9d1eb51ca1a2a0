"""Counterfactual balancing against a slow reference, its lemmas, who learns from what, and what is refused."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.certificates.records import comparison_record, verify_record
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.learner import Proposal
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import CounterfactualBalancing, counterfactual_balancing
from equipoise.selectors._core import pairs
from equipoise.selectors.realized_balancing import TOLERANCE
from tests.radii import mixture_radius

KINDS = ["choose"] * 6 + ["credit"] * 6 + ["withdraw"] * 2 + ["add", "remove", "save"]
EVENTS = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**16))


@dataclass(eq=False)
class Round:
    expert: int
    odds: tuple[float, ...]
    actions: tuple[int, ...]  # of all experts; -1 of one that cannot propose
    values: tuple[float, ...]  # of all learners
    reward: list[float] = field(default_factory=list)  # empty while it is open


class Reference:
    """The rule of docs/counterfactual-balancing.md, computed from the list of rounds whenever it is asked for.

    `arrived` has the rounds in the order in which their rewards came. Forgetting is as the rule states it, by a factor
    after every round, not by growing weights. Experts that join have probability 0 in all rounds before.
    """

    def __init__(self, selector: CounterfactualBalancing, tolerance: float) -> None:
        self.experts, self.teaching = list(selector.experts), list(selector.teaching or ["own"] * 3)
        self.n, self.low, self.high = len(self.experts), *selector.reward_range
        self.width, self.delta = self.high - self.low, selector.delta
        self.alphas = [self.delta / (3 * (self.n + 1))] * self.n  # of the guard
        self.shares = dict.fromkeys(permutations(range(self.n), 2), self.delta / (self.n * (self.n - 1)))  # of pairs
        self.slack, self.floor, self.optimism = selector.slack, selector.floor, selector.optimism
        self.tolerance = tolerance
        self.rounds: list[Round] = []
        self.arrived: list[Round] = []
        self.removed: set[int] = set()
        self.n_late = 0

    def add(self, teaching: str, twin: bool) -> None:
        """A learner joins, with its share of delta, which its pairs with those who are there divide."""
        i, known, share = len(self.teaching), self.n, self.delta / ((self.n_late + 1) * (self.n_late + 2))
        self.teaching.append(teaching)
        joining = [(i, False), (i, True)] if twin else [(i, False)]
        self.experts += joining
        self.n += len(joining)
        self.n_late += 1
        self.alphas += [share / len(joining) / 3] * len(joining)
        there = [e for e in range(self.n) if self.experts[e][0] not in self.removed]
        new = [pair for pair in permutations(there, 2) if max(pair) >= known]
        self.shares |= dict.fromkeys(new, share / len(new))
        for row in {id(row): row for row in (*self.rounds, *self.arrived)}.values():
            row.odds += (0.0,) * len(joining)
            row.actions += (-1,) * len(joining)
            row.values += (math.nan,)

    def row(self, learner: int) -> int:
        return self.experts.index((learner, False))

    def gain(self, j: int, k: int) -> tuple[float, float]:
        """Sums of Y and of Y^2 over the rounds before the first one that is open."""
        terms = []
        for row in self.rounds:
            if not row.reward:
                break
            action = row.actions[row.expert]
            q = sum(p for p, a in zip(row.odds, row.actions, strict=True) if a == action)
            sign = (row.actions[j] == action) - (row.actions[k] == action)
            terms.append(min(row.odds[j], row.odds[k]) * (row.reward[0] - (self.low + self.high) / 2) * sign / q)
        return math.fsum(terms), math.fsum(y**2 for y in terms)

    def resolved(self, e: int) -> list[float]:
        rewards = []
        for row in self.rounds:
            if row.expert == e:
                if not row.reward:
                    break
                rewards.append(row.reward[0])
        return rewards

    def taught(self, e: int) -> int:
        learner = self.experts[e][0]
        total = 0
        for row in self.arrived:
            drawn, greedy = self.experts[row.expert]
            own = drawn == learner and not greedy
            agreed = self.teaching[learner] == "agreed" and row.actions[self.row(learner)] == row.actions[row.expert]
            total += self.teaching[learner] == "all" or own or agreed
        return total

    def tables(self) -> tuple[Any, ...]:
        weight, squares, rewards, overlap = (np.zeros((self.n, self.n)) for _ in range(4))
        seen = []
        for t, row in enumerate(self.arrived, start=1):
            action = row.actions[row.expert]
            q = sum(p for p, a in zip(row.odds, row.actions, strict=True) if a == action)
            for j in range(self.n):
                for k in range(self.n):
                    share = min(row.odds[j], row.odds[k])
                    overlap[j, k] += share
                    if row.actions[j] == action != row.actions[k]:
                        weight[j, k] += share / q
                        squares[j, k] += (share / q) ** 2
                        rewards[j, k] += share / q * row.reward[0]
            if len(set(row.actions) - {-1}) > 1:
                seen.append(row.reward[0])
            factor = 1 - 1 / (t + 1)
            weight, rewards, overlap, squares = weight * factor, rewards * factor, overlap * factor, squares * factor**2
        variance = float(np.var(seen)) if seen else self.width**2 / 4
        return weight, squares, rewards, overlap, math.sqrt(max(variance, 1e-4 * self.width**2))

    def odds(self, available: Collection[int] | None = None) -> list[float]:
        counts = [sum(row.expert == e for row in self.rounds) for e in range(self.n)]
        allowed = set(range(len(self.teaching)) if available is None else available) - self.removed
        active = [e for e in range(self.n) if self.experts[e][0] in allowed]
        unplayed = [e for e in active if counts[e] == 0]
        if unplayed:
            return [float(e == unplayed[0]) for e in range(self.n)]
        own = [self.resolved(e) for e in range(self.n)]
        lowers = [self.low]
        for rewards, alpha in zip(own, self.alphas, strict=True):
            if rewards:
                radius = mixture_radius(len(rewards), self.width**2 / 4, alpha)
                lowers.append((math.fsum(rewards) - radius) / len(rewards))
        spread = sum(
            (r - (math.fsum(rewards[:k]) / k if k else (self.low + self.high) / 2)) ** 2
            for rewards in own
            for k, r in enumerate(rewards)
        )
        n_resolved = sum(map(len, own))
        unit = max(0.2 * self.width, min(self.width, 2 * math.sqrt(spread / n_resolved) if n_resolved else 0.0))
        visible = [len(rewards) * max(lowers) - math.fsum(rewards) for rewards in own]
        phi = [math.inf] * self.n
        for e in active:
            phi[e] = max(self.floor * unit * math.sqrt(counts[e]), visible[e])
        admitted = [value <= self.slack * min(phi) for value in phi]
        most = max(n for n, ok in zip(counts, admitted, strict=True) if ok)
        neglected = []
        for e, (learner, greedy) in enumerate(self.experts):
            if e in active and not greedy and counts[e] < most:
                head_start = 60 if (learner, True) in self.experts else 150
                early = self.teaching[learner] != "all" and counts[e] < min(head_start, most / 4)
                margin = 0.0 if early else 200 * counts[e] / math.sqrt(most)
                if visible[e] <= self.width * (self.tolerance * math.sqrt(counts[e]) - margin):
                    neglected.append(e)
        if neglected:
            fewest = min(neglected, key=lambda e: (counts[e], e))
            return [float(e == fewest) for e in range(self.n)]
        tables = self.tables()
        t, weights = sum(counts), np.zeros(self.n)
        weights[active] = [math.exp(-self.squared_z(e, active, t, tables)) for e in active]
        scale = math.sqrt(spread / n_resolved) if n_resolved else 0.0
        mixed = min(0.5, len(active) / (sum(n * (1 - self.fallen(e, scale)) for e, n in enumerate(counts)) + 1))
        odds = np.where(admitted, (1 - mixed) * weights / weights.sum() + mixed / len(active), 0.0)
        return (odds / odds.sum()).tolist()

    def fallen(self, e: int, scale: float) -> float:
        own = [row.reward[0] for row in self.arrived if row.expert == e]
        in_order = own == self.resolved(e) and len(own) == sum(row.expert == e for row in self.rounds)
        if not own or scale <= 0 or not in_order:
            return 0.0
        late = math.fsum(k * r for k, r in enumerate(own, start=1)) / sum(range(len(own) + 1))
        fall = (math.fsum(own) / len(own) - late) / (scale / math.sqrt(3 * len(own)))
        return min(1.0, max(0.0, fall - 4))

    def squared_z(self, e: int, active: list[int], t: int, tables: tuple[Any, ...]) -> float:
        weight, squares, rewards, overlap, s = tables
        own = [row.reward[0] for row in self.arrived if row.expert == e]
        (learner, greedy), m, bonus = self.experts[e], self.taught(e), 0.0
        teaching = self.teaching[learner]
        if teaching != "all" and not greedy and 0 < m < t and own:
            late = math.fsum(k * r for k, r in enumerate(own, start=1)) / sum(range(len(own) + 1))
            fading = min(1.0, (100 / m) ** 0.25)
            bonus = self.optimism * s * fading * math.sqrt(2 * math.log(t / m) / m)
            bonus += max(0.0, late - math.fsum(own) / len(own)) * math.log(t / m)
        greatest = 0.0
        for k in active:
            z = 0.0
            if weight[k, e] > 0 and weight[e, k] > 0:
                gap = rewards[k, e] / weight[k, e] - rewards[e, k] / weight[e, k]
                gap -= bonus / min(1.0, (weight[k, e] + weight[e, k]) / (2 * overlap[k, e])) if bonus else 0.0
                error = s * math.sqrt(squares[k, e] / weight[k, e] ** 2 + squares[e, k] / weight[e, k] ** 2)
                z = gap / error
            f = self.fit(self.experts[k][0], learner) if teaching != "own" else 0.0
            if z > 0 and f == 0 and teaching == "all" and not greedy and (learner, True) in self.experts:
                n = weight[e, k] ** 2 / squares[e, k]
                spared = math.sqrt(2 * max(0.0, math.log(len(self.arrived) / n)))
                z = max(0.0, z - 0.15 * min(1.0, (100 / n) ** 0.25) * spared)
            greatest = max(greatest, z**2 + f**2 if z >= 0 else max(0.0, f + z) ** 2)
        return greatest

    def fit(self, better: int, worse: int) -> float:
        """f: by how many standard errors a learner predicts better than another where both proposed the action."""
        excess = []
        for t, row in enumerate(self.arrived, start=1):
            agree = row.actions[self.row(better)] == row.actions[self.row(worse)] == row.actions[row.expert]
            if agree and not math.isnan(row.values[better] + row.values[worse]):
                better_value, worse_value = (min(max(row.values[i], self.low), self.high) for i in (better, worse))
                excess.append(t * ((row.reward[0] - worse_value) ** 2 - (row.reward[0] - better_value) ** 2))
        total = math.fsum(excess)
        return min(2.5, total / math.sqrt(math.fsum(x**2 for x in excess))) if total > 0 else 0.0


RULES: list[dict[str, Any]] = [
    {"teaching": ["all", "all", "all"], "twins": [0, 1, 2]},
    {"teaching": ["agreed", "own", "all"], "twins": [0, 2]},
    {"teaching": ["agreed", "agreed", "agreed"], "reward_range": (-2.0, 6.0)},
    {"slack": 1.0, "floor": 0.05, "teaching": ["all", "all", "agreed"], "twins": [1]},
]


def predicted(i: int, rng: np.random.Generator, selector: CounterfactualBalancing) -> float:
    """Learner 2 predicts best, learner 0 poorly, often beyond the range, and sometimes nothing."""
    low, high = selector.reward_range
    return math.nan if i == 0 and rng.random() < 0.2 else low + (high - low) * (0.6 + (2 - i) * rng.normal())


def compare_with_reference(events: list[tuple[str, int]], rule: dict[str, Any], neglect: bool) -> None:
    """Rewards come late, in any order or never; proposals are arbitrary, and better the lower their number. Learners
    join and leave, and some cannot be asked in some rounds."""
    tolerance = TOLERANCE if neglect else -1e6
    with mock.patch.object(counterfactual_balancing, "TOLERANCE", tolerance):
        selector = CounterfactualBalancing(3, delta=0.9, **rule)
        reference = Reference(selector, tolerance)
        check_pairs(follow(events, selector, reference), reference)


def follow(
    events: list[tuple[str, int]], selector: CounterfactualBalancing, reference: Reference
) -> CounterfactualBalancing:
    """Pass the events to both, and compare the probabilities; returns the selector, which saving replaces."""
    open_rounds: list[tuple[Any, Round]] = []
    for event, number in events:
        rng = np.random.default_rng(number)
        active = [i for i in range(len(reference.teaching)) if i not in reference.removed]
        if event == "add" and len(active) < 5:
            teaching, twin = str(rng.choice(["all", "agreed", "own"])), bool(rng.integers(2))
            assert selector.add_learner(teaching=teaching, twin=twin) == len(reference.teaching)
            reference.add(teaching, twin)
        elif event == "remove" and len(active) > 1:
            gone = active[number % len(active)]
            selector.remove_learner(gone)
            reference.removed.add(gone)
            assert gone not in selector.active and selector.standing()[gone].removed
        elif event == "save":
            successor = selector.clone()
            successor.restore(selector.state())
            selector = successor
        elif event == "choose":
            available = [i for i in active if number % 4 or rng.random() < 0.7] or active
            expected = reference.odds(available)
            choice = selector.choose(rng, None if available == active else available)
            assert choice.evidence
            e = selector.experts.index((choice.learner, choice.greedy))
            own = [p for (i, _), p in zip(selector.experts, expected, strict=True) if i == choice.learner]
            assert choice.probability == pytest.approx(sum(own), rel=1e-9)
            proposals = {
                i: Proposal(int(rng.integers(3)), greedy=int(rng.integers(2)), value=predicted(i, rng, selector))
                for i in available
            }
            selector.observe(choice, proposals)
            asked = [proposals.get(i, Proposal(-1, greedy=-1)) for i in range(len(reference.teaching))]
            actions = tuple(asked[i].greedy if g else asked[i].action for i, g in selector.experts)
            row = Round(e, tuple(expected), actions, tuple(proposal.value for proposal in asked))
            reference.rounds.append(row)
            open_rounds.append((choice, row))
            q = sum(p for p, a in zip(expected, actions, strict=True) if a == actions[e])
            assert selector.propensity(choice) == pytest.approx(q, rel=1e-9)
        elif event in ("credit", "withdraw") and open_rounds:
            choice, row = open_rounds.pop(number % len(open_rounds))
            if event == "withdraw":
                selector.withdraw(choice)
                reference.rounds = [other for other in reference.rounds if other is not row]
            else:
                share = 1 - 0.4 * row.actions[row.expert] - 0.2 * rng.random()
                row.reward.append(reference.low + reference.width * share)
                reference.arrived.append(row)
                selector.credit(choice, row.reward[0])
    assert list(selector.probabilities.values()) == pytest.approx(reference.odds(), rel=1e-9, abs=1e-12)
    return selector


def check_pairs(selector: CounterfactualBalancing, reference: Reference) -> None:
    """Plays, sums of lemma 2 and shares of delta are those of the reference."""
    plays = [sum(reference.experts[row.expert][0] == i for row in reference.rounds) for i in range(selector.pool_size)]
    assert [row.plays for row in selector.standing()] == plays
    for (j, better), (k, worse) in permutations(enumerate(selector.experts), 2):
        proved = selector.paired_certificate(better, worse)
        assert (proved.gain, proved.gain_squares) == pytest.approx(reference.gain(j, k), rel=1e-9, abs=1e-12)
        if (j, k) in reference.shares:
            assert proved.alpha == pytest.approx(reference.shares[j, k], rel=1e-12)
        else:
            assert proved.gain_squares == 0.0  # they were never in the pool together
        assert math.fsum(reference.shares.values()) <= proved.total_delta + 1e-12
    assert selector.certificate().delta == pytest.approx(proved.total_delta)


@settings(max_examples=15, deadline=None)
@given(st.lists(EVENTS, min_size=20, max_size=60), st.sampled_from(RULES), st.booleans())
def test_every_probability_is_that_of_the_reference(
    events: list[tuple[str, int]], rule: dict[str, Any], neglect: bool
) -> None:
    compare_with_reference(events, rule, neglect)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_every_probability_of_a_longer_run_is_that_of_the_reference(rule: dict[str, Any]) -> None:
    """In few rounds a learner is nearly always neglected; without that part of the rule, experts are drawn."""
    rng = np.random.default_rng(8)
    kinds = rng.choice(sorted(set(KINDS)), 250, p=[0.01, 0.48, 0.45, 0.01, 0.01, 0.04])
    compare_with_reference([(str(kind), int(rng.integers(2**16))) for kind in kinds], rule, neglect=False)


@pytest.mark.parametrize(("twins", "expected"), [([], 150), ([0], 60)])
def test_a_head_start_is_shorter_with_a_twin(twins: list[int], expected: int) -> None:
    """A learner that pays less, but by too little to rule out, in units of the range, that it is the better one."""
    selector = CounterfactualBalancing(2, teaching=["agreed", "all"], twins=twins, seed=1)
    account, plays_when_forced = selector.evidence.accounts[0], 0
    for _ in range(1_200):
        choice = selector.choose()
        explores = choice.learner == 0 and not choice.greedy
        if explores and choice.probability == 1.0:
            plays_when_forced = account.plays
        selector.observe(choice, {0: Proposal(0, greedy=1), 1: Proposal(1)})
        selector.credit(choice, 0.1 if explores else 0.3)
    assert plays_when_forced == expected


@given(
    st.lists(st.floats(0.01, 1.0), min_size=2, max_size=5),
    st.lists(st.integers(0, 2), min_size=5, max_size=5),
    st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3),
)
def test_lemma_1_exactly(weights: list[float], actions: list[int], means: list[float]) -> None:
    """Averaged over who is drawn, Y is lambda times the difference of the means, |Y| <= w/2, and 0 if they agree."""
    n, odds = len(weights), np.array(weights) / sum(weights)
    expectations = np.zeros((n, n))
    for drawn in range(n):
        selector = CounterfactualBalancing(n)
        state = selector.kernel_state.credit
        for row, p, action in zip(state.experts, odds.tolist(), actions, strict=False):
            row.probability, row.action = p, action
        limits, reward = selector.params.evidence, means[actions[drawn]]
        pairs.add_round(limits, state, drawn, reward, choosing=False, certifying=True)
        gains = np.array([row.gain for row in state.pairs]).reshape(n, n)
        gains -= gains.T
        assert np.abs(gains).max() <= 0.5 + 1e-12
        expectations += odds[drawn] * gains
    for j in range(n):
        for k in range(n):
            exact = min(odds[j], odds[k]) * (means[actions[j]] - means[actions[k]])
            assert expectations[j, k] == pytest.approx(exact if j != k else 0.0, abs=1e-12)


def crossings(n_runs: int, rounds: int, *, wrong_propensity: bool = False, peeking: bool = False) -> int:
    """In how many runs the sum of Y ever exceeds the weighted gap by more than the radius, for some pair of three.

    Probabilities follow the sums so far, gaps drift, and an adversary picks which experts agree: whenever the first
    pair looks good for expert 0, they disagree. Rewards are coins. All runs advance together; delta = 0.1.
    """
    rng = np.random.default_rng(12)
    n, alpha = 3, 0.1 / 6
    gain, squares, truth = (np.zeros((n_runs, n, n)) for _ in range(3))
    crossed = np.zeros(n_runs, bool)
    runs = np.arange(n_runs)
    for t in range(rounds):
        score = gain.sum(2) / np.sqrt(1.0 + squares.sum(2))
        odds = np.exp(np.clip(score, -3, 3))
        odds /= odds.sum(1, keepdims=True)
        odds = np.full((n_runs, n), 1 / n) if peeking else 0.97 * odds + 0.01
        means = 0.8 + 0.15 * np.sin(t / 50 + np.arange(3))  # of the three actions
        actions = np.tile(np.arange(3), (n_runs, 1))
        actions[gain[:, 0, 1] < 0, 1] = 0  # the adversary
        drawn = (rng.random((n_runs, 1)) > odds.cumsum(1)).sum(1).clip(0, 2)
        if peeking:  # expert 0 is drawn more often than stated in rounds in which it disagrees with expert 1
            disagree = actions[:, 0] != actions[:, 1]
            drawn = np.where(disagree & (rng.random(n_runs) < 0.3), 0, drawn)
        action = actions[runs, drawn]
        same = actions == action[:, None]
        q = (odds * same).sum(1)
        if wrong_propensity:
            q = odds[runs, drawn]
        reward = (rng.random(n_runs) < means[action]).astype(float)
        share = np.minimum(odds[:, :, None], odds[:, None, :])
        sign = same[:, :, None].astype(float) - same[:, None, :]
        y = share * ((reward - 0.5) / q)[:, None, None] * sign
        gain += y
        squares += y**2
        truth += share * (means[actions][:, :, None] - means[actions][:, None, :])
        variance = np.maximum(0.25, squares)
        level, iterated = math.log(5.2 / alpha), np.log(np.log(2 * variance / 0.25))
        radius = 1.7 * np.sqrt(variance * (iterated + 0.72 * level)) + 0.5 * (1.4 * iterated + level)
        crossed |= ((gain - truth) > radius).any((1, 2))
    return int(crossed.sum())


@pytest.mark.slow
def test_lemma_2_is_rarely_crossed_and_its_controls_are() -> None:
    """1,000 runs of 300 rounds, delta = 0.1: a true claim would have more than 140 crossings with probability below
    1e-4, and has far fewer: none in 10,000 runs. With the propensity of the drawn expert in
    place of that of the action most runs cross, with a draw that sees the proposals a third of them; by chance more
    than 10 of 20 or 25 of 100 would with probability below 1e-5."""
    assert crossings(1_000, 300) <= 140
    assert crossings(20, 5_000, wrong_propensity=True) > 10
    assert crossings(100, 2_000, peeking=True) > 25


def small(**settings: Any) -> CounterfactualBalancing:
    return CounterfactualBalancing(2, **{"teaching": ["all", "all"], "twins": [0, 1], **settings})


def drawn_uniformly(selector: CounterfactualBalancing, rounds: int) -> CounterfactualBalancing:
    """The sums of rounds in which all experts are equally likely and learner 0 proposes the better of two actions."""
    rng, state = np.random.default_rng(3), selector.kernel_state.credit
    for _ in range(rounds):
        for e, row in enumerate(state.experts):
            row.probability, row.action = 1 / len(state.experts), min(e, 1)
        drawn = int(rng.integers(len(state.experts)))
        limits, reward = selector.params.evidence, float(rng.random() < (0.2 if drawn else 0.9))
        pairs.add_round(limits, state, drawn, reward, choosing=False, certifying=True)
    return selector


def test_a_paired_certificate_says_what_was_gained_and_its_record_is_verified() -> None:
    selector = drawn_uniformly(small(delta=0.05), 4_000)
    proved = selector.paired_certificate((0, False), (1, True))
    assert 0.0 < proved.lower < 4_000 * 0.25 * 0.7 and proved.rounds == 4_000
    assert proved.describe(["OFUL(d=8)", "OFUL(d=4)"]).startswith(
        "With confidence 0.95: weighted by the lesser of the two probabilities of being chosen, the proposals of "
        "OFUL(d=8) were worth at least "
    )
    assert proved.describe(["a", "b"]).endswith("than those of the greedy twin of b, over 4,000 rounds.")
    record = proved.record(selector_label="counterfactual", seed=3, names=["a", "b"])
    assert verify_record(record) == []
    back = selector.paired_certificate((1, True), (0, False))
    assert back.gain == -proved.gain and back.describe(["a", "b"]).startswith("Nothing is proved yet")
    changes = {"gain": record["gain"] * 1.01, "gain_squares": 1e-3, "alpha": 0.5, "delta": 1.5, "rounds": 0}
    for name, value in changes.items():
        assert verify_record({**record, name: value}) != [], name
    assert verify_record(back.record(selector_label="x", seed=3, names=["a", "b"])) != []


def test_a_pair_with_a_late_learner_spends_a_share_of_its_own_and_its_record_is_verified() -> None:
    selector = drawn_uniformly(small(delta=0.05), 10)
    selector.add_learner(teaching="all", twin=True)
    selector.remove_learner(1)
    selector.add_learner(teaching="agreed")
    proved = drawn_uniformly(selector, 4_000).paired_certificate((0, False), (3, False))
    n_pairs = 2 * 4  # with learner 0, learner 2 and their twins
    assert proved.alpha == pytest.approx(0.05 / 6 / n_pairs) and proved.total_delta == pytest.approx(0.05 * 5 / 3)
    assert "With confidence 0.91" in proved.describe("abcd") and proved.describe("abcd").endswith(
        "than those of d, over 4,010 rounds, d having joined after round 0."
    )
    record = proved.record(selector_label="counterfactual", seed=3, names="abcd")
    assert record["version"] == 2 and verify_record(record) == []
    start = selector.paired_certificate((0, False), (1, False)).record(selector_label="x", seed=3, names="abcd")
    assert "late" not in start and verify_record(start) == []
    for change in (
        {"late": {**record["late"], "n_pairs": 2}},
        {"late": {**record["late"], "joined": 2}},
        {"late": {"joined": 0}},
        {"n_late": 0},
        {"version": 1},
        {"version": 3},
    ):
        assert verify_record({**record, **change}) != [], change


def test_comparisons_of_learners_with_twins_are_verified() -> None:
    """Their radii have the share of one of all accounts; without the number of accounts the record proves nothing."""
    selector = small(delta=0.05)
    for t in range(60):
        if t == 30:
            selector.add_learner(teaching="all", twin=True)
        choice = selector.choose()
        selector.observe(choice, {i: Proposal(i, greedy=0) for i in selector.active})
        selector.credit(choice, 0.5)
    for other in (1, 2):
        about = {"selector_label": "x", "seed": 3, "round": 60, "selector": selector, "learner_names": "abc"}
        record = comparison_record(selector.compare(0, other), **about)  # type: ignore[arg-type]
        assert record["accounts"] == [2, 2, 2] and verify_record(record) == []
        assert verify_record({name: value for name, value in record.items() if name != "accounts"}) != []
        assert any("accounts is" in fault for fault in verify_record({**record, "accounts": [2, 0, 2]}))


def test_a_restart_keeps_the_pool_and_forgets_the_rounds() -> None:
    selector = drawn_uniformly(small(delta=0.05), 10)
    selector.add_learner(teaching="agreed", twin=True)
    selector.remove_learner(0)
    selector.restart(0.01)
    assert (selector.active, selector.delta, len(selector.experts)) == ((1, 2), 0.01, 6)
    assert selector.paired_certificate((1, False), (2, True)).gain_squares == 0.0
    for _ in range(20):
        choice = selector.choose()
        assert choice.learner in (1, 2)
        selector.observe(choice, {i: Proposal(i, greedy=0) for i in (1, 2)})
        selector.credit(choice, 0.5)
    proved = selector.paired_certificate((1, False), (2, True))
    assert proved.rounds == 20 and proved.total_delta == pytest.approx(0.015)
    with pytest.raises(InvalidArgument, match="learner is 0, but it was removed before"):
        selector.remove_learner(0)


def test_certificates_wait_for_earlier_rounds_but_probabilities_do_not() -> None:
    selector, rng = small(), np.random.default_rng(1)
    for _ in range(4):
        choice = selector.choose(rng)
        selector.observe(choice, {0: Proposal(0, greedy=0), 1: Proposal(1, greedy=1)})
        selector.credit(choice, 0.5)
    waiting = selector.choose(rng)
    selector.observe(waiting, {0: Proposal(0, greedy=0), 1: Proposal(1, greedy=1)})
    for _ in range(50):
        choice = selector.choose(rng)
        selector.observe(choice, {0: Proposal(0, greedy=0), 1: Proposal(1, greedy=1)})
        selector.credit(choice, 1.0 - choice.learner)
    assert selector.paired_certificate((0, False), (1, False)).rounds == 4
    assert selector.probabilities[0, False] > 0.4
    selector.credit(waiting, 1.0)
    assert selector.paired_certificate((0, False), (1, False)).rounds == 55


@pytest.mark.parametrize(
    ("teaching", "greedy", "expected"),
    [
        (["own", "own", "own"], False, (0,)),
        (["own", "own", "own"], True, ()),
        (["agreed", "agreed", "agreed"], False, (0, 1)),  # learner 1 proposes the same action
        (["agreed", "agreed", "agreed"], True, (2,)),
        (["all", "own", "agreed"], True, (0, 2)),
    ],
)
def test_who_learns_from_a_round(teaching: list[str], greedy: bool, expected: tuple[int, ...]) -> None:
    selector = CounterfactualBalancing(3, teaching=teaching, twins=[0, 1, 2], seed=2)
    choice = selector.choose()
    while (choice.learner, choice.greedy) != (0, greedy):
        selector.observe(choice, {i: Proposal(0, greedy=0) for i in range(3)})
        selector.credit(choice, 0.5)
        choice = selector.choose()
    proposals = {0: Proposal(4, greedy=5), 1: Proposal(4, greedy=4), 2: Proposal(5, greedy=5)}
    selector.observe(choice, proposals)
    assert selector.taught_by(choice) == expected


def test_a_portfolio_plays_twins_and_teaches_those_who_agree() -> None:
    """Two UCBs without contexts under agreed teaching: every play of an arm that both propose is learned by both."""
    learners = [UCB(3, scale=0.2), UCB(3, scale=1.0)]
    portfolio = Portfolio(learners, CounterfactualBalancing.for_learners(learners, contexts="fixed"), seed=4)
    rng = np.random.default_rng(4)
    for _ in range(300):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < (0.2, 0.5, 0.8)[decision.action]))
    taught = [int(learner.memory.plays.sum()) for learner in learners]
    assert sum(taught) > 300 and max(taught) <= 300
    experts = portfolio.selector.kernel_state.credit.experts
    assert [experts[0].taught, experts[1].taught] == taught
    assert {row.greedy for row in experts if row.taught} == {False, True}


def test_which_learners_learn_and_have_twins_by_default() -> None:
    pool = [OFUL(2), UCB(3), Constant(1), EpsilonGreedy(3, epsilon=0.1), LinearThompson(2)]
    own = CounterfactualBalancing.for_learners(pool)
    assert own.teaching == ("agreed", "own", "all", "own", "own")
    fixed = CounterfactualBalancing.for_learners(pool, contexts="fixed", share_data=True)
    assert tuple(fixed.teaching or ())[:3] == ("all", "agreed", "all")
    assert (2, True) not in fixed.experts and (0, True) in fixed.experts


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"teaching": ["all"]}, "teaching has 1 entries, but n_learners is 2"),
        ({"teaching": ["a", "b"]}, "teaching is ['a', 'b'], but must have one of all, agreed, own per learner"),
        ({"teaching": "all"}, "teaching is 'all', but must have one of all, agreed, own per learner"),
        ({"twins": [2]}, "twins is (2,), but must have learners from 0 to 1"),
        ({"twins": [0, 0]}, "twins is [0, 0], but must have no learner twice"),
        ({"slack": 0.5}, "slack is 0.5, but must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        CounterfactualBalancing(2, **settings_)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("learners", "settings_", "message"),
    [
        ([UCB(2), UCB(2)], {"teaching": ["all", "own"]}, "teaching of 'UCB' is 'all', but it does not accept"),
        ([UCB(2), UCB(2)], {"teaching": ["agreed", "own"]}, "teaching of 'UCB' is 'agreed', but it ignores contexts"),
        ([EpsilonGreedy(2, epsilon=0.1), UCB(2)], {"teaching": ["agreed", "own"]}, "does not accept 'agreed'"),
    ],
)
def test_learners_that_cannot_learn_so_are_refused(learners: list[Any], settings_: Any, message: str) -> None:
    with pytest.raises(IncompatibleLearner) as caught:
        Portfolio(learners, CounterfactualBalancing(2, **settings_))
    assert message in str(caught.value)


def test_bad_proposals_are_refused_and_change_nothing() -> None:
    selector = small()
    choice = selector.choose()
    before = selector.state()
    for proposals, message in (
        ({0: Proposal(0, greedy=0)}, r"proposals has learners \[0\], but must have 1 too"),
        ({0: Proposal(0), 1: Proposal(1)}, "greedy of learner 0 is None"),
        ({i: Proposal(0, greedy=0, value=math.inf) for i in range(2)}, "value of learner 0 is inf"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            selector.observe(choice, proposals)
    with pytest.raises(InvalidArgument, match=r"observe\(\) must come before credit\(\)"):
        selector.credit(choice, 0.5)
    after = selector.state()
    assert all(np.array_equal(before[name], after[name], equal_nan=before[name].dtype.kind == "f") for name in before)
    with pytest.raises(InvalidArgument, match=r"noise is 0\.5, but must be None"):
        CounterfactualBalancing(2, noise=0.5).paired_certificate((0, False), (1, False))
    with pytest.raises(InvalidArgument, match="share_data is True, but Counterfactual balancing decides itself"):
        Portfolio([OFUL(2), OFUL(2)], small(), share_data=True)


def test_a_continuous_action_is_refused_where_agreement_is_asked() -> None:
    proposals = {i: Proposal(np.array([0.1, 0.2]), greedy=np.array([0.1, 0.3])) for i in range(2)}
    for teaching, refused in ((["agreed", "all"], True), (["all", "all"], False)):
        selector = small(teaching=teaching)
        choice = selector.choose()
        if refused:
            with pytest.raises(InvalidArgument, match="in a continuous set no two learners propose the same action"):
                selector.observe(choice, proposals)
        else:
            selector.observe(choice, proposals)
            assert selector.propensity(choice) == 1.0  # the first plays have probability 1


def test_saved_probabilities_that_do_not_sum_to_one_are_refused() -> None:
    selector = small()
    choice = selector.choose()
    selector.observe(choice, {i: Proposal(0, greedy=0) for i in range(2)})
    saved = selector.state()
    small().restore(saved)
    saved["ledger.proposals.probabilities"] = saved["ledger.proposals.probabilities"] * 0.9
    with pytest.raises(InvalidArgument, match="but it must sum to 1"):
        small().restore(saved)


def test_the_propensity_of_an_action_that_all_propose_is_at_most_one() -> None:
    """Probabilities that sum to 1 up to rounding made 1.0000000000000002, which learners refuse."""
    selector = CounterfactualBalancing(3, twins=[0, 1, 2], teaching=["all"] * 3, seed=1)
    rng = np.random.default_rng(0)
    for t in range(300):
        choice, agreed = selector.choose(), t % 2
        proposals = {i: Proposal(agreed or i, greedy=agreed or int(rng.integers(3))) for i in range(3)}
        selector.observe(choice, proposals)
        assert 0.0 < selector.propensity(choice) <= 1.0
        assert not agreed or selector.propensity(choice) == pytest.approx(1.0, abs=1e-12)
        selector.credit(choice, float(rng.random()))
