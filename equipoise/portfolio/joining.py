"""Learners that join a running portfolio, and learners that leave it."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.bounds import Bound, to_json
from equipoise.compatibility import check_learners, check_live
from equipoise.errors import InvalidArgument
from equipoise.learner import AdaptedLearner, MinimalLearner, can_be_restored
from equipoise.portfolio.inputs import adopt_schema
from equipoise.portfolio.state import PortfolioState
from equipoise.selector import ChangesPool, require
from equipoise.storage.parts import describe_part


def add_learner(state: PortfolioState, learner: MinimalLearner, bound: Bound | None) -> str:
    """Add a learner, with a bound if the selector needs one; return its name."""
    selection = state.selection
    add: Callable[..., int] = require(selection.selector, ChangesPool, "change its pool").add_learner
    check_learners([*(each for each in state.pool.learners if each is not None), learner])
    check_live(selection.selector, [learner])
    adopt_schema([learner], state.inputs.schema, state.settings.action_names)
    adapted = AdaptedLearner(learner)
    selection.check_joining(adapted, bound)
    further = {} if selection.can.admits is None else selection.can.admits.joining(learner)
    selection.adopt(adapted, state.settings.reward_range)
    index = add(bound, **further)
    selection.refresh()
    member = state.pool.add(adapted)
    state.savable = state.rounds.savable = state.savable and can_be_restored(learner)
    state.rounds.refresh_learners()
    state.updates.sharing |= {index} & selection.sharing(state.pool, state.settings.share_data)
    if index in selection.presumed(state.pool) and state.settings.delays == "any":
        state.updates.learn_in_order(index)
    row = describe_part(learner) if can_be_restored(learner) else {"class": type(learner).__name__}
    given = None if bound is None else to_json(bound)
    state.events.emit("learner_added", {"name": member.name, "learner": row, "bound": given})
    return member.name


def remove_learner(state: PortfolioState, name: str) -> None:
    """Remove a learner; its open decisions may still get their rewards."""
    i = state.pool.index(name)
    remove = require(state.selection.selector, ChangesPool, "change its pool").remove_learner
    if len(list(state.pool.present())) == 1:
        raise InvalidArgument(f"learner {name!r} is the last one, but a portfolio must have at least one")
    remove(i)
    state.updates.remove(i)
    state.pool.remove(name)
