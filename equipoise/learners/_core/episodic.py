"""Base class of learners for finite episodic decision processes: policies, trajectories, observed regret.

A round is an episode of H steps from a start state, which is the context. The proposed action is a policy, a table of
H x S action indices, and the learner learns from the trajectory. Rewards of steps lie in [0, 1].

Observed regret bound. The values of an optimistic learner satisfy D_h <= min(H - h + 1, 2 b_h + E D_{h+1}) for the
loss D_h of its policy from step h on, where b_h is the bonus of the action taken (Q_h is clipped at H - h + 1). So the
regret of an episode is at most the expectation of X = sum_h min(H - h + 1, 2 b_h) along its own trajectory. With S(n)
the sum of the realized X over n episodes and B = H (H + 1) / 2 their largest possible value, each of
    S(n) + 0.85 B sqrt(n (ln ln 2n + 0.72 ln(5.2 / alpha))) and (x S(n) + B ln(1 / alpha)) / (1 - exp(-x)), x = 1/2,
bounds the sum of the expectations simultaneously for all n with probability 1 - alpha: the first is a stitched
Hoeffding boundary, the second follows from exp(-x y) <= 1 - (1 - exp(-x)) y on [0, 1]. The smaller of the two is used,
each with half of alpha. X is not clipped at H: the expectation of a clipped X may be less than the regret.

With a bias of at most iota in one backup, 2 b_h becomes 2 b_h + 2 iota and every H - h + 1 grows by the factor 1 +
iota.

Overlapping episodes. X uses the bonuses of the plan that played, which may be older than the present one, so a proposal
carries the widths of its plan, and the number j of episodes learned by then. If all earlier episodes of the learner,
and no later ones, have been learned when the outcome comes, the increase of the bound f(n, S(n)) is known exactly.
Otherwise its place n > j in the order of plays is not known, and the increase is bounded: that of the smaller of two
functions is at most the larger of their increases, and the stitched boundary is concave in n, so
    f(n, S + X) - f(n - 1, S) <= max(X + d(j + 1) - d(j), (x X + [j = 0] B ln(1 / alpha)) / (1 - exp(-x))),
d the stitched boundary. Either way the increases up to any play add up to at least f.

References: Howard, Ramdas, McAuliffe and Sekhon (2021), "Time-uniform, nonparametric, nonasymptotic confidence
sequences", eq. (2) (the stitched boundary); Jin, Yang, Wang and Jordan (2020), "Provably efficient reinforcement
learning with linear function approximation", lemma B.5 (optimism and one-step error).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from functools import partial
from math import exp, log, sqrt
from typing import ClassVar, NamedTuple, Protocol, TypeAlias, cast

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features.offers import as_numbers
from equipoise.kernels.boundaries import STITCHED_FACTOR, stitched_bracket, stitched_level
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import KernelLearner, MemoryT, ParamsT
from equipoise.learners._core.trajectory import Steps, as_indices, as_step_rewards, check_lengths
from equipoise.settings import configurable, setting
from equipoise.settings.checks import count, probability
from equipoise.types import Action, Array, Context, Integers, Outcome

Table = Integers  # (H, S)
PlanRecord: TypeAlias = tuple[int, Array]  # episodes learned when the plan was proposed, and its widths or bonuses
EXPONENTIAL_RATE = 0.5  # x of the second bound in the module docstring
NORM_TOLERANCE = 1 + 1e-9  # relative tolerance for rounding in the norms of features


@kernel
def observed_bound(episodes: int, width_sum: float, max_width: float, alpha: float) -> float:
    """Upper bound on the regret of `episodes` episodes, given the sum of their realized widths."""
    if episodes == 0:
        return 0.0
    share = alpha / 2.0
    return min(width_sum + deviation(episodes, max_width, share), exponential_bound(width_sum, max_width, share))


@kernel
def deviation(episodes: int, max_width: float, share: float) -> float:
    """d: the stitched boundary. Increments in an interval of width B have the sub-Gaussian factor B^2/4."""
    return STITCHED_FACTOR / 2.0 * max_width * sqrt(episodes * stitched_bracket(episodes, stitched_level(share)))


@kernel
def exponential_bound(width_sum: float, max_width: float, share: float) -> float:
    return (EXPONENTIAL_RATE * width_sum + max_width * log(1.0 / share)) / (1.0 - exp(-EXPONENTIAL_RATE))


def largest_increase(episodes: int, width: float, max_width: float, alpha: float) -> float:
    """Upper bound on the increase of `observed_bound` by an episode of this width after `episodes` or more others."""
    share = alpha / 2.0
    if episodes == 0:
        return max(width + deviation(1, max_width, share), exponential_bound(width, max_width, share))
    step = deviation(episodes + 1, max_width, share) - deviation(episodes, max_width, share)
    return max(width + step, EXPONENTIAL_RATE * width / (1.0 - exp(-EXPONENTIAL_RATE)))


def increase(episodes: int, width_sum: float, width: float, max_width: float, alpha: float) -> float:
    """The increase of `observed_bound` by the next episode."""
    after = observed_bound(episodes + 1, width_sum + width, max_width, alpha)
    return float(after - observed_bound(episodes, width_sum, max_width, alpha))


def check_plan(plan: object, shape: tuple[int, ...]) -> tuple[int, Array]:
    """Return the number of episodes and the array of a proposal's plan; raise an error if it is invalid."""
    if not isinstance(plan, tuple) or len(plan) != 2 or np.shape(plan[1]) != shape:
        raise InvalidArgument(f"plan is {plan!r:.80}, but must be the plan of a proposal of this learner")
    return count("episodes of plan", plan[0], minimum=0), np.asarray(plan[1], float)


