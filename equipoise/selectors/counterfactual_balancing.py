"""Counterfactual balancing: every learner proposes, and a reward counts for all experts that proposed its action.

Experts are the learners and their greedy twins: the same learner, playing the action that it estimates to be best. The
expert of a round is drawn with probabilities p that depend on the past only. From the rounds in which two experts
disagree follows, for each of them, z: by how many standard errors its present proposals are worse than those of another
(`equipoise.selectors._core.pairs`). An expert has probability proportional to exp(-z^2), mixed with a uniform draw of
weight 1/t, if it is admitted: the guard is that of `RealizedBalancing`, over the own plays of each expert. Which
learners learn from a round is part of the rule: those that accept off-policy data from all of them, others, if they opt
in, from rounds in which the action is the one they proposed.

Reference: docs/counterfactual-balancing.md, with proofs. exp(-z^2) follows Maillard (2013), "Apprentissage sequentiel:
bandits, statistique et renforcement", and Bian and Jun (2022), "Maillard sampling: Boltzmann exploration done optimally".
Symbols: E n_accounts, p probability, q propensity, z the result of `greatest_gap`, m_e taught, n_e plays, U_e rewards,
LB best_lower, phi realized_regret, rho floor, kappa slack, B MARGIN.

>>> selector = CounterfactualBalancing(2, twins=[1], teaching=["all", "all"], seed=1)
>>> for _ in range(100):
...     choice = selector.choose()
...     selector.observe(choice, {0: Proposal(0), 1: Proposal(0, greedy=1)})
...     _ = selector.credit(choice, reward=0.9 if choice.greedy else 0.1)
>>> {expert: round(probability, 2) for expert, probability in selector.probabilities.items()}
{(0, False): 0.0, (1, False): 0.0, (1, True): 0.99}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, inf, log, nan, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from equipoise.certificates import Certificate, Elimination, Standing
from equipoise.compatibility import check_compatible
from equipoise.confidence import radius_sum
from equipoise.errors import IncompatibleLearner, InvalidArgument, UnknownDecision
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal, Proposals, accepts, part_name, provides
from equipoise.selector import Choice
from equipoise.selectors._core import evidence, pairs
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.kernels import Kernels, nested_kernels
from equipoise.selectors._core.ledger import Entry
from equipoise.selectors._core.pairs import AGREED, ALL, OWN, Expert
from equipoise.selectors._core.proposals import blank_proposals
from equipoise.selectors._core.settings import ConfidenceSettings, LearnerCount, Seeded
from equipoise.selectors.realized_balancing import (
    EARLY_PLAYS,
    HEAD_START,
    MIN_UNIT,
    TOLERANCE,
    Trend,
    check_slack,
    is_neglected,
    lower_bound,
    realized_regret,
)
from equipoise.settings import configurable, equal_data, optional, setting
from equipoise.settings.checks import count, positive
from equipoise.types import Action


MARGIN = 200.0  # B: by how much, times w / sqrt(plays of the most played expert), a neglected learner may exceed LB
MANY = 20  # above this number of experts each is compared with the leading one only
TEACHING = {"all": ALL, "agreed": AGREED, "own": OWN}
UNSEEN = -2  # the action of an expert whose proposal is not known yet


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
    n_rounds, n_resolved, spread = 0, 0, 0.0
    for e in range(len(accounts)):
        if accounts[e].plays == 0:
            return e
        n_rounds += accounts[e].plays
        n_resolved += accounts[e].booked_plays
        spread += accounts[e].spread
    scale = sqrt(spread / n_resolved) if n_resolved > 0 else 0.0
    unit = max(params.min_unit * width, min(width, 2.0 * scale))
    best_lower, least_regret = lower_bound(params, state), inf
    for e in range(len(accounts)):
        least_regret = min(least_regret, realized_regret(params, accounts[e], best_lower, unit))
    limit, most = params.slack * least_regret, -1
    experts, total = state.credit.experts, weigh(params, state, n_rounds)
    mixed, admitted = 1.0 / (n_rounds + 1.0), 0.0
    for e in range(len(accounts)):
        expert = experts[e]
        if realized_regret(params, accounts[e], best_lower, unit) <= limit:
            expert.probability = (1.0 - mixed) * expert.probability / total + mixed / len(accounts)
            admitted += expert.probability
            if most < 0 or accounts[e].plays > accounts[most].plays:
                most = e
        else:
            expert.probability = 0.0
    neglected = neglected_learner(params, state, most, best_lower)
    if neglected >= 0:
        return neglected
    for e in range(len(accounts)):
        experts[e].probability /= admitted
    return -1


@kernel
def neglected_learner(params: Params, state: State, due: int, best_lower: float) -> int:
    """The neglected learner with the fewest plays, -1 if there is none; one that learns from all rounds needs no head
    start, and a twin has no regret bound that it could rest on."""
    accounts, experts = state.evidence.accounts, state.credit.experts
    chosen, fewest_plays = -1, accounts[due].plays
    for e in range(len(accounts)):
        if not experts[e].greedy and accounts[e].plays < fewest_plays:
            head_start = 0.0 if experts[e].teaching == ALL else params.head_start
            if is_neglected(params, accounts[e], accounts[due].plays, best_lower, head_start):
                chosen, fewest_plays = e, accounts[e].plays
    return chosen


@kernel
def weigh(params: Params, state: State, n_rounds: int) -> float:
    """Set the weights exp(-z^2) of all experts as their probabilities, to be normalized; returns their sum."""
    experts, accounts, total = state.credit.experts, state.evidence.accounts, 0.0
    s, leader = pairs.deviation(params.evidence, state.credit), 0
    if len(experts) > MANY:
        for e in range(len(experts)):
            if accounts[e].plays > accounts[leader].plays:
                leader = e
        leader_gap, better = pairs.greatest_gap(state.credit, leader, bonus(params, state, leader, n_rounds, s), s)
        if leader_gap > 1.0:
            leader = better
    for e in range(len(experts)):
        own_bonus = bonus(params, state, e, n_rounds, s)
        if len(experts) > MANY and e != leader:
            gap = pairs.standardized_gap(state.credit, leader, e, own_bonus, s)
        else:
            gap = pairs.greatest_gap(state.credit, e, own_bonus, s)[0]
        experts[e].probability = exp(-(gap**2))
        total += experts[e].probability
    return total


@kernel
def bonus(params: Params, state: State, e: int, n_rounds: int, s: float) -> float:
    """What an expert may still gain by learning: 0 if its learner learns from every round."""
    taught, account = state.credit.experts[e].taught, state.evidence.accounts[e]
    if params.all_shared or taught >= n_rounds or taught == 0 or account.booked_plays == 0:
        return 0.0
    log_share, mean_reward = log(n_rounds / taught), account.rewards / account.booked_plays
    fading = min(1.0, sqrt(sqrt(EARLY_PLAYS / taught)))
    trend = max(0.0, state.trends[e].late_mean - mean_reward) * log_share
    return params.optimism * s * fading * sqrt(2.0 * log_share / taught) + trend


@kernel
def sample_expert(experts: list[Expert], rng: np.random.Generator) -> int:
    left, chosen = rng.random(), -1
    for e in range(len(experts)):
        if experts[e].probability > 0.0:
            chosen = e  # rounding may leave a remainder beyond the last expert
            left -= experts[e].probability
            if left < 0.0:
                return e
    return chosen


@kernel
def credit(params: Params, state: State, e: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward to the own plays of an expert."""
    evidence.credit(params.evidence, state.evidence, e, reward, regret)
    trend, n = state.trends[e], state.evidence.accounts[e].booked_plays
    trend.late_mean += (reward - trend.late_mean) * 2.0 / (n + 1.0)


