"""Arms that come and go by id: against references that keep everything, memory, validity of the intervals."""

from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from equipoise.errors import InvalidArgument
from equipoise.features import Columns, Offers, Shared
from equipoise.learners import OFUL, UCB, Constant, DisjointOFUL, EpsilonGreedy
from equipoise.learners._core.arms import block_of, share_of_delta
from equipoise.settings import equal_data
from equipoise.testing.checks import size_in_bytes


def ids_only(*ids: str, mask: Any = None) -> Offers:
    return Offers(None, ids=ids, mask=mask)


class NaiveByIds:
    """The updates of every id since it was last forgotten; everything computed afresh."""

    def __init__(self, expected: int, window: int) -> None:
        self.expected, self.window = expected, window
        self.t, self.n_new = 0, 0
        self.updates: dict[str, list[Any]] = {}
        self.seen: dict[str, int] = {}
        self.orders: dict[str, int] = {}

    def known(self, id_: str) -> bool:
        return id_ in self.updates and self.t - self.seen[id_] <= self.window

    def learn(self, offered: list[str], id_: str, update: Any) -> None:
        before = {each for each in offered if self.t + 1 - self.seen.get(each, -(10**9)) <= self.window}
        self.t += 1
        for each in before & self.updates.keys():
            self.seen[each] = self.t
        if not self.known(id_):
            self.updates[id_], self.orders[id_] = [], self.n_new
            self.n_new += 1
        self.seen[id_] = self.t
        self.updates[id_].append(update)

    def share(self, id_: str, delta: float) -> float:
        order = self.orders[id_] if self.known(id_) else self.n_new
        block = order // self.expected + 1
        return delta / (self.expected * block * (block + 1))


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), window=st.integers(1, 12), expected=st.integers(1, 4))
def test_ucb_by_id_equals_a_reference_that_keeps_every_update(seed: int, window: int, expected: int) -> None:
    rng = np.random.default_rng(seed)
    learner, naive = UCB(expected, window=window, delta=0.2, noise=0.3), NaiveByIds(expected, window)
    for _ in range(40):
        ids = [f"arm {k}" for k in rng.choice(9, int(rng.integers(1, 5)), replace=False)]
        mask = rng.random(len(ids)) < 0.7
        mask[int(rng.integers(len(ids)))] = True
        offers = Offers(rng.random((len(ids), 2)), ids=ids, mask=mask)
        offered = [id_ for id_, allowed in zip(ids, mask, strict=True) if allowed]
        uppers = {}
        for id_ in offered:
            rewards = naive.updates[id_] if naive.known(id_) else []
            if not rewards:
                uppers[id_] = (np.inf, 0.5, np.inf)
                continue
            n, level = len(rewards), naive.share(id_, 0.2) / 2
            width = 1.7 * 0.3 * sqrt((log(log(2 * n)) + 0.72 * log(5.2 / level)) / n)
            uppers[id_] = (np.mean(rewards) + width, np.mean(rewards), width)
        best = max(offered, key=lambda id_: uppers[id_][0])
        proposal = learner.decide(offers)
        assert offers.ids is not None and offers.ids[proposal.action] == best
        assert proposal.value == pytest.approx(uppers[best][1])
        assert proposal.regret == pytest.approx(min(2 * uppers[best][2], 1.0), rel=1e-6)
        assert learner.pmf(offers).tolist() == [float(k == proposal.action) for k in range(len(ids))]
        played = offered[int(rng.integers(len(offered)))]
        reward = float(rng.random())
        learner.learn(offers, ids.index(played), reward)
        naive.learn(offered, played, reward)
    assert learner.n_ids == sum(naive.known(id_) for id_ in naive.updates)


@pytest.mark.slow
@given(seed=st.integers(0, 10_000), expected=st.integers(1, 3))
def test_disjoint_oful_is_one_oful_per_id(seed: int, expected: int) -> None:
    """Each id has an OFUL of its own, whose radius is enlarged from its delta to its share of delta."""
    rng, window = np.random.default_rng(seed), 6
    learner, naive = DisjointOFUL(2, arms=expected, window=window, delta=0.1), NaiveByIds(expected, window)
    for _ in range(30):
        ids = [f"arm {k}" for k in rng.choice(6, int(rng.integers(1, 4)), replace=False)]
        rows = rng.random((len(ids), 2)) / 2
        offers, uppers, means = Offers(rows, ids=ids), [], []
        for id_, row in zip(ids, rows, strict=True):
            updates = naive.updates[id_] if naive.known(id_) else []
            sigma = np.eye(2) + sum((np.outer(x, x) for x, _ in updates), np.zeros((2, 2)))
            theta = np.linalg.solve(sigma, sum((x * r for x, r in updates), np.zeros(2)))
            radius = 0.5 * sqrt(log(np.linalg.det(sigma)) + 2 * log(1 / naive.share(id_, 0.1))) + 1.0
            means.append(row @ theta)
            uppers.append(row @ theta + radius * sqrt(row @ np.linalg.solve(sigma, row)))
        proposal = learner.decide(offers)
        assert proposal.action == int(np.argmax(uppers)) and proposal.greedy == int(np.argmax(means))
        assert proposal.value == pytest.approx(means[proposal.action])
        assert proposal.regret == pytest.approx(min(2 * (uppers[proposal.action] - means[proposal.action]), 1.0))
        action, reward = int(rng.integers(len(ids))), float(rng.random())
        learner.learn(offers, action, reward)
        naive.learn(ids, ids[action], (rows[action], reward))


