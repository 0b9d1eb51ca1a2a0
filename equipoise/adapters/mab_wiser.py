"""MABWiser: a bandit of MABWiser with one of its learning policies, with or without contexts.

MABWiser wants data before its first decision. Every arm is therefore tried once, in random order, before the library
decides. Its random generators, of which each of its parts holds a copy, are replaced by the caller's for the length of
a decision, so that deciding changes nothing.

The probability of an action is 1 / m while one of m untried arms is drawn, 1 where the policy is deterministic, and
unknown (nan) elsewhere. MABWiser is given rewards in [0, 1], the shares of the reward range, as UCB1 assumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf, nan
from typing import Any

import numpy as np

from equipoise.adapters._core.objects import pack, unpack
from equipoise.adapters._core.outside import OutsideLearner, as_array
from equipoise.errors import InvalidArgument, UnknownName, require
from equipoise.features.offers import check_entries
from equipoise.learner import Proposal
from equipoise.learners._core.base import check_index
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


@configurable
class MABWiser(OutsideLearner):
    """A bandit of MABWiser: LinUCB, LinTS or LinGreedy with vectors as contexts, or UCB1 or Softmax without contexts.

    An action is the index of an arm in `arms`.
    """

    mab: Config = setting(
        'The MAB, or its description, such as {"arms": [0, 1, 2], "policy": "LinUCB", "alpha": 0.5}. Its '
        "settings are used, not what it has learned.",
        _description,
        kw_only=False,
    )

    accepts = frozenset({"off_policy"})

    def _set_up(self) -> None:
        super()._set_up()
        self._mab = build_mab(self.mab)
        self._arms = self.mab["arms"]
        self._deterministic = DETERMINISTIC[self.mab["policy"]]
        self._contextual = bool(self._mab.is_contextual)

    def default_name(self) -> str:
        return f"MABWiser {self.mab['policy']}"

    def check_context(self, context: Context) -> Array | None:
        if not self._contextual:
            if context is not None:
                raise InvalidArgument(f"context is {context!r:.80}, but must be None for {self.name}")
            return None
        try:
            features = np.asarray(context, np.float64)
        except (TypeError, ValueError):
            features = np.empty((0, 0))
        known = self._mab._imp.num_features
        if features.ndim != 1 or not len(features) or len(features) != (known or len(features)):
            rule = f"a vector of {known} numbers" if known else "a vector of numbers"
            raise InvalidArgument(f"context is {context!r:.80}, but must be {rule} for {self.name}")
        check_entries(features[None])
        return features

    def _propose(self, context: Array | None, rng: np.random.Generator) -> Proposal:
        status = self._mab._imp.arm_to_status
        untried = [index for index, arm in enumerate(self._arms) if not status[arm]["is_trained"]]
        if untried:
            action = untried[min(int(rng.random() * len(untried)), len(untried) - 1)]
            return Proposal(action, -inf, nan, 1.0 / len(untried))
        with self._generators_replaced_by(rng):
            arm = self._mab.predict(None if context is None else context[None])
        return Proposal(self._arms.index(arm), -inf, nan, 1.0 if self._deterministic else nan)

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
        features, position = self.check_context(context), check_index(action, len(self._arms))
        update = [self._arms[position]], [self.share(self.check_reward(reward, weight))]
        contexts = None if features is None else features[None]
        (self._mab.partial_fit if self._mab._is_initial_fit else self._mab.fit)(*update, contexts)

    def _learned(self) -> State:
        return {"mab": as_array(pack(self._mab))}

    def _set_learned(self, learned: State) -> None:
        restored = unpack(learned["mab"].tobytes(), PACKAGES)
        if type(restored) is not type(self._mab) or _description("mab", restored) != self.mab:
            raise InvalidArgument(f"state is of another MAB than {self.mab!r:.200}")
        self._mab = restored
