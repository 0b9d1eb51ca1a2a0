"""Portfolios whose decisions are recorded, and the environments they play in.

They use uniform numbers and plain sums, no matrix library and nothing of the package's own problems: what they answer
is the same on every machine, and changes in the package do not reach them. Rewards come by a fixed schedule: some at
once, others up to 50 rounds late and in another order, a few rounds are withdrawn, and a few rewards never
come.
"""

from collections.abc import Callable, Sequence
from math import fsum, log1p
from typing import Any, NamedTuple

import numpy as np

from equipoise import Ball, Portfolio
from equipoise.bounds import Custom, LinearSqrt, Observed, Power, SqrtLog
from equipoise.learners import (
    LSVI_UCB,
    OFUL,
    UCB,
    UCBVI,
    Constant,
    Eleanor,
    EpsilonGreedy,
    LinearThompson,
    QLearning,
    Scheduled,
    SquareCB,
)
from equipoise.learners._core.trajectory import Trajectory
from equipoise.selectors import (
    D3RB,
    ED2RB,
    EXP3,
    UCB1,
    AdversarialElimination,
    BalancedElimination,
    Corral,
    CounterfactualBalancing,
    DynamicBalancing,
    EpochBalancing,
    GreedyMean,
    Oracle,
    RealizedBalancing,
    RegretBalancing,
    Uniform,
)

ROUNDS = 2000
LOST_FROM = 1600  # a reward that never comes ends the resolved plays of its learner, so this is late in a run

N_FEATURES, THETA = 6, (0.9, 0.5, -0.5, 0.4, 0.0, 0.0)
LEVELS = (0.1, 0.25, 0.4, 0.55, 0.7)  # the first feature of each action
N_STATES, N_STEPS = 3, 3
FEATURES = [[[1.0, 0.0, 0.0], [0.0, 0.6, 0.0]], [[0.6, 0.0, 0.2], [0.0, 0.9, 0.1]], [[0.0, 0.3, 0.6], [0.0, 0.0, 1.0]]]


class Environment(NamedTuple):
    """`context` of a round; `answer` to an action in it: the reward, from 0 to 1, and what else is learned from.
    `regret` is what a round is said to have lost at most, where the learner itself does not say."""

    context: Callable[[int], Any]
    answer: Callable[[int, Any, Any], tuple[float, Trajectory | None]]
    regret: Callable[[int], float | None] = lambda t: None


def uniforms(stream: int, t: int, n: int) -> list[float]:
    return np.random.default_rng([stream, t]).random(n).tolist()


def clipped(number: float, low: float = 0.0, high: float = 1.0) -> float:
    return min(max(number, low), high)


def menu(t: int) -> np.ndarray:
    """Five actions of six features, of norm below 1; the first feature says how good an action is on average."""
    draws = iter(uniforms(1, t, len(LEVELS) * (N_FEATURES - 1)))
    return np.array([[level, *(0.5 * next(draws) - 0.25 for _ in range(N_FEATURES - 1))] for level in LEVELS])


def reward_of(t: int, features: Sequence[float]) -> float:
    mean = clipped(fsum(weight * feature for weight, feature in zip(THETA, features, strict=True)), 0.05, 0.95)
    return clipped(mean + 0.3 * (uniforms(2, t, 1)[0] - 0.5))


def answer_to_index(t: int, context: Any, action: int) -> tuple[float, None]:
    return reward_of(t, (menu(0) if context is None else context)[action].tolist()), None


def answer_to_point(t: int, context: Any, action: Any) -> tuple[float, None]:
    return reward_of(t, action.tolist()), None


def episode(t: int, start: int, policy: Any) -> tuple[float, Trajectory]:
    """Three steps through three states; the second action pays in the last state and leads there."""
    state, states, actions, rewards = start, [], [], []
    for h, (where, luck) in enumerate(zip(uniforms(3, t, N_STEPS), uniforms(4, t, N_STEPS), strict=True)):
        action = int(policy[h, state])
        states.append(state)
        actions.append(action)
        rewards.append(float(luck < 0.1 + 0.4 * action * state))
        state = min(state + 1, N_STATES - 1) if where < 0.2 + 0.6 * action else 0
    return fsum(rewards) / N_STEPS, Trajectory(states, actions, rewards)


MENUS = Environment(menu, answer_to_index)
BACKWARD = Environment(
    lambda t: menu(t)[:, ::-1].copy(), lambda t, context, action: answer_to_index(t, context[:, ::-1], action)
)
SAME_MENU = Environment(lambda t: menu(0), answer_to_index)
NO_CONTEXT = Environment(lambda t: None, answer_to_index)
BALLS = Environment(lambda t: Ball(N_FEATURES, 1.0), answer_to_point)
EPISODES = Environment(lambda t: int(uniforms(5, t, 1)[0] * N_STATES), episode, lambda t: 2.0 / (t + 2))


