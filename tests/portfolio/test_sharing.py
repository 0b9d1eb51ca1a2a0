"""Sharing per learner: whoever can learn from rounds of others does, whoever else is in the pool."""

import logging
from collections.abc import Callable
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio, simulate
from equipoise.config import parse
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.journal.maintenance import compare
from equipoise.journal.sqlite import SQLiteJournal
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import UCB1, Corral, CounterfactualBalancing, EpochBalancing, RealizedBalancing
from equipoise.selectors._core import evidence, pairs
from tests.recorders import saved

ROUNDS = 400


class Plain:
    """A class with only `decide` and `learn` that counts what it is asked and taught."""

    def __init__(self, action: int = 0) -> None:
        self.action, self.asked, self.taught = action, 0, 0

    def decide(self, context: Any) -> int:
        self.asked += 1
        return self.action

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.taught += 1


class Savable(Plain):
    """A plain class that can be saved."""

    randomized = False

    def state(self) -> dict[str, np.ndarray]:
        return {"counts": np.array([self.action, self.asked, self.taught])}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.action, self.asked, self.taught = state["counts"].tolist()


class Silent(Savable):
    """A learner whose `decide` changes its state: it plays its actions in turn."""

    silent = True

    def decide(self, context: Any) -> int:
        super().decide(context)
        return self.action if self.action >= 0 else self.asked % len(context)


class NeedsProbability(OFUL):
    """A learner that cannot learn without the probability of the action, as those of Vowpal Wabbit."""

    accepts = OFUL.accepts | {"probability"}

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0, *, probability: float = 1.0) -> None:
        if isnan(probability) or not 0.0 < probability <= 1.0:
            raise InvalidArgument(f"probability is {probability}, but must be known")
        super().learn(context, action, reward, weight)


def play(portfolio: Any, rounds: int = ROUNDS, seed: int = 1, means: Any = None) -> float:
    """Rounds with prompt rewards, of expected reward the first feature, or `means`; returns the mean reward."""
    rng, total = np.random.default_rng(seed), 0.0
    for _ in range(rounds):
        context = rng.random((3, 4)) / 2
        decision = portfolio.decide(context)
        mean = context[decision.action, 0] if means is None else means[decision.action]
        reward = float(rng.random() < mean)
        portfolio.learn(decision, reward)
        total += reward
    return total / rounds


def updates_of(learner: OFUL) -> int:
    return int(learner.memory.updates[0])


@pytest.mark.parametrize("plain", [Plain, Savable, Silent, lambda: EpsilonGreedy(3, epsilon=0.1)])
def test_a_class_that_cannot_share_turns_sharing_off_for_no_other_learner(plain: Callable[[], Any]) -> None:
    """The reported fault: with one plain class in the pool, no learner learned from rounds of others."""
    learners: list[Any] = [OFUL(4), plain(), OFUL(2)]
    portfolio = Portfolio(learners, seed=3)
    assert isinstance(portfolio.selector, CounterfactualBalancing)
    play(portfolio)
    assert [updates_of(learner) for learner in learners[::2]] == [ROUNDS, ROUNDS]
    own = portfolio.standing()[1].plays
    assert 0 < own < ROUNDS / 2
    if isinstance(learners[1], Plain):
        assert learners[1].taught == own and (1, True) not in portfolio.selector.experts
        assert learners[1].asked == (own if isinstance(learners[1], Silent) else ROUNDS)
    control = Portfolio([OFUL(4), plain(), OFUL(2)], seed=3, share_data=False)
    assert isinstance(control.selector, RealizedBalancing)
    play(control)
    assert [updates_of(learner) for learner in control.learners[::2]] != [ROUNDS, ROUNDS]


