"""What counterfactual credit costs beside realized balancing, in simulations and in a portfolio.

    python -m tools.bench.selection_cost

Two figures, of CPU time, each the median of interleaved measurements:
- a round of the compiled joint run with shared data, five OFUL learners of the nested experiment, under
  `CounterfactualBalancing` and under `RealizedBalancing`, and the ratio of the two;
- all that a portfolio asks the selector in a round: three learners with greedy experts whose reward comes at once,
  under `CounterfactualBalancing`, next to a loop of a million additions as a measure of the machine.
`tools.studies.expert_cost` has the time of the selector alone in a compiled round of up to 64 experts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from equipoise.lab.runs.results import log_rounds
from equipoise.learner import Proposal
from equipoise.selectors import CounterfactualBalancing, RealizedBalancing
from equipoise.simulation.joint import run_jointly
from tools.bench.runs import nested

ROUNDS, REPEATS = 100_000, 5
PORTFOLIO_ROUNDS, PORTFOLIO_REPEATS = 300, 15

SELECTORS: dict[str, Callable[[Sequence[Any]], tuple[Any, bool]]] = {  # a selector, and whether the run shares the data
    "CounterfactualBalancing": lambda them: (CounterfactualBalancing.for_learners(them, share_data=True), False),
    "RealizedBalancing": lambda them: (RealizedBalancing(len(them)), True),
}


def joint_micros(name: str, rounds: int, seed: int) -> float:
    """Microseconds of a round of a joint run, learners and problem included."""
    setup = nested("fresh", seed, rounds)
    selector, share_data = SELECTORS[name](setup.learners)
    since = process_time()
    run_jointly(setup.problem, setup.learners, selector, log_rounds(rounds), seed, share_data=share_data)
    return (process_time() - since) / rounds * 1e6


def portfolio_micros(rounds: int, repeats: int) -> list[float]:
    """Microseconds per round of the calls of a portfolio; most learners agree on most actions."""
    selector = CounterfactualBalancing(3, learning=["all"] * 3, greedy_experts=[0, 1, 2])
    rng, draws = np.random.default_rng(1), np.random.default_rng(2)
    micros = []
    for _ in range(repeats):
        proposals = [{i: proposal(rng) for i in range(3)} for _ in range(rounds)]
        rewards = rng.random(rounds).tolist()
        since = process_time()
        for asked, reward in zip(proposals, rewards, strict=True):
            choice = selector.choose(draws)
            selector.observe(choice, asked)
            selector.propensity(choice)
            selector.learners_updated_by(choice)
            selector.check_credit(choice, reward)
            selector.credit(choice, reward)
        micros.append((process_time() - since) / rounds * 1e6)
    return micros


def proposal(rng: np.random.Generator) -> Proposal:
    action = int(rng.integers(3)) if rng.random() < 0.2 else 0
    return Proposal(action, greedy=int(rng.random() < 0.1), value=float(rng.random()))


def million_additions() -> float:
    """Milliseconds."""
    since, total = process_time(), 0.0
    for _ in range(1_000_000):
        total += 0.5
    return (process_time() - since) * 1e3


def main() -> None:
    measured = portfolio_micros(PORTFOLIO_ROUNDS, PORTFOLIO_REPEATS)  # first: a process that compiled is slower
    print(
        f"selector in a portfolio, M = 3 with greedy experts: {median(measured):.1f} us a round, "
        f"least {min(measured):.1f}; "
        f"a million additions: {million_additions():.0f} ms"
    )
    times: dict[str, list[float]] = {name: [] for name in SELECTORS}
    for name in SELECTORS:
        joint_micros(name, 100, 0)  # compiles
    for seed in range(REPEATS):
        for name, spent in times.items():
            spent.append(joint_micros(name, ROUNDS, seed))
    medians = {name: median(spent) for name, spent in times.items()}
    for name, micros in medians.items():
        print(f"compiled joint run, M = 5, shared data, {name}: {micros:.2f} us a round")
    ratios = [one / other for one, other in zip(*times.values(), strict=True)]
    print(f"ratio: {median(ratios):.2f} (from {min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
