"""Learners and a selector that do next to nothing, so that tests see what a portfolio does with them."""

import re
from collections.abc import Iterable, Iterator
from math import nan
from typing import Any

import numpy as np

from equipoise import Choice, Decision, Portfolio, Proposal, Standing
from equipoise.bounds import Power
from equipoise.errors import InvalidArgument
from equipoise.portfolio import PortfolioSettings
from equipoise.problems import LinearBandit
from equipoise.selectors import BalancedElimination
from equipoise.storage.parts import pack

EPOCH = re.compile(r"^[0-9a-f]{16}(?=-|$)")


def saved(portfolio: Portfolio) -> bytes:
    """Everything that is saved of a portfolio, as bytes; ids without their random part."""
    return without_ids(portfolio.state())


def without_ids(state: dict[str, Any]) -> bytes:
    """The state of a portfolio that does not depend on how often it was loaded."""
    tickets = {name: part for name, part in state["tickets"].items() if name != "ids"}
    return pack(without_epochs({**state, "tickets": tickets}))


def without_epochs(value: Any) -> Any:
    match value:
        case str():
            return EPOCH.sub("epoch", value)
        case dict():
            return {key: without_epochs(item) for key, item in value.items()}
        case list() | tuple():
            return type(value)(without_epochs(item) for item in value)
    return value


def number(id_: str | int) -> int:
    """The round of an id."""
    return int(str(id_).rpartition("-")[2])


def numbers(ids: Iterable[str | int]) -> tuple[int, ...]:
    return tuple(map(number, ids))


def nth(portfolio: Portfolio, round_: int) -> str:
    """The id of the decision of a round of this process."""
    return f"{portfolio.state()['tickets']['ids'][-1][0]}-{round_}"


def player(decision: Decision) -> int:
    """The learner that plays; here one always does."""
    assert decision.learner is not None
    return decision.learner


def joint(decision: Decision) -> float:
    """The probability of learner and action."""
    return decision.learner_probability * decision.action_probability


class Recorder:
    """Plays its own number and keeps what it is taught; raises as often as `failures` says, before it learns."""

    provides = frozenset({"regret"})

    def __init__(self, number: int = 0, *, accepts: set[str] | None = None, regret: float = 0.25) -> None:
        self.name = f"Recorder({number})"
        self.number, self.regret = number, regret
        self.accepts = frozenset(accepts or ())
        self.updates: list[tuple[Any, Any, float]] = []
        self.failures = {"decide": 0, "learn": 0}

    def decide(self, context: Any) -> Proposal:
        self.fail("decide")
        return Proposal(self.number, regret=self.regret)

    def learn(self, context: Any, action: Any, reward: float) -> None:
        self.fail("learn")
        self.updates.append((context, action, reward))

    def fail(self, where: str) -> None:
        if self.failures[where] > 0:
            self.failures[where] -= 1
            raise RuntimeError(f"no luck in {where}")

    @property
    def rewards(self) -> list[float]:
        return [reward for *_, reward in self.updates]

    def state(self) -> dict[str, np.ndarray]:
        return {"rewards": np.array(self.rewards)}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.updates = [(None, None, reward) for reward in state["rewards"].tolist()]


def recorders(n: int = 2, bound: Any = None, **settings: Any) -> Portfolio:
    """A portfolio of recorders with equal bounds: they take turns."""
    selector = BalancedElimination([bound or Power(1.0)] * n)
    accepts = {"off_policy"} if settings.get("share_data") else set()
    return Portfolio([Recorder(i, accepts=accepts) for i in range(n)], selector, **settings)


def rewards_of(portfolio: Portfolio) -> list[list[float]]:
    return [learner.rewards for learner in portfolio.learners]


class FiveLines:
    def decide(self, context):
        return 0

    def learn(self, context, action, reward):
        pass


class RoundRobin:
    """A selector of a user's own, with nothing but the contract's methods."""

    needs: frozenset[str] = frozenset()

    def __init__(self, n: int) -> None:
        self.plays, self.totals = [0] * n, [0.0] * n
        self.observed_proposals: list[set[int]] = []

    @property
    def active(self) -> tuple[int, ...]:
        return tuple(range(len(self.plays)))

    def choose(self, rng=None):
        learner = sum(self.plays) % len(self.plays)
        self.plays[learner] += 1
        return Choice(learner, self.plays[learner], 1.0)

    def observe(self, choice, proposals):
        self.observed_proposals.append(set(proposals))

    def replay(self, choice):
        self.plays[choice.learner] += 1

    def credit(self, choice, reward, regret=None):
        self.totals[choice.learner] += reward
        return ()

    def withdraw(self, choice):
        self.plays[choice.learner] -= 1
        return ()

    def standing(self):
        return [Standing(i, n, 0, nan, nan, nan, nan, nan, active=True) for i, n in enumerate(self.plays)]

    def certificate(self):
        raise InvalidArgument("turns prove nothing")

    def config(self):
        return {"n": len(self.plays)}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def state(self):
        return {"plays": np.array(self.plays), "totals": np.array(self.totals)}

    def restore(self, state):
        self.plays, self.totals = state["plays"].tolist(), state["totals"].tolist()


def play(portfolio: Portfolio, rounds: int, problem_seed: int = 0) -> list[tuple[Any, ...]]:
    """Decisions and rewards of a run on a linear bandit."""
    problem, rng = LinearBandit(4, 2, 3), np.random.default_rng(problem_seed)
    log: list[tuple[Any, ...]] = []
    for _ in range(rounds):
        context = problem.observe(rng)
        decision = portfolio.decide(context)
        reward = problem.respond(context, decision.action, rng)
        portfolio.learn(decision, reward)
        log.append((decision.learner, decision.action, str(joint(decision)), reward))
    return log


def eliminating(share_data: bool = False, bound: Any = None) -> Iterator[tuple[Portfolio, Decision, float]]:
    """A portfolio whose second learner earns nothing and is soon eliminated: each decision before its reward."""
    selector = BalancedElimination([bound or Power(0.01)] * 2)
    learners = [Recorder(i, accepts={"off_policy"}, regret=0.0) for i in range(2)]
    portfolio = Portfolio(learners, selector, share_data=share_data)
    while True:
        decision = portfolio.decide(None)
        yield portfolio, decision, 1.0 - player(decision)


def simulated(learners: Any, selector: Any, **settings: Any) -> Portfolio:
    """A portfolio as simulations make it: with parts that a live one refuses."""
    return Portfolio.with_settings(learners, selector, PortfolioSettings.given(settings), live=False)
