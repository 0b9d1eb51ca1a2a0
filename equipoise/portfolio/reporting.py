"""What a portfolio says about itself: statements, explanations, records, history, pictures."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.certificates import Certificate, Standing
from equipoise.certificates.fields import Record
from equipoise.certificates.records import Provable, elimination_record, verify_record
from equipoise.errors import require
from equipoise.learner import part_name
from equipoise.portfolio import explaining, health
from equipoise.portfolio.events import logger
from equipoise.portfolio.history import History
from equipoise.portfolio.state import PortfolioState
from equipoise.selector import eliminations_of
from equipoise.storage.files import write_atomic
from equipoise.types import Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Reporting(PortfolioState):
    """Reports; changes nothing."""

    @property
    def learner_names(self) -> tuple[str, ...]:
        """The names of the learners, unique in this portfolio."""
        return tuple(member.name for member in self._members)

    @property
    def history(self) -> History:
        """What the portfolio looked like at log-spaced rounds, and what happened to its learners."""
        return self._history

    def certificate(self) -> Certificate:
        """What the rewards so far prove, with confidence 1 - delta - the deltas of the learners.

        A round that no learner played counts with the width of the reward range, the most it can cost.
        """
        with self._lock:
            return health.certificate(self)

    def standing(self) -> list[Standing]:
        """How every learner is doing, one row per learner."""
        with self._lock:
            return self._selector.standing()

    def health(self) -> Config:
        """What an operator wants to know, as plain data: open, overdue and blocking decisions, failures, times."""
        with self._lock:
            return health.health(self)

    def describe(self) -> str:
        """Certificate and standing in sentences, one line for the certificate and one for each learner."""
        with self._lock:
            return health.describe(self, self.reward_range or (-inf, inf))

    def explain(self, name: str) -> str:
        """Why a learner plays as often as it does, in sentences.

        Parameters
        ----------
        name
            Name of the learner.
        """
        with self._lock:
            return explaining.explain(self, name)

    def to_json(self) -> Config:
        """Certificate and standing as plain data."""
        with self._lock:
            names = self.learner_names
            rows = [{"name": names[row.learner], **row.to_json()} for row in self.standing()]
            return {"certificate": self.certificate().to_json(), "standing": rows}

    def records(self, path: str | Path | None = None) -> list[Record]:
        """All eliminations as records that anyone can verify without the portfolio.

        An elimination in which a learner that was added later has a part uses a radius of its own, for which records
        have no form; it is left out, and the log says so.

        Parameters
        ----------
        path
            File to write them to, one JSON object per line, for `equipoise verify`. Default: none.
        """
        with self._lock:
            records = list(self._records())
        if path is not None:
            write_atomic(Path(path), "".join(json.dumps(record) + "\n" for record in records).encode())
        return records

    def _records(self) -> list[Record]:
        selector, found = self._selector, []
        if not isinstance(selector, Provable):
            return []
        for elimination in eliminations_of(selector) or ():
            record = elimination_record(
                elimination,
                selector_label=part_name(selector),
                seed=self.seed,
                selector=selector,
                learner_names=self.learner_names,
            )
            if verify_record(record):
                name = self._members[elimination.learner.index].name
                logger.warning("the elimination of %s is left out: a learner that was added later has a part", name)
            else:
                found.append(record)
        return found

    def plot(self, path: str | Path | None = None) -> Figure | None:
        """Draw shares of plays, mean rewards and certified regret over time, with marks. Needs `equipoise[lab]`.

        Returns the figure if there is no path.

        Parameters
        ----------
        path
            File to write: a page with explanations if it ends in .html, else the figure as .png or .svg.
        """
        require("portfolio.plot()", "matplotlib")
        from equipoise.lab.report import portfolio_page

        whole: Any = self  # the rest of the portfolio is needed too
        with self._lock:
            if path is None:
                return portfolio_page.draw(whole)
            portfolio_page.write(whole, Path(path))
            return None
