"""Logs in memory: arrays, and the `bandit_feedback` dictionaries of the Open Bandit Pipeline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.errors import InvalidArgument
from equipoise.logs.rounds import BATCH_CELLS, NO_ID, Faults, LoggedRounds, Rounds

FEEDBACK = ("n_rounds", "n_actions", "context", "action", "reward", "pscore")


class ArraySource:
    action_names: tuple[str, ...] = ()
    n_skipped = 0
    floor = np.nan

    def __init__(self, rounds: Rounds) -> None:
        self.name, self._rounds = "arrays", rounds
        self.shared_names = tuple(f"x{j}" for j in range(rounds.shared.shape[1]))
        self.offer_names = tuple(f"a{j}" for j in range(rounds.offers.shape[2]))

    def read(self, faults: Faults) -> Iterator[Rounds]:
        _, n_actions, n_columns = self._rounds.offers.shape
        size = max(BATCH_CELLS // max(n_actions * max(n_columns, 1), 1), 1)
        for first in range(0, self._rounds.n_rounds, size):
            yield self._rounds.at(slice(first, first + size))


def from_arrays(
    contexts: ArrayLike | None,
    actions: ArrayLike,
    rewards: ArrayLike,
    propensities: ArrayLike,
    *,
    pmf: ArrayLike | None = None,
    n_actions: int | None = None,
    times: ArrayLike | None = None,
) -> LoggedRounds:
    """A log from arrays, one entry per round.

    Parameters
    ----------
    contexts
        None, (n, d) features of the rounds, or (n, K, d) features of the offered actions.
    actions
        The logged actions, from 0.
    rewards
        Their rewards.
    propensities
        The probabilities with which the logged actions were chosen.
    pmf
        (n, K) probabilities of all actions, if known.
    n_actions
        K, if the actions of the log are not all.
    times
        Seconds since 1970.

    Examples
    --------
    >>> from_arrays(None, [0, 1, 0], [1.0, 0.0, 1.0], [0.5, 0.5, 0.5])
    LoggedRounds('arrays', 3 rounds, 2 actions)
    """
    rounds = _rounds(contexts, actions, rewards, propensities, pmf, n_actions, times)
    return LoggedRounds(ArraySource(rounds), n_actions=n_actions)


def _rounds(
    contexts: Any, actions: Any, rewards: Any, propensities: Any, pmf: Any, n_actions: int | None, times: Any
) -> Rounds:
    chosen = np.asarray(actions)
    if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
        raise InvalidArgument(f"actions has shape {chosen.shape} and type {chosen.dtype}, but must be n integers")
    n = len(chosen)
    given = np.empty((n, 0)) if contexts is None else np.asarray(contexts, np.float64)
    if given.ndim not in (2, 3):
        raise InvalidArgument(f"contexts has shape {given.shape}, but must be (n, d) or (n, K, d)")
    known = np.empty((n, 0)) if pmf is None else np.asarray(pmf, np.float64)
    total = n_actions or max(int(chosen.max(initial=-1)) + 1, known.shape[1])
    offers = given if given.ndim == 3 else np.empty((n, total, 0))
    shared = given if given.ndim == 2 else np.empty((n, 0))
    rest = {"rewards": rewards, "propensities": propensities, "times": np.full(n, np.nan) if times is None else times}
    numbers = {name: np.asarray(values, np.float64) for name, values in rest.items()}
    for name, array in {**numbers, "contexts": given[:, 0] if given.ndim == 3 else given, "pmf": known}.items():
        if len(array) != n or (name in numbers and array.ndim != 1):
            raise InvalidArgument(f"{name} has shape {array.shape}, but must have one entry for each of {n} actions")
    n_offered = np.full(n, offers.shape[1])
    if known.shape[1] != offers.shape[1]:
        if known.shape[1]:
            raise InvalidArgument(f"pmf has {known.shape[1]} columns, but must have one for each of {total} actions")
        known = np.full((n, offers.shape[1]), np.nan)
    logged = chosen.astype(np.int64), numbers["rewards"], numbers["propensities"], known
    about = np.ones(n), numbers["times"], np.full(n, NO_ID)
    return Rounds(np.arange(1, n + 1), shared, offers, n_offered, *logged, *about)


def from_bandit_feedback(feedback: Mapping[str, Any]) -> LoggedRounds:
    """A log from a `bandit_feedback` dictionary of the Open Bandit Pipeline.

    Its entries are n_rounds, n_actions, context, action, reward and pscore; position and action_context are optional.
    """
    for key in FEEDBACK:
        if key not in feedback:
            raise InvalidArgument(f"feedback has entries {sorted(feedback)}, but must have {key!r}")
    n, n_actions = int(feedback["n_rounds"]), int(feedback["n_actions"])
    shared = np.asarray(feedback["context"], np.float64).reshape(n, -1)
    positions = feedback.get("position")
    if positions is not None and len(np.unique(positions)) > 1:
        shared = np.hstack([shared, np.equal(np.asarray(positions)[:, None], np.unique(positions)).astype(float)])
    own = feedback.get("action_context")
    rounds = _rounds(shared, feedback["action"], feedback["reward"], feedback["pscore"], None, n_actions, None)
    if own is not None:
        features = np.asarray(own, np.float64)
        rounds = rounds._replace(offers=np.broadcast_to(features, (n, *features.shape)))  # takes no memory
    return LoggedRounds(ArraySource(rounds), n_actions=n_actions)
