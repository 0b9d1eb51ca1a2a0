"""Smoothed learners: adversarial selection algorithms over learners that learn from plain rewards.

The algorithm samples a learner for two rounds. In the first round the learner plays its current policy and learns from
the reward as if it were alone. In the second round a policy sampled uniformly from those of its first rounds so far
plays again, no learner learns, and the algorithm gets the reward. The expected regret of a second round is the average
of the learner's regret so far, which decreases with its plays: this is what the algorithm needs, and no learner has to
accept importance weights.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation.
Symbols: s updates, number of the sampled policy kept.
Departures: one policy of each learner is stored, not all. The s-th policy replaces the stored one with probability 1/s
(reservoir sampling), so before any second round is seen the stored number is uniform on 1..s. The original draws it
afresh for every second round; here a policy plays again and again until it is replaced, and the probabilities of the
algorithm have learned from what it earned. So this is not the original: a second round, its reward and the regret have
other distributions and other expectations, and the expected regret of a second round is the average above only if the
learner's choice did not depend on the stored policy. Memory is one policy per learner instead of one per play, and
about ln(s) copies are made in s plays. If the learner of a second round cannot play, that round is skipped, another
learner is sampled, and the algorithm gets no reward for the first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selector import Choice
from equipoise.selectors import corral
from equipoise.selectors._core import evidence
from equipoise.selectors._core.accounts import LearnerAccounts
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH
from equipoise.selectors._core.plays import Entry
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors.corral import Row, sample


@dataclass(slots=True)
class Policies:
    """Which policy of one learner is stored."""

    updates: int = 0  # number of first rounds, which is the number of the newest policy
    kept: int = 0  # number of the stored policy
    previous: int = 0  # number of the policy that was stored before the newest first round


@dataclass(slots=True)
class Turn:
    """The learner of the next second round and its probability; -1 and 0 if a first round is next."""

    learner: int = -1
    probability: float = 0.0
    abandoned: int = -1  # the learner whose second round the newest first round has replaced, with its probability
    abandoned_probability: float = 0.0


class State(NamedTuple, Generic[Row]):
    evidence: evidence.State
    odds: list[Row]
    policies: list[Policies]
    turn: list[Turn]  # one row


def open_state(accounts: evidence.State, odds: list[Row]) -> State[Row]:
    return State(accounts, odds, [Policies() for _ in odds], [Turn()])


@kernel
def choose(params: object, state: State[Row], rng: np.random.Generator) -> tuple[int, float]:
    """The learner of the round and the probability with which it was sampled for its two rounds."""
    turn = state.turn[0]
    if in_turn(state):
        return turn.learner, turn.probability
    return sample(state.evidence, state.odds, rng)


@kernel
def in_turn(state: State[Row]) -> bool:
    """Whether this is the second round of a learner that can play."""
    learner = state.turn[0].learner
    return learner >= 0 and state.evidence.accounts[learner].active


@kernel
def stage(params: object, state: State[Row], i: int, probability: float, rng: np.random.Generator) -> int:
    """Begin the round of learner i that `choose` returned; returns what the learner does in it."""
    if in_turn(state):
        end_turn(state)
        return REPLAY
    kept = rng.random() * (state.policies[i].updates + 1) < 1.0
    begin_turn(state, i, probability, kept)
    return KEEP if kept else TEACH


@kernel
def begin_turn(state: State[Row], i: int, probability: float, kept: bool) -> None:
    """Record a first round of learner i, whose policy is stored or not."""
    turn, policies = state.turn[0], state.policies[i]
    turn.abandoned = turn.learner
    turn.abandoned_probability = turn.probability
    turn.learner = i
    turn.probability = probability
    policies.updates += 1
    policies.previous = policies.kept
    if kept:
        policies.kept = policies.updates


@kernel
def end_turn(state: State[Row]) -> None:
    """Record the second round of the current learner."""
    turn = state.turn[0]
    turn.learner = -1
    turn.probability = 0.0
    turn.abandoned = -1
    turn.abandoned_probability = 0.0


def n_steps(rounds: int) -> int:
    """Return the number of steps of an algorithm over smoothed learners: two rounds make one."""
    return max(rounds // 2, 2)


def chances(selector: KernelSelector[Any, Any, Any]) -> tuple[float, ...]:
    """Return the probability of each learner in the next round."""
    state = selector.kernel_state
    if in_turn(state):
        return tuple(float(i == state.turn[0].learner) for i in range(selector.n_learners))
    return corral.chances(selector)


class SmoothedLearners(LearnerAccounts):
    """The accounts of smoothed learners. A first round is credited with probability 0."""

    def choose(self, rng: np.random.Generator | None) -> Choice:
        """Choose the learner of this round and its policy, and open a play."""
        rounds, params, state = self._rounds, self._rounds.radii.params, self._rounds.state
        learner, chance = rounds.kernels.choose(params, state, rng)
        if rounds.kernels.stage(params, state, learner, chance, rng) == REPLAY:
            return Choice(learner, rounds.open(learner, chance), 1.0)
        return Choice(learner, rounds.open(learner, 0.0), chance)

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        raise InvalidArgument(
            f"choice is {choice}, but the selector cannot replay it: it does not say which policy plays"
        )

    def withdrawn(self, entry: Entry) -> None:
        """Take back what the newest round has changed."""
        state = self._rounds.state
        if entry.round == self._rounds.clock:
            turn, policies = state.turn[0], state.policies[entry.account]
            if entry.probability > 0.0:
                turn.learner, turn.probability = entry.account, entry.probability
            else:
                learner, chance = turn.abandoned, turn.abandoned_probability
                end_turn(state)
                turn.learner, turn.probability = learner, chance
                policies.updates -= 1
                policies.kept = policies.previous
