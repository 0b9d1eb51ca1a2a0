"""What a portfolio says about itself: statements, explanations, records, history, pictures."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.certificates import Certificate, Comparison, Standing
from equipoise.certificates.fields import Record
from equipoise.certificates.records import Provable, comparison_record, elimination_record
from equipoise.errors import require
from equipoise.learner import part_name
from equipoise.portfolio import explaining, health
from equipoise.portfolio.history import History
from equipoise.portfolio.state import PortfolioState
from equipoise.selector import compare_learners, eliminations_of
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
        """What the rewards so far prove, with confidence 1 - `delta` - `learners_delta` of the certificate.

        A round that no learner played counts with the width of the reward range, the most it can cost.
        """
        with self._lock:
            return health.certificate(self)

    def compare(self, learner: int | str, other: int | str) -> Comparison:
        """How much more regret per play one learner has had than another; they are given by index or name."""
        with self._lock:
            compared = compare_learners(self._selector, learner, other, self.learner_names)
            since, refuted_at = self._drift.one_law
            return replace(compared, rewards=health.about_rewards(self), law_since=since, law_refuted_at=refuted_at)

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

    def records(self, path: str | Path | None = None, *, pairs: Iterable[tuple[str, str]] = ()) -> list[Record]:
        """All eliminations, and comparisons of pairs of learners, as records that anyone can verify.

        Parameters
        ----------
        path
            File to write them to, one JSON object per line, for `equipoise verify`. Default: none.
        pairs
            Names of learners to be compared with each other, as `compare` does. Default: none.
        """
        with self._lock:
            selector, names = self._selector, self.learner_names
            comparisons = [self.compare(learner, other) for learner, other in pairs]
            records: list[Record] = []
            if isinstance(selector, Provable):
                label = part_name(selector)
                about: Config = {
                    "selector_label": label,
                    "seed": self.seed,
                    "selector": selector,
                    "learner_names": names,
                }
                rewards = health.about_rewards(self)
                eliminations = self._in_rounds(eliminations_of(selector) or ())
                records = [elimination_record(each, rewards=rewards, **about) for each in eliminations]
                records += [comparison_record(each, round=self._round, **about) for each in comparisons]
        if path is not None:
            write_atomic(Path(path), "".join(json.dumps(record) + "\n" for record in records).encode())
        return records

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
