"""Tapes: each learner recorded alone once, and selectors that draw the next play of whichever learner they choose.

A learner that learns only from its own plays, in a problem whose rounds are independent and identically distributed,
behaves the same whoever else plays in between. So choices, rewards and regrets of a run from tapes have exactly the
joint law of a joint run, at the cost of learners plus selectors instead of learners times selectors, and all selectors
see the same randomness. `why_not_tapes` says where that is not so.

The tapes of one seed share the problem instance; contexts, rewards and learner i draw from streams keyed by i, so two
equal learners have different tapes. A tape is recorded only as far as some selector needs it; going on to the horizon
afterwards, for the learner's own curve, stores nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from math import isnan, nan
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import EquipoiseError
from equipoise.learner import Proposal, decider, regret_after
from equipoise.learners import ridge
from equipoise.problem import play
from equipoise.simulation.compiler import compiled, driver
from equipoise.simulation.episodes import can_compile_episodes, episode_recorder, episode_source
from equipoise.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, open_stream, seek

Array = NDArray[np.float64]
Rounds = NDArray[np.int64]
CHUNK = 4096
REPLAYED = ("choose", "open_play", "book", "rewind", "pool", "certify")  # the kernels of a selector on tapes


class Curves(NamedTuple):
    """What is kept of a selector's run, at the marked rounds."""

    regret: Array
    certified: Array  # the certificate's upper bound on the regret; nan where the selector has none
    plays: Rounds  # (marks, learners)


def open_curves(n_marks: int, n_learners: int) -> Curves:
    return Curves(np.full(n_marks, nan), np.full(n_marks, nan), np.zeros((n_marks, n_learners), np.int64))


class Progress(NamedTuple):
    """How far a run is; one cell each."""

    done: NDArray[np.int64]  # plays or rounds so far
    regret: Array  # total so far
    next_mark: NDArray[np.int64]  # position in the list of rounds at which curves are kept


def open_progress() -> Progress:
    return Progress(np.zeros(1, np.int64), np.zeros(1), np.zeros(1, np.int64))


@cache
def recorder(draw: Any, reward_of: Any, decide: Any, learn: Any) -> Any:
    """The driver that plays one learner alone, for the kernels of a problem and of a learner."""
    draw, reward_of, decide, learn = map(compiled, (draw, reward_of, decide, learn))

    def record(
        problem: Any,
        params: Any,
        memory: Any,
        stream: Stream,
        index: int,
        tape: Array,
        progress: Progress,
        until: int,
        marks: Rounds,
        curve: Array,
    ) -> None:
        """Up to `until` plays; rows (reward, gap, regret) go to `tape` as far as it reaches."""
        problem_params, noise, room = problem
        generator = stream.generator
        for n in range(progress.done[0], until):
            seek(stream, CONTEXTS + index, n)
            actions, means = draw(problem_params, room, generator)
            seek(stream, LEARNERS + index, n)
            proposal = decide(params, memory, actions, generator)
            action = proposal.action
            seek(stream, REWARDS + index, n)
            reward = reward_of(noise, means[action], generator)
            learn(params, memory, actions, action, reward, 1.0)
            best = means[0]
            for k in range(1, len(means)):
                best = max(best, means[k])
            gap = best - means[action]
            if n < len(tape):
                tape[n, 0] = reward
                tape[n, 1] = gap
                tape[n, 2] = proposal.regret
            progress.regret[0] += gap
            if n + 1 == marks[progress.next_mark[0]]:
                curve[progress.next_mark[0]] = progress.regret[0]
                progress.next_mark[0] += 1
        progress.done[0] = until

    return driver(record)


@cache
def replayer(choose: Any, open_play: Any, book: Any, rewind: Any, pool: Any, certify: Any) -> Any:
    """The driver that runs a selector on tapes, for the selector's kernels."""
    functions = (choose, open_play, book, rewind, pool, certify)
    choose, open_play, book, rewind, pool, certify = map(compiled, functions)

    def replay(
        params: Any,
        state: Any,
        stream: Stream,
        tapes: Array,
        recorded: Rounds,
        used: Rounds,
        progress: Progress,
        marks: Rounds,
        curves: Curves,
    ) -> Any:
        """Up to the last mark; stops early and names the learner whose tape is too short, else returns -1."""
        generator = stream.generator
        rounds = marks[-1] if len(marks) else 0
        for t in range(progress.done[0], rounds):
            seek(stream, SELECTOR, t + 1)
            i, probability = choose(params, state, generator)
            n = used[i]
            if n == recorded[i]:
                progress.done[0] = t
                return i
            used[i] = n + 1
            reward = tapes[i, n, 0]
            open_play(params, state, i)
            book(params, state, i, reward, tapes[i, n, 2], probability)
            rewind(params, state, i)
            pool(params, state, reward)
            progress.regret[0] += tapes[i, n, 1]
            if t + 1 == marks[progress.next_mark[0]]:
                mark = progress.next_mark[0]
                curves.regret[mark] = progress.regret[0]
                curves.certified[mark] = certify(params, state)[3]
                for j in range(len(used)):
                    curves.plays[mark, j] = used[j]
                progress.next_mark[0] += 1
        progress.done[0] = rounds
        return -1

    return driver(replay)


