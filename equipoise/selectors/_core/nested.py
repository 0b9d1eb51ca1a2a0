"""The kernels of `evidence` for selectors whose params or state contain those of `evidence` and more."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence


class Params(NamedTuple):
    """Params of a selector that adds only state."""

    evidence: evidence.Params


class State(NamedTuple):
    """State of a selector that adds only params."""

    evidence: evidence.State


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
def open_play(params: HasParams, state: HasState, i: int) -> None:
    evidence.open_play(params.evidence, state.evidence, i)


@kernel
def rewind(params: HasParams, state: HasState, i: int) -> None:
    evidence.rewind(params.evidence, state.evidence, i)


@kernel
def play(params: HasParams, state: HasState, i: int, position: int, regret: float) -> None:
    evidence.play(params.evidence, state.evidence, i, position, regret)


@kernel
def credit(params: HasParams, state: HasState, i: int, reward: float, regret: float, probability: float) -> None:
    evidence.credit(params.evidence, state.evidence, i, reward, regret)


@kernel
def skip(params: HasParams, state: HasState, i: int, increment: float, regret: float) -> None:
    evidence.skip(params.evidence, state.evidence, i, increment, regret)


@kernel
def pool(params: HasParams, state: HasState, reward: float) -> None:
    evidence.pool(params.evidence, state.evidence, reward)


@kernel
def certify(params: HasParams, state: HasState) -> tuple[float, float, float, float, bool]:
    return evidence.certify(params.evidence, state.evidence)


@kernel
def is_active(params: HasParams, state: HasState, i: int) -> bool:
    return evidence.is_active(params.evidence, state.evidence, i)
