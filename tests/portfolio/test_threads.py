"""Threads that share a portfolio: no id is lost or repeated, and every reward is learned once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from equipoise import Portfolio
from equipoise.learners import UCB, EpsilonGreedy
from equipoise.selectors import EXP3

N_THREADS, N_ROUNDS = 8, 300


def test_threads_lose_and_repeat_nothing() -> None:
    portfolio = Portfolio([UCB(3), EpsilonGreedy(3, epsilon=0.1)], EXP3(2), deadline=10_000, default_reward=0.0)

    def serve(thread: int) -> list[str]:
        rng, ids = np.random.default_rng(thread), []
        for _ in range(N_ROUNDS):
            decision = portfolio.decide(None)
            ids.append(decision.id)
            portfolio.learn(decision, float(rng.random() < (0.2, 0.3, 0.7)[decision.action]))
            portfolio.standing()
        return ids

    with ThreadPoolExecutor(N_THREADS) as pool:
        ids = [id_ for served in pool.map(serve, range(N_THREADS)) for id_ in served]
    assert len(set(ids)) == len(ids) == N_THREADS * N_ROUNDS
    assert portfolio.pending == ()
    assert sum(row.plays - row.pending for row in portfolio.standing()) == N_THREADS * N_ROUNDS
    assert sum(row["learn"]["calls"] for row in portfolio.health()["learners"]) == N_THREADS * N_ROUNDS


def test_a_callback_may_call_the_portfolio() -> None:
    portfolio = Portfolio([UCB(3), UCB(3)])
    seen: list[int] = []
    portfolio.on_event(lambda event: seen.append(len(portfolio.pending)))
    portfolio.learn(portfolio.decide(None), 0.5)
    assert seen == [1, 0]
