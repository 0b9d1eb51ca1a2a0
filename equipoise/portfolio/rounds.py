"""Deciding a round: the selector draws a learner without seeing the context, and the learner proposes an action.

A learner that raises an error, or makes an invalid proposal, is skipped, and the selector chooses among the others. The
substitute was then selected by a failure that may depend on the context, so the round is not evidence unless
availability is declared independent of contexts (`Choice.evidence`). The same holds for a round that a caller restricts
to some of the learners. If every learner rejects the context as invalid, the caller is at fault: the error is passed on
and no learner counts as failing. A learner that rejects what another one accepts counts as failing.

The *propensity* of an action is its probability given the context: sum_j p_j P_j(a), where p_j is the probability with
which the selector chooses learner j and P_j(a) the probability with which learner j picks the action. P_j comes from
`pmf` if the learner has it; a learner that draws no random numbers picks its proposal. With an exploration floor of
epsilon over K offers it is epsilon / K + (1 - epsilon) sum_j p_j P_j(a).
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from math import inf, isfinite, isnan, nan
from time import perf_counter
from typing import NamedTuple, TypeAlias

import numpy as np

from equipoise.errors import InvalidArgument, NoLearnerAvailable
from equipoise.features import Offers
from equipoise.features.offers import as_offers
from equipoise.kernels.streams import LEARNERS, SELECTOR, open_stream, seek
from equipoise.learner import Proposal
from equipoise.portfolio.events import logger
from equipoise.portfolio.pool import Member, Pool, Selection, describe_error
from equipoise.portfolio.settings import PortfolioSettings, lost_function
from equipoise.portfolio.tickets import Decision, Ticket, copy_if_mutable, own_copy
from equipoise.selector import Choice
from equipoise.types import Action, Config, Context

SUBSTITUTES = 4 << 20  # lanes of the random streams for the choice of substitutes
FLOOR = 5 << 20  # lane of the random stream of the exploration floor
Available: TypeAlias = tuple[int, ...] | None  # the learners that could be chosen; None if all could


class Failure(NamedTuple):
    """A learner that could not play: its index, the error, and whether the error may be the caller's."""

    learner: int
    error: Exception
    caller_error: bool


class Play(NamedTuple):
    """The learner that plays a round, and the proposals."""

    choice: Choice
    proposal: Proposal
    proposals: dict[int, Proposal]  # of every learner that was asked
    available: Available
    probabilities: Sequence[float] | None  # with which they were chosen, if requested
    failures: Sequence[Failure]


class NoPlay(NamedTuple):
    """The error that says why no learner could play a round."""

    error: Exception
    failures: Sequence[Failure]


class Round(NamedTuple):
    """A decided round: a ticket without its id, the probability of its learner, and the play if learners were asked."""

    ticket: Ticket
    chance: float
    play: Play | NoPlay | None

    @property
    def proposals(self) -> Mapping[int, Proposal]:
        return self.play.proposals if isinstance(self.play, Play) else {}

    @property
    def fell_back(self) -> bool:
        return isinstance(self.play, NoPlay)

    @property
    def failures(self) -> tuple[tuple[int, str], ...]:
        """The failures that count against learners: not an invalid context that no learner could use."""
        if self.play is None:
            return ()
        played = isinstance(self.play, Play)
        return tuple((i, describe_error(error)) for i, error, callers in self.play.failures if played or not callers)

    def data(self, decision: Decision, digest: str, odds: Sequence[float] | None) -> Config:
        """Return the data of the event, so that a fold can repeat the round without asking any learner."""
        ticket = self.ticket
        return {
            "id": decision.id,
            "round": ticket.round,
            "learner": decision.learner,
            "name": decision.learner_name,
            "action": ticket.action,
            "action_id": decision.action_id,
            "context": ticket.context,
            "digest": digest,
            "choice": None if ticket.choice is None else tuple(ticket.choice),
            "odds": odds,
            "probabilities": (decision.learner_probability, decision.action_probability, decision.propensity),
            "proposals": {j: tuple(proposal) for j, proposal in self.proposals.items()},
            "available": self.play.available if isinstance(self.play, Play) else None,
            "regret": ticket.regret,
            "learners_to_update": ticket.learners_to_update,
            "failures": self.failures,
            "fallback": self.fell_back,
        }


