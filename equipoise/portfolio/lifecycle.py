"""What can change while a portfolio runs: its learners and its settings.

A learner that joins late has the next index; a removed one keeps its index, so that certificates and open decisions
stay true. Open decisions survive every change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from equipoise.bounds import Bound, Observed, from_json, to_json
from equipoise.compatibility import check_learners
from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.learner import AdaptedLearner, MinimalLearner, can_be_restored, part_name, unique_names
from equipoise.portfolio import units
from equipoise.portfolio.deadlines import deadline_to_plain
from equipoise.portfolio.members import Member
from equipoise.portfolio.state import PortfolioState
from equipoise.selector import Selector, require_member, traits_of
from equipoise.settings.checks import boolean, fraction, one_of, text
from equipoise.storage.parts import describe_part, rebuild_learners
from equipoise.types import Config, Plain

CHANGEABLE = ("availability", "deadline", "default_reward", "explore", "fallback", "selector", "share_data")


class Lifecycle(PortfolioState):
    """Changes of the pool and of settings."""

    def add_learner(self, learner: MinimalLearner, *, bound: Bound | None = None) -> str:
        """Add a learner to the running portfolio, with a bound if the selector needs one; returns its name."""
        with self._lock:
            add = require_member(self._selector, "add_learner", "change its pool")
            check_learners([*(member.learner.learner for member in self._members if member.learner), learner])
            adapted = AdaptedLearner(learner)
            _check_needs(self._selector, adapted, bound)
            joining = getattr(self._selector, "joining", None)
            settings = {} if joining is None else joining(learner)
            units.join(adapted, self.reward_range, self._traits.noise)
            index = add(bound, **settings)
            self._chooser.learn_twins()
            name = unique_names([*(member.name for member in self._members), adapted.name])[-1]
            self._members.append(Member(adapted, name))
            self._traits = traits_of(self._selector)
            self._savable = self._chooser.savable = self._savable and can_be_restored(learner)
            if self.share_data and "off_policy" in adapted.accepts:
                self._teaching.sharing.add(index)
            if isinstance(bound, Observed) and self.delays == "any":
                self._teaching.learn_in_order(index)
            row = describe_part(learner) if can_be_restored(learner) else {"class": type(learner).__name__}
            given = None if bound is None else to_json(bound)
            self._emit("learner_added", {"name": name, "learner": row, "bound": given})
            return name

    def remove_learner(self, name: str) -> None:
        """Remove a learner: it plays and learns no more. Its open decisions may still get their rewards."""
        with self._lock:
            i = self._index(name)
            remove = require_member(self._selector, "remove_learner", "change its pool")
            if sum(member.learner is not None for member in self._members) == 1:
                raise InvalidArgument(f"learner {name!r} is the last one, but a portfolio must have at least one")
            remove(i)
            self._members[i].learner = None
            self._teaching.remove(i)
            self._emit("learner_removed", {"name": name})

    def rename_learner(self, name: str, new: str) -> None:
        """Give a learner another name."""
        with self._lock:
            i = self._index(name)
            if text("new", new) in (member.name for member in self._members):
                raise InvalidArgument(f"new is {new!r}, but must differ from the names of the other learners")
            self._members[i].name = new
            self._emit("learner_renamed", {"name": name, "new": new})

    def suspend(self, name: str) -> None:
        """Let a learner play no more until it is resumed; it goes on learning."""
        with self._lock:
            self._members[self._index(name)].suspended = True
            self._chooser.any_unavailable = True
            self._emit("learner_suspended", {"name": name, "error": "by request"})

    def resume(self, name: str) -> None:
        """Let a learner play again that was suspended, by request or because of failures."""
        with self._lock:
            self._members[self._index(name)].resume()
            self._emit("learner_resumed", {"name": name})

    def reconfigure(self, **changes: Plain) -> None:
        """Change settings of the running portfolio: all that are given or, after an error, none.

        `deadline` and `default_reward`, `share_data`, `fallback`, `explore`, `availability`; and `selector`, a dict of
        settings that the selector can change.
        """
        with self._lock:
            for name in changes:
                if name not in CHANGEABLE:
                    raise UnknownSetting("changeable setting", name, CHANGEABLE)
            now = {"deadline": deadline_to_plain(self.deadline), "default_reward": self.default_reward}
            deadlines = {**now, **{name: changes[name] for name in now if name in changes}}
            deadline, default_reward = self._check_deadline(**deadlines)
            if self.aggregate != "first" and deadline is None:
                raise InvalidArgument(f"deadline is None with aggregate {self.aggregate!r}, which needs one")
            explore = fraction("explore", changes.get("explore", self.explore))
            options = ("any", "independent")
            availability = one_of("availability", changes.get("availability", self.availability), options)
            share_data = boolean("share_data", changes.get("share_data", self.share_data))
            if "share_data" in changes and hasattr(self._selector, "taught_by"):
                name = part_name(self._selector)
                raise InvalidArgument(f"share_data is {share_data}, but {name} decides itself what each learner learns")
            sharing = self._sharing() if share_data else set()
            fallback = self._check_fallback(changes.get("fallback", self.fallback))
            if not isinstance(changes.get("selector", {}), Mapping):
                raise InvalidArgument(f"selector is {changes['selector']!r:.80}, but must be a dict of settings")
            if "selector" in changes:
                require_member(self._selector, "reconfigure", "change its settings")(**changes["selector"])
                self._traits = traits_of(self._selector)
            self.deadline, self.default_reward, self.explore = deadline, default_reward, explore
            self.availability, self._timed = availability, isinstance(deadline, float)
            self._chooser.independent = availability == "independent"
            if share_data != self.share_data:
                self.share_data, self._teaching.sharing = share_data, sharing
            self.fallback = fallback
            plain = {name: value for name, value in changes.items() if not callable(value)}
            if "deadline" in plain:
                plain["deadline"] = deadline_to_plain(deadline)
            self._emit("config", {"changes": plain})


def _check_needs(selector: Selector, learner: AdaptedLearner, bound: Bound | None) -> None:
    if "bounds" in selector.needs and bound is None:
        raise InvalidArgument(f"bound is None, but {type(selector).__name__} needs one for every learner")
    if isinstance(bound, Observed) and "regret" not in learner.provides:
        raise InvalidArgument(f"bound is Observed, but learner {learner.name!r} provides no 'regret'")
    if "lower" in selector.needs and "lower" not in learner.provides:
        raise InvalidArgument(f"learner {learner.name!r} provides no 'lower', which the selector needs")
    if "weight" in selector.needs and "weight" not in learner.accepts:
        raise InvalidArgument(f"learner {learner.name!r} does not accept 'weight', which the selector needs")


def rebuilt(row: Config) -> MinimalLearner:
    """The learner of an event, as it was when it joined."""
    (learner,) = rebuild_learners([row], None)
    restored: Any = learner
    restored.restore(row["state"])
    return learner


def bound_from(row: Config | None) -> Bound | None:
    return None if row is None else from_json(row)