def test_shares_of_delta_sum_to_delta() -> None:
    for expected in (1, 3, 10):
        total = sum(share_of_delta(0.1, block_of(n, expected), expected) for n in range(100_000))
        assert 0.1 * (1 - 2 * expected / 100_000) <= total <= 0.1
    assert share_of_delta(0.1, block_of(2, 3), 3) == pytest.approx(0.1 / 6)
    assert share_of_delta(0.1, block_of(3, 3), 3) == pytest.approx(0.1 / 18)


class GivesEveryArmTheFirstShare(UCB):
    def params_of(self, block: int) -> Any:
        return super().params_of(1)


def crossing_runs(cls: type[UCB], n_runs: int, n_arms: int, n_plays: int) -> int:
    """In how many runs the interval of some of `n_arms` arms, each new when the one before is gone, ever fails."""
    crossings = 0
    for run in range(n_runs):
        rng = np.random.default_rng([17, run])
        learner = cls(1, window=5, delta=0.1, noise=0.5, reward_range=(-100.0, 100.0))
        noise, failed = rng.normal(0.0, 0.5, (n_arms, n_plays)), False
        for arm in range(n_arms):
            offers = ids_only(f"arm {arm}")
            for reward in noise[arm]:
                learner.learn(offers, 0, float(reward))
                proposal = learner.decide(offers)
                failed |= abs(proposal.value) > proposal.regret / 2
        crossings += failed
    return crossings


@pytest.mark.statistical
@pytest.mark.slow
def test_intervals_of_arms_that_come_and_go_hold_with_probability_1_minus_delta() -> None:
    """Fails by chance with probability below 1e-3 if the intervals are valid; the control needs p < 1e-6."""
    n_runs = 25
    assert binomtest(crossing_runs(UCB, n_runs, 400, 4), n_runs, 0.1, alternative="greater").pvalue > 1e-3
    wrong = crossing_runs(GivesEveryArmTheFirstShare, n_runs, 400, 4)
    assert binomtest(wrong, n_runs, 0.1, alternative="greater").pvalue < 1e-6


def test_memory_is_that_of_the_ids_seen_in_the_window() -> None:
    learner, rng, sizes = UCB(50, window=200), np.random.default_rng(5), []
    for t in range(6_000):
        first = t // 10
        offers = ids_only(*(f"arm {first + k}" for k in rng.choice(20, 5, replace=False)))
        learner.learn(offers, learner.decide(offers).action, float(rng.random()))
        if t % 1_000 == 999:
            sizes.append((learner.n_ids, size_in_bytes(learner)))
    assert all(n_ids <= 200 / 10 + 20 for n_ids, _ in sizes)
    assert max(size for _, size in sizes) <= 1.25 * sizes[0][1]


def test_id_that_comes_back_in_the_window_is_remembered_and_later_is_new() -> None:
    learner = UCB(1, window=3)
    learner.learn(ids_only("a"), 0, 1.0)
    width = learner.decide(ids_only("a")).regret
    for k in range(3):
        learner.learn(ids_only(f"other {k}"), 0, 0.0)
    assert learner.decide(ids_only("a")).regret == width and learner.decide(ids_only("a")).value == 1.0
    learner.learn(ids_only("other 2"), 0, 0.0)
    assert learner.decide(ids_only("a")).value == 0.5  # the midpoint: nothing is known
    learner.learn(ids_only("a"), 0, 1.0)
    learner.learn(ids_only("a"), 0, 1.0)
    assert learner.decide(ids_only("a")).value == 1.0


