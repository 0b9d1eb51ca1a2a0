"""Adapters that run learners, selectors and problems without kernels in the round loop, through their public methods.

Each function implements one of the hooks that `rounds` declares; the classes here are fields of `Components`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isnan
from typing import TypeAlias

from equipoise.certificates import AnyElimination
from equipoise.kernels.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, Proposal
from equipoise.portfolio import Decision, Portfolio
from equipoise.problem import AdaptedProblem, Problem
from equipoise.selector import Choice, Selector
from equipoise.selectors._core.evidence import TEACH
from equipoise.simulation.parts import Components, Played, Run, Turn
from equipoise.simulation.rounds import tape_exhausted
from equipoise.types import Context

OnElimination: TypeAlias = Callable[[AnyElimination], None]


def ignore(elimination: AnyElimination) -> None:
    """The callback of runs that read eliminations from the selector, or not at all."""


class LearnerSource:
    """A source: any problem with one learner that plays alone."""

    def __init__(self, problem: Problem, learner: MinimalLearner, lane: int, greedy: bool) -> None:
        self.problem, self.learner, self.lane = AdaptedProblem(problem), AdaptedLearner(learner), lane
        self.greedy = greedy  # whether it plays its greedy actions


def play_alone(components: Components, run: Run, turn: Turn) -> Played:
    source: LearnerSource = components.source
    problem, learner, stream, n = source.problem, source.learner, run.stream, turn.round - 1
    seek(stream, CONTEXTS + source.lane, n)
    context = problem.observe(stream.generator)
    seek(stream, LEARNERS + source.lane, n)
    proposal = learner.decide(context, stream.generator)
    action = proposal.greedy if source.greedy else proposal.action
    seek(stream, REWARDS + source.lane, n)
    reward, outcome = problem.play(context, action, stream.generator)
    gap, regret = problem.gap(context, action), learner.regret_after(proposal.regret, outcome)
    learner.learner.learn(context, action if outcome is None else outcome, reward)
    problem.record(0, action, reward)
    return Played(reward, gap, regret)


class SelectorAdapter:
    """Any selector with its open play; passes on every elimination that it returns."""

    def __init__(self, selector: Selector, on_elimination: OnElimination) -> None:
        self.selector = selector
        self.choice = Choice(-1, 0, 0.0)
        self._on_elimination = on_elimination

    def announce(self, eliminations: Iterable[AnyElimination]) -> None:
        for elimination in eliminations:
            self._on_elimination(elimination)


def select_by_method(adapter: SelectorAdapter, stream: Stream, t: int) -> Turn:
    seek(stream, SELECTOR, t)
    adapter.choice = adapter.selector.choose(stream.generator)
    learner, _, probability = adapter.choice[:3]
    return Turn(learner, probability, TEACH, t, learner, adapter.choice.greedy)


def withdraw_if_exhausted(components: Components, run: Run, turn: Turn) -> bool:
    """Whether the tape is too short; if so, the choice is withdrawn and made again later."""
    short = tape_exhausted(components, run, turn)
    if short:
        adapter: SelectorAdapter = components.selector
        adapter.announce(adapter.selector.withdraw(adapter.choice))
    return short


def deliver_by_method(components: Components, run: Run, turn: Turn, played: Played) -> None:
    adapter: SelectorAdapter = components.selector
    adapter.selector.observe(adapter.choice, {turn.learner: Proposal(None, regret=float(played.regret))})
    adapter.announce(adapter.selector.credit(adapter.choice, float(played.reward)))


def certified_by_method(adapter: SelectorAdapter | PortfolioSource) -> float:
    return float(adapter.selector.certificate().regret_upper)


class PortfolioSource:
    """A portfolio on a problem; both source and selector, because it decides when it sees the context."""

    def __init__(self, problem: Problem, portfolio: Portfolio) -> None:
        self.problem, self.selector = AdaptedProblem(problem), portfolio
        self.context: Context = None
        self.decision: Decision | None = None


def select_in_portfolio(adapter: PortfolioSource, stream: Stream, t: int) -> Turn:
    seek(stream, CONTEXTS, t)
    adapter.context = adapter.problem.observe(stream.generator)
    adapter.decision = adapter.selector.decide(adapter.context)
    decision = adapter.decision
    i = decision.drawn
    assert i is not None  # without an exploration floor every round is drawn for a learner
    return Turn(i, decision.learner_probability * decision.action_probability, TEACH, t, i, False)


def play_in_portfolio(components: Components, run: Run, turn: Turn) -> Played:
    adapter: PortfolioSource = components.source
    assert adapter.decision is not None
    problem, context, action = adapter.problem, adapter.context, adapter.decision.action
    seek(run.stream, REWARDS, turn.round)
    reward, outcome = problem.play(context, action, run.stream.generator)
    gap, regret = problem.gap(context, action), adapter.selector.regret_of(adapter.decision, outcome)
    adapter.selector.learn(adapter.decision, reward, outcome, None if isnan(regret) else regret)
    problem.record(turn.learner, action, reward)
    return Played(reward, gap, regret)


def deliver_nothing(components: Components, run: Run, turn: Turn, played: Played) -> None:
    """Nothing to do: the portfolio has already learned."""