@kernel
def close_round(params: Params, state: State, e: int, reward: float, regret: float, proposals: Proposals) -> None:
    """Credit a round to all who proposed its action; for rewards that come at once."""
    experts = state.credit.experts
    for j in range(len(experts)):
        expert = experts[j]
        expert.action = proposals.greedy[expert.learner] if expert.greedy else proposals.actions[expert.learner]
    pairs.match(state.credit, e, reward, params.all_shared)
    pairs.teach(state.credit, e)
    pairs.close(params.evidence, state.credit, e, reward)


@kernel
def learner_of(params: Params, state: State, e: int) -> tuple[int, bool]:
    """The learner of an expert, and whether the expert is its twin."""
    return state.credit.experts[e].learner, state.credit.experts[e].greedy


def check_teaching(name: str, teaching: object) -> tuple[str, ...]:
    if isinstance(teaching, str) or not isinstance(teaching, Sequence) or not set(teaching) <= set(TEACHING):
        raise InvalidArgument(f"{name} is {teaching!r}, but must have one of {', '.join(TEACHING)} per learner")
    return tuple(teaching)


def check_twins(name: str, twins: object) -> tuple[int, ...]:
    if isinstance(twins, str) or not isinstance(twins, Sequence):
        raise InvalidArgument(f"{name} is {twins!r}, but must be a list of learners")
    chosen = tuple(count(name, i, least=0) for i in twins)
    if len(set(chosen)) < len(chosen):
        raise InvalidArgument(f"{name} is {twins!r}, but must have no learner twice")
    return tuple(sorted(chosen))


