"""The probability statements, by simulation: every certificate may be wrong in at most a delta share of runs.

The environments are as bad as the assumptions allow. In context A the best action pays 1 for sure and the careless
learner tosses a fair coin; in context B all actions pay 0. At P(A) = 5/8 a careless play's reward plus regret has
variance 0.39, the greatest that two-point contexts and rewards reach (the radius allows for 0.5); with context A alone
it has 0.25, all that the radius of fixed contexts allows for. The careless learner's bound is its own true regret, so
that nothing but the radius gives slack.

Whole runs are compiled: `play_rounds` drives the kernels of the selector itself and stands in for its ledger. That it
does the same as the public class is the first test.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest

from equipoise.bounds import Bound, Observed, Power
from equipoise.confidence import radius_sum
from equipoise.learner import Proposal
from equipoise.selectors import BalancedElimination, balanced_elimination
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params, State
from equipoise.simulation.compiler import compiled

DELTA = 0.05
RUNS, ROUNDS = 1000, 10_000
LATE = 200  # rounds by which a reward of 0 comes late; a reward of 1 comes at once
FALSE_ALARM = 1e-6  # probability that a true claim is rejected, were it false in exactly a delta share of runs

BEST = np.array([1.0, 0.0])  # expected reward of the best action in contexts A and B
OPTIMAL, CARELESS, HOPELESS = (1.0, 0.0), (0.5, 0.0), (0.0, 0.0)  # those of learners

CLAIMS = (
    "no learner that keeps its bound is eliminated",
    "optimum_lower is not above the optimum",
    "optimum_upper is not below the optimum while a learner that keeps its bound is active",
    "regret_upper is not below the regret of all rounds while a learner that keeps its bound is active",
    "regret_lower is not above the regret of the resolved rounds",
    "learner_regret_lowers are not above the learners' regrets over their resolved plays",
)


class Environment(NamedTuple):
    means: tuple[tuple[float, float], ...]  # of each learner, in contexts A and B
    bounds: tuple[Bound, ...]
    honest: tuple[bool, ...]  # whether the learner keeps its bound
    share_of_a: float
    contexts: str
    sharp: tuple[int, ...]  # the claims that have no slack here: those a narrower radius must break


ENVIRONMENTS = {
    # The optimal learner plays ten rounds to each of the careless one and is a sharp witness against it.
    "witness": Environment(
        (OPTIMAL, CARELESS), (Power(0.03, 1.0), Observed()), (True, True), 5 / 8, "random", (0, 1, 4, 5)
    ),
    # The hopeless learner is soon found out; then all rests on the careless one.
    "alone": Environment((CARELESS, HOPELESS), (Observed(), Power(0.1, 1.0)), (True, False), 5 / 8, "random", (2, 3)),
    "alone, fixed contexts": Environment(
        (CARELESS, HOPELESS), (Observed(), Power(0.1, 1.0)), (True, False), 1.0, "fixed", (2, 3)
    ),
}


class Draws(NamedTuple):
    """The randomness of one run."""

    contexts: NDArray[np.int64]
    coins: NDArray[np.float64]


class Truth(NamedTuple):
    """What the claims are about; all totals. Cells, because compiled code changes them in place."""

    optimum: float
    regret: NDArray[np.float64]  # of all rounds, one cell
    pool_regret: NDArray[np.float64]  # of the resolved rounds, one cell
    regrets: NDArray[np.float64]  # of each learner over its resolved plays


@compiled
def play_rounds(
    params: Params, state: State, means: Any, honest: Any, truth: Truth, draws: Draws, late: int, in_order: bool
) -> tuple[Any, Any]:
    """One run: the learners chosen, and which claims were broken at any round (of the first 100, then every tenth).

    `in_order` is False to credit rewards as they arrive instead of in the order of plays."""
    accounts, pooled = state.accounts, state.pool[0]
    n_rounds = len(draws.coins)
    chosen, rounds_of = np.zeros(n_rounds, np.int64), np.zeros((len(accounts), n_rounds), np.int64)
    rewards, gaps, arrived = np.zeros(n_rounds), np.zeros(n_rounds), np.zeros(n_rounds, np.bool_)
    broken = np.zeros(6, np.bool_)
    for t in range(n_rounds):
        i = balanced_elimination.choose(params, state, None)[0]  # type: ignore[arg-type]  # it draws nothing
        context = draws.contexts[t]
        chosen[t] = i
        rewards[t] = 1.0 if draws.coins[t] < means[i, context] else 0.0
        gaps[t] = BEST[context] - means[i, context]
        truth.regret[0] += gaps[t]
        rounds_of[i, accounts[i].plays] = t
        evidence.open_play(params, state, i)
        evidence.play(params, state, i, accounts[i].plays, gaps[t])
        for k in (t - late, t):
            if k < 0 or arrived[k] or (k == t and late > 0 and rewards[t] == 0.0):
                continue
            arrived[k] = True
            while pooled.plays <= t and arrived[pooled.plays]:
                truth.pool_regret[0] += gaps[pooled.plays]
                evidence.pool(params, state, rewards[pooled.plays])
            j = chosen[k]
            if not in_order:
                resolve(params, state, truth, j, rewards[k], gaps[k])
                continue
            while accounts[j].booked_plays < accounts[j].plays and arrived[rounds_of[j, accounts[j].booked_plays]]:
                first = rounds_of[j, accounts[j].booked_plays]
                resolve(params, state, truth, j, rewards[first], gaps[first])
        if t < 100 or t % 10 == 0:
            check_claims(params, state, honest, truth, broken)
    return chosen, broken


@compiled
def resolve(params: Params, state: State, truth: Truth, i: int, reward: float, gap: float) -> None:
    truth.regrets[i] += gap
    balanced_elimination.credit(params, state, i, reward, gap, 1.0)


@compiled
def check_claims(params: Params, state: State, honest: Any, truth: Truth, broken: Any) -> None:
    lower, upper, regret_lower, regret_upper, _ = evidence.certify(params, state)
    trusted = False
    for i in range(len(honest)):
        account = state.accounts[i]
        trusted = trusted or (honest[i] and account.active)
        broken[0] |= honest[i] and not account.active
        n = account.booked_plays
        if n > 0:
            broken[5] |= n * lower - account.rewards - radius_sum(params.radius, n) > truth.regrets[i]
    broken[1] |= lower > truth.optimum
    broken[2] |= trusted and upper < truth.optimum
    broken[3] |= trusted and regret_upper < truth.regret[0]
    broken[4] |= regret_lower > truth.pool_regret[0]


def draw(environment: Environment, seed: int, n_rounds: int) -> Draws:
    generator = np.random.default_rng([2020, seed])
    in_context_b = generator.random(n_rounds) >= environment.share_of_a
    return Draws(in_context_b.astype(np.int64), generator.random(n_rounds))


def selector_for(environment: Environment, radius_scale: float = 1.0) -> BalancedElimination:
    return BalancedElimination(
        environment.bounds, delta=DELTA, contexts=environment.contexts, radius_scale=radius_scale
    )


def start(environment: Environment) -> tuple[Any, Any, Truth]:
    optimum = environment.share_of_a * BEST[0] + (1 - environment.share_of_a) * BEST[1]
    truth = Truth(float(optimum), np.zeros(1), np.zeros(1), np.zeros(len(environment.bounds)))
    return np.array(environment.means), np.array(environment.honest), truth


def broken_runs(
    environment: Environment, *, radius_scale: float = 1.0, late: int = 0, in_order: bool = True
) -> list[int]:
    """How many of RUNS runs broke each claim."""
    counts = np.zeros(len(CLAIMS), np.int64)
    selector = selector_for(environment, radius_scale)
    for seed in range(RUNS):
        params, state = arrays_of(selector)
        _, broken = play_rounds(params, state, *start(environment), draw(environment, seed, ROUNDS), late, in_order)
        counts += broken
    return [int(count) for count in counts]


def arrays_of(selector: BalancedElimination) -> tuple[Any, Any]:
    return selector.to_arrays()


def holds(n_broken: int) -> bool:
    """The one check of this file: whether so many broken runs agree with a failure probability of at most delta.

    Exact one-sided binomial test. A claim that is true is rejected with probability at most FALSE_ALARM."""
    return bool(binomtest(n_broken, RUNS, DELTA, alternative="greater").pvalue >= FALSE_ALARM)


@pytest.mark.compiled
@pytest.mark.parametrize("late", [0, 30])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_compiled_runs_equal_those_of_the_public_class(name: str, late: int) -> None:
    """Choices and state bit by bit, with a radius narrow enough for eliminations to happen."""
    environment, n_rounds = ENVIRONMENTS[name], 600
    selector, draws = selector_for(environment, 0.2), draw(environment, 0, n_rounds)
    params, compiled_state = arrays_of(selector)
    chosen, _ = play_rounds(params, compiled_state, *start(environment), draws, late, True)
    played = []
    for t in range(n_rounds):
        context, choice = draws.contexts[t], selector.choose()
        mean = environment.means[choice.learner][context]
        selector.observe(choice, {choice.learner: Proposal(0, regret=float(BEST[context] - mean))})
        played.append((choice, float(draws.coins[t] < mean)))
        for k in sorted({t - late, t}):
            if (k == t and (late == 0 or played[t][1] == 1.0)) or (0 <= k < t and played[k][1] == 0.0):
                selector.credit(*played[k])
    assert [choice.learner for choice, _ in played] == chosen.tolist()
    assert selector.eliminations
    _, public_state = selector.to_arrays()
    balanced = {"increments", "increments_carry", "regret_bound"}  # brought up to date at the next choice only
    for public, other in zip(list[Any](public_state), list[Any](compiled_state), strict=True):
        for field in set(public.dtype.names) - balanced:
            assert public[field].tobytes() == other[field].tobytes(), field


@pytest.mark.compiled
@pytest.mark.statistical
@pytest.mark.parametrize("late", [0, LATE], ids=["at once", "zeros come late"])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_every_claim_fails_in_at_most_a_delta_share_of_runs(name: str, late: int) -> None:
    counts = broken_runs(ENVIRONMENTS[name], late=late)
    assert {claim: n for claim, n in zip(CLAIMS, counts, strict=True) if not holds(n)} == {}


@pytest.mark.compiled
@pytest.mark.statistical
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_a_radius_a_third_as_wide_is_caught(name: str) -> None:
    """The negative control: the same check rejects every claim that has no other slack in this environment."""
    environment = ENVIRONMENTS[name]
    counts = broken_runs(environment, radius_scale=1 / 3)
    assert {CLAIMS[k]: counts[k] for k in environment.sharp if holds(counts[k])} == {}


@pytest.mark.compiled
@pytest.mark.statistical
def test_crediting_rewards_as_they_arrive_is_caught() -> None:
    """The negative control of late rewards: zeros come late, so what has arrived looks better than it is."""
    counts = broken_runs(ENVIRONMENTS["witness"], late=LATE, in_order=False)
    assert {CLAIMS[k]: counts[k] for k in (1, 4, 5) if holds(counts[k])} == {}


def test_the_check_has_the_stated_power() -> None:
    """A share of delta passes, twice that does not."""
    assert holds(round(DELTA * RUNS))
    assert not holds(round(2 * DELTA * RUNS))


def test_a_certificate_says_in_words_what_it_claims_and_when_it_claims_nothing() -> None:
    """One learner that claims next to no regret earns 1 for 200 rounds; then it earns 0 and disproves its claim."""
    selector, narrowed = BalancedElimination([Power(0.01)]), BalancedElimination([Power(0.01)], radius_scale=0.9)
    for t in range(1000):
        if t == 200:
            certificate = selector.certificate()
            assert certificate.valid and certificate.consistent
            assert certificate.describe() == (
                "With confidence 0.95, if the bound of some active learner holds, "
                f"the best expected reward lies in [{certificate.optimum_lower:.4g}, 1] "
                f"and the total regret of 200 rounds is at least 0 and at most {certificate.regret_upper:.4g}."
            )
        selector.credit(selector.choose(), 1.0 if t < 200 else 0.0)
    assert selector.certificate().describe() == (
        "With confidence 0.95, the bounds of all active learners are false: the rewards contradict them."
    )
    assert selector.certificate().regret_upper == 1000, "all that the range of rewards allows"
    assert narrowed.certificate().describe() == (
        "No statement: radius_scale is below 1, and a narrowed radius proves nothing."
    )
