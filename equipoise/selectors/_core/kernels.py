"""The kernels of a selector: the functions that the simulator compiles and that the selector's methods call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from equipoise.selectors._core import evidence, nested


class Kernels(NamedTuple):
    """The functions of a selector. Their first arguments are params and state; i is a learner."""

    choose: Callable[..., tuple[int, float]]  # (generator) -> learner, probability
    credit: Callable[..., None]  # (i, reward, regret, probability): a play counts as evidence, in play order
    arrive: Callable[..., None] = evidence.ignore_arrival  # (i, reward, probability): a reward, in order of arrival
    open_play: Callable[..., None] = evidence.open_play  # (i)
    rewind: Callable[..., None] = evidence.rewind  # (i)
    play: Callable[..., None] = evidence.play  # (i, position, regret)
    skip: Callable[..., None] = evidence.skip  # (i, increment, regret): a play that never counts, in play order
    pool: Callable[..., None] = evidence.pool  # (reward)
    close_round: Callable[..., None] = evidence.close_round  # (i, reward, regret, proposals), in round order
    certify: Callable[..., tuple[float, float, float, float, bool]] = evidence.certify
    is_active: Callable[..., bool] = evidence.is_active  # (i)
    stage: Callable[..., int] = evidence.stage  # (i, probability, generator) right after choose -> TEACH, KEEP, REPLAY
    learner_of: Callable[..., tuple[int, bool]] = evidence.learner_of  # (i) -> learner, whether it plays greedily
    evidence_of: Callable[..., tuple[evidence.Params, evidence.State]] = evidence.evidence_of


NESTED: dict[str, Any] = {
    name: getattr(nested, name)
    for name in ("credit", "open_play", "rewind", "play", "skip", "pool", "certify", "is_active", "evidence_of")
}


def nested_kernels(choose: Callable[..., tuple[int, float]], **own: Callable[..., object]) -> Kernels:
    """Kernels of a selector whose params and state contain those of `evidence`; `own` replaces some of them."""
    return Kernels(choose, **(NESTED | own))