@configurable
class CounterfactualBalancing(LearnerCount, Seeded, ConfidenceSettings, EvidenceSelector[Params, State]):
    """Credits a reward to all experts that proposed its action; experts are learners and their greedy twins.

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
    noise
        Sub-Gaussian factor of the reward noise, for rewards without known limits.
    radius
        Form of the confidence radius: "stitched", "paper" or "bernstein" (bounded rewards only).
    radius_scale
        Factor of the radius; below 1 no certificate is valid.
    seed
        Seed of the selector's random numbers, used if `choose` gets no generator.
    teaching
        For each learner, from which rounds it learns: "all", "agreed" (its own, and those in which the action is the
        one it proposed) or "own". By default all have "own"; see `for_learners`.
    twins
        The learners whose greedy action is a second expert; by default all.
    floor
        Regret per square root of plays (rho) below which experts count as equal, in units of reward variation.
    slack
        How many times the smallest realized regret an expert may have and still be drawn (kappa), at least 1.
    optimism
        Width of the bonus of learners that do not learn from all rounds, in standard deviations of the rewards.
    """

    name = "Counterfactual balancing"
    needs = frozenset({"actions"})
    separate_lower = True
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit, close_round=close_round, learner_of=learner_of)

    teaching: Sequence[str] | None = setting(default=None, check=optional(check_teaching))
    twins: Sequence[int] | None = setting(default=None, check=optional(check_twins))
    floor: float = setting(default=0.25, check=positive)
    slack: float = setting(default=32.0, check=check_slack)
    optimism: float = setting(default=3.0, check=positive)

    per_learner = ("teaching",)

    def _set_up(self) -> None:
        n, teaching = self.n_learners, self.teaching
        if teaching is not None and len(teaching) != n:
            raise InvalidArgument(f"teaching has {len(teaching)} entries, but n_learners is {n}")
        twins = range(n) if self.twins is None else self.twins
        if any(i >= n for i in twins):
            raise InvalidArgument(f"twins is {self.twins!r}, but must have learners from 0 to {n - 1}")
        codes = [TEACHING[word] for word in teaching or ("own",) * n]
        self.experts = (*((i, False) for i in range(n)), *((i, True) for i in twins))
        self._expert_of = {expert: e for e, expert in enumerate(self.experts)}
        self._same_learner = [[k for k, (j, _) in enumerate(self.experts) if j == i] for i, _ in self.experts]
        self._rows = [Expert(i, greedy, codes[i]) for i, greedy in self.experts]
        super()._set_up()

    @property
    def n_accounts(self) -> int:
        """Number of experts, each of which has an account of its own plays."""
        return len(self.experts)

    def _make_params(self, limits: evidence.Params) -> Params:
        guard = MIN_UNIT[2], TOLERANCE, MARGIN, HEAD_START
        shared = all(row.teaching == ALL for row in self._rows)
        return Params(limits, self.floor, self.slack, self.optimism, 2, *guard, shared)

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [Trend() for _ in self._rows], pairs.open_state(self._rows))

    @classmethod
    def for_learners(cls, learners: Sequence[Any], *, share_data: bool = False, **settings: Any) -> Self:
        """Make the selector for these learners.

        With `share_data`, learners that accept "off_policy" learn from all rounds. Others learn from the rounds in which
        the action is the one they proposed, if they accept "agreed" and, if they ignore contexts, `contexts` is "fixed".
        Learners that provide "greedy" and learn have a twin.
        """
        teaching = [_teaching(learner, share_data, settings.get("contexts", "random")) for learner in learners]
        twins = [i for i, learner in enumerate(learners) if "greedy" in provides(learner) and _can_learn(learner)]
        selector = cls(len(learners), teaching=teaching, twins=twins, **settings)
        check_compatible(selector, learners)
        return selector

    def check_learners(self, learners: Sequence[Any]) -> None:
        """Raise an error if a learner cannot learn, or play, as the settings say."""
        words = self.teaching or ("own",) * self.n_learners
        needed = {"all": "off_policy", "agreed": "agreed"}
        for i, (learner, word) in enumerate(zip(learners, words, strict=True)):
            if word in needed and needed[word] not in accepts(learner) and "off_policy" not in accepts(learner):
                raise IncompatibleLearner(
                    f"teaching of {part_name(learner)!r} is {word!r}, but it does not accept {needed[word]!r}"
                )
            if word == "agreed" and self.contexts != "fixed" and getattr(learner, "ignores_contexts", False):
                raise IncompatibleLearner(
                    f"teaching of {part_name(learner)!r} is 'agreed', but it ignores contexts, so that contexts must be "
                    "'fixed': where others see them, the rounds that it agrees with are no fair sample"
                )
            if (i, True) in self._expert_of and "greedy" not in provides(learner):
                raise IncompatibleLearner(f"twins has learner {i}, but {part_name(learner)!r} provides no 'greedy'")

    @property
    def probabilities(self) -> dict[tuple[int, bool], float]:
        """The probability of each expert, a learner or (with True) its greedy twin, in the next round."""
        drawn = dict(zip(self.experts, self._odds(), strict=True))
        self._clear()
        return drawn

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """Draw the expert of this round and open a play of its learner."""
        if rng is None:
            rng = self._own_generator(self._draws)
        e, chance = self.kernels.choose(self.params, self.kernel_state, rng)
        return self._open(e, chance, tuple(row.probability for row in self._rows))

    def replay(self, choice: Choice) -> None:
        """Open exactly this play, as if it had just been drawn, without random numbers."""
        e, odds = self._expert(choice), self._odds()
        due = Choice(choice.learner, self._ledger.next_ticket(e), odds[e], greedy=choice.greedy)
        if choice != due or not odds[e] > 0.0:
            self._clear()
            raise InvalidArgument(f"choice is {choice}, but must be {due}, with a positive probability")
        self._open(e, odds[e], odds)

    def propensity(self, choice: Choice) -> float:
        """The probability, given context and proposals, with which the action of an open play was played."""
        entry = self._seen(choice)
        self._load(entry)
        total = pairs.propensity(self.kernel_state.credit, entry.learner)
        self._clear()
        return total

    def taught_by(self, choice: Choice) -> tuple[int, ...]:
        """The learners that learn from an open play."""
        entry = self._seen(choice)
        self._load(entry)
        rows = self._rows
        drawn = rows[entry.learner]
        taught = tuple(i for i in range(self.n_learners) if pairs.learns(rows[i], drawn, rows[i].action))
        self._clear()
        return taught

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats; raises what `credit` would raise and changes nothing."""
        checked = super().check_credit(self._inner(choice), reward, regret)
        self._seen(choice)
        return checked

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Record the proposals of all learners; a learner with a twin must have a greedy action."""
        super().observe(self._inner(choice), proposals)

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[Elimination, ...]:
        """Credit the reward of a play, in any order and however late."""
        number, known = self.check_credit(choice, reward, regret)
        entry = self._seen(choice)
        self._load(entry)
        # Who is drawn next may depend on all rewards that have arrived; accounts and certificates wait for earlier ones.
        pairs.match(self.kernel_state.credit, entry.learner, number, self.params.all_shared)
        pairs.teach(self.kernel_state.credit, entry.learner)
        self._clear()
        return self._credit_resolved(entry.learner, self._ledger.credit(entry.learner, choice.play, number, known))

    def withdraw(self, choice: Choice) -> tuple[Elimination, ...]:
        """Remove an open play, as if its round had not happened."""
        e, eliminations = self._expert(choice), super().withdraw(self._inner(choice))
        self._ledger.share_tickets(e, self._same_learner[e])
        return eliminations

    def standing(self) -> list[Standing]:
        """The standing of each learner, with the plays of its twin."""
        rows = super().standing()
        for (i, greedy), account in zip(self.experts, self.evidence.accounts, strict=True):
            if greedy and account.plays > 0:
                rows[i] = self._joined(rows[i], account)
        return rows[: self.n_learners]

    def certificate(self) -> Certificate:
        """What the rewards so far prove about the optimum and the regret."""
        certificate = super().certificate()
        lowers = [0.0] * self.n_learners
        for (i, _), lower in zip(self.experts, certificate.learner_regret_lowers, strict=True):
            lowers[i] += lower
        return replace(certificate, learner_regret_lowers=tuple(lowers))

    def from_arrays(self, state: State) -> None:
        """Load a state from compiled code."""
        super().from_arrays(state)
        self._clear()

    def _joined(self, row: Standing, account: Account) -> Standing:
        """The row of a learner with the plays of its twin; both lower means are below the optimum."""
        own, n = row.plays - row.pending, account.booked_plays
        plays, resolved = row.plays + account.plays, own + n
        if n == 0 or own == 0:
            radius = nan if n == 0 else radius_sum(self.confidence.radius, n) / n
            means = (account.rewards / n, radius, account.booked_bound / n) if n else row[3:6]
            ends = (account.mean_lower, account.mean_upper) if n else row[6:8]
            return row._replace(
                plays=plays,
                pending=plays - resolved,
                **dict(zip(MEANS, (*means, *ends) if n else row[3:8], strict=True)),
            )
        share = n / resolved
        mean_radius = (1 - share) * row.mean_radius + share * radius_sum(self.confidence.radius, n) / n
        return row._replace(
            plays=plays,
            pending=plays - resolved,
            mean_reward=(1 - share) * row.mean_reward + share * account.rewards / n,
            mean_radius=mean_radius,
            mean_bound=(1 - share) * row.mean_bound + share * account.booked_bound / n,
            mean_lower=max(row.mean_lower, account.mean_lower),
            mean_upper=min(row.mean_upper, account.mean_upper),
        )

    def _open(self, e: int, chance: float, odds: tuple[float, ...]) -> Choice:
        learner, greedy = self.experts[e]
        choice = Choice(learner, self._begin(e, chance), chance, greedy=greedy)
        blank = blank_proposals(self.n_accounts)
        self._ledger.share_tickets(e, self._same_learner[e])
        entry = self._ledger.entry(e, choice.play)
        entry.proposals = blank._replace(actions=(UNSEEN,) * self.n_accounts, probabilities=odds)
        self._clear()
        return choice

    def _odds(self) -> tuple[float, ...]:
        """The probabilities of the next round; leaves them in the rows."""
        forced = only_expert(self.params, self.kernel_state)
        if forced >= 0:
            return tuple(float(e == forced) for e in range(self.n_accounts))
        return tuple(row.probability for row in self._rows)

    def _expert(self, choice: Choice) -> int:
        e = self._expert_of.get((choice.learner, bool(choice.greedy)))
        if e is None:
            raise UnknownDecision(f"learner is {choice.learner!r} with greedy {choice.greedy!r}, but there is no such expert")
        return e

    def _inner(self, choice: Choice) -> Choice:
        """The choice with its expert in place of the learner, as the ledger knows it."""
        return choice._replace(learner=self._expert(choice))

    def _seen(self, choice: Choice) -> Entry:
        """The entry of an open play whose proposals are known."""
        entry = self._ledger.entry(self._expert(choice), choice.play)
        if entry.proposals is None or entry.proposals.actions[0] == UNSEEN:
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return entry

    def _gather(self, entry: Entry, proposals: Mapping[int, Proposal]) -> Proposals:
        actions: list[Action] = []
        for i, greedy in self.experts:
            if i not in proposals:
                raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {i} too")
            action = proposals[i].greedy if greedy else proposals[i].action
            if greedy and action is None:
                raise InvalidArgument(f"greedy of learner {i} is None, but it has a twin and must have a greedy action")
            actions.append(action)
        assert entry.proposals is not None
        return entry.proposals._replace(actions=indices(actions))

    def _load(self, entry: Entry) -> None:
        """Write the probabilities and actions of a round into the rows."""
        assert entry.proposals is not None
        for row, action, chance in zip(
            self._rows, entry.proposals.actions, entry.proposals.probabilities, strict=True
        ):
            row.action, row.probability = action, chance

    def _clear(self) -> None:
        for row in self._rows:
            row.action, row.probability = -1, 0.0

    def _close_round(self, entry: Entry) -> None:
        self._load(entry)
        pairs.close(self.params.evidence, self.kernel_state.credit, entry.learner, entry.reward)
        self._clear()


MEANS = ("mean_reward", "mean_radius", "mean_bound", "mean_lower", "mean_upper")


def _teaching(learner: object, share_data: bool, contexts: str) -> str:
    accepted = accepts(learner)
    if "off_policy" in accepted and (share_data or not _can_learn(learner)):
        return "all"
    fair = contexts == "fixed" or not getattr(learner, "ignores_contexts", False)
    return "agreed" if "agreed" in accepted and fair else "own"


def _can_learn(learner: object) -> bool:
    """Whether the proposals of a learner change: those of a fixed rule do not, and a twin would be the same expert."""
    return bool(getattr(learner, "learns", True))


def indices(actions: Sequence[Action]) -> tuple[int, ...]:
    """For each action the position of the first one that is equal to it.

    >>> indices([3, 1, 3]), indices([np.array([1.0, 0.0]), np.array([1.0, 0.0])])
    ((0, 1, 0), (0, 0))
    """
    if all(type(action) is int for action in actions):
        return tuple(actions.index(action) for action in actions)
    return tuple(next(k for k, other in enumerate(actions) if equal_data(action, other)) for action in actions)
