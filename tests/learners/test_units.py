"""Range and noise of learners: the portfolio's where they are not stated, decisions that do not depend on the unit."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from equipoise.errors import EquipoiseError, IncompatibleLearner, InvalidArgument
from equipoise.lab.rivals import OSOM, MisspecificationAdaptive, ModCB
from equipoise.learner import AdaptedLearner
from equipoise.learners import LEARNERS, OFUL, UCB, DisjointOFUL, Scheduled
from equipoise.settings import equal_data, settings_of
from equipoise.storage.parts import load, save
from equipoise.testing.learners import ContextSource, random_actions
from tests.episodes import random_trajectory, start_state
from tests.learners.subjects import EPISODIC, SUBJECTS
from tests.units import UNITS, Unit, differences, in_unit

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


IN_UNITS_OF_REWARDS = ("noise", "norm_bound", "misspecification")  # settings
# Learners of which a number does not follow the rewards, with the reason.
STATED = {Scheduled: "its regret is a setting, whatever the rewards"}


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize(("cls", "settings", "contexts"), SUBJECTS)
def test_learners_decide_alike_in_any_unit(
    cls: type[Any], settings: dict[str, Any], contexts: ContextSource, unit: Unit
) -> None:
    """All registered learners, of which `tests.learners.subjects` has settings (tested there to be complete)."""
    plain, other = in_unit(lambda **more: cls(**{**settings, **more}), unit, IN_UNITS_OF_REWARDS)
    found = differences(plain, other, unit, contexts)
    assert [words for words in found if cls not in STATED or "regret" not in words] == []
    assert bool(found) == (cls in STATED)


@pytest.mark.parametrize(("cls", "settings"), EPISODIC)
def test_learners_of_episodes_do_not_read_the_return(cls: type[Any], settings: dict[str, Any]) -> None:
    """They learn from the rewards of steps, which lie in [0, 1] in any unit of the return."""
    rng = np.random.default_rng(8)
    plain, other = cls(**settings), cls(**settings)
    other.configure(reward_range=(100.0, 220.0))
    for _ in range(12):
        start = start_state(rng)
        one, two = plain.decide(start), other.decide(start)
        assert np.array_equal(one.action, two.action) and equal_data(one.regret, two.regret)
        trajectory = random_trajectory(start, one.action, rng)
        plain.learn(start, trajectory, 0.5)
        other.learn(start, trajectory, 160.0)


class WithoutOrigin(OFUL):
    """Measures rewards from 0, whatever their range."""

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        super().learn(context, action, reward + self.reward_range[0], weight)


class WithFixedNorm(OFUL):
    """Keeps the norm bound of the unit (0, 1)."""

    def _set_up(self) -> None:
        super()._set_up()
        self.params = self.params._replace(ellipsoid=self.params.ellipsoid._replace(bias=1.0))


@pytest.mark.parametrize("cls", [WithoutOrigin, WithFixedNorm])
def test_a_learner_of_one_unit_is_caught(cls: type[OFUL]) -> None:
    """Negative control."""
    plain, other = in_unit(lambda **more: cls(3, **more), Unit(120.0, 100.0))
    assert differences(plain, other, Unit(120.0, 100.0), random_actions)


def test_the_default_norm_bound_is_the_width_of_the_range() -> None:
    learner = OFUL(2)
    learner.configure(reward_range=(100.0, 220.0))
    assert learner.norm_bound == learner.model_class().norm_bound == 120.0
    assert learner.config()["norm_bound"] is None
    assert OFUL(2, norm_bound=5.0, reward_range=(100.0, 220.0)).norm_bound == 5.0


def test_the_first_rounds_are_not_spent_on_the_offset() -> None:
    """Of two actions that differ by a third of the range, the better one is found in (100, 220) as in (0, 1)."""
    context = np.array([[0.8, 0.1], [0.1, 0.8]])

    def wrong(cls: type[OFUL], low: float, high: float) -> int:
        learner, rng, n_wrong = cls(2, reward_range=(low, high), scale=0.3), np.random.default_rng(2), 0
        for _ in range(200):
            action = learner.decide(context).action
            n_wrong += action != 1
            learner.learn(context, action, low + (high - low) * float(rng.random() < (0.3, 0.6)[action]))
        return n_wrong

    assert wrong(OFUL, 0.0, 1.0) == wrong(OFUL, 0.0, 120.0) == wrong(OFUL, 100.0, 220.0) == 8
    assert wrong(WithoutOrigin, 100.0, 220.0) == 200  # negative control
