"""What rows of experts and pairs keep to save time is, after any history, what it would be if it were computed anew."""

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.learner import Proposal
from equipoise.selectors import CounterfactualBalancing, counterfactual_balancing
from equipoise.selectors._core import pairs

POOLS: list[dict[str, Any]] = [
    {"n_learners": 3, "learning": ["all"] * 3, "greedy_experts": [0, 1, 2]},
    {"n_learners": 3, "learning": ["agreed", "own", "all"], "greedy_experts": [0, 2], "reward_range": (-2.0, 6.0)},
    {
        "n_learners": 4,
        "learning": ["all"] * 4,
        "greedy_experts": [0, 1, 2, 3],
        "many": 5,
    },  # compared with the leading one only
]


def renewed(selector: CounterfactualBalancing) -> CounterfactualBalancing:
    """A selector that was loaded from a file: files hold nothing that is derived."""
    successor = selector.clone()
    successor.restore(selector.state())
    return successor


def check_history(pool: dict[str, Any], seed: int, rounds: int) -> None:
    """Rewards come late, in any order or never; learners join, leave and cannot always be asked; the selector begins
    again. Before every choice its probabilities are those of its copy from a file, to the last bit. No learner is
    under-sampled, which would hide them."""
    rng, about = np.random.default_rng(seed), dict(pool)
    with mock.patch.multiple(counterfactual_balancing, MAX_COMPARED=about.pop("many", 20), TOLERANCE=-1e6):
        selector = CounterfactualBalancing(**about)
        low, high = selector.reward_range
        pending: list[tuple[Any, dict[int, Proposal]]] = []
        for _ in range(rounds):
            event, active = rng.random(), selector.active
            if event < 0.02 and len(active) < 5:
                selector.add_learner(learning=str(rng.choice(["all", "agreed"])), greedy=bool(rng.integers(2)))
            elif event < 0.04 and len(active) > 2:
                selector.remove_learner(active[int(rng.integers(len(active)))])
            elif event < 0.05:
                selector.restart(0.05)
                pending.clear()
            elif event < 0.07:
                selector = renewed(selector)
            active = selector.active
            available = [i for i in active if rng.random() < 0.7] if rng.random() < 0.2 else []
            for asked in (None, available or None):
                assert selector.choice_probabilities(asked) == renewed(selector).choice_probabilities(asked)
            assert selector.probabilities == renewed(selector).probabilities
            choice = selector.choose(rng, available or None)
            agreed = rng.random() < 0.4
            proposals = {
                i: Proposal(
                    0 if agreed else int(rng.integers(3)),
                    greedy=0 if agreed else int(rng.integers(2)),
                    value=rng.normal(),
                )
                for i in available or active
            }
            selector.observe(choice, proposals)
            pending.append((choice, proposals))
            while pending and rng.random() < 0.5:
                choice, proposals = pending.pop(int(rng.integers(len(pending))))
                if rng.random() < 0.1:
                    selector.withdraw(choice)
                else:
                    own = proposals[choice.learner]
                    quality = 0.8 - 0.3 * (own.greedy if choice.greedy else own.action)
                    selector.credit(choice, low + (high - low) * min(1.0, max(0.0, rng.normal(quality, 0.2))))


@settings(max_examples=15, deadline=None)
@given(st.sampled_from(POOLS), st.integers(0, 2**16))
def test_derived_fields_are_as_if_computed_anew(pool: dict[str, Any], seed: int) -> None:
    check_history(pool, seed, 40)


@pytest.mark.parametrize("forgets", ["add_round", "score"])
def test_a_row_that_is_not_marked_as_changed_is_found(forgets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the rows that a kernel has changed are taken for unchanged."""
    original: Callable[..., None] = getattr(pairs, forgets)

    def forgetful(params: Any, state: pairs.State, *arguments: Any, **flags: bool) -> None:
        marks = [row.changed for row in state.pairs]
        original(params, state, *arguments, **flags)
        for row, mark in zip(state.pairs, marks, strict=True):
            row.changed = mark

    monkeypatch.setattr(pairs, forgets, forgetful)
    with pytest.raises(AssertionError):
        check_history(POOLS[0], 1, 200)


def test_weights_that_are_not_computed_again_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: weights count as known although a reward has arrived."""
    original = counterfactual_balancing.arrive_at_experts

    def forgetful(params: Any, state: counterfactual_balancing.State, *arguments: Any) -> None:
        original(params, state, *arguments)
        state.credit.spread[0].weighed = state.credit.spread[0].matched

    rule = counterfactual_balancing.DRAW_RULE._replace(arrive=forgetful)
    monkeypatch.setattr(counterfactual_balancing, "DRAW_RULE", rule)
    with pytest.raises(AssertionError):
        check_history(POOLS[0], 1, 200)
