"""Smoothed learners: plain rewards are enough for them under a rule that draws.

The rule draws a learner for two rounds. In the first the learner plays its current policy and learns from its reward
as if it were alone; in the second one of the policies of its first rounds so far, each equally likely, plays again,
nobody learns, and the rule is told the reward. The expected regret of such a second round is the average of the
learner's regret so far, which falls from play to play: it is what the rule needs to know of a learner, and no learner
has to stand importance weights.

Reference: Pacchiano, Phan, Abbasi-Yadkori, Rao, Zimmert, Lattimore and Szepesvari (2020), "Model selection in
contextual stochastic bandit problems", the smoothing transformation.
Symbols: s taught, the drawn policy number kept.
Departures: of each learner's policies one is kept, not all. The s-th is kept in place of the one before with
probability 1/s, which makes the kept number uniform on 1..s at every s, given all rewards up to the choice of the
learner: each second round has the law of the original. Second rounds of one learner are dependent, though: they repeat
a policy until it is replaced, where fresh draws would not. The expectation of every round, hence of the regret, is the
same; its variance is larger. Memory is one policy per learner, and about ln(s) copies are made in s plays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple

import numpy as np

from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selector import Choice
from equipoise.selectors._core import evidence
from equipoise.selectors._core.base import EvidenceSelector, P
from equipoise.selectors._core.drawn import DrawingSettings, Odds, draw
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH


@dataclass(slots=True)
class Policies:
    """Which policy of one learner is kept."""

    taught: int = 0  # first rounds made: the number of the newest policy
    kept: int = 0  # number of the kept policy
    previous: int = 0  # number of the one that was kept before the newest first round


@dataclass(slots=True)
class Turn:
    """Who plays a second round next, and the probability it was drawn with; -1 and 0 if a first round is next."""

    learner: int = -1
    probability: float = 0.0


class State(NamedTuple, Generic[Odds]):
    evidence: evidence.State
    odds: list[Odds]  # of the rule
    policies: list[Policies]
    turn: list[Turn]  # one row


def open_state(accounts: evidence.State, odds: list[Odds]) -> State[Odds]:
    return State(accounts, odds, [Policies() for _ in odds], [Turn()])


@kernel
def choose(params: object, state: State[Odds], rng: np.random.Generator) -> tuple[int, float]:
    """The learner of the round and the probability it was drawn with, if in this round or in the one before."""
    turn = state.turn[0]
    if turn.learner >= 0:
        return turn.learner, turn.probability
    i = draw(state.odds, rng)
    return i, state.odds[i].probability


@kernel
def stage(params: object, state: State[Odds], i: int, probability: float, rng: np.random.Generator) -> int:
    """Begin the round that `choose` gave to learner i: what its learner is to do in it."""
    if state.turn[0].learner >= 0:
        end_turn(state)
        return REPLAY
    kept = rng.random() * (state.policies[i].taught + 1) < 1.0
    begin_turn(state, i, probability, kept)
    return KEEP if kept else TEACH


@kernel
def begin_turn(state: State[Odds], i: int, probability: float, kept: bool) -> None:
    """A first round of learner i, whose policy is kept or not."""
    turn, policies = state.turn[0], state.policies[i]
    turn.learner = i
    turn.probability = probability
    policies.taught += 1
    policies.previous = policies.kept
    if kept:
        policies.kept = policies.taught


@kernel
def end_turn(state: State[Odds]) -> None:
    """The second round of whoever had the first."""
    turn = state.turn[0]
    turn.learner = -1
    turn.probability = 0.0


class SmoothedSelector(DrawingSettings, EvidenceSelector[P, State[Odds]]):
    """A rule over smoothed learners. A first round is booked with probability 0: the rule learns from second rounds.

    Two rounds make one of the rule.
    """

    needs = frozenset({"snapshots"})

    @property
    def turns(self) -> int:
        """The rounds of the rule."""
        return max(self.horizon // 2, 2)

    @property
    def probabilities(self) -> tuple[float, ...]:
        """With which each learner is drawn for its next two rounds."""
        return tuple(row.probability for row in self.kernel_state.odds)

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """The learner that plays this round, and with which policy; opens a play."""
        if rng is None:
            rng = self._own_generator(self._draws)
        state = self.kernel_state
        learner, chance = self.kernels.choose(self.params, state, rng)
        task = self.kernels.stage(self.params, state, learner, chance, rng)
        kept = state.policies[learner].kept
        if task == REPLAY:
            return Choice(learner, self._begin(learner, chance), 1.0, snapshot=kept, teach=False)
        return Choice(learner, self._begin(learner, 0.0), chance, keep=kept if task == KEEP else None)

    def replay(self, choice: Choice) -> None:
        """Open exactly this play, as if it had just been chosen, and draw nothing."""
        self._check_replay(choice)
        state = self.kernel_state
        learner, turn, policies = choice.learner, state.turn[0], state.policies[choice.learner]
        due, chance = choice._replace(snapshot=None, teach=True, keep=choice.keep and policies.taught + 1), 0.0
        if turn.learner >= 0:
            due, chance = Choice(turn.learner, choice.play, 1.0, policies.kept, teach=False), turn.probability
        if choice != due:
            raise InvalidArgument(f"choice is {choice}, but what is due is {due}")
        if choice.teach:
            begin_turn(state, learner, choice.probability, choice.keep is not None)
        else:
            end_turn(state)
        self._begin(learner, chance)

    def withdraw(self, choice: Choice) -> tuple[Elimination, ...]:
        """The round did not happen: strike its play. If it was the newest, everything is as before it."""
        entry = self._ledger.entry(choice.learner, choice.play)
        if self._ledger.is_newest(entry):
            turn, policies = self.kernel_state.turn[0], self.kernel_state.policies[choice.learner]
            if entry.probability > 0.0:
                turn.learner, turn.probability = choice.learner, entry.probability
            else:
                end_turn(self.kernel_state)
                policies.taught -= 1
                policies.kept = policies.previous
        return super().withdraw(choice)
