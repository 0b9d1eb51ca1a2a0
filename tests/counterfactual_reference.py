"""Counterfactual balancing from its list of rounds, slow and obvious, and small selectors for tests."""

import math
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np

from equipoise.selectors import CounterfactualBalancing
from equipoise.selectors._core import pairs
from tests.radii import mixture_radius, resolved_prefix


@dataclass(eq=False)
class Round:
    expert: int
    odds: tuple[float, ...]
    actions: tuple[int, ...]  # of all experts; -1 of one that cannot propose
    values: tuple[float, ...]  # of all learners
    reward: list[float] = field(default_factory=list)  # empty while it is open
    known: int = 0  # the number of experts when the reward came


class Reference:
    """The rule of docs/counterfactual-balancing.md, computed from the list of rounds whenever it is asked for.

    `arrived` has the rounds in the order in which their rewards came. Forgetting is as the rule states it, by a factor
    after every round, not by growing weights. Experts that join have probability 0 in all rounds before.
    """

    def __init__(self, selector: CounterfactualBalancing, tolerance: float) -> None:
        self.experts, self.learning = list(selector.experts), list(selector.learning or ["own"] * 3)
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

    def add(self, learning: str, greedy: bool) -> None:
        """A learner joins, with its share of delta, which its pairs with those who are there divide."""
        i, known, share = len(self.learning), self.n, self.delta / ((self.n_late + 1) * (self.n_late + 2))
        self.learning.append(learning)
        joining = [(i, False), (i, True)] if greedy else [(i, False)]
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
            if "silent" in (self.learning[self.experts[e][0]] for e in (j, k, row.expert)):
                continue
            terms.append(min(row.odds[j], row.odds[k]) * (row.reward[0] - (self.low + self.high) / 2) * sign / q)
        return math.fsum(terms), math.fsum(y**2 for y in terms)

    def resolved(self, e: int) -> list[float]:
        return resolved_prefix(row.reward for row in self.rounds if row.expert == e)

    def updates(self, e: int) -> int:
        learner = self.experts[e][0]
        total = 0
        for row in self.arrived:
            drawn, greedy = self.experts[row.expert]
            own = drawn == learner and not greedy
            agreed = self.learning[learner] == "agreed" and row.actions[self.row(learner)] == row.actions[row.expert]
            total += self.learning[learner] == "all" or own or agreed
        return total

    def tables(self) -> tuple[Any, ...]:
        weight, squares, rewards, overlap = (np.zeros((self.n, self.n)) for _ in range(4))
        seen = []
        for t, row in enumerate(self.arrived, start=1):
            action = row.actions[row.expert]
            q = sum(p for p, a in zip(row.odds, row.actions, strict=True) if a == action)
            silent = [self.learning[i] == "silent" for i, _ in self.experts]
            for j in range(self.n):
                for k in range(self.n):
                    share = min(row.odds[j], row.odds[k])
                    overlap[j, k] += share
                    if j != k and (silent[j] or silent[k]):  # by own plays, since both were in the pool
                        share, own = float(row.expert == j and max(j, k) < row.known), True
                    else:
                        share, own = share / q, row.actions[j] == action != row.actions[k] and not silent[row.expert]
                    if own:
                        weight[j, k] += share
                        squares[j, k] += share**2
                        rewards[j, k] += share * row.reward[0]
            if len(set(row.actions) - {-1}) > 1 or (any(silent[: row.known]) and row.known > 1):
                seen.append(row.reward[0])
            factor = 1 - 1 / (t + 1)
            weight, rewards, overlap, squares = weight * factor, rewards * factor, overlap * factor, squares * factor**2
        variance = float(np.var(seen)) if seen else self.width**2 / 4
        return weight, squares, rewards, overlap, math.sqrt(max(variance, 1e-4 * self.width**2))

    def odds(self, available: Collection[int] | None = None) -> list[float]:
        counts = [sum(row.expert == e for row in self.rounds) for e in range(self.n)]
        allowed = set(range(len(self.learning)) if available is None else available) - self.removed
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
        shared_greedy = any(self.experts[e][1] and self.learning[self.experts[e][0]] == "all" for e in active)
        paced = [shared_greedy and self.warms_up(e) for e in range(self.n)]
        warm = [paced[e] and counts[e] >= sum(counts) / 400 for e in range(self.n)]
        under_sampled = []
        for e, (learner, greedy) in enumerate(self.experts):
            if e in active and not greedy and counts[e] < most and not warm[e]:
                head_start = 60 if (learner, True) in self.experts else 150
                early = self.learning[learner] != "all" and counts[e] < min(head_start, most / 4)
                margin = 0.0 if early else 200 * counts[e] / math.sqrt(most)
                if visible[e] <= self.width * (self.tolerance * math.sqrt(counts[e]) - margin):
                    under_sampled.append(e)
        if under_sampled:
            fewest = min(under_sampled, key=lambda e: (counts[e], e))
            return [float(e == fewest) for e in range(self.n)]
        tables = self.tables()
        t, weights = sum(counts), np.zeros(self.n)
        weights[active] = [math.exp(-self.squared_z(e, active, t, tables, warm[e])) for e in active]
        scale = math.sqrt(spread / n_resolved) if n_resolved else 0.0
        mixing = np.zeros(self.n)
        mixing[active] = [1 / 4 if self.learning[self.experts[e][0]] == "all" or paced[e] else 1 for e in active]
        mixed = min(0.5, mixing.sum() / (sum(n * (1 - self.fallen(e, scale)) for e, n in enumerate(counts)) + 1))
        odds = np.where(admitted, (1 - mixed) * weights / weights.sum() + mixed * mixing / mixing.sum(), 0.0)
        return (odds / odds.sum()).tolist()

    def warms_up(self, e: int) -> bool:
        learner, greedy = self.experts[e]
        return self.learning[learner] in ("own", "silent") and not greedy and (learner, True) not in self.experts

    def fallen(self, e: int, scale: float) -> float:
        own = [row.reward[0] for row in self.arrived if row.expert == e]
        in_order = own == self.resolved(e) and len(own) == sum(row.expert == e for row in self.rounds)
        if not own or scale <= 0 or not in_order:
            return 0.0
        late = math.fsum(k * r for k, r in enumerate(own, start=1)) / sum(range(len(own) + 1))
        fall = (math.fsum(own) / len(own) - late) / (scale / math.sqrt(3 * len(own)))
        return min(1.0, max(0.0, fall - 4))

    def squared_z(self, e: int, active: list[int], t: int, tables: tuple[Any, ...], warm: bool) -> float:
        weight, squares, rewards, overlap, s = tables
        own = [row.reward[0] for row in self.arrived if row.expert == e]
        (learner, greedy), m, bonus = self.experts[e], self.updates(e), 0.0
        learning = self.learning[learner]
        if learning != "all" and not greedy and 0 < m < t and own and not warm:
            late = math.fsum(k * r for k, r in enumerate(own, start=1)) / sum(range(len(own) + 1))
            fading = min(1.0, (100 / m) ** 0.25)
            bonus = self.optimism * s * fading * math.sqrt(2 * math.log(t / m) / m)
            bonus += max(0.0, late - math.fsum(own) / len(own)) * math.log(t / m)
        greatest = 0.0
        for k in active:
            z = 0.0
            if weight[k, e] > 0 and weight[e, k] > 0:
                gap = rewards[k, e] / weight[k, e] - rewards[e, k] / weight[e, k]
                seen, possible = weight[k, e] + weight[e, k], 2 * overlap[k, e]
                gap -= bonus / (seen / possible if seen < possible else 1.0) if bonus else 0.0
                error = s * math.sqrt(squares[k, e] / weight[k, e] ** 2 + squares[e, k] / weight[e, k] ** 2)
                z = gap / error
            f = self.fit(self.experts[k][0], learner) if learning in ("all", "agreed") else 0.0
            if z > 0 and f == 0 and learning == "all" and not greedy and (learner, True) in self.experts:
                z *= math.sqrt(min(1.0, max(1.0, len(self.arrived) / 500) ** (1 / 8) / 4))
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


def small(**settings: Any) -> CounterfactualBalancing:
    return CounterfactualBalancing(2, **{"learning": ["all", "all"], "greedy_experts": [0, 1], **settings})


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
