"""What a selector made of kernels consists of: its settings, params, state, confidence and ledger."""

from __future__ import annotations

from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from equipoise.bounds import Bound, Custom, Observed
from equipoise.certificates import AnyElimination
from equipoise.confidence import Confidence
from equipoise.errors import InvalidArgument
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params as EvidenceParams
from equipoise.selectors._core.evidence import State as EvidenceState
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.ledger import Ledger
from equipoise.settings.units import Units

P = TypeVar("P", bound=NamedTuple)
S = TypeVar("S", bound=NamedTuple)
D = TypeVar("D", bound=AnyElimination)


class SelectorParts(Units, Generic[P, S, D]):
    """The parts of a selector, whose params and state are or contain those of `evidence`."""

    _kind = "selector"
    _refusal = InvalidArgument
    name: str
    explanation: str  # how it chooses, in one sentence
    needs: frozenset[str] = frozenset()
    kernels: ClassVar[Kernels]
    randomized: ClassVar[bool] = False  # whether `choose` uses random numbers
    readmits: ClassVar[bool] = False  # whether an inactive learner can become active again
    balances: ClassVar[bool] = True  # whether choices depend on the bounds of pending plays
    compares_all: ClassVar[bool] = True  # with need "actions": whether its test compares what all active ones proposed
    per_learner: ClassVar[tuple[str, ...]] = ("bounds",)  # settings with one entry per learner

    n_learners: int  # at the start
    delta: float
    reward_range: tuple[float, float]
    noise: float | None = None
    radius_scale: float = 1.0

    confidence: Confidence
    params: P  # first argument of the kernels
    kernel_state: S  # second argument of the kernels: rows that they change in place
    evidence: EvidenceState  # the part of `kernel_state` that every selector has

    def _set_up(self) -> None:
        low, high = self.reward_range
        self.confidence = self._make_confidence(self.n_accounts)
        self.params = self._make_params(EvidenceParams(self.confidence.radius, low, high, high - low))
        self._bounds = list(self.learner_bounds)
        self.evidence = evidence.open_state(self._bounds, self.n_accounts, high - low)
        self.kernel_state = self._make_state(self.evidence)
        self.observed = tuple(i for i, bound in enumerate(self._bounds) if isinstance(bound, Observed))
        self._custom_bounds = {i: bound for i, bound in enumerate(self._bounds) if isinstance(bound, Custom)}
        self._asks_all = "actions" in self.needs
        self._uses_arrivals = self.kernels.arrive is not evidence.ignore_arrival
        self._ledger = Ledger(self.n_accounts, keeps_proposals=self._asks_all, observed=self.observed)
        self._eliminations: list[D] = []
        self._unreported: list[D] = []  # of these, the ones that no call has returned yet
        self._draws = 0  # choices made
        self._clock = 0  # rounds so far, those that nobody played included
        self._unplayed_rounds = 0

    @property
    def n_accounts(self) -> int:
        """Number of accounts at the start: one per learner, unless a selector has several ways to play a learner."""
        return self.n_learners

    def _player(self, account: int) -> int:
        """The learner that an account belongs to."""
        return account

    def _accounts_of(self, i: int) -> tuple[int, ...]:
        """The accounts of learner i, that of its own proposals first."""
        return (i,)

    @property
    def learner_bounds(self) -> tuple[Bound, ...]:
        """The candidate bound of each learner at the start; empty if there are none."""
        return ()

    def _make_confidence(self, n_learners: int, delta: float | None = None) -> Confidence:
        """The confidence of `n_learners` learners that share `delta`, by default that of the settings."""
        raise NotImplementedError  # abstract

    def _make_params(self, limits: EvidenceParams) -> P:
        raise NotImplementedError  # abstract

    def _make_state(self, accounts: EvidenceState) -> S:
        raise NotImplementedError  # abstract

    def _own_generator(self, draws: int) -> np.random.Generator | None:
        """The generator of the next choice if `choose` gets none; `draws` is the number of choices so far."""
        return None

    def _elimination(self, i: int) -> D:
        """The proof by which learner i was eliminated."""
        raise NotImplementedError  # abstract

    @property
    def excluded(self) -> tuple[int, ...]:
        """Learners that are never played."""
        return ()

    @property
    def alpha(self) -> float:
        """Failure probability of one side of one radius."""
        return self.confidence.alpha

    @property
    def shares(self) -> int:
        """Number of one-sided events for the plays of each learner and for the pool."""
        return self.confidence.shares

    @property
    def pool_size(self) -> int:
        """Number of learners, those included that were added later or have been removed."""
        return len(self.evidence.accounts)

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that may be chosen."""
        is_active, params, state = self.kernels.is_active, self.params, self.kernel_state
        return tuple(i for i in range(self.pool_size) if is_active(params, state, self._accounts_of(i)[0]))

    @property
    def eliminations(self) -> list[D]:
        """All eliminations so far, in order."""
        return self._eliminations
