"""What selectors need of learners: refused where it is lacking, and served by a portfolio where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.bounds import Observed, Power
from equipoise.compatibility import NEEDS, provided_by
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS, UCBC, StochasticCorral, StochasticEXP3P, TsallisCorral
from equipoise.learner import ACCEPTS, PROVIDES, part_name
from equipoise.learners import LEARNERS, OFUL, UCB
from equipoise.learners._core.linear_class import LinearClass, linear_class
from equipoise.problems import KArmedBandit, LinearBandit
from equipoise.selector import NEEDS as DECLARED_NEEDS
from equipoise.selectors import SELECTORS, Corral, EpochBalancing
from equipoise.simulation.tapes import why_not_tapes
from tests.episodes import random_trajectory, start_state
from tests.learners.subjects import EPISODIC, SUBJECTS
from tests.recorders import saved, simulated
from tools.pages.command import write_pages
from tools.pages.compatibility import PROVIDED, page

ROOT = Path(__file__).resolve().parents[1]


class Bare:
    """A learner of two methods, which has nothing that a selector may need."""

    def decide(self, context):
        return 0

    def learn(self, context, action, reward):
        pass


EPISODES = {cls.__name__ for cls, _ in EPISODIC}
SETTINGS = {cls.__name__: (cls, settings) for cls, settings, *_ in reversed([*SUBJECTS, *EPISODIC])}
MAKERS: dict[str, Any] = {
    **{name: lambda made=made: made[0](**made[1]) for name, made in SETTINGS.items()},
    "Bare": Bare,
}


# What every selector needs of its learners and what every learner has, by the definitions of the algorithms. The tests
# below compare both tables with what selectors and learners do, then with what they declare; and the matrix of all
# pairs expects what the tables say. Nothing here is read from the package's declarations.
EVERY_SELECTOR, EVERY_LEARNER = {**SELECTORS, **RIVAL_SELECTORS}, {**LEARNERS, **RIVAL_LEARNERS}
SELECTORS_NEED: dict[str, set[str]] = {
    "BalancedElimination": {"bounds"},
    "EpochBalancing": {"actions", "lower", "nested"},
    "AdversarialElimination": {"actions", "lower", "nested"},
    "RealizedBalancing": set(),
    "CounterfactualBalancing": {"actions"},
    "RegretBalancing": {"bounds"},
    "DynamicBalancing": {"bounds"},
    "D3RB": set(),
    "ED2RB": set(),
    "ExploreCommitExploit": {"bounds"},
    "RateAdaptive": set(),
    "Uniform": set(),
    "Corral": {"weight"},
    "TsallisCorral": {"weight"},
    "StochasticCorral": set(),
    "StochasticEXP3P": set(),
    "UCBC": {"bounds"},
    "GreedyMean": set(),
    "UCB1": set(),
    "EXP3": set(),
    "Oracle": set(),
}
ANY_LEARNER = {"bounds", "actions"}  # needs that no learner can fail to meet
LEARNERS_HAVE: dict[str, set[str]] = {
    "OFUL": {"lower", "regret", "weight", "off_policy", "saving", "nested"},
    "DisjointOFUL": {"lower", "regret", "weight", "off_policy", "saving"},
    "LinearThompson": {"lower", "regret", "weight", "off_policy", "saving", "nested"},
    "UCB": {"lower", "regret", "weight", "saving"},
    "EpsilonGreedy": {"weight", "saving"},
    "SquareCB": {"off_policy", "saving"},
    "LogisticUCB": {"weight", "off_policy", "saving"},
    "LogisticThompson": {"weight", "off_policy", "saving"},
    "Constant": {"weight", "off_policy", "saving"},
    "Scheduled": {"regret", "saving"},
    "ModCB": {"saving", "nested"},
    "OSOM": {"saving", "nested"},
    "ALBNorm": {"lower", "regret", "off_policy", "saving", "nested"},
    "ALBDim": {"saving"},
    "MisspecificationAdaptive": {"saving"},
    "LSVI_UCB": {"regret", "saving"},
    "UCBVI": {"regret", "saving"},
    "QLearning": {"saving"},
    "Eleanor": {"saving"},
    "Bare": set(),
}
COMPARED = {"lower", "regret", "weight", "off_policy", "saving", "nested"}
SEEN = COMPARED - {"off_policy"}  # that a learner may learn from the rounds of others cannot be seen in what it does
BOUND: dict[str, Any] = {"power": Power(1.0), "observed": Observed()}
REFUSAL = {
    "weight": "importance weights",
    "lower": "a lower bound",
    "nested": "nested model classes",
    "regret": "no 'regret'",
}


def pairs() -> Iterator[tuple[str, str, str, set[str]]]:
    """Every selector with every learner; with both kinds of bounds where the selector takes bounds."""
    for selector, needs in SELECTORS_NEED.items():
        for learner, has in LEARNERS_HAVE.items():
            for bound in BOUND if "bounds" in needs else ("",):
                unmet = (needs | ({"regret"} if bound == "observed" else set())) - ANY_LEARNER - has
                yield selector, learner, bound, unmet


PAIRS = list(pairs())


def selector_for(name: str, learner: str, bound: str) -> Any:
    """A selector of this class for two learners like the named one."""
    cls, needs = EVERY_SELECTOR[name], SELECTORS_NEED[name]
    others: dict[str, Any] = {"best": 0} if name == "Oracle" else {}
    if cls in (Corral, StochasticCorral, StochasticEXP3P, TsallisCorral, UCBC) or "nested" in needs:
        others["rounds"] = 100
    if "nested" in needs:
        stated = "nested" in LEARNERS_HAVE[learner]
        return cls([linear_class(MAKERS[learner]()) if stated else LinearClass("other", 2)] * 2, **others)
    return cls([BOUND[bound]] * 2 if bound else 2, **others)


@pytest.mark.parametrize("selector_class", SELECTORS_NEED)
def test_every_pair_is_refused_exactly_when_a_need_is_not_met(selector_class: str) -> None:
    of_the_class = [pair for pair in PAIRS if pair[0] == selector_class]
    found = {
        (learner, bound): mistaken(selector_class, learner, bound, unmet) for _, learner, bound, unmet in of_the_class
    }
    assert {pair: fault for pair, fault in found.items() if fault} == {}


def mistaken(selector_class: str, learner_class: str, bound: str, unmet: set[str]) -> str:
    """What is wrong about how a portfolio takes or refuses the pair; empty if nothing is."""
    learners = [MAKERS[learner_class](), MAKERS[learner_class]()]
    selector = selector_for(selector_class, learner_class, bound)
    config: dict[str, Any] = getattr(learners[0], "config", dict)()
    stated = config.get("reward_range")  # the portfolio must state the same
    units = stated if not unmet and "nested" not in selector.needs else None
    try:
        portfolio = simulated(learners, selector, reward_range=units)
    except IncompatibleLearner as error:
        refusal = str(error)
        named = repr(part_name(learners[0])) in refusal and part_name(selector) in refusal
        explained = any(REFUSAL[need] in refusal for need in unmet)
        return "" if unmet and named and explained else f"refused: {refusal}"
    return "" if not unmet and portfolio.learners == tuple(learners) else "accepted"


def test_the_matrix_is_complete_and_without_repeats() -> None:
    assert set(SELECTORS_NEED) == set(EVERY_SELECTOR)
    assert set(LEARNERS_HAVE) == {*EVERY_LEARNER, "Bare"} == set(MAKERS)
    with_bounds = sum("bounds" in needs for needs in SELECTORS_NEED.values())
    assert len(PAIRS) == len({pair[:3] for pair in PAIRS}) == (len(EVERY_SELECTOR) + with_bounds) * len(MAKERS)


class Watched(OFUL):
    """Has all that a selector may need, and counts what is asked of it."""

    asked, weights, n_restored = 0, frozenset[float](), 0

    def decide(self, context, rng=None):
        self.asked += 1
        return super().decide(context, rng)

    def learn(self, context, action, reward, weight=1.0):
        self.weights = self.weights | {weight}
        super().learn(context, action, reward, weight)

    def restore(self, state):
        self.n_restored += 1
        super().restore(state)


@pytest.mark.parametrize("selector_class", sorted(SELECTORS_NEED.keys() - {"StochasticCorral", "StochasticEXP3P"}))
def test_a_selector_does_what_the_table_says_that_it_needs(selector_class: str) -> None:
    """What 60 rounds with two learners use of them."""
    needs, rng = SELECTORS_NEED[selector_class], np.random.default_rng(4)
    selector = selector_for(selector_class, "OFUL", "power" if "bounds" in needs else "")
    learners = [Watched(**SETTINGS["OFUL"][1]) for _ in range(2)]
    portfolio = simulated(learners, selector, seed=1)
    all_asked = True
    for _ in range(60):
        before = {i: learners[i].asked for i in (selector.active if "actions" in needs else (0, 1))}
        decision = portfolio.decide(0.2 * rng.standard_normal((3, 5)))
        all_asked &= all(learners[i].asked > count for i, count in before.items())
        portfolio.learn(decision, float(rng.random()))
    assert all_asked == bool(needs & {"actions", "weight"})
    assert any(learner.weights - {1.0} for learner in learners) == ("weight" in needs)
    assert not any(learner.n_restored for learner in learners)


@pytest.mark.parametrize("selector_class", SELECTORS_NEED)
def test_bounds_classes_and_lower_bounds_are_refused_or_required(selector_class: str) -> None:
    cls, needs = EVERY_SELECTOR[selector_class], SELECTORS_NEED[selector_class]
    if needs & {"bounds", "nested"}:
        with pytest.raises(InvalidArgument, match="bounds" if "bounds" in needs else "classes"):
            cls(2, **({"rounds": 100} if cls is UCBC else {}))
    selector = selector_for(selector_class, "OFUL", "power" if "bounds" in needs else "")
    without_lower = {i: Proposal(0, regret=0.1) for i in range(2)}
    choice = selector.choose(np.random.default_rng(0))
    if "lower" in needs:
        with pytest.raises(InvalidArgument, match="lower"):
            selector.observe(choice, without_lower)
    else:
        selector.observe(choice, without_lower)


def seen_of(name: str) -> set[str]:
    """What a learner shows of itself in 40 rounds, whatever it declares."""
    learner, twin, rng = MAKERS[name](), MAKERS[name](), np.random.default_rng(7)
    context_of = next((source for cls, _, source in SUBJECTS if cls.__name__ == name), start_state)
    seen, can_save = {"lower", "regret", "weight", "saving", "nested"}, hasattr(learner, "state")
    for _ in range(40):
        context = context_of(rng)
        decided = learner.decide(context) if name == "Bare" else learner.decide(context, rng)
        proposal = decided if isinstance(decided, Proposal) else Proposal(decided)
        told = random_trajectory(context, proposal.action, rng) if name in EPISODES else proposal.action
        regret = learner.regret_of(told) if hasattr(learner, "regret_of") else proposal.regret
        seen -= {"lower"} if not np.isfinite(proposal.lower) else set()
        seen -= {"regret"} if np.isnan(regret) else set()
        before = same(learner) if can_save else None
        try:
            learner.learn(context, told, 0.5, 0.0)
            seen -= set() if can_save and same(learner) == before else {"weight"}
        except (InvalidArgument, TypeError):
            seen.discard("weight")
        learner.learn(context, told, told.total_reward if name in EPISODES else 0.5)
    if can_save:
        twin.restore(learner.state())
    seen -= set() if can_save and same(twin) == same(learner) else {"saving"}
    try:
        linear_class(learner)
    except InvalidArgument:
        seen.discard("nested")
    return seen


def same(learner: Any) -> dict[str, bytes]:
    return {key: np.asarray(value).tobytes() for key, value in learner.state().items()}


@pytest.mark.parametrize("learner_class", LEARNERS_HAVE)
def test_a_learner_shows_what_the_table_says_that_it_has(learner_class: str) -> None:
    assert seen_of(learner_class) == LEARNERS_HAVE[learner_class] & SEEN


@pytest.mark.parametrize("selector_class", SELECTORS_NEED)
def test_declared_needs_are_those_of_the_table(selector_class: str) -> None:
    assert EVERY_SELECTOR[selector_class].needs == SELECTORS_NEED[selector_class]


@pytest.mark.parametrize("learner_class", LEARNERS_HAVE)
def test_what_a_learner_declares_is_what_the_table_says(learner_class: str) -> None:
    assert provided_by(MAKERS[learner_class]()) & COMPARED == LEARNERS_HAVE[learner_class]


def test_the_pairs_cover_refusal_and_consent_of_every_need() -> None:
    """So that the matrix is not empty."""
    for need in set(NEEDS) - ANY_LEARNER:
        assert {need in has for has in LEARNERS_HAVE.values()} == {True, False}
        assert any(need in needs for needs in SELECTORS_NEED.values())
    assert {need for *_, unmet in PAIRS for need in unmet} == {*NEEDS, "regret"} - ANY_LEARNER


def test_the_tables_know_every_word() -> None:
    assert set(NEEDS) == DECLARED_NEEDS
    assert set(PROVIDED) == ACCEPTS | PROVIDES | {"saving", "nested"}


def test_the_page_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8") == page()
    monkeypatch.chdir(tmp_path)
    write_pages(["compatibility"])
    assert (tmp_path / "docs" / "compatibility.md").read_text(encoding="utf-8") == page()


def test_sharing_is_refused_where_learners_are_told_in_another_way() -> None:
    with pytest.raises(InvalidArgument, match="share_data is True, but must stay None: Corral decides itself"):
        Portfolio([OFUL(2), OFUL(3)], Corral(2, rounds=50), share_data=True)


@pytest.mark.parametrize("name", RIVAL_SELECTORS)
def test_a_portfolio_refuses_selectors_that_run_in_simulations_only(name: str) -> None:
    selector = selector_for(name, "OFUL", "power" if "bounds" in SELECTORS_NEED[name] else "")
    message = f"selector is a {name}, which runs in simulate() only, not in a portfolio"
    with pytest.raises(InvalidArgument) as error:
        Portfolio([OFUL(2), OFUL(2)], selector)
    assert str(error.value) == message


@pytest.mark.parametrize("name", RIVAL_LEARNERS)
def test_a_portfolio_refuses_learners_that_run_in_simulations_only(name: str) -> None:
    message = f"learner is a {name}, which runs in simulate() only, not in a portfolio"
    with pytest.raises(InvalidArgument) as error:
        Portfolio([OFUL(2), MAKERS[name]()])
    assert str(error.value) == message


def test_copies_must_be_copies() -> None:
    simulated([UCB(2), UCB(2, name="twin"), OFUL(2), OFUL(2)], UCBC([Power(1.0)] * 2, rounds=9, copies=2))
    with pytest.raises(
        IncompatibleLearner, match=r"UCB-C needs 2 copies of every learner, but 'OFUL\(d=3\)' \(learner 3\)"
    ):
        simulated([UCB(2), UCB(2), OFUL(2), OFUL(3)], UCBC([Power(1.0)] * 2, rounds=9, copies=2))


def test_tapes_are_refused_with_the_reason() -> None:
    problem = KArmedBandit([0.2, 0.5])
    reasons = {
        cls: why_not_tapes(problem, cls(2, rounds=9), False) for cls in (Corral, TsallisCorral, StochasticCorral)
    }
    assert reasons == {
        Corral: "Corral gives learners importance-weighted rewards",
        TsallisCorral: "Tsallis corral gives learners importance-weighted rewards",
        StochasticCorral: "Stochastic corral plays earlier policies of its learners",
    }
    assert why_not_tapes(problem, UCBC([Power(1.0)], rounds=9), False) is None


class Told:
    """Proposes its own number and keeps its updates."""

    randomized = False
    accepts = frozenset({"weight"})

    def __init__(self, number: int) -> None:
        self.number, self.updates, self.failures = number, list[tuple[Any, ...]](), 0

    def decide(self, context):
        return self.number

    def learn(self, context, action, reward, weight=1.0):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not now")
        self.updates.append((context, action, reward, weight))


@pytest.mark.parametrize("cls", [Corral, TsallisCorral])
def test_every_learner_is_told_of_every_round_with_its_weight(cls: Any) -> None:
    learners = [Told(i) for i in range(3)]
    selector = cls(3, rounds=60)
    portfolio = simulated(learners, selector, seed=4)
    for t in range(60):
        decision = portfolio.decide(t)
        assert decision.action == decision.learner
        portfolio.learn(decision, 0.25)
        for i, learner in enumerate(learners):
            expected = (t, i, 0.25, 1 / decision.learner_probability) if i == decision.learner else (t, i, 0.0, 0.0)
            assert learner.updates[-1] == expected
    assert all(len(learner.updates) == 60 for learner in learners)


def test_a_learner_that_fails_is_told_again_and_nobody_twice() -> None:
    learners = [Told(i) for i in range(3)]
    portfolio = Portfolio(learners, Corral(3, rounds=60), seed=4)
    decision = portfolio.decide(None)
    learners[2].failures = 1
    portfolio.learn(decision, 0.5)
    assert [len(learner.updates) for learner in learners] == [1, 1, 0]
    assert portfolio.retry_updates() == 1
    assert [len(learner.updates) for learner in learners] == [1, 1, 1]


def test_a_saved_portfolio_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    problem, rng = LinearBandit(6, 3, 4), np.random.default_rng(2)
    portfolio = Portfolio([OFUL(3), OFUL(3)], Corral(2, rounds=200), seed=3)
    contexts = [problem.observe(rng) for _ in range(120)]
    waiting = []
    for t in range(61):
        decision = portfolio.decide(contexts[t])
        portfolio.learn(decision, 0.1 * (decision.action + 1)) if t % 5 else waiting.append(decision)
    portfolio.save(tmp_path / "half")
    copy = Portfolio.load(tmp_path / "half")
    for whole in (portfolio, copy):
        for decision in waiting:
            whole.learn(decision.id, 0.1 * (decision.action + 1))
    for t in range(61, 120):
        pair = portfolio.decide(contexts[t]), copy.decide(contexts[t])
        assert str(pair[0][1:]) == str(pair[1][1:])
        for whole, decision in zip((portfolio, copy), pair, strict=True):
            whole.learn(decision, 0.1 * (decision.action + 1))
    assert saved(portfolio) == saved(copy)


def test_all_learners_propose_where_one_of_them_may_be_told_it_did_not_play() -> None:
    asked = []

    class Asked(Told):
        def decide(self, context):
            asked.append(self.number)
            return Proposal(self.number)

    portfolio = Portfolio([Asked(0), Asked(1)], Corral(2, rounds=10))
    portfolio.decide(None)
    assert sorted(asked) == [0, 1]


def test_the_need_for_nested_classes_names_selector_and_learner() -> None:
    with pytest.raises(
        IncompatibleLearner,
        match=r"Epoch balancing needs learners with nested model classes: learner 'UCB' has no model_class",
    ):
        Portfolio([UCB(2), UCB(2)], EpochBalancing([LinearClass("a", 2), LinearClass("b", 4)]))
