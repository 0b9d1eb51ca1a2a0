"""The round loop and its building blocks; a template that `binding` turns into a module.

The loop calls hooks, which `names` declares. For each combination of problem, learners and selector, `binding` makes a
module from this source and assigns the hooks, compiled or not. `select`, `exhausted`, `play_round`, `deliver`,
`certified` and `probe_round` are assigned functions of this module, or adapters for components without kernels; the
other hooks are kernels.
"""

# ruff: noqa: F403, F405 - the hooks have no values here; mypy checks their names

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from equipoise.kernels.marks import kernel
from equipoise.kernels.streams import CONTEXTS, LEARNERS, REWARDS, SELECTOR, Stream, seek
from equipoise.learner import Proposal
from equipoise.learners._core.episodic import add_width
from equipoise.selectors._core.evidence import KEEP, REPLAY, TEACH, open_play, play, pool, rewind
from equipoise.simulation.parts import (
    AGREES,
    ALWAYS,
    COLUMNS,
    GAP,
    REGRET,
    REWARD,
    SHARES,
    WHEN_PROPOSED,
    Components,
    Fresh,
    Kernel,
    LateRewards,
    Logged,
    Pair,
    Played,
    Progress,
    Recorded,
    Run,
    Turn,
)
from equipoise.types import Array

T = TypeVar("T")

if TYPE_CHECKING:
    from equipoise.simulation.names import *


def borrowed(value: T) -> T:
    """The value itself; the compiled version turns off reference counting for it."""
    return value


def release(generator: np.random.Generator) -> None:
    """Nothing; the compiled version gives back the reference that its call holds."""


def drive(components: Components, run: Run, until: int) -> int:
    """`run_rounds` without reference counting."""
    learner = run_rounds(borrowed(components), borrowed(run), until)
    release(run.stream.generator)
    return learner


def run_rounds(components: Components, run: Run, until: int) -> int:
    """Run up to round `until`; if the source has no next round, return its learner, else -1."""
    progress, marks = run.progress, run.marks
    for t in range(progress.done[0] + 1, until + 1):
        turn = select(components.selector, run.stream, t)
        if exhausted(components, run, turn):
            return turn.learner
        progress.plays[turn.learner] += 1
        played = play_round(components, run, turn)
        deliver(components, run, turn, played)
        progress.regret[0] += played.gap
        progress.reward[0] += played.reward
        progress.done[0] = t
        if t == marks[progress.next_mark[0]]:
            mark(components, run)
        probe_round(components, run)
    return -1


def mark(components: Components, run: Run) -> None:
    progress, curves = run.progress, run.curves
    position = progress.next_mark[0]
    curves.regret[position] = progress.regret[0]
    curves.reward[position] = progress.reward[0]
    curves.certified[position] = certified(components.selector)
    for j in range(len(progress.plays)):
        curves.plays[position, j] = progress.plays[j]
    progress.next_mark[0] = position + 1


# Selection of the learner.


def select_only_learner(selector: tuple[()], stream: Stream, t: int) -> Turn:
    """The learner of a run with one learner."""
    return Turn(0, 1.0, TEACH, t, 0, False)


def select_by_kernel(selector: Pair, stream: Stream, t: int) -> Turn:
    params, state = selector
    seek(stream, SELECTOR, t)
    i, probability = choose(params, state, stream.generator)
    if EXPERTS:
        learner, greedy = learner_of(params, state, i)
        return Turn(learner, probability, TEACH, t, i, greedy)
    task = TEACH
    if SMOOTHED:
        task = stage(params, state, i, probability, stream.generator)
    return Turn(i, probability, task, t, i, False)


def certified_by_kernel(selector: Pair) -> float:
    params, state = selector
    return certify(params, state)[3]


def no_certificate(selector: Kernel) -> float:
    return nan


# Sources of rounds.


def never_exhausted(components: Components, run: Run, turn: Turn) -> bool:
    return False


def tape_exhausted(components: Components, run: Run, turn: Turn) -> bool:
    source: Recorded = components.source
    return bool(run.progress.plays[turn.learner] == source.recorded[turn.learner])


def play_recorded(components: Components, run: Run, turn: Turn) -> Played:
    """The next row of the learner's tape."""
    rows, i = components.source.rows, turn.learner
    n = run.progress.plays[i] - 1
    return Played(rows[i, n, REWARD], rows[i, n, GAP], rows[i, n, REGRET])


