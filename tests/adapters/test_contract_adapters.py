"""Every adapter keeps the contract of a learner, resumes exactly, and is rebuilt from a file alone."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, load, save
from equipoise.adapters import ADAPTERS, EXPLORATIONS, MODELS
from equipoise.errors import IncompatibleLearner
from equipoise.learners import LEARNERS, UCB
from equipoise.storage.registry import registered_classes
from equipoise.testing import check_learner
from equipoise.testing.learners import CHECKS, random_actions
from tests.adapters.subjects import CASES, SUBJECTS, Subject, needs

FOR_MATRICES = {
    *("bad_contexts_are_refused_and_change_nothing", "bad_actions_are_refused_and_change_nothing"),
    *("offers_are_their_matrix", "a_mask_leaves_offers_out"),
}


@pytest.mark.slow
@pytest.mark.parametrize("subject", CASES)
def test_adapter_keeps_the_contract(subject: Subject) -> None:
    names = {name.replace(" ", "_") for name in check_learner(subject.make, subject.contexts)}
    left_out = {check.__name__ for check in CHECKS} - names
    learner = subject.make()
    expected = set() if subject.contexts is random_actions else set(FOR_MATRICES)
    expected |= set() if "probability" in learner.accepts else {"probabilities_are_learned_or_refused"}
    expected |= set() if "pmf" in learner.provides else {"pmf_is_the_distribution_of_its_decisions"}
    assert left_out == expected


def play(learner: Any, subject: Subject, rounds: range) -> list[Any]:
    """The proposals of these rounds; contexts and rewards depend on the round alone."""
    proposals = []
    for t in rounds:
        rng = np.random.default_rng([t, 7])
        context = subject.contexts(rng)
        proposals.append(learner.decide(context, rng))
        learner.learn(context, proposals[-1].action, float(rng.random()))
    return proposals


@pytest.mark.slow
@pytest.mark.parametrize("subject", CASES)
def test_file_alone_restarts_it_exactly(subject: Subject, tmp_path: Path) -> None:
    learner = subject.make()
    play(learner, subject, range(53))
    save(learner, tmp_path / "learner.eqp")
    copies = [load(tmp_path / "learner.eqp"), pickle.loads(pickle.dumps(learner))]
    expected = play(learner, subject, range(53, 90))
    for copy in copies:
        # As text, in which an unknown probability equals another.
        assert repr(play(copy, subject, range(53, 90))) == repr(expected)
        assert copy == learner


@pytest.mark.slow
@pytest.mark.parametrize("subject", CASES)
def test_units_of_a_portfolio_are_those_of_a_learner_that_states_them(subject: Subject, tmp_path: Path) -> None:
    learner, units = subject.make(), {"reward_range": (-1.0, 2.0), "noise": 0.5}
    stated = type(learner)(**{**learner.config(), "reward_range": units["reward_range"]})
    learner.configure(**units)
    learner.configure(**units)  # changes nothing, as these are its units
    assert repr(play(learner, subject, range(20))) == repr(play(stated, subject, range(20)))
    save(learner, tmp_path / "learner.eqp")
    copies = [load(tmp_path / "learner.eqp"), pickle.loads(pickle.dumps(learner)), deepcopy(learner)]
    expected = repr(play(stated, subject, range(20, 40)))
    for copy in (learner, *copies):
        assert copy.reward_range == units["reward_range"]
        assert repr(play(copy, subject, range(20, 40))) == expected
        with pytest.raises(IncompatibleLearner):
            copy.configure(reward_range=(0.0, 5.0))


@pytest.mark.parametrize("subject", [SUBJECTS["sgd"], SUBJECTS["vw squarecb"]], ids=["sgd", "vw"])
def test_probabilities_are_those_of_the_pmf(subject: Subject) -> None:
    pytest.importorskip(subject.library, reason=f"{subject.library} is not installed")
    learner = subject.make()
    play(learner, subject, range(20))
    context, drawn = random_actions(np.random.default_rng(1)), np.random.default_rng(2)
    pmf = learner.pmf(context)
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12) and (pmf > 0).all()
    proposals = [learner.decide(context, drawn) for _ in range(2_000)]
    assert {proposal.probability for proposal in proposals} == {float(pmf[proposal.action]) for proposal in proposals}
    shares = np.bincount([proposal.action for proposal in proposals], minlength=len(pmf)) / 2_000
    # Five standard deviations: each share fails with probability below 1e-6.
    assert (np.abs(shares - pmf) <= 5 * np.sqrt(pmf * (1 - pmf) / 2_000)).all()


@needs("sklearn")
@needs("vowpalwabbit")
def test_portfolio_of_several_libraries_restarts_from_its_file(tmp_path: Path) -> None:
    portfolio = Portfolio([SUBJECTS["sgd"].make(), SUBJECTS["vw softmax"].make(), UCB(6)], seed=4)
    rng = np.random.default_rng(3)
    contexts, rewards = [random_actions(rng) for _ in range(60)], rng.random(60)
    for context, reward in zip(contexts[:30], rewards, strict=False):
        portfolio.learn(portfolio.decide(context), float(reward))
    portfolio.save(tmp_path / "portfolio.eqp")
    restarted = Portfolio.load(tmp_path / "portfolio.eqp")
    for context, reward in zip(contexts[30:], rewards[30:], strict=True):
        decisions = [each.decide(context) for each in (portfolio, restarted)]
        assert decisions[0][1:] == decisions[1][1:]  # ids of decisions are random
        for each, decision in zip((portfolio, restarted), decisions, strict=True):
            each.learn(decision, float(reward))


def test_adapters_are_registered_beside_the_learners() -> None:
    assert dict(registered_classes("learners")) == {**LEARNERS, **ADAPTERS}
    assert not set(ADAPTERS) & set(LEARNERS)
    for registry in (ADAPTERS, MODELS, EXPLORATIONS):
        assert {name: cls.__name__ for name, cls in registry.items()} == {name: name for name in registry}
    makers = {subject.library for subject in SUBJECTS.values()}
    assert makers == {"sklearn", "lightgbm", "xgboost", "river", "vowpalwabbit", "mabwiser", "torch"}
