"""The propensity of an action: its probability given the context and the past.

It is sum_e p_e P_e(a), where p_e is the probability with which the selector draws expert e (a learner, or its greedy
action) and P_e(a) the probability with which the action is a if e is drawn. P_e comes from `pmf` if the learner has it;
a learner that draws no random numbers picks its proposal. In place of a learner that cannot act stands its substitute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isnan, nan
from typing import NamedTuple, Protocol

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learner import Proposal
from equipoise.portfolio.events import logger
from equipoise.portfolio.pool import Pool, Selection, describe_error
from equipoise.selector import Choice
from equipoise.types import Action, Array, Context

Odds = Sequence[
    tuple[int, bool, float]
]  # of every expert that can be drawn: learner, whether it is greedy, probability
NO_PMF = "it draws actions at random and has no pmf"
SILENT = "it is silent, so it is not asked what it would do in rounds of others"
NO_ODDS = "it does not tell the probabilities of its draws"


class InvalidProposal(InvalidArgument):
    """An invalid proposal: a failure of its learner, not of the caller."""


class Failure(NamedTuple):
    """A learner that could not act: its index, the error, and whether it refused the context."""

    learner: int
    error: Exception
    refused: bool


class Answers(Protocol):
    """What the learners propose in a round."""

    proposals: dict[int, Proposal]  # of those that were asked and answered
    failures: dict[int, Failure]  # of those that were asked and could not act
    pmfs: dict[int, Array]  # of the learners that were asked for theirs

    def acting(self, i: int) -> int | None: ...  # the learner that acts if learner i is drawn; None: no learner can


class Propensities:
    """Computes propensities, and knows why some are unknown."""

    def __init__(self, selection: Selection, pool: Pool) -> None:
        self._selection, self._members, self._can = selection, pool.members, selection.can
        self.unknown: dict[str, str] = {}  # the reason, by the name of the learner or selector

    def odds(self, choice: Choice | None, available: tuple[int, ...] | None) -> Odds | None:
        """Return the probabilities of the experts: of a draw or, with None, of the next one; None if it cannot tell."""
        can, traits = self._can, self._selection.traits
        if can.odds is not None:
            experts, numbers = traits.experts, can.odds.odds(choice, available)
        elif can.chances is not None and not traits.experts:
            chances = can.chances.choice_probabilities
            numbers = chances() if available is None else chances(available)
            experts = tuple([(i, False) for i in range(len(numbers))])
        else:
            self.unknown[can.name] = NO_ODDS
            return None
        return [(i, greedy, chance) for (i, greedy), chance in zip(experts, numbers, strict=True) if chance > 0.0]

    def marginal(
        self,
        action: Action,
        context: Context,
        offers: Offers | None,
        odds: Odds,
        answers: Answers,
        known: Mapping[int, float],
        of_fallback: Callable[[], float],
    ) -> float:
        """Return the probability of an action over all draws; nan if it is unknown. Never fail.

        `offers` is the context for learners with a feature map, `known` has what `of_learner` has returned already, and
        `of_fallback` is the probability if no learner acts.
        """
        silent = [member.name for member in (self._members[i] for i, _, _ in odds) if member.adapted.can.silent]
        if silent:  # before any learner is asked, as a silent one could be the substitute of another
            self.unknown |= dict.fromkeys(silent, SILENT)
            return nan
        total = 0.0
        for i, greedy, chance in odds:
            acting = answers.acting(i)
            if acting != i and self.fails_at_random(i, answers):
                return nan
            if acting is None:
                picks = of_fallback()
            elif greedy and acting == i:
                picks = float(np.array_equal(action, answers.proposals[i].greedy))
            elif acting in known:
                picks = known[acting]
            else:
                picks = self.of_learner(acting, action, context, offers, answers)
            total += chance * picks
        return 1.0 if total > 1.0 else total  # rounding may leave more; nan stays

    def of_learner(self, i: int, action: Action, context: Context, offers: Offers | None, answers: Answers) -> float:
        """Return the probability with which learner i picks the action; nan, and note why, if it cannot tell."""
        member = self._members[i]
        learner = member.adapted
        if "pmf" not in learner.provides:
            if not learner.randomized:
                return float(np.array_equal(action, answers.proposals[i].action))
            self.unknown[member.name] = NO_PMF
            return nan
        probabilities = answers.pmfs.get(i)
        try:
            if probabilities is None:
                probabilities = learner.pmf(learner.sees(context, offers))
                assert probabilities is not None  # the learner provides "pmf"
                check_fits(member.name, probabilities, context)
                answers.pmfs[i] = probabilities
        except Exception as error:  # a learner that cannot tell now does not spoil the decision
            if member.name not in self.unknown:
                logger.warning("propensities are unknown: %s", describe_error(error))
            self.unknown[member.name] = describe_error(error)
            return nan
        self.unknown.pop(member.name, None)
        # An action of another learner may be no index, or one that this learner does not know.
        return float(probabilities[action]) if type(action) is int and action < len(probabilities) else 0.0

    def fails_at_random(self, i: int, answers: Answers) -> bool:
        """Whether a learner drew what it proposed, and it is invalid: then it acts with a probability between 0 and 1.

        A learner that raises an error is presumed to do so whatever it draws.
        """
        failed, member = answers.failures.get(i), self._members[i]
        if failed is None or not member.adapted.randomized or not isinstance(failed.error, InvalidProposal):
            return False
        self.unknown[member.name] = f"it drew an invalid proposal: {describe_error(failed.error)}"
        return True

    def note(self, i: int, probability: float) -> float:
        """Return the probability with which learner i picked its action, and note if it has none."""
        if isnan(probability) and "pmf" not in self._members[i].adapted.provides:
            self.unknown[self._members[i].name] = NO_PMF
        return probability


def check_fits(name: str, probabilities: Array, context: Context) -> None:
    """Raise an error unless these are the probabilities of the offered actions."""
    actions = context.actions if isinstance(context, Offers) else context
    n_offers = len(actions) if isinstance(actions, np.ndarray) and actions.ndim == 2 else len(probabilities)
    if len(probabilities) != n_offers:
        raise InvalidArgument(f"pmf of {name!r} has {len(probabilities)} entries, but there are {n_offers} offers")
    if isinstance(context, Offers) and context.mask is not None and probabilities[~context.mask].any():
        raise InvalidArgument(f"pmf of {name!r} is positive for an offer that the mask excludes, but must be 0 there")


def with_floor(chance: float, floor: float, n_actions: float) -> float:
    """Return the propensity under an exploration floor over `n_actions`, inf for an action that the floor never draws.

    `chance` is the one without a floor.
    """
    return nan if isnan(chance) else floor / n_actions + (1.0 - floor) * chance
