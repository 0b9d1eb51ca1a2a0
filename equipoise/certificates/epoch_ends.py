"""The proof in the record of an epoch's end, under adversarial contexts.

If all learners of an epoch of t rounds were well specified, the optima of its rounds would add up to at most
U + R + D(t): the rewards, the regret bounds that the chosen learners gave for their plays, and the radius of the reward
noise. If the lower bounds of a witness on its proposals in the same rounds add up to more, some learner is
misspecified, and then so is the one with the smallest class, since every class contains those before it. This module
writes and checks that part of a record; `records` has the rest.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL", Algorithms 2 and 3.
Symbols: t rounds, U reward_sum, R regret_bound, D radius, sum of B lower_sum (all totals), alpha = delta / (4 M).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise.certificates import EpochEnd
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
from equipoise.confidence import epoch_alpha, noise_radius, radius_sum
from equipoise.types import Plain

SIDES: dict[str, dict[str, Test]] = {
    "learner": {"index": whole, "name": text},
    "epoch": {"rounds": whole, "reward_sum": number, "regret_bound": number, "radius": number, "mean_upper": number},
    "witness": {"index": whole, "name": text, "lower_sum": number, "mean_lower": number},
}
FIELDS: dict[str, Test] = {}


def proof(end: EpochEnd, learner_names: Sequence[str]) -> Record:
    """The two sides of the inequality as plain data."""
    epoch, witness = end.learner, end.witness
    return {
        "learner": {"index": int(epoch.index), "name": str(learner_names[epoch.index])},
        "epoch": {
            "rounds": int(epoch.rounds),
            "reward_sum": float(epoch.reward_sum),
            "regret_bound": float(epoch.regret_bound),
            "radius": float(epoch.radius),
            "mean_upper": float(epoch.mean_upper),
        },
        "witness": {
            "index": int(witness.index),
            "name": str(learner_names[witness.index]),
            "lower_sum": float(witness.lower_sum),
            "mean_lower": float(witness.mean_lower),
        },
    }


def describe(record: Mapping[str, Plain]) -> str:
    """The record as one sentence, with the numbers of the inequality."""
    learner, epoch, witness = record["learner"], record["epoch"], record["witness"]
    places = digits(epoch["mean_upper"], witness["mean_lower"])
    rounds, total = f"{epoch['rounds']:,}", "{reward_sum:,.1f} + {regret_bound:,.1f} + {radius:,.1f}".format(**epoch)
    return (
        f"In round {record['round']:,} of seed {record['seed']}, {learner['name']} was eliminated with confidence "
        f"{confidence_text(record['delta'])}: if the confidence sets of all learners held, the best expected reward in "
        f"the {rounds} rounds of the epoch would on average be at most ({total}) / {rounds} = "
        f"{epoch['mean_upper']:.{places}f}, but by the lower bounds of {witness['name']} it is at least "
        f"{witness['lower_sum']:,.1f} / {rounds} = "
        f"{witness['mean_lower']:.{places}f}."
    )


def range_faults(record: Mapping[str, Plain]) -> list[str]:
    """Fields that are out of range."""
    eliminated, witness, rounds = record["learner"]["index"], record["witness"]["index"], record["epoch"]["rounds"]
    return rule_faults(
        [
            ("radius", record["radius"], record["radius"] == "stitched", "stitched"),
            ("contexts", record["contexts"], record["contexts"] == "adversarial", "adversarial"),
            ("learner.index", eliminated, eliminated < record["n_learners"] - 1, "less than that of the last learner"),
            (
                "witness.index",
                witness,
                witness >= eliminated,
                "at least learner.index: earlier learners are eliminated",
            ),
            ("epoch.rounds", rounds, 1 <= rounds <= record["round"], f"from 1 to round = {record['round']}"),
        ]
    )


def mathematical_faults(record: Mapping[str, Plain]) -> list[str]:
    """What does not follow from the sums in the record."""
    epoch, witness = record["epoch"], record["witness"]
    low, high = record["reward_range"]
    n, rewards, regrets, lowers = epoch["rounds"], epoch["reward_sum"], epoch["regret_bound"], witness["lower_sum"]
    try:
        alpha = epoch_alpha(record["n_learners"], record["delta"])
        rule = noise_radius(alpha=alpha, width=high - low, noise=record["noise"], scale=record["radius_scale"])
        radius = radius_sum(rule, n)
        mean_upper, mean_lower = (rewards + regrets + radius) / n, lowers / n
    except (ArithmeticError, ValueError):
        return ["the radius cannot be computed from the settings in the record"]
    faults = recomputed_faults(
        [
            ("alpha", record["alpha"], alpha, alpha),
            ("epoch.radius", epoch["radius"], radius, radius),
            ("epoch.mean_upper", epoch["mean_upper"], mean_upper, radius / n),
            ("witness.mean_lower", witness["mean_lower"], mean_lower, radius / n),
        ]
    )
    if not mean_upper < mean_lower:
        faults.append(f"nothing is disproved: the upper mean {mean_upper!r} is not below the lower mean {mean_lower!r}")
    faults += regret_faults("epoch.regret_bound", regrets, low, high, n)
    faults += sum_faults("witness.lower_sum", lowers, low, high, n, "lower bounds")
    if record["noise"] is None:
        faults += sum_faults("epoch.reward_sum", rewards, low, high, n, "rewards")
    return faults
