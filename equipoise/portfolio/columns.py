"""Contexts as learners see them: offers for feature maps, and whether their columns are enough."""

from __future__ import annotations

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.features.offers import as_offers
from equipoise.portfolio.events import logger
from equipoise.portfolio.pool import Pool
from equipoise.types import Context


class Contexts:
    """Turns matrices into offers once per round if a learner has a feature map, and compares columns with learners.

    Offers keep the rows of every map, so that a map that several learners share is computed once per round, for
    deciding and for learning. Learners without a map see the context as it was given.
    """

    def __init__(self, pool: Pool) -> None:
        self._members = pool.members
        self._n_members = 0  # when it was last determined whether a learner has a map
        self._any_map = False
        self._compared = False  # whether the columns of a matrix were compared with those that learners use

    def offers(self, context: Context) -> Offers | None:
        """Return the context as offers if that saves work, else None."""
        if len(self._members) != self._n_members:
            self._n_members = len(self._members)
            self._any_map = any(member.learner is not None and member.learner.has_map for member in self._members)
        if not self._compared:
            self._compare(context)
        if not self._any_map or not isinstance(context, np.ndarray | list):
            return None
        try:
            return as_offers(context)
        except InvalidArgument:
            return None  # learners say what is wrong with it

    def check_first(self, context: Context) -> None:
        """Raise an error if the first context of a portfolio has too few columns for a learner.

        Later a learner that needs more than there are fails alone: one that was added must not stop the others.
        """
        n_columns, used = columns_of(context), self._columns_used()
        known = {name: n for name, n in used.items() if n is not None}
        widest = max(known, key=known.__getitem__, default="")
        if n_columns is not None and known and known[widest] > n_columns:
            raise InvalidArgument(
                f"context has {n_columns} columns, but must have at least {known[widest]} for learner {widest!r}"
            )

    def _compare(self, context: Context) -> None:
        n_columns = columns_of(context)
        if n_columns is None:
            return
        self._compared = True
        used = self._columns_used().values()
        known = [n for n in used if n is not None]
        if len(known) == len(used) and 0 < max(known, default=0) < n_columns:
            logger.warning(
                "no learner uses more than the first %d of the %d columns of the context", max(known), n_columns
            )

    def _columns_used(self) -> dict[str, int | None]:
        """Return how many columns each learner uses, by its name; None if that is not known."""
        return {each.name: each.learner.can.n_columns for each in self._members if each.learner is not None}


def n_offers(context: Context) -> int | None:
    """Return the number of actions that a context offers; None if it does not say."""
    if type(context) is np.ndarray:
        return len(context) if context.ndim == 2 else None
    return len(context) if isinstance(context, Offers) else None


def columns_of(context: Context) -> int | None:
    """Return the number of columns of a matrix or of offers; None for other contexts."""
    matrix = context.actions if isinstance(context, Offers) else context
    return matrix.shape[1] if isinstance(matrix, np.ndarray) and matrix.ndim == 2 else None
