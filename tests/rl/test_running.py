"""Portfolios in gymnasium environments: whole runs, scaling, and what is refused without anything being learned."""

from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from equipoise import Portfolio, Proposal, rl
from equipoise.bounds import Bound, Observed, Power
from equipoise.errors import InvalidArgument, StoreConflict
from equipoise.learners import LSVI_UCB, UCBVI, QLearning
from equipoise.problems.finite_mdp import one_hot
from equipoise.selectors import BalancedElimination
from tests.recorders import Recorder


def tabular(env: Any, episodes: int, reward_range: tuple[float, float] | None = None) -> Portfolio:
    sizes: dict[str, Any] = {"horizon": env.horizon, "episodes": episodes}
    learners = [
        LSVI_UCB(env.features, **sizes, bonus=0.02),
        UCBVI(env.n_states, env.n_actions, **sizes, bonus=0.05),
        QLearning(env.n_states, env.n_actions, **sizes, bonus=0.05),
    ]
    bounds: list[Bound] = [Observed(), Observed(), Power(env.horizon)]
    return Portfolio(learners, BalancedElimination(bounds, reward_range=reward_range or env.reward_range))


def test_run_plays_learns_and_reports_every_episode() -> None:
    env = rl.LinearMDP(n_states=4, n_actions=2, horizon=3, d_max=4, d_star=2, seed=2)
    portfolio = tabular(env, 300)
    results = rl.run(env, portfolio, 300, seed=5)
    assert {len(column) for column in results} == {300}
    plays = np.bincount(results.learners, minlength=3)
    assert [standing.plays for standing in portfolio.standing()] == plays.tolist() and plays.min() > 0
    assert np.array_equal(results.returns, results.rewards) and not portfolio.pending
    assert (results.lengths == 3).all() and (results.gaps >= 0.0).all()
    assert results.gaps[-50:].mean() < 0.6 * results.gaps[:50].mean()
    learned = [int(learner.memory.episodes[0]) for learner in portfolio.learners]
    assert learned == plays.tolist()


def test_same_seed_gives_the_same_run() -> None:
    runs = []
    for _ in range(2):
        env = rl.RiverSwim(4, 6)
        runs.append(rl.run(env, tabular(env, 80), 80, seed=3))
    assert all(np.array_equal(one, other) for one, other in zip(*runs, strict=True))


def test_returns_and_regrets_are_scaled_once_to_the_range_of_the_selector() -> None:
    """The same run in units of [0, H] and of [0, 1]: same decisions, rewards and bounds a factor H apart."""
    outcomes = []
    for reward_range in ((0.0, 6.0), (0.0, 1.0)):
        env = rl.RiverSwim(4, 6)
        portfolio = tabular(env, 200, reward_range)
        if reward_range == (0.0, 1.0):
            portfolio = Portfolio(
                portfolio.learners,
                BalancedElimination([Observed(), Observed(), Power(1.0)], reward_range=reward_range),
            )
        outcomes.append((rl.run(env, portfolio, 200, seed=1), portfolio.standing()))
    (wide, wide_standing), (narrow, narrow_standing) = outcomes
    assert np.array_equal(wide.learners, narrow.learners) and np.array_equal(wide.returns, narrow.returns)
    assert np.allclose(wide.rewards, 6 * narrow.rewards)
    for one, other in zip(wide_standing, narrow_standing, strict=True):
        assert one.mean_bound == pytest.approx(6 * other.mean_bound)


def test_scale_is_a_straight_line_between_the_ranges() -> None:
    scale = rl.Scale(-1.0, 3.0, 0.0, 1.0)
    assert [scale.reward(total) for total in (-1.0, 0.0, 3.0)] == [0.0, 0.25, 1.0]
    assert scale.regret(2.0) == 0.5 and scale.regret(float("nan")) is None


def test_environments_that_state_the_range_of_their_returns_are_taken_at_their_word() -> None:
    """A lock pays at most 1 in an episode of 3 steps; a selector made for that range gets returns as they are."""
    env = rl.CombinationLock(3, 2)
    portfolio = tabular(env, 40)
    results = rl.run(env, portfolio, 40)
    assert portfolio.selector.reward_range == (0.0, 1.0)
    assert np.array_equal(results.returns, results.rewards) and results.returns.max() == 1.0