class Variant(NamedTuple):
    """A portfolio to be made and where it plays. `digits`: to how many significant ones numbers are recorded, where
    matrix libraries, whose last digits depend on the processor, reach records, probabilities or actions; else bit for
    bit."""

    make: Callable[[], Portfolio]
    environment: Environment = MENUS
    digits: int | None = None
    lost_from: int = LOST_FROM


def finite() -> list[Any]:
    """Learners that use no matrix library: poor, fair, and two that learn."""
    return [Constant(0), Constant(2), UCB(5, noise=0.1), EpsilonGreedy(5, epsilon=0.1)]


def linear() -> list[Any]:
    return [Constant(0), UCB(5, noise=0.1), OFUL(3, noise=0.1), OFUL(N_FEATURES, noise=0.1)]


def weighted() -> list[Any]:
    return [Constant(1), EpsilonGreedy(5, epsilon=0.2), OFUL(4, noise=0.1), LinearThompson(4, scale=0.2)]


def nested() -> list[OFUL]:
    return [OFUL(dim, noise=0.1, norm_bound=1.2, scale=0.05) for dim in (2, 4, 6)]


def episodic() -> list[Any]:
    sizes: dict[str, Any] = {"horizon": N_STEPS, "episodes": ROUNDS, "bonus": 0.05}
    return [
        LSVI_UCB(FEATURES, 2, **sizes),
        LSVI_UCB(FEATURES, low_switching=True, **sizes, name="rarely"),
        UCBVI(N_STATES, 2, **sizes),
        QLearning(N_STATES, 2, **sizes),
    ]


def low_bounds(n: int = 4) -> list[Power]:
    """Small enough that poor learners are soon disproved."""
    return [Power(0.05 * (i + 1)) for i in range(n)]


def shifted(environment: Environment, low: float, high: float) -> Environment:
    """The same environment with rewards from `low` to `high`."""

    def answer(t: int, context: Any, action: Any) -> tuple[float, Trajectory | None]:
        reward, outcome = environment.answer(t, context, action)
        return low + (high - low) * reward, outcome

    return Environment(environment.context, answer)


def root_log(n: int) -> float:
    return 0.5 * log1p(n)


def made(learners: Callable[[], list[Any]], selector: Callable[[], Any], **settings: Any) -> Callable[[], Portfolio]:
    return lambda: Portfolio(learners(), selector(), **settings)


def for_nested(cls: type[Any], *, share_data: bool = False, **settings: Any) -> Callable[[], Portfolio]:
    def make() -> Portfolio:
        learners = nested()
        return Portfolio(learners, cls.for_learners(learners, **settings), seed=11, share_data=share_data)

    return make