def record_interpreted(
    problem: Any,
    learner: Any,
    stream: Stream,
    index: int,
    tape: Array,
    progress: Progress,
    until: int,
    marks: Rounds,
    curve: Array,
) -> None:
    """What `record` does, through the public methods of any learner and problem."""
    decide, generator = decider(learner), stream.generator
    for n in range(int(progress.done[0]), until):
        seek(stream, CONTEXTS + index, n)
        context = problem.observe(generator)
        seek(stream, LEARNERS + index, n)
        proposal = decide(context, generator)
        seek(stream, REWARDS + index, n)
        reward, outcome = play(problem, context, proposal.action, generator)
        gap = problem.gap(context, proposal.action)
        regret = regret_after(learner, proposal.regret, outcome)
        learner.learn(context, proposal.action if outcome is None else outcome, reward)
        if n < len(tape):
            tape[n] = reward, gap, regret
        progress.regret[0] += gap
        if n + 1 == marks[progress.next_mark[0]]:
            curve[progress.next_mark[0]] = progress.regret[0]
            progress.next_mark[0] += 1
    progress.done[0] = until


def replay_interpreted(
    selector: Any,
    stream: Stream,
    tapes: Array,
    recorded: Rounds,
    used: Rounds,
    progress: Progress,
    marks: Rounds,
    curves: Curves,
) -> int:
    """What `replay` does, through the public methods of any selector."""
    for t in range(int(progress.done[0]), int(marks[-1])):
        seek(stream, SELECTOR, t + 1)
        choice = selector.choose(stream.generator)
        i, n = choice.learner, used[choice.learner]
        if n == recorded[i]:
            selector.withdraw(choice)
            progress.done[0] = t
            return int(i)
        used[i] += 1
        reward, gap, regret = tapes[i, n].tolist()
        selector.observe(choice, {i: Proposal(None, regret=regret)})
        selector.credit(choice, reward)
        progress.regret[0] += gap
        if t + 1 == marks[progress.next_mark[0]]:
            mark = progress.next_mark[0]
            curves.regret[mark], curves.plays[mark] = progress.regret[0], used
            curves.certified[mark] = selector.certificate().regret_upper
            progress.next_mark[0] += 1
    progress.done[0] = marks[-1]
    return -1


