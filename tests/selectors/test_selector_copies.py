"""Selectors that are copied, pickled or replayed from a log: each goes on as the original would have, and alone."""

import copy
import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.bounds import Power
from equipoise.errors import InvalidArgument
from equipoise.lab.rivals import UCBC, StochasticCorral, StochasticEXP3P
from equipoise.learner import Proposal
from equipoise.selector import Choice, SelectorTraits
from equipoise.selectors import SELECTORS, AdversarialElimination, BalancedElimination, EpochBalancing, Oracle
from tests.selectors.subjects import CLASSES, REPLAYING, SUBJECTS, UNSPACED


class Event(NamedTuple):
    """What happened to a selector; `reward` is nan if the round was withdrawn."""

    kind: str
    choice: Choice
    proposals: dict[int, Proposal] = {}  # noqa: RUF012 - never changed
    reward: float = np.nan


def history(selector: Any, rng: np.random.Generator, n_rounds: int) -> Iterator[Event]:
    """Random rounds: rewards come late and in any order, some rounds are withdrawn, some stay open."""
    waiting: list[Choice] = []
    low, high = selector.reward_range
    for _ in range(n_rounds):
        choice = selector.choose()
        yield Event("chosen", choice)
        asked = sorted({choice.learner, *selector.active})
        yield Event("observed", choice, {i: Proposal(0, low, (high - low) * rng.random() / 5, greedy=0) for i in asked})
        waiting.append(choice)
        if rng.random() < 0.1:
            yield Event("withdrawn", waiting.pop(int(rng.integers(len(waiting)))))
        while waiting and rng.random() < 0.55:
            good = waiting[0].learner % 2 == 0
            choice = waiting.pop(int(rng.integers(len(waiting))))
            yield Event("credited", choice, reward=low + (high - low) * (0.8 * good + 0.2 * rng.random()))


def apply(selector: Any, event: Event) -> tuple[Any, ...]:
    """Let a selector know; returns what it eliminated. Whoever makes the history has chosen already."""
    if event.kind == "observed":
        selector.observe(event.choice, event.proposals)
    elif event.kind == "withdrawn":
        return selector.withdraw(event.choice)
    elif event.kind == "credited":
        return selector.credit(event.choice, event.reward)
    return ()


def run(selector: Any, seed: int, n_rounds: int = 150) -> list[Event]:
    """Play a random history and return it."""
    events, eliminated = [], list(selector.eliminations)
    for event in history(selector, np.random.default_rng(seed), n_rounds):
        eliminated += apply(selector, event)
        events.append(event)
    assert eliminated == selector.eliminations
    return events


def require_unchanged(selector: Any, before: dict[str, Any]) -> None:
    now = selector.state()
    assert now.keys() == before.keys()
    for name, array in now.items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


def require_equal(one: Any, other: Any) -> None:
    require_unchanged(one, other.state())
    assert one.eliminations == other.eliminations
    assert str(one.standing()) == str(other.standing())


@pytest.mark.slow
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda selector: pickle.loads(pickle.dumps(selector))])
@pytest.mark.parametrize(("cls", "learners", "options", "left_out"), SUBJECTS)
def test_a_copy_in_mid_run_is_alone_and_goes_on_alike(
    cls: Any, learners: Any, options: dict[str, Any], left_out: Any, duplicate: Any
) -> None:
    selector = cls(learners, **options)
    run(selector, 1)
    before = selector.state()
    twin = duplicate(selector)
    require_equal(selector, twin)
    later = run(twin, 2)
    require_unchanged(selector, before)
    assert run(selector, 2) == later
    require_equal(selector, twin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cls", "learners", "options"), [subject[:3] for subject in SUBJECTS if REPLAYING not in subject[3]]
)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_replayed_history_leads_to_the_same_selector(
    cls: Any, learners: Any, options: dict[str, Any], seed: int
) -> None:
    selector, follower = cls(learners, **options), cls(learners, **options)
    for event in run(selector, seed):
        if event.kind == "chosen":
            follower.replay(event.choice)
        apply(follower, event)
    require_equal(selector, follower)
    assert run(follower, seed + 1, 30) == run(selector, seed + 1, 30)
    require_equal(selector, follower)


def test_what_cannot_be_replayed_is_refused_and_changes_nothing() -> None:
    selector = BalancedElimination([Power(0.1), Power(0.2)])
    before = selector.state()
    for choice, message in (
        (Choice(2, 1, 1.0), "learner is 2, but must be from 0 to 1"),
        (Choice(-1, 1, 1.0), "learner is -1, but must be from 0 to 1"),
        (Choice(0, 2, 1.0), "play of learner 0 is 2, but its next is 1"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            selector.replay(choice)
    require_unchanged(selector, before)


@pytest.mark.parametrize("cls", [StochasticCorral, StochasticEXP3P])
def test_a_choice_that_does_not_name_its_policy_cannot_be_replayed(cls: Any) -> None:
    selector = cls(2, rounds=100)
    before = selector.state()
    with pytest.raises(InvalidArgument, match="cannot replay it: it does not say which policy plays"):
        selector.replay(Choice(0, 1, 0.5))
    require_unchanged(selector, before)


@pytest.mark.parametrize("cls", [StochasticCorral, StochasticEXP3P])
def test_a_policy_is_kept_under_its_number_and_forgotten_with_its_round(cls: Any) -> None:
    """However many rounds are taken back, newest first, and over saving: the numbers are as before them."""
    selector = cls(3, rounds=200, seed=3)
    run(selector, 5, 40)
    numbers = [(row.updates, row.kept) for row in selector.kernel_state.policies]
    if selector.kernel_state.turn[0].learner >= 0:
        selector.choose()
    choices = [selector.choose() for _ in range(4)]
    again = cls.from_config(selector.config())
    again.restore(selector.state())
    for choice in reversed(choices):
        again.withdraw(choice)
    assert [(row.updates, row.kept) for row in again.kernel_state.policies] == numbers


@pytest.mark.parametrize(("cls", "learners", "options", "left_out"), SUBJECTS)
def test_equality_clone_and_config_follow_from_the_settings(
    cls: Any, learners: Any, options: dict[str, Any], left_out: Any
) -> None:
    selector = cls(learners, **options)
    assert selector.clone() == selector == cls(learners, **options)
    assert cls(learners, **{**options, "delta": 0.012}) != selector
    assert cls.__name__ in repr(selector)
    run(selector, 3, 5)
    assert selector != selector.clone()


def test_traits_say_what_others_read() -> None:
    assert {cls(learners, **options).traits.n_learners for cls, learners, options, _ in SUBJECTS} == {2, 3, 4, 5, 6}
    assert BalancedElimination([Power(1.0)]).traits == SelectorTraits(
        n_learners=1, randomized=False, reward_range=(0.0, 1.0)
    )
    assert UCBC([Power(1.0)], rounds=9, copies=2).traits.copies == 2
    assert Oracle(3, best=1).traits.excluded == (0, 2)
    assert EpochBalancing(CLASSES).traits.classes == tuple(CLASSES)
    assert AdversarialElimination(UNSPACED).traits.excluded == (3,)
    assert [name for name, cls in SELECTORS.items() if cls.readmits] == ["DynamicBalancing"]
    assert SelectorTraits().n_learners is None
