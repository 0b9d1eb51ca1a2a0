"""What may change about a selector: what its portfolio tells it once, learners that come and go, some settings.

The radius of a learner depends on what it spends of delta. Those of the start have the same radius, that of `params`,
unless a selector gives them unequal shares. The j-th learner that is added later, j = 0, 1, ..., spends delta_j =
delta/((j + 1)(j + 2)) on its own radius, in addition to delta, which the learners of the start share: all that are ever
added spend at most delta together. Learners keep their index. One that is removed keeps its row and what it has proved
about the optimum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from equipoise.bounds import BOUNDS, Bound, Custom, Observed, bound_of
from equipoise.certificates.radii import late_share
from equipoise.confidence import Confidence, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.selectors._core.evidence import Params as EvidenceParams
from equipoise.selectors._core.evidence import open_state
from equipoise.selectors._core.parts import D, P, S, SelectorParts
from equipoise.settings import settings_of
from equipoise.settings.checks import count, one_of
from equipoise.types import AnyArray, Config

DELAYS = ("any", "independent", "exogenous")


class Late(NamedTuple):
    """A learner that was added later."""

    round: int  # number of rounds before it was added
    delta: float  # its share
    way: Any = None  # how it plays and learns, if the selector has several ways


class OwnRadius(NamedTuple):
    """The radius of a learner with a share of its own."""

    confidence: Confidence
    params: Any  # those of the kernels, with its own radius


class Changing(SelectorParts[P, S, D]):
    """A selector whose pool and settings may change."""

    refuses_learners: ClassVar[str] = "its rule is defined for a fixed number of learners"  # why none can be added
    reconfigurable: ClassVar[tuple[str, ...]] = ()  # settings that may change at any time
    restart_settings: ClassVar[Config] = {}  # which settings change when learners that have learned begin again

    def _set_up(self) -> None:
        super()._set_up()
        self.delays = "any"
        self._late: dict[int, Late] = {}
        self._own_radii = {i: self._radius_for(share) for i, share in enumerate(self._start_shares)}  # by account
        self._removed: dict[int, int] = {}  # with the number of rounds before it was removed

    def configure(
        self,
        *,
        reward_range: tuple[float, float] | None = None,
        noise: float | None = None,
        delays: str = "any",
        window: int | None = None,
    ) -> None:
        """Receive what a portfolio knows about its rewards, once, before the first play.

        Parameters
        ----------
        reward_range
            Range of the rewards; a selector that states another one refuses it.
        noise
            Sub-Gaussian factor of the rewards; a selector that states another one refuses it.
        delays
            What is promised about delays: "any" for nothing; "independent" if they say nothing about a reward given its
            context and action; "exogenous" if they are independent of contexts, rewards and learners.
        window
            With "exogenous" delays, the number of rounds after which a play without a reward is left out of evidence.
        """
        if self._clock:
            raise InvalidArgument(f"configure() came after {self._clock} rounds, but must come before the first")
        delays = one_of("delays", delays, DELAYS)
        if (delays == "exogenous") != (window is not None):
            rule = "must be given" if window is None else "must be given only with delays 'exogenous'"
            raise InvalidArgument(f"window is {window!r} with delays {delays!r}, but {rule}")
        rounds = 0 if window is None else count("window", window)
        if noise is not None and all(each.name != "noise" for each in settings_of(type(self))):
            raise InvalidArgument(f"noise is {noise!r}, but rewards of {type(self).__name__} must be bounded")
        self._adopt(self._agreed(reward_range, noise))
        self.delays, self._ledger.window = delays, rounds

    def _check_untaught(self, adopted: Mapping[str, Any]) -> None:
        if self._clock:
            raise InvalidArgument(
                f"{self._label()} has made {self._clock} rounds in other units, but the portfolio says {dict(adopted)}"
            )

    @property
    def window(self) -> int | None:
        """The age in rounds at which a play without a reward is left out of evidence; None for never."""
        return self._ledger.window or None

    def reconfigure(self, **changes: Any) -> None:
        """Change settings that no statement depends on; others are refused."""
        fields = {each.name: each for each in settings_of(type(self))}
        checked = {}
        for name, value in changes.items():
            if name not in self.reconfigurable:
                allowed = ", ".join(self.reconfigurable) or "none"
                raise InvalidArgument(
                    f"{name} is {value!r}, but a running {type(self).__name__} can change only settings that no "
                    f"statement depends on: {allowed}"
                )
            checked[name] = fields[name].metadata["check"](name, value)
        for name, value in checked.items():
            setattr(self, name, value)
        self._renew_params()

    def _renew_params(self) -> None:
        """Make the params of the kernels from the present settings."""
        self.params = self._make_params(self._limits(self.confidence))
        self._own_radii = {i: self._with_params(own.confidence) for i, own in self._own_radii.items()}

    def add_learner(self, bound: Bound | None = None) -> int:
        """Add a learner to the pool; returns its index."""
        return self._add_learner(bound)

    def _add_learner(self, bound: Bound | None, way: Any = None) -> int:
        if self.refuses_learners:
            raise InvalidArgument(f"{type(self).__name__} takes no more learners: {self.refuses_learners}")
        self._check_bound(bound)
        self._add_row(bound, self._clock, way)
        return self.pool_size - 1

    def remove_learner(self, learner: int) -> None:
        """Remove a learner from the pool. It keeps its index; its open plays can still be credited."""
        i = count("learner", learner, minimum=0, maximum=self.pool_size - 1)
        if self.refuses_learners:
            raise InvalidArgument(f"{type(self).__name__} cannot remove learner {i}: {self.refuses_learners}")
        if i in self._removed:
            raise InvalidArgument(f"learner is {i}, but it was removed before")
        if self.active == (i,):
            raise InvalidArgument(f"learner is {i}, but it is the only active one, and one must stay")
        self._deactivate(i)
        self._removed[i] = self._clock

    def _deactivate(self, i: int) -> None:
        for account in self._accounts_of(i):
            self.evidence.accounts[account].active = False

    def restart(self, delta: float) -> None:
        """Forget all rounds and begin again with this delta and the same pool: after the law of rewards has changed.

        Open plays cannot be credited any more. Removed learners stay removed; eliminated ones are active again.
        """
        changed = self.restart_settings if any(account.plays for account in self.evidence.accounts) else {}
        fresh = self.clone(**changed, delta=delta)._with_units(self._adopted)
        for i, late in self._late.items():
            fresh._add_row(self._bounds[i] if self._bounds else None, 0, late.way)
        for i in self._removed:
            fresh._deactivate(i)
            fresh._removed[i] = 0
        fresh.delays, fresh._ledger.window = self.delays, self._ledger.window
        vars(self).update(vars(fresh))

    def _check_bound(self, bound: object) -> None:
        if not self._bounds:
            if bound is not None:
                raise InvalidArgument(f"bound is {bound!r}, but {type(self).__name__} was created without bounds")
        elif not isinstance(bound, tuple(BOUNDS.values())) or isinstance(bound, Custom):
            raise InvalidArgument(
                f"bound is {bound!r}, but must be one of {', '.join(name for name in BOUNDS if name != 'Custom')}"
            )

    def _add_row(self, bound: Bound | None, round_: int, way: Any) -> None:
        i, share = self.pool_size, late_share(self.delta, len(self._late))
        self._radius_for(share)  # may raise an error, and later would leave half a learner
        if bound is not None:
            self._bounds.append(bound)
        if isinstance(bound, Observed):
            self.observed = (*self.observed, i)
        self._late[i] = Late(round_, share, way)
        self._open_accounts(i, bound, share)
        self._grow()

    def _open_accounts(self, i: int, bound: Bound | None, share: float) -> None:
        """Open the accounts of a new learner, which spend its share."""
        self._open_account(bound, share)

    def _open_account(self, bound: Bound | None, share: float) -> None:
        accounts, width = self.evidence.accounts, self.reward_range[1] - self.reward_range[0]
        self._own_radii[len(accounts)] = self._radius_for(share)
        accounts.append(open_state([] if bound is None else [bound], 1, width).accounts[0])
        self._ledger.add_learner(isinstance(bound, Observed))

    def _grow(self) -> None:
        """Add the rows of a new learner to the selector's own state."""

    def _limits(self, confidence: Confidence) -> EvidenceParams:
        low, high = self.reward_range
        return EvidenceParams(confidence.radius, low, high, high - low)

    @property
    def _start_shares(self) -> tuple[float, ...]:
        """What each learner of the start spends of delta; empty if all spend the same."""
        return ()

    def _radius_for(self, share: float) -> OwnRadius:
        """The radius of a learner that spends this share: that of one of M + 1 accounts which all spend as much."""
        return self._with_params(self._make_confidence(self.n_learners, share * (self.n_learners + 1)))

    def _with_params(self, confidence: Confidence) -> OwnRadius:
        return OwnRadius(confidence, self._make_params(self._limits(confidence)))

    def params_of(self, i: int) -> P:
        """The params of the kernels for account i, with its radius."""
        return self._own_radii[i].params if i in self._own_radii else self.params

    def confidence_of(self, i: int) -> Confidence:
        """The confidence of the statements about account i."""
        return self._own_radii[i].confidence if i in self._own_radii else self.confidence

    def _widen(self, i: int) -> None:
        """Store by how much the radius of account i exceeds that of `params`."""
        account, n = self.evidence.accounts[i], self.evidence.accounts[i].booked_plays
        own, common = self.confidence_of(i).radius, self.confidence.radius
        account.extra_radius = radius_sum(own, n) - radius_sum(common, n) if n else 0.0

    def _saved_way(self, state: Mapping[str, AnyArray], k: int) -> Any:
        """How the k-th learner that was added plays and learns, from a saved state."""
        return None

    def _n_late_accounts(self, state: Mapping[str, AnyArray]) -> int:
        """The number of accounts of learners that were added, in a saved state."""
        return int(state["added"].size)

    def _change_columns(self) -> dict[str, AnyArray]:
        """What has changed, as arrays."""
        return {
            "delays": np.array([DELAYS.index(self.delays), self._ledger.window], np.int64),
            "added": np.array([late.round for late in self._late.values()], np.int64),
            "removed": np.array(list(self._removed.items()), np.int64).reshape(-1, 2),
        }

    def _load_changes(self, state: Mapping[str, AnyArray], codes: list[tuple[int, float, float]]) -> None:
        """Load what `_change_columns` returned; `codes` are the bounds of all learners."""
        late_codes = codes[self.n_accounts :]
        for k, round_ in enumerate(state["added"].tolist()):
            self._add_row(bound_of(late_codes[k]) if self._bounds else None, round_, self._saved_way(state, k))
        self._removed = {int(i): int(round_) for i, round_ in state["removed"]}
        level, window = state["delays"].tolist()
        self.delays, self._ledger.window = DELAYS[level], window
