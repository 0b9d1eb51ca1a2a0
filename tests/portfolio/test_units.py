"""The range of rewards is said once, at the portfolio; decisions do not depend on the unit."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features import Columns, CustomFeatures, Prefix
from equipoise.learners import OFUL, UCB, Constant, DisjointOFUL, EpsilonGreedy, LinearThompson, SquareCB
from equipoise.portfolio.warm_start import LoggedRound
from equipoise.selectors import EXP3, UCB1, BalancedElimination, CounterfactualBalancing, RealizedBalancing, Uniform
from tests.outside.own_selector import TurnsThenBest
from tests.recorders import Recorder

ARMS = 3


def arms() -> list[Any]:
    return [UCB(ARMS), EpsilonGreedy(ARMS, epsilon=0.1), UCB(ARMS, scale=0.2)]


def linear() -> list[Any]:
    return [OFUL(2), LinearThompson(3), SquareCB(3, scale=5.0)]


def optimistic() -> list[Any]:
    return [OFUL(1), OFUL(2), DisjointOFUL(3, arms=ARMS)]


def balanced(unit: float) -> Any:
    return BalancedElimination([Power(unit), Power(2 * unit), Power(3 * unit)])


def observed(_: float) -> Any:
    return BalancedElimination([Observed(), Observed(), Observed()])


SELECTORS = {
    "balanced": balanced,
    "observed": observed,
    "realized": lambda _: RealizedBalancing(3),
    "bernstein": lambda _: RealizedBalancing(3, radius="bernstein"),
    "UCB1": lambda _: UCB1(3),
    "counterfactual": lambda _: CounterfactualBalancing(3),
    "EXP3": lambda _: EXP3(3),
    "uniform": lambda _: Uniform(3),
}


def contexts(seed: int, rounds: int) -> Any:
    """Offers of norm at most 1, in steps of 1/8, so that means are exact."""
    rng = np.random.default_rng(seed)
    return rng.integers(-4, 5, (rounds, ARMS, 3)) / 8.0


def play(portfolio: Portfolio, seed: int, rounds: int, low: float, unit: float) -> list[tuple[Any, Any]]:
    """Decisions; rewards are low + unit r with r in eighths, so that units that are powers of two are exact."""
    rng, seen = np.random.default_rng(seed + 1), []
    for context in contexts(seed, rounds):
        decision = portfolio.decide(context)
        seen.append((decision.learner, decision.action))
        share = int(rng.integers(0, 8)) + int(context[decision.action, 0] > 0)
        portfolio.learn(decision, low + unit * share / 8)
    return seen


OF_OPTIMISTS = "observed"  # a selector for learners with an observed regret
POOLS = [(pool, name) for pool in (arms, linear) for name in SELECTORS if name != OF_OPTIMISTS]
POOLS += [(optimistic, OF_OPTIMISTS)]


@settings(max_examples=25)
@given(
    pool=st.sampled_from(POOLS),
    exponent=st.integers(-12, 12),
    steps=st.integers(-32, 32),
    seed=st.integers(0, 99),
)
def test_decisions_do_not_depend_on_the_unit(pool: Any, exponent: int, steps: int, seed: int) -> None:
    (learners, name), unit, low = pool, 2.0**exponent, steps * 2.0**exponent
    plain = Portfolio(learners(), SELECTORS[name](1.0))
    scaled = Portfolio(learners(), SELECTORS[name](unit), reward_range=(low, low + unit))
    assert play(plain, seed, 60, 0.0, 1.0) == play(scaled, seed, 60, low, unit)
    assert_scaled(plain, scaled, low, unit)


@pytest.mark.parametrize("share_data", [True, False])
@pytest.mark.parametrize("shift", [0.0, 96.0])
def test_all_that_happens_to_rewards_is_in_the_unit_of_the_portfolio(
    share_data: bool, shift: float, tmp_path: Path
) -> None:
    """A log to start with, rewards that are clipped, late, or missing with a default, and a file in mid run."""

    def choices(low: float, width: float) -> list[tuple[Any, Any]]:
        rng, made = np.random.default_rng(4), list[tuple[Any, Any]]()
        portfolio = Portfolio(
            [*linear(), UCB(ARMS)],
            reward_range=(low, low + width),
            share_data=share_data,
            clip=True,
            deadline=5,
            default_reward=low + width / 4,
            seed=2,
        )
        offered = contexts(9, 100)
        logged = [LoggedRound(offered[t], t % ARMS, low + width * (t % 3) / 2, 1 / ARMS) for t in range(20)]
        portfolio.warm_start(logged)
        waiting: list[Any] = []
        for t in range(20, 100):
            decision = portfolio.decide(offered[t])
            made.append((decision.learner, decision.action))
            share = int(rng.integers(-1, 10)) / 8  # sometimes outside of the range
            waiting.append((decision, low + width * share))
            if t % 4 == 3:  # of four decisions one is never rewarded
                for late, reward in waiting[1:]:
                    portfolio.learn(late, reward)
                waiting.clear()
            if t == 60:
                portfolio.save(tmp_path / "file")
                portfolio = Portfolio.load(tmp_path / "file")
        assert portfolio.health()["clipped"] > 0
        return made

    assert choices(0.0, 1.0) == choices(shift, 128.0)


def assert_scaled(plain: Portfolio, scaled: Portfolio, low: float, unit: float) -> None:
    one, other = plain.certificate(), scaled.certificate()
    tolerance: dict[str, Any] = {"rel": 1e-9, "abs": 1e-9 * unit * 33}
    for name in ("regret_lower", "regret_upper"):
        assert getattr(other, name) == pytest.approx(unit * getattr(one, name), **tolerance)
    for name in ("optimum_lower", "optimum_upper"):
        assert getattr(other, name) == pytest.approx(low + unit * getattr(one, name), **tolerance)
    for row, scaled_row in zip(plain.standing(), scaled.standing(), strict=True):
        assert scaled_row.mean_radius == pytest.approx(unit * row.mean_radius, nan_ok=True, **tolerance)
    assert len(scaled.selector.eliminations) == len(plain.selector.eliminations)


def test_units_matter_if_they_are_not_stated() -> None:
    """Negative control: without the range, rewards in other units are refused, or change the decisions."""
    with pytest.raises(InvalidArgument, match=r"reward is 4.0, but must lie in reward_range \(0, 1\)"):
        play(Portfolio(arms()), 0, 60, 0.0, 8.0)
    plain, narrow = Portfolio(arms()), Portfolio(arms(), reward_range=(0.0, 1.0))
    wide = Portfolio(arms(), reward_range=(0.0, 8.0))
    assert play(plain, 0, 200, 0.0, 1.0) == play(narrow, 0, 200, 0.0, 1.0) != play(wide, 0, 200, 0.0, 1.0)


def test_the_range_of_the_selector_is_the_portfolios_if_that_states_none() -> None:
    learner = UCB(3)
    portfolio = Portfolio([learner, UCB(3)], Uniform(2, reward_range=(0, 100)))
    assert portfolio.reward_range == learner.reward_range == (0.0, 100.0) and learner.noise == 50.0
    assert Portfolio([UCB(3)]).reward_range == (0.0, 1.0)


def test_the_noise_of_the_selector_is_that_of_learners_that_state_none() -> None:
    adopting, own = UCB(3), UCB(3, noise=0.1)
    Portfolio([adopting, own], Uniform(2, noise=2.0))
    assert (adopting.noise, own.noise) == (2.0, 0.1)


def test_different_ranges_are_refused_with_both_and_nothing_is_changed() -> None:
    selector, first = Uniform(2), UCB(3)
    with pytest.raises(IncompatibleLearner, match=r"learner 'UCB' is \(0.0, 100.0\), .* portfolio is \(0.0, 5.0\)"):
        Portfolio([first, UCB(3, reward_range=(0, 100))], selector, reward_range=(0, 5))
    assert selector.reward_range == first.reward_range == (0.0, 1.0)
    with pytest.raises(InvalidArgument, match=r"selector 'Uniform.*' is \(0.0, 9.0\), .* portfolio is \(0.0, 5.0\)"):
        Portfolio([first, UCB(3)], Uniform(2, reward_range=(0, 9)), reward_range=(0, 5))
    with pytest.raises(
        IncompatibleLearner, match=r"'UCB' is \(0.0, 100.0\), but that of the portfolio is \(0.0, 1.0\)"
    ):
        Portfolio([UCB(3, reward_range=(0, 100))])
    with pytest.raises(InvalidArgument, match="seed"):
        Portfolio([first, UCB(3)], selector, reward_range=(0, 5), seed=-1)
    assert selector.reward_range == first.reward_range == (0.0, 1.0)
    Portfolio([first, UCB(3)], selector, reward_range=(0, 5))
    assert selector.reward_range == first.reward_range == (0.0, 5.0)


@pytest.mark.parametrize(
    ("reward_range", "rule"),
    [
        ((1.0, 0.0), "must have low < high"),
        ((2.0, 2.0), "must have low < high"),
        ((0.0, float("inf")), "must be a finite number"),
        ((0.0,), r"must be a pair \(low, high\)"),
        ("01", r"must be a pair \(low, high\)"),
    ],
)
def test_bad_ranges_are_refused_in_one_line(reward_range: Any, rule: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^reward_range.*{rule}") as caught:
        Portfolio([UCB(3)], reward_range=reward_range)
    assert "\n" not in str(caught.value)


def test_learners_that_join_later_adopt_the_range() -> None:
    portfolio, late = Portfolio([UCB(3)], reward_range=(0, 8)), UCB(3)
    portfolio.add_learner(late)
    assert late.reward_range == (0.0, 8.0)
    with pytest.raises(IncompatibleLearner, match="portfolio is"):
        portfolio.add_learner(UCB(3, reward_range=(0, 2)))
    assert len(portfolio.learners) == len(portfolio.standing()) == 2


def test_adopted_units_are_saved(tmp_path: Path) -> None:
    portfolio = Portfolio(arms(), balanced(8.0), reward_range=(-4, 4))
    play(portfolio, 3, 40, -4.0, 8.0)
    portfolio.save(tmp_path / "file")
    loaded = Portfolio.load(tmp_path / "file")
    assert loaded.reward_range == loaded.selector.reward_range == loaded.learners[0].reward_range == (-4.0, 4.0)
    assert play(loaded, 5, 40, -4.0, 8.0) == play(portfolio, 5, 40, -4.0, 8.0)
    assert loaded.to_json() == portfolio.to_json()


def own() -> Any:
    """A selector of a user: without a range and without configure()."""
    return TurnsThenBest(2)


def test_a_selector_without_a_range_leaves_checking_to_the_portfolio() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], own(), reward_range=(-2, 2))
    with pytest.raises(InvalidArgument, match=r"reward is 3.0, but must lie in reward_range \(-2, 2\)"):
        portfolio.learn(portfolio.decide(None), 3.0)
    with pytest.raises(InvalidArgument, match="neither portfolio nor selector has a reward_range"):
        Portfolio([Constant(0), Constant(1)], own(), clip=True)


def test_rewards_outside_of_the_range_are_refused_and_change_nothing() -> None:
    recorder = Recorder()
    portfolio = Portfolio([recorder, Recorder()], reward_range=(-2, 2))
    decision = portfolio.decide(None)
    with pytest.raises(InvalidArgument, match=r"reward is 2.5, but must lie in reward_range \(-2, 2\)"):
        portfolio.learn(decision, 2.5)
    assert portfolio.pending == (decision.id,)
    portfolio.learn(decision, -2.0)


def test_clipped_rewards_are_counted_and_named() -> None:
    portfolio = Portfolio([Constant(0), Constant(1)], Uniform(2), reward_range=(0, 10), clip=True)
    events: list[Any] = []
    portfolio.on_event(events.append)
    for reward in (3.0, -1.0, 50.0, 10.0):
        portfolio.learn(portfolio.decide(None), reward)
    assert portfolio.health()["clipped"] == 2
    assert [event.data["reward"] for event in events if event.kind == "rewarded"] == [3.0, 0.0, 10.0, 10.0]
    assert "All of this is about rewards clipped to [0, 10]; so far 2 were outside." in portfolio.describe()
    twin = Portfolio([Constant(0), Constant(1)], Uniform(2), reward_range=(0, 10), clip=True)
    for event in events:
        twin.apply(event)
    assert twin.to_json() == portfolio.to_json() and twin.health()["clipped"] == 2
    with pytest.raises(InvalidArgument, match="reward is nan"):
        portfolio.learn(portfolio.decide(None), float("nan"))


def test_sums_are_clipped_as_a_whole() -> None:
    options: dict[str, Any] = {"deadline": 1, "default_reward": 0.0, "aggregate": "sum"}
    portfolio = Portfolio([Constant(0)], Uniform(1), reward_range=(0, 10), clip=True, **options)
    decision = portfolio.decide(None)
    for key, reward in (("a", 14.0), ("b", -2.0), ("c", -3.0)):
        portfolio.learn(decision, reward, key=key)
    portfolio.decide(None)
    portfolio.decide(None)
    assert portfolio.standing()[0].mean_reward == 9.0 and portfolio.health()["clipped"] == 0


def test_clip_needs_a_range_of_rewards() -> None:
    with pytest.raises(InvalidArgument, match=r"clip is True, but the selector states noise = 0\.5"):
        Portfolio([Constant(0)], Uniform(1, noise=0.5), clip=True)
    with pytest.raises(InvalidArgument, match="clip is 'yes', but must be True or False"):
        Portfolio([Constant(0)], clip="yes")  # type: ignore[arg-type]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_an_oversized_range_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    wide = Portfolio([Constant(0)], Uniform(1), reward_range=(0, 1000))
    for t in range(3_000):
        wide.learn(wide.decide(None), t % 2)
    (warning,) = warnings_of(caplog)
    assert "rewards so far lie in [0, 1], less than a thousandth of reward_range (0, 1000)" in warning
    assert "about 1e+06 times as many plays" in warning
    caplog.clear()
    rare, fitting = Portfolio([Constant(0)], Uniform(1)), Portfolio([Constant(0)], Uniform(1), reward_range=(0, 900))
    for t in range(3_000):
        rare.learn(rare.decide(None), 0.0)  # nobody has clicked yet: that says nothing about the scale
        fitting.learn(fitting.decide(None), t % 2)
    assert warnings_of(caplog) == []


def test_columns_that_no_learner_uses_are_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    context = np.zeros((2, 5))
    narrow = Portfolio([OFUL(2), OFUL(features=Columns([3])), UCB(2)])
    wide, unknown = Portfolio([OFUL(2), OFUL(5)]), Portfolio([OFUL(2), Recorder()])
    for portfolio in (narrow, narrow, wide, unknown, Portfolio([UCB(2)])):
        portfolio.learn(portfolio.decide(context), 0.5)
    assert warnings_of(caplog) == ["no learner uses more than the first 4 of the 5 columns of the context"]


def test_a_map_of_five_learners_is_computed_once_per_round() -> None:
    calls = []

    def squares(actions: Any, shared: Any) -> Any:
        calls.append(1)
        return actions**2

    squared = CustomFeatures(squares, dim=3, name="squares")
    learners = [OFUL(features=squared, scale=scale) for scale in (0.1, 0.2, 0.5, 1.0, 2.0)]
    portfolio = Portfolio(learners, Uniform(5), share_data=True)
    for t, context in enumerate(contexts(0, 30)):
        decision = portfolio.decide(context, propensity=True)
        portfolio.learn(decision, 0.5)
        assert len(calls) == t + 1


def test_learners_without_a_map_see_what_was_given() -> None:
    recorder, context = Recorder(), np.full((2, 3), 0.5)
    portfolio = Portfolio([recorder, OFUL(features=Prefix(2))], Uniform(2), seed=1)
    for _ in range(8):
        portfolio.learn(portfolio.decide(context), 0.5)
    assert recorder.updates and all(type(update[0]) is np.ndarray for update in recorder.updates)
    alone = Portfolio([Recorder(), OFUL(2)], Uniform(2), seed=1)
    for _ in range(8):
        alone.learn(alone.decide(context), 0.5)
    assert alone.to_json()["certificate"] == portfolio.to_json()["certificate"]


def test_a_first_context_with_too_few_columns_is_refused_and_so_is_a_later_one_by_its_learner() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(features=Columns([0, 5]), name="wide")])
    with pytest.raises(InvalidArgument, match="context has 2 columns, but must have at least 6 for learner 'wide'"):
        portfolio.decide(np.zeros((3, 2)))
    assert portfolio.health()["rounds"] == 0 and not portfolio.pending
    portfolio.learn(portfolio.decide(np.zeros((3, 6))), 0.5)
    for _ in range(10):
        portfolio.learn(portfolio.decide(np.zeros((3, 2))), 0.5)
    refused = {row["name"]: row["refused"] for row in portfolio.health()["learners"]}
    assert refused["OFUL(d=2)"] == 0 < refused["wide"]
