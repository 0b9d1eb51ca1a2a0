"""What lets parts that are not made of kernels take part in the round loop, through their public methods alone.

Each function stands for one of the names that `rounds` declares; the objects here stand in the entries of a `World`.
"""

from __future__ import annotations

from math import isnan, nan

from equipoise.kernels.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, Proposal
from equipoise.portfolio import Decision, Portfolio
from equipoise.problem import AdaptedProblem, Problem
from equipoise.selector import Choice, Selector
from equipoise.selectors._core.evidence import TEACH
from equipoise.simulation.parts import Played, Run, Turn, World
from equipoise.simulation.rounds import lacks_row
from equipoise.types import Context


class OwnLearner:
    """A source: any problem, and any learner alone."""

    def __init__(self, problem: Problem, learner: MinimalLearner, lane: int) -> None:
        self.problem, self.learner, self.lane = AdaptedProblem(problem), AdaptedLearner(learner), lane


def play_alone(world: World, run: Run, turn: Turn) -> Played:
    source: OwnLearner = world.source
    problem, learner, stream, n = source.problem, source.learner, run.stream, turn.round - 1
    seek(stream, CONTEXTS + source.lane, n)
    context = problem.observe(stream.generator)
    seek(stream, LEARNERS + source.lane, n)
    proposal = learner.decide(context, stream.generator)
    seek(stream, REWARDS + source.lane, n)
    reward, outcome = problem.play(context, proposal.action, stream.generator)
    gap, regret = problem.gap(context, proposal.action), learner.regret_after(proposal.regret, outcome)
    learner.learner.learn(context, proposal.action if outcome is None else outcome, reward)
    return Played(reward, gap, regret)


class OwnSelector:
    """Any selector, and the play that it has open."""

    def __init__(self, selector: Selector) -> None:
        self.selector = selector
        self.choice = Choice(-1, 0, 0.0)


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


def certified_publicly(own: OwnSelector | OwnPortfolio) -> float:
    return float(own.selector.certificate().regret_upper)


class OwnPortfolio:
    """A portfolio on a problem: source and selector at once, as it decides only when it sees the context."""

    def __init__(self, problem: Problem, portfolio: Portfolio) -> None:
        self.problem, self.selector = AdaptedProblem(problem), portfolio
        self.learners = [AdaptedLearner(learner) for learner in portfolio.learners]
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
    problem, context, action = own.problem, own.context, own.decision.action
    seek(run.stream, REWARDS, turn.round)
    reward, outcome = problem.play(context, action, run.stream.generator)
    gap, regret = problem.gap(context, action), own.learners[turn.learner].regret_after(nan, outcome)
    own.selector.learn(own.decision, reward, outcome, None if isnan(regret) else regret)
    problem.record(turn.learner, action, reward)
    return Played(reward, gap, regret)


def settle_nothing(world: World, run: Run, turn: Turn, played: Played) -> None:
    """The portfolio has learned already."""
