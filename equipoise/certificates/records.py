"""Records of proofs, which can be verified without the run.

A record holds everything that a proof is computed from, so that anyone can recompute it. Its digest reveals a change; a
record that was changed and given a new digest still has to satisfy the mathematics. Each kind of proof is a class of
`eliminations` or `comparisons`, which states its fields, recomputes the proof and describes it. This module is the same
for all kinds.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

from equipoise.certificates.comparisons import Comparison, PairedCertificate
from equipoise.certificates.eliminations import AnyElimination, Elimination, EpochEnd, SameRoundElimination
from equipoise.certificates.fields import (
    Field,
    Fields,
    Names,
    Record,
    is_whole,
    read,
    recomputed_faults,
    shape_faults,
    text,
)
from equipoise.certificates.proofs import UNSTATED, VERSION, Origin, Premises, Proof
from equipoise.certificates.wording import about
from equipoise.errors import InvalidArgument, UnreadableFile
from equipoise.storage.files import digest
from equipoise.types import Plain

KINDS: dict[str, type[Proof]] = {
    kind.kind: kind for kind in (Elimination, SameRoundElimination, EpochEnd, Comparison, PairedCertificate)
}


def elimination_record(
    elimination: AnyElimination,
    *,
    selector_label: str,
    seed: int,
    premises: Premises,
    learner_names: Names,
    instance: str = "",
    rewards: str = "",
) -> Record:
    """Return the elimination as plain data, as in one line of `eliminations.jsonl`.

    `premises` are those of the selector that eliminated the learner; `instance` names the problem instance if an
    experiment has several; `rewards` says how the rewards were changed before they counted, such as "rewards clipped to
    [0, 1]".
    """
    origin = Origin(selector_label, seed, elimination.round, instance, rewards)
    return elimination.sealed(origin, learner_names, premises)


def comparison_record(
    comparison: Comparison,
    *,
    selector_label: str,
    seed: int,
    round: int,
    premises: Premises,
    learner_names: Names,
    instance: str = "",
) -> Record:
    """Return the comparison of two learners after `round` rounds as plain data; the other arguments are as above."""
    origin = Origin(selector_label, seed, round, instance, comparison.rewards)
    return comparison.sealed(origin, learner_names, premises)


def kind_of(record: Mapping[str, Plain]) -> type[Proof] | None:
    """Return the kind of proof in a record; None if it states an unknown one.

    Records of eliminations and comparisons state no kind, but each has a part or a setting that the others lack.
    """
    if "kind" in record:
        return KINDS.get(record["kind"]) if isinstance(record["kind"], str) else None
    if "other" in record:
        return Comparison
    if "epoch" in record or record.get("contexts") == "adversarial":
        return EpochEnd
    witness = record.get("witness")
    return SameRoundElimination if isinstance(witness, Mapping) and "lower_sum" in witness else Elimination


def fields_in(kind: type[Proof]) -> dict[str, Field]:
    """Return all fields of a record."""
    return {**kind.origin, **kind.premises, **kind.fields, "digest": text}


def table_fields(records: Sequence[Record], also: Collection[str] = ()) -> Fields:
    """Return all fields of some elimination records, and the optional ones in `also`.

    Without records, they are the required fields of an elimination by plays.
    """
    found: dict[str, Field] = {}
    present = {*also, *(name for record in records for name in record)}
    for kind in dict.fromkeys(map(kind_of, records)) or [Elimination]:
        found = _merged(found, fields_in(kind or Elimination))
    return {name: field for name, field in found.items() if field.required or name in present}


def _merged(first: Fields, second: Fields) -> dict[str, Field]:
    parts = {
        name: replace(field, parts=_merged(first[name].parts or {}, field.parts))
        for name, field in second.items()
        if name in first and field.parts
    }
    return {**first, **second, **parts}


class Statement(NamedTuple):
    """A record as values."""

    proof: Proof
    premises: Premises
    origin: Origin
    names: dict[int, str]


def read_record(record: Mapping[str, Plain], kind: type[Proof]) -> Statement:
    """Return the values of a record whose fields are complete."""
    premises = read(Premises, asdict(UNSTATED), {name: record[name] for name in kind.premises if name in record})
    sides = [record[name] for name, field in kind.fields.items() if field.parts and "name" in field.parts]
    names = {side["index"]: side["name"] for side in sides}
    return Statement(kind.from_record(record, premises), premises, read(Origin, record), names)


def verify_record(record: object) -> list[str]:
    """Return sentences about the faults of a record; empty if the record proves its statement.

    Everything is recomputed from the record alone.
    """
    if not isinstance(record, Mapping):
        return ["the record is not a JSON object"]
    kind, version = kind_of(record), record.get("version")
    if kind is None:
        return [f"kind is {record['kind']!r:.80}, but must be one of {', '.join(KINDS)}"]
    if is_whole(version) and version != VERSION:
        return [f"version is {version}, but only {VERSION} is known"]
    faults = shape_faults(record, fields_in(kind))
    if faults:
        return faults
    if digest(record) != record["digest"]:
        faults.append("digest does not match the record: it was changed after it was written")
    stated = read_record(record, kind)
    try:
        faults += stated.proof.rule_faults(stated.premises, stated.origin)
        faults += _recomputed_faults(record, stated)
    except (InvalidArgument, ArithmeticError, ValueError, LookupError):
        faults.append("the radius cannot be computed from the settings in the record")
    return faults


def _recomputed_faults(record: Mapping[str, Plain], stated: Statement) -> list[str]:
    premises, proof = stated.proof.recompute(stated.premises)
    recomputed = proof.content(premises, stated.names)
    different = recomputed_faults(record, recomputed, fields_in(type(proof)), proof.magnitude)
    return [*different, *proof.faults(premises, stated.origin)]


def verify_file(path: str | Path) -> tuple[int, list[str]]:
    """Return the number of records in a file, one per line, and sentences about their faults."""
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
    """Return the record of an elimination or comparison as one sentence, with its numbers."""
    proof, premises, origin, names = read_record(record, kind_of(record) or Elimination)
    if isinstance(proof, AnyElimination):
        sentence = proof.describe(names, premises.total_delta)
        return f"In round {origin.round:,} of seed {origin.seed}, {sentence}{about(origin.rewards)}"
    assert isinstance(proof, Comparison | PairedCertificate)
    return proof.describe(names)
