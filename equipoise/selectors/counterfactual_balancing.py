"""Counterfactual balancing: every learner proposes, and a reward counts for all experts that proposed its action.

Experts are the learners and their greedy experts: the same learner, playing the action that it estimates to be best.
The expert of a round is drawn with probabilities p that depend on the past only. From the rounds in which two experts
disagree follows, for each of them, z: by how many standard errors its present proposals are worse than those of another
(`equipoise.selectors._core.pairs`); rounds in which learners agree tell who predicts better. An admitted expert has
probability proportional to exp(-z^2), mixed with 1/t, or with 1/(4 t) if it learns from all rounds; the guard that
admits is that of `RealizedBalancing`, over the own plays of each expert. Which learners learn from a round is part of
the rule: those that accept off-policy data from all of them, others, if they opt in, from rounds in which the action is
the one they proposed.

Reference: docs/counterfactual-balancing.md, with proofs. exp(-z^2) follows Maillard (2013), "Apprentissage sequentiel:
bandits, statistique et renforcement", and Bian and Jun (2022), "Maillard sampling: Boltzmann exploration done
optimally".
Symbols: E n_accounts, p probability, q propensity, z^2 against (`pairs.compare`), m_e updates, n_e plays, U_e
rewards, LB best_lower, phi `realized_regrets`, rho floor, kappa slack, B MARGIN.

>>> from equipoise import Proposal
>>> selector = CounterfactualBalancing(2, greedy_experts=[1], learning=["all", "all"], seed=1)
>>> for _ in range(100):
...     choice = selector.choose()
...     selector.observe(choice, {0: Proposal(0), 1: Proposal(0, greedy=1)})
...     _ = selector.credit(choice, reward=0.9 if choice.greedy else 0.1)
>>> {expert: round(probability, 3) for expert, probability in selector.probabilities.items()}
{(0, False): 0.002, (1, False): 0.002, (1, True): 0.995}
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import exp, inf, log, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Elimination
from equipoise.certificates.comparisons import ExpertName, LatePair, PairedCertificate
from equipoise.compatibility import check_compatible, check_share_data, learning_mode
from equipoise.drift_order import PairSums
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposals, capabilities, part_name, provides
from equipoise.selector import Choice
from equipoise.selectors._core import evidence, pairs
from equipoise.selectors._core.accounts import (
    LEARNING,
    DrawRule,
    Experts,
    check_greedy,
    check_learning,
    check_mode,
)
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.ledger import Accounts
from equipoise.selectors._core.pairs import ALL, OWN, SILENT, Expert
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import seed_setting
from equipoise.selectors.realized_balancing import (
    EARLY_PLAYS,
    HEAD_START,
    MIN_UNIT,
    TOLERANCE,
    Params,
    Trend,
    arrive,
    fallen,
    floor_setting,
    is_under_sampled,
    lower_bound,
    realized_regrets,
    slack_setting,
)
from equipoise.settings import configurable, describe, optional, setting
from equipoise.settings.checks import boolean, count, positive

MARGIN = 200.0  # B: an under-sampled learner may exceed LB by this times w / sqrt(plays of the most played expert)
GREEDY_HEAD_START = 60.0  # replaces HEAD_START for learners with a greedy expert
PACE = 400  # next to greedy experts of shared data, warm-up plays of a learner take one round in so many (`warms_up`)
SHARED_MIXING = 0.25  # mixed in, over t, for experts that learn from all rounds, as 1 for others
MAX_COMPARED = 20  # above this number of experts each is compared with the leading one only


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
    """An unplayed or under-sampled expert; if there is none, -1, and the probabilities of the round are computed."""
    accounts, width = state.evidence.accounts, params.evidence.width
    n_rounds, n_resolved, spread, n_active, mixing, sharing = 0, 0, 0.0, 0, 0.0, False
    experts = state.credit.experts
    for e, account in enumerate(accounts):
        plays = account.plays
        if account.active:
            n_active += 1
            sharing = sharing or (experts[e].greedy and experts[e].learning == ALL)
            if plays == 0:
                return e
        n_rounds += plays
        n_resolved += account.booked_plays
        spread += account.spread
    for expert, account in zip(experts, accounts):  # noqa: B905  compiled code knows no `strict`
        if account.active:
            mixing += SHARED_MIXING if mixes_little(expert, sharing) else 1.0
    scale = sqrt(spread / n_resolved) if n_resolved > 0 else 0.0
    unit = max(params.min_unit * width, min(width, 2.0 * scale))
    best_lower = lower_bound(params, accounts)
    regrets, least = realized_regrets(accounts, best_lower, params.floor * unit)
    limit, most_plays = params.slack * regrets[least], 0
    pace = n_rounds / PACE if sharing else inf
    total = weigh(params, state, n_rounds, n_active, pace)
    mixed, admitted = min(0.5, mixing / (unchanged_rounds(state, scale) + 1.0)), 0.0
    drawn, own_chance = 1.0 - mixed, mixed / mixing
    shared_chance = SHARED_MIXING * own_chance
    for account, expert, regret in zip(accounts, experts, regrets):  # noqa: B905  compiled code knows no `strict`
        if regret <= limit:
            chance = shared_chance if mixes_little(expert, sharing) else own_chance
            expert.probability = probability = drawn * expert.weight / total + chance
            admitted += probability
            if account.plays > most_plays:
                most_plays = account.plays
        else:
            expert.probability = 0.0
    under_sampled = under_sampled_learner(params, state, most_plays, best_lower, pace)
    if under_sampled >= 0:
        return under_sampled
    for expert in experts:
        expert.probability /= admitted
    return -1


@kernel
def unchanged_rounds(state: State, deviation: float) -> float:
    """The rounds of experts whose rewards have not become less; evidence in favor of the others is out of date."""
    total = 0.0
    for account, trend in zip(state.evidence.accounts, state.trends):  # noqa: B905  compiled code knows no `strict`
        total += account.plays * (1.0 - fallen(trend, account, deviation))
    return total


@kernel
def under_sampled_learner(params: Params, state: State, most_plays: int, best_lower: float, pace: float) -> int:
    """The under-sampled learner with the fewest plays, -1 if there is none; an admitted expert has `most_plays`.

    A learner that learns from all rounds needs no head start, and one with a greedy expert a shorter one: what it has
    learned shows in the greedy expert, which has no regret bound to rest on and is never under-sampled.
    """
    accounts, experts, chosen, fewest_plays = state.evidence.accounts, state.credit.experts, -1, most_plays
    for e, (account, expert) in enumerate(zip(accounts, experts)):  # noqa: B905  compiled code knows no `strict`
        if account.plays < fewest_plays and not expert.greedy and account.active:
            if account.plays >= pace and warms_up(expert):
                continue
            head_start = 0.0 if expert.learning == ALL else params.head_start
            under_sampled = is_under_sampled(params, account, most_plays, best_lower, head_start)
            if under_sampled and head_start > GREEDY_HEAD_START and expert.has_greedy:
                under_sampled = is_under_sampled(params, account, most_plays, best_lower, GREEDY_HEAD_START)
            if under_sampled:
                chosen, fewest_plays = e, account.plays
    return chosen


@kernel
def warms_up(expert: Expert) -> bool:
    """Whether an expert is a learner that learns from own plays only, and does not show what it believes best.

    Next to greedy experts of shared data, which learn without it, its warm-up plays are spread over the rounds: one in
    so many (PACE). With these, forced or by its bonus, it needs no larger mixing; beyond them evidence decides.
    """
    return expert.learning >= OWN and not expert.greedy and not expert.has_greedy


@kernel
def mixes_little(expert: Expert, sharing: bool) -> bool:
    """Whether an expert is mixed in with SHARED_MIXING; `sharing` if there are greedy experts of shared data."""
    return expert.learning == ALL or (sharing and warms_up(expert))


@kernel
def weigh(params: Params, state: State, n_rounds: int, n_active: int, pace: float) -> float:
    """The sum of the weights exp(-z^2) of all experts, which are computed unless they are known."""
    experts, accounts, spread, total = state.credit.experts, state.evidence.accounts, state.credit.spread[0], 0.0
    # Bonuses, and who leads, depend on plays too.
    known = params.all_shared and n_active <= MAX_COMPARED and spread.weighed == spread.matched
    for account, expert in zip(accounts, experts):  # noqa: B905  compiled code knows no `strict`
        if expert.weighed != account.active:
            expert.weighed, known = account.active, False
    if known:
        return spread.weights
    compare(params, state, n_rounds, n_active, pace)
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
def compare(params: Params, state: State, n_rounds: int, n_active: int, pace: float) -> None:
    """Compare all pairs of active experts; if they are many, all of them with the leading one."""
    credit, squared_scale, leader, most_plays = state.credit, pairs.variance(params.evidence, state.credit), -1, 0
    bonuses = not params.all_shared
    if bonuses:
        for e, expert in enumerate(credit.experts):
            expert.bonus = bonus(params, state, e, n_rounds, sqrt(squared_scale))
            if state.evidence.accounts[e].plays >= pace and warms_up(expert):
                expert.bonus = 0.0
    if n_active > MAX_COMPARED:
        for e, account in enumerate(state.evidence.accounts):
            if account.active and account.plays > most_plays:
                leader, most_plays = e, account.plays
    pairs.compare(credit, leader, bonuses, squared_scale)
    if leader >= 0 and credit.experts[leader].against > 1.0:  # another one is clearly better, and leads
        pairs.compare(credit, credit.experts[leader].rival, bonuses, squared_scale)


@kernel
def bonus(params: Params, state: State, e: int, n_rounds: int, s: float) -> float:
    """What a learner may still gain by its own plays: 0 if it learns from every round, or is greedy."""
    expert, trend = state.credit.experts[e], state.trends[e]
    updates = expert.updates
    if expert.greedy or expert.learning == ALL or updates >= n_rounds or updates == 0 or trend.plays == 0:
        return 0.0
    log_share, mean_reward = log(n_rounds / updates), trend.rewards / trend.plays
    fading = min(1.0, sqrt(sqrt(EARLY_PLAYS / updates)))
    growth = max(0.0, trend.late_mean - mean_reward) * log_share
    return params.optimism * s * fading * sqrt(2.0 * log_share / updates) + growth


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
        if expert.learning == SILENT and j != e:
            expert.action = -1
    pairs.add_round(params.evidence, state.credit, e, reward, True, True)  # for choosing and for certificates
    arrive_at_experts(params, state, e, reward, proposals.values)
    pairs.count_updates(state.credit, e)


@kernel
def arrive_at_experts(params: Params, state: State, e: int, reward: float, values: Sequence[float]) -> None:
    """What else the next draw uses of a round: overlap and predictions."""
    if not params.all_shared:
        pairs.add_overlap(state.credit)
    pairs.score(params.evidence, state.credit, e, reward, values)


@kernel
def learner_of(params: Params, state: State, e: int) -> tuple[int, bool]:
    """The learner of an expert, and whether the expert is greedy."""
    return state.credit.experts[e].learner, state.credit.experts[e].greedy


DRAW_RULE = DrawRule(only_expert, arrive_at_experts)


@describe(delta="Failure probability of the certificate of the regret.")
@configurable
class CounterfactualBalancing(KernelSelector[Params, State, Elimination]):
    """Credits a reward to all experts that proposed its action; experts are learners and their greedy actions.

    Recommended if a learner that learns accepts "off_policy"; make it with `for_learners`. Others may be of any kind.
    """

    name = "Counterfactual balancing"
    explanation = (
        "A learner, or its greedy action, is sampled, the more often the less the rewards of rounds in which learners "
        "proposed different actions show another one to be better; a round counts for all who proposed its action."
    )
    needs = frozenset({"actions"})
    separate_lower = True
    balances = False
    refuses_learners = ""
    per_learner = ("learning", "greedy_experts")
    reconfigurable = ("floor", "slack", "optimism")
    kernels: ClassVar[Kernels] = nested_kernels(choose, arrive=arrive, close_round=close_round, learner_of=learner_of)

    n_learners: int = setting("Number of learners.", count, kw_only=False)
    seed: int = seed_setting()
    learning: Sequence[str] | None = setting(
        'For each learner, the rounds it learns from: "all", "agreed" (its own, and those in which the action '
        'is the one it proposed), "own", or "silent" (its own, and it is asked in no others); see `for_learners`. '
        'Default: "own" for all.',
        optional(check_learning),
        default=None,
    )
    greedy_experts: Sequence[int] = setting(
        "Learners whose greedy action is a second expert. Default: none.", check_greedy, default=()
    )
    share_data: bool | None = setting(
        "Whether learners that join learn from all rounds, as in `for_learners`. Default: those that can, do.",
        optional(boolean),
        default=None,
    )
    floor: float = floor_setting()
    slack: float = slack_setting("an expert is drawn", 32.0)
    optimism: float = setting(
        "Bonus of learners that do not learn from all rounds, in standard deviations.", positive, default=2.0
    )

    def _make_accounts(self) -> Accounts:
        n, learning, greedy = self.n_learners, self.learning, self.greedy_experts
        if learning is not None and len(learning) != n:
            raise InvalidArgument(f"learning has {len(learning)} entries, but n_learners is {n}")
        if any(i >= n for i in greedy):
            raise InvalidArgument(f"greedy_experts is {greedy!r}, but must have learners from 0 to {n - 1}")
        codes = [LEARNING[word] for word in learning or ("own",) * n]
        rows = [Expert(i, False, codes[i], i, i in greedy) for i in range(n)]
        rows += [Expert(i, True, codes[i], i, False) for i in greedy]
        self._experts = Experts(rows, DRAW_RULE, self._changes.removed)
        return self._experts

    def _make_params(self, limits: evidence.Params) -> Params:
        guard = MIN_UNIT, TOLERANCE, MARGIN, HEAD_START
        return Params(limits, self.floor, self.slack, self.optimism, *guard, self._experts.all_shared)

    def _make_state(self, accounts: evidence.State) -> State:
        rows = self._experts.rows
        return State(accounts, [Trend() for _ in rows], pairs.open_state(rows))

    def _grow(self) -> None:
        trends = self.kernel_state.trends
        trends.extend(Trend() for _ in self._experts.rows[len(trends) :])

    def _chances(self) -> tuple[float, ...]:
        return self._experts.chances()

    @property
    def experts(self) -> tuple[tuple[int, bool], ...]:
        """The learners and, with True, the learners whose greedy action is an expert."""
        return self._experts.experts

    @property
    def probabilities(self) -> dict[tuple[int, bool], float]:
        """The probability of each expert, a learner or (with True) its greedy action, in the next round."""
        return dict(zip(self.experts, self._experts.odds(), strict=True))

    @classmethod
    def for_learners(cls, learners: Sequence[Any], *, share_data: bool | None = None, **settings: Any) -> Self:
        """Make the selector for these learners.

        Each learner learns from the rounds that `equipoise.compatibility.learning_mode` names. By default those that
        accept "off_policy" learn from all rounds; with `share_data` True at least one must, with False none does. The
        greedy actions of learners that provide "greedy" and learn are experts.
        """
        optional(boolean)("share_data", share_data)
        check_share_data(learners, share_data)
        modes = [learning_mode(each, share_data, settings.get("contexts", "random")) for each in learners]
        greedy = [i for i, learner in enumerate(learners) if has_greedy_expert(learner)]
        selector = cls(len(learners), learning=modes, greedy_experts=greedy, share_data=share_data, **settings)
        return check_compatible(selector, learners)

    @property
    def learning_modes(self) -> tuple[str, ...]:
        """From which rounds each learner learns, also those that joined or were removed."""
        return self._experts.modes

    def check_learners(self, learners: Sequence[Any]) -> None:
        """Raise an error if a learner cannot learn, or play, as the settings say."""
        for i, (learner, word) in enumerate(zip(learners, self.learning_modes, strict=True)):
            check_mode(learner, word, self.contexts)
            if (i, True) in self.experts and "greedy" not in provides(learner):
                raise IncompatibleLearner(
                    f"greedy_experts has learner {i}, but {part_name(learner)!r} provides no 'greedy'"
                )

    def joining(self, learner: Any) -> dict[str, Any]:
        """Return how a learner that joins a running pool will learn and play: further arguments of `add_learner`."""
        learning = learning_mode(learner, self.share_data, self.contexts)
        return {"learning": learning, "greedy": has_greedy_expert(learner)}

    def add_learner(self, bound: Bound | None = None, *, learning: str = "own", greedy: bool = False) -> int:
        """Add a learner to the pool; returns its index. See the settings `learning` and `greedy_experts`."""
        (word,) = check_learning("learning", [learning])
        mode = self._experts.mode(LEARNING[word], boolean("greedy", greedy))
        return self._add_learner(bound, mode)

    def odds(self, choice: Choice | None = None, available: Collection[int] | None = None) -> tuple[float, ...]:
        """The probability of each expert: with which an open play was drawn or, with None, in the next choice."""
        if choice is not None:
            odds: tuple[float, ...] = self._experts.entry(choice).details.odds
            return odds
        masked = () if available is None else self._rounds.mask_unavailable(available)
        try:
            return self._experts.odds()
        finally:
            self._rounds.unmask(masked)

    def propensity(self, choice: Choice) -> float:
        """The probability, given context and all proposals, with which the action of an open play was played.

        This is q of the paired evidence. If learners draw their proposals at random, it is not the propensity of the
        action, which is its probability given the context alone.
        """
        return self._experts.propensity(choice)

    def learners_updated_by(self, choice: Choice | None) -> tuple[int, ...]:
        """The learners that learn from an open play; with None, those that learn from every round."""
        return self._experts.learners_updated_by(choice)

    def pair_rounds(self) -> int:
        """Return the number of rounds in which pairs of experts were compared."""
        return self.kernel_state.credit.spread[0].closed

    def pair_sums(self) -> PairSums:
        """Return the sums over these rounds, for all pairs of experts."""
        return pairs.pair_sums(self.kernel_state.credit)

    def paired_certificate(self, better: tuple[int, bool], worse: tuple[int, bool]) -> PairedCertificate:
        """What is proved about two experts, learners or (with True) greedy actions, with a delta of its own.

        It certifies past proposals, and no learner is eliminated by it: one that still learns may overtake.
        """
        if self.confidence.noise is not None:
            raise InvalidArgument(f"noise is {self.confidence.noise!r}, but must be None: rewards need known limits")
        j, k = map(self._experts.index_of, (better, worse))
        if j == k:
            raise InvalidArgument(f"worse is {worse!r}, but must be another expert than better")
        tables, n, late = self.kernel_state.credit, len(self.experts), self._changes.late
        forth, back, newest = tables.pairs[j * n + k], tables.pairs[k * n + j], max(better[0], worse[0])
        return PairedCertificate(
            rounds=tables.spread[0].closed,
            better=ExpertName(*better),
            worse=ExpertName(*worse),
            gain=forth.gain - back.gain,
            gain_squares=forth.gain_squares + back.gain_squares,
            n_experts=sum(i < self.n_learners for i, _ in self.experts),
            reward_range=self.reward_range,
            delta=self.delta,
            n_late=len(late),
            late=LatePair(newest - self.n_learners, late[newest].mode.n_pairs, late[newest].round)
            if newest in late
            else None,
        )


def has_greedy_expert(learner: object) -> bool:
    """Whether the greedy action of a learner is a second expert: it learns, and is asked in every round."""
    can = capabilities(learner)
    return "greedy" in can.provides and can.learns and not can.silent
