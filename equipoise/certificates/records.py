"""Records of eliminations, which can be verified without the run.

A selector eliminates learner i when, for a witness j, (U_i + R_i + D(n_i)) / n_i < (U_j - D(n_j)) / n_j: if the bound
R_i held, the best expected reward would be below what j has shown to be attainable. A record holds everything that both
sides are computed from, so that anyone can recompute them. Its digest reveals a change; a record that was changed and
given a new digest still has to satisfy the inequality. `epoch_ends` has the other kind of proof, for selection under
adversarial contexts.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1 (the elimination test) and its lemma on mu*.
Symbols: n plays, U reward_sum, R regret_bound, D radius (all totals), M n_learners, V spread, alpha = delta /
(shares (M + 1)).
A record has version 2 if one side of the radius is sharper than the other: it then has `shares`, and the spread of the
rewards of both learners. All other records have version 1, in which shares is 2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from equipoise.certificates import AnyElimination, Elimination, EpochEnd, epoch_ends, pairs
from equipoise.certificates.fields import (
    Record,
    Test,
    digits,
    mapping,
    number,
    optional_number,
    pair,
    recomputed_faults,
    regret_faults,
    rule_faults,
    shape_faults,
    sum_faults,
    text,
    whole,
)
from equipoise.confidence import RADII, lower_sum, make_radius, radius_alpha, radius_shares, upper_sum
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.storage.files import digest
from equipoise.types import Plain

VERSIONS = (1, 2)
TWO_SIDED = 2  # shares of a radius that is used on both sides


@runtime_checkable
class Provable(Protocol):
    """A selector that exposes everything its eliminations are computed from, so that others can recompute them."""

    @property
    def n_learners(self) -> int: ...

    @property
    def reward_range(self) -> tuple[float, float]: ...

    @property
    def noise(self) -> float | None: ...

    @property
    def contexts(self) -> str: ...

    @property
    def delta(self) -> float: ...

    @property
    def radius(self) -> str: ...

    @property
    def radius_scale(self) -> float: ...

    @property
    def eliminations(self) -> Sequence[AnyElimination]: ...

    @property
    def alpha(self) -> float:
        """The failure probability of one side of one radius."""
        ...

    @property
    def shares(self) -> int:
        """How many one-sided events alpha counts for each learner and for the pool."""
        ...


def elimination_record(
    elimination: AnyElimination,
    *,
    selector_label: str,
    seed: int,
    selector: Provable,
    learner_names: Sequence[str],
    instance: str = "",
) -> Record:
    """The elimination as plain data, as in one line of `eliminations.jsonl`.

    `selector` is the one that eliminated the learner; `instance` names the problem instance if an experiment has
    several.
    """
    low, high = selector.reward_range
    if isinstance(elimination, EpochEnd):
        proof = epoch_ends.proof(elimination, learner_names)
    else:
        proof = _proof(elimination, learner_names, selector.shares)
    record = {
        "version": 2 if "shares" in proof else 1,
        "selector": selector_label,
        **({"instance": instance} if instance else {}),
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
        **proof,
    }
    return {**record, "digest": digest(record)}


def _proof(elimination: Elimination, learner_names: Sequence[str], shares: int) -> Record:
    learner, witness = elimination.learner, elimination.witness
    sides: Record = {
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
    if shares == TWO_SIDED:
        return sides
    sides["learner"]["spread"], sides["witness"]["spread"] = float(learner.spread), float(witness.spread)
    return {"shares": shares, **sides}


def verify_record(record: object) -> list[str]:
    """What is wrong with a record, in sentences; empty if the record proves the elimination.

    Everything is recomputed from the record alone.
    """
    if not isinstance(record, Mapping):
        return ["the record is not a JSON object"]
    if record.get("kind") == pairs.KIND:
        return pairs.verify_pair(record)
    if whole(record.get("version")) and record["version"] not in VERSIONS:
        return [f"version is {record['version']}, but only {' and '.join(map(str, VERSIONS))} are known"]
    is_epoch_end, sharper = "epoch" in record, record.get("version") == 2
    sides = epoch_ends.SIDES if is_epoch_end else _SHARPER_SIDES if sharper else _SIDES
    optional = ({"instance": text} if "instance" in record else {}) | ({"shares": whole} if sharper else {})
    faults = shape_faults("", record, _FIELDS | optional | dict.fromkeys(sides, mapping))
    for side, fields in sides.items():
        if isinstance(record.get(side), Mapping):
            faults += shape_faults(f"{side}.", record[side], fields)
    if faults:
        return faults
    if digest(record) != record["digest"]:
        faults.append("digest does not match the record: it was changed after it was written")
    faults += _common_faults(record)
    if is_epoch_end:
        return faults + epoch_ends.range_faults(record) + epoch_ends.mathematical_faults(record)
    return faults + _range_faults(record) + _mathematical_faults(record)


def verify_file(path: str | Path) -> tuple[int, list[str]]:
    """The number of records in a file of eliminations, one per line, and what is wrong with them."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UnreadableFile(f"{str(path)!r} cannot be read: {reason}") from error
    faults = []
    for line_number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            faults.append(f"line {line_number}: not valid JSON")
            continue
        faults += [f"line {line_number}: {fault}" for fault in verify_record(record)]
    return len(lines), faults


