"""Joint runs: all learners and the selector on one sequence of rounds, as in a portfolio.

Needed where tapes are not exact: shared data, contexts that depend on the past, selectors that ask every learner. The
compiled driver and a `Portfolio` draw from the same streams, so both make the same decisions. Compiled code cannot
index a tuple of different types, so learners are grouped by algorithm and a chain of comparisons, one per algorithm,
finds the group of a learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isnan, nan
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.learner import accepts, regret_after
from equipoise.portfolio import Portfolio
from equipoise.problem import play
from equipoise.selector import check_entitled
from equipoise.selectors.evidence import KEEP, REPLAY, TEACH
from equipoise.simulation.compiler import compiled, driver
from equipoise.simulation.packing import arrays, copy, pack
from equipoise.simulation.tapes import (
    Curves,
    Progress,
    Rounds,
    can_compile,
    native_memory,
    open_curves,
    open_progress,
)
from equipoise.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, open_stream, seek


@cache
def decide_chain(kernels: tuple[Any, ...]) -> Any:
    """decide(group, member, params, memories, actions, generator) over groups of learners, one kernel per group."""
    head = compiled(kernels[0].decide)

    def decide_last(group: int, member: int, params: Any, memories: Any, actions: Any, rng: Any) -> Any:
        return head(params[0][member], memories[0][member], actions, rng)

    if len(kernels) == 1:
        return compiled(decide_last)
    tail = decide_chain(kernels[1:])

    def decide(group: int, member: int, params: Any, memories: Any, actions: Any, rng: Any) -> Any:
        if group == 0:
            return head(params[0][member], memories[0][member], actions, rng)
        return tail(group - 1, member, params[1:], memories[1:], actions, rng)

    return compiled(decide)


@cache
def learn_chain(kernels: tuple[Any, ...]) -> Any:
    """learn(group, member, params, memories, actions, action, reward, weight) over groups of learners."""
    head = compiled(kernels[0].learn)

    def learn_last(
        group: int, member: int, params: Any, memories: Any, actions: Any, action: int, reward: float, weight: float
    ) -> None:
        head(params[0][member], memories[0][member], actions, action, reward, weight)

    if len(kernels) == 1:
        return compiled(learn_last)
    tail = learn_chain(kernels[1:])

    def learn(
        group: int, member: int, params: Any, memories: Any, actions: Any, action: int, reward: float, weight: float
    ) -> None:
        if group == 0:
            head(params[0][member], memories[0][member], actions, action, reward, weight)
        else:
            tail(group - 1, member, params[1:], memories[1:], actions, action, reward, weight)

    return compiled(learn)


class Demands(NamedTuple):
    """What a selector asks of its learners, known when its driver is compiled."""

    asks_all: bool  # every active learner proposes in every round
    weighted: bool  # lessons count 1 / probability times
    smoothed: bool  # policies are kept and play again


@cache
def joint_driver(problem: Any, selector: Any, learners: tuple[Any, ...], demands: Demands) -> Any:
    """The driver for the kernels of a problem, a selector and the groups of learners.

    A lesson of weight 0 changes nothing in a learner made of kernels, so those who did not play are left alone.
    """
    asks_all, weighted, smoothed = demands
    stage = compiled(selector.stage)
    draw, reward_of, record, complete = map(compiled, (problem.draw, problem.reward, problem.record, problem.complete))
    choose, open_play, book, rewind = map(
        compiled, (selector.choose, selector.open_play, selector.book, selector.rewind)
    )
    pool, close_round, certify, is_active = map(
        compiled, (selector.pool, selector.close_round, selector.certify, selector.is_active)
    )
    decide, learn = decide_chain(learners), learn_chain(learners)

    def drive(
        source: Any,
        params: Any,
        state: Any,
        learner_params: Any,
        memories: Any,
        kept: Any,
        rooms: Any,
        places: NDArray[np.int64],
        stream: Stream,
        progress: Progress,
        marks: Rounds,
        curves: Curves,
    ) -> None:
        """`places` has a row (group, member, shares, columns) per learner: where to find it, whether it learns from
        every round, and how many columns of the actions it needs to decide. `kept` are their kept
        policies and `rooms` the words of both, a row per learner; the same once more where none are kept."""
        problem_params, noise, room = source
        room_of_memories, room_of_kept = rooms
        generator, n_learners, n_columns = stream.generator, len(places), room.actions.shape[1]
        plays = np.zeros(n_learners, np.int64)
        lowers, regrets = np.full(n_learners, np.nan), np.full(n_learners, np.nan)
        rounds, shares = marks[-1] if len(marks) else 0, places[:, 2].any()
        for t in range(1, rounds + 1):
            seek(stream, SELECTOR, t)
            i, probability = choose(params, state, generator)
            group, member, task = places[i, 0], places[i, 1], TEACH
            if smoothed:
                task = stage(params, state, i, probability, generator)
                if task == KEEP:
                    for word in range(room_of_memories.shape[1]):
                        room_of_kept[i, word] = room_of_memories[i, word]
            seek(stream, CONTEXTS, t)
            room.n_columns[0] = n_columns if asks_all else places[i, 3]
            actions, means = draw(problem_params, room, generator)
            if asks_all:
                for j in range(n_learners):
                    if j != i and is_active(params, state, j):
                        seek(stream, LEARNERS + j, t)
                        other = decide(places[j, 0], places[j, 1], learner_params, memories, actions, generator)
                        lowers[j], regrets[j] = other.lower, other.regret
            seek(stream, LEARNERS + i, t)
            policies = kept if task == REPLAY else memories
            proposal = decide(group, member, learner_params, policies, actions, generator)
            action, regret = proposal.action, proposal.regret
            seek(stream, REWARDS, t)
            reward = reward_of(noise, means[action], generator)
            open_play(params, state, i)
            plays[i] += 1
            if shares:
                complete(problem_params, room, action)
            for j in range(n_learners):
                if (j == i and task != REPLAY) or (places[j, 2] == 1 and is_active(params, state, j)):
                    weight = 1.0 / probability if weighted else 1.0
                    learn(places[j, 0], places[j, 1], learner_params, memories, actions, action, reward, weight)
            # Where policies are kept, the selector itself learns from the rounds in which they play again.
            book(params, state, i, reward, regret, 0.0 if smoothed and task != REPLAY else probability)
            rewind(params, state, i)
            pool(params, state, reward)
            if asks_all:
                lowers[i], regrets[i] = proposal.lower, regret
                close_round(params, state, i, reward, regret, lowers, regrets)
            best = means[0]
            for k in range(1, len(means)):
                best = max(best, means[k])
            progress.regret[0] += best - means[action]
            record(problem_params, i, action, reward)
            if t == marks[progress.next_mark[0]]:
                mark = progress.next_mark[0]
                curves.regret[mark] = progress.regret[0]
                curves.certified[mark] = certify(params, state)[3]
                for j in range(n_learners):
                    curves.plays[mark, j] = plays[j]
                progress.next_mark[0] += 1

    return driver(drive)


def run_jointly(
    problem: Any, learners: Sequence[Any], selector: Any, marks: Rounds, seed: int, *, share_data: bool = False
) -> tuple[Curves, float]:
    """Run a selector over the whole horizon with its learners; leaves all of them in their final state."""
    check_entitled(selector, learners)
    if can_compile(problem, selector, *learners):
        return _run_compiled(problem, learners, selector, marks, seed, share_data)
    return run_portfolio(problem, Portfolio(learners, selector, seed=seed, share_data=share_data), marks)


def run_portfolio(problem: Any, portfolio: Portfolio, marks: Rounds) -> tuple[Curves, float]:
    """The same run through the public methods of any problem and portfolio."""
    curves = open_curves(len(marks), len(portfolio.learners))
    stream, regret, mark = open_stream(portfolio.seed), 0.0, 0
    plays = np.zeros(len(portfolio.learners), np.int64)
    record = getattr(problem, "record", None)
    start = perf_counter()
    for t in range(1, int(marks[-1]) + 1):
        seek(stream, CONTEXTS, t)
        context = problem.observe(stream.generator)
        decision = portfolio.decide(context)
        seek(stream, REWARDS, t)
        reward, outcome = play(problem, context, decision.action, stream.generator)
        regret += problem.gap(context, decision.action)
        plays[decision.learner] += 1
        width = regret_after(portfolio.learners[decision.learner], nan, outcome)
        portfolio.learn(decision, reward, outcome, None if isnan(width) else width)
        if record is not None:
            record(decision.learner, decision.action, reward)
        if t == marks[mark]:
            curves.regret[mark], curves.plays[mark] = regret, plays
            curves.certified[mark] = portfolio.certificate().regret_upper
            mark += 1
    return curves, perf_counter() - start


def _run_compiled(
    problem: Any, learners: Sequence[Any], selector: Any, marks: Rounds, seed: int, share_data: bool
) -> tuple[Curves, float]:
    groups = grouped(learners)
    kernels = tuple(group[0].kernels for group in groups)
    places = np.array([_place(learner, groups, problem, share_data) for learner in learners], np.int64)
    learner_params = tuple(tuple(learner.params for learner in group) for group in groups)
    live = [native_memory(learner, problem) for learner in learners]
    demands = Demands(*(need in selector.needs for need in ("proposals", "weight", "snapshots")))
    packed, room = pack(live) if demands.smoothed else (live, np.empty((0, 0), np.int64))
    policies, policy_room = pack(live) if demands.smoothed else (packed, room)
    memories, kept = _by_group(packed, places), _by_group(policies, places)
    source = (problem.params, problem.reward_law, problem.room())
    params, state = selector.to_arrays()
    curves = open_curves(len(marks), len(learners))
    driver = joint_driver(problem.kernels, selector.kernels, kernels, demands)
    world = (source, params, state, learner_params, memories, kept, (room, policy_room), places)
    place = (*world, open_stream(seed), open_progress())
    driver(*place, marks[:0], curves)  # compiles before the clock starts
    start = perf_counter()
    driver(*place, marks, curves)
    seconds = perf_counter() - start
    selector.from_arrays(state)
    if demands.smoothed:
        for memory, own in zip(packed, live, strict=True):
            copy(memory, own)
    return curves, seconds


def _by_group(memories: Sequence[Any], places: NDArray[np.int64]) -> tuple[tuple[Any, ...], ...]:
    """The memories as the driver finds them: one tuple per group, in the order of its members."""
    groups = range(int(places[:, 0].max()) + 1)
    return tuple(tuple(memories[int(i)] for i in np.flatnonzero(places[:, 0] == group)) for group in groups)


def grouped(learners: Sequence[Any]) -> list[list[Any]]:
    """Learners by algorithm, and by how their arrays are laid out, which is part of their type in compiled code."""
    layouts = [tuple(array.flags.c_contiguous for array in arrays(learner.memory)) for learner in learners]
    kinds = [(learner.kernels, layout) for learner, layout in zip(learners, layouts, strict=True)]
    return [[learners[i] for i, own in enumerate(kinds) if own == kind] for kind in dict.fromkeys(kinds)]


def _place(learner: Any, groups: list[list[Any]], problem: Any, share_data: bool) -> tuple[int, int, int, int]:
    for group, members in enumerate(groups):
        for member, other in enumerate(members):
            if other is learner:
                shares = int(share_data and "off_policy" in accepts(learner))
                return group, member, shares, problem.columns_for(learner)
    raise ValueError(f"{learner.name} is in no group")
