"""Time of `CounterfactualBalancing` alone in a compiled round, without learners, by number of experts.

    python -m tools.studies.expert_cost

Half of the experts are learners and half their greedy actions. A learner proposes the best of ten actions with a
probability that grows with its index, so that poor ones are drawn less and less, else any action; rewards are coins.
Medians of five runs of 20,000 rounds, in microseconds of CPU time, without drawing proposals.
"""

from __future__ import annotations

from statistics import median
from time import process_time

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals
from equipoise.selectors import CounterfactualBalancing
from equipoise.selectors import counterfactual_balancing as rule
from equipoise.selectors._core import evidence, kernels
from equipoise.simulation.compiler import compiled
from equipoise.types import Array

N_ACTIONS, ROUNDS, REPEATS = 10, 20_000, 5


@kernel
def play(
    params: rule.Params, state: rule.State, proposals: Proposals, rng: np.random.Generator, rounds: int, plays: bool
) -> float:
    """Rounds of the selector, or, to be subtracted, of proposals and rewards alone."""
    n_learners, total = len(proposals.actions), 0.0
    for _ in range(rounds):
        e = rule.choose(params, state, rng)[0] if plays else 0
        for i in range(n_learners):
            lucky = rng.random() < 0.3 + 0.6 * (i + 1) / n_learners
            proposals.actions[i] = 0 if lucky else int(N_ACTIONS * rng.random())
            proposals.greedy[i] = 0 if rng.random() < 0.5 else proposals.actions[i]
        learner, greedy = rule.learner_of(params, state, e)
        action = proposals.greedy[learner] if greedy else proposals.actions[learner]
        reward = 1.0 if rng.random() < (0.7 if action == 0 else 0.4) else 0.0
        total += reward
        if plays:
            evidence.open_play(params.evidence, state.evidence, e)
            rule.arrive(params, state, e, reward, 1.0)
            kernels.credit(params, state, e, reward, 0.0, 1.0)
            evidence.rewind(params.evidence, state.evidence, e)
            evidence.pool(params.evidence, state.evidence, reward)
            rule.close_round(params, state, e, reward, 0.0, proposals)
    return total


def microseconds(n_learners: int, learning: str = "all") -> float:
    """CPU time of a round."""
    times: dict[bool, list[float]] = {True: [], False: []}
    run = compiled(play)
    for repeat in range(REPEATS):
        for plays, spent in times.items():
            selector = CounterfactualBalancing(
                n_learners, learning=[learning] * n_learners, greedy_experts=list(range(n_learners))
            )
            params, state = selector.to_arrays()
            columns: list[Array] = [np.zeros(n_learners) for _ in range(4)]
            proposals = Proposals(np.zeros(n_learners, np.int64), np.zeros(n_learners, np.int64), *columns)
            rng = np.random.default_rng(repeat)
            run(params, state, proposals, rng, 10, plays)
            since = process_time()
            run(params, state, proposals, rng, ROUNDS, plays)
            spent.append(process_time() - since)
    return 1e6 * (median(times[True]) - median(times[False])) / ROUNDS


if __name__ == "__main__":
    for learning in ("all", "agreed"):
        for n_experts in (10, 20, 64):
            print(
                f"{learning}: {n_experts} experts {microseconds(n_experts // 2, learning):.1f} us a round", flush=True
            )