def play_fresh(components: Components, run: Run, turn: Turn) -> Played:
    """Draw a context, let the learner act, and let the learners learn."""
    source: Fresh = components.source
    stream, generator, i, n = run.stream, run.stream.generator, turn.learner, turn.round - 1 + source.first
    if SMOOTHED and turn.task == KEEP:
        keep_policy(source, i)
    source.workspace.n_columns[0] = source.workspace.actions.shape[1] if ASKS_ALL else source.places[i, COLUMNS]
    seek(stream, CONTEXTS + source.lane, n)
    actions, means = draw(source.problem, source.workspace, generator)
    if ASKS_ALL:
        ask_others(components, run, turn, actions)
    seek(stream, LEARNERS + source.lane + i, n)
    if SMOOTHED and turn.task == REPLAY:
        proposal = decide(source, i, source.kept, actions, generator)
    else:
        proposal = decide(source, i, source.memories, actions, generator)
    if ASKS_ALL:
        store_proposal(source.proposals, i, proposal)
    action = proposal.greedy if TWIN or (EXPERTS and turn.greedy) else proposal.action
    seek(stream, REWARDS + source.lane, n)
    reward = draw_reward(source.noise, float(means[action]), generator)
    if SHARED or EXPERTS:
        complete(source.problem, source.workspace, action)
        teach_all(components, turn, actions, action, reward)
    elif turn.task != REPLAY:
        # Learning with weight 0 changes nothing in a learner made of kernels, so the other learners are skipped.
        learn(source, i, actions, action, reward, 1.0 / turn.probability if WEIGHTED else 1.0)
    best = means[0]
    for k in range(1, len(means)):
        best = max(best, means[k])
    gap = best - means[action]
    record(source.problem, i, action, reward)
    return Played(reward, gap, proposal.regret)


def play_logged(components: Components, run: Run, turn: Turn) -> Played:
    """Let the learner propose in the next logged round, and teach it the logged action and reward."""
    source: Logged = components.source
    generator, n = run.stream.generator, turn.round - 1
    actions = source.contexts[n][: source.n_offered[n]]
    seek(run.stream, LEARNERS + source.lane, source.first + n)
    proposal = decide(source, 0, source.memories, actions, generator)
    source.proposed[n] = proposal.action
    logged, update = source.actions[n], source.updates[n]
    if update == ALWAYS or (update == WHEN_PROPOSED and proposal.action == logged):
        learn(source, 0, actions, logged, source.rewards[n], source.weights[n])
    return Played(source.rewards[n], nan, proposal.regret)


def ask_others(components: Components, run: Run, turn: Turn, actions: Array) -> None:
    """Get the proposals of the other active learners."""
    source: Fresh = components.source
    params, state = components.selector
    for j in range(len(source.places)):
        if j == turn.learner:
            continue
        if is_active(params, state, j):
            seek(run.stream, LEARNERS + source.lane + j, turn.round - 1 + source.first)
            store_proposal(source.proposals, j, decide(source, j, source.memories, actions, run.stream.generator))
        else:
            store_proposal(source.proposals, j, Proposal(-1, nan, nan, nan, -1, nan))


def store_proposal(proposals: Kernel, i: int, proposal: Proposal) -> None:
    proposals.actions[i] = proposal.action
    proposals.greedy[i] = proposal.greedy
    proposals.lowers[i] = proposal.lower
    proposals.regrets[i] = proposal.regret
    proposals.probabilities[i] = proposal.probability
    proposals.values[i] = proposal.value


def teach_all(components: Components, turn: Turn, actions: Array, action: int, reward: float) -> None:
    source: Fresh = components.source
    params, state = components.selector
    for j in range(len(source.places)):
        own = j == turn.learner and not turn.greedy
        agreed = EXPERTS and source.places[j, AGREES] == 1 and source.proposals.actions[j] == action
        if own or agreed or (source.places[j, SHARES] == 1 and is_active(params, state, j)):
            learn(source, j, actions, action, reward, 1.0)


def keep_policy(source: Fresh, i: int) -> None:
    live, kept = source.words
    for word in range(live.shape[1]):
        kept[i, word] = live[i, word]


