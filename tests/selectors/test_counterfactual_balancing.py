"""Every probability of counterfactual balancing is that of a slow reference, whatever comes late, joins or leaves."""

import math
from itertools import permutations
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.learner import Proposal
from equipoise.selectors import CounterfactualBalancing, counterfactual_balancing
from equipoise.selectors._core import pairs
from equipoise.selectors.realized_balancing import TOLERANCE
from tests.counterfactual_reference import Reference, Round

KINDS = ["choose"] * 6 + ["credit"] * 6 + ["withdraw"] * 2 + ["add", "remove", "save"]
EVENTS = st.tuples(st.sampled_from(KINDS), st.integers(0, 2**16))


RULES: list[dict[str, Any]] = [
    {"learning": ["all", "all", "all"], "greedy_experts": [0, 1, 2]},
    {"learning": ["agreed", "own", "all"], "greedy_experts": [0, 2]},
    {"learning": ["agreed", "agreed", "agreed"], "reward_range": (-2.0, 6.0)},
    {"learning": ["all", "silent", "own"], "greedy_experts": [0]},
    {"slack": 1.0, "floor": 0.05, "learning": ["all", "all", "agreed"], "greedy_experts": [1]},
]


def predicted(i: int, rng: np.random.Generator, selector: CounterfactualBalancing) -> float:
    """Learner 2 predicts best, learner 0 poorly, often beyond the range, and sometimes nothing."""
    low, high = selector.reward_range
    return math.nan if i == 0 and rng.random() < 0.2 else low + (high - low) * (0.6 + (2 - i) * rng.normal())


def compare_with_reference(events: list[tuple[str, int]], rule: dict[str, Any], neglect: bool) -> None:
    """Rewards come late, in any order or never; proposals are arbitrary, and better the lower their number. Learners
    join and leave, and some cannot be asked in some rounds."""
    tolerance = TOLERANCE if neglect else -1e6
    with mock.patch.object(counterfactual_balancing, "TOLERANCE", tolerance):
        selector = CounterfactualBalancing(3, delta=0.9, **rule)
        reference = Reference(selector, tolerance)
        check_pairs(follow(events, selector, reference), reference)


def follow(
    events: list[tuple[str, int]], selector: CounterfactualBalancing, reference: Reference
) -> CounterfactualBalancing:
    """Pass the events to both, and compare the probabilities; returns the selector, which saving replaces."""
    open_rounds: list[tuple[Any, Round]] = []
    for event, number in events:
        rng = np.random.default_rng(number)
        active = [i for i in range(len(reference.learning)) if i not in reference.removed]
        if event == "add" and len(active) < 5:
            learning, greedy = str(rng.choice(["all", "agreed", "own", "silent"])), bool(rng.integers(2))
            greedy = greedy and learning != "silent"
            assert selector.add_learner(learning=learning, greedy=greedy) == len(reference.learning)
            reference.add(learning, greedy)
        elif event == "remove" and len(active) > 1:
            gone = active[number % len(active)]
            selector.remove_learner(gone)
            reference.removed.add(gone)
            assert gone not in selector.active and selector.standing()[gone].removed
        elif event == "save":
            successor = selector.clone()
            successor.restore(selector.state())
            selector = successor
        elif event == "choose":
            available = [i for i in active if number % 4 or rng.random() < 0.7] or active
            expected = reference.odds(available)
            choice = selector.choose(rng, None if available == active else available)
            e = selector.experts.index((choice.learner, choice.greedy))
            own = [p for (i, _), p in zip(selector.experts, expected, strict=True) if i == choice.learner]
            assert choice.probability == pytest.approx(sum(own), rel=1e-9)
            proposals = {
                i: Proposal(int(rng.integers(3)), greedy=int(rng.integers(2)), value=predicted(i, rng, selector))
                for i in available
            }
            asks = [i for i in available if reference.learning[i] != "silent" or i == choice.learner]
            proposals = {i: proposals[i] for i in asks}
            selector.observe(choice, proposals)
            asked = [proposals.get(i, Proposal(-1, greedy=-1)) for i in range(len(reference.learning))]
            actions = tuple(asked[i].greedy if g else asked[i].action for i, g in selector.experts)
            row = Round(e, tuple(expected), actions, tuple(proposal.value for proposal in asked))
            reference.rounds.append(row)
            open_rounds.append((choice, row))
            q = sum(p for p, a in zip(expected, actions, strict=True) if a == actions[e])
            assert selector.propensity(choice) == pytest.approx(q, rel=1e-9)
        elif event in ("credit", "withdraw") and open_rounds:
            choice, row = open_rounds.pop(number % len(open_rounds))
            if event == "withdraw":
                selector.withdraw(choice)
                reference.rounds = [other for other in reference.rounds if other is not row]
            else:
                share = 1 - 0.4 * row.actions[row.expert] - 0.2 * rng.random()
                row.reward.append(reference.low + reference.width * share)
                row.known = reference.n
                reference.arrived.append(row)
                selector.credit(choice, row.reward[0])
    assert list(selector.probabilities.values()) == pytest.approx(reference.odds(), rel=1e-9, abs=1e-12)
    return selector


