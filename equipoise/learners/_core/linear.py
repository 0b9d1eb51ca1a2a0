"""Base class of learners for linear rewards: settings, regression, and checks of contexts.

Origin of rewards. <theta*, a> is the expected reward of an action minus the low end of the reward range. Every update
subtracts that end from the reward, and every statement adds it to the estimate. So rewards in (100, 220) are
learned like rewards in (0, 120). A ridge penalty pulls estimates toward 0, and without the shift the first rounds would
go into learning the 100. The analysis does not change, as the shift is a known constant. The low end and not the middle
of the range is the origin because rewards in (0, 1) are then linear as they are, as in the papers. With the middle as
origin the model of features without a constant would be false, and being wrong costs far more regret than the middle
saves where there is a constant (measured in docs/guide/rewards.md). For the exception of a ball of actions see `oful`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, field
from functools import partial
from math import isnan, log, sqrt
from typing import Any

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import FeatureMap, Prefix, Schema
from equipoise.features.maps import Default, feature_names
from equipoise.kernels.marks import kernel
from equipoise.learner import Proposal
from equipoise.learners._core.base import KernelLearner, MemoryT, ParamsT
from equipoise.learners._core.linear_class import LinearClass
from equipoise.learners._core.ridge import Ellipsoid, Ridge, new_ridge, update, update_offered
from equipoise.learners._core.rows import Choices, RowReader, adopt, features_in, features_setting, resolved_dim
from equipoise.settings import configurable, optional, setting
from equipoise.settings.checks import boolean, count, positive, positive_fraction, probability
from equipoise.settings.sizes import check_array
from equipoise.types import Action, Array, Context, State

# Smallest regularization, in units of action_bound^2; below it, rounding errors show in the widths after 1e6 rows.
MIN_REGULARIZATION = 1e-8

check_dim = check_arms = partial(count, maximum=10_000)

delta_setting = partial(
    setting,
    default=0.01,
    check=probability,
    doc="Probability in (0, 1) that the confidence ellipsoid ever fails to contain theta*.",
)

discount_setting = partial(
    setting,
    default=1.0,
    check=positive_fraction,
    added=True,
    doc=(
        "Factor of the weights of all earlier rewards at each update, from max(1/2, 1 - 1/dim) to 1. Below 1, "
        "proposals have no bounds but the ends of the reward range."
    ),
)


def discount_text(discount: float) -> str:
    """The part of a learner's name that states its discount."""
    return f", discount={discount:g}" if discount < 1.0 else ""


@kernel
def learn(params: Any, ridge: Ridge, actions: Array, action: int, reward: float, weight: float) -> None:
    """Add the row of the action to the regression, with its squared error multiplied by `weight`."""
    update_offered(ridge, actions, action, reward - params.low, weight)


