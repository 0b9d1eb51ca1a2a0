"""Settings of a portfolio, each stated once: check, doc, key in a file, whether it may change while a portfolio runs.

The constructor, `reconfigure`, saved files, `portfolio.toml`, the comparison of a file with a journal, reloads and the
reference all derive from the fields of `PortfolioSettings`. A new setting is a new field here, and an argument of
`Portfolio`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from typing import Any, NoReturn, Self

from equipoise.errors import InvalidArgument, UnknownSetting
from equipoise.features.offers import check_ids
from equipoise.features.schema import Schema, check_schema
from equipoise.settings import equal_data, optional, parameter_entry
from equipoise.settings.checks import boolean, count, fraction, interval, one_of, real, text
from equipoise.types import Config, Plain

AGGREGATES = ("first", "sum", "last")
DELAYS = ("any", "independent", "exogenous")
RESPONSES = ("warn", "restart", "ignore")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
DURATION = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)\s*([smhd])")
MAX_SECONDS = 1e10
TOGETHER = ("deadline", "default_reward")  # a file that changes one of them states both
FUNCTION = ("function",)  # a fallback that is a function, as plain data; a tuple is not an action


def check_duration(name: str, duration: object) -> int | float:
    """Return a duration as a whole number of rounds or as a float of seconds.

    >>> check_duration("deadline", 100), check_duration("deadline", "1.5h"), check_duration("d", timedelta(days=1))
    (100, 5400.0, 86400.0)
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, str):
        match = DURATION.fullmatch(duration.strip())
        if match is None:
            raise InvalidArgument(f"{name} is {duration!r}, but a text must be a number and a unit, such as '24h'")
        seconds = float(match[1]) * SECONDS[match[2]]
    elif isinstance(duration, float):  # checked before: seconds
        seconds = duration
    else:
        return count(name, duration)
    if not 0.0 < seconds <= MAX_SECONDS:
        raise InvalidArgument(f"{name} is {duration!r}, but must be positive and at most {MAX_SECONDS:g} seconds")
    return seconds


Duration = timedelta | str | float  # a float is a number of seconds


def check_seconds(name: str, duration: object) -> float:
    """Return a duration in seconds; a number of rounds is refused."""
    seconds = check_duration(name, duration)
    if not isinstance(seconds, float):
        raise InvalidArgument(f"{name} is {duration!r}, but must be a timedelta or a text such as '30d'")
    return seconds


def check_deadline(name: str, deadline: object) -> int | float:
    """Return a deadline; a number given by a caller is a number of rounds, so it must be whole."""
    return count(name, deadline) if isinstance(deadline, float) else check_duration(name, deadline)


def duration_to_plain(duration: int | float | None) -> int | str | None:
    """Return a checked duration as an argument from which the same one is made."""
    return f"{duration!r}s" if isinstance(duration, float) else duration


def check_names(name: str, names: object) -> tuple[str, ...]:
    """Return different names as a tuple."""
    return check_ids(names, name)


def _names_grow(now: tuple[str, ...], wanted: tuple[str, ...] | None) -> str:
    """Return the rule that wanted names break; empty if they begin with the present ones."""
    return "" if wanted is not None and wanted[: len(now)] == now else f"begin with {now!r:.80}"


def _schema_grows(now: Schema, wanted: Schema | None) -> str:
    return f"stay {now!r:.80}" if wanted is None else wanted.rule_against(now)


def lost_function(context: object) -> NoReturn:
    """Stand for a fallback that was a function, which files and journals cannot keep."""
    raise InvalidArgument("fallback was a function, which is not kept: give it again with reconfigure(fallback=)")


def check_fallback(name: str, fallback: Any) -> Any:
    """Return a copy of an action, so that callers cannot change it; or a function."""
    if isinstance(fallback, tuple) and fallback == FUNCTION:
        return lost_function
    return fallback if callable(fallback) else deepcopy(fallback)


def _fallback_to_plain(fallback: Any) -> Plain:
    return FUNCTION if callable(fallback) else fallback


