"""Records of eliminations and comparisons, which can be verified without the run.

A selector eliminates learner i when, for a witness j, (U_i + R_i + D(n_i)) / n_i < (U_j - D(n_j)) / n_j: if the bound
R_i held, the best expected reward would be below what j has shown to be attainable. A record holds everything that both
sides are computed from, so that anyone can recompute them. Its digest reveals a change; a record that was changed and
given a new digest still has to satisfy the inequality. `epoch_ends` has the kind of proof for selection under
adversarial contexts, `same_rounds` that of the same-round test, `comparisons` the statements about two learners.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithm 1 (the elimination test) and its lemma on mu*.
Symbols: n plays, U reward_sum, R regret_bound, D radius (all totals), M n_learners, V spread, alpha = delta /
(shares (M + 1)).
Versions: 1 has a radius that is the same on both sides (shares is 2). 2 has one side sharper than the other: it adds
`shares`, and the spread of the rewards of both learners. 3 adds `radius_version`, that of the formula of the radius,
and is written for radii whose formula is not that of the first release, and by a selector that also makes the
same-round test, which takes one more share of delta: `same_round` is true then. `n_late` is the number of learners
that were added later, `delta_weights` are those of unequal shares of delta; records without them have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Protocol, runtime_checkable

from equipoise.certificates import (
    AnyElimination,
    Elimination,
    EpochEnd,
    SameRoundElimination,
    comparisons,
    epoch_ends,
    pairs,
    same_rounds,
)
from equipoise.certificates.comparisons import Comparison
from equipoise.certificates.fields import (
    Record,
    Test,
    digits,
    mapping,
    number,
    numbers,
    optional_number,
    pair,
    recomputed_faults,
    regret_faults,
    rule_faults,
    shape_faults,
    sum_faults,
    text,
    true,
    whole,
)
from equipoise.certificates.radii import radius_of, total_delta
from equipoise.certificates.wording import about, with_confidence
from equipoise.confidence import RADII, RADIUS_VERSIONS, lower_sum, radius_alpha, radius_shares, upper_sum
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.storage.files import digest
from equipoise.types import Plain

VERSIONS = (1, 2, 3)
FIRST_RADII = ("stitched", "paper")  # radii whose formula is that of the first release
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
    rewards: str = "",
) -> Record:
    """The elimination as plain data, as in one line of `eliminations.jsonl`.

    `selector` is the one that eliminated the learner; `instance` names the problem instance if an experiment has
    several; `rewards` says what was made of the rewards before they counted, such as "rewards clipped to [0, 1]".
    """
    if isinstance(elimination, EpochEnd):
        proof = epoch_ends.proof(elimination, learner_names)
    elif isinstance(elimination, SameRoundElimination):
        proof = {**_about(selector), **same_rounds.proof(elimination, learner_names)}
    else:
        proof = _proof(elimination, learner_names, selector)
    return _sealed(proof, selector_label, seed, elimination.round, selector, instance, rewards)


def comparison_record(
    comparison: Comparison,
    *,
    selector_label: str,
    seed: int,
    round: int,
    selector: Provable,
    learner_names: Sequence[str],
    instance: str = "",
) -> Record:
    """The comparison of two learners after `round` rounds as plain data; the other arguments are as above."""
    proof = {**_about(selector), **comparisons.proof(comparison, learner_names)}
    return _sealed(proof, selector_label, seed, round, selector, instance, comparison.rewards)


def _about(selector: Provable) -> Record:
    """What a record of version 3 says about the radius."""
    about: Record = {"shares": int(selector.shares), "radius_version": RADIUS_VERSIONS[selector.radius]}
    if n_late := getattr(selector, "pool_size", selector.n_learners) - selector.n_learners:
        about["n_late"] = int(n_late)
    if (weights := getattr(selector, "delta_weights", None)) is not None:
        about["delta_weights"] = [float(weight) for weight in weights]
    return about | ({"same_round": True} if getattr(selector, "same_round", False) else {})


def _sealed(
    proof: Record, label: str, seed: int, round_: int, selector: Provable, instance: str, rewards: str
) -> Record:
    """A record: what is common to all kinds, the proof, and the digest of both."""
    low, high = selector.reward_range
    record = {
        "version": 3 if "radius_version" in proof else 2 if "shares" in proof else 1,
        "selector": label,
        **({"instance": instance} if instance else {}),
        **({"rewards": rewards} if rewards else {}),
        "seed": int(seed),
        "round": int(round_),
        "delta": float(selector.delta),
        "alpha": float(selector.alpha),
        "n_learners": int(getattr(selector, "n_accounts", selector.n_learners)),  # that share delta: twins too
        "radius": str(selector.radius),
        "radius_scale": float(selector.radius_scale),
        "reward_range": [float(low), float(high)],
        "noise": None if selector.noise is None else float(selector.noise),
        "contexts": str(selector.contexts),
        **proof,
    }
    return {**record, "digest": digest(record)}


def _proof(elimination: Elimination, learner_names: Sequence[str], selector: Provable) -> Record:
    learner, witness = elimination.learner, elimination.witness
    sides: Record = {
        "learner": same_rounds.learner_side(learner, learner_names),
        "witness": {
            "index": int(witness.index),
            "name": str(learner_names[witness.index]),
            "plays": int(witness.plays),
            "reward_sum": float(witness.reward_sum),
            "radius": float(witness.radius),
            "mean_lower": float(witness.mean_lower),
        },
    }
    about, as_at_first = _about(selector), selector.radius in FIRST_RADII
    unequal = {"n_late", "delta_weights"} & about.keys()
    if selector.shares == TWO_SIDED and as_at_first and not unequal:
        return sides
    sides["learner"]["spread"], sides["witness"]["spread"] = float(learner.spread), float(witness.spread)
    if as_at_first and not unequal and "same_round" not in about:
        return {"shares": selector.shares, **sides}
    return {**about, **sides}


def verify_record(record: object) -> list[str]:
    """What is wrong with a record, in sentences; empty if the record proves the elimination.

    Everything is recomputed from the record alone.
    """
    if not isinstance(record, Mapping):
        return ["the record is not a JSON object"]
    if record.get("kind") == pairs.KIND:
        return pairs.verify_pair(record)
    if whole(record.get("version")) and record["version"] not in VERSIONS:
        return [f"version is {record['version']}, but only {', '.join(map(str, VERSIONS))} are known"]
    kind = _kind_of(record)
    version = record.get("version")
    sides = _SIDES if version == 1 else _SHARPER_SIDES
    optional: dict[str, Test] = {name: text for name in ("instance", "rewards") if name in record}
    if version in (2, 3):
        optional["shares"] = whole
    if version == 3:
        optional["radius_version"] = whole
        optional |= {"same_round": true} if "same_round" in record else {}
        optional |= {name: whole for name in ("n_late", "law_since", "law_refuted_at") if name in record}
        optional |= {"delta_weights": numbers} if "delta_weights" in record else {}
    if kind is not None:
        sides = kind.SIDES
        optional |= kind.FIELDS
    faults = shape_faults("", record, _FIELDS | optional | dict.fromkeys(sides, mapping))
    for side, fields in sides.items():
        if isinstance(record.get(side), Mapping):
            faults += shape_faults(f"{side}.", record[side], fields)
    if faults:
        return faults
    if digest(record) != record["digest"]:
        faults.append("digest does not match the record: it was changed after it was written")
    faults += _common_faults(record, sides)
    if kind is not None:
        return [*faults, *kind.range_faults(record), *kind.mathematical_faults(record)]
    return faults + _range_faults(record) + _mathematical_faults(record)


def _kind_of(record: Mapping[str, Plain]) -> ModuleType | None:
    """The module that checks this kind of record; None if it is an elimination by the test of Algorithm 1."""
    if "other" in record or "epoch" in record:
        return comparisons if "other" in record else epoch_ends
    witness = record.get("witness")
    return same_rounds if isinstance(witness, Mapping) and "lower_sum" in witness else None


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
    kind = _kind_of(record)
    if kind is comparisons:
        return comparisons.describe(record)
    if kind is not None:
        return f"{kind.describe(record)}{about(record.get('rewards', ''))}"
    learner, witness = record["learner"], record["witness"]
    places = digits(learner["mean_upper"], witness["mean_lower"])
    total = "{reward_sum:,.1f} + {regret_bound:,.1f} + {radius:,.1f}".format(**learner)
    return (
        f"In round {record['round']:,} of seed {record['seed']}, {learner['name']} was eliminated "
        f"{with_confidence(total_delta(record))}: if its bound of {learner['regret_bound']:,.1f} on the regret of its "
        f"{learner['plays']:,} plays held, the best expected reward would be at most ({total}) / {learner['plays']:,} "
        f"= {learner['mean_upper']:.{places}f}, but {witness['name']} shows that it is at least "
        f"({witness['reward_sum']:,.1f} − {witness['radius']:,.1f}) / {witness['plays']:,} = "
        f"{witness['mean_lower']:.{places}f}.{about(record.get('rewards', ''))}"
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


def _common_faults(record: Mapping[str, Plain], sides: Iterable[str]) -> list[str]:
    low, high = record["reward_range"]
    n_learners, n_late = record["n_learners"], record.get("n_late", 0)
    weights = record.get("delta_weights")
    fits = weights is None or (len(weights) == n_learners >= 1 and min(weights) > 0)
    rules = [
        ("delta_weights", weights, fits, f"n_learners = {n_learners} positive numbers"),
        ("seed", record["seed"], record["seed"] >= 0, "at least 0"),
        ("delta", record["delta"], 0 < record["delta"] < 1, "in (0, 1)"),
        ("n_learners", n_learners, n_learners >= 2 or n_late >= 1, "at least 2"),
        ("n_late", n_late, n_late >= 0, "at least 0"),
        (
            "radius_scale",
            record["radius_scale"],
            record["radius_scale"] >= 1,
            "at least 1: a narrowed radius proves nothing",
        ),
        ("reward_range", record["reward_range"], low < high, "a pair (low, high) with low < high"),
        ("noise", record["noise"], record["noise"] is None or record["noise"] > 0, "positive or null"),
    ]
    for side in (side for side in sides if side != "epoch"):
        index = record[side]["index"]
        last = n_learners + n_late - 1
        rules.append((f"{side}.index", index, 0 <= index <= last, f"from 0 to n_learners + n_late − 1 = {last}"))
    return rule_faults(rules)


def _range_faults(record: Mapping[str, Plain]) -> list[str]:
    learner, witness = record["learner"], record["witness"]
    # "mixture" is younger than records of versions 1 and 2.
    known = RADII if record["version"] == 3 else tuple(name for name in RADII if name != "mixture")
    radius_version, newest = record.get("radius_version", 1), RADIUS_VERSIONS.get(record["radius"], 1)
    spreads = [
        (f"{side}.spread", record[side]["spread"], record[side]["spread"] >= 0, "at least 0")
        for side in _SIDES
        if "spread" in record[side]
    ]
    return rule_faults(
        [
            *spreads,
            ("radius", record["radius"], record["radius"] in known, f"one of {', '.join(known)}"),
            ("radius_version", radius_version, 1 <= radius_version <= newest, f"from 1 to {newest}"),
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
    extra_events = int(record.get("same_round", False))
    separate_lower = shares - extra_events != TWO_SIDED
    if shares != radius_shares(record["radius"], record["contexts"], separate_lower) + extra_events:
        return [f"shares is {shares}, but its radius uses another number"]
    try:
        alpha = radius_alpha(record["n_learners"], record["delta"], shares)
        rule, witness_rule = (
            radius_of(record, side["index"], separate_lower=separate_lower) for side in (learner, witness)
        )
        radius = upper_sum(rule, n, learner.get("spread", 0.0), bound)
        witness_radius = lower_sum(witness_rule, witness_n, witness.get("spread", 0.0))
        mean_upper = (learner["reward_sum"] + bound + radius) / n
        mean_lower = (witness["reward_sum"] - witness_radius) / witness_n
    except (InvalidArgument, ArithmeticError, ValueError, LookupError):
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
