"""What can change while a portfolio runs: its learners and its settings.

A learner that joins late has the next index; a removed one keeps its index, so that certificates and open decisions
stay true. Open decisions survive every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from equipoise.bounds import Bound, Observed, from_json, to_json
from equipoise.compatibility import check_learners, check_sharing
from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.learner import AdaptedLearner, MinimalLearner, can_be_restored, unique_names
from equipoise.portfolio import units
from equipoise.portfolio.deadlines import deadline_to_plain
from equipoise.portfolio.members import Member
from equipoise.selector import require_member, traits_of
from equipoise.settings.checks import boolean, fraction, one_of, text
from equipoise.storage.parts import describe_part, rebuild_learners
from equipoise.types import Config, Plain

if TYPE_CHECKING:
    from equipoise.portfolio.portfolio import Portfolio

CHANGEABLE = ("availability", "deadline", "default_reward", "explore", "fallback", "selector", "share_data")


def add_learner(portfolio: Portfolio, learner: MinimalLearner, bound: Bound | None) -> str:
    """Add a learner; its name gets a number if it is taken."""
    add = require_member(portfolio._selector, "add_learner", "change its pool")
    present = [given for given in portfolio.learners if given is not None]
    check_learners([*present, learner])
    adapted = AdaptedLearner(learner)
    _check_needs(portfolio, adapted, bound)
    units.join(adapted, portfolio.reward_range, portfolio._traits.noise)
    index = add(bound)
    name = unique_names([*portfolio.learner_names, adapted.name])[-1]
    portfolio._members.append(Member(adapted, name))
    portfolio._traits = traits_of(portfolio._selector)
    portfolio._savable = portfolio._chooser.savable = portfolio._savable and can_be_restored(learner)
    if portfolio.share_data and "off_policy" in adapted.accepts:
        portfolio._teaching.sharing.add(index)
    if isinstance(bound, Observed) and portfolio.delays == "any":
        portfolio._teaching.learn_in_order(index)
    row = describe_part(learner) if can_be_restored(learner) else {"class": type(learner).__name__}
    portfolio._emit("learner_added", {"name": name, "learner": row, "bound": None if bound is None else to_json(bound)})
    return name


def _check_needs(portfolio: Portfolio, learner: AdaptedLearner, bound: Bound | None) -> None:
    needs = portfolio._selector.needs
    if "bounds" in needs and bound is None:
        raise InvalidArgument(f"bound is None, but {type(portfolio._selector).__name__} needs one for every learner")
    if isinstance(bound, Observed) and "regret" not in learner.provides:
        raise InvalidArgument(f"bound is Observed, but learner {learner.name!r} provides no 'regret'")
    if "lower" in needs and "lower" not in learner.provides:
        raise InvalidArgument(f"learner {learner.name!r} provides no 'lower', which the selector needs")
    if "weight" in needs and "weight" not in learner.accepts:
        raise InvalidArgument(f"learner {learner.name!r} does not accept 'weight', which the selector needs")


def remove_learner(portfolio: Portfolio, name: str) -> None:
    i = portfolio._index(name)
    remove = require_member(portfolio._selector, "remove_learner", "change its pool")
    if sum(member.learner is not None for member in portfolio._members) == 1:
        raise InvalidArgument(f"learner {name!r} is the last one, but a portfolio must have at least one")
    remove(i)
    portfolio._members[i].learner = None
    portfolio._teaching.remove(i)
    portfolio._emit("learner_removed", {"name": name})


def rename_learner(portfolio: Portfolio, name: str, new: str) -> None:
    i = portfolio._index(name)
    if text("new", new) in portfolio.learner_names:
        raise InvalidArgument(f"new is {new!r}, but must differ from the names of the other learners")
    portfolio._members[i].name = new
    portfolio._emit("learner_renamed", {"name": name, "new": new})


def suspend(portfolio: Portfolio, name: str) -> None:
    portfolio._members[portfolio._index(name)].suspended = True
    portfolio._chooser.any_unavailable = True
    portfolio._emit("learner_suspended", {"name": name, "error": "by request"})


def resume(portfolio: Portfolio, name: str) -> None:
    portfolio._members[portfolio._index(name)].resume()
    portfolio._emit("learner_resumed", {"name": name})


def reconfigure(portfolio: Portfolio, changes: Mapping[str, Plain]) -> None:
    """Change settings, all of them or, after an error, none."""
    for name in changes:
        if name not in CHANGEABLE:
            raise UnknownSetting("changeable setting", name, CHANGEABLE)
    now = {"deadline": deadline_to_plain(portfolio.deadline), "default_reward": portfolio.default_reward}
    deadlines = {**now, **{name: changes[name] for name in now if name in changes}}
    deadline, default_reward = portfolio._check_deadline(**deadlines)
    if portfolio.aggregate != "first" and deadline is None:
        raise InvalidArgument(f"deadline is None with aggregate {portfolio.aggregate!r}, which needs one")
    explore = fraction("explore", changes.get("explore", portfolio.explore))
    availability = one_of("availability", changes.get("availability", portfolio.availability), ("any", "independent"))
    share_data = boolean("share_data", changes.get("share_data", portfolio.share_data))
    sharing = _sharing(portfolio) if share_data else set()
    if "selector" in changes:
        _reconfigure_selector(portfolio, changes["selector"])
    portfolio.deadline, portfolio.default_reward, portfolio.explore = deadline, default_reward, explore
    portfolio.availability, portfolio._timed = availability, isinstance(deadline, float)
    portfolio._chooser.independent = availability == "independent"
    if share_data != portfolio.share_data:
        portfolio.share_data, portfolio._teaching.sharing = share_data, sharing
    portfolio.fallback = changes.get("fallback", portfolio.fallback)
    if portfolio._listeners.any:
        plain = {name: value for name, value in changes.items() if not callable(value)}
        if "deadline" in plain:
            plain["deadline"] = deadline_to_plain(deadline)
        portfolio._emit("config", {"changes": plain})


def _sharing(portfolio: Portfolio) -> set[int]:
    active = set(portfolio._selector.active)
    members = portfolio._members
    learners = [member.adapted.learner for member in members if member.learner is not None]
    positions = [i for i, member in enumerate(members) if member.learner is not None]
    return {positions[k] for k in check_sharing(portfolio._selector, learners)} & active


def _reconfigure_selector(portfolio: Portfolio, settings: Mapping[str, Plain]) -> None:
    require_member(portfolio._selector, "reconfigure", "change its settings")(**settings)
    portfolio._traits = traits_of(portfolio._selector)


def rebuilt(row: Config) -> MinimalLearner:
    """The learner of an event, as it was when it joined."""
    (learner,) = rebuild_learners([row], None)
    restored: Any = learner
    restored.restore(row["state"])
    return learner


def bound_from(row: Config | None) -> Bound | None:
    return None if row is None else from_json(row)