def describe_elimination(record: Mapping[str, Plain]) -> str:
    """The record as one sentence, with the numbers of the inequality."""
    if record.get("epoch") is not None:
        return epoch_ends.describe(record)
    learner, witness = record["learner"], record["witness"]
    places = digits(learner["mean_upper"], witness["mean_lower"])
    total = "{reward_sum:,.1f} + {regret_bound:,.1f} + {radius:,.1f}".format(**learner)
    return (
        f"In round {record['round']:,} of seed {record['seed']}, {learner['name']} was eliminated with confidence "
        f"{1 - record['delta']:.4g}: if its bound of {learner['regret_bound']:,.1f} on the regret of its "
        f"{learner['plays']:,} plays held, the best expected reward would be at most ({total}) / {learner['plays']:,} "
        f"= {learner['mean_upper']:.{places}f}, but {witness['name']} shows that it is at least "
        f"({witness['reward_sum']:,.1f} − {witness['radius']:,.1f}) / {witness['plays']:,} = "
        f"{witness['mean_lower']:.{places}f}."
    )


_FIELDS: dict[str, Test] = {
    "version": whole,
    "selector": text,
    "seed": whole,
    "round": whole,
    "delta": number,
    "alpha": number,
    "n_learners": whole,
    "radius": text,
    "radius_scale": number,
    "reward_range": pair,
    "noise": optional_number,
    "contexts": text,
    "digest": text,
}
_PLAYS: dict[str, Test] = {"index": whole, "name": text, "plays": whole, "reward_sum": number, "radius": number}
_SIDES: dict[str, dict[str, Test]] = {
    "learner": {**_PLAYS, "regret_bound": number, "mean_upper": number},
    "witness": {**_PLAYS, "mean_lower": number},
}
_SHARPER_SIDES = {side: {**fields, "spread": number} for side, fields in _SIDES.items()}


def _common_faults(record: Mapping[str, Plain]) -> list[str]:
    low, high = record["reward_range"]
    n_learners = record["n_learners"]
    rules = [
        ("seed", record["seed"], record["seed"] >= 0, "at least 0"),
        ("delta", record["delta"], 0 < record["delta"] < 1, "in (0, 1)"),
        ("n_learners", n_learners, n_learners >= 2, "at least 2"),
        (
            "radius_scale",
            record["radius_scale"],
            record["radius_scale"] >= 1,
            "at least 1: a narrowed radius proves nothing",
        ),
        ("reward_range", record["reward_range"], low < high, "a pair (low, high) with low < high"),
        ("noise", record["noise"], record["noise"] is None or record["noise"] > 0, "positive or null"),
    ]
    for side in ("learner", "witness"):
        index = record[side]["index"]
        rules.append((f"{side}.index", index, 0 <= index < n_learners, f"from 0 to n_learners − 1 = {n_learners - 1}"))
    return rule_faults(rules)


def _range_faults(record: Mapping[str, Plain]) -> list[str]:
    learner, witness = record["learner"], record["witness"]
    spreads = [
        (f"{side}.spread", record[side]["spread"], record[side]["spread"] >= 0, "at least 0")
        for side in _SIDES
        if "spread" in record[side]
    ]
    return rule_faults(
        [
            *spreads,
            ("radius", record["radius"], record["radius"] in RADII, f"one of {', '.join(RADII)}"),
            ("contexts", record["contexts"], record["contexts"] in ("random", "fixed"), "random or fixed"),
            ("witness.index", witness["index"], witness["index"] != learner["index"], "different from learner.index"),
            ("learner.plays", learner["plays"], learner["plays"] >= 1, "at least 1"),
            ("witness.plays", witness["plays"], witness["plays"] >= 1, "at least 1"),
        ]
    )


def _mathematical_faults(record: Mapping[str, Plain]) -> list[str]:
    learner, witness = record["learner"], record["witness"]
    low, high = record["reward_range"]
    n, witness_n, bound = learner["plays"], witness["plays"], learner["regret_bound"]
    shares = record.get("shares", TWO_SIDED)
    separate_lower = shares != TWO_SIDED
    if shares != radius_shares(record["radius"], record["contexts"], separate_lower):
        return [f"shares is {shares}, but its radius uses another number"]
    try:
        alpha = radius_alpha(record["n_learners"], record["delta"], shares)
        rule = make_radius(
            record["radius"],
            n_learners=record["n_learners"],
            delta=record["delta"],
            width=high - low,
            noise=record["noise"],
            contexts=record["contexts"],
            scale=record["radius_scale"],
            separate_lower=separate_lower,
        )
        radius = upper_sum(rule, n, learner.get("spread", 0.0), bound)
        witness_radius = lower_sum(rule, witness_n, witness.get("spread", 0.0))
        mean_upper = (learner["reward_sum"] + bound + radius) / n
        mean_lower = (witness["reward_sum"] - witness_radius) / witness_n
    except (InvalidArgument, ArithmeticError, ValueError):
        return ["the radius cannot be computed from the settings in the record"]
    faults = recomputed_faults(
        [
            ("alpha", record["alpha"], alpha, alpha),
            ("learner.radius", learner["radius"], radius, radius),
            ("witness.radius", witness["radius"], witness_radius, witness_radius),
            ("learner.mean_upper", learner["mean_upper"], mean_upper, radius / n),
            ("witness.mean_lower", witness["mean_lower"], mean_lower, witness_radius / witness_n),
        ]
    )
    if not mean_upper < mean_lower:
        faults.append(f"nothing is disproved: the upper mean {mean_upper!r} is not below the lower mean {mean_lower!r}")
    if n + witness_n > record["round"]:
        faults.append(f"round is {record['round']}, but the two learners had {n + witness_n} plays by then")
    faults += regret_faults("learner.regret_bound", bound, low, high, n)
    if record["noise"] is None:
        faults += sum_faults("learner.reward_sum", learner["reward_sum"], low, high, n, "rewards")
        faults += sum_faults("witness.reward_sum", witness["reward_sum"], low, high, witness_n, "rewards")
    return faults
