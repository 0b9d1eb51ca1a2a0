"""What an operator wants to know about a portfolio, as data, as sentences and as warnings in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import NamedTuple

from equipoise.certificates import Certificate
from equipoise.portfolio import drifting
from equipoise.portfolio.members import Member
from equipoise.portfolio.state import PortfolioState
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import eliminations_of
from equipoise.types import Config

REPORTED_FROM = 100  # held-up rewards for which it is worth a line in the log


class Blocking(NamedTuple):
    """A decision without a reward that holds up rewards of later plays of a learner."""

    learner: int
    ticket: Ticket
    held_up: int
    what: str  # "evidence" or "lessons"


def certificate(portfolio: PortfolioState) -> Certificate:
    """What the rewards so far prove; a round that no learner played counts with the width of the reward range."""
    unplayed = portfolio._counts.unplayed
    members = {i: portfolio._members[i] for i in portfolio._traits.observed}
    deltas = {i: 0.0 if member.learner is None else member.learner.delta for i, member in members.items()}
    proved = portfolio._selector.certificate().with_learners(deltas)
    since, refuted_at = portfolio._drift.one_law
    proved = replace(proved, law_since=since, law_refuted_at=refuted_at)
    if unplayed == 0 or hasattr(portfolio._selector, "tick"):
        return proved
    regret_upper = proved.regret_upper + unplayed * portfolio._width
    return replace(proved, rounds=proved.rounds + unplayed, regret_upper=regret_upper)


def health(portfolio: PortfolioState) -> Config:
    """Open, overdue and blocking decisions, failures, and where time went."""
    tickets = list(portfolio._open.values())
    oldest = tickets[0] if tickets else None
    return {
        "rounds": portfolio._round,
        **asdict(portfolio._counts),
        "open": len(tickets),
        "overdue": sum(map(portfolio._is_overdue, tickets)),
        "oldest_open": None if oldest is None else {"id": oldest.id, **_age(portfolio, oldest)},
        "blocking": [
            {
                "id": ticket.id,
                "learner": portfolio._members[i].name,
                "holds_up": held_up,
                "what": what,
                **_age(portfolio, ticket),
            }
            for i, ticket, held_up, what in blocking(portfolio)
        ],
        "failed_lessons": len(portfolio._teaching.failed_lessons),
        "forgotten_lessons": portfolio._teaching.forgotten,
        "learners": [_learner(portfolio, i, member) for i, member in enumerate(portfolio._members)],
    }


def _age(portfolio: PortfolioState, ticket: Ticket) -> Config:
    age: Config = {"age_rounds": portfolio._round - ticket.round}
    if ticket.time:
        age["age_seconds"] = portfolio._time - ticket.time
    return age


def _learner(portfolio: PortfolioState, i: int, member: Member) -> Config:
    return {
        "name": member.name,
        "state": state_of(portfolio, i),
        "logged_rounds": member.logged_rounds,
        "failures": member.failures,
        "last_error": member.last_error,
        "paused_until_round": member.paused_until if member.paused_until > portfolio._round else None,
        "decide": member.decide_times.to_json(),
        "learn": member.learn_times.to_json(),
    }


def state_of(portfolio: PortfolioState, i: int) -> str:
    """What keeps a learner from playing, or "active"."""
    member = portfolio._members[i]
    if member.learner is None:
        return "removed"
    if i in portfolio._traits.excluded:
        return "never played"
    if i not in portfolio._selector.active:
        eliminated = any(each.learner.index == i for each in eliminations_of(portfolio._selector) or ())
        return "eliminated" if eliminated else "inactive"
    if member.suspended:
        return "suspended"
    return "paused after failures" if member.paused_until > portfolio._round else "active"


def blocking(portfolio: PortfolioState) -> Iterator[Blocking]:
    """The decisions that hold up others, for evidence and for lessons that are learned in order."""
    report = getattr(portfolio._selector, "blocking", None)
    blocked = {} if report is None else report()
    if blocked:
        by_play = {
            (ticket.choice.learner, ticket.choice.play): ticket
            for ticket in portfolio._open.values()
            if ticket.choice is not None and ticket.epoch == portfolio._drift.epoch
        }
        for i, (play, held_up) in blocked.items():
            if held_up and (i, play) in by_play:
                yield Blocking(i, by_play[i, play], held_up, "evidence")
    for i in sorted(portfolio._teaching.in_order):
        waiting = portfolio._teaching.waiting(i)
        if waiting is not None:
            yield Blocking(i, *waiting, "lessons")


def report_blocked(portfolio: PortfolioState) -> None:
    """Announce decisions that hold up many others, once each for evidence and for lessons."""
    for i, ticket, held_up, what in blocking(portfolio):
        if held_up >= REPORTED_FROM and (ticket.round, what) not in portfolio._reported:
            portfolio._reported.add((ticket.round, what))
            data = {"id": ticket.id, "name": portfolio._members[i].name, "holds_up": held_up, "what": what}
            portfolio._emit("blocked", {**data, **_age(portfolio, ticket)}, derived=True)
    still_open = {ticket.round for ticket in portfolio._open.values()}
    portfolio._reported = {(round_, what) for round_, what in portfolio._reported if round_ in still_open}


def about_rewards(portfolio: PortfolioState) -> str:
    """What the portfolio makes of rewards before they count, which all statements are about; empty if nothing."""
    text = {"first": "rewards", "sum": "sums of rewards", "last": "the last rewards"}[portfolio.aggregate]
    if _clips(portfolio) and portfolio.reward_range is not None:
        low, high = portfolio.reward_range
        text += f" clipped to [{low:.4g}, {high:.4g}]"
    if portfolio.deadline is not None:
        text += f", with {portfolio.default_reward:.4g} where none came before the deadline"
    return "" if text == "rewards" else text


def _clips(portfolio: PortfolioState) -> bool:
    """Whether a reward out of range is clipped; what is aggregated always is, unless there is noise."""
    return portfolio.clip or (portfolio.aggregate == "sum" and portfolio._traits.noise is None)


def beginning(logged_rounds: int) -> str:
    """What is said of a learner that was taught a log."""
    return f"It began with {logged_rounds:,} logged rounds, which no statement counts."


def describe(portfolio: PortfolioState, reward_range: tuple[float, float]) -> str:
    """Certificate and standing in sentences."""
    proved, names = certificate(portfolio), [member.name for member in portfolio._members]
    lines, rewards = [proved.describe(names)], about_rewards(portfolio)
    if rewards:
        outside = portfolio._counts.clipped
        counted = f"; so far {outside:,} {'was' if outside == 1 else 'were'} outside" if _clips(portfolio) else ""
        lines.append(f"All of this is about {rewards}{counted}.")
    lines += drifting.sentences(portfolio._drift, names, bounded=portfolio._has_bounds)
    unplayed = portfolio._counts.unplayed
    if unplayed:
        lines.append(f"No learner played {unplayed:,} of these rounds: fallback or exploration.")
    if portfolio._counts.replayed:
        lines.append(f"{portfolio._counts.replayed:,} of these rounds were replayed from a log.")
    for row in portfolio._selector.standing():
        state = state_of(portfolio, row.learner)
        line = row.describe(names[row.learner], proved, reward_range, state)
        taught = portfolio._members[row.learner].logged_rounds
        if taught:
            line += f" {beginning(taught)}"
        lines.append(line if state == "active" or not row.active else f"{line} It is {state}.")
    return "\n".join(lines)
