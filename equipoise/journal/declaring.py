"""Bring a portfolio that has begun to the learners and settings of a file or a program: at a start and on a reload.

Safe are settings that may change while a portfolio runs, more names of actions after the present ones, and learners
that join or leave. Any other difference, such as another selector or another setting of a learner, would change what
was learned or proved. It is refused by name, and then nothing changes.

The portfolio keeps the name by which a declaration calls each learner. A learner without such a name was added at run
time and stays. A learner that was removed at run time stays away while the declaration names it. A name that left the
declaration and is in it again is a new learner, whose name in the portfolio gets a number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple, Self

from equipoise.bounds import Bound, from_json
from equipoise.errors import InvalidArgument
from equipoise.features.maps import follows_from_schema
from equipoise.learner import MinimalLearner, part_name
from equipoise.portfolio import Portfolio
from equipoise.portfolio.settings import PortfolioSettings
from equipoise.selector import traits_of
from equipoise.settings import equal_data
from equipoise.storage.files import canonical_json
from equipoise.storage.parts import fingerprint
from equipoise.types import Config, Plain

Names = tuple[str | None, ...]  # by which a declaration calls the learners, by index; None for the others


class Joining(NamedTuple):
    """A learner that joins."""

    learner: MinimalLearner
    bound: Bound | None


class Plan(NamedTuple):
    """The changes that a declaration asks for."""

    settings: PortfolioSettings
    joining: tuple[Joining, ...]
    leaving: tuple[str, ...]  # names in the portfolio
    names: Names  # after the changes

    @classmethod
    def of(cls, portfolio: Portfolio, template: Portfolio, began: Config | None = None) -> Self:
        """Return the changes to a portfolio; refuse by name a difference that is not safe.

        Parameters
        ----------
        portfolio
            The portfolio; it is left as it is.
        template
            A new portfolio, as the declaration makes it.
        began
            The state in which the portfolio began. Each part must be as it is now, or as it began, because some
            settings change at run time.
        """
        portfolio.declare(template.declared, check_only=True)
        parts = _Parts.of(portfolio, portfolio)
        first = None if began is None else _Parts.of_state(began, portfolio)
        given = _Parts.of(template, portfolio)
        # A portfolio that was given no selector says nothing about it, and the one that is recommended may change.
        if given.selector not in (parts.selector, first and first.selector) and not template.recommendation:
            raise InvalidArgument(
                "selector has other settings, or is another one, but must stay: serve it as a portfolio of another name"
            )
        names = portfolio.declared_learners or _presumed(portfolio, template, began)
        return cls(template.declared, *_changes(portfolio, template, names, given, (parts, first)))

    def apply(self, portfolio: Portfolio) -> None:
        """Make the changes: all of them or, after an error, none."""
        if self.joining or self.leaving:  # if a later step is refused, none must have been taken
            self._change(portfolio.rehearsal())
        self._change(portfolio)

    def _change(self, portfolio: Portfolio) -> None:
        portfolio.declare(self.settings)
        for learner, bound in self.joining:
            portfolio.add_learner(deepcopy(learner), bound=bound)
        for name in self.leaving:
            portfolio.remove_learner(name)
        portfolio.declare(self.settings, learners=self.names)


class _Parts(NamedTuple):
    """The selector and the learners as they were given, in a form that can be compared."""

    selector: str
    learners: tuple[str | None, ...]  # by index; None for one that was removed

    @classmethod
    def of(cls, described: Portfolio, portfolio: Portfolio) -> Self:
        """Describe the parts of the portfolio, or of another one that is compared with it."""
        rows = [None if each is None else fingerprint(each) for each in described.learners]
        return cls._given(rows, fingerprint(described.selector), described.restarted_settings[1], portfolio)

    @classmethod
    def of_state(cls, state: Config, portfolio: Portfolio) -> Self:
        return cls._given(state["learners"], state["selector"], state["drift"]["delta"], portfolio)

    @classmethod
    def _given(cls, rows: Sequence[Config | None], selector: Config, delta: float, portfolio: Portfolio) -> Self:
        """Describe parts without what does not count.

        These are settings of the selector that restarts have changed, but for the delta that they began with, and a
        range of rewards that is the one in effect: a part need not state it.
        """
        limits, (changed, _) = portfolio.reward_range, portfolio.restarted_settings
        left_out = {"n_learners", "bounds", *traits_of(portfolio.selector).per_learner, *changed}
        rules = {key: each for key, each in _without_range(selector["config"], limits).items() if key not in left_out}
        bounds = bounds_of(selector)
        learners = [
            None if row is None else _as_given(row, [_as_stated(row["config"], limits), bounds.get(i)])
            for i, row in enumerate(rows)
        ]
        return cls(_as_given(selector, [rules, delta if "delta" in changed else None]), tuple(learners))


def _as_given(row: Config, config: Plain) -> str:
    return canonical_json({"class": row["class"], "config": config}).decode()


def _without_range(config: Config | None, limits: tuple[float, float] | None) -> Config:
    """Return the settings of a part, without a range of rewards that is not stated or is this one."""
    given = dict(config or {})
    stated = given.get("reward_range")
    if stated is None or equal_data(stated, limits):
        given.pop("reward_range", None)
    return given


def _as_stated(config: Config | None, limits: tuple[float, float] | None) -> Config:
    """Return the settings of a learner, without features and a bound that followed from a schema, which may grow."""
    given = _without_range(config, limits)
    if not follows_from_schema(given):
        return given
    bound = 1.0 if given["features"]["norm_bound"] is None else given["features"]["norm_bound"]
    followed = {"dim", "features", *(("action_bound",) if given.get("action_bound") == bound else ())}
    return {
        **{name: each for name, each in given.items() if name not in followed},
        "features": given["features"].get("stated"),
    }


def bounds_of(selector: Config) -> Mapping[int, Config]:
    """Return the bounds of the learners, as plain data, that a described selector has."""
    return dict(enumerate((selector["config"] or {}).get("bounds") or ()))


def _presumed(portfolio: Portfolio, template: Portfolio, began: Config | None) -> Names:
    """Return names for a journal of an earlier release: of the learners that it began with, and of those that match."""
    first = [] if began is None else [member["name"] for member in began["members"]]
    wanted, found = set(template.learner_names), list[str | None](first)
    present = {name for name, learner in zip(first, portfolio.learners, strict=False) if learner is not None}
    for name, learner in list(zip(portfolio.learner_names, portfolio.learners, strict=True))[len(first) :]:
        own = () if learner is None else (name, part_name(learner))
        fitting = [each for each in own if each in wanted - present]
        found.append(fitting[0] if fitting else None)
        present.update(fitting[:1])
    return tuple(found)


def _changes(
    portfolio: Portfolio, template: Portfolio, names: Names, given: _Parts, known: tuple[_Parts, _Parts | None]
) -> tuple[tuple[Joining, ...], tuple[str, ...], Names]:
    """Return who joins, who leaves, and the declared names afterwards."""
    present = [learner is not None for learner in portfolio.learners]
    after, joining, joined = list(names), list[Joining](), list[str]()
    bounds = bounds_of(fingerprint(template.selector))
    for j, name in enumerate(template.learner_names):
        i = _find(name, names, portfolio.learner_names, present)
        if i is None:
            bound = bounds.get(j)
            joining.append(Joining(template.learners[j], None if bound is None else from_json(bound)))
            joined.append(name)
        elif present[i]:
            _check_same(name, i, given.learners[j], known)
            after[i] = name
    wanted = set(template.learner_names)
    leaving = [
        portfolio.learner_names[i]
        for i, name in enumerate(names)
        if present[i] and name is not None and name not in wanted
    ]
    return tuple(joining), tuple(leaving), (*(name if name in wanted else None for name in after), *joined)


def _find(name: str, declared: Names, names: Sequence[str], present: Sequence[bool]) -> int | None:
    """Return the learner of a name in the declaration, which may have been removed at run time; None if it is new.

    One that was added at run time under this name counts.
    """
    ours = [i for i, each in enumerate(declared) if each == name]
    others = [i for i, each in enumerate(names) if each == name and declared[i] is None and present[i]]
    found = sorted([*ours, *others], key=lambda i: present[i])
    return found[-1] if found else None


def _check_same(name: str, i: int, given: str | None, known: Sequence[_Parts | None]) -> None:
    """Raise an error if a learner is declared otherwise than it is and than it began."""
    if not any(parts is not None and i < len(parts.learners) and parts.learners[i] == given for parts in known):
        raise InvalidArgument(
            f"learner {name!r} has other settings, or another bound, but must keep them: add one of another name"
        )
