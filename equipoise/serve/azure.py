"""The configuration of an Azure Personalizer resource as a file of a portfolio.

Settings that have no counterpart are left out: models are not exported on a schedule, logs are journals with a table
`[retention]`, and learning settings are the learners.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from equipoise.config import SERVED_NAME
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.settings.checks import fraction, one_of, real

AGGREGATES = {"earliest": "first", "sum": "sum"}
DURATION = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
FILE = """\
# Made of the configuration of an Azure Personalizer resource.
version = 1
name = "{name}"
explore = {explorationPercentage}  # explorationPercentage

[reward]
range = [-1, 1]
clip = true  # sums may leave the range
deadline = "{rewardWaitTime:g}s"  # rewardWaitTime
default = {defaultReward}  # defaultReward
aggregate = "{rewardAggregation}"  # rewardAggregation

[schema]  # features of any form, hashed
unknown = "hash"
hashed = {hashed}

[[learner]]
use = "OFUL"

[[learner]]
use = "SquareCB"

[[learner]]
name = "popular"  # whoever asks
use = "OFUL"
features = {{ use = "Prefix", dim = {hashed} }}
"""
HASHED = 16  # columns of contexts and of actions


def seconds_of(name: str, duration: object) -> float:
    """Return the seconds of a duration in the form of ISO 8601.

    >>> seconds_of("rewardWaitTime", "PT10M"), seconds_of("rewardWaitTime", "P1DT1.5S")
    (600.0, 86401.5)
    """
    match = DURATION.fullmatch(duration) if isinstance(duration, str) else None
    parts = {} if match is None else {unit: float(number) for unit, number in match.groupdict("0").items()}
    seconds = timedelta(**parts).total_seconds()
    if seconds <= 0.0:
        raise InvalidArgument(f"{name} is {duration!r:.80}, but must be a positive duration such as 'PT10M'")
    return seconds


def _aggregate(name: str, value: Any) -> str:
    return AGGREGATES[one_of(name, value.lower() if isinstance(value, str) else value, tuple(AGGREGATES))]


READ: Mapping[str, Callable[[str, Any], Any]] = {
    "rewardWaitTime": seconds_of,
    "defaultReward": real,
    "rewardAggregation": _aggregate,
    "explorationPercentage": fraction,
}


def portfolio_file(configuration: str | bytes, name: str) -> str:
    """Return the file of a portfolio for the JSON of a service configuration, as its management API returns it."""
    try:
        given = json.loads(configuration)
    except ValueError as error:
        raise UnreadableFile(f"the configuration is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidArgument(f"the configuration is {given!r:.80}, but must be an object")
    for key in READ:
        if key not in given:
            raise InvalidArgument(f"the configuration has no {key}, but must have {', '.join(READ)}")
    if not SERVED_NAME.fullmatch(name):
        raise InvalidArgument(f"name is {name!r:.80}, but must be 1 to 64 of a-z, 0-9, _ and -")
    values = {key: read(key, given[key]) for key, read in READ.items()}
    return FILE.format(name=name, hashed=HASHED, **values)
