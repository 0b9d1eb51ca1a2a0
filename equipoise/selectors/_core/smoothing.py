"""Smoothed learners: adversarial selection algorithms over learners that learn from plain rewards.

The algorithm samples a learner for two rounds. In the first round the learner plays its current policy and learns from
the reward as if it were alone. In the second round a policy sampled uniformly from those of its first rounds so far
plays again, no learner learns, and the algorithm gets the reward. The expected regret of a second round is the average
of the learner's regret so far, which decreases with its plays: this is what the algorithm needs, and no learner has to
accept importance weights.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation.
Symbols: s taught, number of the sampled policy kept.
Departures: one policy of each learner is stored, not all. The s-th policy replaces the stored one with probability 1/s
(reservoir sampling), so before any second round is seen the stored number is uniform on 1..s. The original draws it
afresh for every second round; here a policy plays again and again until it is replaced, and the probabilities of the
algorithm have learned from what it earned. So this is not the original: a second round, its reward and the regret have
other distributions and other expectations, and the expected regret of a second round is the average above only if the
learner's choice did not depend on the stored policy. In the setting of tests/selectors/test_smoothing_draws.py the mean
total reward is 220.5 in 400 rounds (standard error 2.4), with fresh draws 201.6 (0.7). Memory is one policy per learner
instead of one per play (800 MB for OFUL with 32 features and 1e5 plays), and about ln(s) copies are made in s plays.
If the learner of a second round cannot play, that round is skipped, another learner is sampled, and the algorithm gets
no reward for the first.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selector import Choice
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH
from equipoise.selectors._core.parts import P
from equipoise.selectors._core.sampling import Odds, SamplingSettings, chances, sample


@dataclass(slots=True)
class Policies:
    """Which policy of one learner is stored."""

    taught: int = 0  # number of first rounds, which is the number of the newest policy
    kept: int = 0  # number of the stored policy
    previous: int = 0  # number of the policy that was stored before the newest first round


@dataclass(slots=True)
class Turn:
    """The learner of the next second round and its probability; -1 and 0 if a first round is next."""

    learner: int = -1
    probability: float = 0.0
    abandoned: int = -1  # the learner whose second round the newest first round has replaced, with its probability
    abandoned_probability: float = 0.0


class State(NamedTuple, Generic[Odds]):
    evidence: evidence.State
    odds: list[Odds]
    policies: list[Policies]
    turn: list[Turn]  # one row


def open_state(accounts: evidence.State, odds: list[Odds]) -> State[Odds]:
    return State(accounts, odds, [Policies() for _ in odds], [Turn()])


@kernel
def choose(params: object, state: State[Odds], rng: np.random.Generator) -> tuple[int, float]:
    """The learner of the round and the probability with which it was sampled for its two rounds."""
    turn = state.turn[0]
    if in_turn(state):
        return turn.learner, turn.probability
    return sample(state.evidence, state.odds, rng)


@kernel
def in_turn(state: State[Odds]) -> bool:
    """Whether this is the second round of a learner that can play."""
    learner = state.turn[0].learner
    return learner >= 0 and state.evidence.accounts[learner].active


@kernel
def stage(params: object, state: State[Odds], i: int, probability: float, rng: np.random.Generator) -> int:
    """Begin the round of learner i that `choose` returned; returns what the learner does in it."""
    if in_turn(state):
        end_turn(state)
        return REPLAY
    kept = rng.random() * (state.policies[i].taught + 1) < 1.0
    begin_turn(state, i, probability, kept)
    return KEEP if kept else TEACH


@kernel
def begin_turn(state: State[Odds], i: int, probability: float, kept: bool) -> None:
    """Record a first round of learner i, whose policy is stored or not."""
    turn, policies = state.turn[0], state.policies[i]
    turn.abandoned = turn.learner
    turn.abandoned_probability = turn.probability
    turn.learner = i
    turn.probability = probability
    policies.taught += 1
    policies.previous = policies.kept
    if kept:
        policies.kept = policies.taught


@kernel
def end_turn(state: State[Odds]) -> None:
    """Record the second round of the current learner."""
    turn = state.turn[0]
    turn.learner = -1
    turn.probability = 0.0
    turn.abandoned = -1
    turn.abandoned_probability = 0.0


class SmoothedSelector(SamplingSettings, EvidenceSelector[P, State[Odds]]):
    """A selector over smoothed learners, which updates its probabilities after second rounds only.

    A first round is credited with probability 0. Two rounds make one step of the algorithm.
    """

    needs = frozenset({"snapshots"})

    @property
    def turns(self) -> int:
        """Number of steps of the algorithm."""
        return max(self.rounds // 2, 2)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """The probability of each learner for the next two rounds."""
        return tuple(row.probability for row in self.kernel_state.odds)

    def _choose(self, rng: np.random.Generator | None) -> Choice:
        """Choose the learner of this round and its policy, and open a play."""
        state = self.kernel_state
        learner, chance = self.kernels.choose(self.params, state, rng)
        task = self.kernels.stage(self.params, state, learner, chance, rng)
        kept = state.policies[learner].kept
        if task == REPLAY:
            return Choice(learner, self._begin(learner, chance), 1.0, snapshot=kept, teach=False)
        return Choice(learner, self._begin(learner, 0.0), chance, keep=kept if task == KEEP else None)

    def _chances(self) -> tuple[float, ...]:
        state = self.kernel_state
        if in_turn(state):
            return tuple(float(i == state.turn[0].learner) for i in range(self.pool_size))
        return chances(self.evidence, state.odds)

    def _replay(self, choice: Choice, available: Collection[int] | None) -> None:
        state = self.kernel_state
        learner, turn, policies = choice.learner, state.turn[0], state.policies[choice.learner]
        due, chance = choice._replace(snapshot=None, teach=True, keep=choice.keep and policies.taught + 1), 0.0
        if turn.learner >= 0 and (available is None or turn.learner in available):
            due = Choice(turn.learner, choice.play, 1.0, policies.kept, teach=False, evidence=choice.evidence)
            chance = turn.probability
        if choice != due:
            raise InvalidArgument(f"choice is {choice}, but the next one must be {due}")
        if choice.teach:
            begin_turn(state, learner, choice.probability, choice.keep is not None)
        else:
            end_turn(state)
        self._begin(learner, chance)

    def withdraw(self, choice: Choice) -> tuple[Elimination, ...]:
        """Remove an open play, as if its round had not happened; for the newest round this restores the state."""
        entry = self._ledger.entry(choice.learner, choice.play)
        if entry.round == self._clock:
            turn, policies = self.kernel_state.turn[0], self.kernel_state.policies[choice.learner]
            if entry.probability > 0.0:
                turn.learner, turn.probability = choice.learner, entry.probability
            else:
                learner, chance = turn.abandoned, turn.abandoned_probability
                end_turn(self.kernel_state)
                turn.learner, turn.probability = learner, chance
                policies.taught -= 1
                policies.kept = policies.previous
        return super().withdraw(choice)