class InvalidProposal(InvalidArgument):
    """An invalid proposal: a failure of its learner, not of the caller."""


class Rounds:
    """Decides rounds: asks selector and learners, and draws from the exploration floor."""

    def __init__(self, selection: Selection, pool: Pool, settings: PortfolioSettings, *, savable: bool) -> None:
        self.settings = settings
        self.savable = savable  # whether contexts and actions must be savable
        self._selection, self._pool, self._members = selection, pool, pool.members
        self._selector, can = selection.selector, selection.can
        self._stream = open_stream(settings.seed)
        self._contexts = Contexts(pool)
        self._lower = "lower" in selection.needs
        self._weighted = "weight" in selection.needs
        self._asks_all = bool({"actions", "weight"} & selection.needs)
        self._takes_available, self._chances, self._odds = can.takes_available, can.chances, can.odds
        self._own_propensity = None if can.propensity is None else can.propensity.propensity
        self._learners_updated_by = None if can.updates is None else can.updates.learners_updated_by
        self._wants_propensities = self._asks_all
        self.refresh_greedy_experts()
        self.offers: Offers | None = None  # what the context of the round was turned into

    def refresh_greedy_experts(self) -> None:
        """Note the learners whose greedy action may be played."""
        self._greedy = self._selection.traits.greedy_learners

    def offers_of(self, context: Context) -> Offers | None:
        """Return the context as offers if that saves work, else None."""
        return self._contexts.offers(context)

    def decide(
        self, context: Context, round_: int, allowed: frozenset[int] | None, *, propensity: bool = False
    ) -> Round:
        """Decide a round; afterwards the selector has one more open play, unless no learner plays."""
        explore, n_actions = self.settings.explore, 0
        if round_ == 1:
            self._contexts.check_first(context)
        self.offers = self._contexts.offers(context)
        wanted = propensity or self._asks_all or explore > 0.0
        self._wants_propensities = wanted and self._own_propensity is None
        if explore > 0.0:
            n_actions = count_actions(context, self._members)
            position = self._draw_from_floor(round_, n_actions) if n_actions else None
            if position is not None:
                action = nth_offered(context, position)
                return Round(self._explore(context, round_, allowed, action, n_actions), explore, None)
        falls_back = self.settings.fallback is not None and self.settings.fallback is not lost_function
        play = self._play(context, round_, allowed, include_paused=not falls_back)
        if isinstance(play, Play):
            chance = play.choice.probability * (1.0 - explore)
            return Round(self._ticket_of(context, round_, play, n_actions), chance, play)
        if not falls_back or not isinstance(play.error, NoLearnerAvailable):
            raise play.error
        return Round(self._fall_back(context, round_, play), nan, play)

    def odds(self, decided: Round) -> Sequence[float] | None:
        """Return the probabilities of the draw, of all experts or learners; None if none was needed or computed."""
        play = decided.play
        if not isinstance(play, Play):
            return None
        if self._odds is not None:
            return self._odds.odds(play.choice)
        return play.probabilities if self._selection.traits.randomized else None

    def decision(self, ticket: Ticket, chance: float) -> Decision:
        """Return the decision of a ticket, whose learner was chosen with probability `chance`."""
        action, i, context, action_id = ticket.action, ticket.learner, ticket.context, None
        if type(action) is not int:
            action = copy_if_mutable(action)
        name = None if i is None else self._members[i].name
        if isinstance(context, Offers) and context.ids is not None:
            action_id = context.ids[action]
        return Decision(ticket.id, action, i, name, chance, ticket.action_probability, ticket.propensity, action_id)

    def probabilities_in(self, round_: int, allowed: Collection[int] | None = None) -> Sequence[float] | None:
        """Return the probabilities of the learners in a round; None if the selector cannot tell."""
        return self._probabilities(self._usable(round_, allowed)[0])

    def _play(
        self, context: Context, round_: int, allowed: Collection[int] | None, *, include_paused: bool
    ) -> Play | NoPlay:
        """Let a learner play.

        `allowed` are the learners to which the caller restricts the round. If `include_paused`, learners that are
        paused because of failures are tried when no other one is left.
        """
        all_can_play = allowed is None and not self._pool.any_unavailable
        usable, restricted = (None, False) if all_can_play else self._usable(round_, allowed)
        find = self._ask_all if self._asks_all else self._ask_one
        failures: list[Failure] = []
        play = find(context, round_, usable, restricted, failures)
        if play is not None:
            return play
        if include_paused:
            paused = [i for i in self._selector.active if self._is_paused(i, round_, allowed)]
            if paused:
                play = find(context, round_, tuple(paused), restricted, failures)
        return NoPlay(self._reason(failures, allowed), failures) if play is None else play

    def _usable(self, round_: int, allowed: Collection[int] | None) -> tuple[Available, bool]:
        """Return the learners that can be chosen, None if all can, and whether the caller excluded one of them."""
        members = self._members
        self._pool.any_unavailable = any(member.suspended or member.paused_until > round_ for member in members)
        active = self._selector.active
        usable = tuple(i for i in active if members[i].is_available(round_))
        chosen = usable if allowed is None else tuple(i for i in usable if i in allowed)
        return (None if len(chosen) == len(active) else chosen), len(chosen) < len(usable)

    def _is_paused(self, i: int, round_: int, allowed: Collection[int] | None) -> bool:
        member = self._members[i]
        suspended = member.learner is None or member.suspended
        return not suspended and member.paused_until > round_ and (allowed is None or i in allowed)

    def _ask_one(
        self, context: Context, round_: int, available: Available, restricted: bool, failures: list[Failure]
    ) -> Play | None:
        """Ask the chosen learner; if it fails, choose another one. Return None if none is left."""
        n_actions, attempt, randomized = n_offers(context), 0, self._selection.traits.randomized
        while available is None or available:
            if randomized:
                seek(self._stream, SUBSTITUTES + attempt if attempt else SELECTOR, round_)
            probabilities = self._probabilities(available) if self._wants_propensities else None
            choice = self._selector.choose(self._stream.generator) if available is None else self._choose(available)
            if choice is None:
                break
            i = choice.learner
            if restricted:
                choice = self._restricted(choice)
            try:
                proposal = self._ask(i, context, round_, n_actions)
            except Exception as error:
                self._selector.withdraw(choice)
                failures.append(_failure(i, error))
                available = tuple(j for j in (self._selector.active if available is None else available) if j != i)
                restricted, attempt = True, attempt + 1
                continue
            except BaseException:
                self._selector.withdraw(choice)
                raise
            self._observe(choice, {i: proposal})
            return Play(choice, proposal, {i: proposal}, available, probabilities, failures)
        return None

    def _ask_all(
        self, context: Context, round_: int, available: Available, restricted: bool, failures: list[Failure]
    ) -> Play | None:
        """Ask every learner, and choose one of those that could propose. Return None if none could."""
        n_actions, active = n_offers(context), self._selector.active
        proposals: dict[int, Proposal] = {}
        for i in active if available is None else available:
            try:
                proposals[i] = self._ask(i, context, round_, n_actions)
            except Exception as error:
                failures.append(_failure(i, error))
                restricted = True
        if not proposals:
            return None
        available = None if len(proposals) == len(active) else tuple(proposals)
        if self._selection.traits.randomized:
            seek(self._stream, SELECTOR, round_)
        probabilities = self._probabilities(available) if self._wants_propensities else None
        choice = self._selector.choose(self._stream.generator) if available is None else self._choose(available)
        if choice is None:
            return None
        if restricted:
            choice = self._restricted(choice)
        self._observe(choice, proposals)
        return Play(choice, proposals[choice.learner], proposals, available, probabilities, failures)

    def _observe(self, choice: Choice, proposals: dict[int, Proposal]) -> None:
        try:
            self._selector.observe(choice, proposals)
        except BaseException:
            self._selector.withdraw(choice)
            raise

    def _restricted(self, choice: Choice) -> Choice:
        """Return the choice of a round in which not every learner could play."""
        return choice if self.settings.availability == "independent" else choice._replace(evidence=False)

    def _choose(self, available: tuple[int, ...]) -> Choice | None:
        """Return the choice of the selector among some learners; None if it finds none."""
        if not self._takes_available:
            return None
        try:
            return self._selector.choose(self._stream.generator, available=available)
        except NoLearnerAvailable:
            return None

    def _probabilities(self, available: Available) -> Sequence[float] | None:
        """Return the probabilities of the learners in the next choice; None if the selector cannot tell."""
        if self._chances is None:
            return None
        chances = self._chances.choice_probabilities
        return chances() if available is None else chances(available)

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
        if failures and all(failure.caller_error for failure in failures):
            return failures[0].error
        reasons = [f"{self._members[i].name}: {describe_error(error)}" for i, error, _ in failures]
        if not reasons and not self._takes_available:
            reasons = ["choose() of the selector takes no available=, which is needed to choose among some learners"]
        if not reasons:
            reasons = ["all are suspended" if allowed is None else "none is active, not suspended and allowed"]
        error = NoLearnerAvailable(f"no learner can play ({'; '.join(reasons)})")
        if failures:
            error.__cause__ = failures[0].error
        return error

    def _ticket_of(self, context: Context, round_: int, play: Play, n_actions: int) -> Ticket:
        choice, proposal = play.choice, play.proposal
        if choice.greedy:
            proposal = Proposal(proposal.greedy)  # the learner's bound does not cover the greedy action
        action, _, regret, probability, _, _, plan = proposal
        ticket = Ticket(round_, choice, context, action)
        ticket.regret, ticket.action_probability = regret, probability
        if plan is not None:
            ticket.plan = plan
        if self._own_propensity is not None:
            ticket.propensity = self._own_propensity(choice)
        elif not self._selection.traits.randomized:
            ticket.propensity = probability  # no other learner could have been chosen
        elif play.probabilities is not None:
            ticket.propensity = self._marginal(action, context, round_, play.probabilities, play.proposals)
        if n_actions:
            ticket.propensity = with_floor(ticket.propensity, self.settings.explore, n_actions)
        if self._learners_updated_by is not None:
            ticket.learners_to_update = tuple(self._learners_updated_by(choice))
        elif self._weighted:
            ticket.others = {j: other.action for j, other in play.proposals.items() if j != choice.learner}
        return ticket

    def _marginal(
        self,
        action: Action,
        context: Context,
        round_: int,
        probabilities: Sequence[float],
        proposals: Mapping[int, Proposal],
    ) -> float:
        """Return the propensity of an action without a floor; nan if a learner cannot tell. Never fail."""
        total = 0.0
        for j, chance in enumerate(probabilities):
            if chance > 0.0:
                try:
                    total += chance * self._chance(j, action, context, round_, proposals.get(j))
                except Exception:  # a learner that cannot tell now does not spoil the decision
                    return nan
        return 1.0 if total > 1.0 else total  # rounding may leave more; nan stays

    def _chance(self, j: int, action: Action, context: Context, round_: int, proposal: Proposal | None) -> float:
        """Return the probability with which learner j picks the action."""
        learner = self._members[j].adapted
        if "pmf" not in learner.provides and not learner.randomized:
            known = self._ask(j, context, round_, n_offers(context)) if proposal is None else proposal
            return float(np.array_equal(action, known.action))
        probabilities = learner.pmf(learner.sees(context, self.offers))
        if probabilities is None:
            return nan
        return float(probabilities[action]) if action < len(probabilities) else 0.0

    def _draw_from_floor(self, round_: int, n_actions: int) -> int | None:
        """Return the position of an action drawn uniformly, with probability `explore`; else None."""
        seek(self._stream, FLOOR, round_)
        number, explore = self._stream.generator.random(), self.settings.explore
        if number >= explore:
            return None
        return min(int(number / explore * n_actions), n_actions - 1)

    def _explore(
        self, context: Context, round_: int, allowed: frozenset[int] | None, action: int, n_actions: int
    ) -> Ticket:
        # The probabilities of learners do not tell how a selector with propensities of its own plays them.
        own = self._own_propensity is not None
        probabilities = None if own else self.probabilities_in(round_, allowed)
        chance = nan if probabilities is None else self._marginal(action, context, round_, probabilities, {})
        ticket = Ticket(round_, None, context, action)
        ticket.action_probability = 1.0 / n_actions
        ticket.propensity = with_floor(chance, self.settings.explore, n_actions)
        return ticket

    def _fall_back(self, context: Context, round_: int, no_play: NoPlay) -> Ticket:
        fallback = self.settings.fallback
        try:
            action = fallback(context) if callable(fallback) else fallback
            action = check_action("fallback", action, n_offers(context), self.savable)
            check_offered("fallback", action, context)
        except Exception as failure:
            message = f"{no_play.error}, and the fallback failed ({describe_error(failure)})"
            raise NoLearnerAvailable(message) from failure
        return Ticket(round_, None, context, action)


