"""Contexts as learners see them: a matrix becomes offers once per round if a learner has a feature map.

Offers keep the rows of every map, so that a map that several learners share is computed once per round, for deciding
and for learning. Learners without a map see the context as it was given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import FeatureMap, Offers
from equipoise.features.offers import as_offers
from equipoise.learner import AdaptedLearner
from equipoise.portfolio.events import logger
from equipoise.portfolio.members import Member
from equipoise.types import Context


def seen_by(learner: AdaptedLearner, context: Context, offers: Offers | None) -> Context:
    """The context, or the offers that it was turned into, if any, for a learner with a feature map."""
    return context if offers is None or not has_map(learner) else offers


def has_map(learner: AdaptedLearner) -> bool:
    return isinstance(getattr(learner.learner, "features", None), FeatureMap)


class Contexts:
    """Turns matrices into offers, and looks once at how many of their columns are used."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members
        self._n_members = 0  # when it was last determined whether a learner has a map
        self._any_map = False
        self._looked = False  # whether the columns of a matrix were compared with those that learners use

    def offers(self, context: Context, round_: int) -> Offers | None:
        """The context as offers if that saves work, else None.

        Raises an error if the first context of a portfolio has too few columns for a learner. Later, a learner that
        needs more than there are fails alone: one that was added must not make the others unavailable.
        """
        if len(self._members) != self._n_members:
            self._n_members = len(self._members)
            learners = [member.learner for member in self._members if member.learner is not None]
            self._any_map = any(map(has_map, learners))
        if not self._looked:
            self._look(context, round_)
        if not self._any_map or not isinstance(context, np.ndarray | list):
            return None
        try:
            return as_offers(context)
        except InvalidArgument:
            return None  # learners say what is wrong with it

    def _look(self, context: Context, round_: int) -> None:
        matrix = context.actions if isinstance(context, Offers) else context
        if not isinstance(matrix, np.ndarray) or matrix.ndim != 2:
            return
        n_columns = matrix.shape[1]
        used = {
            member.name: getattr(member.learner.learner, "n_columns", None)
            for member in self._members
            if member.learner is not None
        }
        known = {name: n for name, n in used.items() if isinstance(n, int)}
        widest = max(known, key=known.__getitem__, default=None)
        if widest is not None and known[widest] > n_columns and round_ == 1:
            raise InvalidArgument(
                f"context has {n_columns} columns, but must have at least {known[widest]} for learner {widest!r}"
            )
        self._looked = True
        if widest is not None and len(known) == len(used) and 0 < known[widest] < n_columns:
            logger.warning(
                "no learner uses more than the first %d of the %d columns of the context", known[widest], n_columns
            )