@pytest.mark.parametrize("make", [Plain, Silent])
@pytest.mark.parametrize(("action", "good"), [(2, True), (0, False)])
def test_a_good_plain_class_is_found_and_a_bad_one_left_alone(make: Any, action: int, good: bool) -> None:
    """Action 2 pays most, which contexts do not show; the linear learners cannot learn it."""
    learners: list[Any] = [OFUL(4), OFUL(2), make(action)]
    portfolio = Portfolio(learners, seed=4)
    mean = play(portfolio, 1_500, means=(0.1, 0.3, 0.9))
    share = portfolio.standing()[2].plays / 1_500
    assert (share > 0.6 and mean > 0.7) if good else share < 0.05


def test_own_plays_next_to_shared_data_are_spread_over_the_rounds() -> None:
    """Control: with data that are not shared, the same class gets its warm-up plays at once."""
    counts = []
    for shared in (None, False):
        learners: list[Any] = [OFUL(4), OFUL(2), Plain(0)]
        selector = CounterfactualBalancing.for_learners(learners, share_data=shared)
        portfolio = Portfolio(learners, selector, seed=5)
        play(portfolio, 600, means=(0.2, 0.5, 0.9))
        counts.append(portfolio.standing()[2].plays)
    assert counts[0] <= 15 < 40 < counts[1]


# Who shares, in one line.


def info_of(make: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO, "equipoise"):
        make()
    (record,) = caplog.records
    return record.getMessage()


def test_one_line_says_who_shares_and_what_others_would_need(caplog: pytest.LogCaptureFixture) -> None:
    pool: list[Any] = [OFUL(2), Plain(), UCB(3), Constant(0), Silent()]
    line = info_of(lambda: Portfolio(pool), caplog)
    assert line == (
        "The selector is CounterfactualBalancing: 1 of 5 learners learns from rounds of others. Share data: OFUL(d=2). "
        "Learn from own plays, must accept 'off_policy' to share data: Plain, UCB. Nothing to learn: Constant(0). "
        "Asked in own plays only (silent), must accept 'off_policy' and not be silent to share data: Silent."
    )
    assert line.startswith(Portfolio(pool).describe().splitlines()[-1])
    given = info_of(lambda: Portfolio([OFUL(2), Plain()], UCB1(2)), caplog)
    assert given == (
        "The selector is UCB1, as given. "
        "Learn from own plays, must have share_data=True with UCB1 to share data: OFUL(d=2). "
        "Learn from own plays, must accept 'off_policy' to share data: Plain."
    )
    shared = info_of(lambda: Portfolio([OFUL(2), Plain()], UCB1(2), share_data=True), caplog)
    assert "Share data: OFUL(d=2)." in shared
    off = info_of(lambda: Portfolio([OFUL(2), OFUL(4)], share_data=False), caplog)
    assert "RealizedBalancing: data are not shared. Learn from own plays, share_data is False: OFUL(d=2), OFUL" in off
    agreed = CounterfactualBalancing.for_learners([UCB(3), Plain()], contexts="fixed")
    assert "Learn from rounds that they agree with" in info_of(lambda: Portfolio([UCB(3), Plain()], agreed), caplog)
    weighted = info_of(lambda: Portfolio([OFUL(2), OFUL(3)], Corral(2, rounds=50)), caplog)
    assert weighted.endswith("Learn from weighted rounds: OFUL(d=2), OFUL(d=3).")


# `share_data` means the same everywhere.

MODES = {None: ("all", "own", "all"), True: ("all", "own", "all"), False: ("agreed", "own", "all")}