def _failure(i: int, error: Exception) -> Failure:
    return Failure(i, error, isinstance(error, InvalidArgument) and not isinstance(error, InvalidProposal))


class Contexts:
    """Turns matrices into offers once per round if a learner has a feature map, and compares columns with learners.

    Offers keep the rows of every map, so that a map that several learners share is computed once per round, for
    deciding and for learning. Learners without a map see the context as it was given.
    """

    def __init__(self, pool: Pool) -> None:
        self._members = pool.members
        self._n_members = 0  # when it was last determined whether a learner has a map
        self._any_map = False
        self._compared = False  # whether the columns of a matrix were compared with those that learners use

    def offers(self, context: Context) -> Offers | None:
        """Return the context as offers if that saves work, else None."""
        if len(self._members) != self._n_members:
            self._n_members = len(self._members)
            self._any_map = any(member.learner is not None and member.learner.has_map for member in self._members)
        if not self._compared:
            self._compare(context)
        if not self._any_map or not isinstance(context, np.ndarray | list):
            return None
        try:
            return as_offers(context)
        except InvalidArgument:
            return None  # learners say what is wrong with it

    def check_first(self, context: Context) -> None:
        """Raise an error if the first context of a portfolio has too few columns for a learner.

        Later a learner that needs more than there are fails alone: one that was added must not stop the others.
        """
        n_columns, used = columns_of(context), self._columns_used()
        known = {name: n for name, n in used.items() if n is not None}
        widest = max(known, key=known.__getitem__, default="")
        if n_columns is not None and known and known[widest] > n_columns:
            raise InvalidArgument(
                f"context has {n_columns} columns, but must have at least {known[widest]} for learner {widest!r}"
            )

    def _compare(self, context: Context) -> None:
        n_columns = columns_of(context)
        if n_columns is None:
            return
        self._compared = True
        used = self._columns_used().values()
        known = [n for n in used if n is not None]
        if len(known) == len(used) and 0 < max(known, default=0) < n_columns:
            logger.warning(
                "no learner uses more than the first %d of the %d columns of the context", max(known), n_columns
            )

    def _columns_used(self) -> dict[str, int | None]:
        """Return how many columns each learner uses, by its name; None if that is not known."""
        return {each.name: each.learner.can.n_columns for each in self._members if each.learner is not None}


