"""Counterfactual balancing: every learner proposes, and a reward counts for all experts that proposed its action.

Experts are the learners and their greedy twins: the same learner, playing the action that it estimates to be best. The
expert of a round is drawn with probabilities p that depend on the past only. From the rounds in which two experts
disagree follows, for each of them, z: by how many standard errors its present proposals are worse than those of another
(`equipoise.selectors._core.pairs`); rounds in which learners agree tell who predicts better. An admitted expert has
probability proportional to exp(-z^2), mixed with 1/t, or with 1/(4 t) if it learns from all rounds; the guard that
admits is that of `RealizedBalancing`, over the own plays of each expert. Which learners learn from a round is part of
the rule: those that accept off-policy data from all of them, others, if they opt in, from rounds in which the action is
the one they proposed.

Reference: docs/counterfactual-balancing.md, with proofs. exp(-z^2) follows Maillard (2013), "Apprentissage sequentiel:
bandits, statistique et renforcement", and Bian and Jun (2022), "Maillard sampling: Boltzmann exploration done
optimally".
Symbols: E n_accounts, p probability, q propensity, z^2 against (`pairs.compare`), m_e taught, n_e plays, U_e
rewards, LB best_lower, phi `realized_regrets`, rho floor, kappa slack, B MARGIN.

>>> from equipoise import Proposal
>>> selector = CounterfactualBalancing(2, twins=[1], teaching=["all", "all"], seed=1)
>>> for _ in range(100):
...     choice = selector.choose()
...     selector.observe(choice, {0: Proposal(0), 1: Proposal(0, greedy=1)})
...     _ = selector.credit(choice, reward=0.9 if choice.greedy else 0.1)
>>> {expert: round(probability, 3) for expert, probability in selector.probabilities.items()}
{(0, False): 0.002, (1, False): 0.002, (1, True): 0.995}
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from equipoise.bounds import Bound
from equipoise.compatibility import check_compatible
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals, part_name, provides
from equipoise.selectors._core import evidence, pairs, ways
from equipoise.selectors._core.experts import ExpertSelector
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.ledger import Entry
from equipoise.selectors._core.pairs import ALL, Expert
from equipoise.selectors._core.settings import ConfidenceSettings, LearnerCount, Seeded
from equipoise.selectors.realized_balancing import (
    EARLY_PLAYS,
    HEAD_START,
    MIN_UNIT,
    TOLERANCE,
    Trend,
    arrive,
    check_slack,
    fallen,
    is_neglected,
    lower_bound,
    realized_regrets,
)
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import boolean, positive

MARGIN = 200.0  # B: by how much, times w / sqrt(plays of the most played expert), a neglected learner may exceed LB
TWIN_HEAD_START = 60.0  # replaces HEAD_START for learners with a twin
SHARED_MIXING = 0.25  # mixed in, over t, for experts that learn from all rounds, as 1 for others
MANY = 20  # above this number of experts each is compared with the leading one only


class Params(NamedTuple):
    evidence: evidence.Params
    floor: float
    slack: float
    optimism: float
    rule: int
    min_unit: float
    tolerance: float
    neglect: float
    head_start: float
    all_shared: bool


class State(NamedTuple):
    evidence: evidence.State
    trends: list[Trend]
    credit: pairs.State


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The expert of the round and its probability."""
    forced = only_expert(params, state)
    experts, chosen = state.credit.experts, forced
    if forced >= 0:
        for e in range(len(experts)):
            experts[e].probability = 1.0 if e == forced else 0.0
    else:
        chosen = sample_expert(experts, rng)
    return chosen, experts[chosen].probability


