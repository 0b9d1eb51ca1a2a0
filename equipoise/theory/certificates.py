"""Elimination certificates as records that prove themselves.

A selector drops learner i when, with witness j, (U_i + R_i + D(n_i)) / n_i < (U_j - D(n_j)) / n_j: if the bound R_i
were true, the best expected reward would lie below what j has shown to be attainable. The record holds everything both
sides are computed from, so anybody can recompute the verdict without the run; its digest betrays a changed record, and
a change that is sealed anew still has to satisfy the mathematics.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1 (the elimination test) and its lemma on mu*.
Symbols: n plays, U reward_sum, R regret_bound, D radius (all totals), M n_learners, alpha = delta / (2 (M + 1)).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isclose, isfinite
from pathlib import Path
from typing import Any

from equipoise.confidence import RADII, make_radius, radius_alpha, radius_sum
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.selector import Elimination
from equipoise.storage import digest

VERSION = 1
CLOSE = 1e-12  # relative; logarithms and roots may differ in the last digits between machines


def elimination_record(
    elimination: Elimination, *, selector_label: str, seed: int, selector: Any, learner_names: Sequence[str]
) -> dict[str, Any]:
    """The elimination as plain data: one line of `eliminations.jsonl`. `selector` is the one that eliminated."""
    learner, witness = elimination.learner, elimination.witness
    low, high = selector.reward_range
    record = {
        "version": VERSION,
        "selector": selector_label,
        "seed": int(seed),
        "round": int(elimination.round),
        "delta": float(selector.delta),
        "alpha": float(selector.alpha),
        "n_learners": int(selector.n_learners),
        "radius": str(selector.radius),
        "radius_scale": float(selector.radius_scale),
        "reward_range": [float(low), float(high)],
        "noise": None if selector.noise is None else float(selector.noise),
        "contexts": str(selector.contexts),
        "learner": {
            "index": int(learner.index),
            "name": str(learner_names[learner.index]),
            "plays": int(learner.plays),
            "reward_sum": float(learner.reward_sum),
            "regret_bound": float(learner.regret_bound),
            "radius": float(learner.radius),
            "mean_upper": float(learner.mean_upper),
        },
        "witness": {
            "index": int(witness.index),
            "name": str(learner_names[witness.index]),
            "plays": int(witness.plays),
            "reward_sum": float(witness.reward_sum),
            "radius": float(witness.radius),
            "mean_lower": float(witness.mean_lower),
        },
    }
    return {**record, "digest": digest(record)}


def verify_record(record: Any) -> list[str]:
    """What is wrong with a record, in sentences; empty if it proves the elimination.

    Everything is recomputed from the record alone.
    """
    if not isinstance(record, Mapping):
        return ["the record is no JSON object"]
    if _whole(record.get("version")) and record["version"] != VERSION:
        return [f"version is {record['version']}, but only {VERSION} is known"]
    faults = _shape_faults("", record, _FIELDS)
    for side, fields in _SIDES.items():
        if isinstance(record.get(side), Mapping):
            faults += _shape_faults(f"{side}.", record[side], fields)
    if faults:
        return faults
    if digest(record) != record["digest"]:
        faults.append("digest does not match the record: it was changed after it was written")
    return faults + _range_faults(record) + _mathematical_faults(record)


def verify_file(path: str | Path) -> tuple[int, list[str]]:
    """The number of records in a file of eliminations, one a line, and what is wrong with them."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(f"{str(path)!r} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    faults = []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            faults.append(f"line {number}: no valid JSON")
            continue
        faults += [f"line {number}: {fault}" for fault in verify_record(record)]
    return len(lines), faults


def elimination_words(record: Mapping[str, Any]) -> str:
    """The record as one sentence, with the numbers of its inequality."""
    learner, witness = record["learner"], record["witness"]
    return (
        f"In round {record['round']:,} of seed {record['seed']}, {learner['name']} was dropped: had it kept its bound "
        f"of {learner['regret_bound']:,.1f} on the regret of its {learner['plays']:,} plays, the best expected reward "
        f"would be at most ({learner['reward_sum']:,.1f} + {learner['regret_bound']:,.1f} + {learner['radius']:,.1f}) "
        f"/ {learner['plays']:,} = {_digits(record, learner['mean_upper'])}, but {witness['name']} shows that it is at "
        f"least ({witness['reward_sum']:,.1f} − {witness['radius']:,.1f}) / {witness['plays']:,} = "
        f"{_digits(record, witness['mean_lower'])}."
    )


def _digits(record: Mapping[str, Any], mean: float) -> str:
    """A mean with as many digits as the two sides need to be told apart, four at least."""
    upper, lower = record["learner"]["mean_upper"], record["witness"]["mean_lower"]
    enough = (places for places in range(4, 17) if f"{upper:.{places}f}" != f"{lower:.{places}f}")
    return f"{mean:.{next(enough, 17)}f}"


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> bool:
    # A whole number too large for a float would break the comparisons that follow.
    return (_whole(value) and abs(value) < 2**1000) or (isinstance(value, float) and isfinite(value))