@configurable
class LinearLearner(KernelLearner[ParamsT, MemoryT]):
    """A regression on the features of the offered actions: the first `dim` columns, or those of the map `features`.

    A context is `Offers`, or a K x d matrix of actions with d >= dim; K may change from round to round. An offer with a
    row longer than `action_bound` is not chosen, and the regret of the play is then bounded by the reward range. A
    learner whose memory is a single regression learns from the row of the action alone.
    """

    dim: int = setting(
        "Number of leading columns to use. Default: as many as `features` has, or by the schema of the portfolio.",
        optional(check_dim),
        default=None,
        kw_only=False,
    )
    features: FeatureMap | None = features_setting()
    norm_bound: float = setting(
        "Upper bound on the norm of the true parameter theta*, positive, in units of rewards. Default: the width of "
        "the reward range.",
        optional(positive),
        default=None,
    )
    action_bound: float = setting(
        "Upper bound on the norm of a row of features, positive. An offer with a longer row is not chosen. Default: by "
        "the schema of the portfolio, or 1.",
        optional(positive),
        default=None,
        derived="default_action_bound",
    )
    regularization: float = setting("Ridge penalty lambda, at least 1e-8 * action_bound^2.", positive, default=1.0)
    clip_norm: bool = setting(
        "Whether a row longer than `action_bound` is scaled down to it, instead of not being chosen. What the learner "
        "assumes about rewards is then assumed about the scaled rows.",
        boolean,
        default=False,
        added=True,
    )

    _takes_bound: bool = field(default=False, init=False)  # whether the schema of a portfolio may give `action_bound`

    def _set_up(self) -> None:
        self._takes_bound = self._takes_bound or self.action_bound is None
        dim = resolved_dim(self.dim, self.features)
        if dim is None:
            self._leave_unstated("dim", 1)  # a schema tells before it is asked, or it says so
        else:
            self.dim = dim
        super()._set_up()
        low, high = self.reward_range
        self._leave_unstated("norm_bound", high - low)
        if self.regularization < MIN_REGULARIZATION * self.action_bound**2:
            minimum = f"{MIN_REGULARIZATION:g} * action_bound^2 = {MIN_REGULARIZATION * self.action_bound**2:g}"
            raise InvalidArgument(f"regularization is {self.regularization!r}, but must be at least {minimum}")
        bound = self.action_bound, self.clip_norm
        self._reader = RowReader(self.name, self.dim, self.features, *bound, complete=self.is_complete)
        self._clipped_rows = 0

    def default_action_bound(self) -> float:
        bound = self.features.norm_bound if isinstance(self.features, Default) else None
        return 1.0 if bound is None else bound

    @property
    def is_complete(self) -> bool:
        """Whether its features are known: without `dim` and numbers of columns, a schema tells."""
        return "dim" not in self._unstated

    def adopt_schema(self, schema: Schema | None, action_names: Sequence[str] | None) -> None:
        """Take features and `action_bound` from the schema of a portfolio, as far as they are not stated."""
        if schema is None:
            self._reader.check_complete()
            return
        changes: dict[str, Any] = {}
        follows = isinstance(self.features, Default)  # from the schema of a file, whose order of columns may differ
        if follows or not self.is_complete:
            changes["features"] = features_in(schema, self.features, lambda: self.default_map(schema, action_names))
        if self._takes_bound or (follows and self.action_bound == self.default_action_bound()):
            changes["action_bound"] = schema.norm_bound(changes.get("features", self._reader.map)) or 1.0
        if follows:
            changes["dim"] = None  # it may be another one
        adopt(self, changes)

    def _as_given(self, each: Field[Any]) -> Any:
        if each.name == "action_bound" and self._takes_bound and not self.is_complete:
            return None  # a copy with other settings takes the schema's, too
        return super()._as_given(each)

    def default_map(self, schema: Schema, action_names: Sequence[str] | None) -> FeatureMap:
        """The feature map of a learner that states none."""
        return schema.default_map(action_names)

    def default_name(self) -> str:
        return self._name_with()

    def _name_with(self, scale: float = 1.0, more: str = "") -> str:
        scaled = f", scale={scale:g}" if scale != 1.0 else ""
        if self.is_complete:
            return f"{type(self).__name__}(d={self.dim}{scaled}{more})"
        settings = f"{scaled}{more}".removeprefix(", ")
        return f"{type(self).__name__}({settings})" if settings else type(self).__name__

    @property
    def n_columns(self) -> int | None:
        return self._reader.n_columns

    @property
    def clipped_rows(self) -> int:
        """Number of updates with a row that was scaled down."""
        return self._clipped_rows

    @property
    def compilable(self) -> bool:
        """Whether the kernels can run on the context itself: they scale no rows, and know no maps but `Prefix`."""
        return isinstance(self._reader.map, Prefix) and not self.clip_norm

    def check_context(self, context: Context) -> Array:
        """Return the rows of all offers; raise an error if the learner does not take one of them."""
        return self._reader.read(context, whole=True).rows

    def offered(self, context: Context) -> Choices:
        return self._reader.read(context)

    def among_all(self, proposal: Proposal, choices: Choices) -> Proposal:
        """Return a proposal as one among all offers; an offer that the learner does not take may be the best one."""
        proposal = choices.among_all(proposal)
        if not choices.refused or isnan(proposal.regret):
            return proposal
        return proposal._replace(regret=self.reward_range[1] - proposal.lower)

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an offered action, with its squared error multiplied by `weight`."""
        row, clipped = self.check_row(context, action)
        number = self.check_reward(reward, weight)
        if isinstance(self.memory, Ridge):
            self._update(self.memory, row, number - self.origin(context), float(weight))
        else:
            self.learn_row(context, action, row, number, float(weight))
        self._clipped_rows += clipped and weight > 0.0

    def _update(self, ridge: Ridge, row: Array, reward: float, weight: float) -> None:
        """Learn from the features of the played action and its reward, measured from the origin."""
        update(ridge, row, reward, weight)

    def origin(self, context: Context) -> float:
        """The reward from which rewards count; kernels know it as the low end of the range."""
        return self.reward_range[0]

    def check_row(self, context: Context, action: Action) -> tuple[Array, bool]:
        """Return the row of an offered action, and whether it was scaled down."""
        return self._reader.row(context, action)

    def learn_row(self, context: Context, action: Action, row: Array, reward: float, weight: float) -> None:
        """Learn from a checked round, in a learner whose memory is more than a single regression."""
        actions, position = self.check_offered(context, action)
        self.kernels.learn(self.params, self.memory, actions, position, reward, weight)

    def state(self) -> State:
        clipped = {"clipped_rows": np.array([self._clipped_rows])} if self.clip_norm else {}
        return {**super().state(), **clipped}

    def restore(self, state: State) -> None:
        super().restore(state)
        self._clipped_rows = int(state["clipped_rows"][0]) if self.clip_norm else 0

    def new_ridge(self) -> Ridge:
        """A regression without rows on the features of the learner."""
        check_array(f"dim = {self.dim}", self.dim, self.dim)
        return new_ridge(self.dim, self.regularization)

    def ellipsoid(self, noise: float, delta: float) -> Ellipsoid:
        """The confidence ellipsoid around the estimate, which holds at all times with probability 1 - `delta`."""
        return Ellipsoid(noise, 2 * log(1 / delta), sqrt(self.regularization) * self.norm_bound)

    def linear_class(self, noise: float, delta: float) -> LinearClass:
        """The class of rewards that a learner with this ellipsoid assumes."""
        self._reader.check_complete()
        sizes = self.dim, self.norm_bound, self.action_bound, self.regularization
        map_, features = self._reader.map, tuple[str, ...]()
        if self.clip_norm:  # a feature of a row that was scaled depends on all of the row
            scaled = f"in a row of {self.dim} scaled to norm {self.action_bound:g}"
            features = tuple(f"{name} {scaled}" for name in feature_names(map_))
        elif not isinstance(map_, Prefix):
            features = feature_names(map_)
        return LinearClass(self.name, *sizes, noise, delta, reward_range=self.reward_range, features=features)
