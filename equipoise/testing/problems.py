"""Checks that every problem must pass, yours included.

Each check is a function whose name says what it checks. One check is statistical: it uses a fixed seed, and a correct
problem fails it with probability at most 1e-9.

>>> from equipoise.problems import KArmedBandit
>>> len(check_problem(lambda: KArmedBandit([0.2, 0.5, 0.9]))) == len(CHECKS)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf, isfinite, log, sqrt
from types import FunctionType, SimpleNamespace
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import numpy as np

from equipoise.kernels.marks import NATIVE
from equipoise.problem import AdaptedProblem, Problem
from equipoise.problems.base import KernelProblem
from equipoise.testing.checks import always, equal, generator, is_matrix, made_again, require, require_error, run_checks
from equipoise.types import Action, Context

N_ROUNDS = 40
N_DRAWS = 8000
FALSE_ALARM = 1e-9
N_COMPARED = 4  # actions whose mean rewards are compared with their gaps

ActionSource = Callable[[Problem, Context], Sequence[Action]]
CheckedProblem: TypeAlias = Any  # a problem, with members that only some checks look at, each under its condition
F = TypeVar("F", bound=Callable[..., object])


class Subject(NamedTuple):
    """What is checked: a factory of equal problems, and the available actions of a context."""

    make: Callable[[], CheckedProblem]
    offered: ActionSource


def check_problem(factory: Callable[[], Problem], actions: ActionSource | None = None) -> list[str]:
    """Run all checks of a problem; raises an AssertionError that names the first check that fails, and why.

    Parameters
    ----------
    factory
        Returns a new problem, each time with the same settings.
    actions
        Returns available actions, given problem and context, including the best one; by default the row indices of the
        context, a matrix.

    Returns
    -------
    list of str
        The names of the checks that were run.
    """
    return run_checks(CHECKS, Subject(factory, actions or (lambda _, context: range(len(context)))), factory)


def says_what_rewards_to_expect(subject: Subject) -> None:
    problem = AdaptedProblem(subject.make())
    require(bool(problem.name), f"name is {problem.name!r}, not a nonempty string")
    low, high = problem.reward_range
    require(-inf < low < high < inf, f"reward_range is {problem.reward_range}, not a range")
    valid = problem.noise is None or 0.0 < problem.noise < inf
    require(valid, f"noise is {problem.noise!r}, neither None nor a positive factor")


def some_offered_action_has_no_gap_and_none_a_negative_one(subject: Subject) -> None:
    problem = subject.make()
    low, high = AdaptedProblem(problem).reward_range
    for t in range(N_ROUNDS):
        context = context_at(problem, t)
        gaps = [problem.gap(context, action) for action in subject.offered(problem, context)]
        require(min(gaps) == 0.0, f"gaps are {gaps} in round {t}: the least must be 0")
        require(max(gaps) <= (high - low) * (1 + 1e-9), f"gaps are {gaps} in round {t}, more than {high - low}")
        end_round(problem, t)


def rewards_are_finite_and_keep_to_the_range(subject: Subject) -> None:
    problem = subject.make()
    low, high = AdaptedProblem(problem).reward_range
    for t in range(N_ROUNDS):
        for reward in rewards_at(subject, problem, t):
            require(type(reward) is float and isfinite(reward), f"reward is {reward!r}, not a finite float")
            in_range = AdaptedProblem(problem).noise is not None or low <= reward <= high
            require(in_range, f"reward is {reward!r}, outside reward_range {(low, high)}")
        end_round(problem, t)


def mean_rewards_differ_by_the_gaps_and_lie_in_the_range(subject: Subject) -> None:
    """Hoeffding: the mean of n draws with sub-Gaussian factor s is off by more than s sqrt(2 ln(2/p)/n) with
    probability at most p; p is a share of 1e-9 for each action that is compared."""
    problem = subject.make()
    adapted = AdaptedProblem(problem)
    low, high = adapted.reward_range
    context, rng = context_at(problem, 0), generator(1)
    gaps = {action: problem.gap(context, action) for action in subject.offered(problem, context)}
    ranked = sorted(gaps, key=lambda action: gaps[action])
    compared = [*ranked[: N_COMPARED - 1], ranked[-1]]
    factor = (high - low) / 2 if adapted.noise is None else adapted.noise
    error = factor * sqrt(2 * log(2 * len(compared) / FALSE_ALARM) / N_DRAWS)
    means = [sum(problem.respond(context, action, rng) for _ in range(N_DRAWS)) / N_DRAWS for action in compared]
    for action, mean in zip(compared, means, strict=True):
        inside = low - error <= mean <= high + error
        require(inside, f"the mean reward of action {action} is {mean:.3f}, outside {(low, high)}")
        lost = means[0] - mean
        agrees = abs(lost - gaps[action]) <= 2 * error
        require(agrees, f"action {action} earns {lost:.3f} less than the best one, but its gap is {gaps[action]:.3f}")


def the_same_generator_gives_the_same_rounds(subject: Subject) -> None:
    one, other = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        contexts = context_at(one, t), context_at(other, t)
        require(equal(*contexts), f"contexts of two equal problems differ in round {t}")
        rewards = rewards_at(subject, one, t), rewards_at(subject, other, t)
        require(rewards[0] == rewards[1], f"rewards of two equal problems differ in round {t}: {rewards}")
        end_round(one, t)
        end_round(other, t)


def a_round_changes_neither_its_context_nor_later_rounds(subject: Subject) -> None:
    problem, untouched = subject.make(), subject.make()
    for t in range(N_ROUNDS):
        context, original = context_at(problem, t), context_at(untouched, t)
        require(equal(context, original), f"the context of round {t} depends on what was done with earlier ones")
        context_at(problem, t + 1)  # must not change anything either
        for action in subject.offered(problem, context):
            gap = AdaptedProblem(problem).gap(context, action)
            problem.respond(context, action, generator(t, 1))
            require(equal(context, original), f"asking for reward or gap of action {action} changed the context")
            later = AdaptedProblem(problem).gap(context, action)
            require(equal(later, gap), f"the gap of action {action} changed when it was played")
        if isinstance(context, np.ndarray):
            context *= -1.0
        end_round(problem, t)
        end_round(untouched, t)


def bad_actions_are_refused(subject: Subject) -> None:
    problem = subject.make()
    context = context_at(problem, 0)
    for bad in (-1, len(context), 0.5, None, "0", np.array([0.0, 1.0])):
        require_error(partial(problem.respond, context, bad, generator(0)), f"the reward of action {bad!r}")
        if knows_gaps(problem):
            require_error(partial(problem.gap, context, bad), f"the gap of action {bad!r}")


def config_rebuilds_an_equal_problem(subject: Subject) -> None:
    problem = subject.make()
    rebuilt = made_again(problem, lambda config: type(problem)(**config))
    for t in range(N_ROUNDS):
        same = equal(context_at(problem, t), context_at(rebuilt, t))
        require(same, f"a problem rebuilt from config() has another context in round {t}")
        same = rewards_at(subject, problem, t) == rewards_at(subject, rebuilt, t)
        require(same, f"a problem rebuilt from config() has other rewards in round {t}")
        if knows_gaps(problem):
            same = gaps_at(subject, problem, t) == gaps_at(subject, rebuilt, t)
            require(same, f"a problem rebuilt from config() has other gaps in round {t}")
        end_round(problem, t)
        end_round(rebuilt, t)


def what_is_compiled_draws_the_same(subject: Subject) -> None:
    """Also for learners that use only the first columns."""
    problem = subject.make()
    interpreted, compiled = problem.kernels.draw, with_native_kernels(problem.kernels.draw)
    for n_columns in sorted({problem.columns_for(SimpleNamespace(n_columns=n)) for n in range(problem.n_columns + 1)}):
        for t in range(N_ROUNDS):
            rngs = generator(t, 0), generator(t, 0)
            one = interpreted(problem.params, problem.workspace(n_columns), rngs[0])
            other = compiled(problem.params, problem.workspace(n_columns), rngs[1])
            for what, expected, seen in zip(("actions", "expected rewards"), one, other, strict=True):
                near = expected.shape == seen.shape and np.allclose(expected, seen, rtol=0.0, atol=1e-12)
                require(near, f"{what} with {n_columns} columns are {expected}, but {seen} in the compiled version")
            require(rngs[0].random() == rngs[1].random(), "the compiled version draws more or fewer random numbers")
            end_round(problem, t)


def the_learner_sees_the_actions_that_are_paid(subject: Subject) -> None:
    """Contexts and gaps of the public methods are those of the kernels, which simulations use."""
    problem = subject.make()
    for t in range(N_ROUNDS):
        context = context_at(problem, t)
        actions, means = problem.kernels.draw(problem.params, problem.workspace(), generator(t, 0))
        require(equal(context, actions), f"observe() gives other actions than the kernel in round {t}")
        gaps = gaps_at(subject, problem, t)
        near = np.allclose(gaps, means.max() - means, rtol=0.0, atol=1e-12)
        require(near, f"gaps are {gaps} in round {t}, but {means.max() - means} by the kernel")
        end_round(problem, t)


def has_matrix_contexts(problem: CheckedProblem) -> bool:
    return is_matrix(context_at(problem, 0))


def knows_gaps(problem: CheckedProblem) -> bool:
    return AdaptedProblem(problem).knows_gaps


def has_config(problem: CheckedProblem) -> bool:
    return callable(getattr(problem, "config", None))


def has_kernels(problem: CheckedProblem) -> bool:
    return isinstance(problem, KernelProblem)


# Every check with the condition under which it is run.
CHECKS: dict[Callable[[Subject], None], Callable[[CheckedProblem], bool]] = {
    says_what_rewards_to_expect: always,
    some_offered_action_has_no_gap_and_none_a_negative_one: knows_gaps,
    rewards_are_finite_and_keep_to_the_range: always,
    mean_rewards_differ_by_the_gaps_and_lie_in_the_range: knows_gaps,
    the_same_generator_gives_the_same_rounds: always,
    a_round_changes_neither_its_context_nor_later_rounds: always,
    bad_actions_are_refused: has_matrix_contexts,
    config_rebuilds_an_equal_problem: has_config,
    what_is_compiled_draws_the_same: has_kernels,
    the_learner_sees_the_actions_that_are_paid: has_kernels,
}


def context_at(problem: CheckedProblem, t: int) -> Context:
    return problem.observe(generator(t, 0))


def end_round(problem: CheckedProblem, t: int) -> None:
    """Report the round to a problem that uses the history: two learners alternate, later only the second plays."""
    AdaptedProblem(problem).record(1 if t > N_ROUNDS // 2 else t % 2, 0, float(t % 2))


def rewards_at(subject: Subject, problem: CheckedProblem, t: int) -> list[float]:
    context, rng = context_at(problem, t), generator(t, 1)
    return [problem.respond(context, action, rng) for action in subject.offered(problem, context)]


def gaps_at(subject: Subject, problem: CheckedProblem, t: int) -> list[float]:
    context = context_at(problem, t)
    return [problem.gap(context, action) for action in subject.offered(problem, context)]


def with_native_kernels(function: F) -> F:
    """A kernel as plain Python, with native implementations of itself and of the other kernels of its module."""
    implementation = NATIVE.get(function, function)
    scope = dict(implementation.__globals__)
    for name, thing in implementation.__globals__.items():
        if isinstance(thing, FunctionType) and thing.__module__ == function.__module__:
            scope[name] = FunctionType(NATIVE.get(thing, thing).__code__, scope)
    return cast(F, FunctionType(implementation.__code__, scope))