def _text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _range(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(_number(end) for end in value)


def _optional_number(value: Any) -> bool:
    return value is None or _number(value)


Test = Callable[[Any], bool]
_KINDS: dict[Test, str] = {
    _whole: "a whole number",
    _number: "a finite number",
    _text: "a text that is not empty",
    _mapping: "an object",
    _range: "a pair of finite numbers",
    _optional_number: "a finite number or null",
}
_FIELDS: dict[str, Test] = {
    "version": _whole,
    "selector": _text,
    "seed": _whole,
    "round": _whole,
    "delta": _number,
    "alpha": _number,
    "n_learners": _whole,
    "radius": _text,
    "radius_scale": _number,
    "reward_range": _range,
    "noise": _optional_number,
    "contexts": _text,
    "learner": _mapping,
    "witness": _mapping,
    "digest": _text,
}
_PLAYS: dict[str, Test] = {"index": _whole, "name": _text, "plays": _whole, "reward_sum": _number, "radius": _number}
_SIDES: dict[str, dict[str, Test]] = {
    "learner": {**_PLAYS, "regret_bound": _number, "mean_upper": _number},
    "witness": {**_PLAYS, "mean_lower": _number},
}


def _shape_faults(prefix: str, found: Mapping[str, Any], fields: Mapping[str, Test]) -> list[str]:
    faults = [f"{prefix}{name} is missing" for name in fields if name not in found]
    faults += [f"{prefix}{name} is no field of a record" for name in found if name not in fields]
    for name, test in fields.items():
        if name in found and not test(found[name]):
            faults.append(f"{prefix}{name} is {found[name]!r:.80}, but must be {_KINDS[test]}")
    return faults


def _range_faults(record: Mapping[str, Any]) -> list[str]:
    low, high = record["reward_range"]
    learner, witness, n_learners = record["learner"], record["witness"], record["n_learners"]
    rules = [
        ("seed", record["seed"], record["seed"] >= 0, "at least 0"),
        ("delta", record["delta"], 0 < record["delta"] < 1, "in (0, 1)"),
        ("n_learners", n_learners, n_learners >= 2, "at least 2"),
        ("radius", record["radius"], record["radius"] in RADII, f"one of {', '.join(RADII)}"),
        ("radius_scale", record["radius_scale"], record["radius_scale"] >= 1, "at least 1, or nothing is proved"),
        ("contexts", record["contexts"], record["contexts"] in ("random", "fixed"), "random or fixed"),
        ("reward_range", record["reward_range"], low < high, "a pair (low, high) with low < high"),
        ("noise", record["noise"], record["noise"] is None or record["noise"] > 0, "positive or null"),
        ("witness.index", witness["index"], witness["index"] != learner["index"], "another than learner.index"),
    ]
    for side in ("learner", "witness"):
        index, plays = record[side]["index"], record[side]["plays"]
        rules.append((f"{side}.index", index, 0 <= index < n_learners, f"from 0 to n_learners − 1 = {n_learners - 1}"))
        rules.append((f"{side}.plays", plays, plays >= 1, "at least 1"))
    return [f"{name} is {value!r}, but must be {rule}" for name, value, kept, rule in rules if not kept]


def _mathematical_faults(record: Mapping[str, Any]) -> list[str]:
    learner, witness = record["learner"], record["witness"]
    low, high = record["reward_range"]
    n, witness_n, bound = learner["plays"], witness["plays"], learner["regret_bound"]
    try:
        alpha = radius_alpha(record["n_learners"], record["delta"])
        rule = make_radius(
            record["radius"],
            n_learners=record["n_learners"],
            delta=record["delta"],
            width=high - low,
            noise=record["noise"],
            contexts=record["contexts"],
            scale=record["radius_scale"],
        )
        radius, witness_radius = radius_sum(rule, n), radius_sum(rule, witness_n)
        mean_upper = (learner["reward_sum"] + bound + radius) / n
        mean_lower = (witness["reward_sum"] - witness_radius) / witness_n
    except (InvalidArgument, ArithmeticError, ValueError):
        return ["its radius cannot be computed from its settings"]
    faults = [
        f"{name} is {stated!r}, but recomputed it is {value!r}"
        for name, stated, value, scale in (
            ("alpha", record["alpha"], alpha, alpha),
            ("learner.radius", learner["radius"], radius, radius),
            ("witness.radius", witness["radius"], witness_radius, witness_radius),
            ("learner.mean_upper", learner["mean_upper"], mean_upper, radius / n),
            ("witness.mean_lower", witness["mean_lower"], mean_lower, witness_radius / witness_n),
        )
        if not isclose(stated, value, rel_tol=CLOSE, abs_tol=CLOSE * abs(scale))
    ]
    if not mean_upper < mean_lower:
        faults.append(f"nothing is disproved: the upper mean {mean_upper!r} is not below the lower mean {mean_lower!r}")
    if n + witness_n > record["round"]:
        faults.append(f"round is {record['round']}, but the two learners have made {n + witness_n} plays by then")
    slack = CLOSE * max(abs(low), abs(high))  # sums are compensated, so their rounding does not grow with the plays
    if not -slack * n <= bound <= (high - low + slack) * n:
        faults.append(f"learner.regret_bound is {bound!r}, but {n} plays cost from 0 to {(high - low) * n!r}")
    for side, plays in (("learner", n), ("witness", witness_n)):
        rewards = record[side]["reward_sum"]
        if record["noise"] is None and not (low - slack) * plays <= rewards <= (high + slack) * plays:
            faults.append(
                f"{side}.reward_sum is {rewards!r}, but {plays} rewards in [{low!r}, {high!r}] cannot add up to it"
            )
    return faults