def check_pairs(selector: CounterfactualBalancing, reference: Reference) -> None:
    """Plays, sums of lemma 2 and shares of delta are those of the reference."""
    plays = [sum(reference.experts[row.expert][0] == i for row in reference.rounds) for i in range(selector.pool_size)]
    assert [row.plays for row in selector.standing()] == plays
    for (j, better), (k, worse) in permutations(enumerate(selector.experts), 2):
        proved = selector.paired_certificate(better, worse)
        assert (proved.gain, proved.gain_squares) == pytest.approx(reference.gain(j, k), rel=1e-9, abs=1e-12)
        if (j, k) in reference.shares:
            assert proved.alpha == pytest.approx(reference.shares[j, k], rel=1e-12)
        else:
            assert proved.gain_squares == 0.0  # they were never in the pool together
        assert math.fsum(reference.shares.values()) <= proved.total_delta + 1e-12
    assert selector.certificate().delta == pytest.approx(proved.total_delta)


@settings(max_examples=15, deadline=None)
@given(st.lists(EVENTS, min_size=20, max_size=60), st.sampled_from(RULES), st.booleans())
def test_every_probability_is_that_of_the_reference(
    events: list[tuple[str, int]], rule: dict[str, Any], neglect: bool
) -> None:
    compare_with_reference(events, rule, neglect)


@pytest.mark.slow
@pytest.mark.parametrize("rule", RULES, ids=range(len(RULES)))
def test_every_probability_of_a_longer_run_is_that_of_the_reference(rule: dict[str, Any]) -> None:
    """In few rounds a learner is nearly always under-sampled; without that part of the rule, experts are drawn."""
    rng = np.random.default_rng(8)
    kinds = rng.choice(sorted(set(KINDS)), 250, p=[0.01, 0.48, 0.45, 0.01, 0.01, 0.04])
    compare_with_reference([(str(kind), int(rng.integers(2**16))) for kind in kinds], rule, neglect=False)


@pytest.mark.parametrize(
    ("n_rounds", "share"), [(1, 0.25), (500, 0.25), (128_000, 0.5), (500 * 3**8, 0.75), (10**9, 1.0)]
)
def test_the_share_of_evidence_against_explorers_grows_with_the_rounds(n_rounds: int, share: float) -> None:
    """Runs that are compared with the reference are too short for that."""
    assert pairs.counted_share(n_rounds) == pytest.approx(share, rel=1e-12)


@pytest.mark.parametrize(("high", "error"), [(1.0, 1e-100), (1e-90, 1e-91)])
def test_differences_of_predictions_that_a_square_rounds_to_zero_are_none(high: float, error: float) -> None:
    """They divided by zero, in this and in every later round."""
    selector = CounterfactualBalancing(2, learning=["all", "all"], reward_range=(0.0, high), seed=1)
    for _ in range(4):
        choice = selector.choose()
        selector.observe(choice, {0: Proposal(0, value=0.0), 1: Proposal(0, value=error)})
        selector.credit(choice, 0.0)
    assert sum(selector.probabilities.values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("greedy", "expected"), [([], 150), ([0], 60)])
def test_a_head_start_is_shorter_with_a_greedy_expert(greedy: list[int], expected: int) -> None:
    """A learner that pays less, but by too little to rule out, in units of the range, that it is the better one."""
    selector = CounterfactualBalancing(2, learning=["agreed", "all"], greedy_experts=greedy, seed=1)
    account, plays_when_forced = selector.evidence.accounts[0], 0
    for _ in range(1_200):
        choice = selector.choose()
        explores = choice.learner == 0 and not choice.greedy
        if explores and choice.probability == 1.0:
            plays_when_forced = account.plays
        selector.observe(choice, {0: Proposal(0, greedy=1), 1: Proposal(1)})
        selector.credit(choice, 0.1 if explores else 0.3)
    assert plays_when_forced == expected