class Plan(Protocol):
    """Fields that the memory of every `PlanningLearner` has."""

    policy: Integers
    widths: Array
    episodes: Integers
    width_sum: Array


def new_plan(horizon: int, n_states: int, width: float = 0.0) -> tuple[Table, Array, Integers, Array]:
    """Policy, widths, episodes and width_sum of a memory without episodes."""
    shape = (horizon, n_states)
    return np.zeros(shape, np.int64), np.full(shape, width), np.zeros(1, np.int64), np.zeros(1)


@kernel
def episode_width(widths: Array, states: Table) -> float:
    """Sum of the widths (H, S) of a policy along the states of an episode."""
    total = 0.0
    for h in range(len(states)):
        total += widths[h, states[h]]
    return total


@kernel
def add_width(memory: Plan, states: Table, max_width: float, alpha: float) -> float:
    """Add an episode and its width to the totals; return the increase of the observed bound."""
    before = observed_bound(memory.episodes[0], memory.width_sum[0], max_width, alpha)
    memory.episodes[0] += 1
    memory.width_sum[0] += episode_width(memory.widths, states)
    return observed_bound(memory.episodes[0], memory.width_sum[0], max_width, alpha) - before


def check_features(name: str, features: object) -> Array:
    """Return the features of all states and actions as an array (S, A, d); raise an error if a norm exceeds 1."""
    array = as_numbers(features, name, "an array (S, A, d) of numbers")
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidArgument(f"{name} has shape {array.shape}, but must have (S, A, d): states, actions, features")
    norm = float(np.sqrt((array**2).sum(-1)).max())
    if not norm <= NORM_TOLERANCE:
        raise InvalidArgument(f"{name} has a row of norm {norm:.6g}, but norms must be finite and at most 1")
    return array


# Checks and docs of settings that several learners declare.
check_size = partial(count, maximum=1_000_000)
HORIZON = "Number of steps H of an episode."
STATES = "Number of states S of the process."
ACTIONS = "Number of actions A in each state."
FEATURES = "Feature vectors of all states and actions, an array of shape (S, A, d) with norms of at most 1."
DIM = "Number of features used: the first `dim` of them. Default: all."
delta_setting = partial(
    setting, default=0.01, check=probability, doc="Probability in (0, 1) that optimism or the observed bound fails."
)