VARIANTS: dict[str, Variant] = {
    "BalancedElimination": Variant(made(linear, lambda: BalancedElimination(low_bounds()))),
    "BalancedElimination, finite": Variant(made(finite, lambda: BalancedElimination(low_bounds()))),
    "BalancedElimination, paper": Variant(
        made(linear, lambda: BalancedElimination(low_bounds(), radius="paper", delta=0.2))
    ),
    "BalancedElimination, bernstein": Variant(
        made(linear, lambda: BalancedElimination(low_bounds(), radius="bernstein"))
    ),
    "BalancedElimination, narrowed": Variant(made(linear, lambda: BalancedElimination(low_bounds(), radius_scale=0.3))),
    "BalancedElimination, mixed bounds": Variant(
        made(
            lambda: [Constant(0), UCB(5, noise=0.1), *finite()[1:3], Scheduled("power", 0.3, 0.5)],
            lambda: BalancedElimination(
                [SqrtLog(0.02, 0.1), Observed(), LinearSqrt(0.01, 0.1), Power(0.1, 0.7), Observed()]
            ),
        )
    ),
    "BalancedElimination, Observed": Variant(
        made(
            lambda: [*nested(), UCB(5, noise=0.1, scale=0.1)], lambda: BalancedElimination([Observed()] * 4, noise=0.1)
        ),
        BACKWARD,
        digits=9,
    ),
    "BalancedElimination, Observed, independent delays": Variant(
        made(
            lambda: [*nested(), UCB(5, noise=0.1, scale=0.1)],
            lambda: BalancedElimination([Observed()] * 4, noise=0.1),
            delays="independent",
        ),
        BACKWARD,
        digits=9,
    ),
    "BalancedElimination, Custom": Variant(
        made(linear, lambda: BalancedElimination([Custom(root_log, "log"), *low_bounds(3)], radius="stitched"))
    ),
    "BalancedElimination, fixed contexts": Variant(
        made(finite, lambda: BalancedElimination(low_bounds(), contexts="fixed", delta=0.3)), SAME_MENU
    ),
    "BalancedElimination, no context": Variant(
        made(finite, lambda: BalancedElimination(low_bounds(), contexts="fixed", delta=0.3)), NO_CONTEXT
    ),
    "BalancedElimination, noise": Variant(
        made(linear, lambda: BalancedElimination(low_bounds(), noise=0.1, reward_range=(-1.0, 0.5))),
        shifted(MENUS, -1.0, 0.5),
    ),
    "BalancedElimination, other range": Variant(
        made(finite, lambda: BalancedElimination([Power(0.2)] * 4, reward_range=(-2.0, 3.0))), shifted(MENUS, -2.0, 3.0)
    ),
    "BalancedElimination, shared data": Variant(
        made(linear, lambda: BalancedElimination(low_bounds()), share_data=True)
    ),
    "BalancedElimination, shared data, Observed": Variant(
        made(nested, lambda: BalancedElimination([Observed()] * 3, noise=0.1), share_data=True), BACKWARD, digits=9
    ),
    "BalancedElimination, deadline": Variant(
        made(linear, lambda: BalancedElimination(low_bounds()), deadline=30, default_reward=0.0), lost_from=0
    ),
    "BalancedElimination, shared data, deadline, Observed": Variant(
        made(
            nested,
            lambda: BalancedElimination([Observed()] * 3, noise=0.1),
            share_data=True,
            deadline=30,
            default_reward=0.25,
        ),
        BACKWARD,
        digits=9,
        lost_from=0,
    ),
    "BalancedElimination, balls": Variant(
        made(
            # Two features: with more, directions not yet tried are equally good, and the processor decides.
            lambda: [OFUL(2, noise=0.1, scale=scale) for scale in (0.1, 0.5, 1.0)],
            lambda: BalancedElimination([Power(0.1), Observed(), Power(0.3)]),
        ),
        BALLS,
        digits=5,  # actions are points, and each depends on all before it
    ),
    "BalancedElimination, episodes": Variant(
        made(episodic, lambda: BalancedElimination([Power(0.05), Observed(), Observed(), Power(0.2)])), EPISODES
    ),
    "BalancedElimination, randomized learners": Variant(
        made(
            lambda: [
                EpsilonGreedy(5, epsilon=1.0),
                EpsilonGreedy(5, epsilon=0.1),
                LinearThompson(N_FEATURES, scale=0.2),
                SquareCB(N_FEATURES, scale=30.0),
            ],
            lambda: BalancedElimination([Power(0.05)] * 4, radius="bernstein"),
            seed=5,
        ),
        digits=9,
    ),
    "EpochBalancing": Variant(for_nested(EpochBalancing, noise=0.1, radius_scale=0.3), BACKWARD, digits=9),
    "EpochBalancing, text size": Variant(
        for_nested(EpochBalancing, size="text", seed=3, delta=0.3), BACKWARD, digits=9
    ),
    "AdversarialElimination": Variant(
        for_nested(AdversarialElimination, noise=0.1, radius_scale=0.3), BACKWARD, digits=9
    ),
    "AdversarialElimination, shared data": Variant(
        for_nested(AdversarialElimination, share_data=True, noise=0.1, size="theorem"), BACKWARD, digits=9
    ),
    "RealizedBalancing": Variant(made(linear, lambda: RealizedBalancing(4))),
    "CounterfactualBalancing": Variant(
        made(
            linear,
            lambda: CounterfactualBalancing(4, learning=["all", "own", "agreed", "all"], greedy_experts=[1, 2, 3]),
        )
    ),
    "RealizedBalancing, bounds": Variant(
        made(linear, lambda: RealizedBalancing(4, bounds=low_bounds(), slack=2.0, radius_scale=0.2))
    ),
    "RealizedBalancing, Observed": Variant(
        made(
            lambda: [UCB(5, noise=0.05, scale=0.1), UCB(5, noise=0.1), Scheduled("power", 0.2, 0.5)],
            lambda: RealizedBalancing(3, bounds=[Observed(), Observed(), Observed()], floor=0.1),
        )
    ),
    "RealizedBalancing, fixed contexts, bernstein": Variant(
        made(finite, lambda: RealizedBalancing(4, contexts="fixed", radius="bernstein", optimism=1.0)), SAME_MENU
    ),
    "RealizedBalancing, shared data": Variant(made(linear, lambda: RealizedBalancing(4), share_data=True)),
    "RealizedBalancing, episodes": Variant(made(episodic, lambda: RealizedBalancing(4)), EPISODES),
    "RegretBalancing": Variant(made(linear, lambda: RegretBalancing(low_bounds()))),
    "RegretBalancing, Observed": Variant(
        made(finite, lambda: RegretBalancing([Power(0.1), Power(0.2), Observed(), SqrtLog(0.05, 0.1)], delta=0.1))
    ),
    "DynamicBalancing": Variant(made(linear, lambda: DynamicBalancing(low_bounds()))),
    "DynamicBalancing, scales and biases": Variant(
        made(finite, lambda: DynamicBalancing(low_bounds(), scales=(1.0, 0.5, 2.0, 1.0), biases=(0.0, 0.05, 0.1, 0.0)))
    ),
    "D3RB": Variant(made(linear, lambda: D3RB(4, d_min=0.05, radius_scale=0.2))),
    "D3RB, other range": Variant(
        made(finite, lambda: D3RB(4, d_min=0.1, reward_range=(-2.0, 3.0))), shifted(MENUS, -2.0, 3.0)
    ),
    "ED2RB": Variant(made(linear, lambda: ED2RB(4, d_min=0.05, radius_scale=0.2))),
    "ED2RB, fixed contexts": Variant(made(finite, lambda: ED2RB(4, contexts="fixed", radius="paper")), SAME_MENU),
    "Uniform": Variant(made(linear, lambda: Uniform(4), seed=2)),
    "Corral": Variant(made(weighted, lambda: Corral(4, rounds=ROUNDS), seed=2)),
    "Corral, finite": Variant(
        made(finite, lambda: Corral(4, rounds=ROUNDS, eta=0.1, reward_range=(-2.0, 3.0))), shifted(MENUS, -2.0, 3.0)
    ),
    "GreedyMean": Variant(made(linear, lambda: GreedyMean(4))),
    "UCB1": Variant(made(linear, lambda: UCB1(4))),
    "UCB1, exploration": Variant(made(finite, lambda: UCB1(4, exploration=4.0, noise=0.3))),
    "EXP3": Variant(made(linear, lambda: EXP3(4), seed=2)),
    "EXP3, horizon": Variant(made(finite, lambda: EXP3(4, rounds=ROUNDS), seed=3)),
    "Oracle": Variant(made(linear, lambda: Oracle(4, best=3))),
    "Oracle, Eleanor": Variant(
        made(
            lambda: [Eleanor(FEATURES, horizon=N_STEPS, n_starts=0, scale=0.1), *episodic()[2:]],
            lambda: Oracle(3, best=1),
        ),
        EPISODES,
    ),
}


