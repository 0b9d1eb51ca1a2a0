"""The history of a portfolio: what it looked like at log-spaced rounds, and what happened to its learners, bounded.

A sample has the round, the certificate (optimum and regret, lower and upper) and, for each learner, plays, mean reward
and radius. Samples are taken at rounds that grow by `ratio`. When they hold more than `MAX_NUMBERS` numbers, every
second one is dropped and the ratio is squared, so that memory stays bounded whatever the number of learners and rounds.
Marks are eliminations, suspensions and changes of the pool, with their reasons; the oldest are dropped first.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import NamedTuple

import numpy as np

from equipoise.certificates import AnyElimination, Certificate, EpochEnd, SameRoundElimination, Standing
from equipoise.certificates.wording import told_apart
from equipoise.types import Config, Plain

RATIO = 1.15  # between the rounds of two samples
MAX_NUMBERS = 5_000  # in all samples: 40 KB
MAX_MARKS = 120
MAX_REASON_LENGTH = 160  # characters
MARKED = frozenset(
    {
        "drift",
        "eliminated",
        "learner_added",
        "learner_removed",
        "learner_renamed",
        "learner_resumed",
        "learner_suspended",
        "learner_taught",
    }
)
ENOUGH_REWARDS, TINY_SHARE = 1_000, 1e-3  # a range is oversized if so many rewards lie within such a share of it


class Mark(NamedTuple):
    """Something that happened to a learner."""

    round: int
    kind: str  # of the event
    name: str
    reason: str  # empty if there is none


@dataclass(frozen=True)
class Sample:
    """A portfolio in one round. Means and radii are nan for a learner without a play that counts."""

    round: int
    optimum: tuple[float, float]  # lower and upper
    regret: tuple[float, float]
    plays: tuple[int, ...]
    mean_rewards: tuple[float, ...]
    mean_radii: tuple[float, ...]


class History:
    """Samples, marks, and the range of the rewards that arrived."""

    def __init__(self) -> None:
        self.next_round: float = 1  # of the next sample
        self.marks: list[Mark] = []
        self.n_rewards = 0
        self.lowest, self.highest = inf, -inf
        self.warned = False  # whether an oversized range was reported
        self._ratio = RATIO
        self._rows: list[array[float]] = []

    def __repr__(self) -> str:
        last = self._rows[-1][0] if self._rows else 0
        return f"History({len(self._rows)} samples up to round {last:.0f}, {len(self.marks)} marks)"

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples, the oldest first."""
        return tuple(map(_sample, self._rows))

    def see(self, reward: float) -> None:
        """Count a reward."""
        self.n_rewards += 1
        if not self.lowest <= reward <= self.highest:
            self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)

    def sample(self, round_: int, standing: Sequence[Standing], certificate: Certificate) -> None:
        """Add a sample, and determine the round of the next."""
        about = certificate
        row = [round_, about.optimum_lower, about.optimum_upper, about.regret_lower, about.regret_upper]
        for each in standing:
            row += (each.plays, each.mean_reward, each.mean_radius)
        self._rows.append(array("d", row))
        while sum(map(len, self._rows)) > MAX_NUMBERS and len(self._rows) > 2:
            self._rows = self._rows[::-2][::-1]  # the newest stays
            self._ratio **= 2
        self.next_round = max(round_ + 1, ceil(round_ * self._ratio))

    def mark(self, round_: int, kind: str, data: Mapping[str, Plain]) -> None:
        """Remember an event, if it says what happened to a learner."""
        if kind not in MARKED:
            return
        reason = str(data.get("reason") or data.get("error") or "")
        if data.get("until_round"):
            reason = f"until round {data['until_round']:,}: {reason}"
        name = str(data.get("name", ""))
        if kind == "learner_renamed":
            reason, name, old = f"was {name}", str(data["new"]), name
            self.marks = [mark._replace(name=name) if mark.name == old else mark for mark in self.marks]
        self.marks.append(Mark(int(data.get("round", round_)), kind, name, reason[:MAX_REASON_LENGTH]))
        del self.marks[:-MAX_MARKS]

    def oversized(self, reward_range: tuple[float, float]) -> str:
        """What an oversized range costs, the first time that this is known; else nothing."""
        low, high = reward_range
        spread = self.highest - self.lowest
        if self.warned or self.n_rewards < ENOUGH_REWARDS or not 0.0 < spread <= TINY_SHARE * (high - low):
            return ""
        self.warned = True
        return (
            f"all {self.n_rewards:,} rewards so far lie in [{self.lowest:.4g}, {self.highest:.4g}], less than a "
            f"thousandth of reward_range ({low:g}, {high:g}): radii are proportional to the range, so statements need "
            f"about {((high - low) / spread) ** 2:.0e} times as many plays as with a range of that size"
        )

    def state(self) -> Config:
        """Everything as plain data."""
        numbers = [number for row in self._rows for number in row]
        return {
            "samples": np.array(numbers, np.float64),
            "lengths": np.array([len(row) for row in self._rows], np.int64),
            "marks": [tuple(mark) for mark in self.marks],
            "next": np.array([self.next_round, self._ratio], np.float64),
            "rewards": np.array([self.n_rewards, self.lowest, self.highest, self.warned], np.float64),
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        """Load what `state` returned."""
        ends = np.cumsum(state["lengths"])
        numbers = np.split(np.asarray(state["samples"]), ends[:-1]) if len(ends) else []
        self._rows = [array("d", row.tolist()) for row in numbers]
        self.marks = [Mark(*row) for row in state["marks"]]
        self.next_round, self._ratio = np.asarray(state["next"]).tolist()
        n_rewards, self.lowest, self.highest, warned = np.asarray(state["rewards"]).tolist()
        self.n_rewards, self.warned = int(n_rewards), bool(warned)


def _sample(row: Sequence[float]) -> Sample:
    round_, optimum_lower, optimum_upper, regret_lower, regret_upper, *rest = row
    plays, means, radii = (tuple(rest[k::3]) for k in range(3))
    counts = tuple(map(int, plays))
    return Sample(int(round_), (optimum_lower, optimum_upper), (regret_lower, regret_upper), counts, means, radii)


def reason_of(elimination: AnyElimination, witness: str) -> str:
    """Why a learner was eliminated, in words."""
    upper, lower = told_apart(elimination.learner.mean_upper, elimination.witness.mean_lower)
    if isinstance(elimination, SameRoundElimination):
        witness = f"{witness}, if its own confidence sets hold,"
    proof = f"at most {upper} could be expected, but {witness} shows at least {lower}"
    if isinstance(elimination, EpochEnd):
        return f"if all active classes contained the rewards, {proof}, and its class is the smallest"
    return f"if its bound held, {proof}"
