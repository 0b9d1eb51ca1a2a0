"""The confidence radius of every account.

The radius of an account depends on the part of delta that it spends. The accounts of the start have the same radius.
The j-th learner that is added later, j = 0, 1, ..., spends delta_j = delta/((j + 1)(j + 2)) on its
own radius, in addition to delta, which the learners of the start share: all learners that are ever added spend at most
delta together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from equipoise.confidence import Confidence, radius_sum

P = TypeVar("P", bound=NamedTuple)


class Radii(Generic[P]):
    """The radius that most accounts have in common, and those of accounts with a share of their own.

    `params` are the params of the kernels with the common radius; `renew` makes them.
    """

    params: P

    def __init__(self, confidence: Confidence) -> None:
        self.confidence = confidence
        self._own: dict[int, tuple[Confidence, P]] = {}

    @property
    def unequal(self) -> bool:
        """Whether an account has a radius of its own."""
        return bool(self._own)

    def add(self, account: int, confidence: Confidence, params: P) -> None:
        """Give an account a radius of its own; `params` contain it."""
        self._own[account] = confidence, params

    def renew(self, make_params: Callable[[Confidence], P]) -> None:
        """Make the params again, after a setting has changed."""
        self.params = make_params(self.confidence)
        self._own = {account: (own, make_params(own)) for account, (own, _) in self._own.items()}

    def has_own(self, account: int) -> bool:
        return account in self._own

    def params_of(self, account: int) -> P:
        """Return the params of the kernels with the radius of an account."""
        return self._own[account][1] if account in self._own else self.params

    def confidence_of(self, account: int) -> Confidence:
        """Return the confidence of the statements about an account."""
        return self._own[account][0] if account in self._own else self.confidence

    def sum_of(self, account: int, plays: int) -> float:
        """Return the radius of the total reward of an account over its first plays; 0 for none."""
        return radius_sum(self.confidence_of(account).radius, plays) if plays > 0 else 0.0

    def extra(self, account: int, plays: int) -> float:
        """Return by how much the radius of an account exceeds the common one."""
        return self.sum_of(account, plays) - radius_sum(self.confidence.radius, plays) if plays else 0.0
