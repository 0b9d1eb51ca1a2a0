"""Rounds of a learner under check: its contexts and outcomes, what it proposes in them, and comparisons of both."""

from __future__ import annotations

from collections.abc import Callable
from math import isnan, log, sqrt
from numbers import Real
from typing import NamedTuple

import numpy as np

from equipoise.features import Offers
from equipoise.learner import AdaptedLearner, Learner, Proposal
from equipoise.learners import Ball
from equipoise.testing.checks import generator, require
from equipoise.testing.comparing import require_same_arrays
from equipoise.types import Action, Array, Context, Outcome, State

N_ROUNDS = 40
# Rounds (first, last) before decisions are repeated: at the start, and after the learner has learned something.
STATES = ((0, 0), (0, N_ROUNDS), (N_ROUNDS, 2 * N_ROUNDS))
N_DECISIONS = 300  # in the same context and state, of a learner that draws random numbers
N_CERTAIN_DECISIONS = 10  # of one that says it does not

ContextSource = Callable[[np.random.Generator], Context]
OutcomeSource = Callable[[Context, Action, np.random.Generator], Outcome]


class Subject(NamedTuple):
    """What is checked: a factory of equal learners, with the contexts and outcomes that they get."""

    make: Callable[[], Learner]
    contexts: ContextSource
    outcomes: OutcomeSource
    canonical: bool = True  # whether equal learners have equal states


def random_actions(rng: np.random.Generator) -> Array:
    """2 to 6 actions with 8 features, of norm at most 1."""
    rows = rng.standard_normal((int(rng.integers(2, 7)), 8))
    rows *= rng.random((len(rows), 1)) / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def context_at(subject: Subject, t: int) -> Context:
    return subject.contexts(generator(t, 0))


def decision_at(subject: Subject, learner: Learner, t: int) -> tuple[Context, Proposal]:
    """The context of round t and the learner's proposal."""
    context = context_at(subject, t)
    return context, AdaptedLearner(learner).decide(context, generator(t, 1))


def decisions_at(subject: Subject, learner: Learner, t: int) -> tuple[Context, list[Proposal]]:
    """The context of round t and what the learner proposes in it with different random numbers."""
    adapted, context = AdaptedLearner(learner), context_at(subject, t)
    n_decisions = N_DECISIONS if adapted.randomized else N_CERTAIN_DECISIONS
    return context, [adapted.decide(context, generator(t, 4 + k)) for k in range(n_decisions)]


def is_frequency(times: int, n: int, probability: float) -> bool:
    """Whether an event of this probability may occur so often among n; wrongly False with probability below 1e-9."""
    if probability in (0.0, 1.0):
        return times == n * probability
    return abs(times - n * probability) <= sqrt(n * log(2e9) / 2)


def outcome_at(subject: Subject, context: Context, proposal: Proposal, t: int) -> Outcome:
    return subject.outcomes(context, proposal.action, generator(t, 3))


def parts(outcome: Outcome, original: Outcome) -> list[tuple[str, Outcome, Outcome]]:
    """The parts of an outcome: an action has one, an episode several."""
    if isinstance(outcome, tuple):
        return [("outcome", piece, kept) for piece, kept in zip(outcome, original, strict=True)]
    return [("action", outcome, original)]


def reward_at(t: int) -> float:
    return float(generator(t, 2).random())


def play(subject: Subject, learner: Learner, start: int = 0, stop: int = N_ROUNDS) -> list[tuple[Context, Proposal]]:
    """Play the rounds from `start` to `stop`; contexts and rewards depend on the number of the round only."""
    rounds = []
    for t in range(start, stop):
        context, proposal = decision_at(subject, learner, t)
        teach(learner, context, outcome_at(subject, context, proposal, t), t, proposal.probability)
        rounds.append((context, proposal))
    return rounds


def teach(learner: Learner, context: Context, outcome: Outcome, t: int, probability: float) -> None:
    AdaptedLearner(learner).learn(context, outcome, reward_at(t), probability=probability)


def is_matrix(context: Context) -> bool:
    return isinstance(context, np.ndarray) and context.ndim == 2


def require_offered(context: Context, action: Action) -> None:
    if is_matrix(context):
        index = hasattr(action, "__index__") and not isinstance(action, bool | np.ndarray)
        require(index and 0 <= action < len(context), f"action is {action!r}, not an index below {len(context)}")
    elif isinstance(context, Offers):
        index = hasattr(action, "__index__") and not isinstance(action, bool | np.ndarray)
        require(index and action in context.offered, f"action is {action!r}, not one of {context.offered.tolist()}")
    elif isinstance(context, Ball):
        norm = float(np.linalg.norm(action))
        fits = np.shape(action) == (context.dim,) and norm <= context.radius * (1 + 1e-9)
        require(fits, f"action has shape {np.shape(action)} and norm {norm:.6g}, but {context} was offered")


def require_same_proposal(expected: Proposal, seen: Proposal, whose: str) -> None:
    same = all(equal(one, other) for one, other in zip(expected, seen, strict=True))
    require(same, f"proposals {whose} differ: {expected} and {seen}")


def equal(one: Outcome, other: Outcome) -> bool:
    if isinstance(one, Real) and isinstance(other, Real):
        return one == other or (isnan(one) and isnan(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return bool(np.array_equal(one, other))


def saved(learner: Learner) -> State:
    return {name: np.array(array) for name, array in learner.state().items()}


def require_same_state(subject: Subject, expected: State, learner: Learner, when: str) -> None:
    if subject.canonical:
        require_same_arrays(expected, learner.state(), when)
        return
    original = subject.make()
    original.restore({name: array.copy() for name, array in expected.items()})
    for t in range(N_ROUNDS):
        one, other = (decision_at(subject, each, t)[1] for each in (original, learner))
        require_same_proposal(one, other, f"by states {when}")