@kernel
def only_expert(params: Params, state: State) -> int:
    """An unplayed or neglected expert; if there is none, -1, and the probabilities of the round are computed."""
    accounts, width = state.evidence.accounts, params.evidence.width
    n_rounds, n_resolved, spread, n_active, mixing = 0, 0, 0.0, 0, 0.0
    experts = state.credit.experts
    for e, account in enumerate(accounts):
        plays = account.plays
        if account.active:
            n_active += 1
            mixing += SHARED_MIXING if experts[e].teaching == ALL else 1.0
            if plays == 0:
                return e
        n_rounds += plays
        n_resolved += account.booked_plays
        spread += account.spread
    scale = sqrt(spread / n_resolved) if n_resolved > 0 else 0.0
    unit = max(params.min_unit * width, min(width, 2.0 * scale))
    best_lower = lower_bound(params, state)
    regrets, least = realized_regrets(accounts, best_lower, params.floor * unit)
    limit, most_plays = params.slack * regrets[least], 0
    total = weigh(params, state, n_rounds, n_active)
    mixed, admitted = min(0.5, mixing / (unchanged_rounds(state, scale) + 1.0)), 0.0
    drawn, own_chance = 1.0 - mixed, mixed / mixing
    shared_chance = SHARED_MIXING * own_chance
    for account, expert, regret in zip(accounts, experts, regrets):  # noqa: B905  compiled code knows no `strict`
        if regret <= limit:
            chance = shared_chance if expert.teaching == ALL else own_chance
            expert.probability = probability = drawn * expert.weight / total + chance
            admitted += probability
            if account.plays > most_plays:
                most_plays = account.plays
        else:
            expert.probability = 0.0
    neglected = neglected_learner(params, state, most_plays, best_lower)
    if neglected >= 0:
        return neglected
    for expert in experts:
        expert.probability /= admitted
    return -1


@kernel
def unchanged_rounds(state: State, deviation: float) -> float:
    """The rounds of experts whose rewards have not become less: what speaks for the others they no longer earn."""
    total = 0.0
    for account, trend in zip(state.evidence.accounts, state.trends):  # noqa: B905  compiled code knows no `strict`
        total += account.plays * (1.0 - fallen(trend, account, deviation))
    return total


@kernel
def neglected_learner(params: Params, state: State, most_plays: int, best_lower: float) -> int:
    """The neglected learner with the fewest plays, -1 if there is none; an admitted expert has `most_plays`.

    A learner that learns from all rounds needs no head start, and one with a twin a shorter one: what it has learned
    shows in the twin. A twin has no regret bound that it could rest on, and is never neglected.
    """
    accounts, experts, chosen, fewest_plays = state.evidence.accounts, state.credit.experts, -1, most_plays
    for e, (account, expert) in enumerate(zip(accounts, experts)):  # noqa: B905  compiled code knows no `strict`
        if account.plays < fewest_plays and not expert.greedy and account.active:
            head_start = 0.0 if expert.teaching == ALL else params.head_start
            neglected = is_neglected(params, account, most_plays, best_lower, head_start)
            if neglected and head_start > TWIN_HEAD_START and expert.has_twin:
                neglected = is_neglected(params, account, most_plays, best_lower, TWIN_HEAD_START)
            if neglected:
                chosen, fewest_plays = e, account.plays
    return chosen


@kernel
def weigh(params: Params, state: State, n_rounds: int, n_active: int) -> float:
    """The sum of the weights exp(-z^2) of all experts, which are computed unless they are known."""
    experts, accounts, spread, total = state.credit.experts, state.evidence.accounts, state.credit.spread[0], 0.0
    # Bonuses, and who leads, depend on plays too.
    known = params.all_shared and n_active <= MANY and spread.weighed == spread.matched
    for account, expert in zip(accounts, experts):  # noqa: B905  compiled code knows no `strict`
        if expert.weighed != account.active:
            expert.weighed, known = account.active, False
    if known:
        return spread.weights
    compare(params, state, n_rounds, n_active)
    for expert in experts:
        expert.weight = weight = exp(-expert.against) if expert.weighed else 0.0
        total += weight
    if total == 0.0:  # every weight is too small for a float
        for expert in experts:
            expert.weight = 1.0 if expert.weighed else 0.0
            total += expert.weight
    spread.weighed, spread.weights = spread.matched, total
    return total


@kernel
def compare(params: Params, state: State, n_rounds: int, n_active: int) -> None:
    """Compare all pairs of active experts; if they are many, all of them with the leading one."""
    credit, squared_scale, leader, most_plays = state.credit, pairs.variance(params.evidence, state.credit), -1, 0
    bonuses = not params.all_shared
    if bonuses:
        for e, expert in enumerate(credit.experts):
            expert.bonus = bonus(params, state, e, n_rounds, sqrt(squared_scale))
    if n_active > MANY:
        for e, account in enumerate(state.evidence.accounts):
            if account.active and account.plays > most_plays:
                leader, most_plays = e, account.plays
    pairs.compare(credit, leader, bonuses, squared_scale)
    if leader >= 0 and credit.experts[leader].against > 1.0:  # another one is clearly better, and leads
        pairs.compare(credit, credit.experts[leader].rival, bonuses, squared_scale)