class Corridor(gymnasium.Env[Any, Any]):
    """A position in [0, 1] that action 1 moves up and action 0 down; pays its position; ends after `n_steps`."""

    def __init__(self, n_steps: int = 4, pay: float = 1.0, action_space: Any = None) -> None:
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float64)
        self.action_space = action_space or gymnasium.spaces.Discrete(2, start=5)
        self.n_steps, self.pay = n_steps, pay

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.step_number, self.position = 0, 0.5
        return np.array([self.position]), {}

    def step(self, action: Any) -> Any:
        self.position = min(max(self.position + (0.2 if action == 6 else -0.2), 0.0), 1.0)
        self.step_number += 1
        return np.array([self.position]), self.pay * self.position, self.step_number == self.n_steps, False, {}


def corners(observation: Any, action: int) -> list[float]:
    """Position and its complement, for each action: four features of norm at most 1."""
    x = float(observation[0])
    return [x, 1 - x, 0.0, 0.0] if action == 0 else [0.0, 0.0, x, 1 - x]


def on_features(features: Any = corners, dim: int = 4, **settings: Any) -> Portfolio:
    learners = [
        rl.FeatureLSVI(features, dim, 2, horizon=4, episodes=200, bonus=bonus, name=f"c={bonus}", **settings)
        for bonus in (0.1, 1.0)
    ]
    return Portfolio(learners, BalancedElimination([Observed(), Observed()], reward_range=(0.0, 4.0)))


@pytest.mark.parametrize("low_switching", [False, True])
def test_run_works_on_continuous_states_through_a_feature_map(low_switching: bool) -> None:
    portfolio = on_features(low_switching=low_switching)
    results = rl.run(Corridor(), portfolio, 200, seed=0)
    own = results.returns[results.learners == 0]
    assert own[-5:].mean() > 4 * own[:5].mean() and np.isnan(results.gaps).all()


def entry(rows: Any, state: int, action: int) -> Any:
    return rows[state, action]


def test_stored_and_summed_forms_propose_the_same_policies() -> None:
    """The form that stores all transitions, on a finite process, against the one that sums over states."""
    env, table = rl.LinearMDP(n_states=4, n_actions=2, horizon=3, d_max=4, d_star=3, seed=1), one_hot(4, 2)
    sizes: dict[str, Any] = {"horizon": 3, "episodes": 60, "bonus": 0.05}
    for rows in (table, env.features):
        summed = LSVI_UCB(rows, **sizes)
        stored = rl.FeatureLSVI(partial(entry, rows), rows.shape[2], 2, **sizes)
        rng = np.random.default_rng(0)
        for _ in range(40):
            policy, function = summed.decide(0).action, stored.decide(0).action
            for h, s in np.ndindex(3, 4):
                values = function.values(h, rows[s])
                assert values[policy[h, s]] == pytest.approx(values.max(), abs=1e-9)
            start = env.observe(rng)
            _, episode = env.play(start, policy, rng)
            assert summed.regret_of(episode) == pytest.approx(stored.regret_of(episode), abs=1e-9)
            summed.learn(start, episode, 0.0)
            stored.learn(start, episode, 0.0)


def test_feature_learner_refuses_more_episodes_than_it_has_room_for() -> None:
    learner = rl.FeatureLSVI(corners, 4, 2, horizon=4, episodes=1)
    episode = rl.Trajectory([[0.5]], [0], [0.3])
    learner.learn([0.5], episode, 0.3)
    with pytest.raises(InvalidArgument, match="has learned 1 episodes, but must learn at most episodes = 1"):
        learner.learn([0.5], episode, 0.3)


BOX = gymnasium.spaces.Box(-1.0, 1.0, (1,))


