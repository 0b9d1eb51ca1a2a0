"""Selectors that say who learns from a round: saved, folded, and with learners that fail or are not available."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.errors import NoLearnerAvailable
from equipoise.portfolio.events import Event
from equipoise.selectors import CounterfactualBalancing
from tests.recorders import saved


class Greedy:
    """Proposes one action and estimates another one to be best; remembers what it learns."""

    accepts = frozenset({"off_policy", "agreed"})
    provides = frozenset({"greedy"})
    randomized = False

    def __init__(self, action: int, greedy: int | None) -> None:
        self.action, self.greedy, self.updates = action, greedy, list[tuple[Any, int, float]]()
        self.broken = False

    def decide(self, context: Any) -> Proposal:
        if self.broken:
            raise RuntimeError("broken")
        return Proposal(self.action, greedy=self.greedy)

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.updates.append((context, action, reward))

    def state(self) -> dict[str, Any]:
        return {"updates": np.array(self.updates, np.float64).reshape(-1, 3)}

    def restore(self, state: dict[str, Any]) -> None:
        self.updates = [(int(context), int(action), reward) for context, action, reward in state["updates"].tolist()]

    def config(self) -> dict[str, Any]:
        return {}


def pool() -> list[Any]:
    return [Greedy(0, 2), Greedy(1, 2), Greedy(1, 0)]


def entrant() -> Greedy:
    return Greedy(2, 1)


def make(learners: list[Any], **settings: Any) -> Portfolio:
    selector = CounterfactualBalancing(3, learning=["all", "agreed", "own"], greedy_experts=[0, 1], seed=3)
    return Portfolio(learners, selector, seed=5, **settings)


def play(portfolio: Portfolio, learners: list[Any]) -> None:
    """150 rounds with late rewards; one learner fails for a while, one is suspended for a while, one joins and stays,
    one leaves before some of its rewards come."""
    rng, waiting = np.random.default_rng(1), []
    for t in range(150):
        learners[1].broken = 40 <= t < 44
        if t == 70:
            portfolio.suspend(portfolio.learner_names[2])
        if t == 90:
            portfolio.resume(portfolio.learner_names[2])
        if t == 100:
            learners.append(entrant())
            assert portfolio.add_learner(learners[3]) == "Greedy (4)"
        if t == 120:
            portfolio.remove_learner("Greedy (2)")
        waiting.append(portfolio.decide(t))
        if t % 7 == 3:
            portfolio.withdraw(waiting.pop(0))
        while len(waiting) > 4:
            late = waiting.pop(int(rng.integers(len(waiting))))
            portfolio.learn(late, 0.2 + 0.3 * late.action)


def test_folding_and_loading_give_the_same_portfolio(tmp_path: Path) -> None:
    events: list[Event] = []
    learners, copies = pool(), pool()
    portfolio = make(learners)
    portfolio.on_event(events.append)
    play(portfolio, learners)
    folded = make(copies)
    for event in events:
        joins = event.kind == "learner_added"
        copies += [entrant()] if joins else []
        folded.apply(event, copies[3] if joins else None)
    assert saved(folded) == saved(portfolio)
    assert [copy.updates for copy in copies] == [learner.updates for learner in learners]
    portfolio.save(tmp_path / "half")
    left = [Greedy(0, 2), Greedy(1, 0), entrant()]
    loaded = Portfolio.load(tmp_path / "half", learners=left)
    assert saved(loaded) == saved(portfolio)
    assert loaded.selector.experts == (*((i, False) for i in range(3)), (0, True), (1, True), (3, False), (3, True))
    for id_ in portfolio.pending:
        for whole in (portfolio, loaded):
            whole.learn(id_, 0.5, at=1e11)
    assert saved(loaded) == saved(portfolio)


def test_who_learns_is_what_learning_says() -> None:
    """Learner 0 learns from every round, learner 1 from those whose action it proposed, learner 2 from its own, and
    learner 3 from every round after it has joined; one that was removed learns no more."""
    learners = pool()
    portfolio = make(learners)
    events: list[Event] = []
    portfolio.on_event(events.append)
    play(portfolio, learners)
    for id_ in portfolio.pending:
        portfolio.learn(id_, 0.5)
    taken = {event.data["context"]: event.data for event in events if event.kind == "decided"}
    withdrawn = set(taken) - {t for t, _, _ in learners[0].updates}
    assert len(withdrawn) == 21
    for i, learner in enumerate(learners):
        expected = set()
        for t, data in taken.items():
            own = data["learner"] == i and not data["choice"][3]
            agrees = i in data["proposals"] and data["action"] == learner.action
            if i == 0 or own or (i == 1 and agrees) or (i == 3 and t >= 100):
                expected.add(t)
        learned = {t for t, _, _ in learner.updates}
        if i == 1:
            assert learned <= expected - withdrawn and learned >= {t for t in expected - withdrawn if t < 110}
        else:
            assert learned == expected - withdrawn
    assert portfolio.standing()[1].pending == 0  # the rewards of its open decisions came after it was removed
    assert any(data["choice"][3] for data in taken.values())  # greedy experts play


def test_a_learner_without_the_greedy_action_that_its_greedy_expert_needs_is_skipped() -> None:
    learners = pool()
    portfolio = make(learners)
    learners[1].greedy = None
    assert {portfolio.decide(t).learner for t in range(6)} <= {0, 2}
    assert "greedy is None, but the selector may play" in portfolio.health()["learners"][1]["last_error"]
    learners[0].greedy = learners[2].greedy = None
    learners[2].broken = True
    with pytest.raises(NoLearnerAvailable, match="greedy is None"):
        portfolio.decide(7)


def test_the_propensity_is_over_all_experts_also_on_the_floor() -> None:
    plain, exploring = make(pool()), make(pool(), explore=0.5)
    contexts = np.zeros((3, 1))
    for _ in range(60):
        decision = plain.decide(contexts)
        plain.learn(decision, 0.5)
        assert 0.0 < decision.propensity <= 1.0 + 1e-12
        greedy = [p for (_, is_greedy), p in exploring.selector.probabilities.items() if is_greedy]
        decision = exploring.decide(contexts)
        if decision.learner is None and decision.action == 2:  # only the greedy actions of learners 0 and 1
            assert decision.propensity == pytest.approx(0.5 / 3 + 0.5 * sum(greedy))
        updates = [len(learner.updates) for learner in exploring.learners]
        exploring.learn(decision, 0.5)
        learned = [len(learner.updates) - before for learner, before in zip(exploring.learners, updates, strict=True)]
        assert learned[0] == 1  # it shares data
        assert decision.learner is not None or learned == [1, 0, 0]