@kernel
def bonus(params: Params, state: State, e: int, n_rounds: int, s: float) -> float:
    """What a learner may still gain by its own plays: 0 if it learns from every round. A twin learns by those too."""
    expert, trend = state.credit.experts[e], state.trends[e]
    taught = expert.taught
    if expert.greedy or expert.teaching == ALL or taught >= n_rounds or taught == 0 or trend.plays == 0:
        return 0.0
    log_share, mean_reward = log(n_rounds / taught), trend.rewards / trend.plays
    fading = min(1.0, sqrt(sqrt(EARLY_PLAYS / taught)))
    growth = max(0.0, trend.late_mean - mean_reward) * log_share
    return params.optimism * s * fading * sqrt(2.0 * log_share / taught) + growth


@kernel
def sample_expert(experts: list[Expert], rng: np.random.Generator) -> int:
    left, chosen = rng.random(), -1
    for e, expert in enumerate(experts):
        probability = expert.probability
        if probability > 0.0:
            chosen = e  # rounding may leave a remainder beyond the last expert
            left -= probability
            if left < 0.0:
                return e
    return chosen


@kernel
def close_round(params: Params, state: State, e: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Credit a round to all who proposed its action; for rewards that come at once."""
    experts = state.credit.experts
    for j in range(len(experts)):
        expert = experts[j]
        expert.action = proposals.greedy[expert.learner] if expert.greedy else proposals.actions[expert.learner]
    pairs.add_round(params.evidence, state.credit, e, reward, True, True)  # for choosing and for certificates
    arrive_at_experts(params, state, e, reward, proposals.values)


@kernel
def arrive_at_experts(params: Params, state: State, e: int, reward: float, values: Sequence[float]) -> None:
    """What else the next draw uses of a round: overlap, predictions, and who has learned."""
    if not params.all_shared:
        pairs.add_overlap(state.credit)
    pairs.score(params.evidence, state.credit, e, reward, values)
    pairs.teach(state.credit, e)


@kernel
def learner_of(params: Params, state: State, e: int) -> tuple[int, bool]:
    """The learner of an expert, and whether the expert is its twin."""
    return state.credit.experts[e].learner, state.credit.experts[e].greedy


@configurable
class CounterfactualBalancing(LearnerCount, Seeded, ConfidenceSettings, ExpertSelector):
    """Credits a reward to all experts that proposed its action; experts are learners and their greedy twins.

    Recommended if every learner accepts "off_policy" or "agreed" and provides "greedy"; make it with `for_learners`.

    Parameters
    ----------
    n_learners
        Number of learners.
    delta
        Failure probability of the certificate of the regret.
    reward_range
        Lowest and highest reward; with `noise`, lowest and highest expected reward.
    contexts
        "fixed" if contexts and action sets never change, which narrows the radius; else "random".
    radius
        Form of the confidence radius: "mixture", "stitched", "paper" or "bernstein" (bounded rewards only).
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    seed
        Seed of the selector's random numbers, used if `choose` gets no generator.
    teaching
        For each learner, from which rounds it learns: "all", "agreed" (its own, and those in which the action is the
        one it proposed) or "own". By default all have "own"; see `for_learners`.
    twins
        The learners whose greedy action is a second expert, by default none; see `for_learners`.
    floor
        Regret per square root of plays (rho) below which experts count as equal, in units of reward variation.
    slack
        How many times the smallest realized regret an expert may have and still be drawn (kappa), at least 1.
    optimism
        Width of the bonus of learners that do not learn from all rounds, in standard deviations of the rewards.
    """

    name = "Counterfactual balancing"
    explanation = (
        "A learner, or its greedy action, is sampled, the more often the less the rewards of rounds in which learners "
        "proposed different actions show another one to be better; a round counts for all who proposed its action."
    )
    needs = frozenset({"actions"})
    separate_lower = True
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, close_round=close_round, learner_of=learner_of)

    teaching: Sequence[str] | None = setting(default=None, check=optional(ways.check_teaching))
    twins: Sequence[int] = setting(default=(), check=ways.check_twins)
    floor: float = setting(default=0.25, check=positive)
    slack: float = setting(default=32.0, check=check_slack)
    optimism: float = setting(default=2.0, check=positive)

    per_learner = ("teaching",)
    reconfigurable = ("floor", "slack", "optimism")

    def _set_up(self) -> None:
        n, teaching = self.n_learners, self.teaching
        if teaching is not None and len(teaching) != n:
            raise InvalidArgument(f"teaching has {len(teaching)} entries, but n_learners is {n}")
        if any(i >= n for i in self.twins):
            raise InvalidArgument(f"twins is {self.twins!r}, but must have learners from 0 to {n - 1}")
        codes = [ways.TEACHING[word] for word in teaching or ("own",) * n]
        self.experts = (*((i, False) for i in range(n)), *((i, True) for i in self.twins))
        self._rows = [Expert(i, greedy, codes[i], i, not greedy and i in self.twins) for i, greedy in self.experts]
        super()._set_up()

    def _make_params(self, limits: evidence.Params) -> Params:
        guard = MIN_UNIT[2], TOLERANCE, MARGIN, HEAD_START
        shared = all(row.teaching == ALL for row in self._rows)
        return Params(limits, self.floor, self.slack, self.optimism, 2, *guard, shared)

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Trend() for _ in self._rows], pairs.open_state(self._rows))

    @classmethod
    def for_learners(cls, learners: Sequence[Any], *, share_data: bool = False, **settings: Any) -> Self:
        """Make the selector for these learners.

        With `share_data`, learners that accept "off_policy" learn from all rounds. Others learn from the rounds in
        which the action is the one they proposed, if they accept "agreed" and, if they ignore contexts, `contexts` is
        "fixed". Learners that provide "greedy" and learn have a twin.
        """
        shared, contexts = boolean("share_data", share_data), settings.get("contexts", "random")
        teaching = [ways.teaching_of(learner, shared, contexts) for learner in learners]
        twins = [i for i, learner in enumerate(learners) if ways.has_twin(learner)]
        selector = cls(len(learners), teaching=teaching, twins=twins, **settings)
        check_compatible(selector, learners)
        return selector

    def check_learners(self, learners: Sequence[Any]) -> None:
        """Raise an error if a learner cannot learn, or play, as the settings say."""
        words = self.teaching or ("own",) * self.n_learners
        for i, (learner, word) in enumerate(zip(learners, words, strict=True)):
            ways.check_way(learner, word, self.contexts)
            if (i, True) in self._expert_of and "greedy" not in provides(learner):
                raise IncompatibleLearner(f"twins has learner {i}, but {part_name(learner)!r} provides no 'greedy'")

    def joining(self, learner: Any) -> dict[str, Any]:
        """How a learner that joins a running pool will learn and play: further arguments of `add_learner`.

        It learns from all rounds if it can and another learner with a twin does.
        """
        obstacle = ways.misfit(learner)
        if obstacle:
            raise IncompatibleLearner(
                f"learner {part_name(learner)!r} cannot join: it {obstacle}; "
                "a portfolio with RealizedBalancing takes any learner"
            )
        shared = any(row.greedy and row.teaching == ALL for row in self._rows)
        return {"teaching": ways.teaching_of(learner, shared, self.contexts), "twin": ways.has_twin(learner)}

    def add_learner(self, bound: Bound | None = None, *, teaching: str = "own", twin: bool = False) -> int:
        """Add a learner to the pool; returns its index. See the settings `teaching` and `twins`."""
        (word,) = ways.check_teaching("teaching", [teaching])
        return self._add_learner(bound, ways.Way(ways.TEACHING[word], boolean("twin", twin), self._n_new_pairs(twin)))

    def _grow(self) -> None:
        trends = self.kernel_state.trends
        trends.extend(Trend() for _ in self._rows[len(trends) :])

    def _match(self, entry: Entry, reward: float, certifying: bool) -> None:
        params, state = self.params, self.kernel_state
        assert entry.proposals is not None
        pairs.add_round(params.evidence, state.credit, entry.learner, reward, True, certifying)
        arrive_at_experts(params, state, entry.learner, reward, entry.proposals.values)

    def _odds(self) -> tuple[float, ...]:
        """The probabilities of the next round; leaves them in the rows."""
        forced = only_expert(self.params, self.kernel_state)
        if forced >= 0:
            return tuple(float(e == forced) for e in range(self.n_accounts))
        return tuple([row.probability for row in self._rows])
