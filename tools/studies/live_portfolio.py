"""What a live portfolio promises, at full size: `python -m tools.studies.live_portfolio [PART ...]`.

Parts: chaos (failing learners), intervals and mean_weights (statements and propensities if failures depend on contexts,
see `substitutes`), tickets (crashes and copies), lost, delays and deadlines (lost and late rewards, see
`late_rewards`), propensity (coverage of off-policy estimates), memory (also of files), threads, step (cost of a round).
Each prints its figures, and the command ends with exit code 1 if a promise is broken. `make chaos` runs them all.
"""

from __future__ import annotations

import copy
import gc
import logging
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from math import sqrt
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from scipy.stats import binomtest

from equipoise import Portfolio, Proposal
from equipoise.errors import UnknownDecision
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy
from equipoise.selectors import EXP3, UCB1, Corral, RealizedBalancing, Uniform
from tools.benchmarks.numpy_loop import loop
from tools.studies.late_rewards import Figures, deadlines, delays, lost
from tools.studies.substitutes import intervals, mean_weights

FALSE_ALARM = 1e-3


class Flaky:
    """A learner that raises or proposes nonsense in a share of its calls, and in the rounds in which it is dead."""

    randomized = False

    def __init__(self, number: int, share: float, n_actions: int) -> None:
        self.name, self.share, self.n_actions = f"flaky {number}", share, n_actions
        self.rng, self.arms = np.random.default_rng(number), UCB(n_actions)
        self.dead, self.updates = False, 0

    def decide(self, context: Any) -> Any:
        if self.dead or self.rng.random() < self.share:
            return self._fail()
        return self.arms.decide(context)

    def _fail(self) -> Any:
        nonsense = (Proposal(self.n_actions + 3), Proposal(0, probability=2.0), None, np.zeros((2, 3)))
        kind = int(self.rng.integers(len(nonsense) + 1))
        if self.dead or kind == len(nonsense):
            raise RuntimeError("down")
        return nonsense[kind]

    def learn(self, context: Any, action: int, reward: float) -> None:
        if self.dead or self.rng.random() < self.share:
            raise ValueError("cannot learn")
        self.arms.learn(context, action, reward)
        self.updates += 1


def chaos(rounds: int = 100_000) -> Figures:
    """Ten learners, each failing in 1 to 30 % of its calls, one dead for 5,000 rounds and back."""
    n_actions = 4
    learners = [Flaky(i, 0.01 + 0.29 * i / 9, n_actions) for i in range(10)]
    portfolio = Portfolio(learners, RealizedBalancing(10), fallback=0)
    rng, answered, errors = np.random.default_rng(0), 0, 0
    context, plays_when_back = np.zeros((n_actions, 1)), 0
    charged = [0] * 10
    for t in range(rounds):
        learners[3].dead = rounds // 10 <= t < rounds // 10 + min(5_000, rounds // 5)
        try:
            decision = portfolio.decide(context)
            answered += 1
        except Exception:
            errors += 1
            continue
        if decision.drawn is not None:
            charged[decision.drawn] += 1
        assert decision.learner is None or not learners[decision.learner].dead
        portfolio.learn(decision, float(rng.random() < (0.2, 0.3, 0.4, 0.8)[decision.action]))
        if learners[3].dead:
            plays_when_back = portfolio.standing()[3].plays if t % 1000 == 0 else plays_when_back
    rows = portfolio.standing()
    yield "requests answered", answered, answered == rounds
    yield "exceptions out of decide", errors, errors == 0
    yield "plays equal draws of each learner", [row.plays for row in rows], [row.plays for row in rows] == charged
    later = rows[3].plays - plays_when_back
    yield "plays of the dead learner after it came back", later, later > 0
    yield "failed updates kept", len(portfolio.failed_updates), len(portfolio.failed_updates) > 0


