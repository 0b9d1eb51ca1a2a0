"""The rounds of a portfolio, from decision to reward: what `Portfolio` and the fold over events have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from math import isnan, nan
from threading import RLock
from time import time as clock
from typing import Any

import numpy as np

from equipoise.certificates import AnyElimination
from equipoise.compatibility import check_sharing
from equipoise.errors import DuplicateReward, InvalidArgument, NoLearnerAvailable, UnknownDecision, UnknownName
from equipoise.kernels.streams import open_stream, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, can_be_restored, unique_names
from equipoise.portfolio import folding, health, propensities
from equipoise.portfolio.choosing import Chooser, Nobody, Turn
from equipoise.portfolio.claims import claim
from equipoise.portfolio.counts import Counts
from equipoise.portfolio.deadlines import check_deadline, check_window
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.events import Event, Listeners, logger
from equipoise.portfolio.ids import ID, CallerIds, OwnIds
from equipoise.portfolio.members import Member, describe_error
from equipoise.portfolio.proposals import n_offers
from equipoise.portfolio.rewards import AGGREGATES, combine
from equipoise.portfolio.snapshots import SavedPolicies
from equipoise.portfolio.teaching import Failures, Lesson, Teaching
from equipoise.portfolio.tickets import Ticket, copy_if_mutable
from equipoise.selector import Selector, check_credit, traits_of
from equipoise.settings.checks import boolean, count, fraction, one_of
from equipoise.storage.parts import Savable
from equipoise.types import Action, Config, Context, Outcome, Plain

FLOOR = 5 << 20  # lane of the random stream of the exploration floor
REPORTED_EVERY = 1024  # rounds between two looks at what is held up
DELAYS = ("any", "independent", "exogenous")
AVAILABILITIES = ("any", "independent")


class Rounds:
    """Decides rounds and settles their rewards. `Portfolio` validates what comes from outside."""

    deadline: int | float | None  # in rounds, or in seconds

    def _set_up(
        self,
        learners: Sequence[MinimalLearner | None],
        selector: Selector,
        *,
        seed: int,
        share_data: bool | None,
        deadline: int | timedelta | str | None,
        default_reward: float | None,
        aggregate: str,
        delays: str,
        window: int | None,
        fallback: Action | Callable[[Context], Action] | None,
        explore: float,
        availability: str,
    ) -> None:
        """The state before the first round; a learner that is None was removed."""
        self._selector, self._traits = selector, traits_of(selector)
        adapted = [None if learner is None else AdaptedLearner(learner) for learner in learners]
        names = unique_names(["" if learner is None else learner.name for learner in adapted])
        self._members = [Member(learner, name) for learner, name in zip(adapted, names, strict=True)]
        self.seed = count("seed", seed, least=0, most=2**64 - 1)
        self.share_data = False if share_data is None else boolean("share_data", share_data)
        self.deadline, self.default_reward = self._check_deadline(deadline, default_reward)
        self.aggregate = one_of("aggregate", aggregate, AGGREGATES)
        if aggregate != "first" and deadline is None:
            raise InvalidArgument(f"aggregate is {aggregate!r} without a deadline, but needs one to know the reward")
        self.delays, self.window = one_of("delays", delays, DELAYS), check_window(delays, window)
        self.fallback, self.explore = fallback, fraction("explore", explore)
        self.availability = one_of("availability", availability, AVAILABILITIES)
        in_order = self._traits.observed if self.delays == "any" else ()
        self._teaching = Teaching(self._members, weighted="weight" in selector.needs, in_order=in_order)
        present = [learner for learner in learners if learner is not None]
        if self.share_data and len(present) == len(learners):
            self._teaching.sharing = set(check_sharing(selector, present))
        self._policies, self._stream = SavedPolicies(), open_stream(self.seed)
        self._savable = isinstance(selector, Savable) and all(can_be_restored(learner) for learner in present)
        self._chooser = Chooser(selector, self._members, self._stream, self._policies)
        self._chooser.savable, self._chooser.independent = self._savable, self.availability == "independent"
        self._begin()
        self._lock = RLock()
        claim(selector, self)

    def _begin(self) -> None:
        self._ids, self._callers = OwnIds(), CallerIds()
        self._round = 0  # rounds decided, withdrawn ones included
        self._expired_round = 0  # the last round that expired
        self._counts = Counts()
        self._open: dict[ID, Ticket] = {}
        self._time = 0.0  # of the last call; never goes backwards
        self._listeners = Listeners()
        self._on_elimination: list[Callable[[Any], None]] = []
        self._reported: set[tuple[int, str]] = set()  # rounds that the log says hold up others

    # Deciding

    def _play(
        self, context: Context, round_: int, allowed: frozenset[int] | None, wants_propensity: bool
    ) -> tuple[Decision, Ticket, Turn | Nobody | None]:
        """Decide a round: the decision without its id, its ticket, and who was asked (None if no learner was)."""
        chooser = self._chooser
        chooser.wants_propensities = wants_propensity or chooser.asks_all or self.explore > 0.0
        n_actions = propensities.count_actions(context, self._members) if self.explore > 0.0 else 0
        if n_actions:
            action = self._draw_from_floor(round_, n_actions)
            if action is not None:
                return self._explore(context, round_, allowed, action, n_actions)
        turn = chooser.turn(context, round_, allowed, desperate=self.fallback is None)
        if isinstance(turn, Turn):
            return self._decision_of(context, round_, turn, n_actions)
        if self.fallback is None or not isinstance(turn.error, NoLearnerAvailable):
            raise turn.error
        return self._fall_back(context, round_, turn)

    def _decision_of(self, context: Context, round_: int, turn: Turn, n_actions: int) -> tuple[Decision, Ticket, Turn]:
        choice, proposal = turn.choice, turn.proposal
        i, action = choice.learner, proposal.greedy if choice.greedy else proposal.action
        action_probability = 1.0 if choice.greedy else proposal.probability
        chance = self._propensity(action, action_probability, context, round_, turn)
        if n_actions:
            chance = propensities.with_floor(chance, self.explore, n_actions)
        ticket = Ticket("", round_, choice, context, action if type(action) is int else copy_if_mutable(action))
        ticket.regret = nan if choice.greedy else proposal.regret
        ticket.action_probability, ticket.propensity = action_probability, chance
        if self._teaching.weighted:
            ticket.others = {j: other.action for j, other in turn.proposals.items() if j != i}
        elif self._teaching.agreeing:
            same = (j for j, other in turn.proposals.items() if j != i and np.array_equal(other.action, action))
            ticket.agreed = tuple(same)
        floor = 1.0 - self.explore
        decision = Decision(
            "", action, i, self._members[i].name, choice.probability * floor, action_probability, chance
        )
        return decision, ticket, turn

    def _propensity(
        self, action: Action, action_probability: float, context: Context, round_: int, turn: Turn
    ) -> float:
        own = getattr(self._selector, "propensity", None)
        if own is not None:
            known: float = own(turn.choice)
            return known
        if not self._traits.randomized:
            return action_probability  # no other learner could have been chosen
        if turn.probabilities is None:
            return nan
        return self._marginal(action, context, round_, turn.probabilities, turn)

    def _marginal(
        self, action: Action, context: Context, round_: int, probabilities: Sequence[float], turn: Turn | None
    ) -> float:
        proposals = {} if turn is None else turn.proposals
        n_actions = n_offers(context)
        return propensities.propensity(
            action,
            context,
            probabilities,
            self._members,
            proposals,
            lambda j: self._chooser.ask(j, context, round_, n_actions),
        )

    def _draw_from_floor(self, round_: int, n_actions: int) -> int | None:
        """An action drawn uniformly, with probability `explore`; else None."""
        seek(self._stream, FLOOR, round_)
        number = self._stream.generator.random()
        if number >= self.explore:
            return None
        return min(int(number / self.explore * n_actions), n_actions - 1)

    def _explore(
        self, context: Context, round_: int, allowed: frozenset[int] | None, action: int, n_actions: int
    ) -> tuple[Decision, Ticket, None]:
        probabilities = self._chooser.probabilities_in(round_, allowed)
        chance = nan if probabilities is None else self._marginal(action, context, round_, probabilities, None)
        ticket = Ticket("", round_, None, context, action)
        ticket.action_probability = 1.0 / n_actions
        ticket.propensity = propensities.with_floor(chance, self.explore, n_actions)
        decision = Decision("", action, None, None, self.explore, 1.0 / n_actions, ticket.propensity)
        return decision, ticket, None

    def _fall_back(self, context: Context, round_: int, nobody: Nobody) -> tuple[Decision, Ticket, Nobody]:
        try:
            action = self.fallback(context) if callable(self.fallback) else self.fallback
        except Exception as failure:
            message = f"{nobody.error}, and the fallback failed ({describe_error(failure)})"
            raise NoLearnerAvailable(message) from failure
        return Decision("", action, None, None, nan, nan, nan), Ticket("", round_, None, context, action), nobody

    def _open_ticket(self, ticket: Ticket) -> None:
        """Record a decided round."""
        self._round = ticket.round
        choice = ticket.choice
        if choice is None:
            self._count_unplayed(1)
        elif choice.keep is not None and not self._teaching.weighted:
            self._policies.keep(choice.learner, choice.keep, self._members[choice.learner].adapted)
        self._open[ticket.id] = ticket
        self._teaching.open(ticket)

    def _count_unplayed(self, rounds: int) -> None:
        """Count rounds that no learner played; the certificate of a selector that is told of them includes them."""
        self._counts.unplayed += rounds
        tick = getattr(self._selector, "tick", None)
        if tick is not None:
            self._finish((), tick(rounds))

    def _record(self, decision: Decision, ticket: Ticket, turn: Turn | Nobody | None, digest: str) -> None:
        """Record a decided round, announce it, and count who could decide."""
        self._open_ticket(ticket)
        self._counts.fallbacks += isinstance(turn, Nobody)
        if self._listeners.any:
            key = decision.id if digest else None
            self._emit("decided", folding.decided(decision, ticket, turn, digest), key=key)
        if turn is not None:
            self._count_answers(turn.proposals if isinstance(turn, Turn) else (), folding.failures_of(turn))
        if ticket.round % REPORTED_EVERY == 0:
            health.report_blocked(self)

    def _count_answers(self, asked: Iterable[int], failures: Sequence[tuple[int, str]]) -> None:
        """Count who could decide and who could not."""
        for i in asked:
            self._members[i].succeeded(deciding=True)
        for i, error in failures:
            self._count_failure(i, error, deciding=True)

    def _count_failure(self, i: int, error: str, *, deciding: bool) -> None:
        member = self._members[i]
        if member.failed(self._round, error, deciding=deciding):
            data = {"name": member.name, "until_round": member.paused_until, "error": error}
            self._emit("learner_suspended", data, derived=True)

    # Rewards

    def _admit(self, at: float | None) -> float:
        """The time of a call, which never goes backwards."""
        if at is None and (isinstance(self.deadline, float) or self._listeners.any):
            at = clock()
        if at is not None and at > self._time:
            self._time = at
        return self._time

    def _check_deadline(
        self, deadline: int | timedelta | str | None, default_reward: float | None
    ) -> tuple[int | float | None, float | None]:
        if (deadline is None) != (default_reward is None):
            given = f"deadline is {deadline!r} and default_reward is {default_reward!r}"
            raise InvalidArgument(f"{given}, but must be given together")
        if deadline is None or default_reward is None:
            return None, None
        return check_deadline(deadline), self._traits.check_reward(default_reward)

    def _is_overdue(self, ticket: Ticket) -> bool:
        if self.deadline is None:
            return False
        if isinstance(self.deadline, float):
            return ticket.time + self.deadline < self._time
        return ticket.round + self.deadline < self._round

    def _find(self, decision: Decision | ID) -> Ticket | None:
        """The open ticket of a decision; None if there is none. Raises an error if they do not match."""
        id_ = id_of(decision)
        ticket = self._open.get(id_)
        if ticket is not None and isinstance(decision, Decision):
            same = decision.learner == ticket.learner
            if not same or not (callable(decision.action) or np.array_equal(decision.action, ticket.action)):
                raise InvalidArgument(f"decision {id_} has another learner or action than the one that was made")
        return ticket

    def _ignore_late(self, id_: ID, reward: float) -> None:
        """Ignore a reward after the deadline; raises an error if there is another reason why it has no open ticket."""
        round_ = self._round_of(id_)
        if round_ is None or round_ > self._expired_round:
            raise self._closed(id_)
        self._traits.check_reward(reward)
        self._ignore(id_)

    def _ignore(self, id_: ID) -> None:
        self._counts.ignored += 1
        self._emit("ignored", {"id": id_, "reason": "the reward arrived after its deadline"})

    def _round_of(self, id_: ID) -> int | None:
        """The round of a decision of this portfolio, open or closed; None if it knows no such decision."""
        round_ = self._ids.round_of(id_)
        return self._callers.round_of(id_) if round_ is None else round_

    def _closed(self, id_: ID) -> UnknownDecision:
        """Why a decision has no open ticket."""
        if self._round_of(id_) is not None:
            return DuplicateReward(f"decision {id_} already has its reward, was withdrawn or is past its deadline")
        return UnknownDecision(f"decision {id_} was never made, or was made before this portfolio was saved")

    def _check_credit(self, ticket: Ticket, reward: float, regret: float | None) -> tuple[float, float]:
        """Reward and regret as floats, nan for an unknown regret; raises an error if they are invalid."""
        if ticket.choice is None:
            return self._traits.check_reward(reward), nan
        return check_credit(self._selector, ticket.choice, reward, regret)

    def _settle(
        self,
        ticket: Ticket,
        kind: str,
        reward: float,
        regret: float,
        outcome: Outcome,
        failures: Failures | None = None,
    ) -> None:
        """Teach the learners, credit the selector and close the decision; `failures` are those of a log."""
        ticket.reward, ticket.outcome = reward, outcome
        eliminations: Sequence[AnyElimination] = ()
        try:
            failed = self._teaching.teach(ticket, failures)
            if ticket.choice is not None:
                known = None if isnan(regret) else regret
                eliminations = self._selector.credit(ticket.choice, reward, known) or ()
        except BaseException:
            ticket.reward, ticket.outcome = nan, None
            raise
        self._close(ticket)
        if kind == "expired":
            self._expired_round = max(self._expired_round, ticket.round)
            self._counts.expired += 1
        if self._listeners.any:
            self._emit(kind, _settled(ticket, regret, failed))
        self._finish(failed, eliminations)

    def _add_reward(self, ticket: Ticket, key: str, reward: float, outcome: Outcome) -> None:
        """Add one of several rewards; the decision stays open until its deadline."""
        ticket.rewards[key] = reward
        if outcome is not None:
            ticket.outcome = outcome
        if self._listeners.any:
            self._emit("rewarded", {"id": ticket.id, "reward": reward, "outcome": outcome, "part": key}, key=key)

    def _expire(self, limit: int | None) -> int:
        """Settle overdue decisions, the oldest first."""
        expired = 0
        while self.deadline is not None and self._open and (limit is None or expired < limit):
            oldest = next(iter(self._open.values()))
            if not self._is_overdue(oldest):
                break
            self._expire_ticket(oldest)
            expired += 1
        return expired

    def _expire_ticket(self, ticket: Ticket, failures: Failures | None = None) -> None:
        limits = self._traits.reward_range if self._traits.noise is None else None
        assert self.default_reward is not None
        reward = combine(self.aggregate, ticket.rewards, self.default_reward, limits)
        checked = self._check_credit(ticket, reward, self._default_regret(ticket))
        self._settle(ticket, "expired", *checked, ticket.outcome, failures)

    def _default_regret(self, ticket: Ticket) -> float | None:
        """The regret of a round without an outcome, if unknown: the width of the reward range."""
        known = ticket.learner not in self._traits.observed or not isnan(ticket.regret)
        return None if known else self._width

    @property
    def _width(self) -> float:
        low, high = self._traits.reward_range or (0.0, 1.0)
        return high - low

    def _withdraw(self, ticket: Ticket, failures: Failures | None = None) -> None:
        """Take back a round; learners learn what waited for it."""
        eliminations: Sequence[AnyElimination] = ()
        if ticket.choice is None:
            self._count_unplayed(-1)
        else:
            eliminations = self._selector.withdraw(ticket.choice) or ()
        self._counts.withdrawn += 1
        self._close(ticket)
        failed = self._teaching.withdraw(ticket, failures)
        if self._listeners.any:
            self._emit("withdrawn", {"id": ticket.id, "failed": list(map(tuple, failed))})
        self._finish(failed, eliminations)

    def _retry(self, failures: Failures | None) -> int:
        succeeded, failed = self._teaching.retry(failures)
        if self._listeners.any:
            self._emit("lessons_retried", {"succeeded": succeeded, "failed": list(map(tuple, failed))})
        self._finish(failed, ())
        return succeeded

    def _close(self, ticket: Ticket) -> None:
        del self._open[ticket.id]
        self._callers.close(ticket.id)

    def _finish(self, failed: Sequence[Lesson], eliminations: Sequence[AnyElimination]) -> None:
        """What follows from a settled round: failures of learners, eliminated learners, announcements."""
        for lesson in failed:
            self._emit("lesson_failed", {"name": self._members[lesson.learner].name, **lesson._asdict()}, derived=True)
            self._count_failure(lesson.learner, lesson.error, deciding=False)
        for elimination in eliminations:
            self._teaching.retire(elimination.learner.index)
        for elimination in eliminations:
            self._announce_elimination(elimination)

    def _announce_elimination(self, elimination: AnyElimination) -> None:
        learner, witness = elimination.learner.index, elimination.witness.index
        names = {"name": self._members[learner].name, "witness": self._members[witness].name}
        self._emit("eliminated", {**names, "round": elimination.round}, derived=True)
        for callback in self._on_elimination:
            try:
                callback(elimination)
            except Exception:
                logger.exception("a callback failed on an elimination")

    def _emit(self, kind: str, data: Config, *, derived: bool = False, key: str | None = None) -> None:
        self._listeners.announce(Event(kind, data, self._time, derived, key=key))

    def _index(self, name: str) -> int:
        """The learner with this name, which was not removed."""
        for i, member in enumerate(self._members):
            if member.name == name and member.learner is not None:
                return i
        raise UnknownName("learner", name, [member.name for member in self._members if member.learner is not None])


def id_of(decision: object) -> ID:
    """The id of a decision, or the id itself."""
    id_ = decision.id if isinstance(decision, Decision) else decision
    if isinstance(id_, np.integer):
        return int(id_)
    if isinstance(id_, bool) or not isinstance(id_, str | int):
        raise InvalidArgument(f"decision is {id_!r:.80}, but must be a Decision or its id")
    return id_


def _settled(ticket: Ticket, regret: float, failed: Sequence[Lesson]) -> dict[str, Plain]:
    return {
        "id": ticket.id,
        "reward": ticket.reward,
        "regret": regret,
        "outcome": ticket.outcome,
        "failed": list(map(tuple, failed)),
    }
