"""The probabilities of all actions of a round."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.features import Offers
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson, SquareCB
from equipoise.portfolio.tickets import Decision
from equipoise.selectors import Corral, CounterfactualBalancing, RealizedBalancing, Uniform

SELECTORS: dict[str, Any] = {
    "counterfactual": lambda: CounterfactualBalancing(3),
    "realized": lambda: RealizedBalancing(3),
    "corral": lambda: Corral(3, rounds=500),
    "uniform": lambda: Uniform(3),
}


def pool(selector: str) -> list[Any]:
    if selector == "corral":
        return [UCB(4), EpsilonGreedy(4, epsilon=0.3), Constant(1)]
    return [OFUL(2), OFUL(1, name="one"), SquareCB(2)]


@pytest.mark.parametrize("explore", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("selector", SELECTORS)
def test_the_chosen_action_has_its_propensity(selector: str, explore: float) -> None:
    """They sum to 1, excluded actions have 0, and every chosen one has the propensity that is computed alone."""
    rng, seen = np.random.default_rng(5), set[int]()
    asked, alone = (
        Portfolio(pool(selector), SELECTORS[selector](), explore=explore, seed=3, reward_range=(0.0, 1.0))
        for _ in range(2)
    )
    for t in range(120):
        mask = np.array([True, True, t % 3 > 0, t % 2 > 0])
        context: Any = None if selector == "corral" else Offers(rng.normal(size=(4, 2)) / 4, mask=mask)
        decision = asked.decide(context, pmf=True)
        other = alone.decide(context, propensity=True)
        assert decision.action == other.action and other.pmf is None
        assert decision.propensity == pytest.approx(other.propensity, nan_ok=True)
        assert decision.pmf is not None and sum(decision.pmf) == pytest.approx(1.0)
        assert decision.pmf[decision.action] == pytest.approx(decision.propensity)
        if context is not None:
            assert len(decision.pmf) == 4 and not np.array(decision.pmf)[~mask].any()
        seen.add(decision.action)
        reward = float(rng.random() < 0.2 + 0.2 * decision.action)
        asked.learn(decision, reward)
        alone.learn(other, reward)
    assert len(seen) > 1


def test_frequencies_agree_with_the_probabilities() -> None:
    """Over portfolios that differ in their seeds only, at the same state."""
    context, n, counts = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 500, np.zeros(3)
    first: Any = None
    for seed in range(n):
        portfolio = Portfolio([OFUL(2), SquareCB(2)], Uniform(2), explore=0.2, seed=seed)
        decision = portfolio.decide(context, pmf=True)
        first = first or decision.pmf
        assert decision.pmf == pytest.approx(first)
        counts[decision.action] += 1
    assert np.abs(counts / n - first).max() < 4 * 0.5 / n**0.5


def test_a_learner_without_probabilities_leaves_them_unknown() -> None:
    portfolio = Portfolio([OFUL(2), LinearThompson(2)], Uniform(2))
    decision = portfolio.decide(np.eye(2), pmf=True)
    known = decision.pmf is not None
    assert known == (not np.isnan(decision.propensity))


def test_they_stay_with_the_decision(tmp_path: Path) -> None:
    """A repeated call, the journal and a saved file have them."""
    context = Offers(np.eye(3), ids=["a", "b", "c"])
    made = []
    with equipoise.open(tmp_path / "j.db", lambda: Portfolio([OFUL(3), SquareCB(3)], seed=2)) as live:
        made += [live.decide(context, id="one", pmf=True), live.decide(context, id="one", pmf=True)]
        (event,) = [each for each in live.journal.read(1) if each.kind == "decided"]
        made.append(Decision.of_event(event.data))
        live.save(tmp_path / "file.equipoise")
    with equipoise.open(tmp_path / "j.db", lambda: Portfolio([OFUL(3), SquareCB(3)], seed=2)) as live:
        made.append(live.decide(context, id="one"))
    made.append(Portfolio.load(tmp_path / "file.equipoise").decide(context, id="one"))
    assert made[0].pmf is not None and all(one == other for one, other in pairwise(made))