def play_episode(components: Components, run: Run, turn: Turn) -> Played:
    """Play one episode of the planned policy as a round."""
    source, stream = components.source, run.stream
    n, memory, states, rewards = turn.round - 1, source.memory, source.states, source.rewards
    seek(stream, CONTEXTS + source.lane, n)
    states[0] = start(source.problem, stream.generator)
    seek(stream, REWARDS + source.lane, n)
    roll_out(source.problem, memory.policy, states, source.actions, rewards, stream.generator)
    gap = loss(source.problem, memory.policy, states[0])
    regret = add_width(memory, states, source.max_width, source.alpha)
    learn_episode(source.learner, memory, states, source.actions, rewards)
    total = 0.0
    for h in range(len(rewards)):
        total += rewards[h]
    return Played(total, gap, regret)


# Delivery of results.


def write_row(components: Components, run: Run, turn: Turn, played: Played) -> None:
    """Write the result to the tape, if it is long enough."""
    n = turn.round - 1
    if n < len(components.tape):
        components.tape[n, REWARD] = played.reward
        components.tape[n, GAP] = played.gap
        components.tape[n, REGRET] = played.regret


def deliver_now(components: Components, run: Run, turn: Turn, played: Played) -> None:
    """Credit the reward to the selector in the same round."""
    params, state = components.selector
    i, reward, regret, probability = turn.account, played.reward, played.regret, turn.probability
    if SMOOTHED and turn.task != REPLAY:
        probability = 0.0  # the selector learns only from rounds of stored policies
    limits, sums = evidence_of(params, state)
    open_play(limits, sums, i)
    arrive(params, state, i, reward, probability)
    credit(params, state, i, reward, regret, probability)
    rewind(limits, sums, i)
    pool(limits, sums, reward)
    if ASKS_ALL:
        close_round(params, state, i, reward, regret, components.source.proposals)


def deliver_late(components: Components, run: Run, turn: Turn, played: Played) -> None:
    """Delay low rewards; plays are credited in order, when the prefix of plays up to them is complete."""
    late: LateRewards = components.late
    params, state = components.selector
    i, t, n = turn.learner, turn.round - 1, run.progress.plays[turn.learner] - 1
    late.chosen[t], late.rounds_of[i, n], late.probabilities[t] = i, t, turn.probability
    late.rewards[t], late.gaps[t], late.regrets[t] = played.reward, played.gap, played.regret
    limits, sums = evidence_of(params, state)
    open_play(limits, sums, i)
    if late.delay > 0:
        play(limits, sums, i, n + 1, played.regret)
        if t >= late.delay and not late.arrived[t - late.delay]:
            receive(components, run.progress, t - late.delay)
    if late.delay == 0 or played.reward >= late.midpoint:
        receive(components, run.progress, t)


def receive(components: Components, progress: Progress, k: int) -> None:
    """Pass the reward of round k to the selector."""
    late: LateRewards = components.late
    params, state = components.selector
    limits, sums = evidence_of(params, state)
    late.arrived[k] = True
    arrive(params, state, late.chosen[k], late.rewards[k], late.probabilities[k])
    while late.pooled[0] < len(late.arrived) and late.arrived[late.pooled[0]]:
        first = late.pooled[0]
        late.pooled[0] += 1
        pool(limits, sums, late.rewards[first])
        check_pool(evidence_of(params, state), components.facts, late.pooled[0], late.gaps[first])
    j = late.chosen[k]
    while late.credited[j] < progress.plays[j] and late.arrived[late.rounds_of[j, late.credited[j]]]:
        first = late.rounds_of[j, late.credited[j]]
        late.credited[j] += 1
        credit(params, state, j, late.rewards[first], late.regrets[first], late.probabilities[first])
        if late.delay == 0:
            rewind(limits, sums, j)
        check_play(evidence_of(params, state), components.facts, j, late.gaps[first])


# Probes.


def probe_nothing(components: Components, run: Run) -> None:
    pass


@kernel
def is_probed(t: int, rounds: int) -> bool:
    """Whether round t is inspected: each of the first 100, then every tenth, and the last."""
    return t <= 100 or t % 10 == 1 or t == rounds


def probe_certificate(components: Components, run: Run) -> None:
    t, rounds = run.progress.done[0], run.marks[-1]
    if is_probed(t, rounds) or t == rounds // 4:
        params, state = components.selector
        check_certificate(evidence_of(params, state), components.facts, certify(params, state), run)


def average_best(problem: Kernel, workspace: Kernel, stream: Stream, n: int) -> float:
    """The mean over `n` contexts of the expected reward of the best action."""
    seek(stream, CONTEXTS - 1, 0)
    total = 0.0
    for _ in range(n):
        total += draw(problem, workspace, stream.generator)[1].max()
    return total / n
