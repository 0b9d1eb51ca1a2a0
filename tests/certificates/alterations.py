"""Records with one value changed, as a forger would."""

import copy
import json
import math
import random
from collections.abc import Sequence
from typing import Any

from equipoise.certificates.records import verify_record


def leaves(record: dict[str, Any]) -> list[tuple[dict[str, Any] | list[Any], Any]]:
    """Every place of a record that holds a single value, as (container, key)."""
    found: list[tuple[dict[str, Any] | list[Any], Any]] = []
    for key, value in record.items():
        if isinstance(value, dict):
            found += leaves(value)
        elif isinstance(value, list):
            found += [(value, i) for i in range(len(value))]
        else:
            found.append((record, key))
    return found


def altered(record: dict[str, Any], chances: random.Random) -> dict[str, Any]:
    """A copy with one value changed to another plausible one, removed, or of another type."""
    copied = copy.deepcopy(record)
    container, key = chances.choice(leaves(copied))
    value = container[key]
    kind = chances.randrange(5)
    if kind == 0 and isinstance(container, dict):
        del container[key]
    elif kind == 1:
        container[key] = chances.choice([None, "x", [], {}, True, math.nan, -math.inf, -1])
    elif isinstance(value, str):
        container[key] = value[:-1] + ("a" if value[-1:] != "a" else "b")
    elif isinstance(value, int):
        container[key] = value + chances.choice([-3, -1, 1, 2, 10])
    elif isinstance(value, float):
        container[key] = value * (1 + 10 ** chances.uniform(-12, 0)) + chances.choice([0.0, 1e-9])
    else:
        container[key] = 0.5
    return copied


def require_alterations_rejected(records: Sequence[dict[str, Any]], seed: int) -> None:
    """Verify a thousand records with a random alteration each: none may pass."""
    chances, n_rejected = random.Random(seed), 0
    while n_rejected < 1000:
        record = chances.choice(records)
        forged = altered(record, chances)
        if json.dumps(forged) == json.dumps(record):
            continue
        assert verify_record(forged) != [], forged
        n_rejected += 1
