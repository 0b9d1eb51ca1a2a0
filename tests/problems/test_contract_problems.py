"""Every registered problem keeps its contract, none escapes the registry, and the suite catches each offender."""

from typing import Any

import numpy as np
import pytest

from equipoise.kernels.marks import NATIVE
from equipoise.problems import PROBLEMS, LinearBandit, SequenceBandit, linear_bandit
from equipoise.problems.base import Kernels
from equipoise.testing import check_problem
from equipoise.testing.problems import CHECKS, with_native_kernels
from tests.problems.subjects import EPISODIC, SUBJECTS


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "settings"), SUBJECTS)
def test_problem_keeps_the_contract(cls: type[Any], settings: dict[str, Any]) -> None:
    assert len(check_problem(lambda: cls(**settings))) == len(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "settings"), EPISODIC)
def test_episodic_problem_keeps_the_contract(cls: type[Any], settings: dict[str, Any]) -> None:
    def policies(problem: Any, context: Any) -> list[Any]:
        shape = (problem.horizon, problem.n_states)
        tables = [problem.optimal_policy, *(np.full(shape, action) for action in range(problem.n_actions))]
        return [tuple(map(tuple, table.tolist())) for table in tables]

    assert len(check_problem(lambda: cls(**settings), policies)) == len(CHECKS) - 3  # matrices and bandit kernels


def test_every_registered_problem_is_checked() -> None:
    assert {cls for cls, _ in (*SUBJECTS, *EPISODIC)} == set(PROBLEMS.values())


class OnTheCircle:
    """A problem of a user's own: no kernels, no matrix as context; an action is an angle, the best one is shown."""

    name = "On the circle"
    reward_range = (-1.0, 1.0)
    noise = 0.5
    iid = True

    def observe(self, rng):
        return float(rng.uniform(0, 2 * np.pi))

    def respond(self, context, action, rng):
        return float(np.cos(action - context) + 0.5 * rng.standard_normal())

    def gap(self, context, action):
        return float(1.0 - np.cos(action - context))

    def config(self):
        return {}


def test_a_problem_without_kernels_and_matrices_passes_what_applies_to_it() -> None:
    proved = check_problem(OnTheCircle, actions=lambda _, context: [context, context + 1.0, context + np.pi])
    assert {check.__name__ for check in CHECKS} - {name.replace(" ", "_") for name in proved} == {
        "bad_actions_are_refused",
        "what_is_compiled_draws_the_same",
        "the_learner_sees_the_actions_that_are_paid",
    }


class Sound(LinearBandit):
    """A problem that passes; each offender below breaks one rule."""

    def __init__(self, d_max: int = 4, d_star: int = 3, n_actions: int = 4, **settings: Any) -> None:
        super().__init__(d_max, d_star, n_actions, **settings)


class Stored(Sound):
    def __init__(self, d_max: int = 4, d_star: int = 3, n_actions: int = 4, **settings: Any) -> None:
        super().__init__(d_max, d_star, n_actions, **{**settings, "contexts": "table", "table_size": 2})


class HasNoRange(Sound):
    reward_range = (0.0, float("inf"))


class SaysTheNoiseWrong(Sound):
    noise: Any = 0.0

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.noise = 0.0


class MeasuresAgainstZero(Sound):
    """Its gap is that to the best conceivable action, which is not on offer."""

    def gap(self, context, action):
        return float(1.0 - self.means(context)[self._offered(action)])


class RewardsBeyondTheRange(Sound):
    def respond(self, context, action, rng):
        return 1.5 * super().respond(context, action, rng)


class RewardsInAnotherType(Sound):
    def respond(self, context, action, rng):
        return np.float32(super().respond(context, action, rng))


class ScalesItsGaps(Sound):
    def gap(self, context, action):
        return 0.5 * super().gap(context, action)


class DrawsFromItsOwnGenerator(Sound):
    common = np.random.default_rng(0)

    def respond(self, context, action, rng):
        return super().respond(context, action, self.common)


class ChangesTheContext(Sound):
    def respond(self, context, action, rng):
        reward = super().respond(context, action, rng)
        context[action, -1] += 0.01
        return reward


class HandsOutItsTable(Stored):
    def observe(self, rng):
        return self.kernels.draw(self.params, self.workspace(), rng)[0]


