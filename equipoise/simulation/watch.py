"""A run from tapes under watch: after every round, what was promised is compared with what only a simulation knows.

The tapes hold the true regret of every play, so the watcher knows of each learner whether it has kept its bound so far,
how far its rewards have strayed, and whether whoever was dropped deserved it. Rewards below `midpoint` may reach the
selector `late` rounds after the others; the learners on tape have learned at once, so the tapes stay exact.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.confidence import radius_sum
from equipoise.simulation.compiler import compiled
from equipoise.simulation.tapes import Array, Rounds, Tapes
from equipoise.streams import CONTEXTS, SELECTOR, Stream, open_stream, seek

WATCHED = ("choose", "open_play", "play", "book", "rewind", "pool", "certify")  # the kernels of a selector under watch
DRAWS = 20_000  # from which the optimum is estimated where a problem does not state it


class Facts(NamedTuple):
    """What was seen in one run; cells where one number is kept."""

    imbalance: Array  # the greatest difference between bounds of active learners
    deviation: Array  # the greatest |n mu* - U - Reg| / D(n) of a learner or of all rounds
    kept: NDArray[np.bool_]  # (M,) whether the learner's regret was within its bound at all its resolved plays
    dropped_kept: Rounds  # learners dropped that had kept their bound until then
    uncertified: Array  # the greatest excess of the truth over a certificate that some active learner vouched for
    certified: Array  # (2,) after a quarter of the rounds and at the end
    regret: Array  # (2,) likewise
    vouched: NDArray[np.bool_]  # (2,) whether an active learner had kept its bound then
    regrets: Array  # (M,) over resolved plays
    passed_plays: Rounds  # (M, M): resolved plays of all learners when learner i passed a test last
    passed_bounds: Array  # (M, M)


def open_facts(n: int) -> Facts:
    return Facts(
        np.zeros(1),
        np.zeros(1),
        np.ones(n, np.bool_),
        np.zeros(1, np.int64),
        np.full(1, -np.inf),
        np.zeros(2),
        np.zeros(2),
        np.zeros(2, np.bool_),
        np.zeros(n),
        np.zeros((n, n), np.int64),
        np.zeros((n, n)),
    )


@cache
def watcher(*functions: Any) -> Any:
    """The driver for the kernels of a selector that keeps the books of `evidence`."""
    choose, open_play, play, book, rewind, pool, certify = map(compiled, functions)
    deviates, look, certified_now = compiled(_deviation), compiled(_look), compiled(_compare)

    def watch(
        params: Any,
        state: Any,
        stream: Stream,
        tapes: Array,
        recorded: Rounds,
        rounds: int,
        optimum: float,
        late: int,
        midpoint: float,
        facts: Facts,
    ) -> int:
        """Stops early and names the learner whose tape is too short, else returns -1."""
        accounts, pooled, generator = state.accounts, state.pool[0], stream.generator
        chosen, rounds_of = np.zeros(rounds, np.int64), np.zeros((len(accounts), rounds), np.int64)
        rewards, gaps, arrived = np.zeros(rounds), np.zeros(rounds), np.zeros(rounds, np.bool_)
        total, pool_regret = 0.0, 0.0
        for t in range(rounds):
            seek(stream, SELECTOR, t + 1)
            i, probability = choose(params, state, generator)
            n = accounts[i].plays
            if n == recorded[i]:
                return int(i)
            chosen[t], rounds_of[i, n] = i, t
            rewards[t], gaps[t] = tapes[i, n, 0], tapes[i, n, 1]
            total += gaps[t]
            open_play(params, state, i)
            if late > 0:
                play(params, state, i, n + 1, tapes[i, n, 2])
            for k in (t - late, t):
                if k < 0 or arrived[k] or (k == t and late > 0 and rewards[t] < midpoint):
                    continue
                arrived[k] = True
                while pooled.plays <= t and arrived[pooled.plays]:
                    pool_regret += gaps[pooled.plays]
                    pool(params, state, rewards[pooled.plays])
                    deviates(params, pooled.plays, pooled.rewards, pool_regret, optimum, facts)
                j = chosen[k]
                while accounts[j].booked_plays < accounts[j].plays and arrived[rounds_of[j, accounts[j].booked_plays]]:
                    position = accounts[j].booked_plays
                    first = rounds_of[j, position]
                    facts.regrets[j] += gaps[first]
                    book(params, state, j, rewards[first], tapes[j, position, 2], probability)
                    if late == 0:
                        rewind(params, state, j)
                    deviates(params, position + 1, accounts[j].rewards, facts.regrets[j], optimum, facts)
                    look(params, state, j, facts)
            for row in range(2):
                if t + 1 == (rounds // 4, rounds)[row]:
                    facts.certified[row], facts.regret[row] = certify(params, state)[3], total
                    for j in range(len(accounts)):
                        facts.vouched[row] |= accounts[j].active and facts.kept[j]
            if t < 100 or t % 10 == 0 or t + 1 == rounds:
                certified_now(params, state, certify(params, state), total, optimum, facts)
        return -1

    return compiled(watch)


def _deviation(params: Any, n: int, rewards: float, regret: float, optimum: float, facts: Facts) -> None:
    ratio = abs(n * optimum - rewards - regret) / radius_sum(params.radius, n)
    facts.deviation[0] = max(facts.deviation[0], ratio)


def _look(params: Any, state: Any, i: int, facts: Facts) -> None:
    """Compare bounds after a play of learner i was booked, and the test has been made."""
    accounts, n_learners = state.accounts, len(state.accounts)
    slack = 1e-9 * params.width
    facts.kept[i] &= facts.regrets[i] <= accounts[i].booked_bound + slack
    least, greatest, tested = np.inf, -np.inf, True
    for j in range(n_learners):
        if accounts[j].active:
            least, greatest = min(least, accounts[j].regret_bound), max(greatest, accounts[j].regret_bound)
            tested = tested and accounts[j].plays > 0
    facts.imbalance[0] = max(facts.imbalance[0], greatest - least)
    gone = 0
    for j in range(n_learners):
        if not accounts[j].active and facts.kept[j]:
            gone += 1
        if accounts[j].active and tested and accounts[j].booked_plays > 0:
            for other in range(n_learners):
                facts.passed_plays[j, other] = accounts[other].booked_plays
                facts.passed_bounds[j, other] = accounts[other].booked_bound
    facts.dropped_kept[0] = max(facts.dropped_kept[0], gone)


def _compare(params: Any, state: Any, certificate: Any, regret: float, optimum: float, facts: Facts) -> None:
    """By how much the truth lies outside of what is certified, if an active learner vouches for it."""
    lower, upper, _, regret_upper, _ = certificate
    rounds = state.pool[0].plays
    excess = rounds * (lower - optimum)
    for j in range(len(state.accounts)):
        if state.accounts[j].active and facts.kept[j]:
            excess = max(excess, regret - regret_upper, rounds * (optimum - upper))
    facts.uncertified[0] = max(facts.uncertified[0], excess)


def watch_on_tapes(tapes: Tapes, selector: Any, optimum: float, *, late: int = 0) -> tuple[Facts, Any]:
    """What was seen of a selector over the whole horizon, and its final books as arrays."""
    driver = watcher(*(getattr(selector.kernels, name) for name in WATCHED))
    midpoint = sum(tapes.problem.reward_range) / 2
    while True:
        facts, (params, state) = open_facts(len(tapes.learners)), selector.to_arrays()
        stream = open_stream(tapes.seed)
        short = driver(params, state, stream, tapes.rows, tapes.recorded, tapes.rounds, optimum, late, midpoint, facts)
        if short < 0:
            return facts, state
        tapes.extend(int(short))


@cache
def _averager(draw: Any) -> Any:
    draw = compiled(draw)

    def average(params: Any, room: Any, stream: Stream, n: int) -> float:
        seek(stream, CONTEXTS - 1, 0)
        total = 0.0
        for _ in range(n):
            total += draw(params, room, stream.generator)[1].max()
        return total / n

    return compiled(average)


def optimum_of(problem: Any, seed: int) -> float:
    """mu*: stated by the problem, exact for decision processes and fixed actions, else estimated from `DRAWS` draws."""
    if hasattr(problem, "optimum"):
        return float(problem.optimum)
    if hasattr(problem, "optimal_values"):
        return float(problem.start @ problem.optimal_values[0])
    # Fixed contexts give the same numbers in every draw.
    return float(_averager(problem.kernels.draw)(problem.params, problem.room(), open_stream(seed), DRAWS))