@pytest.mark.parametrize(
    ("env", "portfolio", "message"),
    [
        (Corridor(action_space=BOX), on_features(), f"env has action space {BOX}, but must have a Discrete one"),
        (
            Corridor(),
            on_features(dim=3),
            "features of action 0 in state array([0.5]) have shape (4,), but must have (3,)",
        ),
        (
            Corridor(),
            on_features(lambda observation, action: [2.0, 0.0, 0.0, 0.0]),
            "features of action 0 in state array([0.5]) have norm 2, but norms must be finite and at most 1",
        ),
        (
            Corridor(),
            on_features(lambda observation, action: [float("nan")] * 4),
            "features of action 0 in state array([0.5]) have norm nan, but norms must be finite and at most 1",
        ),
        (
            Corridor(n_steps=5),
            on_features(),
            "episode continues after 4 steps, but must end within horizon = 4: limit it with gymnasium's TimeLimit",
        ),
        (Corridor(pay=-1.0), on_features(), "but must lie in the declared return_range (0, 4)"),
        (Corridor(pay=20.0), on_features(), "but must lie in the declared return_range (0, 4)"),
        (Corridor(pay=float("nan")), on_features(), "reward of a step is nan, but must be a finite number"),
        (
            Corridor(),
            tabular(rl.RiverSwim(3, 4), 9),
            "but must have states 0 to 2 for 'LSVI-UCB(d=6, c=0.02)'",
        ),
        (
            rl.RiverSwim(4, 4),
            tabular(rl.RiverSwim(3, 4), 9),
            "env has 4 states, but must have 3 for 'LSVI-UCB(d=6, c=0.02)'",
        ),
        (
            rl.CombinationLock(3, 3),
            tabular(rl.CombinationLock(3, 2), 9),
            "env has 3 actions, but must have 2 for 'LSVI-UCB(d=8, c=0.02)'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_learned(env: Any, portfolio: Portfolio, message: str) -> None:
    before = [part.state() for part in (*portfolio.learners, portfolio.selector)]
    with pytest.raises(InvalidArgument) as caught:
        rl.run(env, portfolio, 3)
    assert message in str(caught.value)
    assert portfolio.pending == () and all(standing.plays == 0 for standing in portfolio.standing())
    after = [part.state() for part in (*portfolio.learners, portfolio.selector)]
    for old, new in zip(before, after, strict=True):
        assert old.keys() == new.keys() and all(np.array_equal(old[name], new[name], equal_nan=True) for name in old)


def test_step_rewards_that_learners_cannot_take_are_refused_with_nothing_learned() -> None:
    """A return within its range, made of steps that are not: the learner refuses and the decision is taken back."""
    portfolio = on_features()
    with pytest.raises(InvalidArgument, match=r"step of reward 1\.\d+, but rewards of steps must lie in \[0, 1\]"):
        rl.run(Corridor(pay=4.0), portfolio, 1, return_range=(0.0, 8.0))
    assert portfolio.pending == () and portfolio.learners[0]._n_episodes == 0
    assert [standing.plays for standing in portfolio.standing()] == [0, 0]


def test_a_run_goes_on_after_a_refused_episode_as_if_it_had_never_begun() -> None:
    """The same episodes with and without one in the middle that is too long."""
    runs = []
    for interrupted in (False, True):
        portfolio = on_features()
        rl.run(Corridor(), portfolio, 30, seed=0)
        if interrupted:
            with pytest.raises(InvalidArgument, match="episode continues after 4 steps"):
                rl.run(Corridor(n_steps=5), portfolio, 1)
        runs.append(rl.run(Corridor(), portfolio, 30, seed=1))
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(*runs, strict=True))


@pytest.mark.parametrize("value", [None, "x", True, [1]], ids=repr)
@pytest.mark.parametrize("name", ["n_actions", "n_states", "horizon"])
def test_a_size_that_is_not_a_whole_number_is_not_a_size(name: str, value: Any) -> None:
    class Walk:
        def decide(self, context):
            return lambda step, observation: 1

        def learn(self, context, action, reward):
            pass

    learner = Walk()
    setattr(learner, name, value)
    portfolio = Portfolio([learner], BalancedElimination([Power(1.0)], reward_range=(0.0, 4.0)))
    assert rl.run(Corridor(), portfolio, 2, horizon=4).lengths.tolist() == [4, 4]
    with pytest.raises(InvalidArgument, match=r"^learners have horizons \[\], but must have a single one"):
        rl.run(Corridor(), portfolio, 2)
    setattr(learner, name, np.int64(3))
    refused = {"n_actions": "must have 3 for 'Walk'", "n_states": "must have states 0 to 2 for 'Walk'"}
    with pytest.raises(InvalidArgument, match=refused.get(name, "must end within horizon = 3")):
        rl.run(Corridor(), portfolio, 2, horizon=None if name == "horizon" else 4)


def test_an_episode_that_one_learner_cannot_learn_is_learned_by_the_others() -> None:
    class Walk(Recorder):
        def decide(self, context: Any) -> Proposal:
            return Proposal(lambda step, observation: 1)

    learners = [Walk(i, accepts={"off_policy"}) for i in range(2)]
    learners[1].failures["learn"] = 1
    portfolio = Portfolio(learners, BalancedElimination([Power(1.0)] * 2, reward_range=(0.0, 4.0)), share_data=True)
    rl.run(Corridor(), portfolio, 1, horizon=4)
    assert portfolio.pending == () and [len(learner.updates) for learner in learners] == [1, 0]
    assert [update.learner for update in portfolio.failed_updates] == [1]


@pytest.mark.parametrize("low_switching", [False, True])
def test_a_portfolio_on_a_feature_map_is_saved_and_goes_on_exactly(low_switching: bool, tmp_path: Any) -> None:
    portfolio = on_features(low_switching=low_switching)
    rl.run(Corridor(), portfolio, 40, seed=0)
    portfolio.save(tmp_path / "portfolio")
    with pytest.raises(StoreConflict, match=r"'c=0\.1' is a FeatureLSVI, which is not registered: pass learners="):
        Portfolio.load(tmp_path / "portfolio")
    used = on_features(low_switching=low_switching).learners
    rl.run(Corridor(), Portfolio(used, BalancedElimination([Observed()] * 2, reward_range=(0.0, 4.0))), 60, seed=9)
    for learners in (on_features(low_switching=low_switching).learners, used):
        other = Portfolio.load(tmp_path / "portfolio", learners=learners)
        for one, two in zip(portfolio.learners, other.learners, strict=True):
            old, new = one.state(), two.state()
            assert old.keys() == new.keys() and all(np.array_equal(old[name], new[name]) for name in old)
    one, two = rl.run(Corridor(), portfolio, 40, seed=1), rl.run(Corridor(), other, 40, seed=1)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, two, strict=True))