class GoesOnWhenAsked(SequenceBandit):
    """Its sequence moves with every question, not with every round."""

    def __init__(self, **settings: Any) -> None:
        rows = [[[1.0, 0.5], [0.2, 0.0]], [[0.0, 0.1], [0.3, 0.3]]]
        super().__init__(**{"features": rows, "theta": [0.5, 0.8], **settings})

    def observe(self, rng):
        context = super().observe(rng)
        super().record(0, 0, 0.0)
        return context


class TakesAnyAction(Sound):
    def _offered(self, action):
        return int(action) % self.n_actions if isinstance(action, int | float) else 0


class ForgetsItsSeed(Sound):
    def config(self):
        return {**super().config(), "seed": 0}


class PaysForOtherActions(Sound):
    """The kernel that simulations use turns the actions over."""

    kernels = Kernels(lambda *arguments: tuple(part[::-1] for part in linear_bandit.draw(*arguments)), Sound.kernels[1])

    def observe(self, rng):
        return linear_bandit.draw(self.params, self.workspace(), rng)[0]


OFFENDERS: list[tuple[Any, str]] = [
    (HasNoRange, "says what rewards to expect"),
    (SaysTheNoiseWrong, "says what rewards to expect"),
    (MeasuresAgainstZero, "some offered action has no gap and none a negative one"),
    (RewardsBeyondTheRange, "rewards are finite and keep to the range"),
    (RewardsInAnotherType, "rewards are finite and keep to the range"),
    (ScalesItsGaps, "mean rewards differ by the gaps and lie in the range"),
    (DrawsFromItsOwnGenerator, "the same generator gives the same rounds"),
    (ChangesTheContext, "a round changes neither its context nor later rounds"),
    (HandsOutItsTable, "a round changes neither its context nor later rounds"),
    (GoesOnWhenAsked, "a round changes neither its context nor later rounds"),
    (TakesAnyAction, "bad actions are refused"),
    (lambda: ForgetsItsSeed(seed=3), "config rebuilds an equal problem"),
    (PaysForOtherActions, "the learner sees the actions that are paid"),
]


@pytest.mark.slow
@pytest.mark.parametrize("sound", [Sound, Stored])
def test_the_sound_problems_pass(sound: type[Any]) -> None:
    assert len(check_problem(sound)) == len(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(("offender", "sentence"), OFFENDERS)
def test_the_suite_catches_the_offender(offender: Any, sentence: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_problem(offender)
    assert str(caught.value).startswith(f"check {sentence!r} failed: ")


COMPILED = "what is compiled draws the same"


def another_number(params: Any, workspace: Any, rng: np.random.Generator) -> Any:
    actions, means = linear_bandit.draw(params, workspace, rng)
    means[0] += 1e-9
    return actions, means


def one_draw_more(params: Any, workspace: Any, rng: np.random.Generator) -> Any:
    drawn = linear_bandit.draw(params, workspace, rng)
    rng.random()
    return drawn


def another_order(params: Any, workspace: Any, rng: np.random.Generator) -> Any:
    actions, means = linear_bandit.draw(params, workspace, rng)
    return actions[::-1].copy(), means


FAULTY = {"another number": another_number, "one draw more": one_draw_more, "another order": another_order}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTY)
def test_the_suite_catches_a_twin_that_differs(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setitem(NATIVE, linear_bandit.draw, FAULTY[fault])
    with pytest.raises(AssertionError, match=f"^check '{COMPILED}' failed: "):
        check_problem(Sound)


def test_native_twins_are_put_in_place() -> None:
    """Of a kernel that calls others and of one that has a twin itself; the module keeps its own."""
    native = NATIVE[linear_bandit.shape_actions].__code__
    inside = with_native_kernels(linear_bandit.draw).__globals__["fill_actions"].__globals__
    assert inside["shape_actions"].__code__ is native
    assert with_native_kernels(linear_bandit.shape_actions).__code__ is native
    assert linear_bandit.draw.__globals__["shape_actions"] is linear_bandit.shape_actions


def test_every_check_has_its_offender() -> None:
    sentences = {COMPILED, *(sentence for _, sentence in OFFENDERS)}
    assert {sentence.replace(" ", "_") for sentence in sentences} == {check.__name__ for check in CHECKS}
