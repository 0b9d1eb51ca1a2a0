"""Copies of a portfolio in mid-run are independent of it and go on exactly as it does, however they were made."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import joblib  # type: ignore[import-untyped]  # it has no types
import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.certificates import AnyElimination
from equipoise.learners import OFUL, UCB, EpsilonGreedy
from equipoise.selectors import EXP3, UCB1, BalancedElimination, Corral, RealizedBalancing
from tests.recorders import joint, number, numbers, player

N_ACTIONS, N_FEATURES = 4, 3
PORTFOLIOS = {
    "observed bounds": lambda: Portfolio(
        [UCB(4), OFUL(2), OFUL(3)], BalancedElimination([Power(1), *[Observed()] * 2])
    ),
    "realized": lambda: Portfolio([UCB(4), EpsilonGreedy(4, epsilon=0.1), OFUL(3)], RealizedBalancing(3)),
    "shared": lambda: Portfolio([OFUL(2), OFUL(3)], UCB1(2), share_data=True, deadline=40, default_reward=0.0),
    "drawn": lambda: Portfolio([UCB(4), EpsilonGreedy(4, epsilon=0.2)], EXP3(2)),
    "weights": lambda: Portfolio([UCB(4), OFUL(3)], Corral(2, rounds=500)),
}


def play(portfolio: Portfolio, start: int, stop: int) -> list[tuple[int | None, int, float]]:
    """Rounds with rewards that come up to 7 rounds late; contexts and rewards depend on the round alone."""
    decisions = []
    for t in range(start, stop):
        rng = np.random.default_rng(t)
        context = rng.uniform(-0.5, 0.5, (N_ACTIONS, N_FEATURES))
        decision = portfolio.decide(context)
        decisions.append((decision.learner, decision.action, joint(decision)))
        for id_ in portfolio.pending:
            if number(id_) % 8 <= t % 8:
                portfolio.learn(id_, float(np.random.default_rng(number(id_)).random()))
    return decisions


def in_mid_run(name: str) -> Portfolio:
    portfolio = PORTFOLIOS[name]()
    play(portfolio, 0, 100)
    assert portfolio.pending
    return portfolio


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda portfolio: pickle.loads(pickle.dumps(portfolio)),
}


@pytest.mark.slow
@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", PORTFOLIOS)
def test_a_copy_is_independent_and_goes_on_identically(name: str, how: str) -> None:
    portfolio, control = in_mid_run(name), in_mid_run(name)
    copied = COPIES[how](portfolio)
    went_on = play(copied, 100, 200)
    assert str(portfolio.standing()) == str(control.standing())
    assert numbers(portfolio.pending) == numbers(control.pending)
    assert play(portfolio, 100, 200) == went_on == play(control, 100, 200)
    assert str(portfolio.standing()) == str(copied.standing())


def go_on(portfolio: Portfolio) -> list[tuple[int | None, int, float]]:
    return play(portfolio, 100, 200)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["observed bounds", "weights"])
def test_a_spawned_process_goes_on_identically(name: str) -> None:
    portfolio = in_mid_run(name)
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        elsewhere = pool.submit(go_on, portfolio).result()
    assert elsewhere == go_on(portfolio)


@pytest.mark.slow
def test_joblib_goes_on_identically() -> None:
    portfolios = [in_mid_run("realized"), in_mid_run("drawn")]
    elsewhere = joblib.Parallel(n_jobs=2)(joblib.delayed(go_on)(portfolio) for portfolio in portfolios)
    assert elsewhere == [go_on(portfolio) for portfolio in portfolios]


def test_copies_do_not_call_those_who_listen_to_the_original() -> None:
    portfolio = Portfolio([UCB(2), UCB(2)], BalancedElimination([Power(0.1), Power(0.1)]))
    heard: list[AnyElimination] = []
    portfolio.on_elimination(heard.append)
    copied = copy.deepcopy(portfolio)
    for _ in range(2000):
        decision = copied.decide(np.eye(2))
        copied.learn(decision, float(player(decision)))
    assert copied.selector.active == (1,)
    assert heard == []