def test_another_feature_map_than_the_saved_one_is_refused(tmp_path: Any) -> None:
    portfolio = on_features()
    portfolio.save(tmp_path / "portfolio")
    with pytest.raises(
        StoreConflict, match=r"is a FeatureLSVI with .*<lambda>.*, but must be a .*corners.*in the file"
    ):
        Portfolio.load(
            tmp_path / "portfolio", learners=on_features(lambda observation, action: [1.0, 0, 0, 0]).learners
        )


@pytest.mark.parametrize("change", [{"rows": np.zeros((4, 2, 4))}, {"n_episodes": np.array([201])}])
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change: dict[str, Any]) -> None:
    learner = on_features().learners[0]
    before = learner.state()
    with pytest.raises(InvalidArgument, match=r"state rows has shape|n_episodes is 201"):
        learner.restore({**before, **change})
    assert all(np.array_equal(array, before[name]) for name, array in learner.state().items())


def test_learners_of_unknown_or_different_horizons_need_one_to_be_named() -> None:
    class Walk:
        def decide(self, context):
            return lambda step, observation: 1

        def learn(self, context, action, reward):
            assert isinstance(action, rl.Trajectory)

    portfolio = Portfolio([Walk()], BalancedElimination([Power(1.0)], reward_range=(0.0, 4.0)))
    with pytest.raises(InvalidArgument, match=r"horizons \[\], but must have a single one unless run"):
        rl.run(Corridor(), portfolio, 1)
    assert rl.run(Corridor(), portfolio, 3, horizon=4).returns == pytest.approx([3.6] * 3)
