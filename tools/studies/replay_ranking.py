"""Whether the learner that a replay ranks first is among the two best when run live, on public data.

    python -m tools.studies.replay_ranking [--data NAME] [--rounds 2000] [--seeds 10]

For each data set and seed, a log of a softened policy is replayed progressively for eight learners; then each of them
plays alone on fresh rounds. Prints, as tables for docs/guide/which-learner.md, the mean reward per live round, the
value by replay, the time of the processor per live round, and in how many seeds the first is one of the two best.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import process_time

import numpy as np

from equipoise.logs.replay import replay
from equipoise.settings.checks import one_of
from equipoise.types import Array
from tools.main import run_command
from tools.studies.public_data import LEARNERS, Problem, mean_with_error, play_live, problems

EARLY = 500  # rounds after which a learner is also judged


def run(data: str | None = None, rounds: int = 2_000, seeds: int = 10) -> None:
    """Print one table per data set, or that of one."""
    found = problems()
    for name in found if data is None else [one_of("--data", data, tuple(found))]:
        study(found[name], rounds, seeds)


def study(problem: Problem, rounds: int, seeds: int, learners: Sequence[str] = tuple(LEARNERS)) -> int:
    """Print the table of a data set; returns in how many seeds the first of the replay is one of the two best."""
    values, live = np.empty((seeds, len(learners))), np.empty((seeds, len(learners), rounds))
    seconds: Array = np.zeros(len(learners))
    for seed in range(seeds):
        made = [LEARNERS[name](problem) for name in learners]
        replayed = replay(problem.log(rounds, seed), made, seed=seed)
        values[seed] = [learner.estimate("progressive").value for learner in replayed.learners]
        for i, name in enumerate(learners):
            start = process_time()
            live[seed, i] = play_live(LEARNERS[name](problem), problem, rounds, seed)
            seconds[i] += process_time() - start
    earned = live.mean(axis=2)
    hits = hits_of(values, earned)
    n_rows, n_features = problem.rows.shape
    print(f"\n### {problem.name}: {n_rows:,} rows, {n_features} features, {problem.n_actions} classes\n")
    print(f"| learner | first {EARLY} rounds | {rounds:,} rounds | by replay | µs a round |\n|---|---|---|---|---|")
    for i in np.argsort(-earned.mean(axis=0)):
        early = mean_with_error(live[:, i, :EARLY].mean(axis=1))
        means = f"{early} | {mean_with_error(earned[:, i])} | {mean_with_error(values[:, i])}"
        print(f"| {learners[i]} | {means} | {1e6 * seconds[i] / (seeds * rounds):.0f} |")
    best = [learners[k] for k in values.argmax(axis=1)]
    print(f"\nFirst by replay: {', '.join(f'{name} {best.count(name)}' for name in dict.fromkeys(best))}.")
    print(f"The first by replay is one of the two best live in {hits} of {seeds} seeds.", flush=True)
    return hits


def hits_of(values: Array, earned: Array) -> int:
    """In how many rows the largest value is where one of the two largest earnings is."""
    first = values.argmax(axis=1)
    better = (earned > earned[np.arange(len(earned)), first, None]).sum(axis=1)
    return int((better < 2).sum())


if __name__ == "__main__":
    run_command(run)
