"""What lets parts that are not made of kernels take part in the round loop, through their public methods alone.

Each function stands for one of the names that `rounds` declares; the objects here stand in the entries of a `World`.
"""

from __future__ import annotations

from math import isnan

import numpy as np

from equipoise.learner import Proposal, decider, regret_after
from equipoise.portfolio import Decision, Portfolio
from equipoise.problem import play
from equipoise.selector import Choice
from equipoise.selectors.evidence import TEACH
from equipoise.simulation.parts import Played, Recorded, Run, Turn, World
from equipoise.simulation.rounds import lacks_row
from equipoise.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, seek
from equipoise.types import Context


class OwnLearner:
    """A source: any problem, and any learner alone."""

    def __init__(self, problem, learner, lane: int) -> None:
        self.problem, self.learner, self.lane = problem, learner, lane
        self.decide = decider(learner)
        self.gap = gap_of(problem)


def gap_of(problem):
    return getattr(problem, "gap", lambda context, action: np.nan)


def play_alone(world: World, run: Run, turn: Turn) -> Played:
    source: OwnLearner = world.source
    problem, stream, n = source.problem, run.stream, turn.round - 1
    seek(stream, CONTEXTS + source.lane, n)
    context = problem.observe(stream.generator)
    seek(stream, LEARNERS + source.lane, n)
    proposal = source.decide(context, stream.generator)
    seek(stream, REWARDS + source.lane, n)
    reward, outcome = play(problem, context, proposal.action, stream.generator)
    gap = source.gap(context, proposal.action)
    regret = regret_after(source.learner, proposal.regret, outcome)
    source.learner.learn(context, proposal.action if outcome is None else outcome, reward)
    return Played(reward, gap, regret)


class OwnSelector:
    """Any selector, and the play that it has open."""

    def __init__(self, selector) -> None:
        self.selector = selector
        self.choice: Choice = Choice(-1, 0, 0.0)


def select_publicly(own: OwnSelector, stream: Stream, t: int) -> Turn:
    seek(stream, SELECTOR, t)
    own.choice = own.selector.choose(stream.generator)
    return Turn(own.choice.learner, own.choice.probability, TEACH, t)


def lacks_publicly(world: World, run: Run, turn: Turn) -> bool:
    """Whether the tape is too short; if so the selector chooses again later."""
    short = lacks_row(world, run, turn)
    if short:
        own: OwnSelector = world.selector
        own.selector.withdraw(own.choice)
    return short


def settle_publicly(world: World, run: Run, turn: Turn, played: Played) -> None:
    own: OwnSelector = world.selector
    own.selector.observe(own.choice, {turn.learner: Proposal(None, regret=float(played.regret))})
    own.selector.credit(own.choice, float(played.reward))


def certified_publicly(own: OwnSelector) -> float:
    return float(own.selector.certificate().regret_upper)


class OwnPortfolio:
    """A portfolio on a problem: source and selector at once, as it decides only when it sees the context."""

    def __init__(self, problem, portfolio: Portfolio) -> None:
        self.problem, self.selector = problem, portfolio
        self.gap = gap_of(problem)
        self.record = getattr(problem, "record", None)
        self.context: Context = None
        self.decision: Decision | None = None


def select_in_portfolio(own: OwnPortfolio, stream: Stream, t: int) -> Turn:
    seek(stream, CONTEXTS, t)
    own.context = own.problem.observe(stream.generator)
    own.decision = own.selector.decide(own.context)
    return Turn(own.decision.learner, own.decision.probability, TEACH, t)


def play_in_portfolio(world: World, run: Run, turn: Turn) -> Played:
    own: OwnPortfolio = world.source
    assert own.decision is not None
    action, context = own.decision.action, own.context
    seek(run.stream, REWARDS, turn.round)
    reward, outcome = play(own.problem, context, action, run.stream.generator)
    gap = own.gap(context, action)
    regret = regret_after(own.selector.learners[turn.learner], np.nan, outcome)
    own.selector.learn(own.decision, reward, outcome, None if isnan(regret) else regret)
    if own.record is not None:
        own.record(turn.learner, action, reward)
    return Played(reward, gap, regret)


def settle_nothing(world: World, run: Run, turn: Turn, played: Played) -> None:
    """The portfolio has learned already."""