def tickets(rounds: int = 10_000) -> Figures:
    """Rewards after a crash, and in copies of one file: none may reach a wrong ticket."""
    portfolio = Portfolio([UCB(3), Constant(1)], UCB1(2))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "portfolio"
        for _ in range(100):
            portfolio.decide(None)
        portfolio.save(path)
        lost = [portfolio.decide(None).id for _ in range(rounds)]
        restarted, twin = Portfolio.load(path), Portfolio.load(path)
    others = [copy.deepcopy(restarted), twin]
    new = {restarted.decide(None).id for _ in range(rounds)}
    wrong = 0
    for id_ in lost:
        try:
            restarted.learn(id_, 1.0)
            wrong += 1
        except UnknownDecision:
            pass
    yield f"of {rounds} rewards of lost decisions, credited to a ticket", wrong, wrong == 0
    given = [other.decide(None).id for other in others for _ in range(rounds)]
    repeated = len(given) - len(set(given) - new - set(lost))
    yield "ids that two processes or copies both gave out", repeated, repeated == 0


RANDOMIZED: dict[str, Callable[[], Any]] = {
    "EXP3": lambda: EXP3(2),
    "Uniform": lambda: Uniform(2),
    "Corral": lambda: Corral(2, rounds=2000),
}


def propensity(seeds: int = 1_000, rounds: int = 1_000) -> Figures:
    """Coverage of 99 % intervals (empirical Bernstein) of ten policies, from logs of randomized selectors."""
    means = np.array([0.45, 0.5, 0.55, 0.6])
    policies = np.random.default_rng(0).dirichlet(np.ones(4), 10)
    for name, make in RANDOMIZED.items():
        covered = joint_covered = total = 0
        for seed in range(seeds):
            learners = [EpsilonGreedy(4, epsilon=0.8), EpsilonGreedy(4, epsilon=0.5)]
            portfolio = Portfolio(learners, make(), seed=seed)
            rng, rows = np.random.default_rng([3, seed]), []
            for _ in range(rounds):
                decision = portfolio.decide(None, propensity=True)
                reward = float(rng.random() < means[decision.action])
                portfolio.learn(decision, reward)
                joint = decision.learner_probability * decision.action_probability
                rows.append((decision.action, reward, decision.propensity, joint))
            actions, rewards, chances, joints = (np.array(column) for column in zip(*rows, strict=True))
            for policy in policies:
                value = float(policy @ means)
                covered += covers(policy[actions.astype(int)] * rewards / chances, value, 0.01)
                joint_covered += covers(policy[actions.astype(int)] * rewards / joints, value, 0.01)
                total += 1
        share, joint_share = covered / total, joint_covered / total
        # Ten policies of one run are dependent, so that runs, not policies, are what is counted.
        holds = binomtest(round(seeds * share), seeds, 0.99, alternative="less").pvalue >= FALSE_ALARM
        fails = binomtest(round(seeds * joint_share), seeds, 0.99, alternative="less").pvalue < FALSE_ALARM
        yield f"{name}: coverage of 99 % intervals", round(share, 4), bool(holds)
        yield f"{name}: the same with the joint probability (control, must fail)", round(joint_share, 4), bool(fails)


def covers(weighted: Any, value: float, delta: float) -> bool:
    """Whether the normal interval of the mean contains the value; widened by the empirical Bernstein remainder."""
    n, largest = len(weighted), float(weighted.max())
    log_term = float(np.log(4.0 / delta))
    radius = sqrt(2.0 * float(weighted.var(ddof=1)) * log_term / n) + 7.0 * largest * log_term / (3.0 * (n - 1))
    return abs(float(weighted.mean()) - value) <= radius


