"""An offer that a learner cannot use is not taken: the learner chooses among the others."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features import Columns, Concat, CustomFeatures, Interactions, Offers, OneHot, Prefix, Shared
from equipoise.learners import OFUL, DisjointOFUL, LinearThompson, SquareCB
from equipoise.learners._core.linear_class import linear_class
from equipoise.types import Array

DIM = 3
LEARNERS: dict[str, Callable[..., Any]] = {
    "oful": lambda **more: OFUL(DIM, **more),
    "oful with a map": lambda **more: OFUL(features=Columns([2, 0, 1]), **more),
    "thompson": lambda **more: LinearThompson(DIM, **more),
    "square cb": lambda **more: SquareCB(DIM, **more),
    "disjoint": lambda **more: DisjointOFUL(DIM, arms=9, **more),
}
CONTEXTS: dict[str, Callable[[Array, NDArray[np.bool_]], Any]] = {
    "matrix": lambda rows, mask: rows[mask],
    "wider matrix": lambda rows, mask: np.hstack([rows, np.ones((len(rows), 1))])[mask],
    "offers": lambda rows, mask: Offers(rows[mask]),
    "masked offers": lambda rows, mask: Offers(rows, mask=mask),
    "masked offers with ids": lambda rows, mask: Offers(rows, ids=[f"i{k}" for k in range(len(rows))], mask=mask),
}


def rows_of(rng: np.random.Generator, long: bool) -> tuple[Array, NDArray[np.bool_]]:
    """Rows of norm at most 1, some of them longer if `long`, and a mask that leaves at least one of each."""
    rows = rng.standard_normal((7, DIM))
    rows *= rng.random((7, 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    mask = rng.random(7) < 0.7
    mask[[1, 4]] = True
    if long:
        rows[[0, 1, 5]] *= 3.0 / np.linalg.norm(rows[[0, 1, 5]], axis=1, keepdims=True)
    return rows, mask


@pytest.mark.parametrize("make_context", CONTEXTS.values(), ids=CONTEXTS)
@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_a_learner_plays_as_if_the_others_were_not_offered(make: Any, make_context: Any) -> None:
    """Against offers of which a mask excludes the long rows; without ids an arm is its row, so rows stay in place."""
    rng, learner, reference = np.random.default_rng(0), make(), make()
    for t in range(60):
        rows, mask = rows_of(rng, long=t % 2 == 1)
        context, usable = make_context(rows, mask), mask & (np.linalg.norm(rows, axis=1) <= 1.0)
        packed = not isinstance(context, Offers) or context.mask is None
        within = np.flatnonzero(mask) if packed else np.arange(7)
        ids = context.ids if isinstance(context, Offers) else None
        all_offers = Offers(rows[within], ids=ids, mask=usable[within])
        proposal = learner.decide(context, np.random.default_rng(t))
        expected = reference.decide(all_offers, np.random.default_rng(t))
        assert usable[within][proposal.action] and usable[within][proposal.greedy]
        assert repr(proposal._replace(regret=0.0)) == repr(expected._replace(regret=0.0))
        np.testing.assert_array_equal(learner.pmf(context), reference.pmf(all_offers))
        reward = float(rng.random())
        learner.learn(context, proposal.action, reward)
        reference.learn(all_offers, proposal.action, reward)
        for name, array in reference.state().items():
            np.testing.assert_array_equal(array, learner.state()[name])


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_nothing_is_said_about_offers_that_it_does_not_take(make: Any) -> None:
    learner, rng = make(), np.random.default_rng(1)
    for t in range(300):
        rows, _ = rows_of(rng, long=False)
        learner.learn(rows, t % 7, 0.5)
    rows, _ = rows_of(rng, long=False)
    own = learner.decide(rows, rng)
    rows[6] = 9.0
    proposal = learner.decide(rows, rng)
    if np.isnan(own.regret):
        assert np.isnan(proposal.regret)
    else:
        assert proposal.regret == 1.0 - proposal.lower >= own.regret
    before = learner.state()
    with pytest.raises(InvalidArgument, match=r"row 6 of norm 15\.5885, but norms must be at most action_bound = 1"):
        learner.learn(rows, 6, 0.5)
    for bad in (np.full((2, DIM), 9.0), Offers(np.full((2, DIM), 9.0)), Offers(rows, mask=np.arange(7) == 6)):
        with pytest.raises(InvalidArgument, match="norms must be at most action_bound = 1"):
            learner.decide(bad, rng)
        with pytest.raises(InvalidArgument, match="norms must be at most action_bound = 1"):
            learner.pmf(bad)
    assert all(np.array_equal(array, learner.state()[name]) for name, array in before.items())


def unknown_for(letter: str) -> CustomFeatures:
    def function(actions: Array, shared: Array | None) -> Array:
        rows = actions[:, :1].copy()
        rows[rows > 0.6] = np.nan
        return rows

    return CustomFeatures(function, 1, letter)


@pytest.mark.parametrize(
    "features",
    [
        OneHot(["a", "c", "d"]),
        Concat([OneHot(["a", "c"]), Prefix(1)]),
        Interactions(Shared(1), OneHot(["c", "a", "e"])),
        unknown_for("f"),
    ],
    ids=["one hot", "concat", "interactions", "custom"],
)
def test_an_offer_that_the_map_cannot_describe_is_not_taken(features: Any) -> None:
    learner = OFUL(features=features, action_bound=2.0)
    offers = Offers([[0.5], [0.9], [0.4]], [0.0], ids=["a", "b", "c"])
    assert learner.pmf(offers)[1] == 0.0 and learner.decide(offers).action in (0, 2)
    learner.learn(offers, 2, 1.0)
    for call in (lambda: learner.learn(offers, 1, 1.0), lambda: learner.check_context(offers)):
        with pytest.raises(InvalidArgument, match=r"context has an action 1 that .* cannot describe"):
            call()
    with pytest.raises(InvalidArgument, match=r"'b' is unknown|is nan|cannot describe|entry nan"):
        learner.decide(Offers([[0.9]], [0.0], ids=["b"]))


def test_a_row_is_clipped_to_the_bound_and_counted() -> None:
    rng = np.random.default_rng(3)
    learner, reference = OFUL(DIM, clip_norm=True, action_bound=0.5), OFUL(DIM, action_bound=0.5)
    n_clipped = 0
    for t in range(40):
        rows, _ = rows_of(rng, long=True)
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        clipped = np.where(norms > 0.5, rows * (0.5 / norms), rows)
        context = Offers(rows) if t % 3 else rows
        proposal, expected = learner.decide(context), reference.decide(clipped)
        assert proposal.action == expected.action
        assert proposal[1:3] == pytest.approx(expected[1:3], abs=1e-12)
        n_clipped += bool(norms[proposal.action] > 0.5)
        learner.learn(context, proposal.action, 0.5)
        reference.learn(clipped, proposal.action, 0.5)
    assert learner.clipped_rows == n_clipped > 10 and reference.clipped_rows == 0
    assert np.allclose(learner.memory.theta, reference.memory.theta, rtol=1e-12)
    restored = OFUL.from_config(learner.config())
    restored.restore(learner.state())
    assert restored.clipped_rows == n_clipped
    assert "clipped_rows" not in reference.state(), "states of earlier releases have none"
    with pytest.raises(InvalidArgument, match="entry nan"):
        learner.decide(np.full((2, DIM), np.nan))


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
def test_no_row_is_refused_if_rows_are_clipped(make: Any) -> None:
    learner, rng = make(clip_norm=True), np.random.default_rng(0)
    offers = Offers(np.full((3, DIM), 1e90))
    for _ in range(3):
        proposal = learner.decide(offers, rng)
        learner.learn(offers, proposal.action, 1.0)
        assert learner.pmf(offers).sum() == pytest.approx(1.0)
    assert learner.clipped_rows == 3 and learner.decide(rows_of(rng, long=True)[0] / sqrt(2), rng).action in range(7)
    learner.learn(offers, 0, 0.0, *([0.0] if "weight" in learner.accepts else []))
    assert learner.clipped_rows == (3 if "weight" in learner.accepts else 4)


def test_classes_of_clipped_rows_are_not_nested() -> None:
    """A row is scaled as a whole, so the same column of a wider row has another value."""
    small, large = (linear_class(OFUL(d, clip_norm=True)) for d in (2, 3))
    with pytest.raises(IncompatibleLearner, match="lacks the feature 'column 0 in a row of 2 scaled to norm 1'"):
        large.check_contains(small)
    large.check_contains(linear_class(OFUL(3, clip_norm=True)))
