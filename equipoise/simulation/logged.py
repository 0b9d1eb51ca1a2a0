"""Learners on logged rounds: each proposes in every round and learns from those it may learn from.

Learners made of kernels run compiled; others through their public methods, in the same loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from equipoise.errors import OfferRefused
from equipoise.features.offers import nth_offered, position_of
from equipoise.kernels.streams import LEARNERS, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, capabilities
from equipoise.simulation import rounds
from equipoise.simulation.binding import Binding, Function, Group, bind
from equipoise.simulation.loops import can_compile, compiled_loop, native_memory, plain_loop
from equipoise.simulation.parts import ALWAYS, WHEN_PROPOSED, Components, Logged, Played, Run, Turn, open_run
from equipoise.types import Array, Context, Integers

NO_TAPE = np.empty((0, 3))


class Batch(NamedTuple):
    """Consecutive logged rounds, as the learner sees them; see `Logged`.

    Actions are positions among the offered ones. Contexts are rows, (rounds, actions, columns), or a list of contexts.
    """

    contexts: Array | Sequence[Context]
    n_offered: Integers
    actions: Integers
    rewards: Array
    weights: Array
    updates: Integers
    propensities: Array  # of the logged actions


class Answers(NamedTuple):
    """What the learner did in each round, before it learned from it."""

    proposed: Integers
    probabilities: Array  # of the logged action: by `pmf` if the learner has one, else whether it was proposed


class LoggedLearner:
    """A learner that goes through a log batch by batch; `lane` and `seed` are those of its random stream."""

    def __init__(self, learner: MinimalLearner, n_actions: int, lane: int, seed: int) -> None:
        self._learner, self._lane, self._seed, self._done = learner, lane, seed, 0
        # The kernels say what was proposed, which for a deterministic learner is its whole pmf.
        can = capabilities(learner)
        has_pmf = "pmf" in can.provides and can.randomized
        self.compiles = can_compile(learner) and not has_pmf  # on rows; lists of contexts are never compiled
        self._adapted = AdaptedLearner(learner)
        self.sat_out = 0  # rounds of which it takes no offer; the policy that logged them acts in its place
        if self.compiles:
            part: Any = learner
            group = Group(part.kernels.decide, part.kernels.learn, 1)
            self._binding = _bind(rounds.play_logged, group)
            self._memory = native_memory(part.memory, n_actions)

    def play(self, batch: Batch) -> Answers:
        """Let the learner propose and learn; returns what it did."""
        n = len(batch.actions)
        run = open_run(self._seed, np.array([n]), 1)
        proposed, probabilities = np.full(n, -1), np.zeros(n)
        if self.compiles and isinstance(batch.contexts, np.ndarray):
            part: Any = self._learner
            place = np.zeros((1, 4), np.int64)
            # A read-only or strided array would be another type, for which the loop would be compiled again.
            owned = [np.require(array, requirements=["C", "W"]) for array in batch[:-1]]
            parts = ((part.params,),), ((self._memory,),), place, *owned, proposed, self._lane, self._done
            source = Logged._make(parts)
            compiled_loop(Components(source, tape=NO_TAPE), self._binding).advance(run, n)
            probabilities[:] = proposed == batch.actions
        else:
            sat_out = np.zeros(1, np.int64)
            own = LoggedAdapter(self._adapted, batch, Answers(proposed, probabilities), sat_out, self._lane, self._done)
            plain_loop(Components(own, tape=NO_TAPE), _bind(play_adapted)).advance(run, n)
            self.sat_out += int(sat_out[0])
        self._done += n
        return Answers(proposed, probabilities)


def _bind(play: Function, *groups: Group) -> Binding:
    names: dict[str, Function | bool] = {"select": rounds.select_only_learner, "deliver": rounds.write_row}
    return bind({**names, "play_round": play}, groups)


class LoggedAdapter(NamedTuple):
    """A source: logged rounds for a learner without kernels."""

    learner: AdaptedLearner
    batch: Batch
    answers: Answers
    sat_out: Integers  # (1,)
    lane: int
    first: int


def play_adapted(components: Components, run: Run, turn: Turn) -> Played:
    source: LoggedAdapter = components.source
    batch, learner, n = source.batch, source.learner, turn.round - 1
    context = _context_at(batch, n)
    seek(run.stream, LEARNERS + source.lane, source.first + n)
    position, reward, update = int(batch.actions[n]), float(batch.rewards[n]), int(batch.updates[n])
    try:
        proposal = learner.decide(context, run.stream.generator)
    except OfferRefused:
        source.sat_out[0] += 1
        source.answers.proposed[n], source.answers.probabilities[n] = position, batch.propensities[n]
        return Played(reward, np.nan, np.nan)
    action = nth_offered(context, position)
    agrees = proposal.action == action
    source.answers.proposed[n] = position_of(context, proposal.action)
    pmf = learner.pmf(context) if "pmf" in learner.provides else None
    source.answers.probabilities[n] = float(agrees) if pmf is None else pmf[action]
    if update == ALWAYS or (update == WHEN_PROPOSED and agrees):
        # A round of its own has the probability with which it proposed the action.
        probability = batch.propensities[n] if update == ALWAYS else proposal.probability
        # An action that it does not take teaches it nothing, as in live rounds of others.
        with suppress(OfferRefused):
            learner.learn(context, action, reward, float(batch.weights[n]), float(probability))
    return Played(reward, np.nan, proposal.regret)


def _context_at(batch: Batch, n: int) -> Context:
    if isinstance(batch.contexts, np.ndarray):
        return batch.contexts[n, : batch.n_offered[n]]
    return batch.contexts[n]
