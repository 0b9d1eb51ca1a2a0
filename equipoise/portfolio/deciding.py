"""Deciding a round: by a learner, by the exploration floor, or by the fallback."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf, nan

import numpy as np

from equipoise.errors import NoLearnerAvailable
from equipoise.features import Offers
from equipoise.kernels.streams import seek
from equipoise.learner import Proposal
from equipoise.portfolio import health, propensities
from equipoise.portfolio.choosing import Nobody, Turn
from equipoise.portfolio.contexts import seen_by
from equipoise.portfolio.decided import decided, failures_of
from equipoise.portfolio.decisions import Decision
from equipoise.portfolio.events import logger
from equipoise.portfolio.members import describe_error
from equipoise.portfolio.proposals import check_action, check_offered, n_offers
from equipoise.portfolio.state import PortfolioState
from equipoise.portfolio.tickets import Ticket, copy_if_mutable
from equipoise.types import Action, Context

FLOOR = 5 << 20  # lane of the random stream of the exploration floor
REPORTED_EVERY = 1024  # rounds between two looks at what is held up


class Deciding(PortfolioState):
    """Decides rounds; what comes from outside was validated."""

    def _play(
        self, context: Context, round_: int, allowed: frozenset[int] | None, wants_propensity: bool
    ) -> tuple[Ticket, float, Turn | Nobody | None]:
        """Decide a round: a ticket without its id, the probability of its learner, and who was asked, if anybody."""
        chooser, explore, n_actions = self._chooser, self.explore, 0
        if round_ == 1:
            self._contexts.check_first(context)
        chooser.offers = self._contexts.offers(context)
        wanted = wants_propensity or chooser.asks_all or explore > 0.0
        chooser.wants_propensities = wanted and self._own_propensity is None
        if explore > 0.0:
            n_actions = propensities.count_actions(context, self._members)
            position = self._draw_from_floor(round_, n_actions) if n_actions else None
            if position is not None:
                action = propensities.nth_offered(context, position)
                return self._explore(context, round_, allowed, action, n_actions), explore, None
        turn = chooser.turn(context, round_, allowed, desperate=self.fallback is None)
        if isinstance(turn, Turn):
            return self._ticket_of(context, round_, turn, n_actions), turn.choice.probability * (1.0 - explore), turn
        if self.fallback is None or not isinstance(turn.error, NoLearnerAvailable):
            raise turn.error
        return self._fall_back(context, round_, turn), nan, turn

    def _ticket_of(self, context: Context, round_: int, turn: Turn, n_actions: int) -> Ticket:
        choice, proposal = turn.choice, turn.proposal
        if choice.greedy:
            proposal = Proposal(proposal.greedy)  # the learner's own bound does not speak of it
        action, _, regret, probability, _, _, plan = proposal
        ticket = Ticket(round_, choice, context, action)
        ticket.regret, ticket.action_probability = regret, probability
        if plan is not None:
            ticket.plan = plan
        if self._traits.randomized or self._own_propensity is not None:
            ticket.propensity = self._propensity(action, context, round_, turn)
        else:
            ticket.propensity = probability  # no other learner could have been chosen
        if n_actions:
            ticket.propensity = propensities.with_floor(ticket.propensity, self.explore, n_actions)
        if self._students_of is not None:
            ticket.students = tuple(self._students_of(choice))
        elif self._teaching.weighted:
            ticket.others = {j: other.action for j, other in turn.proposals.items() if j != choice.learner}
        elif self._teaching.agreeing:
            others = ((j, other) for j, other in turn.proposals.items() if j != choice.learner)
            ticket.agreed = tuple(j for j, other in others if np.array_equal(other.action, action))
        return ticket

    def _propensity(self, action: Action, context: Context, round_: int, turn: Turn) -> float:
        if self._own_propensity is not None:
            return self._own_propensity(turn.choice)
        return nan if turn.probabilities is None else self._marginal(action, context, round_, turn.probabilities, turn)

    def _marginal(
        self, action: Action, context: Context, round_: int, probabilities: Sequence[float], turn: Turn | None
    ) -> float:
        proposals = {} if turn is None else turn.proposals
        n_actions = n_offers(context)
        return propensities.propensity(
            action,
            lambda learner: seen_by(learner, context, self._chooser.offers),
            probabilities,
            self._members,
            proposals,
            lambda j: self._chooser.ask(j, context, round_, n_actions),
        )

    def _draw_from_floor(self, round_: int, n_actions: int) -> int | None:
        """The position of an action drawn uniformly, with probability `explore`; else None."""
        seek(self._stream, FLOOR, round_)
        number = self._stream.generator.random()
        if number >= self.explore:
            return None
        return min(int(number / self.explore * n_actions), n_actions - 1)

    def _explore(
        self, context: Context, round_: int, allowed: frozenset[int] | None, action: int, n_actions: int
    ) -> Ticket:
        # The probabilities of learners do not tell how a selector with propensities of its own plays them.
        own = self._own_propensity is not None
        probabilities = None if own else self._chooser.probabilities_in(round_, allowed)
        chance = nan if probabilities is None else self._marginal(action, context, round_, probabilities, None)
        ticket = Ticket(round_, None, context, action)
        ticket.action_probability = 1.0 / n_actions
        ticket.propensity = propensities.with_floor(chance, self.explore, n_actions)
        return ticket

    def _fall_back(self, context: Context, round_: int, nobody: Nobody) -> Ticket:
        try:
            action = self.fallback(context) if callable(self.fallback) else self.fallback
            action = check_action("fallback", action, n_offers(context), self._savable)
            check_offered("fallback", action, context)
        except Exception as failure:
            message = f"{nobody.error}, and the fallback failed ({describe_error(failure)})"
            raise NoLearnerAvailable(message) from failure
        return Ticket(round_, None, context, action)

    def _decision(self, ticket: Ticket, chance: float) -> Decision:
        """The decision of a ticket, whose learner was chosen with probability `chance`."""
        action, i, context, action_id = ticket.action, ticket.learner, ticket.context, None
        if type(action) is not int:
            action = copy_if_mutable(action)
        name = None if i is None else self._members[i].name
        if isinstance(context, Offers) and context.ids is not None:
            action_id = context.ids[action]
        return Decision(
            str(ticket.id), action, i, name, chance, ticket.action_probability, ticket.propensity, action_id
        )

    def _open_ticket(self, ticket: Ticket) -> None:
        """Record a decided round."""
        self._round = ticket.round
        if ticket.round >= self._history.next_round:
            self._sample()
        choice = ticket.choice
        if choice is None:
            self._count_unplayed(1)
        elif choice.keep is not None and not self._teaching.weighted:
            self._policies.keep(choice.learner, choice.keep, self._members[choice.learner].adapted)
        self._open[ticket.id] = ticket
        self._teaching.open(ticket)
        self._watch_play(ticket)

    def _sample(self) -> None:
        """Add the present standing and certificate to the history."""
        history = self._history
        try:
            history.sample(self._round, self._selector.standing(), health.certificate(self))
        except Exception:
            logger.exception("the selector failed to state how it is doing; the history ends here")
            history.next_round = inf
        costs = "" if self.reward_range is None else history.oversized(self.reward_range)
        if costs:
            logger.warning("%s", costs)

    def _record(self, decision: Decision, ticket: Ticket, turn: Turn | Nobody | None, digest: str) -> None:
        """Record a decided round, announce it, and count who could decide."""
        offers, members = self._chooser.offers, self._members
        if offers is not None:
            ticket.offers = offers
        self._open_ticket(ticket)
        if self._listeners.any:
            key = decision.id if digest else None
            self._emit("decided", decided(decision, ticket, turn, digest), key=key)
        if isinstance(turn, Turn) and not turn.failures:
            for i in turn.proposals:
                members[i].succeeded_deciding()
        elif turn is not None:
            self._counts.fallbacks += isinstance(turn, Nobody)
            self._count_answers(turn.proposals if isinstance(turn, Turn) else (), failures_of(turn))
        if ticket.round % REPORTED_EVERY == 0:
            health.report_blocked(self)

    def _count_answers(self, asked: Iterable[int], failures: Sequence[tuple[int, str]]) -> None:
        """Count who could decide and who could not."""
        for i in asked:
            self._members[i].succeeded_deciding()
        for i, error in failures:
            self._count_failure(i, error, deciding=True)