class Settlement(NamedTuple):
    """What becomes of a decision: its reward is learned, or, if None, it is withdrawn."""

    id: str
    reward: float | None
    outcome: Trajectory | None = None
    regret: float | None = None


Decisions = list[tuple[int | None, Any, float]]  # learner, action, probability of both
Waiting = dict[int, list[Settlement]]  # by the round at the end of which it happens


def fate(t: int, lost_from: int) -> tuple[str, int]:
    """What becomes of round t, and after how many rounds."""
    number = (t * 2654435761 % 2**32) >> 8
    share, delay = number % 1000, number // 1000 % 50
    if share < 750:
        return "at once", 0
    if share < 940:
        return "late", 1 + delay
    if share < 970:
        return "withdrawn", delay % 12
    return ("lost", 0) if t >= lost_from else ("late", 50 - delay)


def play(portfolio: Portfolio, variant: Variant, rounds: range, waiting: Waiting) -> Decisions:
    """The decisions of these rounds; `waiting` is what is still to happen, and is kept up to date."""
    decisions = []
    for t in rounds:
        context = variant.environment.context(t)
        decision = portfolio.decide(context)
        decisions.append(
            (decision.learner, decision.action, decision.learner_probability * decision.action_probability)
        )
        reward, outcome = variant.environment.answer(t, context, decision.action)
        what, delay = fate(t, variant.lost_from)
        if what != "lost":
            due = Settlement(
                decision.id, None if what == "withdrawn" else reward, outcome, variant.environment.regret(t)
            )
            waiting.setdefault(t + delay, []).append(due)
        for settlement in reversed(waiting.pop(t, [])):
            settle(portfolio, settlement)
    return decisions


def settle(portfolio: Portfolio, settlement: Settlement) -> None:
    if settlement.reward is None:
        portfolio.withdraw(settlement.id)
    else:
        portfolio.learn(settlement.id, settlement.reward, settlement.outcome, settlement.regret)