def resident_bytes() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory(rounds: int = 1_000_000) -> Figures:
    """Memory and size of a file after many decided and expired tickets, against those after 1 % of them."""
    portfolio = Portfolio([Constant(0), Constant(1)], UCB1(2), deadline=100, default_reward=0.0)
    few, resident, saved = rounds // 100, [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "portfolio"
        for t in range(1, rounds + 1):
            portfolio.decide(None)
            if t in (few, rounds):
                portfolio.save(path)
                resident.append(resident_bytes())
                saved.append(path.stat().st_size)
    grown = (resident[1] - resident[0]) / 1e6
    yield f"MB grown between {few:,} and {rounds:,} expired tickets", round(grown, 3), grown <= 1.0
    # The history of samples, at log-spaced rounds, is bounded, but not full after the first of them.
    grown = (saved[1] - saved[0]) / 1e3
    yield f"kB by which the file grew from {saved[0] / 1e3:.1f} kB", round(grown, 1), grown <= 40.0


def threads(rounds: int = 100_000) -> Figures:
    """Throughput of eight threads against one, ids, and what the lock costs a lone thread."""

    def serve(portfolio: Portfolio, n: int) -> list[str]:
        ids = []
        for _ in range(n):
            decision = portfolio.decide(None)
            portfolio.learn(decision, 0.5)
            ids.append(decision.id)
        return ids

    def portfolio() -> Portfolio:
        return Portfolio([UCB(4), EpsilonGreedy(4, epsilon=0.1)], RealizedBalancing(2))

    shared, alone = portfolio(), portfolio()
    since = perf_counter()
    with ThreadPoolExecutor(8) as pool:
        ids = [id_ for served in pool.map(lambda _: serve(shared, rounds // 8), range(8)) for id_ in served]
    together = perf_counter() - since
    since = perf_counter()
    serve(alone, rounds)
    single = perf_counter() - since
    yield "lost or repeated ids of eight threads", len(ids) - len(set(ids)), len(set(ids)) == len(ids)
    yield "throughput of eight threads over one", round(single / together, 3), single / together >= 0.5
    ratios = []
    for _ in range(9):
        times = []
        for lock in (True, False):
            subject = portfolio()
            if not lock:
                subject._lock = nullcontext()  # type: ignore[assignment]  # the same code without a lock
            serve(subject, 200)
            since = process_time()
            serve(subject, 4_000)
            times.append(process_time() - since)
        ratios.append(times[0] / times[1])
    yield "time with the lock over without (median of 9)", round(median(ratios), 4), median(ratios) <= 1.02


def step(rounds: int = 3_000) -> Figures:
    """A portfolio's round (RealizedBalancing, own plays, five OFUL up to 32 features, 10 offers) in NumPy steps."""
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-0.15, 0.15, (rounds, 10, 32))
    rewards = (rng.random(rounds) < 0.5).astype(float)
    ours, theirs = [], []
    for _ in range(7):
        portfolio = Portfolio([OFUL(dim) for dim in (2, 4, 8, 16, 32)], RealizedBalancing(5))
        for t in range(200):
            portfolio.learn(portfolio.decide(contexts[t]), rewards[t])
        since = process_time()
        for t in range(rounds):
            portfolio.learn(portfolio.decide(contexts[t]), rewards[t])
        ours.append((process_time() - since) / rounds * 1e6)
        since = process_time()
        loop(contexts, np.zeros((rounds, 10)), rewards, 1.0, 1.0)
        theirs.append((process_time() - since) / rounds * 1e6)
    yield "µs of a portfolio's round", round(median(ours), 1), True
    yield "µs of a plain NumPy LinUCB step", round(median(theirs), 1), True
    yield "ratio (at most 3)", round(median(ours) / median(theirs), 2), median(ours) / median(theirs) <= 3.0


PARTS: dict[str, Callable[[], Figures]] = {
    part.__name__: part
    for part in (chaos, intervals, mean_weights, tickets, lost, delays, deadlines, propensity, memory, threads, step)
}


def main(names: list[str]) -> int:
    broken = 0
    logging.getLogger("equipoise").setLevel(logging.CRITICAL)  # failures are what is studied here
    for name in names or list(PARTS):
        for what, value, holds in PARTS[name]():
            print(f"{name:<11} {'ok    ' if holds else 'BROKEN'} {what}: {value}", flush=True)
            broken += not holds
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