def test_offers_without_ids_are_arms_by_row_with_masks() -> None:
    learner, twin = UCB(3), UCB(3)
    for row, reward in ((0, 0.1), (1, 0.9), (2, 0.5)):
        learner.learn(Offers(np.zeros((3, 1)), mask=[k == row for k in range(3)]), row, reward)
        twin.learn(None, row, reward)
    assert learner == twin
    offers = Offers(np.zeros((3, 1)), mask=[True, False, True])
    assert (learner.decide(offers).action, learner.decide(offers).greedy) == (2, 2)
    greedy = EpsilonGreedy(3, epsilon=0.2)
    assert greedy.pmf(offers).tolist() == [0.9, 0.0, 0.1]
    with pytest.raises(InvalidArgument, match="action is 1, but the mask of the offers excludes it"):
        learner.learn(offers, 1, 0.5)


@pytest.mark.parametrize("context", [None, {"user": 5}, "morning", 3.5, object(), np.float64(1.0)])
def test_arm_learners_take_any_context(context: Any) -> None:
    for learner in (UCB(2), EpsilonGreedy(2, epsilon=0.0), Constant(1)):
        action = learner.decide(context).action
        learner.learn(context, action, 1.0)
        assert action in (0, 1)


def test_rows_and_ids_are_not_mixed() -> None:
    by_row, by_id = UCB(3), UCB(3)
    by_row.learn(None, 0, 1.0)
    by_id.learn(ids_only("a"), 0, 1.0)
    with pytest.raises(InvalidArgument, match="context has ids, but UCB has learned arms by row"):
        by_row.decide(ids_only("a"))
    with pytest.raises(InvalidArgument, match="context has no ids, but UCB has learned arms by id"):
        by_id.learn(None, 0, 1.0)


def test_update_of_weight_0_changes_nothing() -> None:
    learner = UCB(2)
    learner.learn(ids_only("a", "b"), 1, 0.7)
    before = UCB(2)
    before.restore(learner.state())
    learner.learn(ids_only("c"), 0, 0.0, 0.0)
    assert learner == before


def test_constant_plays_its_row_only_where_it_is_offered() -> None:
    offers = Offers(np.zeros((3, 1)), mask=[True, False, True])
    assert Constant(2).decide(offers).action == 2 and Constant(2).pmf(offers).tolist() == [0.0, 0.0, 1.0]
    with pytest.raises(InvalidArgument, match="action is 1, but the mask"):
        Constant(1).decide(offers)


def test_linear_learners_decide_among_what_the_mask_leaves() -> None:
    rng = np.random.default_rng(3)
    masked, plain = OFUL(2, scale=0.2), OFUL(2, scale=0.2)
    for _ in range(50):
        rows, mask = rng.random((5, 2)) / 2, rng.random(5) < 0.6
        mask[0] = True
        offers = Offers(rows, mask=mask)
        one, other = masked.decide(offers), plain.decide(rows[mask])
        kept = np.flatnonzero(mask)
        assert one.action == kept[other.action] and one.greedy == kept[other.greedy] and one.lower == other.lower
        masked.learn(offers, one.action, 0.5)
        plain.learn(rows[mask], other.action, 0.5)
    assert masked == plain


def test_disjoint_oful_learns_shared_features_by_id_where_one_model_cannot() -> None:
    """The best id depends on the sign of the shared feature; ids come in any order."""
    rng = np.random.default_rng(8)
    disjoint = DisjointOFUL(features=Shared(1), arms=2, scale=0.2)
    joint = OFUL(features=Columns([0]), scale=0.2)
    scores = {"disjoint": 0.0, "joint": 0.0}
    for t in range(400):
        ids = ["a", "b"] if t % 2 else ["b", "a"]
        user = float(rng.choice([-1.0, 1.0]))
        offers = Offers(np.ones((2, 1)) / 2, shared=[user], ids=ids)
        for name, learner in (("disjoint", disjoint), ("joint", joint)):
            action = learner.decide(offers).action
            reward = float((ids[action] == "a") == (user > 0))
            scores[name] += reward
            learner.learn(offers, action, reward)
    assert scores["disjoint"] > 360 and scores["joint"] < 260


@pytest.mark.parametrize("learner", [UCB(2), DisjointOFUL(features=Shared(1), arms=2)], ids=["UCB", "DisjointOFUL"])
def test_a_state_replaces_arms_that_were_learned_by_id(learner: Any) -> None:
    offers, empty = Offers(None, shared=[1.0], ids=["a", "b"]), learner.state()
    learner.learn(offers, 0, 1.0)
    state = learner.state()
    learner.learn(offers, 1, 0.0)
    learner.restore(state)
    assert equal_data(learner.state(), state) and learner.n_ids == 1
    learner.restore(empty)
    assert equal_data(learner.state(), empty) and learner.n_ids == 0
