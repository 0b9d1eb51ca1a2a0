"""MABWiser: a bandit of MABWiser with one of its learning policies, with or without contexts.

MABWiser wants data before its first decision. Every arm is therefore tried once, in random order, before the library
decides. Its random generators, of which each of its parts holds a copy, are replaced by the caller's for the length of
a decision, so that deciding changes nothing.

Offers with ids address arms by id, others by row. The context of an arm are the shared features, or its row of the map
`features`. Of the offered arms the one with the highest expectation of the library is played, as MABWiser itself does
with all of them.

The probability of an action is 1 / m while one of m untried arms is drawn, 1 where the policy is deterministic, and
unknown (nan) elsewhere. MABWiser is given rewards in [0, 1], the shares of the reward range, as UCB1 assumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np

from equipoise.adapters._core.objects import pack, unpack
from equipoise.adapters._core.outside import OutsideLearner, as_array
from equipoise.errors import InvalidArgument, OfferRefused, UnknownName, require
from equipoise.features import FeatureMap, Offers, Schema
from equipoise.features.maps import has_names, stated_in
from equipoise.features.offers import check_entries
from equipoise.learner import Proposal
from equipoise.learners._core.rows import RowReader, adopt, check_index, features_setting
from equipoise.settings import configurable, setting
from equipoise.types import Action, Array, Config, Context, State

# Policies by whether their actions are deterministic given the data. Policies that take functions, or that keep all
# data (neighborhoods, trees), are missing.
DETERMINISTIC = {"LinUCB": True, "UCB1": True, "LinTS": False, "LinGreedy": False, "Softmax": False}
PACKAGES = ("mabwiser", "numpy")


def _description(name: str, value: Any) -> Config:
    """{"arms": [...], "policy": its name, setting: value, ...}, from a MAB or from such a description."""
    require("a learner of MABWiser", "mabwiser", "skops")
    mab = build_mab(value) if isinstance(value, dict) else value
    policy: Any = getattr(mab, "learning_policy", None)
    kind = type(policy).__name__
    if kind not in DETERMINISTIC:
        raise InvalidArgument(f"{name} has the policy {kind}, but must have one of {', '.join(DETERMINISTIC)}")
    if mab.neighborhood_policy is not None:
        raise InvalidArgument(f"{name} has a neighborhood policy, but must have none: it keeps all data")
    if not all(isinstance(arm, int | str) for arm in mab.arms):
        raise InvalidArgument(f"{name} has the arms {mab.arms!r:.80}, but they must be numbers or strings")
    return {"arms": list(mab.arms), "policy": kind, **policy._asdict()}


def build_mab(description: Config) -> Any:
    """A new MAB from its description."""
    from mabwiser.mab import MAB, LearningPolicy

    settings = {key: value for key, value in description.items() if key not in ("arms", "policy")}
    kind = description.get("policy", "")
    if kind not in DETERMINISTIC:
        raise UnknownName("policy", str(kind), DETERMINISTIC)
    try:
        return MAB(list(description.get("arms", [])), getattr(LearningPolicy, kind)(**settings), seed=0)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"mab is {description!r:.200}, but must be one that MABWiser accepts: {error}") from error


class Arms(NamedTuple):
    """The offered arms: which of all they are, their indices among the offers, and their contexts."""

    arms: Sequence[int]
    indices: Sequence[int]
    contexts: Array | None  # one for all arms or one each; None without contexts

    def context_of(self, position: int) -> Array | None:
        """Return the context of an arm, as a matrix of one row."""
        return None if self.contexts is None else self.contexts[[position if len(self.contexts) > 1 else 0]]


@configurable
class MABWiser(OutsideLearner):
    """A bandit of MABWiser: LinUCB, LinTS or LinGreedy with vectors as contexts, or UCB1 or Softmax without contexts.

    A context is `Offers`, of which some or all arms are offered. A vector, or None without contexts, offers all arms;
    an action is then the index of an arm in `arms`.
    """

    mab: Config = setting(
        'The MAB, or its description, such as {"arms": [0, 1, 2], "policy": "LinUCB", "alpha": 0.5}. Its '
        "settings are used, not what it has learned.",
        _description,
        kw_only=False,
    )
    features: FeatureMap | None = features_setting(
        added=True,
        doc="Feature map that makes the context of each offered arm. Default: the features that all offers share.",
    )

    accepts = frozenset({"off_policy"})

    def _set_up(self) -> None:
        super()._set_up()
        self._mab = build_mab(self.mab)
        self._arms = self.mab["arms"]
        self._numbers = {str(arm): k for k, arm in enumerate(self._arms)}
        self._deterministic = DETERMINISTIC[self.mab["policy"]]
        self._contextual = bool(self._mab.is_contextual)
        if self.features is not None and not self._contextual:
            raise InvalidArgument(f"features is {self.features}, but must be None for {self.mab['policy']}")
        self._reader = None
        if self.features is not None:
            dim, complete = self.features.dim, not has_names(self.features)
            self._reader = RowReader(self.name, dim, self.features, complete=complete)

    def adopt_schema(self, schema: Schema | None, action_names: Sequence[str] | None) -> None:
        """Take the numbers of named columns from the schema of a portfolio."""
        if schema is None and self._reader is not None:
            self._reader.check_complete()
        elif schema is not None and (stated := stated_in(self.features)) is not None:
            adopt(self, {"features": schema.resolve(stated)})

    def default_name(self) -> str:
        return f"MABWiser {self.mab['policy']}"

    def check_context(self, context: Context) -> Arms:
        if isinstance(context, Offers):
            return self._offered(context)
        every = range(len(self._arms))
        if not self._contextual:
            if context is not None:
                raise InvalidArgument(f"context is {context!r:.80}, but must be None for {self.name}")
            return Arms(every, every, None)
        return Arms(every, every, self._vector(context))

    def _offered(self, offers: Offers) -> Arms:
        """Return the arms of offers; offers that are no arm are not taken."""
        indices, contexts = offers.offered.tolist(), None
        if self._reader is not None:
            choices = self._reader.read(offers)
            contexts = choices.rows
            indices = indices if choices.indices is None else choices.indices.tolist()
        arms = [self._numbers.get(offers.ids[k], -1) if offers.ids is not None else k for k in indices]
        known = [n for n, arm in enumerate(arms) if 0 <= arm < len(self._arms)]
        if not known:
            raise OfferRefused(f"context has no action that is one of the arms {self._arms!r:.80} of {self.name}")
        if contexts is not None:
            contexts = contexts[known]
        elif self._contextual:
            contexts = self._vector(offers.shared)
        return Arms([arms[n] for n in known], [indices[n] for n in known], contexts)

    def _vector(self, context: Context) -> Array:
        """Return a vector as a matrix of one row."""
        try:
            features = np.asarray(context, np.float64)
        except (TypeError, ValueError):
            features = np.empty((0, 0))
        known = self._mab._imp.num_features
        if features.ndim != 1 or not len(features) or len(features) != (known or len(features)):
            rule = f"a vector of {known} numbers" if known else "a vector of numbers"
            raise InvalidArgument(f"context is {context!r:.80}, but must be {rule} for {self.name}")
        check_entries(features[None])
        return features[None]

    def _propose(self, context: Arms, rng: np.random.Generator) -> Proposal:
        status = self._mab._imp.arm_to_status
        untried = [n for n, arm in enumerate(context.arms) if not status[self._arms[arm]]["is_trained"]]
        if untried:
            position = untried[min(int(rng.random() * len(untried)), len(untried) - 1)]
            return Proposal(context.indices[position], -inf, nan, 1.0 / len(untried))
        with self._generators_replaced_by(rng):
            found = self._mab.predict_expectations(context.contexts)
        each = found if isinstance(found, list) else [found] * len(context.arms)
        expected = [row[self._arms[arm]] for row, arm in zip(each, context.arms, strict=True)]
        position = expected.index(max(expected))
        return Proposal(context.indices[position], -inf, nan, 1.0 if self._deterministic else nan)

    @contextmanager
    def _generators_replaced_by(self, rng: np.random.Generator) -> Iterator[None]:
        models = getattr(self._mab._imp, "arm_to_model", {}).values()
        holders = [self._mab._rng, self._mab._imp.rng, *(model.rng for model in models)]
        kept = [holder.rng for holder in holders]
        try:
            for holder in holders:
                holder.rng = rng
            yield
        finally:
            for holder, own in zip(holders, kept, strict=True):
                holder.rng = own

    def learn(self, context: Context, action: Action, reward: float, weight: float = 1.0) -> None:
        """Learn from the reward of an arm."""
        offered = self.check_context(context)
        number = check_index(action, len(context) if isinstance(context, Offers) else len(self._arms))
        if number not in offered.indices:
            raise OfferRefused(f"action is {action}, but {self.name} does not take this offer")
        position = offered.indices.index(number)
        update = [self._arms[offered.arms[position]]], [self.share(self.check_reward(reward, weight))]
        fit = self._mab.partial_fit if self._mab._is_initial_fit else self._mab.fit
        fit(*update, offered.context_of(position))

    def _learned(self) -> State:
        return {"mab": as_array(pack(self._mab))}

    def _set_learned(self, learned: State) -> None:
        restored = unpack(learned["mab"].tobytes(), PACKAGES)
        if type(restored) is not type(self._mab) or _description("mab", restored) != self.mab:
            raise InvalidArgument(f"state is of another MAB than {self.mab!r:.200}")
        self._mab = restored
