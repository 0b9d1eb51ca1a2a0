"""One learner cannot take a portfolio down: another one acts for it, it is paused and tried again."""

import re
from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.bounds import Observed, Power
from equipoise.errors import InvalidArgument, NoLearnerAvailable, UnknownName
from equipoise.features import Offers
from equipoise.learners import OFUL, UCB, Constant
from equipoise.portfolio.pool import FIRST_PAUSE, MAX_FAILURES, MAX_PAUSE, MIN_SUCCESSES, Member
from equipoise.portfolio.updates import MAX_FAILED_UPDATES
from equipoise.selectors import EXP3, UCB1, BalancedElimination, Corral, EpochBalancing, RealizedBalancing
from tests.recorders import Recorder, RoundRobin, recorders, saved


class Broken(Recorder):
    """Fails in the rounds in which `fails` is true."""

    fails = True

    def decide(self, context: Any) -> Proposal:
        if self.fails:
            raise RuntimeError("no luck")
        return super().decide(context)


SELECTORS: dict[str, Callable[[], Any]] = {
    "RealizedBalancing": lambda: RealizedBalancing(3),
    "BalancedElimination": lambda: BalancedElimination([Power(1.0)] * 3),
    "Observed": lambda: BalancedElimination([Observed()] * 3),
    "UCB1": lambda: UCB1(3),
    "EXP3": lambda: EXP3(3),
}


@pytest.mark.parametrize("name", SELECTORS)
def test_every_request_is_answered_while_a_learner_is_broken(name: str) -> None:
    """The reported fault: after one learner started raising, 0 of 4,000 further requests were answered."""
    broken = Broken(1)
    portfolio = Portfolio([Recorder(0), broken, Recorder(2)], SELECTORS[name]())
    decisions = []
    for t in range(400):
        broken.fails = 100 <= t < 300
        decisions.append(portfolio.decide(None))
        assert decisions[-1].learner != 1 or not broken.fails
        portfolio.learn(decisions[-1], 0.5)
    rows, health = portfolio.standing(), portfolio.health()["learners"]
    for i, learner in enumerate(portfolio.learners):
        assert rows[i].plays == sum(decision.drawn == i for decision in decisions)
        assert len(learner.updates) == sum(decision.learner == i for decision in decisions)
        substituted = sum(decision.drawn == i != decision.learner for decision in decisions)
        assert health[i]["substituted"] == substituted and (substituted > 0) == (i == 1)
    assert broken.updates and health[1]["failures"] >= MAX_FAILURES
    assert portfolio.certificate().resolved_rounds == 400


@pytest.mark.parametrize("bound", [Power(1.0), Observed()])
def test_the_reward_of_a_substitute_is_credited_to_the_learner_that_was_drawn(bound: Any) -> None:
    broken = Broken(0)
    portfolio = Portfolio([broken, Recorder(1)], BalancedElimination([bound] * 2))
    decision = portfolio.decide(None)
    assert (decision.drawn, decision.learner, decision.learner_name, decision.action) == (0, 1, "Recorder(1)", 1)
    assert decision.learner_probability == decision.action_probability == decision.propensity == 1.0
    portfolio.learn(decision, 0.75, regret=0.25)  # a regret of the substitute says nothing about learner 0
    drawn, acting = portfolio.standing()
    assert (drawn.plays, drawn.mean_reward, drawn.mean_bound, acting.plays) == (1, 0.75, 1.0, 0)
    assert (broken.updates, portfolio.learners[1].rewards) == ([], [0.75])
    assert portfolio.certificate().resolved_rounds == 1
    words = "A substitute acted for it in 1 round."
    assert portfolio.describe().splitlines()[2].endswith(words) and words in portfolio.explain(
        portfolio.learner_names[0]
    )
    other = portfolio.decide(None)
    portfolio.withdraw(other)
    portfolio.withdraw(portfolio.decide(None))
    assert portfolio.health()["learners"][0]["substituted"] == 1


def test_the_learner_with_the_most_plays_acts_for_others_and_the_next_one_if_it_fails_too() -> None:
    learners: list[Any] = [Broken(0), Recorder(1), Recorder(2), Broken(3)]
    portfolio = Portfolio(learners, RoundRobin(4))
    learners[0].fails = learners[3].fails = False
    for decision in [portfolio.decide(None) for _ in range(7)]:  # learner 3 has one play less
        portfolio.learn(decision, 0.5)
    learners[3].fails = True
    assert [(d.drawn, d.learner) for d in (portfolio.decide(None), portfolio.decide(None))] == [(3, 0), (0, 0)]
    learners[0].fails = learners[1].fails = True
    learners[1].failures["decide"] = 10
    assert [(d.drawn, d.learner) for d in (portfolio.decide(None), portfolio.decide(None))] == [(1, 2), (2, 2)]


