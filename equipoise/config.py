"""Portfolios from a file, `portfolio.toml`; the folder examples/config has commented ones.

`use` is a registered name, never an import path; all other keys of a table are settings of its class. A setting that is
a table with `use` is a feature map or a part of an adapter. The range of the rewards goes to every part that has one,
and the number of learners to the selector. Unknown keys are errors. Nothing of the file is run.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from equipoise.bounds import BOUNDS, Bound, from_json
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName, UnknownSetting, UnreadableFile
from equipoise.features.maps import map_from_plain
from equipoise.learner import find
from equipoise.portfolio import Portfolio, old_forms
from equipoise.portfolio.inputs import adopt_schema
from equipoise.portfolio.settings import PortfolioSettings, Retention, file_keys
from equipoise.selector import Updates
from equipoise.settings.checks import text
from equipoise.storage.files import read_bytes
from equipoise.storage.registry import registered_classes
from equipoise.types import Config

VERSION = 1
SERVED_NAME = re.compile(r"[a-z0-9_-]{1,64}")  # never a path
TABLES = ("selector", "learner", "retention")  # besides those of settings
T = TypeVar("T")


@dataclass(frozen=True)
class PortfolioConfig:
    """The content of a file; it makes as many portfolios as one likes, each with new learners."""

    name: str
    settings: PortfolioSettings
    selector: Config  # the table of the file
    learner_tables: tuple[Config, ...]
    retention: Retention = field(default_factory=Retention)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self.settings.reward_range

    @property
    def has_deadline(self) -> bool:
        """Whether decisions are closed if their rewards do not come."""
        return self.settings.deadline is not None

    def learners(self) -> list[Any]:
        tables = enumerate(self.learner_tables, start=1)
        learners = [make_learner(f"learner {i}", table, self.reward_range) for i, table in tables]
        adopt_schema(learners, self.settings.schema, self.settings.action_names)  # selectors look at features
        return learners

    def portfolio(self) -> Portfolio:
        """A new portfolio."""
        learners = self.learners()
        selector = _make_selector(self.selector, self.learner_tables, learners, self.settings)
        return Portfolio.with_settings(learners, selector, self.settings)

    def learner(self, table: Mapping[str, Any]) -> tuple[Any, Bound | None]:
        """A learner that joins later, from a table such as those of the file, and its bound if it has one."""
        return make_learner("the learner", table, self.reward_range), _make_bound("the learner", table)


def read(path: str | os.PathLike[str]) -> PortfolioConfig:
    """Read a portfolio from a TOML or JSON file, and build it once so that everything is checked."""
    kind, loads = ("JSON", json.loads) if Path(path).suffix == ".json" else ("TOML", tomllib.loads)
    try:
        content = loads(read_bytes(path).decode("utf-8"))
    except ValueError as error:  # of both formats
        raise UnreadableFile(f"{os.fspath(path)!r} is not valid {kind}: {error}") from None
    except RecursionError:
        raise UnreadableFile(f"{os.fspath(path)!r} is nested too deeply") from None
    try:
        config = parse(content)
        config.portfolio()
    except EquipoiseError as error:
        raise InvalidArgument(f"{os.fspath(path)}: {error}") from error
    return config


def config_files(path: Path) -> list[Path]:
    """The TOML file, or those of a folder."""
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not path.exists():
        raise InvalidArgument(f"{str(path)!r} is no file or folder, but must be one")
    if not files:
        raise InvalidArgument(f"{str(path)!r} has no file *.toml, but must have at least one")
    return files


def check_served(config: PortfolioConfig, others: Collection[str]) -> None:
    """Raise an error if the service, which has portfolios with these other names, cannot have this one too."""
    if not SERVED_NAME.fullmatch(config.name):
        raise InvalidArgument(f"name is {config.name!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and - to be served")
    if config.name in others:
        raise InvalidArgument(f"name is {config.name!r}, but must differ from those of the other portfolios")


def parse(content: Mapping[str, Any]) -> PortfolioConfig:
    """The configuration of a file, given the tables and values that `tomllib` returns.

    >>> content = {"version": 1, "name": "offers", "learner": [{"use": "UCB", "arms": 3}]}
    >>> parse(content).portfolio()
    Portfolio([UCB(3)], RealizedBalancing(1))
    """
    given = _settings(content)
    version = content.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InvalidArgument(f"version is {version!r}, but must be {VERSION}")
    learners = content.get("learner")
    if isinstance(learners, Mapping):
        raise InvalidArgument("learner is a table, but must be a list of tables: [[learner]]")
    if not isinstance(learners, list) or not learners:
        raise InvalidArgument("learner is missing, but there must be at least one [[learner]]")
    return PortfolioConfig(
        name=text("name", content.get("name")),
        settings=given,
        selector=_table("selector", content.get("selector", {})),
        learner_tables=tuple(_table("learner", learner) for learner in learners),
        retention=_retention(_table("retention", content.get("retention", {}))),
    )


def _retention(table: Config) -> Retention:
    _check_keys("key of [retention]", table, [each.name for each in fields(Retention)])
    return Retention(**table)


def _settings(content: Mapping[str, Any]) -> PortfolioSettings:
    """Return the settings of the portfolio that a file gives; unknown keys are errors."""
    content, paths = old_forms.settings(content), file_keys()
    grouped = {path[0] for path in paths.values() if len(path) > 1}
    plain = [path[0] for path in paths.values() if len(path) == 1]
    _check_keys("key", content, ("version", "name", *plain, *sorted({*grouped, "context"}), *TABLES))
    schema = _schema(content)
    for table in grouped:
        known = [path[1] for path in paths.values() if path[0] == table and len(path) > 1]
        known += ["features"] if table == "actions" else []
        _check_keys(f"key of [{table}]", _table(table, content.get(table, {})), known)
    given: Config = {}
    for name, path in paths.items():
        holder = content if len(path) == 1 else content.get(path[0], {})
        if path[-1] in holder:
            given[name] = holder[path[-1]]
    return PortfolioSettings.given({**given, "schema": schema})


def _schema(content: Mapping[str, Any]) -> Config | None:
    """Return the schema of a file: tables of features, and [schema] for what follows from unknown names."""
    actions = _table("actions", content.get("actions", {}))
    sides = {"context": content.get("context"), "actions": actions.get("features")}
    for table, lists in (("context", _table("context", sides["context"] or {})), ("actions", actions)):
        if isinstance(lists.get("features"), list):
            raise InvalidArgument(
                _REMEDY.format(table=table, of="context" if table == "context" else "actions.features")
            )
    rules = _table("schema", content.get("schema", {}))
    _check_keys("key of [schema]", rules, ("unknown", "hashed"))
    given = {side: _table(side, table) for side, table in sides.items() if table is not None}
    return {**given, **rules} if given or rules else None


_REMEDY = (
    "features of [{table}] is a list, as earlier releases had it, but each feature must have a table with its type: "
    '[{of}.NAME] with type = "number", and with scaled = false and missing = "zero" for the column that it was'
)


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{name} is {value!r:.80}, but must be a table")
    return dict(value)


def _check_keys(what: str, table: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in table:
        if key not in known:
            raise UnknownName(what, key, known)


def _find(kind: str, table: Mapping[str, Any], where: str) -> type[Any]:
    name, classes = table.get("use"), registered_classes(kind)
    if not isinstance(name, str):
        raise InvalidArgument(f"use of {where} is {name!r}, but must be the name of a registered class")
    if name not in classes:
        if name in _rivals(kind):
            raise InvalidArgument(f"class of {where} is {name}, which runs in simulate() only, not in a portfolio")
        raise UnknownName(f"class of {where}", name, classes)
    return classes[name]


def _rivals(kind: str) -> Collection[str]:
    """Return the names of the classes of a kind that run in simulations only."""
    from equipoise.lab import rivals  # far outside of this ring, and only needed to say why a name is refused

    return rivals.RIVAL_SELECTORS if kind == "selectors" else rivals.RIVAL_LEARNERS


def _construct(make: Callable[..., T], settings: Mapping[str, Any], where: str) -> T:
    known = inspect.signature(make).parameters
    for name in settings:
        if name not in known and not any(each.kind is each.VAR_KEYWORD for each in known.values()):
            raise UnknownSetting(f"setting of {where}", name, known)
    try:
        return make(**settings)
    except TypeError as error:  # a required setting is missing
        raise InvalidArgument(f"{where} cannot be made: {error}") from None


def _with_range(make: type[Any], settings: dict[str, Any], reward_range: tuple[float, float] | None) -> dict[str, Any]:
    """The settings with the range of the rewards, if the class has one; it may not be given twice."""
    if reward_range is None or "reward_range" not in inspect.signature(make).parameters:
        return settings
    if "reward_range" in settings:
        raise InvalidArgument("reward_range is given, but must be given once, as range of [reward]")
    return {**settings, "reward_range": reward_range}


def make_learner(where: str, table: Mapping[str, Any], reward_range: tuple[float, float] | None) -> Any:
    """A learner from its table; `where` says in messages which one."""
    make = _find("learners", table, where)
    settings = {key: _setting(key, value, where) for key, value in table.items() if key not in ("use", "bound")}
    return _construct(make, _with_range(make, settings, reward_range), where)


def _setting(key: str, value: Any, where: str) -> Any:
    """A setting of a learner: a feature map, a part of an adapter, or the value itself."""
    if key == "features":
        return map_from_plain(_named(value, "map", f"features of {where}"))
    return _named(value, "class", f"{key} of {where}") if isinstance(value, Mapping) and "use" in value else value


def _named(value: Any, key: str, where: str) -> Any:
    """Tables with `use` as the data from which maps (by "map") and parts of adapters (by "class") are made."""
    if isinstance(value, list):
        return [_named(item, key, where) for item in value]
    if not isinstance(value, Mapping):
        return value
    if key in value or not isinstance(value.get("use"), str):
        raise InvalidArgument(f"{where} is {dict(value)!r:.80}, but must say by `use` what it is")
    return {key if name == "use" else name: _named(part, key, where) for name, part in value.items()}


def _make_selector(
    table: Mapping[str, Any], learners: Sequence[Mapping[str, Any]], made: Sequence[Any], stated: PortfolioSettings
) -> Any:
    """Return the selector of the file, None for the recommended one."""
    reward_range = stated.reward_range
    if not table and not any("bound" in learner for learner in learners):
        return None
    make = _find("selectors", table or {"use": "RealizedBalancing"}, "[selector]")
    given = {key: value for key, value in table.items() if key != "use"}
    known = inspect.signature(make).parameters
    for key in ("n_learners", "bounds"):
        if key in given:
            raise InvalidArgument(f"{key} is given in [selector], but must follow from the learners")
    if "n_learners" in known:
        given["n_learners"] = len(learners)
    bounds = [_make_bound(f"learner {i}", learner) for i, learner in enumerate(learners, start=1)]
    if "bounds" not in known:
        stray = [i + 1 for i, bound in enumerate(bounds) if bound is not None]
        if stray:
            raise InvalidArgument(f"bound of learner {stray[0]} is given, but {make.__name__} takes no bounds")
    elif any(bound is not None for bound in bounds) or known["bounds"].default is inspect.Parameter.empty:
        lacking = [i + 1 for i, bound in enumerate(bounds) if bound is None]
        if lacking:
            raise InvalidArgument(f"bound of learner {lacking[0]} is missing, but {make.__name__} needs one for each")
        given["bounds"] = bounds
    if find(make, Updates) is not None and not {"learning", "greedy_experts"} & given.keys():
        del given["n_learners"]
        if "share_data" in given:
            raise InvalidArgument("share_data is given in [selector], but must be given once, at the top of the file")
        make_for = partial(make.for_learners, made, share_data=stated.share_data)
        return _construct(make_for, _with_range(make, given, reward_range), "[selector]")
    return _construct(make, _with_range(make, given, reward_range), "[selector]")


def _make_bound(where: str, table: Mapping[str, Any]) -> Bound | None:
    if "bound" not in table:
        return None
    bound = _table(f"bound of {where}", table["bound"])
    name = bound.pop("use", None)
    if name not in BOUNDS or name == "Custom":
        raise UnknownName(f"bound of {where}", str(name), [name for name in BOUNDS if name != "Custom"])
    return from_json({**bound, "bound": name})