class Tapes:
    """The tapes of one seed: all learners on one instance of a problem, recorded as far as somebody needed them.

    Learners and problems made of kernels run compiled; anything else runs through its public methods.
    """

    def __init__(self, problem: Any, learners: Sequence[Any], marks: Rounds, seed: int) -> None:
        self.problem = problem
        self.learners = tuple(learners)
        self.marks = marks
        self.seed = seed
        self.rounds = int(marks[-1])
        n_learners = len(self.learners)
        # Not initialised: the operating system provides a page only when it is first written.
        self.rows = np.empty((n_learners, self.rounds, 3))
        self.recorded = np.zeros(n_learners, np.int64)
        self.seconds = [0.0] * n_learners
        self.plays = [0] * n_learners  # that the seconds were spent on
        self._curves = [np.full(len(marks), nan) for _ in self.learners]
        self._stream = open_stream(seed)
        self._progress = [open_progress() for _ in self.learners]

    def extend(self, i: int) -> None:
        """Record another chunk of learner i."""
        recorded = int(self.recorded[i])
        if self._progress[i].done[0] > recorded:
            raise EquipoiseError(f"learner {i} has played on beyond its tape, which cannot be extended any more")
        until = min(recorded + max(CHUNK, recorded // 4), self.rounds)
        self._play(i, until, self.rows[i])
        self.recorded[i] = until

    def curve(self, i: int) -> Array:
        """The regret of learner i alone at the marked rounds. Its tape cannot be extended afterwards."""
        if isnan(self._curves[i][-1]):
            self._play(i, self.rounds, self.rows[i, : self.recorded[i]])
        return self._curves[i]

    def seconds_per_play(self, i: int) -> float:
        return self.seconds[i] / self.plays[i] if self.plays[i] else 0.0

    def contents(self) -> dict[str, NDArray[Any]]:
        """What is on the tapes, with the curves of all learners, for `restore`."""
        curves = np.array([self.curve(i) for i in range(len(self.learners))])
        rows = {f"rows.{i}": self.rows[i, :recorded] for i, recorded in enumerate(self.recorded)}
        return {"curves": curves, "seconds": np.array(self.seconds), "plays": np.array(self.plays), **rows}

    def restore(self, contents: Mapping[str, NDArray[Any]]) -> None:
        """Take over what the same learners have recorded before; to go beyond it they start again from the first play.

        Whatever does not fit raises ValueError, or KeyError where something lacks, and changes nothing.
        """
        n_learners = len(self.learners)
        recorded = [contents[f"rows.{i}"] for i in range(n_learners)]
        shapes = {name: contents[name].shape for name in ("curves", "seconds", "plays")}
        fitting = {"curves": (n_learners, len(self.marks)), "seconds": (n_learners,), "plays": (n_learners,)}
        if shapes != fitting or any(len(rows) > self.rounds or rows.shape[1:] != (3,) for rows in recorded):
            raise ValueError("tapes of other learners or rounds")
        for i, rows in enumerate(recorded):
            self.rows[i, : len(rows)] = rows
            self.recorded[i] = len(rows)
            self._curves[i][:] = contents["curves"][i]
        self.seconds, self.plays = contents["seconds"].tolist(), contents["plays"].tolist()

    def _play(self, i: int, until: int, tape: Array) -> None:
        learner, problem, progress = self.learners[i], self.problem, self._progress[i]
        place = (self._stream, i, tape, progress, until, self.marks, self._curves[i])
        if can_compile(problem, learner):
            record = partial(
                recorder(problem.kernels.draw, problem.kernels.reward, learner.kernels.decide, learner.kernels.learn),
                (problem.params, problem.reward_law, problem.room(problem.columns_for(learner))),
                learner.params,
                native_memory(learner, problem),
            )
        elif can_compile_episodes(problem, learner):
            record = partial(
                episode_recorder(*problem.episode_kernels, learner.learn_episode), *episode_source(problem, learner)
            )
        else:
            record = partial(record_interpreted, problem, learner)
        if progress.done[0] == 0:  # compile before the clock starts
            record(*place[:4], 0, *place[5:])
        n_plays, start = until - int(progress.done[0]), perf_counter()
        record(*place)
        self.seconds[i] += perf_counter() - start
        self.plays[i] += n_plays


def can_compile(*parts: Any) -> bool:
    """Whether learners, problems and selectors are made of kernels; a bound that is a Python function is not."""
    return all(hasattr(part, "kernels") and not getattr(part, "has_custom_bounds", False) for part in parts)


def native_memory(learner: Any, problem: Any) -> Any:
    """The learner's own arrays, with scratch room for compiled code."""
    return _with_scratch(learner.memory, problem.n_actions, problem.same_actions)


def _with_scratch(memory: Any, n_actions: int, same_actions: bool) -> Any:
    if hasattr(memory, "scratch"):
        return memory._replace(scratch=ridge.open_scratch(len(memory.theta), n_actions, same_actions))
    if not isinstance(memory, tuple):
        return memory
    # A learner with regressions inside shows them masked or weighted actions: not the same ones in every round.
    parts = [_with_scratch(part, n_actions, False) for part in memory]
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)


def run_on_tapes(tapes: Tapes, selector: Any) -> tuple[Curves, float]:
    """Run a selector over the whole horizon, which leaves it in its final state; returns curves and its own seconds."""
    n_learners = len(tapes.learners)
    curves = open_curves(len(tapes.marks), n_learners)
    progress, used, stream = open_progress(), np.zeros(n_learners, np.int64), open_stream(tapes.seed)
    place = (stream, tapes.rows, tapes.recorded, used, progress, tapes.marks, curves)
    compilable = can_compile(selector)
    if compilable:
        driver = replayer(*(getattr(selector.kernels, name) for name in REPLAYED))
        params, state = selector.to_arrays()
        replay = partial(driver, params, state)
        replay(*place[:5], tapes.marks[:0], curves)  # compiles before the clock starts
    else:
        replay = partial(replay_interpreted, selector)
    seconds, short = 0.0, 0
    while short >= 0:
        start = perf_counter()
        short = replay(*place)
        seconds += perf_counter() - start
        if short >= 0:
            tapes.extend(short)
    if compilable:
        selector.from_arrays(state)
    return curves, seconds


def why_not_tapes(problem: Any, selector: Any, share_data: bool) -> str | None:
    """Why a run from tapes would not have the law of a joint run; None if it has."""
    if share_data:
        return "learners share data, so a learner's plays depend on those of others"
    if not getattr(problem, "iid", True):
        return f"the contexts of {problem.name} are not independent and identically distributed"
    demands = {
        "proposals": "asks every learner in every round",
        "weight": "tells learners importance-weighted rewards",
        "snapshots": "plays earlier policies of its learners",
    }
    for need, reason in demands.items():
        if need in selector.needs:
            return f"{selector.name} {reason}"
    return None
