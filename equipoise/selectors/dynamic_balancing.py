"""Dynamic balancing: candidate bounds are balanced over an active set that learners may leave and enter again.

As in regret bound balancing with elimination, the active learner with the smallest candidate bound plays. But the
active set is computed again after every reward, from all learners: those whose adjusted mean reward plus bound and
radius is not below what some learner has proved possible. A learner that has left the set can enter it again.

Reference: Cutkosky, Dann, Das, Gentile, Pacchiano and Purohit (2021), "Dynamic balancing for model selection in bandits
and RL", ICML, Algorithm 1.
Symbols: n_i plays, U_i rewards, R_i regret_bound, v_i scale, b_i bias; the printed radius is `radius_sum` of
`equipoise.confidence`.
Guarantee: with scales 1 and biases 0, on the event of the radius a learner whose bound holds is always active. The
regret bounds of the reference for other scales and biases are not claimed here.
Departures: biases do not change over time; the radius has explicit constants. Bounds are balanced at all plays made,
pending ones too, and rewards tested at resolved prefixes. Ties go to fewer plays, then to the lower index.

>>> from equipoise.bounds import Power
>>> selector = DynamicBalancing([Power(0.01), Power(0.02)])
>>> for _ in range(200):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.9 * choice.learner)
>>> selector.active
(1,)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Elimination
from equipoise.errors import InvalidArgument
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import comes_first
from equipoise.selectors._core.kernels import Kernels, Params, nested_kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import check_bounds, decode_bounds, encode_bounds
from equipoise.settings import configurable, setting
from equipoise.settings.checks import positive, real


@dataclass(slots=True)
class Entrant:
    """A learner's place in the active set."""

    scale: float
    bias: float  # subtracted from its mean reward
    admitted: bool = True


class State(NamedTuple):
    evidence: evidence.State  # where no learner is ever eliminated
    entrants: list[Entrant]


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """The active learner with the smallest scaled bound."""
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.evidence.accounts)):
        account, entrant = state.evidence.accounts[i], state.entrants[i]
        scaled_bound = entrant.scale * account.regret_bound
        if entrant.admitted and account.active and comes_first(scaled_bound, account.plays, least, fewest):
            chosen, least, fewest = i, scaled_bound, account.plays
    return chosen, 1.0


@kernel
def credit(params: Params, state: State, i: int, reward: float, regret: float, probability: float) -> None:
    """Credit one reward, then decide for every learner whether it is active."""
    evidence.credit(params.evidence, state.evidence, i, reward, regret)
    best_lower = -inf
    for j in range(len(state.evidence.accounts)):
        best_lower = max(best_lower, state.evidence.accounts[j].mean_lower - state.entrants[j].bias)
    for j in range(len(state.evidence.accounts)):
        entrant = state.entrants[j]
        entrant.admitted = state.evidence.accounts[j].mean_upper - entrant.bias >= best_lower


@kernel
def is_active(params: Params, state: State, i: int) -> bool:
    return state.entrants[i].admitted


@configurable
class DynamicBalancing(KernelSelector[Params, State, Elimination]):
    """Balances candidate bounds over an active set that learners can leave and enter again.

    A learner that is not active has not been eliminated, so `eliminations` stays empty.
    """

    name = "Dynamic balancing"
    explanation = (
        "The active learner plays whose candidate bound at its number of plays is smallest; a learner is inactive "
        "while its rewards plus its bound are below what another one has proved possible."
    )
    needs = frozenset({"bounds"})
    readmits = True
    per_learner = ("bounds", "scales", "biases")
    kernels: ClassVar[Kernels] = nested_kernels(choose, credit=credit, is_active=is_active)

    bounds: Sequence[Bound] = setting(
        "One candidate bound per learner.", check_bounds, encode=encode_bounds, decode=decode_bounds, kw_only=False
    )
    scales: Sequence[float] = setting("Factor of each bound. Default: 1 for all.", default=None)
    biases: Sequence[float] = setting(
        "Number subtracted from the mean reward of each learner. Default: 0 for all.", default=None
    )

    def _set_up(self) -> None:
        n_learners = len(self.bounds)
        self.scales = tuple(positive("scales", scale) for scale in _one_each("scales", self.scales, 1.0, n_learners))
        self.biases = tuple(real("biases", bias) for bias in _one_each("biases", self.biases, 0.0, n_learners))
        super()._set_up()

    def _make_state(self, accounts: evidence.State) -> State:
        return State(accounts, [*map(Entrant, self.scales, self.biases)])


def _one_each(name: str, entries: object, default: float, n_learners: int) -> tuple[object, ...]:
    if entries is None:
        return (default,) * n_learners
    given = tuple(entries) if isinstance(entries, Iterable) else None
    if given is None or len(given) != n_learners:
        raise InvalidArgument(f"{name} is {entries!r}, but must have one entry for each of {n_learners} learners")
    return given
