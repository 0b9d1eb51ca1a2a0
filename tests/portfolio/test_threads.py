"""Threads that share a portfolio: no id is lost or repeated, and every reward is learned once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import RLock
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.portfolio.warm_start import LoggedRound
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
    # Whether the last rewards count already depends on delays, which depend on how threads take turns.
    counted = sum(row.plays - row.pending for row in portfolio.standing())
    assert counted + portfolio.health()["held_rewards"] == N_THREADS * N_ROUNDS
    assert sum(row["learn"]["calls"] for row in portfolio.health()["learners"]) == N_THREADS * N_ROUNDS


def test_a_callback_may_call_the_portfolio() -> None:
    portfolio = Portfolio([UCB(3), UCB(3)])
    seen: list[int] = []
    portfolio.on_event(lambda event: seen.append(len(portfolio.pending)))
    portfolio.learn(portfolio.decide(None), 0.5)
    assert seen == [1, 0]


class Failing(UCB):
    """Never learns."""

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        raise ValueError("never")


READS: dict[str, Callable[[Portfolio], object]] = {
    "pending": lambda portfolio: portfolio.pending,
    "unfinished": lambda portfolio: portfolio.unfinished,
    "failed_updates": lambda portfolio: portfolio.failed_updates,
    "history": lambda portfolio: (portfolio.history.samples, portfolio.history.marks),
    "declared": lambda portfolio: portfolio.declared,
    "restarted_settings": lambda portfolio: portfolio.restarted_settings,
    "state": lambda portfolio: portfolio.state(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_thread_reads_while_another_learns(read: Callable[[Portfolio], object]) -> None:
    """The reported fault: "deque mutated during iteration" from `failed_updates` of a learner that fails."""
    portfolio = Portfolio([Failing(3), Failing(3, scale=0.1)], EXP3(2))

    def learn() -> None:
        for _ in range(N_ROUNDS):
            portfolio.learn(portfolio.decide(None), 0.5)

    with ThreadPoolExecutor(2) as pool:
        learning = [pool.submit(learn)]
        while not all(done.done() for done in learning):
            read(portfolio)
    learning[0].result()
    assert len(portfolio.failed_updates) == N_ROUNDS


class Counted:
    """A lock that knows how often it was taken."""

    def __init__(self) -> None:
        self.lock, self.taken = RLock(), 0

    def __enter__(self) -> None:
        self.lock.acquire()
        self.taken += 1

    def __exit__(self, *exception: object) -> None:
        self.lock.release()


def refused_log(portfolio: Portfolio) -> None:
    with pytest.raises(InvalidArgument, match="does not say the probability of every offered action"):
        portfolio.replay_log([LoggedRound(np.eye(2), action=0, reward=1.0, propensity=0.5)])


LOCKED = {
    **READS,
    "give_fallback": lambda portfolio: portfolio.give_fallback(None),
    "end_id_epoch": lambda portfolio: portfolio.end_id_epoch(),
    "replay_log": refused_log,
}


@pytest.mark.parametrize("call", LOCKED.values(), ids=LOCKED)
def test_a_call_waits_for_the_others(call: Callable[[Portfolio], object]) -> None:
    """Other calls are excluded, whether or not a race shows."""
    portfolio, lock = Portfolio([OFUL(2), OFUL(1)]), Counted()
    vars(portfolio)["_lock"] = lock
    call(portfolio)
    assert lock.taken >= 1


def test_a_history_that_was_read_stays_as_it_is() -> None:
    portfolio = Portfolio([UCB(3), UCB(3)])
    portfolio.learn(portfolio.decide(None), 0.5)
    history = portfolio.history
    before = repr(history), len(history.samples)
    portfolio.suspend("UCB")
    for _ in range(20):
        portfolio.learn(portfolio.decide(None), 0.5)
    assert (repr(history), len(history.samples)) == before
    assert repr(portfolio.history) != before[0]