class Process(NamedTuple):
    """The sizes of a finite episodic process, with the checks that follow from them."""

    n_states: int
    n_actions: int
    horizon: int

    def check_state(self, state: Context) -> int:
        """Return the start state of an episode as an index."""
        return count("context", state, minimum=0, maximum=self.n_states - 1)

    def check_trajectory(self, trajectory: Outcome) -> Steps:
        """Return the trajectory as arrays; raise an error if it is invalid."""
        states, actions, rewards = check_lengths(trajectory, self.horizon)
        return Steps(
            as_indices("states of the trajectory", states, self.n_states),
            as_indices("actions of the trajectory", actions, self.n_actions),
            as_step_rewards(rewards),
        )

    def check_episode(self, context: Context, action: Action) -> Steps:
        """Return the steps of an episode; raise an error if they are invalid or do not start in the context."""
        steps = self.check_trajectory(action)
        start = self.check_state(context)
        if steps.states[0] != start:
            raise InvalidArgument(f"trajectory starts in {steps.states[0]}, but must start in its context {start}")
        return steps


def used_features(features: Array, dim: int | None) -> int:
    """The number of features to use: `dim`, or all of them if it is None."""
    return features.shape[2] if dim is None else count("dim", dim, maximum=features.shape[2])


@configurable
class PlanningLearner(KernelLearner[ParamsT, MemoryT]):
    """An episodic learner that plans one policy for all start states after every episode.

    `memory.policy` (H, S) is the plan for the next episode, and `memory.widths` (H, S) bounds the loss of the plan at
    each step and state, not counting later losses (nan if unknown); `episodes` and `width_sum` are totals over the
    learner's own episodes. Half of `delta` is the failure probability of optimism, half that of the observed bound.
    """

    horizon: int = setting(HORIZON, check_size)
    delta: float = delta_setting()
    episodes: int = setting("Planned number of episodes K, which enters the bonus through a logarithm.", count)
    process: Process = field(init=False)

    provides = frozenset({"regret"})
    learn_episode: ClassVar[Callable[..., None]]  # kernel over (params, memory, states, actions, rewards)

    @property
    def max_width(self) -> float:
        """B: the largest possible width of an episode."""
        return self.horizon * (self.horizon + 1) / 2

    def decide(self, context: Context, rng: np.random.Generator | None = None) -> Proposal:
        """Propose the planned policy, which is the same for all start states."""
        self.process.check_state(context)
        memory = cast(Plan, self.memory)
        plan = (int(memory.episodes[0]), memory.widths.copy()) if "regret" in self.provides else None
        return Proposal(memory.policy.copy(), plan=plan)

    def learn(
        self, context: Context, action: Action, reward: float, weight: float = 1.0, plan: PlanRecord | None = None
    ) -> None:
        """Learn from a trajectory of this plan, or of the present one; `reward`, its return, is checked, not used."""
        memory, steps = cast(Plan, self.memory), self.process.check_episode(context, action)
        self.check_reward(reward, weight)
        width = episode_width(self._plan_record(plan)[1], steps.states)
        memory.episodes[0] += 1
        memory.width_sum[0] += width
        type(self).learn_episode(self.params, memory, *steps)

    def regret_of(self, outcome: Outcome, plan: PlanRecord | None = None, in_order: bool = True) -> float:
        """Increase of the observed regret bound by an episode of the proposal with this plan, or of the present plan.

        Call this before `learn`. `in_order` tells whether exactly the earlier episodes of the learner have been
        learned; if not, the result is an upper bound on the increase.
        """
        learned, widths = self._plan_record(plan)
        width, memory = episode_width(widths, self.process.check_trajectory(outcome).states), cast(Plan, self.memory)
        if not in_order:
            return largest_increase(learned, width, self.max_width, self.delta / 2)
        return increase(int(memory.episodes[0]), float(memory.width_sum[0]), width, self.max_width, self.delta / 2)

    def _plan_record(self, plan: PlanRecord | None) -> PlanRecord:
        memory = cast(Plan, self.memory)
        return (int(memory.episodes[0]), memory.widths) if plan is None else check_plan(plan, memory.widths.shape)
