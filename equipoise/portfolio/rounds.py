"""Deciding a round: the selector draws a learner without seeing the context, and a learner proposes an action.

The draw comes first, among all active learners that are not suspended, and the reward is credited to the learner that
was drawn. If that learner raises an error, makes an invalid proposal, or is one that the caller excludes, a substitute
acts: the learner with the most plays that can act (ties: the lower index), then one that is paused, then the fallback.
So evidence about a learner is about the learner with its substitutes, and it does not matter that failures and the
caller's restrictions may depend on the context. A play of a substitute counts the width of the rewards in an observed
regret bound.

A learner *refuses* a context if it raises `InvalidArgument` or `UnknownName`: the context has too few columns, or no
offer that the learner can use, by its norm or its id. If it can use some offers, it chooses among these. A learner that
refuses sits the round out, and that is not a failure, so no caller can have a learner paused. If every learner refuses,
the error is passed on and nothing changes, also if the exploration floor would draw the action.

An exploration floor of epsilon over K offers comes before the draw: with probability epsilon the action is drawn
uniformly, for no learner. The propensity of an action (`propensities`) is then epsilon / K + (1 - epsilon) times its
propensity over all draws.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np

from equipoise.errors import InvalidArgument, NoLearnerAvailable
from equipoise.features import Offers
from equipoise.features.offers import nth_offered
from equipoise.kernels.streams import LEARNERS, SELECTOR, open_stream, seek
from equipoise.learner import Proposal
from equipoise.portfolio.inputs import Contexts, copy_if_mutable, n_offers, own_copy
from equipoise.portfolio.pool import Member, Pool, Selection, describe_error, is_refusal
from equipoise.portfolio.propensities import Failure, InvalidProposal, Odds, Propensities, with_floor
from equipoise.portfolio.settings import PortfolioSettings, lost_function
from equipoise.portfolio.tickets import Decision, Ticket
from equipoise.selector import Choice
from equipoise.types import Action, Array, Config, Context

FLOOR = 5 << 20  # lane of the random stream of the exploration floor
Available: TypeAlias = tuple[int, ...] | None  # the learners that could be drawn; None if all could


class Answers:
    """The proposals of one round. Every learner is asked at most once."""

    def __init__(
        self, ask: Callable[[int], Proposal], can_act: Callable[[int], bool], substitutes: Callable[[], Sequence[int]]
    ) -> None:
        self._ask, self._can_act, self._substitutes = ask, can_act, substitutes
        self._order: Sequence[int] | None = None  # of the learners that can act for another one
        self.proposals: dict[int, Proposal] = {}
        self.failures: dict[int, Failure] = {}
        self.pmfs: dict[int, Array] = {}  # of the learners that were asked for theirs

    def of(self, i: int) -> Proposal | None:
        """Return the proposal of a learner; None if it fails."""
        if i not in self.proposals and i not in self.failures:
            try:
                self.proposals[i] = self._ask(i)
            except Exception as error:
                refused = is_refusal(error) and not isinstance(error, InvalidProposal)
                self.failures[i] = Failure(i, error, refused)
        return self.proposals.get(i)

    def acting(self, i: int) -> int | None:
        """Return the learner that acts if learner i is drawn: itself or its substitute; None if no learner can act."""
        if self._can_act(i) and self.of(i) is not None:
            return i
        if self._order is None:
            self._order = self._substitutes()
        return next((j for j in self._order if self.of(j) is not None), None)


class Play(NamedTuple):
    """A round that was drawn for a learner: the learner that acts, and the proposals."""

    choice: Choice | None  # the draw; None if no learner could be drawn
    learner: int | None  # that acts; None for the fallback
    proposal: Proposal  # of the learner that acts, or of the fallback
    proposals: dict[int, Proposal]  # of every learner that was asked and answered
    substitutes: dict[int, int | None]  # the learner that acts for each one that cannot; None: the fallback
    available: Available
    failures: Sequence[Failure]


class Round(NamedTuple):
    """A decided round: a ticket without its id, the probability of its draw, and the play if learners were asked."""

    ticket: Ticket
    chance: float
    play: Play | None
    odds: Odds | None = None  # of the draw, if they were computed
    pmf: tuple[float, ...] | None = None  # of all actions, if it is wanted and known

    @property
    def proposals(self) -> Mapping[int, Proposal]:
        return {} if self.play is None else self.play.proposals

    @property
    def fell_back(self) -> bool:
        return self.play is not None and self.play.learner is None

    @property
    def failures(self) -> tuple[tuple[int, str], ...]:
        """The learners that failed, with their errors."""
        return self._without_answer(refused=False)

    @property
    def refused(self) -> tuple[tuple[int, str], ...]:
        """The learners that refused the context, with their reasons."""
        return self._without_answer(refused=True)

    def _without_answer(self, *, refused: bool) -> tuple[tuple[int, str], ...]:
        failures = () if self.play is None else self.play.failures
        return tuple((each.learner, describe_error(each.error)) for each in failures if each.refused is refused)

    def data(self, decision: Decision, digest: str, odds: Sequence[float] | None) -> Config:
        """Return the data of the event, so that a fold can repeat the round without asking any learner."""
        ticket, play = self.ticket, self.play
        return {
            "id": decision.id,
            "round": ticket.round,
            "learner": decision.learner,
            "name": decision.learner_name,
            "drawn": decision.drawn,
            "action": ticket.action,
            "action_id": decision.action_id,
            "context": ticket.context,
            "digest": digest,
            "choice": None if ticket.choice is None else tuple(ticket.choice),
            "odds": odds,
            "probabilities": (decision.learner_probability, decision.action_probability, decision.propensity),
            "proposals": {j: tuple(proposal) for j, proposal in self.proposals.items()},
            "substitutes": () if play is None else tuple(sorted(play.substitutes.items())),
            "available": None if play is None else play.available,
            "regret": ticket.regret,
            "weight": ticket.weight,
            "learners_to_update": ticket.learners_to_update,
            "failures": self.failures,
            "fallback": self.fell_back,
            **({"refused": refused} if (refused := self.refused) else {}),
            **({"deferred": ticket.deferred} if ticket.deferred else {}),
            **({} if decision.pmf is None else {"pmf": decision.pmf}),
        }


class Rounds:
    """Decides rounds: asks selector and learners, and draws from the exploration floor."""

    def __init__(self, selection: Selection, pool: Pool, settings: PortfolioSettings, *, savable: bool) -> None:
        self.settings = settings
        self.savable = savable  # whether contexts and actions must be savable
        self._selection, self._pool, self._members = selection, pool, pool.members
        self._selector, self._can = selection.selector, selection.can
        self._stream = open_stream(settings.seed)
        self._contexts, self.propensities = Contexts(pool), Propensities(selection, pool)
        self._lower = "lower" in selection.needs
        self._weighted = "weight" in selection.needs
        self._asks_all = bool({"actions", "weight"} & selection.needs)
        self.refresh_learners()
        self.offers: Offers | None = None  # what the context of the round was turned into

    def refresh_learners(self) -> None:
        """Note the learners whose greedy action may be played, and whether any learner draws its action at random."""
        self._greedy = self._selection.traits.greedy_learners
        # Proposals that are certain add nothing: then the propensity given the proposals is the one given the context.
        present = [(i, member.adapted) for i, member in self._pool.present()]
        # Silent learners are asked only in rounds that they play.
        self._silent = frozenset(i for i, learner in present if learner.can.silent)
        uncertain = self._silent or any(learner.randomized for _, learner in present)
        self._given_proposals = None if uncertain or self._can.propensity is None else self._can.propensity.propensity

    def offers_of(self, context: Context) -> Offers | None:
        """Return the context as offers if that saves work, else None."""
        return self._contexts.offers(context)

    def decide(
        self,
        context: Context,
        round_: int,
        allowed: frozenset[int] | None,
        *,
        propensity: bool = False,
        pmf: bool = False,
    ) -> Round:
        """Decide a round; afterwards the selector has one more open play, unless it is drawn for no learner.

        `allowed` are the learners that may act; None for all.
        """
        explore, n_actions = self.settings.explore, 0
        if round_ == 1:
            self._contexts.check_first(context)
        self.offers = self._contexts.offers(context)
        available = self._drawable(round_)
        if explore > 0.0:
            n_actions = count_actions(context, self._members)
            position = self._draw_from_floor(round_, n_actions) if n_actions else None
            if position is not None:
                action = nth_offered(context, position)
                return self._explore(context, round_, allowed, available, action, n_actions, pmf)
        wanted = propensity or pmf or self._asks_all or explore > 0.0
        return self._draw(context, round_, allowed, available, n_actions, wanted, pmf)

    def logged_odds(self, decided: Round) -> Sequence[float] | None:
        """Return the probabilities of a draw, of all experts or learners; None if they were not needed."""
        choice = decided.ticket.choice
        if choice is not None and self._can.odds is not None:
            return self._can.odds.odds(choice)
        if choice is None or decided.odds is None:
            return None
        known = {i: chance for i, _, chance in decided.odds}
        return tuple([known.get(i, 0.0) for i in range(len(self._members))])

    def decision(self, decided: Round) -> Decision:
        """Return the decision of a round, whose ticket has its id."""
        ticket = decided.ticket
        action, i, context, action_id = ticket.action, ticket.learner, ticket.context, None
        if type(action) is not int:
            action = copy_if_mutable(action)
        name = None if i is None else self._members[i].name
        if isinstance(context, Offers) and context.ids is not None:
            action_id = context.ids[action]
        probabilities = decided.chance, ticket.action_probability, ticket.propensity
        return Decision(ticket.id, action, i, name, ticket.drawn, *probabilities, action_id, decided.pmf)

    def probabilities_in(self, round_: int) -> Sequence[float] | None:
        """Return the probabilities of the learners in a draw; None if the selector cannot tell."""
        if self._can.chances is None:
            return None
        available = self._drawable(round_)
        if available == ():
            return (0.0,) * len(self._members)
        chances = self._can.chances.choice_probabilities
        return chances() if available is None else chances(available)

    def _drawable(self, round_: int) -> Available:
        """Return the learners that can be drawn; None if all can."""
        members, pool = self._members, self._pool
        if not pool.any_unavailable:
            return None
        pool.any_unavailable = any(member.suspended or member.paused_until > round_ for member in members)
        active = self._selector.active
        usable = tuple(i for i in active if members[i].is_available(round_))
        if len(usable) == len(active):
            return None
        if not self._can.takes_available:
            return ()
        return usable or (() if self._falls_back else self._paused(round_))

    @property
    def _falls_back(self) -> bool:
        return self.settings.fallback is not None and self.settings.fallback is not lost_function

    def _paused(self, round_: int) -> tuple[int, ...]:
        """Return the learners that are paused because of failures: the last resort where there is no fallback."""
        members = ((i, self._members[i]) for i in self._selector.active)
        return tuple(i for i, each in members if each.is_present and each.paused_until > round_)

    def _answers(
        self,
        context: Context,
        round_: int,
        allowed: Collection[int] | None,
        available: Available,
        choice: Choice | None,
    ) -> Answers:
        """Return the answers of a round, for which no learner has been asked yet."""
        n_actions = n_offers(context)
        drawn = None if choice is None else choice.learner

        def substitutes() -> list[int]:
            plays = {row.learner: row.plays for row in self._selector.standing()}
            if drawn is not None:
                plays[drawn] -= 1  # who acts for others does not depend on the draw
            usable = self._selector.active if available is None else available
            groups = [usable] if self._falls_back else [usable, [i for i in self._paused(round_) if i not in usable]]
            # Silent learners come last, and first of them the drawn one: while it acts, no other one is asked.
            silent = {i: 0 if i not in self._silent else 1 if i == drawn else 2 for group in groups for i in group}
            ordered = (sorted(group, key=lambda i: (silent[i], -plays.get(i, 0), i)) for group in groups)
            return [i for group in ordered for i in group if allowed is None or i in allowed]

        return Answers(
            lambda i: self._ask(i, context, round_, n_actions), lambda i: allowed is None or i in allowed, substitutes
        )

    def _draw(
        self,
        context: Context,
        round_: int,
        allowed: Collection[int] | None,
        available: Available,
        n_actions: int,
        wanted: bool,
        pmf: bool,
    ) -> Round:
        """Draw a learner, and let it or its substitute act; `wanted` is whether the propensity is."""
        explore, randomized = self.settings.explore, self._selection.traits.randomized
        if randomized:
            seek(self._stream, SELECTOR, round_)
        # A selector with experts keeps the probabilities of every draw; others can tell those of the next one only.
        marginal = wanted and randomized and self._given_proposals is None
        beforehand = (marginal or (pmf and randomized)) and self._can.odds is None and available != ()
        odds = self.propensities.odds(None, available) if beforehand else None
        choice = self._choose(available)
        answers = self._answers(context, round_, allowed, available, choice)
        try:
            play = self._let_act(answers, context, choice, available, allowed)
            if choice is not None:
                action = play.proposal.action
                observe(self._selection, choice, play.proposals, play.substitutes, action, self.settings)
                if (marginal or pmf) and self._can.odds is not None:
                    odds = self.propensities.odds(choice, available)
            ticket = self._ticket_of(context, round_, play, odds)
            if wanted and play.learner is not None and isnan(ticket.action_probability):
                ticket.action_probability = self.propensities.of_learner(
                    play.learner, ticket.action, context, self.offers, answers
                )
            ticket.propensity = self._propensity_of(ticket, play, odds, answers)
            note_given_proposals(ticket, self._selection)
            of_all = self._pmf(ticket.context, self._chances(ticket, play, odds, answers)) if pmf else None
        except BaseException:
            if choice is not None:
                self._selector.withdraw(choice)
            raise
        if n_actions:
            known = n_offers(context) is not None or (type(ticket.action) is int and ticket.action < n_actions)
            ticket.propensity = with_floor(ticket.propensity, explore, n_actions if known else inf)
        return Round(ticket, (1.0 if choice is None else choice.probability) * (1.0 - explore), play, odds, of_all)

    def _choose(self, available: Available) -> Choice | None:
        """Return the draw of the selector; None if no learner can be drawn."""
        rng = self._stream.generator
        if available is None:
            return self._selector.choose(rng)
        if not available:
            return None
        try:
            return self._selector.choose(rng, available=available)
        except NoLearnerAvailable:
            return None

    def _let_act(
        self,
        answers: Answers,
        context: Context,
        choice: Choice | None,
        available: Available,
        allowed: Collection[int] | None,
    ) -> Play:
        """Let the drawn learner act, or its substitute; raise an error if no learner can and there is no fallback."""
        acting, proposal, substitutes = None, None, dict[int, int | None]()
        if choice is not None:
            if self._asks_all:
                usable = self._selector.active if available is None else available
                if self._silent:
                    usable = tuple(i for i in usable if i not in self._silent or i == choice.learner)
                for i in usable:
                    if allowed is None or i in allowed:
                        answers.of(i)
                acting_for = {i: answers.acting(i) for i in usable}
                substitutes = {i: j for i, j in acting_for.items() if j != i}
            acting = answers.acting(choice.learner)
            if acting != choice.learner:
                substitutes[choice.learner] = acting
        failures = tuple(answers.failures.values())
        proposals = dict(answers.proposals)
        if acting is not None:
            proposal = proposals[acting]
            if choice is not None and choice.greedy and acting == choice.learner:
                proposal = Proposal(proposal.greedy)  # the learner's bound does not cover the greedy action
        else:
            reason = self._reason(failures, allowed)
            if not self._falls_back or not isinstance(reason, NoLearnerAvailable):
                raise reason
            proposal = Proposal(self._fallback_action(context, reason))
        return Play(choice, acting, proposal, proposals, substitutes, available, failures)

    def _ask(self, i: int, context: Context, round_: int, n_actions: int | None) -> Proposal:
        member = self._members[i]
        learner = member.learner
        assert learner is not None
        if learner.randomized:
            seek(self._stream, LEARNERS + i, round_)
        seen = context if self.offers is None else learner.sees(context, self.offers)
        since = perf_counter()
        try:
            answer = learner.ask(seen, self._stream.generator)
        finally:
            member.decide_times.add(perf_counter() - since)
        proposal = answer if isinstance(answer, Proposal) else learner.proposal(answer)
        if self._greedy and proposal.greedy is None and i in self._greedy:
            raise InvalidProposal("greedy is None, but the selector may play this learner's greedy action")
        checked = check_proposal(proposal, n_actions, self._lower, self.savable)
        if isinstance(context, Offers) and context.mask is not None:
            check_offered("action", checked.action, context)
            check_offered("greedy", checked.greedy, context)
        return checked

    def _reason(self, failures: Sequence[Failure], allowed: Collection[int] | None) -> Exception:
        if failures and all(failure.refused for failure in failures):
            return failures[0].error
        reasons = [f"{self._members[i].name}: {describe_error(error)}" for i, error, _ in failures]
        if not reasons and self._pool.any_unavailable and not self._can.takes_available:
            reasons = ["choose() of the selector takes no available=, which is needed to choose among some learners"]
        if not reasons:
            reasons = ["all are suspended" if allowed is None else "none is active, not suspended and allowed"]
        error = NoLearnerAvailable(f"no learner can play ({'; '.join(reasons)})")
        if failures:
            error.__cause__ = failures[0].error
        return error

    def _propensity_of(self, ticket: Ticket, play: Play, odds: Odds | None, answers: Answers) -> float:
        """Return the propensity of the action of a draw, without a floor; nan if it is unknown or not wanted."""
        choice = play.choice
        certain = choice is None or play.learner is None or not self._selection.traits.randomized
        if certain and any([self.propensities.fails_at_random(i, answers) for i in answers.failures]):
            return nan
        if choice is None or play.learner is None:
            return 1.0  # whichever learner is drawn, none can act
        if certain:  # no other one could be drawn
            return self.propensities.note(play.learner, ticket.action_probability)
        if self._given_proposals is not None:
            return self._given_proposals(choice)
        known = {play.learner: ticket.action_probability} if isnan(play.proposal.probability) else {}
        return nan if odds is None else self._marginal(ticket.action, ticket.context, odds, answers, known)

    def _chances(self, ticket: Ticket, play: Play, odds: Odds | None, answers: Answers) -> Callable[[int], float]:
        """Return the function that gives the propensity of any action of a draw, without a floor; nan if unknown."""
        choice = play.choice
        if choice is None or play.learner is None:
            return lambda action: float(action == ticket.action)
        of_draw = odds if self._selection.traits.randomized else [(choice.learner, choice.greedy, 1.0)]
        if of_draw is None:
            return lambda action: nan
        return lambda action: self._marginal(action, ticket.context, of_draw, answers, {})

    def _pmf(self, context: Context, chance_of: Callable[[int], float]) -> tuple[float, ...] | None:
        """Return the probabilities of all actions, from those without a floor; None if one is unknown."""
        n_actions = _number_of_actions(context, self._members)
        if n_actions is None:
            return None
        pmf = [0.0] * (len(context) if isinstance(context, Offers) else n_actions)
        for position in range(n_actions):
            action = nth_offered(context, position)
            pmf[action] = with_floor(chance_of(action), self.settings.explore, n_actions)
            if isnan(pmf[action]):
                return None
        return tuple(pmf)

    def _marginal(
        self, action: Action, context: Context, odds: Odds, answers: Answers, known: Mapping[int, float]
    ) -> float:
        return self.propensities.marginal(
            action, context, self.offers, odds, answers, known, lambda: self._chance_of_fallback(action, context)
        )

    def _chance_of_fallback(self, action: Action, context: Context) -> float:
        """Return whether the fallback would take this action, as a probability; nan if such a round would fail."""
        if not self._falls_back:
            return nan
        try:
            return float(np.array_equal(action, self._fallback_action(context, NoLearnerAvailable("no learner"))))
        except NoLearnerAvailable:
            return nan

    def _ticket_of(self, context: Context, round_: int, play: Play, odds: Odds | None) -> Ticket:
        choice = play.choice
        action, _, regret, probability, _, _, plan = play.proposal
        ticket = Ticket(round_, choice, context, action, play.learner)
        ticket.action_probability = probability
        ticket.regret = self._selection.width(self.settings.reward_range) if ticket.substituted else regret
        if plan is not None:
            ticket.plan = plan
        if self._can.updates is not None:
            refused = {failure.learner for failure in play.failures if failure.refused}
            ticket.learners_to_update = tuple(
                [i for i in self._can.updates.learners_updated_by(choice) if i not in refused]
            )
        elif self._weighted:
            ticket.others = {j: other.action for j, other in play.proposals.items() if j != play.learner}
            if choice is not None:
                ticket.weight = self._weight(play, choice, odds)
        return ticket

    def _weight(self, play: Play, choice: Choice, odds: Odds | None) -> float:
        """Return one over the probability with which the learner that acts does so in this context."""
        chance = choice.probability
        if play.substitutes and odds is not None:
            chance = sum(each for i, _, each in odds if play.substitutes.get(i, i) == play.learner)
        return 1.0 / (chance * (1.0 - self.settings.explore))

    def _draw_from_floor(self, round_: int, n_actions: int) -> int | None:
        """Return the position of an action drawn uniformly, with probability `explore`; else None."""
        seek(self._stream, FLOOR, round_)
        number, explore = self._stream.generator.random(), self.settings.explore
        if number >= explore:
            return None
        return min(int(number / explore * n_actions), n_actions - 1)

    def _explore(
        self,
        context: Context,
        round_: int,
        allowed: Collection[int] | None,
        available: Available,
        action: int,
        n_actions: int,
        pmf: bool,
    ) -> Round:
        ticket = Ticket(round_, None, context, action, None)
        ticket.action_probability = 1.0 / n_actions
        if self._can.updates is not None:
            ticket.learners_to_update = tuple(self._can.updates.learners_updated_by(None))
        answers = self._answers(context, round_, allowed, available, None)
        asks = self.settings.explore < 1.0 and available != ()
        odds = self.propensities.odds(None, available) if asks else None

        def chance_of(action: int) -> float:
            if self.settings.explore == 1.0:
                return 0.0  # no round is drawn for a learner
            if not asks:
                return self._chance_of_fallback(action, context)
            return nan if odds is None else self._marginal(action, context, odds, answers, {})

        ticket.propensity = with_floor(chance_of(action), self.settings.explore, n_actions)
        if asks:
            self._check_accepted(answers, allowed, available)
        return Round(ticket, self.settings.explore, None, pmf=self._pmf(context, chance_of) if pmf else None)

    def _check_accepted(self, answers: Answers, allowed: Collection[int] | None, available: Available) -> None:
        """Raise the error of a learner if all that can act refuse the context; silent ones are not asked."""
        usable = self._selector.active if available is None else available
        asked = [i for i in usable if i not in self._silent and (allowed is None or i in allowed)]
        if asked and all(answers.of(i) is None and answers.failures[i].refused for i in asked):
            raise answers.failures[asked[0]].error

    def _fallback_action(self, context: Context, reason: Exception) -> Action:
        fallback = self.settings.fallback
        try:
            action = fallback(context) if callable(fallback) else fallback
            action = check_action("fallback", action, n_offers(context), self.savable)
            check_offered("fallback", action, context)
        except Exception as failure:
            message = f"{reason}, and the fallback failed ({describe_error(failure)})"
            raise NoLearnerAvailable(message) from failure
        return action


def note_given_proposals(ticket: Ticket, selection: Selection) -> None:
    """Note the probability of the action given all proposals, for learners that need one, if no other one is known."""
    if ticket.choice is not None and isnan(ticket.propensity) and selection.can.propensity is not None:
        ticket.given_proposals = selection.can.propensity.propensity(ticket.choice)


def observe(
    selection: Selection,
    choice: Choice,
    proposals: Mapping[int, Proposal],
    substitutes: Mapping[int, int | None],
    action: Action,
    settings: PortfolioSettings,
) -> None:
    """Tell the selector the proposals of a round, in which `action` is the one played.

    A learner that could not act has the action of its substitute, of which nothing is claimed: the lowest reward as
    lower bound, the width of the rewards as regret.
    """
    if not substitutes:
        selection.selector.observe(choice, proposals)
        return
    low, _ = selection.limits(settings.reward_range)
    width = selection.width(settings.reward_range)
    complete = dict(proposals)
    for i, acting in substitutes.items():
        acted = action if acting is None else proposals[acting].action
        complete[i] = Proposal(acted, low, width, nan, acted)
    if selection.can.takes_substitutes:
        selection.selector.observe(choice, complete, substitutes)
    else:
        selection.selector.observe(choice, complete)


def check_proposal(proposal: Proposal, n_actions: int | None, lower: bool, savable: bool) -> Proposal:
    """Return the proposal with a plain action; raise an error if it is invalid. `lower` if a lower bound is needed."""
    action, lower_bound, regret, probability, greedy, _, _ = proposal
    checked = check_action("action", action, n_actions, savable)
    best = action if greedy is action else greedy
    if best is not None and best is not action:
        best = check_action("greedy", greedy, n_actions, savable)
    if not (0.0 < probability <= 1.0 or isnan(probability)):
        raise InvalidProposal(f"probability is {probability!r}, but must lie in (0, 1], or be nan if unknown")
    if regret < 0.0 or regret == inf:
        raise InvalidProposal(f"regret is {regret!r}, but must be finite and not negative, or nan if unknown")
    if lower and not isfinite(lower_bound):
        raise InvalidProposal(f"lower is {lower_bound!r}, but must be a finite number")
    if checked is action and best is greedy:
        return proposal
    return proposal._replace(action=checked, greedy=checked if best is action else best)


def check_action(name: str, action: Action, n_actions: int | None, savable: bool) -> Action:
    """Return the action, an index as a Python integer; `n_actions` is the number of offers if it is known."""
    if type(action) is int and n_actions is not None and 0 <= action < n_actions:
        return action
    if type(action) is int or isinstance(action, np.integer):
        if action < 0 or (n_actions is not None and action >= n_actions):
            limit = "at least 0" if n_actions is None else f"from 0 to {n_actions - 1}"
            raise InvalidProposal(f"{name} is {action}, but an index must be {limit}")
        return int(action)
    if action is None:
        raise InvalidProposal(f"{name} is None, but decide() must return an action or a Proposal")
    if isinstance(action, Awaitable):
        if hasattr(action, "close"):
            action.close()  # otherwise Python warns that it was never awaited
        raise InvalidProposal(f"{name} is a {type(action).__name__}, but decide() must not be asynchronous")
    if n_actions is not None:
        raise InvalidProposal(f"{name} is {action!r:.80}, but must be an index from 0 to {n_actions - 1}")
    if isinstance(action, tuple):
        raise InvalidProposal(f"{name} is {action!r:.80}, but must not be a tuple: return a Proposal(action, ...)")
    if isinstance(action, float) and not isfinite(action):
        raise InvalidProposal(f"{name} is {action!r}, but must be finite")
    if isinstance(action, np.ndarray) and action.dtype.kind == "f" and not np.isfinite(action).all():
        raise InvalidProposal(f"{name} has an entry that is not finite")
    # A policy of an episode is not saved: learners learn from the outcome.
    return own_copy(action, name, savable and not callable(action))


def check_offered(name: str, action: Action, context: Context) -> None:
    """Raise an error if the mask of the offers excludes the action."""
    if isinstance(context, Offers) and context.mask is not None and action is not None and not context.mask[action]:
        raise InvalidProposal(f"{name} is {action}, but the mask of the offers excludes it")


def count_actions(context: Context, members: Sequence[Member]) -> int:
    """Return the number of actions to explore: the offers of the context, or the arms of the learners."""
    n_actions = _number_of_actions(context, members)
    if n_actions is None:
        raise InvalidArgument(
            "explore needs finitely many actions, but the context is no matrix of offers and no learner has arms"
        )
    return n_actions


def _number_of_actions(context: Context, members: Sequence[Member]) -> int | None:
    if isinstance(context, Offers):
        return context.n_offered
    n_actions = n_offers(context)
    if n_actions is None:
        arms = [member.learner.can.arms for member in members if member.learner is not None]
        n_actions = min((number for number in arms if number is not None), default=None)
    return n_actions