def portfolio_setting(
    default: Any,
    check: Callable[[str, Any], Any],
    doc: str,
    *,
    key: str | None = None,
    changeable: bool = False,
    grows: Callable[[Any, Any], str] | None = None,
    added: bool = False,
    encode: Callable[[Any], Plain] = lambda value: value,
) -> Any:
    """Declare a setting of a portfolio.

    `check` takes name and value, and returns the value to store or raises an error. `key` is its place in a file, by
    default its name. `changeable` settings may change while a portfolio runs. One that `grows` may get more entries at
    its end: the function takes the present value and the wanted one, and returns the rule that is broken, if any.
    One that was `added` is not in files of the first release, and is saved only where it differs from its default.
    `encode` makes plain data of a value, from which `check` makes the value again.
    """
    rules = {"check": check, "doc": doc, "key": key, "changeable": changeable, "grows": grows, "added": added}
    return field(default=default, metadata={**rules, "encode": encode})


@dataclass(frozen=True, kw_only=True)
class PortfolioSettings:
    """The settings of a portfolio, checked."""

    seed: int = portfolio_setting(
        0, partial(count, minimum=0, maximum=2**64 - 1), "Seed of all random numbers that learners and selector draw."
    )
    share_data: bool | None = portfolio_setting(
        None,
        optional(boolean),
        'Whether learners that accept "off_policy" learn from every round, whatever the others accept. True: an error '
        "if there is none. False: no learner learns from an action that it did not propose. Default: with "
        "`CounterfactualBalancing` as True, but without the error; with any other selector as False.",
        changeable=True,
    )
    deadline: int | float | None = portfolio_setting(
        None,
        optional(check_duration),
        "When a decision without a reward gets `default_reward`: after a number of later decisions (an int), or after "
        'a time (a timedelta, or a text such as "24h"). All statements are then about rewards with these defaults. A '
        "reward that arrives even later is logged and ignored. A change begins a new law: earlier rounds do not count.",
        key="reward.deadline",
        changeable=True,
        encode=duration_to_plain,
    )
    default_reward: float | None = portfolio_setting(
        None,
        optional(real),
        "The reward of decisions past their deadline; must be given together with `deadline`. A change begins a new "
        "law, as one of `deadline` does.",
        key="reward.default",
        changeable=True,
    )
    aggregate: str = portfolio_setting(
        "first",
        partial(one_of, options=AGGREGATES),
        '"first": the first reward of a decision is its reward. "sum" or "last": rewards until the deadline, each with '
        "a `key`, are added up, or the last one counts. All statements are then about the aggregate. A part that leads "
        "out of the range is refused, unless rewards are clipped.",
        key="reward.aggregate",
    )
    delays: str = portfolio_setting(
        "any",
        partial(one_of, options=DELAYS),
        '"any"; "independent" if the arrival time of a reward is independent of its value given context and action; '
        'or "exogenous" if delays might as well have been drawn before the first round, independently of contexts, '
        "actions and rewards; this needs `window`. This is a promise: if it is not true, certificates are not valid.",
    )
    window: int | None = portfolio_setting(
        None,
        optional(count),
        "Needed with exogenous delays, and only then: a play whose reward has not arrived after this many rounds is "
        "left out of evidence for good, so that no other reward waits for it.",
    )
    sticky: float | None = portfolio_setting(
        None,
        optional(check_seconds),
        'How long a unit keeps its decision (a timedelta, or a text such as "7d"): until then it gets the decision '
        "again, open or rewarded, and no round is drawn. Default: every call is a round.",
        changeable=True,
        added=True,
        encode=duration_to_plain,
    )
    fallback: Any = portfolio_setting(  # noqa: RUF009  it declares a field; an action, or a function from a context to one
        None,
        check_fallback,
        "The action, or a function from the context to the action, if no learner can act.",
        changeable=True,
        encode=_fallback_to_plain,
    )
    explore: float = portfolio_setting(
        0.0,
        fraction,
        "Probability with which an offered action is drawn uniformly, for no learner. Learners that share data learn "
        "from it too.",
        changeable=True,
    )
    reward_range: tuple[float, float] | None = portfolio_setting(
        None,
        optional(interval),
        "Lowest and highest reward, in any unit; said here once, and adopted by selector and learners that state none. "
        "Default: the range of the selector, which is (0, 1) unless it states another.",
        key="reward.range",
    )
    clip: bool = portfolio_setting(
        False,
        boolean,
        "Whether rewards outside of the range count as its nearer end; else they are refused. All statements are then "
        "about clipped rewards.",
        key="reward.clip",
    )
    on_drift: str = portfolio_setting(
        "warn",
        partial(one_of, options=RESPONSES),
        'What follows if one law of the rewards is refuted: "warn" for an event and a sentence in `describe()`, '
        '"restart" for a new epoch of the selector in addition, "ignore" if nothing is monitored. See docs/drift.md.',
    )
    action_names: tuple[str, ...] | None = portfolio_setting(
        None,
        optional(check_names),
        "Names of the actions, by index. They are kept, so that no file can swap the actions that were learned; more "
        "may be added at the end.",
        key="actions.names",
        grows=_names_grow,
    )
    schema: Schema | None = portfolio_setting(  # noqa: RUF009  as above; a schema never changes
        None,
        optional(check_schema),
        "Types of the features that contexts and offers have; see `equipoise.features.Schema`. It is kept, so that no "
        "column moves; more features, and more values of categories, may be added. In a file: tables [context.NAME] "
        "and [actions.features.NAME], and [schema] for unknown and hashed.",
        grows=_schema_grows,
        encode=lambda schema: None if schema is None else schema.to_plain(),
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, each.metadata["check"](each.name, getattr(self, each.name)))
        if (self.deadline is None) != (self.default_reward is None):
            given = f"deadline is {self.deadline!r} and default_reward is {self.default_reward!r}"
            raise InvalidArgument(f"{given}, but must be given together")
        if self.aggregate != "first" and self.deadline is None:
            raise InvalidArgument(
                f"aggregate is {self.aggregate!r} without a deadline, but needs one to know the reward"
            )
        if self.delays == "exogenous" and self.window is None:
            raise InvalidArgument("window is None with delays 'exogenous', but must be a number of rounds")
        if self.delays != "exogenous" and self.window is not None:
            raise InvalidArgument(
                f"window is {self.window!r} with delays {self.delays!r}, but needs delays 'exogenous'"
            )

    @classmethod
    def given(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the settings of a caller's arguments; unknown names are errors."""
        for name in arguments:
            if name not in cls.__dataclass_fields__:
                raise UnknownSetting("setting of Portfolio", name, cls.__dataclass_fields__)
        return cls(**{name: _from_caller(name, value) for name, value in arguments.items()})

    def check_changes(self, changes: Mapping[str, Any], in_effect: PortfolioSettings) -> dict[str, Any]:
        """Return changes to a running portfolio, checked; refuse by name those that may not be made.

        A setting that may not change can be given with the value that it has, and is left out. `in_effect` has values
        for settings that were not stated.
        """
        for name in changes:
            if name not in self.__dataclass_fields__:
                raise UnknownSetting("changeable setting", name, self._changeable)
        checked = {}
        for each in fields(self):
            if each.name in changes:
                value = _from_caller(each.name, changes[each.name])
                checked[each.name] = each.metadata["check"](each.name, value)
        return self._without_fixed(checked, in_effect)

    def to_plain(self) -> Config:
        """Return the settings as plain data; of a fallback that is a function, only that it was one is kept."""
        return {each.name: each.metadata["encode"](getattr(self, each.name)) for each in fields(self)}

    def to_saved(self) -> Config:
        """Return the same as files and journals keep it: without settings that were added later and not given."""
        unused = {each.name for each in fields(self) if each.metadata["added"] and getattr(self, each.name) is None}
        return {name: value for name, value in self.to_plain().items() if name not in unused}

    def changes_to(
        self, wanted: PortfolioSettings, declared: PortfolioSettings, in_effect: PortfolioSettings
    ) -> dict[str, Any]:
        """Return the arguments of `reconfigure` that lead to the wanted settings; refuse by name if one may not change.

        These are all settings in which `wanted` differs from those `declared` before, also where the present value is
        the wanted one: the declaration has changed. Other changes at run time stay. One function in place of another is
        not a change, as functions are not saved.
        """
        before, after = declared.to_plain(), wanted.to_plain()
        names = [name for name in after if not equal_data(before[name], after[name])]
        if set(TOGETHER) & set(names):
            names += [name for name in TOGETHER if name not in names]
        changes = self._without_fixed({name: getattr(wanted, name) for name in names}, in_effect)
        return {name: value if callable(value) else after[name] for name, value in changes.items()}

    @property
    def _changeable(self) -> list[str]:
        return [each.name for each in fields(self) if each.metadata["changeable"]]

    def _without_fixed(self, changes: Mapping[str, Any], in_effect: PortfolioSettings) -> dict[str, Any]:
        """Return the changes that may be made to checked values; raise an error if another setting would change."""
        changeable = self._changeable
        allowed = {name: each for name, each in changes.items() if name in changeable or self._grows(name, each)}
        refused = {
            name: value
            for name, value in changes.items()
            if name not in allowed
            and not equal_data(getattr(self, name), value)
            and not equal_data(getattr(in_effect, name), value)
        }
        if refused:
            wanted = " and ".join(f"{name} is {value!r:.80}" for name, value in refused.items())
            rules = " and ".join(in_effect._rule(name, value) for name, value in refused.items())
            raise InvalidArgument(
                f"{wanted}, but must {rules} for a portfolio that has begun; only {', '.join(changeable)} may change"
            )
        return allowed

    def _grows(self, name: str, value: Any) -> bool:
        """Return whether a value has the present entries of a setting first, and may have more."""
        return self._broken_rule(name, value) == ""

    def _broken_rule(self, name: str, value: Any) -> str | None:
        """Return the rule by which a setting grows that a value breaks, if any; None if the setting does not grow."""
        now, rule = getattr(self, name), self.__dataclass_fields__[name].metadata["grows"]
        if rule is None or now is None:
            return None
        broken: str = rule(now, value)
        return broken

    def _rule(self, name: str, value: Any) -> str:
        return self._broken_rule(name, value) or f"stay {getattr(self, name)!r:.80}"


@dataclass(frozen=True, init=False)
class Retention:
    """How long a journal keeps data, in seconds; None: for good. The table `[retention]` of a file.

    It is not a part of the portfolio: it changes no decision and no statement, and journals do not store it.
    """

    contexts: float | None = portfolio_setting(
        None, optional(check_seconds), "Age at which contexts and outcomes of closed decisions are removed."
    )
    events: float | None = portfolio_setting(
        None,
        optional(check_seconds),
        "Age at which events move to the archive, in segments of 50,000.",
    )
    ids: float = portfolio_setting(
        "7d",
        check_seconds,
        "Time after the last event about a decision for which a repeated request about it gets the same answer.",
    )
    archive: str | None = portfolio_setting(
        None,
        optional(text),
        "Folder of the archive, relative to the journal. Default: the journal's name with `.archive`.",
    )

    def __init__(
        self,
        contexts: Duration | None = None,
        events: Duration | None = None,
        ids: Duration = "7d",
        archive: str | None = None,
    ) -> None:
        given = {"contexts": contexts, "events": events, "ids": ids, "archive": archive}
        for each in fields(self):
            object.__setattr__(self, each.name, each.metadata["check"](each.name, given[each.name]))
        if self.events is not None and self.ids > self.events:
            raise InvalidArgument(f"ids is {self.ids:g} s, but must be at most events, which is {self.events:g} s")

    @classmethod
    def of(cls, given: Retention | timedelta | str | None) -> Retention:
        """Return the argument `retention` of `equipoise.open`: a retention, or the age of contexts alone."""
        return given if isinstance(given, Retention) else cls(contexts=_contexts_age(given))


def _contexts_age(given: Any) -> float | None:
    return None if given is None else check_seconds("retention", given)


def _from_caller(name: str, value: Any) -> Any:
    """Refuse a float for a duration: `PortfolioSettings` holds seconds as floats, but callers give texts."""
    if name == "sticky" and isinstance(value, float):
        raise InvalidArgument(f"sticky is {value!r}, but must be a timedelta or a text such as '7d'")
    return check_deadline(name, value) if name == "deadline" and isinstance(value, float) else value


def file_keys() -> dict[str, tuple[str, ...]]:
    """Return the path in a file of every setting, such as ("reward", "range")."""
    return {each.name: tuple((each.metadata["key"] or each.name).split(".")) for each in fields(PortfolioSettings)}


def parameter_docs() -> str:
    """Return the numpydoc entries of all settings."""
    return "\n".join(parameter_entry(each.name, each) for each in fields(PortfolioSettings))
