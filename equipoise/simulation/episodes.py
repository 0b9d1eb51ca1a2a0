"""Tapes of episodic learners on finite decision processes, compiled: a round is an episode."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.learners.episodic import book_width
from equipoise.simulation.compiler import compiled, driver
from equipoise.streams import CONTEXTS, REWARDS, Stream, seek

Array = NDArray[np.float64]
SIZES = ("horizon", "n_states", "n_actions")


@cache
def episode_recorder(start: Any, roll_out: Any, loss: Any, learn_episode: Any) -> Any:
    """The driver that plays one episodic learner alone, for the kernels of a problem and of a learner."""
    start, roll_out, loss, learn_episode, book = map(compiled, (start, roll_out, loss, learn_episode, book_width))

    def record(
        problem: Any,
        params: Any,
        memory: Any,
        greatest_width: float,
        alpha: float,
        stream: Stream,
        index: int,
        tape: Array,
        progress: Any,
        until: int,
        marks: NDArray[np.int64],
        curve: Array,
    ) -> None:
        """Up to `until` episodes; rows (return, loss, regret) go to `tape` as far as it reaches."""
        generator, horizon = stream.generator, len(memory.policy)
        states, actions = np.empty(horizon, np.int64), np.empty(horizon, np.int64)
        rewards = np.empty(horizon)
        for n in range(progress.done[0], until):
            seek(stream, CONTEXTS + index, n)
            states[0] = start(problem, generator)
            seek(stream, REWARDS + index, n)
            roll_out(problem, memory.policy, states, actions, rewards, generator)
            gap = loss(problem, memory.policy, states[0])
            regret = book(memory, states, greatest_width, alpha)
            learn_episode(params, memory, states, actions, rewards)
            if n < len(tape):
                total = 0.0
                for h in range(horizon):
                    total += rewards[h]
                tape[n, 0] = total
                tape[n, 1] = gap
                tape[n, 2] = regret
            progress.regret[0] += gap
            if n + 1 == marks[progress.next_mark[0]]:
                curve[progress.next_mark[0]] = progress.regret[0]
                progress.next_mark[0] += 1
        progress.done[0] = until

    return driver(record)


def can_compile_episodes(problem: Any, learner: Any) -> bool:
    """Whether both are made of kernels for whole episodes, and of one size: compiled code does not look."""
    made_of_kernels = hasattr(problem, "episode_kernels") and hasattr(learner, "learn_episode")
    return made_of_kernels and all(getattr(problem, size) == getattr(learner, size) for size in SIZES)


def episode_source(problem: Any, learner: Any) -> tuple[Any, ...]:
    """What the recorder takes first."""
    return problem.params, learner.params, learner.memory, learner.greatest_width, learner.delta / 2
