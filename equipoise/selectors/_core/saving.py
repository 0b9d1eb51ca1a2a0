"""Saving and loading of selectors made of kernels, and the form in which compiled code takes their state.

The first form of a saved state, without `format`, is that of releases before 0.3: rewards had to arrive in play order
to be used, all plays were evidence, and no learner was ever added. It is converted when it is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.kernels.records import (
    check_columns,
    check_shapes,
    load_columns,
    load_state,
    state_columns,
    state_records,
)
from equipoise.selectors._core.changes import Changing
from equipoise.selectors._core.parts import D, P, S
from equipoise.types import AnyArray, State

FORMAT = 2
COUNTS = ("draws", "clock", "unplayed_rounds", "unreported", "format")


class Saving(Changing[P, S, D]):
    """A selector that can be saved and compiled."""

    def to_arrays(self) -> tuple[P, S]:
        """Params and state as arrays, for compiled code; the state is a copy."""
        return self.params, state_records(self.kernel_state)

    def from_arrays(self, state: S) -> None:
        """Load a state from compiled code, in which all plays are resolved."""
        load_state(self.kernel_state, state)
        self._record_eliminations()

    def _count_pending(self) -> None:
        raise NotImplementedError  # abstract

    def state(self) -> State:
        """The complete state, as arrays."""
        self._count_pending()  # so that equal histories give equal states
        ledger = {f"ledger.{name}": array for name, array in self._ledger.state().items()}
        counts = {
            "draws": self._draws,
            "clock": self._clock,
            "unplayed_rounds": self._unplayed_rounds,
            "unreported": len(self._unreported),
            "format": FORMAT,
        }
        return {
            **state_columns(self.kernel_state),
            **ledger,
            "eliminated": np.array([elimination.learner.index for elimination in self._eliminations], np.int64),
            **{name: np.array([number], np.int64) for name, number in counts.items()},
            **self._units_state(),
            **self._change_columns(),
        }

    def restore(self, state: Mapping[str, AnyArray]) -> None:
        """Load what `state` returned; anything else is refused and changes nothing."""
        twin = self._with_units(self._units_from(state))
        if "format" in state:
            twin._load(state)
        else:
            twin._load(self._converted(state))
            twin._adopt_evidence()
            for entry in twin._ledger.arrived():
                twin.kernels.arrive(twin.params, twin.kernel_state, entry.learner, entry.reward, entry.probability)
        vars(self).update(vars(twin))

    def _adopt_evidence(self) -> None:
        """Set what depends on arrived rewards to what it is if those that count as evidence are all that arrived."""

    def _load(self, state: Mapping[str, AnyArray]) -> None:
        check_shapes(state, dict.fromkeys(COUNTS, (1,)))
        if int(state["format"][0]) != FORMAT:
            raise InvalidArgument(f"state format is {int(state['format'][0])}, but must be {FORMAT}")
        self._check_changes(state)
        accounts = next((name for name in state if name.endswith("accounts.bound_kind")), "").removesuffix("bound_kind")
        columns = [f"{accounts}bound_{part}" for part in ("kind", "coefficient", "shape")]
        check_shapes(state, dict.fromkeys(columns, (len(self.evidence.accounts) + self._n_late_accounts(state),)))
        self._load_changes(state, list(zip(*(state[name].tolist() for name in columns), strict=True)))
        ledger = {name.removeprefix("ledger."): array for name, array in state.items() if name.startswith("ledger.")}
        check_columns(self.kernel_state, state)
        eliminated_at = state[f"{accounts}eliminated_at"]
        check_shapes(state, {"eliminated": (int(np.count_nonzero(eliminated_at)),)})
        self._ledger.check_state(ledger)
        load_columns(self.kernel_state, state)
        self._ledger.restore(ledger)
        self._draws, self._clock, self._unplayed_rounds, unreported, _ = (int(state[name][0]) for name in COUNTS)
        self._eliminations[:] = [self._elimination(i) for i in state["eliminated"].tolist()]
        self._unreported = self._eliminations[len(self._eliminations) - unreported :]

    def _check_changes(self, state: Mapping[str, AnyArray]) -> None:
        n_added = state["added"].size if "added" in state else 0
        n_removed = state["removed"].shape[0] if "removed" in state else 0
        check_shapes(state, {"delays": (2,), "added": (n_added,), "removed": (n_removed, 2)})
        if n_added and self.refuses_learners:
            raise InvalidArgument(f"state added has {n_added} learners, but {type(self).__name__} takes none")

    def _converted(self, state: Mapping[str, AnyArray]) -> State:
        """The state of an earlier release in the present form."""
        template, draws = self.clone().state(), state.get("draws")
        queued = state.get("ledger.credited")
        if draws is None or queued is None or np.shape(draws) != (1,):
            raise InvalidArgument("state has no format, and no draws or ledger.credited as states without one have")
        last, n_rounds = int(draws[0]), queued.size
        current = {name: np.copy(array) for name, array in state.items() if name != "ledger.credited"}
        for name in template:
            former = name.removeprefix("evidence.")
            if name not in current and former in current:
                current[name] = current.pop(former)
        new = {
            "ledger.rounds": np.arange(last - n_rounds + 1, last + 1),
            "ledger.queued": ~np.asarray(queued, np.bool_),
            "ledger.left_out": np.zeros(n_rounds, np.bool_),
            "ledger.pooled": np.zeros(n_rounds, np.bool_),
            "clock": np.array([last]),
        }
        defaults = {
            name: array for name, array in template.items() if name not in current and not name.startswith("ledger.")
        }
        unknown = (new.keys() | defaults.keys()) & state.keys() or current.keys() - template.keys()
        if unknown:
            raise InvalidArgument(f"state has no format, but {', '.join(sorted(unknown))}, which needs one")
        return {**defaults, **current, **new}

    def _record_eliminations(self) -> tuple[D, ...]:
        known = {elimination.learner.index for elimination in self._eliminations}
        rounds = {i: account.eliminated_at for i, account in enumerate(self.evidence.accounts)}
        eliminated = sorted((i for i in rounds if rounds[i] > 0 and i not in known), key=rounds.__getitem__)
        for i in eliminated:  # kernels know of no rounds that nobody played
            self.evidence.accounts[i].eliminated_at += self._unplayed_rounds
        new = tuple(self._elimination(i) for i in eliminated)
        self._eliminations += new
        return new