@pytest.mark.parametrize("share_data", [None, True, False])
def test_share_data_means_the_same_in_portfolios_selectors_files_and_simulations(share_data: bool | None) -> None:
    def pool() -> list[Any]:
        return [OFUL(4), EpsilonGreedy(3, epsilon=0.1), Constant(0)]

    selector = CounterfactualBalancing.for_learners(pool(), share_data=share_data)
    assert selector.learning_modes == selector.traits.learning_modes == MODES[share_data]
    file: dict[str, Any] = {
        "version": 1,
        "name": "mixed",
        "selector": {"use": "CounterfactualBalancing"},
        "learner": [
            {"use": "OFUL", "dim": 4},
            {"use": "EpsilonGreedy", "arms": 3, "epsilon": 0.1},
            {"use": "Constant", "action": 0},
        ],
    }
    named = parse(file if share_data is None else {**file, "share_data": share_data}).portfolio()
    assert named.selector.learning_modes == MODES[share_data]
    runs = [Portfolio(pool(), selector, share_data=share_data), Portfolio(pool(), share_data=share_data)]
    assert isinstance(runs[1].selector, RealizedBalancing if share_data is False else CounterfactualBalancing)
    result = simulate(Linear(), pool(), rounds=20, share_data=share_data)
    assert type(result.selectors[0]) is type(runs[1].selector)
    for given, shares in ((UCB1(3), bool(share_data)), (RealizedBalancing(3), bool(share_data))):
        learners = pool()
        play(Portfolio(learners, given, share_data=share_data), 30)
        assert (updates_of(learners[0]) == 30) is shares


class Linear:
    """A problem of a user's own, so that nothing is compiled."""

    reward_range = (0.0, 1.0)

    def observe(self, rng: np.random.Generator) -> Any:
        return rng.random((3, 4)) / 2

    def respond(self, context: Any, action: int, rng: np.random.Generator) -> float:
        return float(rng.random() < context[action, 0])


WAYS: dict[str, Callable[..., Any]] = {
    "portfolio": Portfolio,
    "selector": lambda learners, selector=None, **given: CounterfactualBalancing.for_learners(learners, **given),
    "simulation": lambda learners, selector=None, **given: simulate(Linear(), learners, selector, rounds=5, **given),
}


@pytest.mark.parametrize("way", WAYS)
def test_share_data_that_no_learner_can_follow_is_refused_alike(way: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^share_data is True, but no learner accepts 'off_policy' data$"):
        WAYS[way]([UCB(3), Plain()], share_data=True)
    with pytest.raises(InvalidArgument, match="share_data is 1, but must be True or False"):
        WAYS[way]([OFUL(2), Plain()], share_data=1)


@pytest.mark.parametrize("way", ["portfolio", "simulation"])
def test_a_selector_that_decides_who_shares_must_agree(way: str) -> None:
    """A simulation ignored `share_data` there, and a portfolio ignored False."""
    pool: list[Any] = [OFUL(2), OFUL(4)]
    for made, wanted in ((True, False), (False, True)):
        selector = CounterfactualBalancing.for_learners(pool, share_data=made)
        with pytest.raises(InvalidArgument, match=rf"share_data is {wanted}, but learners of .*for_learners\("):
            WAYS[way](pool, selector, share_data=wanted)
    with pytest.raises(InvalidArgument, match="share_data is True, but must stay None: Corral decides itself"):
        WAYS[way](pool, Corral(2, rounds=50), share_data=True)


def test_a_plain_class_joins_shares_nothing_and_leaves() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(4)], seed=6)
    play(portfolio, 50)
    portfolio.add_learner(Savable(1))
    portfolio.add_learner(Silent(-1))
    portfolio.add_learner(OFUL(3))
    assert portfolio.selector.learning_modes == ("all", "all", "own", "silent", "all")
    play(portfolio, 100, seed=2)
    assert [updates_of(learner) for learner in portfolio.learners if isinstance(learner, OFUL)] == [150, 150, 100]
    assert portfolio.learners[2].taught == portfolio.standing()[2].plays > 0
    for name in ("Savable", "Silent"):
        portfolio.remove_learner(name)
    play(portfolio, 20)
    assert isinstance(portfolio.selector, CounterfactualBalancing) and updates_of(portfolio.learners[0]) == 170
    with pytest.raises(InvalidArgument, match="share_data is False, but must stay None: Counterfactual balancing"):
        portfolio.reconfigure(share_data=False)


