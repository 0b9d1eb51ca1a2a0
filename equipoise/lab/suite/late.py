"""Runs with late and lost rewards: every round is decided on what has arrived before it."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Sequence
from math import isfinite, nan
from time import process_time
from typing import Any, TypeAlias

import numpy as np

from equipoise.kernels.streams import CONTEXTS, LEARNERS, REWARDS, Stream, seek
from equipoise.learner import Learner
from equipoise.portfolio import Decision, Portfolio
from equipoise.portfolio.events import logger
from equipoise.problem import FullProblem
from equipoise.selector import Selector
from equipoise.simulation.parts import Curves, open_run
from equipoise.types import Action, Array, Context, Integers


class LateLearner:
    """One learner alone; `decide` returns who plays, its action and the ticket by which it learns."""

    n_learners = 1

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def decide(self, context: Context, stream: Stream, t: int) -> tuple[int, Action, tuple[Context, Action]]:
        seek(stream, LEARNERS, t)
        action = self.learner.decide(context, stream.generator).action
        return 0, action, (context, action)

    def learn(self, ticket: tuple[Context, Action], reward: float) -> None:
        self.learner.learn(*ticket, reward)

    def certified(self) -> float:
        return nan


class LatePortfolio:
    """A portfolio; its selector uses late rewards as it does in production."""

    def __init__(self, learners: Sequence[Learner], selector: Selector, seed: int, share_data: bool | None) -> None:
        self.portfolio = Portfolio(learners, selector, seed=seed, share_data=share_data)
        self.n_learners = len(learners)

    def decide(self, context: Context, stream: Stream, t: int) -> tuple[int, Action, Decision]:
        decision = self.portfolio.decide(context)
        assert decision.learner is not None  # without a fallback a learner plays every round
        return decision.learner, decision.action, decision

    def learn(self, ticket: Decision, reward: float) -> None:
        self.portfolio.learn(ticket, reward)

    def certified(self) -> float:
        return float(self.portfolio.certificate().regret_upper)


Player: TypeAlias = LateLearner | LatePortfolio


def run_late(problem: FullProblem, player: Player, marks: Integers, seed: int, delays: Array) -> tuple[Curves, float]:
    """Run up to the last mark; the reward of round t arrives before round t + 1 + delays[t - 1], inf for never.

    Returns curves and the CPU time in seconds. Curves are of the rounds played, whether or not rewards have arrived.
    Warnings of portfolios, which lost rewards cause in most runs, are not logged.
    """
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        return _run(problem, player, marks, seed, delays)
    finally:
        logger.setLevel(level)


def _run(problem: FullProblem, player: Player, marks: Integers, seed: int, delays: Array) -> tuple[Curves, float]:
    run, start = open_run(seed, marks, player.n_learners), process_time()
    stream, curves, plays = run.stream, run.curves, np.zeros(player.n_learners, np.int64)
    due: list[tuple[float, int, Any, float]] = []
    regret, earned, at = 0.0, 0.0, {int(mark): k for k, mark in enumerate(marks)}
    for t in range(1, int(marks[-1]) + 1):
        while due and due[0][0] <= t:
            _, _, ticket, reward = heapq.heappop(due)
            player.learn(ticket, reward)
        seek(stream, CONTEXTS, t)
        context = problem.observe(stream.generator)
        i, action, ticket = player.decide(context, stream, t)
        plays[i] += 1
        seek(stream, REWARDS, t)
        reward = problem.respond(context, action, stream.generator)
        regret += problem.gap(context, action)
        earned += reward
        if isfinite(delays[t - 1]):
            heapq.heappush(due, (t + 1 + float(delays[t - 1]), t, ticket, reward))
        if t in at:
            k = at[t]
            curves.regret[k], curves.reward[k], curves.plays[k] = regret, earned, plays
            curves.certified[k] = player.certified()
    return curves, process_time() - start
