"""Portfolios from a file, `portfolio.toml`.

    version = 1
    name = "ranking"
    seed = 3
    share_data = true
    [reward]
    range = [0, 1]
    deadline = 1000                  # a number of rounds, with `default`
    default = 0.0
    [selector]
    use = "BalancedElimination"      # the recommended selector if the table is missing
    delta = 0.05
    [[learner]]
    use = "OFUL"
    dim = 4
    name = "four features"
    bound = { use = "Power", coefficient = 2.0 }

`use` is a registered name; all other keys of a table are settings of its class. The range of the rewards goes to every
part that has one, and the number of learners to the selector. Unknown keys are errors. Nothing of the file is run.
"""

from __future__ import annotations

import inspect
import os
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from equipoise.bounds import BOUNDS, Bound, from_json
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName, UnknownSetting, UnreadableFile
from equipoise.portfolio import Portfolio
from equipoise.settings.checks import boolean, count, interval, text
from equipoise.storage.files import read_bytes
from equipoise.storage.registry import registered_classes
from equipoise.types import Config

VERSION = 1
KEYS = ("version", "name", "seed", "share_data", "reward", "selector", "learner", "actions")
REWARD_KEYS = ("range", "deadline", "default")
T = TypeVar("T")


@dataclass(frozen=True)
class PortfolioConfig:
    """The content of a file; it makes as many portfolios as one likes, each with new learners.

    Parameters
    ----------
    name
        Name of the portfolio.
    parts
        The checked tables of the file.
    """

    name: str
    parts: Config

    @property
    def n_learners(self) -> int:
        return len(self.parts["learner"])

    @property
    def action_names(self) -> tuple[str, ...] | None:
        """Names of the actions, if the file has them."""
        names = self.parts["actions"].get("names")
        return None if names is None else tuple(names)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        reward_range: tuple[float, float] | None = self.parts["reward"].get("range")
        return reward_range

    def learners(self) -> list[Any]:
        """New learners, in the order of the file."""
        return [_make_learner(i, table, self.reward_range) for i, table in enumerate(self.parts["learner"])]

    def portfolio(self, which: Sequence[int] | None = None) -> Portfolio:
        """A new portfolio, of the learners with these indices only if `which` is given."""
        indices = range(self.n_learners) if which is None else which
        learners = self.learners()
        tables = [self.parts["learner"][i] for i in indices]
        reward = self.parts["reward"]
        return Portfolio(
            [learners[i] for i in indices],
            _make_selector(self.parts["selector"], tables, self.reward_range),
            seed=self.parts["seed"],
            share_data=self.parts["share_data"],
            deadline=reward.get("deadline"),
            default_reward=reward.get("default"),
        )


def read(path: str | os.PathLike[str]) -> PortfolioConfig:
    """Read a portfolio from a file, and build it once so that everything is checked.

    Parameters
    ----------
    path
        A TOML file; see the module's docstring.
    """
    try:
        content = tomllib.loads(read_bytes(path).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{os.fspath(path)!r} is not valid TOML: {error}") from None
    try:
        config = parse(content)
        config.portfolio()
    except EquipoiseError as error:
        raise InvalidArgument(f"{os.fspath(path)}: {error}") from error
    return config


def parse(content: Mapping[str, Any]) -> PortfolioConfig:
    """The configuration of a parsed file.

    Parameters
    ----------
    content
        Tables and values, as `tomllib` returns them.

    Examples
    --------
    >>> content = {"version": 1, "name": "offers", "learner": [{"use": "UCB", "arms": 3}]}
    >>> parse(content).portfolio()
    Portfolio([UCB(3)], RealizedBalancing(1))
    """
    _check_keys("key", content, KEYS)
    version = content.get("version")
    if version != VERSION or isinstance(version, bool):
        raise InvalidArgument(f"version is {version!r}, but must be {VERSION}")
    reward = _table("reward", content.get("reward", {}))
    _check_keys("key of [reward]", reward, REWARD_KEYS)
    if "range" in reward:
        reward["range"] = interval("range", reward["range"])
    if "deadline" in reward:
        reward["deadline"] = count("deadline", reward["deadline"])
    actions = _table("actions", content.get("actions", {}))
    _check_keys("key of [actions]", actions, ("names",))
    learners = content.get("learner")
    if not isinstance(learners, list) or not learners:
        raise InvalidArgument("learner is missing, but there must be at least one [[learner]]")
    parts: Config = {
        "seed": count("seed", content.get("seed", 0), minimum=0, maximum=2**64 - 1),
        "share_data": boolean("share_data", content.get("share_data", False)),
        "reward": reward,
        "selector": _table("selector", content.get("selector", {})),
        "actions": {"names": [text("name of an action", name) for name in actions["names"]]} if actions else {},
        "learner": [_table("learner", learner) for learner in learners],
    }
    return PortfolioConfig(text("name", content.get("name")), parts)


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
        raise UnknownName(f"class of {where}", name, classes)
    return classes[name]


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


def _make_learner(i: int, table: Mapping[str, Any], reward_range: tuple[float, float] | None) -> Any:
    where = f"learner {i + 1}"
    make = _find("learners", table, where)
    settings = {key: value for key, value in table.items() if key not in ("use", "bound")}
    return _construct(make, _with_range(make, settings, reward_range), where)


def _make_selector(
    table: Mapping[str, Any], learners: Sequence[Mapping[str, Any]], reward_range: tuple[float, float] | None
) -> Any:
    make = _find("selectors", table or {"use": "RealizedBalancing"}, "[selector]")
    settings = {key: value for key, value in table.items() if key != "use"}
    known = inspect.signature(make).parameters
    for key in ("n_learners", "bounds"):
        if key in settings:
            raise InvalidArgument(f"{key} is given in [selector], but must follow from the learners")
    if "n_learners" in known:
        settings["n_learners"] = len(learners)
    bounds = [_make_bound(i, learner) for i, learner in enumerate(learners)]
    if "bounds" not in known:
        given = [i + 1 for i, bound in enumerate(bounds) if bound is not None]
        if given:
            raise InvalidArgument(f"bound of learner {given[0]} is given, but {make.__name__} takes no bounds")
    elif any(bound is not None for bound in bounds) or known["bounds"].default is inspect.Parameter.empty:
        lacking = [i + 1 for i, bound in enumerate(bounds) if bound is None]
        if lacking:
            raise InvalidArgument(f"bound of learner {lacking[0]} is missing, but {make.__name__} needs one for each")
        settings["bounds"] = bounds
    return _construct(make, _with_range(make, settings, reward_range), "[selector]")


def _make_bound(i: int, table: Mapping[str, Any]) -> Bound | None:
    if "bound" not in table:
        return None
    bound = _table(f"bound of learner {i + 1}", table["bound"])
    name = bound.pop("use", None)
    if name not in BOUNDS or name == "Custom":
        raise UnknownName(f"bound of learner {i + 1}", str(name), [name for name in BOUNDS if name != "Custom"])
    return from_json({**bound, "bound": name})