def test_a_learner_that_joins_a_pool_that_shares_nothing_shares_nothing() -> None:
    learners: list[Any] = [OFUL(2), Plain()]
    selector = CounterfactualBalancing.for_learners(learners, share_data=False)
    portfolio = Portfolio(learners, selector, share_data=False)
    portfolio.add_learner(OFUL(4))
    assert selector.learning_modes == ("agreed", "own", "agreed")


def test_a_portfolio_that_was_recommended_without_sharing_keeps_its_selector() -> None:
    portfolio = Portfolio([OFUL(2), Plain()], share_data=False)
    with pytest.raises(InvalidArgument, match="share_data is True, but must stay False: Realized balancing was chosen"):
        portfolio.reconfigure(share_data=True)


# Silent learners.


def test_a_silent_learner_must_be_declared_and_fits_selectors_that_need_not_ask_it() -> None:
    pool: list[Any] = [OFUL(2), Silent()]
    for word in ("own", "silent"):
        selector = CounterfactualBalancing(2, learning=["all", word], greedy_experts=[0])
        learners: list[Any] = pool if word == "own" else [OFUL(2), Plain()]
        with pytest.raises(IncompatibleLearner, match="but must be 'silent' if and only if it is silent"):
            Portfolio(learners, selector)
    linear = [OFUL(2), OFUL(4)]
    linear[1].silent = True  # type: ignore[attr-defined]
    for asking in (EpochBalancing.for_learners([OFUL(2), OFUL(4)]), Corral(2, rounds=50)):
        with pytest.raises(IncompatibleLearner, match=r"asks every learner in every round, but .* is silent"):
            Portfolio(linear, asking)
    silent = Silent(-1)
    portfolio = Portfolio([OFUL(2), silent], RealizedBalancing(2))
    play(portfolio, 40)
    assert silent.asked == silent.taught == portfolio.standing()[1].plays


def test_a_silent_learner_makes_propensities_unknown_and_says_so() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(4), Silent(1)], seed=2)
    decisions = [portfolio.decide(np.eye(3, 4) / 2) for _ in range(30)]
    assert all(isnan(decision.propensity) for decision in decisions[6:])
    (reason,) = portfolio.health()["unknown_propensities"]
    assert reason.startswith("Silent: it is silent")


def expected_gains(silent: bool) -> tuple[float, float]:
    """The expectation of Y over the draws of a round, and lambda times the difference of expected rewards.

    Three experts propose actions 0, 1 and 0; the third is silent, or is asked in every round.
    """
    odds, actions, means, total = (0.2, 0.5, 0.3), (0, 1, 0), (0.9, 0.3), 0.0
    limits = evidence.Params(None, 0.0, 1.0, 1.0)  # type: ignore[arg-type]  # the radius is not used
    for drawn, chance in enumerate(odds):
        code = pairs.SILENT if silent else pairs.OWN
        rows = [pairs.Expert(i, False, code if i == 2 else pairs.ALL, i, False) for i in range(3)]
        state = pairs.open_state(rows)
        for i, row in enumerate(rows):
            hidden = i == 2 and drawn != 2
            row.probability, row.action = odds[i], -1 if hidden else actions[i]
        pairs.add_round(limits, state, drawn, means[actions[drawn]], choosing=False, certifying=True)
        total += chance * (state.pairs[1].gain - state.pairs[3].gain)  # of expert 0 over expert 1
    return total, min(odds[:2]) * (means[0] - means[1])


def test_lemma_1_holds_for_the_others_next_to_a_silent_learner() -> None:
    """Over all draws, exactly. Control: a hidden proposal that counts when it is drawn, as that of other learners."""
    found, expected = expected_gains(silent=True)
    assert found == pytest.approx(expected, rel=1e-12)
    found, expected = expected_gains(silent=False)
    assert found != pytest.approx(expected, rel=0.05)


# What it meets.