def n_offers(context: Context) -> int | None:
    """Return the number of actions that a context offers; None if it does not say."""
    if type(context) is np.ndarray:
        return len(context) if context.ndim == 2 else None
    return len(context) if isinstance(context, Offers) else None


def columns_of(context: Context) -> int | None:
    """Return the number of columns of a matrix or of offers; None for other contexts."""
    matrix = context.actions if isinstance(context, Offers) else context
    return matrix.shape[1] if isinstance(matrix, np.ndarray) and matrix.ndim == 2 else None


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


def with_floor(chance: float, floor: float, n_actions: int) -> float:
    """Return the propensity under an exploration floor, from the one without it."""
    return nan if isnan(chance) else floor / n_actions + (1.0 - floor) * chance


def count_actions(context: Context, members: Sequence[Member]) -> int:
    """Return the number of actions to explore: the offers of the context, or the arms of the learners."""
    n_actions = n_offers(context)
    if isinstance(context, Offers):
        n_actions = len(context.offered)
    if n_actions is None:
        arms = [member.learner.can.arms for member in members if member.learner is not None]
        n_actions = min((number for number in arms if number is not None), default=None)
    if n_actions is None:
        raise InvalidArgument(
            "explore needs finitely many actions, but the context is no matrix of offers and no learner has arms"
        )
    return n_actions


def nth_offered(context: Context, position: int) -> int:
    """Return the index of an action among all offers, from its position among those that the mask leaves."""
    return int(context.offered[position]) if isinstance(context, Offers) else position
