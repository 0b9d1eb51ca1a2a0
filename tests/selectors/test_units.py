"""Range and noise of selectors: the portfolio's where they are not stated, saved with the state."""

from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from equipoise.bounds import Custom, LinearSqrt, Power, SqrtLog
from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import RIVAL_SELECTORS
from equipoise.learners._core.linear_class import LinearClass
from equipoise.selectors import SELECTORS, AdversarialElimination, BalancedElimination, Corral, EpochBalancing, Uniform
from equipoise.settings import equal_data
from equipoise.testing.selectors import Subject, credit, open_round
from tests.selectors.subjects import REBUILDING, SUBJECTS
from tests.units import Unit

BY_CLASSES = {AdversarialElimination, EpochBalancing}  # their range is that of their model classes


def maker(cls: Any, learners: Any, settings: dict[str, Any]) -> Any:
    return partial(cls, learners, **settings)


MAKERS: dict[str, Any] = {
    f"{cls.__name__}-{k}": maker(cls, learners, {n: v for n, v in settings.items() if n != "reward_range"})
    for k, (cls, learners, settings, left_out) in enumerate(SUBJECTS)
    if REBUILDING not in left_out and cls not in BY_CLASSES
}


def play(selector: Any, rounds: int, low: float, width: float) -> list[int]:
    chosen = []
    for t in range(rounds):
        choice = selector.choose()
        chosen.append(choice.learner)
        selector.credit(choice, low + width * ((7 * t + 3 * choice.learner) % 11) / 11)
    return chosen


def test_selectors_take_the_range_of_their_portfolio() -> None:
    covered = {type(make()) for make in MAKERS.values()}
    assert covered == {*SELECTORS.values(), *RIVAL_SELECTORS.values()} - BY_CLASSES


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_adopted_units_equal_stated_ones_and_survive_saving(make: Any) -> None:
    selector = make()
    config, text = selector.config(), repr(selector)
    stated = type(selector).from_config({**config, "reward_range": [-3.0, 5.0]})
    selector.configure(reward_range=(-3.0, 5.0))
    assert selector.reward_range == stated.reward_range == (-3.0, 5.0)
    assert equal_data(selector.params, stated.params) and selector.confidence == stated.confidence
    assert selector.config() == config and repr(selector) == text
    successor = make()
    successor.restore(selector.state())
    assert successor.reward_range == (-3.0, 5.0) and successor == selector
    successor.restore(make().state())
    assert successor.reward_range == (0.0, 1.0) and successor == make()
    with pytest.raises(InvalidArgument, match=r"units of \['reward_range'\], but selector .* states its own"):
        stated.restore(selector.state())


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_stated_units_are_compared(make: Any) -> None:
    stated = type(make()).from_config({**make().config(), "reward_range": [-3.0, 5.0]})
    stated.configure(reward_range=(-3.0, 5.0))
    with pytest.raises(InvalidArgument, match=r"reward_range of selector .* is \(-3.0, 5.0\), .* is \(0.0, 2.0\)"):
        stated.configure(reward_range=(0.0, 2.0))
    assert stated.reward_range == (-3.0, 5.0)


def test_adopted_range_scales_decisions_and_certificates() -> None:
    bounds = [Power(0.5), Power(1.0), Power(2.0)]
    plain, scaled = BalancedElimination(bounds), BalancedElimination([Power(8 * c.coefficient) for c in bounds])
    scaled.configure(reward_range=(-4.0, 4.0))
    assert play(plain, 300, 0.0, 1.0) == play(scaled, 300, -4.0, 8.0)
    assert scaled.certificate().regret_upper == pytest.approx(8 * plain.certificate().regret_upper, rel=1e-12)


def in_unit(stated: Any, unit: Unit) -> Any:
    """A bound, a class or a number that is stated in units of rewards, in another unit."""
    match stated:
        case Power(coefficient, exponent):
            return Power(unit.factor * coefficient, exponent)
        case SqrtLog(coefficient, delta):
            return SqrtLog(unit.factor * coefficient, delta)
        case LinearSqrt(slope, coefficient):
            return LinearSqrt(unit.factor * slope, unit.factor * coefficient)
        case Custom():
            return Custom(lambda n: unit.factor * stated.function(n), stated.name)
        case LinearClass():
            sizes = {name: unit.factor * getattr(stated, name) for name in ("norm_bound", "noise", "misspecification")}
            low, high = stated.reward_range
            return stated._replace(reward_range=(unit.of(low), unit.of(high)), **sizes)
        case list() | tuple():
            return [in_unit(each, unit) for each in stated]
        case float():
            return unit.factor * stated
    return stated


IN_UNITS_OF_REWARDS = ("noise", "biases", "bounds")  # settings


@pytest.mark.parametrize("unit", [Unit(128.0, 0.0), Unit(128.0, 96.0), Unit(2.0, -1.0), Unit(2.0**-7, -1.0)], ids=str)
@pytest.mark.parametrize(("cls", "learners", "settings", "left_out"), SUBJECTS)
def test_selectors_choose_alike_in_any_unit(
    cls: Any, learners: Any, settings: dict[str, Any], left_out: Any, unit: Unit
) -> None:
    """All registered selectors and rivals. Factors are powers of two: equal bounds stay equal, and so do ties."""
    plain = cls(learners, **settings)
    low, high = plain.reward_range
    stated = {name: in_unit(settings[name], unit) for name in IN_UNITS_OF_REWARDS if name in settings}
    other = cls(in_unit(learners, unit), **{**settings, **stated, "reward_range": (unit.of(low), unit.of(high))})
    subjects = [Subject(partial(deepcopy, selector), tuple(range(9))) for selector in (plain, other)]
    for t in range(200):
        one, two = (open_round(*pair, t) for pair in zip(subjects, (plain, other), strict=True))
        assert (one.learner, one.play, one.greedy) == (two.learner, two.play, two.greedy)
        assert two.probability == pytest.approx(one.probability, rel=1e-9)
        eliminated = [credit(*each) for each in zip(subjects, (plain, other), (one, two), strict=True)]
        assert len(eliminated[0]) == len(eliminated[1])


def test_noise_is_adopted_unless_rewards_must_be_bounded() -> None:
    selector = Uniform(2)
    selector.configure(reward_range=(0.0, 4.0), noise=1.5)
    assert (selector.noise, selector.confidence.noise, selector.reward_range) == (1.5, 1.5, (0.0, 4.0))
    successor = Uniform(2)
    successor.restore(selector.state())
    assert successor.noise == 1.5
    with pytest.raises(InvalidArgument, match=r"noise is 1.5, but rewards of Corral must be bounded"):
        Corral(2, rounds=10).configure(noise=1.5)
    with pytest.raises(InvalidArgument, match=r"noise of selector 'Uniform' is 0.2, but that of the portfolio is 1.5"):
        Uniform(2, noise=0.2).configure(noise=1.5)


def test_units_come_before_the_first_play() -> None:
    selector = Uniform(2)
    play(selector, 3, 0.0, 1.0)
    with pytest.raises(InvalidArgument, match=r"configure\(\) came after 3 rounds"):
        selector.configure(reward_range=(0.0, 2.0))
    with pytest.raises(InvalidArgument, match=r"has made 3 rounds in other units"):
        selector.check_units(reward_range=(0.0, 2.0))