def test_learners_that_need_probabilities_share_next_to_learners_that_have_none() -> None:
    """A plain class, and Thompson sampling, make the propensity unknown; given all proposals it is known."""
    learners: list[Any] = [NeedsProbability(4), LinearThompson(4), Plain()]
    for explore in (0.0, 0.3):
        portfolio = Portfolio([*learners, Plain()], seed=3, explore=explore)
        before = updates_of(learners[0])
        play(portfolio, 100)
        assert isnan(portfolio.decide(np.eye(3, 4) / 2).propensity)
        assert updates_of(learners[0]) == before + 100 and not portfolio.failed_updates


class Erratic(Savable):
    """Fails in some rounds, by the context."""

    name = "Erratic"

    def decide(self, context: Any) -> int:
        if np.asarray(getattr(context, "actions", context))[0, 1] > 0.4:
            raise RuntimeError("cannot decide")
        return super().decide(context)


def mixed() -> Portfolio:
    learners: list[Any] = [OFUL(2), OFUL(4), Erratic(1), Silent(-1), Savable(2)]
    return Portfolio(learners, seed=7, explore=0.05, deadline=40, default_reward=0.0)


def disturb(portfolio: Any, rounds: int, seed: int) -> list[tuple[Any, ...]]:
    """Rewards late, out of order or never, masks, withdrawals, restricted rounds, a suspension, a late joiner."""
    rng, open_, seen = np.random.default_rng(seed), [], []
    for t in range(rounds):
        context: Any = rng.random((3, 4)) / 2
        if t % 3 == 0:
            context = equipoise.Offers(context, mask=np.array([True, True, t % 2 == 0]))
        available = ["OFUL(d=2)", "Silent"] if t % 11 == 5 else None
        decision = portfolio.decide(context, available=available, id=f"{seed}-{t}")
        seen.append((decision.drawn, decision.learner, decision.action))
        open_.append(decision.id)
        while open_ and rng.random() < 0.6:
            id_ = open_.pop(int(rng.integers(len(open_))))
            with_reward = rng.random() < 0.9
            if id_ in portfolio.pending:
                portfolio.learn(id_, float(rng.random())) if with_reward else portfolio.withdraw(id_)
        if t == rounds // 3:
            portfolio.suspend("OFUL(d=2)")
        if t == rounds // 2:
            portfolio.resume("OFUL(d=2)")
    return seen


def test_a_mixed_pool_is_saved_and_continues_identically(tmp_path: Path) -> None:
    portfolio = mixed()
    drawn = disturb(portfolio, 150, 1)
    assert {learner for learner, _, _ in drawn} == {None, 0, 1, 2, 3, 4}
    assert any(learner not in (None, acting) for learner, acting, _ in drawn)  # substitutes act
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p", [OFUL(2), OFUL(4), Erratic(1), Silent(-1), Savable(2)])
    assert saved(loaded) == saved(portfolio)
    further = disturb(portfolio, 100, 2)
    assert disturb(loaded, 100, 2) == further
    assert saved(loaded) == saved(portfolio)
    # The silent learner is asked in its own rounds only; in some of these the mask excludes its action.
    assert portfolio.learners[3].asked == sum(3 in row[:2] for row in drawn + further) < 250


def test_a_journal_of_a_mixed_pool_is_recovered_and_rebuilt(tmp_path: Path) -> None:
    """With registered learners, from which a journal is rebuilt; EpsilonGreedy learns from its own plays."""

    def make() -> Portfolio:
        learners = [OFUL(2), OFUL(4), EpsilonGreedy(3, epsilon=0.1)]
        return Portfolio(learners, seed=7, explore=0.05)

    path = tmp_path / "mixed.db"
    with equipoise.open(path, make) as live:
        for t in range(60):
            decision = live.decide(np.random.default_rng(t).random((3, 4)) / 2)
            if t % 3:
                live.learn(decision, float(t % 2))
        live.add_learner(EpsilonGreedy(3, epsilon=0.3))
        before = live.state()["selector"]
    with equipoise.open(path, make) as live:
        after = live.state()["selector"]
        assert after["config"] == before["config"]
        live.learn(live.decide(np.eye(3, 4) / 2), 1.0)
    assert compare(SQLiteJournal(path, create=False)).differences == ()