def test_a_round_that_a_caller_restricts_is_drawn_as_any_other() -> None:
    portfolio, free = recorders(3), recorders(3)
    for t in range(30):
        some = portfolio.learner_names[t % 3 :]
        decision, same = portfolio.decide(None, available=some), free.decide(None)
        assert decision.learner_name in some and decision.drawn == same.drawn
        assert decision.learner == decision.drawn or portfolio.learner_names[decision.drawn or 0] not in some
        portfolio.learn(decision, 0.5)
        free.learn(same, 0.5)
    assert portfolio.certificate() == free.certificate() and portfolio.certificate().resolved_rounds == 30
    assert portfolio.health()["learners"][0]["failures"] == 0
    with pytest.raises(UnknownName, match="learner 'Recorder' is unknown; did you mean"):
        portfolio.decide(None, available=["Recorder"])
    with pytest.raises(NoLearnerAvailable, match=r"no learner can play \(none is active, not suspended and allowed\)"):
        portfolio.decide(None, available=[])


NONSENSE: list[tuple[Any, str]] = [
    (Proposal(None), "action is None, but decide() must return an action or a Proposal"),
    (Proposal(7), "action is 7, but an index must be from 0 to 2"),
    (Proposal(-1), "action is -1, but an index must be from 0 to 2"),
    (Proposal("a"), "action is 'a', but must be an index from 0 to 2"),
    (Proposal(0, greedy=9), "greedy is 9, but an index must be from 0 to 2"),
    (Proposal(0, probability=0.0), "probability is 0.0, but must lie in (0, 1], or be nan if unknown"),
    (Proposal(0, probability=1.5), "probability is 1.5, but must lie in (0, 1], or be nan if unknown"),
    (Proposal(0, regret=-0.5), "regret is -0.5, but must be finite and not negative"),
    ((0, 1.0), "action is (0, 1.0), but must be an index from 0 to 2"),
    (np.array([0, 1]), "action is array([0, 1]), but must be an index from 0 to 2"),
]


class Speaker:
    """Proposes whatever it is given."""

    name = "speaker"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def decide(self, context: Any) -> Any:
        return self.answer

    def learn(self, context: Any, action: Any, reward: float) -> None: ...


@pytest.mark.parametrize(("answer", "message"), NONSENSE, ids=[message for _, message in NONSENSE])
def test_a_proposal_that_makes_no_sense_is_a_failure_of_its_learner(answer: Any, message: str) -> None:
    context = np.full((3, 2), 0.5)
    portfolio = Portfolio([Speaker(answer), Constant(1)], BalancedElimination([Power(1.0)] * 2))
    assert portfolio.decide(context).learner == 1
    assert portfolio.health()["learners"][0]["last_error"].startswith(f"InvalidProposal: {message}")
    alone = Portfolio([Speaker(answer)], BalancedElimination([Power(1.0)]))
    with pytest.raises(NoLearnerAvailable, match=r"^no learner can play \(speaker: InvalidProposal: "):
        alone.decide(context)


def test_asynchronous_learners_and_tuples_are_refused_without_a_matrix_too() -> None:
    async def later() -> int:
        return 0

    for answer, message in ((later(), "must not be asynchronous"), ((0, 1), "must not be a tuple"), (nan, "finite")):
        portfolio = Portfolio([Speaker(answer)], BalancedElimination([Power(1.0)]))
        with pytest.raises(NoLearnerAvailable, match=message):
            portfolio.decide(None)


def test_a_context_that_nobody_can_use_is_the_callers_fault_and_changes_nothing() -> None:
    portfolio = Portfolio([OFUL(2), OFUL(3)], RealizedBalancing(2), fallback=0)
    portfolio.learn(portfolio.decide(np.full((2, 3), 0.5)), 0.5)
    before = saved(portfolio)
    for _ in range(10):
        with pytest.raises(InvalidArgument, match=r"^context has 1 columns, but must have at least dim = 3$"):
            portfolio.decide(np.full((2, 1), 0.5))
    assert saved(portfolio) == before


