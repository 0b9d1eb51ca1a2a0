"""Reading a portfolio for the dashboard: one sample, and on demand everything that its page says in words."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from equipoise.certificates import Standing
from equipoise.certificates.wording import confidence_text
from equipoise.errors import EquipoiseError
from equipoise.portfolio import Portfolio, text
from equipoise.portfolio.statements import Statements
from equipoise.serve.dashboard.timeline import Row
from equipoise.serve.hosted import Hosted
from equipoise.types import Config

MAX_LISTED = 20  # failed updates, blocking decisions


class Reading(NamedTuple):
    """A sample, what comes along with it, and how long it took."""

    row: Row
    health: Config
    names: tuple[str, ...]
    standing: Sequence[Standing]
    start: tuple[float, float] | None  # number and sum of the rewards of the first decisions
    words: Config | None  # if asked for
    seconds: float


def read(hosted: Hosted, requests: Sequence[float], *, with_text: bool) -> Reading:
    since = perf_counter()
    portfolio = hosted.portfolio
    health, statements = portfolio.health(), portfolio.statements() if with_text else None
    if statements is None:
        standing, certificate = portfolio.standing(), portfolio.certificate()
    else:
        standing, certificate = [each.standing for each in statements.learners], statements.certificate
    about = certificate.regret_lower, certificate.regret_upper, certificate.optimum_lower, certificate.optimum_upper
    counts = health["open"], health["overdue"], health["failed_updates"]
    learners = [
        number
        for each in standing
        for number in (each.plays, *hosted.arrivals.of(each.learner), each.mean_reward, each.mean_radius)
    ]
    row = Row(array("d", [hosted.time, health["rounds"], *about, *counts, *requests, *learners]))
    words = None if statements is None else _words(portfolio, statements, standing)
    about_start = hosted.arrivals.start
    return Reading(row, health, portfolio.learner_names, standing, about_start, words, perf_counter() - since)


def _words(portfolio: Portfolio, statements: Statements, standing: Sequence[Standing]) -> Config:
    deadline = portfolio.settings.deadline
    unit = "rounds" if isinstance(deadline, int) else "seconds"
    return {
        "selector": statements.selector,
        "rule": text.rule(statements),
        "statements": text.headlines(statements),
        "recommendation": statements.recommendation,
        "about_learners": [text.about(statements, learner) for learner in statements.learners],
        "reward_range": statements.reward_range,
        "pairs": _pairs(portfolio, standing),
        "valid": statements.certificate.valid,
        "failed_update_rows": [
            {"name": portfolio.learner_names[update.learner], "round": update.round, "error": update.error}
            for update in portfolio.failed_updates[-MAX_LISTED:]
        ],
        "marks": _marks(portfolio),
        "deadline": None if deadline is None else {unit: deadline},
        "default_reward": portfolio.settings.default_reward,
    }


def _marks(portfolio: Portfolio) -> list[Config]:
    """What happened, each with the word for it."""
    return [{**mark._asdict(), "word": text.happened(mark)} for mark in portfolio.history.marks]


def _pairs(portfolio: Portfolio, standing: Sequence[Standing]) -> Config:
    """What is proved about each learner against the one that plays most."""
    counted = [row for row in standing if row.plays > row.pending]
    leader = max((row for row in counted if row.active), key=lambda row: row.plays, default=None)
    if leader is None:
        return {"leader": None, "confidence": None, "rows": [], "reason": "No reward counts yet."}
    return pairs_with(portfolio, leader.learner, counted)


def pairs_with(portfolio: Portfolio, learner: int, standing: Sequence[Standing]) -> Config:
    """What is proved about each of these learners against one of them."""
    names, rows, confidence = portfolio.learner_names, [], None
    try:
        for row in standing:
            if row.learner == learner or row.plays == row.pending:
                continue
            compared = portfolio.compare(row.learner, learner)
            confidence = confidence_text(compared.delta) if compared.valid else None
            ends = {"lower": compared.difference_lower, "upper": compared.difference_upper}
            rows.append({"name": names[row.learner], **ends})
    except EquipoiseError as error:
        return {"leader": names[learner], "confidence": None, "rows": [], "reason": str(error)}
    reason = "" if rows or len(standing) > 1 else "There is no other learner with a reward that counts."
    return {"leader": names[learner], "confidence": confidence, "rows": rows, "reason": reason}


def about_learner(portfolio: Portfolio, name: str) -> Config:
    """What the page of one learner says; raises an error if there is none of this name."""
    explanation = portfolio.explain(name)
    i, standing = portfolio.learner_names.index(name), portfolio.standing()
    learner = portfolio.learners[i]
    counted = [row for row in standing if row.plays > row.pending]
    has_pairs = standing[i] in counted
    return {
        "name": name,
        "explanation": explanation,
        "setting": "removed" if learner is None else repr(learner),
        "pairs": pairs_with(portfolio, i, counted) if has_pairs else {"reason": "No reward counts yet.", "rows": []},
        "marks": [mark for mark in _marks(portfolio) if mark["name"] == name],
        "failed_update_rows": [
            {"round": update.round, "error": update.error} for update in portfolio.failed_updates if update.learner == i
        ][-MAX_LISTED:],
    }
