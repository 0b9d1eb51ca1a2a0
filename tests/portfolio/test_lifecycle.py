"""What changes while a portfolio runs, and events: any sequence of changes keeps its promises, and folds into the same
state."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.errors import (
    DuplicateReward,
    InvalidArgument,
    NoLearnerAvailable,
    UnknownName,
    UnknownSetting,
)
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy
from equipoise.portfolio import Event
from equipoise.portfolio.events import KINDS
from equipoise.selectors import (
    EXP3,
    UCB1,
    BalancedElimination,
    Corral,
    CounterfactualBalancing,
    RealizedBalancing,
    Uniform,
)
from tests.recorders import Recorder, recorders, saved


class Flaky(UCB):
    """Fails in rounds that its own number and the length of the run decide; saved like any learner."""

    calls = 0
    every = 5

    def decide(self, context: Any, rng: Any = None) -> Any:
        self.calls += 1
        if self.calls % self.every == 0:
            raise RuntimeError("no luck")
        return super().decide(context, rng)

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        self.calls += 1
        if self.calls % self.every == 0:
            raise RuntimeError("no luck either")
        super().learn(context, action, reward, weight)


SELECTORS: dict[str, Any] = {
    "realized": lambda: RealizedBalancing(3),
    "balanced": lambda: BalancedElimination([Power(1.0), Observed(), Power(0.5)]),
    "ucb1": lambda: UCB1(3),
    "exp3": lambda: EXP3(3),
    "uniform": lambda: Uniform(3),
    "counterfactual": lambda: CounterfactualBalancing(
        3, learning=["agreed", "own", "own"], greedy_experts=[0, 1], contexts="fixed"
    ),
}


def make(name: str) -> Portfolio:
    learners = [UCB(3), Flaky(3, scale=0.5), EpsilonGreedy(3, epsilon=0.3)]
    return Portfolio(learners, SELECTORS[name](), deadline=12, default_reward=0.0, fallback=0, seed=4)


ACTIONS = (
    ["decide"] * 6
    + ["learn"] * 4
    + [
        "withdraw",
        "repeat",
        "add",
        "remove",
        "suspend",
        "resume",
        "rename",
        "retry",
        "deadline",
        "save",
    ]
)
STEPS = st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 10**6)), max_size=60)


def step(portfolio: Portfolio, what: str, number: int) -> None:
    """One change; what is not possible now is refused."""
    names = [name for name, learner in zip(portfolio.learner_names, portfolio.learners, strict=True) if learner]
    name, waiting = names[number % len(names)], portfolio.pending
    if what == "decide":
        portfolio.decide(None, id=f"request {number}" if number % 3 == 0 else None, at=float(number))
    elif what == "learn" and waiting:
        portfolio.learn(waiting[number % len(waiting)], number / 10**6)
    elif what == "withdraw" and waiting:
        portfolio.withdraw(waiting[number % len(waiting)])
    elif what == "repeat" and waiting:
        id_ = waiting[number % len(waiting)]
        portfolio.learn(id_, 0.5)
        with pytest.raises(DuplicateReward):
            portfolio.learn(id_, 0.5)
    elif what == "add" and len(portfolio.learner_names) < 6:
        needs_bound = "bounds" in portfolio.selector.needs
        portfolio.add_learner(
            UCB(3, scale=0.25), bound=(Observed() if number % 2 else Power(1.0)) if needs_bound else None
        )
    elif what == "remove" and len(names) > 2:
        portfolio.remove_learner(name)
    elif what == "suspend":
        portfolio.suspend(name)
    elif what == "resume":
        portfolio.resume(name)
    elif what == "rename":
        portfolio.rename_learner(name, f"learner {number}")
    elif what == "retry":
        portfolio.retry_updates()
    elif what == "deadline":
        portfolio.reconfigure(deadline=1 + number % 20, default_reward=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("name", SELECTORS)
@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_any_sequence_of_changes_loses_nothing_and_folds_into_the_same_state(name: str, steps: Any) -> None:
    portfolio, folded = make(name), make(name)
    events: list[Event] = []
    portfolio.on_event(events.append)
    for what, number in steps:
        before = set(portfolio.pending)
        try:
            step(portfolio, what, number)
        except (InvalidArgument, DuplicateReward):
            assert set(portfolio.pending) == before
        health = portfolio.health()
        plays = sum(row.plays for row in portfolio.standing())
        certificate = portfolio.certificate()
        rounds = {event.data["id"]: event.data["round"] for event in events if event.kind == "decided"}
        gone = [rounds[event.data["id"]] for event in events if event.kind == "withdrawn"]
        assert len(gone) == health["withdrawn"]
        before_law = certificate.law_since - 1  # rounds under another deadline, which do not count
        gone = [round_ for round_ in gone if round_ > before_law]
        assert plays + health["unplayed"] + len(gone) == health["rounds"] - before_law
        assert certificate.rounds == plays + health["unplayed"]
        assert 0.0 <= certificate.regret_upper <= certificate.rounds
    # A fold asks no learner to decide; updates are the same, so flaky learners count the same calls only of those.
    for learner in (*portfolio.learners, *folded.learners):
        if isinstance(learner, Flaky):
            learner.every = 10**9
    for event in events:
        folded.apply(event)
    assert saved(folded) == saved(portfolio)
    assert str(folded.standing()) == str(portfolio.standing())
    for _ in range(3):
        assert str(folded.decide(None)[1:]) == str(portfolio.decide(None)[1:])


def test_a_fold_goes_on_from_any_saved_state(tmp_path: Path) -> None:
    portfolio = make("realized")
    rng = np.random.default_rng(0)

    def play(rounds: int) -> None:
        for _ in range(rounds):
            portfolio.decide(None)
            for id_ in portfolio.pending[: int(rng.integers(3))]:
                portfolio.learn(id_, float(rng.random()))

    play(40)
    portfolio.save(tmp_path / "p")
    tail: list[Event] = []
    portfolio.on_event(tail.append)
    play(40)
    learners = [UCB(3), Flaky(3, scale=0.5), EpsilonGreedy(3, epsilon=0.3)]
    loaded = Portfolio.load(tmp_path / "p", learners=learners)
    learners[1].every = 10**9  # type: ignore[attr-defined]
    for event in tail:
        loaded.apply(event)
    assert saved(loaded) == saved(portfolio)


def test_events_that_cannot_be_folded_are_refused() -> None:
    portfolio = recorders(2)
    with pytest.raises(InvalidArgument, match=r"^event has kind 'danced', but must be one of decided"):
        portfolio.apply(Event("danced", {}, 0.0))
    with pytest.raises(InvalidArgument, match=r"^event 'decided' has version 9, but this release folds 1$"):
        portfolio.apply(Event("decided", {}, 0.0, version=9))
    portfolio.apply(Event("danced", {}, 0.0, derived=True))


def test_events_are_announced_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="equipoise")
    portfolio = recorders(3)
    kinds: list[str] = []
    portfolio.on_event(lambda event: kinds.append(event.kind))
    portfolio.learners[0].failures["learn"] = 1
    decision = portfolio.decide(None)
    portfolio.learn(decision, 0.5)
    portfolio.withdraw(portfolio.decide(None))
    portfolio.add_learner(Recorder(7), bound=Power(1.0))
    portfolio.suspend("Recorder(7)")
    portfolio.rename_learner("Recorder(7)", "new")
    portfolio.resume("new")
    portfolio.remove_learner("new")
    portfolio.reconfigure(deadline=5, default_reward=0.0)
    portfolio.retry_updates()
    assert kinds == [
        "decided",
        "rewarded",
        "update_failed",
        "decided",
        "withdrawn",
        "learner_added",
        "learner_suspended",
        "learner_renamed",
        "learner_resumed",
        "learner_removed",
        "config",
        "law_changed",
        "updates_retried",
    ]
    logged = [record.message.split(":")[0] for record in caplog.records]
    assert logged.pop(0).startswith("The selector is Balanced elimination, as given")
    assert logged == [kind for kind in kinds if KINDS[kind].level > logging.DEBUG]
    with pytest.raises(InvalidArgument, match="callback is None, but must be callable with an Event"):
        portfolio.on_event(None)  # type: ignore[arg-type]


def test_learners_come_and_go_and_open_decisions_survive(tmp_path: Path) -> None:
    portfolio = Portfolio([UCB(3), Constant(1)], RealizedBalancing(2))
    early = [portfolio.decide(None) for _ in range(6)]
    assert portfolio.add_learner(UCB(3)) == "UCB (2)"
    portfolio.remove_learner("UCB")
    late = [portfolio.decide(None) for _ in range(6)]
    assert {decision.learner for decision in late} <= {1, 2}
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p")
    assert loaded.learners[0] is None and loaded.learner_names == ("UCB", "Constant(1)", "UCB (2)")
    for each in (portfolio, loaded):
        for decision in (*early, *late):
            each.learn(decision, 0.5)
        assert sum(row.plays - row.pending for row in each.standing()) == 12
    assert saved(portfolio) == saved(loaded)
    certificate = portfolio.certificate()
    assert certificate.late_learners == (2,) and certificate.pool_since == 6
    assert certificate.delta == pytest.approx(0.05 + 0.05 / 2)  # the entrant spends its own share
    assert "UCB: 3 plays, removed" in portfolio.describe()
    with pytest.raises(UnknownName, match="learner 'UCB' is unknown"):
        portfolio.suspend("UCB")
    portfolio.remove_learner("UCB (2)")
    with pytest.raises(InvalidArgument, match=r"^learner 'Constant\(1\)' is the last one"):
        portfolio.remove_learner("Constant(1)")


def test_what_cannot_change_is_refused_and_changes_nothing() -> None:
    corral = Portfolio([UCB(3), UCB(3)], Corral(2, rounds=100))
    observed = Portfolio([OFUL(2)], BalancedElimination([Observed()]))
    one = recorders(2)
    misuses: list[tuple[Portfolio, Any, type[Exception], str]] = [
        (corral, lambda p: p.add_learner(UCB(3)), InvalidArgument, "Corral takes no more learners: "),
        (observed, lambda p: p.add_learner(OFUL(3)), InvalidArgument, "bound is None, but BalancedElimination needs"),
        (observed, lambda p: p.add_learner(Constant(0), bound=Observed()), InvalidArgument, "provides no 'regret'"),
        (one, lambda p: p.add_learner(p.learners[0], bound=Power(1.0)), InvalidArgument, "one object twice"),
        (one, lambda p: p.rename_learner("Recorder(0)", "Recorder(1)"), InvalidArgument, "must differ from the names"),
        (one, lambda p: p.rename_learner("Recorder(0)", ""), InvalidArgument, "must be a nonempty string"),
        (one, lambda p: p.reconfigure(seed=3), InvalidArgument, "seed is 3, but must stay 0 for a portfolio"),
        (one, lambda p: p.reconfigure(sede=3), UnknownSetting, "changeable setting 'sede' is unknown"),
        (one, lambda p: p.reconfigure(deadline=3), InvalidArgument, "must be given together"),
        (one, lambda p: p.reconfigure(share_data=True), InvalidArgument, "no learner accepts 'off_policy' data"),
        (one, lambda p: p.reconfigure(selector={"delta": 0.1}), InvalidArgument, "delta is 0.1, but a running"),
        (one, lambda p: p.reconfigure(explore=2.0), InvalidArgument, "explore is 2.0, but must lie in [0, 1]"),
        (one, lambda p: p.reconfigure(selector=3), InvalidArgument, "selector is 3, but must be a dict of settings"),
    ]
    for portfolio, misuse, kind, message in misuses:
        before = saved(portfolio)
        with pytest.raises(kind) as caught:
            misuse(portfolio)
        assert message in str(caught.value)
        assert saved(portfolio) == before


def test_data_are_shared_with_the_learners_that_are_left() -> None:
    """Indices are stable: learner 0 is gone, learner 1 learns from its own plays only, learner 2 from all."""
    portfolio = Portfolio([OFUL(2), Constant(0), OFUL(3)], RealizedBalancing(3))
    portfolio.remove_learner("OFUL(d=2)")
    portfolio.reconfigure(share_data=True)
    for _ in range(4):
        portfolio.learn(portfolio.decide(np.full((2, 3), 0.5)), 1.0)
    assert [row.plays for row in portfolio.standing()][1] > 0
    assert int(portfolio.learners[2].memory.updates[0]) == 4


def test_settings_change_while_it_runs_and_on_loading(tmp_path: Path) -> None:
    portfolio = Portfolio([OFUL(2), OFUL(3)], RealizedBalancing(2))
    context = np.full((3, 3), 0.5)
    lost = portfolio.decide(context)
    portfolio.reconfigure(deadline=1, default_reward=0.0, share_data=True, selector={"optimism": 1.0})
    for _ in range(3):
        portfolio.learn(portfolio.decide(context), 1.0)
    assert lost.id not in portfolio.pending
    assert portfolio.selector.optimism == 1.0
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p", changes={"deadline": None, "default_reward": None, "fallback": 1})
    assert (
        loaded.settings.deadline,
        loaded.settings.fallback,
        loaded.settings.share_data,
        loaded.selector.optimism,
    ) == (None, 1, True, 1.0)
    with pytest.raises(UnknownSetting):
        Portfolio.load(tmp_path / "p", changes={"dealine": 3})
    with pytest.raises(InvalidArgument, match=r"^changes is \[3\], but must be a dict of settings$"):
        Portfolio.load(tmp_path / "p", changes=[3])  # type: ignore[arg-type]


def test_a_fallback_that_is_a_function_is_given_again_after_loading(tmp_path: Path, caplog: Any) -> None:
    portfolio = Portfolio([Constant(0)], UCB1(1), fallback=lambda context: 7)
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p")
    assert "the fallback of the saved portfolio was a function" in caplog.text
    loaded.suspend("Constant(0)")
    with pytest.raises(NoLearnerAvailable):
        loaded.decide(None)
    loaded.reconfigure(fallback=lambda context: 7)
    assert loaded.decide(None).action == 7
