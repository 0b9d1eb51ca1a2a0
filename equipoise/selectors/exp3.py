"""EXP3 over learners: the probability of a learner decreases exponentially with its estimated losses.

The loss of the chosen learner divided by its probability, and 0 for the others, is an unbiased estimate of each
learner's loss in that round. For fixed actions this bounds the regret against the best of them, for any sequence of
rewards. Learners, however, learn only when played: the guarantee compares with the rewards they would have earned in
the states they were in, and does not bound the regret against the best learner playing alone.

Reference: Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit
problems", figure 3.1 and theorem 3.1 (after Auer, Cesa-Bianchi, Freund and Schapire 2002, without forced exploration).
Symbols: K n_learners, n rounds, eta rate, loss (high - reward)/w, Ltilde loss_sum.
Both rates of the theorem are available: if `rounds` is given, eta = sqrt(2 ln K/(n K)) and the pseudo-regret is at most
w sqrt(2 n K ln K); otherwise eta_t = sqrt(ln K/(t K)) and it is at most 2 w sqrt(n K ln K).
Departures: a late loss is credited when it arrives, with the probability of its own round; pending plays count in t.
K counts the active learners. A learner that is added starts with the smallest estimate of the others, so that it is as
probable as the best of them.

>>> selector = EXP3(2, seed=4)
>>> _ = selector.credit(selector.choose(), 0.0)
>>> [round(probability, 3) for probability in selector.choice_probabilities()]
[0.697, 0.303]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import add, count_active, rounds_made
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import seed_setting
from equipoise.selectors.corral import loss_of
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import count


class Params(NamedTuple):
    evidence: evidence.Params
    rounds: int  # 0 if unknown


@dataclass(slots=True)
class Estimate:
    """Unbiased estimate of a learner's loss over all resolved rounds, as a compensated sum."""

    loss_sum: float = 0.0
    loss_carry: float = 0.0


class State(NamedTuple):
    evidence: evidence.State
    estimates: list[Estimate]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """A learner sampled with probability proportional to its weight."""
    eta, least = rate(params, state), least_loss(state)
    total, chosen = 0.0, 0
    for i in range(len(state.estimates)):
        if state.evidence.accounts[i].active:
            total += weight(state, i, eta, least)
            if state.estimates[i].loss_sum == least:
                chosen = i  # in case rounding leaves a remainder beyond the last learner
    left, found = rng.random() * total, False
    for i in range(len(state.estimates)):
        if state.evidence.accounts[i].active:
            share = weight(state, i, eta, least)
            if not found and left < share:
                chosen, found = i, True
            left -= share
    return chosen, weight(state, chosen, eta, least) / total


@kernel
def rate(params: Params, state: State) -> float:
    n_learners = count_active(state.evidence)
    if params.rounds > 0:
        return sqrt(2.0 * log(n_learners) / (n_learners * params.rounds))
    return sqrt(log(n_learners) / (n_learners * (rounds_made(state.evidence) + 1.0)))


@kernel
def least_loss(state: State) -> float:
    least = inf
    for i in range(len(state.estimates)):
        if state.evidence.accounts[i].active:
            least = min(least, state.estimates[i].loss_sum)
    return least


@kernel
def weight(state: State, i: int, eta: float, least: float) -> float:
    """The weight relative to that of the best learner, which prevents overflow."""
    return exp(-eta * (state.estimates[i].loss_sum - least))


@kernel
def arrive(params: Params, state: State, i: int, reward: float, probability: float) -> None:
    """Add the importance-weighted loss to the estimate."""
    estimate, loss = state.estimates[i], loss_of(params.evidence, reward)
    estimate.loss_sum, estimate.loss_carry = add(estimate.loss_sum, estimate.loss_carry, loss / probability)


@configurable
class EXP3(KernelSelector[Params, State, Elimination]):
    """Samples learners by exponential weights."""

    name = "EXP3"
    explanation = (
        "A learner is sampled; its probability decreases exponentially with its losses, each divided by the "
        "probability with which it was played."
    )
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive)
    state_type = State

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    seed: int = seed_setting()
    rounds: int | None = setting(
        "Number of rounds T. Default: unknown, so the rate decreases with t.", optional(count), default=None
    )

    @property
    def refuses_learners(self) -> str:  # type: ignore[override]
        """Why no learner can be added; empty if one can."""
        return "" if self.rounds is None else "its rate is that of a fixed number of learners and rounds"

    def _chances(self) -> tuple[float, ...]:
        state, active = self.kernel_state, [account.active for account in self.evidence.accounts]
        eta, least = rate(self.params, state), least_loss(state)
        weights = [weight(state, i, eta, least) if active[i] else 0.0 for i in range(self.pool_size)]
        return tuple(share / sum(weights) for share in weights)

    def _make_params(self, limits: evidence.Params) -> Params:
        return Params(limits, self.rounds or 0)

    def _make_row(self) -> Estimate:
        return Estimate()

    def _grow(self) -> None:
        estimates = self.kernel_state.estimates
        smallest = min((i for i in self.active if i < len(estimates)), key=lambda i: estimates[i].loss_sum)
        estimates.append(replace(estimates[smallest]))
