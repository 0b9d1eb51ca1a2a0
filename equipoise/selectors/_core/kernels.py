"""The kernels of a selector: the functions that the simulator compiles and that the selector's methods call.

Params and state of a selector are those of `evidence`, or contain them and more. For the second kind this module has
the kernels of `evidence` in a form that finds them inside, and the kernels of rewards as they arrive. Confidence
statements need evidence in play order, because delays can depend on rewards. An index needs no validity: it can use all
rewards that have arrived, in any order, so that late or lost rewards do not blind the choice. If every reward arrives
at once, these sums equal the sums of the evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import add


class Params(NamedTuple):
    """Params of a selector that adds only state."""

    evidence: evidence.Params


class HasParams(Protocol):
    """Params that contain those of `evidence`."""

    @property
    def evidence(self) -> evidence.Params: ...


class HasState(Protocol):
    """A state that contains that of `evidence`."""

    @property
    def evidence(self) -> evidence.State: ...


@kernel
def evidence_of(params: HasParams, state: HasState) -> tuple[evidence.Params, evidence.State]:
    """The params and state of `evidence` within those of a selector."""
    return params.evidence, state.evidence


@kernel
def credit(params: HasParams, state: HasState, i: int, reward: float, regret: float, probability: float) -> None:
    evidence.credit(params.evidence, state.evidence, i, reward, regret)


@kernel
def certify(params: HasParams, state: HasState) -> tuple[float, float, float, float, bool]:
    return evidence.certify(params.evidence, state.evidence)


@kernel
def is_active(params: HasParams, state: HasState, i: int) -> bool:
    return evidence.is_active(params.evidence, state.evidence, i)


class ArrivalState(NamedTuple):
    """State of a selector that adds only the arrivals."""

    evidence: evidence.State
    arrivals: list[Arrivals]


@dataclass(slots=True)
class Arrivals:
    """The rewards of one learner that have arrived, as a compensated sum."""

    plays: int = 0
    rewards: float = 0.0
    rewards_carry: float = 0.0


@kernel
def arrive(params: HasParams, state: ArrivalState, i: int, reward: float, probability: float) -> None:
    """Add a reward of learner i that has just arrived."""
    add_arrival(state.arrivals[i], reward)


@kernel
def add_arrival(row: Arrivals, reward: float) -> None:
    row.plays += 1
    row.rewards, row.rewards_carry = add(row.rewards, row.rewards_carry, reward)


class Kernels(NamedTuple):
    """The functions of a selector. Their first arguments are params and state; i is a learner."""

    choose: Callable[..., tuple[int, float]]  # (generator) -> learner, probability
    credit: Callable[..., None]  # (i, reward, regret, probability): a play counts as evidence, in play order
    arrive: Callable[..., None] = evidence.ignore_arrival  # (i, reward, probability): a reward, in order of arrival
    close_round: Callable[..., None] = evidence.close_round  # (i, reward, regret, proposals), in round order
    certify: Callable[..., tuple[float, float, float, float, bool]] = evidence.certify
    is_active: Callable[..., bool] = evidence.is_active  # (i)
    stage: Callable[..., int] = evidence.stage  # (i, probability, generator) right after choose -> TEACH, KEEP, REPLAY
    learner_of: Callable[..., tuple[int, bool]] = evidence.learner_of  # (i) -> learner, whether it plays greedily
    evidence_of: Callable[..., tuple[evidence.Params, evidence.State]] = evidence.evidence_of

    @property
    def replays_policies(self) -> bool:
        """Whether stored policies of learners play again."""
        return self.stage is not evidence.stage


NESTED: dict[str, Any] = {
    "credit": credit,
    "certify": certify,
    "is_active": is_active,
    "evidence_of": evidence_of,
}


def nested_kernels(choose: Callable[..., tuple[int, float]], **own: Callable[..., object]) -> Kernels:
    """Kernels of a selector whose params and state contain those of `evidence`; `own` replaces some of them."""
    return Kernels(choose, **(NESTED | own))
