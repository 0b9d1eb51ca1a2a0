"""Range and noise of learners: the portfolio's where they are not stated, decisions that do not depend on the unit."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import EquipoiseError, IncompatibleLearner, InvalidArgument
from equipoise.lab.rivals import OSOM, ALBDim, ALBNorm, MisspecificationAdaptive, ModCB
from equipoise.learner import AdaptedLearner
from equipoise.learners import LEARNERS, OFUL, UCB, DisjointOFUL, EpsilonGreedy, LinearThompson, SquareCB
from equipoise.settings import settings_of
from equipoise.storage.parts import load, save
from equipoise.testing.learners import random_actions

WITH_RANGE = [cls for cls in LEARNERS.values() if any(each.name == "reward_range" for each in settings_of(cls))]
REQUIRED: dict[type[Any], dict[str, Any]] = {
    UCB: {"arms": 4},
    DisjointOFUL: {"dim": 2, "arms": 4},
    OSOM: {"arms": 6, "dim": 2},
    ModCB: {"dims": [1, 2]},
    MisspecificationAdaptive: {"dim": 2, "arms": 6, "rounds": 100},
}


def new(cls: type[Any], **settings: Any) -> Any:
    return cls(**{**REQUIRED.get(cls, {"dim": 2}), **settings})


@pytest.mark.parametrize("cls", WITH_RANGE)
def test_units_that_are_not_stated_are_the_portfolios(cls: type[Any]) -> None:
    learner, stated = new(cls), new(cls, reward_range=(-3.0, 5.0))
    assert learner.reward_range == (0.0, 1.0) and getattr(learner, "noise", 0.5) == 0.5
    assert getattr(stated, "noise", 4.0) == 4.0
    config, text = learner.config(), repr(learner)
    learner.configure(reward_range=(-3.0, 5.0))
    assert learner.reward_range == (-3.0, 5.0) and getattr(learner, "noise", 4.0) == 4.0
    assert learner.config() == config and repr(learner) == text
    assert repr(learner.params) == repr(stated.params)
    if hasattr(learner, "noise") and hasattr(learner, "ellipsoid"):
        assert learner.ellipsoid(learner.noise, 0.1) == stated.ellipsoid(stated.noise, 0.1)
    stated.configure(reward_range=(-3.0, 5.0))
    with pytest.raises(IncompatibleLearner, match=r"reward_range of learner '.*' is \(-3.0, 5.0\).* is \(0.0, 2.0\)"):
        stated.configure(reward_range=(0.0, 2.0))


def test_noise_of_a_portfolio_is_adopted_and_compared() -> None:
    learner = UCB(2)
    learner.configure(reward_range=(0.0, 10.0), noise=2.0)
    assert learner.noise == 2.0 and learner.reward_range == (0.0, 10.0)
    with pytest.raises(IncompatibleLearner, match=r"noise of learner 'UCB' is 0.3, but that of the portfolio is 2.0"):
        UCB(2, noise=0.3).configure(noise=2.0)
    own = UCB(2, noise=0.3)
    own.configure(reward_range=(0.0, 10.0))
    assert own.noise == 0.3 and own.reward_range == (0.0, 10.0)


def test_units_reach_learners_that_ask_for_them() -> None:
    own: Any = type("Own", (), {"decide": lambda self, context: 0, "learn": lambda self, *update: None})()
    AdaptedLearner(own).configure((0.0, 4.0))
    learner = UCB(2)
    AdaptedLearner(learner).configure((0.0, 4.0), 1.5)
    assert (learner.reward_range, learner.noise) == ((0.0, 4.0), 1.5)


def test_noise_of_a_learner_without_a_range_follows_the_portfolio() -> None:
    learner = ALBDim(2)
    learner.configure(reward_range=(0.0, 10.0))
    assert learner.noise == 5.0


def test_learner_that_has_learned_keeps_its_units() -> None:
    learner = UCB(2)
    learner.learn(None, 0, 1.0)
    before = deepcopy(learner)
    with pytest.raises(IncompatibleLearner, match=r"has learned from rewards in other units.*\(0.0, 2.0\)"):
        learner.configure(reward_range=(0.0, 2.0))
    assert learner == before and learner.reward_range == (0.0, 1.0)
    learner.configure(reward_range=(0.0, 1.0))


@pytest.mark.parametrize(
    "wrong", [(1.0, 0.0), (0.0, 0.0), (0.0, float("inf")), (float("nan"), 1.0), 3.0, "01", (0, 1, 2)]
)
def test_impossible_ranges_are_refused_and_change_nothing(wrong: Any) -> None:
    learner = UCB(2)
    with pytest.raises(InvalidArgument, match="reward_range"):
        learner.configure(reward_range=wrong)
    with pytest.raises(InvalidArgument, match="reward_range"):
        UCB(2, reward_range=wrong)
    assert learner == UCB(2) and learner.reward_range == (0.0, 1.0)


def test_adopted_units_are_saved_with_what_was_learned_in_them(tmp_path: Any) -> None:
    learner = OFUL(2)
    learner.configure(reward_range=(0.0, 64.0))
    learner.learn([[1.0, 0.0]], 0, 40.0)
    save(learner, tmp_path / "learner.eqp")
    loaded = load(tmp_path / "learner.eqp")
    assert loaded.reward_range == (0.0, 64.0) and loaded.noise == 32.0
    assert loaded == learner and loaded.decide([[1.0, 0.0]]) == learner.decide([[1.0, 0.0]])
    with pytest.raises(EquipoiseError, match="states its own"):
        OFUL(2, reward_range=(0.0, 1.0)).restore(learner.state())


SHIFTS = st.integers(-64, 64).map(lambda n: n / 8)
FACTORS = st.integers(-6, 10).map(lambda n: 2.0**n)


@pytest.mark.slow
@given(shift=SHIFTS, factor=FACTORS, seed=st.integers(0, 10_000), kind=st.sampled_from(["UCB", "EpsilonGreedy"]))
def test_arm_learners_decide_alike_in_any_unit(shift: float, factor: float, seed: int, kind: str) -> None:
    def make() -> UCB | EpsilonGreedy:
        return UCB(4, scale=0.3) if kind == "UCB" else EpsilonGreedy(4, epsilon=0.2)

    plain, scaled, rng = make(), make(), np.random.default_rng(seed)
    scaled.configure(reward_range=(shift, shift + factor))
    for t in range(60):
        one, other = plain.decide(None, np.random.default_rng(t)), scaled.decide(None, np.random.default_rng(t))
        assert one.action == other.action and one.greedy == other.greedy
        assert other.regret == pytest.approx(factor * one.regret, rel=1e-9, nan_ok=True)
        reward = int(rng.integers(0, 257)) / 256 * (one.action + 1) / 4  # exact sums, so that ties stay ties
        plain.learn(None, one.action, reward)
        scaled.learn(None, one.action, shift + factor * reward)


LINEAR: list[tuple[type[Any], dict[str, Any], tuple[str, ...]]] = [
    (OFUL, {"dim": 4, "misspecification": 0.01}, ("norm_bound", "misspecification")),
    (LinearThompson, {"dim": 4, "scale": 0.3}, ("norm_bound",)),
    (SquareCB, {"dim": 4, "misspecification": 0.01}, ("norm_bound", "misspecification")),
    (ModCB, {"dims": [2, 5]}, ("norm_bound",)),
    (OSOM, {"arms": 6, "dim": 3}, ("norm_bound",)),
    (ALBNorm, {"dim": 4, "arms": 6, "first_epoch": 8}, ("norm_bound",)),
    (ALBDim, {"dim": 4, "first_phase": 9}, ("norm_bound",)),
    (MisspecificationAdaptive, {"dim": 4, "arms": 6, "rounds": 200}, ("norm_bound",)),
]


@pytest.mark.slow
@given(factor=FACTORS, seed=st.integers(0, 10_000), case=st.sampled_from(LINEAR))
def test_linear_learners_decide_alike_in_any_unit(factor: float, seed: int, case: Any) -> None:
    cls, settings, in_units_of_rewards = case
    plain = cls(**settings)
    changed = {name: factor * getattr(plain, name) for name in in_units_of_rewards}
    scaled = cls(**{**settings, **changed})
    scaled.configure(reward_range=(0.0, factor))
    rng = np.random.default_rng(seed)
    for t in range(40):
        context = random_actions(rng)
        one, other = plain.decide(context, np.random.default_rng(t)), scaled.decide(context, np.random.default_rng(t))
        assert one.action == other.action and one.greedy == other.greedy
        assert other.regret == pytest.approx(factor * one.regret, rel=1e-9, nan_ok=True)
        reward = float(rng.random())
        plain.learn(context, one.action, reward)
        scaled.learn(context, one.action, factor * reward)