def test_the_fallback_plays_if_nobody_can() -> None:
    portfolio = Portfolio([Broken(0), Broken(1)], UCB1(2), fallback=lambda context: context + 1)
    for t in range(5):
        decision = portfolio.decide(t)
        assert (decision.learner, decision.learner_name, decision.action) == (None, None, t + 1)
        assert (decision.drawn is None, decision.propensity) == (t >= MAX_FAILURES, 1.0)  # then both are paused
        portfolio.learn(decision, 1.0)
    certificate = portfolio.certificate()
    assert (certificate.rounds, certificate.resolved_rounds, certificate.regret_upper) == (5, 3, 5.0)
    health = portfolio.health()
    assert (health["fallbacks"], health["unplayed"]) == (5, 2)
    assert [row["substituted"] for row in health["learners"]] == [row.plays for row in portfolio.standing()]
    portfolio.withdraw(portfolio.decide(0))
    assert portfolio.certificate().rounds == 5
    for name in portfolio.learner_names:
        portfolio.suspend(name)
    nobody = portfolio.decide(0)
    assert (nobody.drawn, nobody.learner, nobody.learner_probability, nobody.propensity) == (None, None, 1.0, 1.0)
    assert "3 of these rounds were drawn for no learner" in portfolio.describe()

    def fail(context: Any) -> int:
        raise ValueError("no default either")

    alone = Portfolio([Broken(0)], UCB1(1), fallback=fail)
    with pytest.raises(NoLearnerAvailable, match=r"and the fallback failed \(ValueError: no default either\)"):
        alone.decide(None)


async def asynchronous(context: Any) -> int:
    return 0


FALLBACKS: list[tuple[Any, str]] = [
    (lambda _: None, "fallback is None, but decide() must return"),
    (asynchronous, "fallback is a coroutine, but decide() must not be asynchronous"),
    (3, "fallback is 3, but an index must be from 0 to 2"),
    (1, "fallback is 1, but the mask of the offers excludes it"),
]


@pytest.mark.parametrize(("fallback", "message"), FALLBACKS, ids=[message for _, message in FALLBACKS])
def test_a_fallback_that_makes_no_sense_is_refused(fallback: Any, message: str) -> None:
    portfolio = Portfolio([OFUL(2)], UCB1(1), fallback=fallback)
    portfolio.suspend("OFUL(d=2)")
    before = saved(portfolio)
    with pytest.raises(NoLearnerAvailable, match=re.escape(message)):
        portfolio.decide(Offers(np.full((3, 2), 0.5), mask=[True, False, True]))
    assert saved(portfolio) == before


def test_a_fallback_that_cannot_be_saved_is_refused_before_it_is_needed() -> None:
    message = "fallback is a object, but must be a number"
    with pytest.raises(InvalidArgument, match=message):
        Portfolio([UCB(2)], UCB1(1), fallback=object())
    portfolio = Portfolio([UCB(2)], UCB1(1))
    with pytest.raises(InvalidArgument, match=message):
        portfolio.reconfigure(fallback=object())
    assert portfolio.settings.fallback is None


def test_no_action_that_the_mask_of_offers_excludes_is_played() -> None:
    offers = Offers(np.full((3, 2), 0.5), mask=[True, False, True])
    with pytest.raises(NoLearnerAvailable, match="action is 1, but the mask of the offers excludes it"):
        Portfolio([Recorder(1)], UCB1(1)).decide(offers)
    portfolio = Portfolio([OFUL(2)], UCB1(1), explore=0.5)
    decisions = [portfolio.decide(offers) for _ in range(60)]
    drawn = [decision for decision in decisions if decision.learner is None]
    assert {decision.action for decision in drawn} == {0, 2}
    assert all(decision.action_probability == 0.5 for decision in drawn)
    assert {decision.propensity for decision in decisions} == {0.25, 0.75}


def test_a_selector_without_available_works_until_a_learner_has_to_be_left_out() -> None:
    portfolio = Portfolio([Recorder(0), Recorder(1)], RoundRobin(2))
    portfolio.decide(None)
    portfolio.learners[1].failures["decide"] = 1
    decision = portfolio.decide(None)
    assert (decision.drawn, decision.learner) == (1, 0)
    portfolio.suspend("Recorder(0)")
    with pytest.raises(NoLearnerAvailable, match=r"choose\(\) of the selector takes no available="):
        portfolio.decide(None)


@pytest.mark.parametrize("needs_all", [lambda: Corral(2, rounds=100), None], ids=["Corral", "EpochBalancing"])
def test_selectors_that_ask_everybody_do_without_the_one_that_fails(needs_all: Any) -> None:
    class Moody(OFUL):
        moody = False

        def decide(self, context: Any, rng: Any = None) -> Proposal:
            if self.moody:
                raise RuntimeError("no luck")
            return super().decide(context, rng)

    learners = [OFUL(2), Moody(3)]
    selector = needs_all() if needs_all else EpochBalancing.for_learners(learners)
    portfolio = Portfolio(learners, selector)
    rng = np.random.default_rng(0)
    for t in range(60):
        Moody.moody = 20 <= t < 40
        decision = portfolio.decide(rng.uniform(-0.5, 0.5, (4, 3)))
        assert not (Moody.moody and decision.learner == 1)
        portfolio.learn(decision, float(rng.random()))
    assert sum(row.plays for row in portfolio.standing()) == 60
    assert portfolio.certificate().resolved_rounds == 60


