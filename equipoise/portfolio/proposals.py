"""Checks of what a learner proposes. A proposal that makes no sense is a failure of its learner, not of the caller."""

from __future__ import annotations

from collections.abc import Awaitable
from math import inf, isfinite, isnan

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learner import Proposal
from equipoise.portfolio.tickets import copy_if_mutable
from equipoise.storage.parts import check_savable
from equipoise.types import Action, Context


class InvalidProposal(InvalidArgument):
    """What a learner proposed makes no sense."""


def n_offers(context: Context) -> int | None:
    """The number of actions that a context offers; None if it does not say."""
    if type(context) is np.ndarray:
        return len(context) if context.ndim == 2 else None
    return len(context) if isinstance(context, Offers) else None


def check_proposal(proposal: Proposal, n_actions: int | None, lower: bool, savable: bool) -> Proposal:
    """The proposal with a plain action; raises an error if it makes no sense. `lower` if a lower bound is needed."""
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
    """The action, an index as a Python integer; `n_actions` is the number of offers if it is known."""
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
        close = getattr(action, "close", None)
        if close is not None:
            close()  # otherwise Python warns that it was never awaited
        raise InvalidProposal(f"{name} is a {type(action).__name__}, but decide() must not be asynchronous")
    if n_actions is not None:
        raise InvalidProposal(f"{name} is {action!r:.80}, but must be an index from 0 to {n_actions - 1}")
    if isinstance(action, tuple):
        raise InvalidProposal(f"{name} is {action!r:.80}, but must not be a tuple: return a Proposal(action, ...)")
    if isinstance(action, float) and not isfinite(action):
        raise InvalidProposal(f"{name} is {action!r}, but must be finite")
    if isinstance(action, np.ndarray) and action.dtype.kind == "f" and not np.isfinite(action).all():
        raise InvalidProposal(f"{name} has an entry that is not finite")
    if savable and not callable(action):  # a policy of an episode is not saved: learners learn from the outcome
        check_savable(action, name)
    return copy_if_mutable(action)


def check_offered(name: str, action: Action, context: Context) -> None:
    """Raise an error if the mask of the offers excludes the action."""
    if isinstance(context, Offers) and context.mask is not None and action is not None and not context.mask[action]:
        raise InvalidProposal(f"{name} is {action}, but the mask of the offers excludes it")
