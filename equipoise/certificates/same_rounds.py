"""The proof in the record of an elimination by the same-round test.

If the bound R of a learner held, the best expected rewards of its own n rounds would add up to at most U + R + D(n), D
being a radius of the reward noise alone. If the lower bounds of a witness on its proposals in the same rounds add up to
more, the bound is false, or the confidence sets of the witness are. This module writes and checks that part of a
record; `records` has the rest.

Symbols: n plays, U reward_sum, R regret_bound, D radius, lower_sum (all totals), alpha = delta / (shares (M + 1)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.certificates import Evidence, SameRoundElimination
from equipoise.certificates.fields import (
    Record,
    Test,
    digits,
    number,
    recomputed_faults,
    regret_faults,
    rule_faults,
    sum_faults,
    text,
    whole,
)
from equipoise.certificates.wording import confidence_text
from equipoise.confidence import RADIUS_VERSIONS, mixture, noise_variance, radius_alpha, radius_shares, radius_sum
from equipoise.types import Plain

SIDES: dict[str, dict[str, Test]] = {
    "learner": {
        "index": whole,
        "name": text,
        "plays": whole,
        "reward_sum": number,
        "regret_bound": number,
        "radius": number,
        "mean_upper": number,
    },
    "witness": {"index": whole, "name": text, "lower_sum": number, "mean_lower": number},
}
FIELDS: dict[str, Test] = {}
ALLOWED = tuple(name for name in RADIUS_VERSIONS if name != "paper")


def learner_side(learner: Evidence, learner_names: Sequence[str]) -> Record:
    """The side of the eliminated learner as plain data; the same in both tests of a learner's own plays."""
    return {
        "index": int(learner.index),
        "name": str(learner_names[learner.index]),
        "plays": int(learner.plays),
        "reward_sum": float(learner.reward_sum),
        "regret_bound": float(learner.regret_bound),
        "radius": float(learner.radius),
        "mean_upper": float(learner.mean_upper),
    }


def proof(elimination: SameRoundElimination, learner_names: Sequence[str]) -> Record:
    """The two sides of the inequality as plain data."""
    witness = elimination.witness
    return {
        "learner": learner_side(elimination.learner, learner_names),
        "witness": {
            "index": int(witness.index),
            "name": str(learner_names[witness.index]),
            "lower_sum": float(witness.lower_sum),
            "mean_lower": float(witness.mean_lower),
        },
    }


def describe(record: Mapping[str, Plain]) -> str:
    """The record as one sentence, with the numbers of the inequality."""
    learner, witness = record["learner"], record["witness"]
    places = digits(learner["mean_upper"], witness["mean_lower"])
    total = "{reward_sum:,.1f} + {regret_bound:,.1f} + {radius:,.1f}".format(**learner)
    plays = f"{learner['plays']:,}"
    return (
        f"In round {record['round']:,} of seed {record['seed']}, {learner['name']} was eliminated with confidence "
        f"{confidence_text(record['delta'])}, if the confidence sets of {witness['name']} hold: if its bound of "
        f"{learner['regret_bound']:,.1f} on the regret of its {plays} plays held, the best expected reward in these "
        f"rounds would on average be at most ({total}) / {plays} = {learner['mean_upper']:.{places}f}, but by the "
        f"lower bounds of {witness['name']} in the same rounds it is at least {witness['lower_sum']:,.1f} / {plays} = "
        f"{witness['mean_lower']:.{places}f}."
    )


def range_faults(record: Mapping[str, Plain]) -> list[str]:
    """Fields that are out of range."""
    learner, witness, radius_version = record["learner"], record["witness"], record["radius_version"]
    newest = RADIUS_VERSIONS.get(record["radius"], 1)
    return rule_faults(
        [
            ("radius", record["radius"], record["radius"] in ALLOWED, f"one of {', '.join(ALLOWED)}"),
            ("radius_version", radius_version, 1 <= radius_version <= newest, f"from 1 to {newest}"),
            ("contexts", record["contexts"], record["contexts"] in ("random", "fixed"), "random or fixed"),
            ("witness.index", witness["index"], witness["index"] != learner["index"], "different from learner.index"),
            ("learner.plays", learner["plays"], 1 <= learner["plays"] <= record["round"], "from 1 to round"),
        ]
    )


def mathematical_faults(record: Mapping[str, Plain]) -> list[str]:
    """What does not follow from the sums in the record."""
    learner, witness = record["learner"], record["witness"]
    low, high = record["reward_range"]
    n, rewards, bound, lowers = learner["plays"], learner["reward_sum"], learner["regret_bound"], witness["lower_sum"]
    shares = radius_shares(record["radius"], record["contexts"], separate_lower=False) + 1
    try:
        alpha = radius_alpha(record["n_learners"], record["delta"], shares)
        radius = radius_sum(mixture(noise_variance(high - low, record["noise"]), alpha, record["radius_scale"]), n)
        mean_upper, mean_lower = (rewards + bound + radius) / n, lowers / n
    except (ArithmeticError, ValueError):
        return ["the radius cannot be computed from the settings in the record"]
    faults = recomputed_faults(
        [
            ("alpha", record["alpha"], alpha, alpha),
            ("shares", record["shares"], shares, shares),
            ("learner.radius", learner["radius"], radius, radius),
            ("learner.mean_upper", learner["mean_upper"], mean_upper, radius / n),
            ("witness.mean_lower", witness["mean_lower"], mean_lower, radius / n),
        ]
    )
    if not mean_upper < mean_lower:
        faults.append(f"nothing is disproved: the upper mean {mean_upper!r} is not below the lower mean {mean_lower!r}")
    faults += regret_faults("learner.regret_bound", bound, low, high, n)
    faults += sum_faults("witness.lower_sum", lowers, low, high, n, "lower bounds")
    if record["noise"] is None:
        faults += sum_faults("learner.reward_sum", rewards, low, high, n, "rewards")
    return faults
