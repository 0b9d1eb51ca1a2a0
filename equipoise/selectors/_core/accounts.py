"""The accounts of selectors: one for each learner, or one for each expert, which are drawn with known probabilities.

An expert is a learner or, as a second expert of a learner, its greedy action: the action that the learner estimates to
be best. Each expert has an account of its own plays. A play is numbered among all plays of its learner, and its entry
in the ledger keeps the probabilities of the round and, once they are observed, which experts proposed the same action.
The rows of the experts hold those of the round that a kernel has worked on last: they are loaded from the entry when a
kernel needs them, and are not part of what is saved. The learning mode of a learner says from which rounds it learns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import nan
from typing import NamedTuple

import numpy as np

from equipoise.errors import IncompatibleLearner, InvalidArgument, UnknownDecision
from equipoise.learner import Proposal, Proposals, accepts, capabilities, part_name
from equipoise.selector import TOLERANCE, Choice, check_odds, differ
from equipoise.selectors._core import pairs
from equipoise.selectors._core.ledger import Accounts, Substitutes, check_regret
from equipoise.selectors._core.pairs import AGREED, ALL, OWN, SILENT, Expert
from equipoise.selectors._core.plays import Details, Entry
from equipoise.settings import equal_data
from equipoise.settings.checks import LARGEST, count, real
from equipoise.types import Action, State

LEARNING = {"all": ALL, "agreed": AGREED, "own": OWN, "silent": SILENT}
ACTION, GREEDY = Proposal._fields.index("action"), Proposal._fields.index("greedy")
ABSENT = object()  # the action of an expert without a proposal
UNKNOWN = Proposal(-1, nan, nan, nan, -1, nan)
NO_ACTION = -1  # of an expert without a proposal, or before the proposals are known


class LearnerAccounts(Accounts):
    """One account for each learner, with the learner's index."""

    mode_fields: tuple[str, ...] = ()

    def __init__(self, n_learners: int, needs: frozenset[str]) -> None:
        self.n_learners = n_learners
        self._needs_lower = "lower" in needs
        blank = blank_proposals(n_learners)
        self.details = Details("proposals", blank, "qqdddd", blank._fields) if "actions" in needs else None

    @property
    def size(self) -> int:
        return self.n_learners

    def of(self, learner: int) -> tuple[int, ...]:
        return (learner,)

    def learner_of(self, account: int) -> int:
        return account

    def choose(self, rng: np.random.Generator | None) -> Choice:
        rounds = self._rounds
        learner, chance = rounds.kernels.choose(rounds.radii.params, rounds.state, rng)
        return Choice(learner, rounds.open(learner, chance), chance)

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        self._rounds.open(choice.learner, choice.probability)
        return False

    def entry(self, choice: Choice) -> Entry:
        return self._rounds.ledger.entry(choice.learner, choice.play, choice.learner)

    def seen(self, choice: Choice) -> Entry:
        entry = self._rounds.ledger.entry(choice.learner, choice.play, choice.learner)
        if self.details is not None and entry.details is None and not entry.left_out:
            raise unseen(choice)
        return entry

    def gather(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> Proposals:
        rounds, drawable = self._rounds, entry.drawable
        asked = rounds.active if rounds.in_epoch(entry) else (entry.account,)
        if drawable is not None:
            asked = tuple([i for i in asked if i in drawable])
        return gather(proposals, asked, self.n_learners, self._needs_lower)

    def arrive(self, entry: Entry, reward: float) -> None:
        rounds = self._rounds
        rounds.kernels.arrive(rounds.radii.params, rounds.state, entry.account, reward, entry.probability)

    def close_round(self, entry: Entry) -> None:
        rounds, account = self._rounds, entry.account
        rounds.kernels.close_round(
            rounds.radii.params, rounds.state, account, entry.reward, entry.regret, entry.details
        )

    def n_accounts_of(self, mode: None) -> int:
        return 1

    def add(self, mode: None) -> Proposals:
        self.n_learners += 1
        return blank_proposals(1)


def unseen(choice: Choice) -> InvalidArgument:
    """Return the error of a play that is credited before its proposals are observed."""
    play = f"play {choice.play} of learner {choice.learner}"
    return InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")


def gather(proposals: Mapping[int, Proposal], asked: Sequence[int], n_learners: int, lower: bool) -> Proposals:
    """Return the proposals of the learners that were asked; `lower` tells whether lower bounds are needed."""
    missing = [j for j in asked if j not in proposals]
    if missing:
        raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {missing[0]} too")
    rows = [UNKNOWN] * n_learners
    for j in asked:
        action, lower_bound, regret, probability, greedy, value, _ = proposals[j]
        if lower:
            lower_bound = real(f"lower of learner {j}", lower_bound)
        rows[j] = Proposal(_index(action), lower_bound, check_regret(regret), probability, _index(greedy), value)
    actions, lowers, regrets, probabilities, all_greedy, values, _ = zip(*rows, strict=True)
    return Proposals(actions, all_greedy, lowers, regrets, probabilities, values)


def blank_proposals(n_learners: int) -> Proposals:
    """Return the proposals of a round in which no learner was asked."""
    none, unknown = (-1,) * n_learners, (nan,) * n_learners
    return Proposals(none, none, unknown, unknown, unknown, unknown)


def _index(action: Action) -> int:
    return int(action) if isinstance(action, int | np.integer) else -1


class LearningMode(NamedTuple):
    """How a learner that is added later plays and learns."""

    learning: int  # ALL, AGREED or OWN
    greedy: bool  # whether its greedy action is a second expert
    n_pairs: int  # ordered pairs of experts that it adds


class ExpertRound(NamedTuple):
    """What is kept of a round: in `values` and `learns` one entry for each learner, else one for each expert."""

    asked: tuple[bool, ...]  # whether the expert could be drawn
    odds: tuple[float, ...]  # the probability with which it was drawn
    actions: tuple[int, ...]  # an index that is equal for equal actions; NO_ACTION if there is none
    values: tuple[float, ...]  # the rewards that learners predicted for their own proposals; nan if unknown
    learns: tuple[bool, ...]  # whether the learner learns from the round, until its reward comes


class DrawRule(NamedTuple):
    """The kernels of a selector of experts that are not in `Kernels`. Their first arguments are params and state."""

    only_expert: Callable[..., int]  # the expert that must be drawn; if there is none, -1, and the rows have the odds
    arrive: Callable[..., None]  # (e, reward, values): add a round to what the next draw depends on, but for updates


class Experts(Accounts):
    """One account for each expert. `state.credit` has the rows of the experts and the tables of their pairs."""

    mode_fields: tuple[str, ...] = LearningMode._fields

    def __init__(self, rows: list[Expert], rule: DrawRule, removed: Collection[int]) -> None:
        self.rows, self._rule, self._removed = rows, rule, removed
        self._index()
        blank = blank_round(len(rows), self.n_learners)
        self.details: Details | None = Details("experts", blank, "?dhd?", ("odds", "actions"))

    def _index(self) -> None:
        self.experts = experts = tuple((row.learner, row.greedy) for row in self.rows)
        self._expert_of = {expert: e for e, expert in enumerate(experts)}
        self._same_learner = [[k for k, (j, _) in enumerate(experts) if j == i] for i, _ in experts]
        self._own = [e for e, (_, greedy) in enumerate(experts) if not greedy]  # row of each learner
        self.n_learners = len(self._own)
        self._learners = tuple(range(self.n_learners))
        self._learner_set = frozenset(self._learners)
        self._proposed = [(i, GREEDY if greedy else ACTION) for i, greedy in experts]
        self._any_agreed = any(row.learning == AGREED for row in self.rows)
        self.all_shared = all(row.learning == ALL for row in self.rows)
        words = {code: word for word, code in LEARNING.items()}
        self.modes = tuple([words[self.rows[e].learning] for e in self._own])
        self._silent = frozenset(i for i in self._learners if self.modes[i] == "silent")
        blank = blank_round(len(self.rows), self.n_learners)
        self._no_actions, self._no_values, self._no_updates = blank.actions, blank.values, blank.learns
        self._all_updates = (True,) * self.n_learners

    @property
    def size(self) -> int:
        return len(self.rows)

    def of(self, learner: int) -> list[int]:
        return self._same_learner[self._own[learner]]

    def learner_of(self, account: int) -> int:
        return self.experts[account][0]

    def index_of(self, expert: tuple[int, bool]) -> int:
        """Return the account of an expert, given by its learner and whether it is greedy."""
        if expert not in self._expert_of:
            raise InvalidArgument(f"expert is {expert!r}, but must be one of {', '.join(map(str, self.experts))}")
        return self._expert_of[expert]

    def odds(self) -> tuple[float, ...]:
        """Return the probabilities of the next round; may leave them in the rows."""
        rounds = self._rounds
        forced = self._rule.only_expert(rounds.radii.params, rounds.state)
        if forced >= 0:
            return tuple(float(e == forced) for e in range(len(self.rows)))
        return tuple([row.probability for row in self.rows])

    def chances(self) -> tuple[float, ...]:
        """Return the probability of each learner in the next round, however it plays."""
        odds = self.odds()
        return tuple(self._learner_chance(e, odds) for e in self._own)

    def _learner_chance(self, e: int, odds: tuple[float, ...]) -> float:
        return sum([odds[k] for k in self._same_learner[e]])

    def choose(self, rng: np.random.Generator | None) -> Choice:
        rounds = self._rounds
        e, chance = rounds.kernels.choose(rounds.radii.params, rounds.state, rng)
        return self._open(e, chance, tuple([row.probability for row in self.rows]))

    def replay(self, choice: Choice, available: Collection[int] | None, odds: Sequence[float] | None) -> bool:
        e, rounds = self._expert(choice), self._rounds
        logged = None if odds is None else self._check_odds(e, choice, odds)
        masked = () if available is None else rounds.mask_unavailable(available)
        try:
            if not rounds.evidence.accounts[e].active:
                raise InvalidArgument(f"choice is {choice}, but that learner was removed or is not available")
            present = self.odds()
            if logged is not None:
                self._open(e, logged[e], logged)
                return differ(logged, present)
            if present[e] > 0.0:
                self._open(e, present[e], present)
                return differ((choice.probability,), (self._learner_chance(e, present),))
            # A log without odds, of a play that the rule would not make now. As a certain play it compares no experts.
            self._open(e, 1.0, tuple([float(k == e) for k in range(len(self.rows))]))
            return True
        finally:
            rounds.unmask(masked)

    def _check_odds(self, e: int, choice: Choice, odds: Sequence[float]) -> tuple[float, ...]:
        """Return logged odds; raise an error if the choice cannot have been drawn with them."""
        logged = check_odds(odds, len(self.rows))
        if not logged[e] > 0.0 or differ((choice.probability,), (self._learner_chance(e, logged),)):
            raise InvalidArgument(f"choice is {choice}, but that play has probability {logged[e]} in odds")
        return logged

    def _open(self, e: int, chance: float, odds: tuple[float, ...]) -> Choice:
        rounds = self._rounds
        learner, greedy = self.experts[e]
        play, ledger = rounds.open(e, chance), rounds.ledger
        ledger.share_tickets(e, self._same_learner[e])
        asked = tuple([account.active for account in rounds.evidence.accounts])
        if self._silent:
            drawn = zip(asked, self.rows, strict=True)
            asked = tuple([active and (row.learning != SILENT or row.learner == learner) for active, row in drawn])
        nothing = self._no_actions, self._no_values, self._no_updates
        ledger.entry(e, play, learner).details = ExpertRound(asked, odds, *nothing)
        return Choice(learner, play, self._learner_chance(e, odds), greedy=greedy)

    def _expert(self, choice: Choice) -> int:
        e = self._expert_of.get((choice.learner, bool(choice.greedy)))
        if e is None:
            raise UnknownDecision(f"no expert has learner {choice.learner!r} with greedy {choice.greedy!r}")
        return e

    def entry(self, choice: Choice) -> Entry:
        return self._rounds.ledger.entry(self._expert(choice), choice.play, choice.learner)

    def seen(self, choice: Choice) -> Entry:
        entry = self._rounds.ledger.entry(self._expert(choice), choice.play, choice.learner)
        if entry.details.actions[entry.account] == NO_ACTION:
            raise unseen(choice)
        return entry

    def propensity(self, choice: Choice) -> float:
        """Return the probability, given context and proposals, of the action of an open play."""
        entry, total = self.seen(choice), 0.0
        odds, actions = entry.details.odds, entry.details.actions
        played = actions[entry.account]
        for e, action in enumerate(actions):
            if action == played:
                total += odds[e]
        return total if total < 1.0 else 1.0  # rounding may leave more

    def learners_updated_by(self, choice: Choice | None) -> tuple[int, ...]:
        """Return the learners that learn from an open play; with None, those that learn from every round."""
        removed = self._removed
        if self.all_shared and not removed:
            return self._learners
        if choice is None:
            learns = [self.rows[e].learning == ALL for e in self._own]
        else:
            learns = self.seen(choice).details.learns
        return tuple([i for i in self._learners if learns[i] and i not in removed])

    def _updates(self, account: int, actions: Sequence[int], substitutes: Substitutes) -> tuple[bool, ...]:
        """Return for each learner whether it learns from a round drawn for this account.

        A learner that could not act has no proposal of its own: it learns only what others share. Its substitute learns
        as from a round drawn for itself.
        """
        if self.all_shared:
            return self._all_updates
        rows, drawn, played = self.rows, self.rows[account], actions[account]
        learns = [pairs.learns(rows[e], drawn, actions[e], played) for e in self._own]
        for i in substitutes:
            learns[i] = rows[self._own[i]].learning == ALL
        acting = substitutes.get(drawn.learner)
        if acting is not None:
            learns[acting] = True
        return tuple(learns)

    def gather(self, entry: Entry, proposals: Mapping[int, Proposal], substitutes: Substitutes) -> ExpertRound:
        asked, odds = entry.details.asked, entry.details.odds
        if self._silent:  # they may have been asked all the same
            drawn = self.experts[entry.account][0]
            proposals = {i: each for i, each in proposals.items() if i == drawn or i not in self._silent}
        if not self._learner_set <= proposals.keys():
            self._check_absent(self.experts[entry.account][0], asked, proposals)
        actions = [proposals[i][field] if i in proposals else ABSENT for i, field in self._proposed]
        if all([type(action) is int for action in actions]):
            positions = tuple([actions.index(action) for action in actions])
        else:
            self._check_actions(actions)
            positions = positions_of(actions)
        values = [check_value(i, proposals[i].value) if i in proposals else nan for i in self._learners]
        return ExpertRound(asked, odds, positions, tuple(values), self._updates(entry.account, positions, substitutes))

    def _check_absent(self, player: int, asked: Sequence[bool], proposals: Collection[int]) -> None:
        for (i, _), was_asked in zip(self.experts, asked, strict=True):
            may_be_absent = i != player and (not was_asked or i in self._removed)
            if i not in proposals and not may_be_absent:
                raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {i} too")

    def _check_actions(self, actions: Sequence[Action]) -> None:
        for (i, greedy), action in zip(self.experts, actions, strict=True):
            if greedy and action is None:
                raise InvalidArgument(
                    f"greedy of learner {i} is None, but it is a greedy expert and must have a greedy action"
                )
            if self._any_agreed and isinstance(action, float | np.floating | np.ndarray):
                raise InvalidArgument(
                    f"{'greedy' if greedy else 'action'} of learner {i} is {action!r:.60}, but learning has 'agreed': "
                    "in a continuous set no two learners propose the same action"
                )

    def arrive(self, entry: Entry, reward: float) -> None:
        # The next draw can depend on all rewards so far; accounts and certificates wait for earlier ones.
        rounds, e = self._rounds, entry.account
        params, state = rounds.radii.params, rounds.state
        self._enter(entry)
        certifying = rounds.ledger.is_first(entry) and not entry.left_out and rounds.in_epoch(entry)
        entry.certified = certifying  # with the tables for choosing, in one pass
        pairs.add_round(params.evidence, state.credit, e, reward, True, certifying)
        self._rule.arrive(params, state, e, reward, entry.details.values)
        learns = entry.details.learns
        for row in self.rows:
            row.updates += learns[row.learner]
        if not certifying:  # the round waits, and its updates are counted
            entry.details = entry.details._replace(learns=self._no_updates)
        rounds.kernels.arrive(params, state, e, reward, entry.probability)

    def close_round(self, entry: Entry) -> None:
        if not entry.certified:
            self._enter(entry)
            limits, tables = self._rounds.radii.params.evidence, self._rounds.state.credit
            pairs.add_round(limits, tables, entry.account, entry.reward, choosing=False, certifying=True)

    def _enter(self, entry: Entry) -> None:
        """Write the probabilities and actions of a round into the rows."""
        details = entry.details
        for row, action, chance in zip(self.rows, details.actions, details.odds, strict=True):
            row.action, row.probability = action, chance

    def n_accounts_of(self, mode: LearningMode) -> int:
        return 2 if mode.greedy else 1

    def add(self, mode: LearningMode) -> ExpertRound:
        i, known = self.n_learners, len(self.rows)
        learning, n_new = mode.learning, self.n_accounts_of(mode)
        self.rows += [Expert(i, k > 0, learning, known, bool(mode.greedy) and k == 0) for k in range(n_new)]
        self._index()
        pairs.add_pairs(self._rounds.state.credit, known)
        return blank_round(n_new, 1)

    def mode(self, learning: int, greedy: bool) -> LearningMode:
        """Return the mode of a learner that joins now.

        Its pairs with experts of a learner that was removed do not count: they are never drawn in the same round.
        """
        known, added = sum(i not in self._removed for i, _ in self.experts), 2 if greedy else 1
        return LearningMode(learning, greedy, added * (2 * known + added - 1))

    def mode_of(self, row: Sequence[int]) -> LearningMode:
        learning, greedy, n_pairs = row
        return LearningMode(learning, bool(greedy), n_pairs)

    def check_saved(self, ledger: State) -> None:
        for row in ledger["experts.odds"].tolist():
            if abs(sum(row) - 1.0) > TOLERANCE:
                raise InvalidArgument(f"state ledger.experts.odds has a row {row}, but it must sum to 1")

    def clear(self) -> None:
        for row in self.rows:
            row.action, row.probability = NO_ACTION, 0.0


def blank_round(n_experts: int, n_learners: int) -> ExpertRound:
    """Return a round in which no expert was asked."""
    experts = (False,) * n_experts, (0.0,) * n_experts, (NO_ACTION,) * n_experts
    return ExpertRound(*experts, (nan,) * n_learners, (False,) * n_learners)


def check_value(i: int, value: float) -> float:
    if type(value) is float and -LARGEST <= value <= LARGEST:  # fast path; formatting the message is slow
        return value
    # nan, which means unknown, is the only value that differs from itself.
    return nan if value != value else real(f"value of learner {i}", value)


def positions_of(actions: Sequence[Action]) -> tuple[int, ...]:
    """Return for each action the position of the first one that is equal to it; NO_ACTION if there is no action.

    >>> positions_of([3, 1, 3]), positions_of([np.array([1.0, 0.0]), np.array([1.0, 0.0])])
    ((0, 1, 0), (0, 0))
    """
    return tuple(
        NO_ACTION if action is ABSENT else next(k for k, other in enumerate(actions) if equal_data(action, other))
        for action in actions
    )


def check_learning(name: str, learning: object) -> tuple[str, ...]:
    """Check that there is a learning mode for each learner."""
    words = tuple(LEARNING)  # an entry may be of any kind, so that it need not have a hash
    if isinstance(learning, str) or not isinstance(learning, Sequence) or not all(each in words for each in learning):
        raise InvalidArgument(f"{name} is {learning!r}, but must have one of {', '.join(LEARNING)} per learner")
    return tuple(learning)


def check_greedy(name: str, greedy: object) -> tuple[int, ...]:
    """Check that these are different learners."""
    if isinstance(greedy, str) or not isinstance(greedy, Sequence):
        raise InvalidArgument(f"{name} is {greedy!r}, but must be a list of learners")
    chosen = tuple(count(name, i, minimum=0) for i in greedy)
    if len(set(chosen)) < len(chosen):
        raise InvalidArgument(f"{name} is {greedy!r}, but must have no learner twice")
    return tuple(sorted(chosen))


def check_mode(learner: object, learning: str, contexts: str) -> None:
    """Raise an error if a learner cannot learn from these rounds."""
    if (learning == "silent") is not capabilities(learner).silent:
        raise IncompatibleLearner(
            f"learning of {part_name(learner)!r} is {learning!r}, but must be 'silent' if and only if it is silent"
        )
    needed = {"all": "off_policy", "agreed": "agreed"}
    if learning in needed and needed[learning] not in accepts(learner) and "off_policy" not in accepts(learner):
        raise IncompatibleLearner(
            f"learning of {part_name(learner)!r} is {learning!r}, but it does not accept {needed[learning]!r}"
        )
    if learning == "agreed" and contexts != "fixed" and capabilities(learner).ignores_contexts:
        raise IncompatibleLearner(
            f"learning of {part_name(learner)!r} is 'agreed', but it ignores contexts, so contexts must be "
            "'fixed': where others see them, the rounds that it agrees with are not a fair sample"
        )