@pytest.mark.parametrize("failing", ["decide", "learn"])
def test_pauses_grow_although_the_other_method_succeeds(failing: str) -> None:
    """The reported fault: updates of others' rounds, which succeeded, made the pauses of a broken learner short."""

    portfolio = recorders(2, share_data=True)
    portfolio.learners[0].failures[failing] = 10**6
    pauses = []

    def note(event: Any) -> None:
        if event.kind == "learner_suspended":
            pauses.append(event.data["until_round"] - portfolio.health()["rounds"])

    portfolio.on_event(note)
    for _ in range(2_000):
        portfolio.learn(portfolio.decide(None), 0.5)
    assert pauses == sorted(pauses) and pauses[-1] > 500


def test_pauses_grow_and_end() -> None:
    member = Member(None, "any")
    ends, round_ = [], 0
    for _ in range(MAX_FAILURES - 1):
        assert not member.failed(round_, "error", deciding=True)
    for _ in range(12):
        assert member.failed(round_, "error", deciding=True)
        ends.append(member.paused_until - round_ - 1)
        round_ = member.paused_until
    assert ends == [min(FIRST_PAUSE * 2**k, MAX_PAUSE) for k in range(12)]
    for _ in range(MIN_SUCCESSES):
        member.succeeded_deciding()
    assert not member.failed(round_, "error", deciding=True)


def test_a_learner_that_cannot_learn_is_suspended_too_and_deciding_does_not_excuse_it() -> None:
    portfolio = recorders(2)
    portfolio.learners[0].failures["learn"] = 10**6
    for _ in range(200):
        portfolio.learn(portfolio.decide(None), 0.5)
    plays = [row.plays for row in portfolio.standing()]
    assert plays[0] < 20 and sum(plays) == 200
    assert portfolio.health()["learners"][0]["state"] == "paused"
    assert len(portfolio.failed_updates) == plays[0]
    portfolio.learners[0].failures["learn"] = 0
    assert portfolio.retry_updates() == plays[0]
    portfolio.resume("Recorder(0)")
    assert portfolio.decide(None).learner == 0


def test_the_list_of_failed_updates_is_bounded() -> None:
    portfolio = recorders(2, share_data=True)
    portfolio.learners[1].failures["learn"] = 10**6
    for _ in range(MAX_FAILED_UPDATES + 50):
        portfolio.learn(portfolio.decide(None), 0.5)
    assert len(portfolio.failed_updates) == MAX_FAILED_UPDATES
    assert portfolio.health()["forgotten_updates"] == 50
    assert portfolio.failed_updates[0].round == 51


def test_all_paused_learners_are_tried_if_there_is_no_fallback() -> None:
    learner = Broken(0)
    portfolio = Portfolio([learner, Recorder(1)], UCB1(2))
    for _ in range(50):
        portfolio.learn(portfolio.decide(None), 1.0)
    assert portfolio.health()["learners"][0]["state"] == "paused"
    learner.fails = False
    portfolio.suspend("Recorder(1)")
    assert portfolio.decide(None).learner == 0


def test_a_suspended_learner_goes_on_learning_and_its_absence_is_no_loss_of_evidence() -> None:
    portfolio = recorders(2, share_data=True)
    portfolio.suspend("Recorder(0)")
    for _ in range(20):
        decision = portfolio.decide(None)
        assert decision.learner == 1
        portfolio.learn(decision, 0.5)
    assert len(portfolio.learners[0].updates) == 20
    assert portfolio.certificate().resolved_rounds == 20
    assert portfolio.describe().splitlines()[1].endswith("It is suspended.")
    portfolio.resume("Recorder(0)")
    assert portfolio.decide(None).learner == 0


def test_health_shows_where_time_goes() -> None:
    portfolio = Portfolio([UCB(2), UCB(2, scale=0.5)])
    for _ in range(10):
        portfolio.learn(portfolio.decide(None), 0.5)
    for row in portfolio.health()["learners"]:
        for calls in (row["decide"], row["learn"]):
            assert calls["calls"] >= 1 and 0.0 < calls["mean_seconds"] <= calls["longest_seconds"]
