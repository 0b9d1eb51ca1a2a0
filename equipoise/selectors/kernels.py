"""The functions that a selector is made of: what the simulator compiles and the selector's own methods call."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from equipoise.selectors import evidence, nested


class Kernels(NamedTuple):
    """The functions of a selector, all over (params, state, ...); i is a learner."""

    choose: Callable[..., tuple[int, float]]  # (generator) -> learner, probability
    book: Callable[..., None]  # (i, reward, regret, probability): a play was resolved, in play order
    open_play: Callable[..., None] = evidence.open_play  # (i)
    rewind: Callable[..., None] = evidence.rewind  # (i)
    play: Callable[..., None] = evidence.play  # (i, position, regret)
    pool: Callable[..., None] = evidence.pool  # (reward)
    close_round: Callable[..., None] = evidence.close_round  # (i, reward, regret, proposals), in round order
    certify: Callable[..., tuple[float, float, float, float, bool]] = evidence.certify
    is_active: Callable[..., bool] = evidence.is_active  # (i)
    stage: Callable[..., int] = evidence.stage  # (i, probability, generator) right after choose -> TEACH, KEEP, REPLAY
    evidence_of: Callable[..., tuple[evidence.Params, evidence.State]] = evidence.evidence_of


def nested_kernels(
    choose: Callable[..., tuple[int, float]],
    book: Callable[..., None] = nested.book,
    *,
    close_round: Callable[..., None] = evidence.close_round,
    certify: Callable[..., tuple[float, float, float, float, bool]] = nested.certify,
    is_active: Callable[..., bool] = nested.is_active,
    stage: Callable[..., int] = evidence.stage,
) -> Kernels:
    """The kernels of a selector whose params and state have those of `evidence` inside."""
    return Kernels(
        choose,
        book,
        nested.open_play,
        nested.rewind,
        nested.play,
        nested.pool,
        close_round,
        certify,
        is_active,
        stage,
        nested.evidence_of,
    )
