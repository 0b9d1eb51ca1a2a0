"""Why a learner plays as often as it does, in words: its state, the rule of the selector, and the numbers behind it."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import TYPE_CHECKING

from equipoise.certificates import Standing
from equipoise.errors import UnknownName
from equipoise.learner import part_name
from equipoise.portfolio import health
from equipoise.portfolio.history import reason_of
from equipoise.portfolio.members import Member
from equipoise.selector import eliminations_of

if TYPE_CHECKING:
    from equipoise.portfolio.state import PortfolioState


def explain(portfolio: PortfolioState, name: str, *, with_rule: bool = True) -> str:
    """Sentences about one learner, with the rule of the selector if it may play."""
    names = [member.name for member in portfolio._members]
    if name not in names:
        raise UnknownName("learner", name, names)
    rows, i = portfolio._selector.standing(), names.index(name)
    sentences = [_plays(rows, i, name, portfolio._counts.unplayed)]
    taught = portfolio._members[i].logged_rounds
    sentences += [health.beginning(taught)] if taught else []
    state = health.state_of(portfolio, i)
    if state == "active":
        sentences += [rule_of(portfolio)] if with_rule else []
        sentences += _comparison(portfolio, rows, i)
    else:
        sentences.append(_absence(portfolio, i, state))
    return " ".join(sentences)


def _plays(rows: list[Standing], i: int, name: str, unplayed: int) -> str:
    total, row = sum(row.plays for row in rows) + unplayed, rows[i]
    if row.plays == 0:
        return f"{name} has not played in {total:,} rounds."
    mean = "" if isnan(row.mean_reward) else f", with a mean reward of {_with_radius(row)}"
    text = f"{name} has played {row.plays:,} of {total:,} rounds ({100 * row.plays / total:.1f} %){mean}."
    waiting = row.pending - row.left_out
    return f"{text} {waiting:,} of its plays do not count yet." if waiting else text


def _with_radius(row: Standing) -> str:
    return f"{row.mean_reward:.4g} \u00b1 {_rounded(row.mean_radius)}"


def _rounded(number: float) -> str:
    """Two digits, without an exponent where that is readable."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.2g}"


def _absence(portfolio: PortfolioState, i: int, state: str) -> str:
    """Why a learner does not play at all."""
    member, selector = portfolio._members[i], portfolio._selector
    if state == "removed":
        return "It was removed, and plays no more."
    if state == "suspended":
        return "It is suspended by request until resume() is called; other learners play instead."
    if state == "paused after failures":
        return f"It failed ({member.last_error}), and is not asked before round {member.paused_until:,}."
    if i in portfolio._traits.excluded:
        return f"{part_name(selector)} never plays it, because its model class is too near to that of another one."
    eliminations = () if portfolio._traits.readmits else eliminations_of(selector) or ()
    for elimination in portfolio._in_rounds(eliminations):
        if elimination.learner.index == i:
            reason = reason_of(elimination, portfolio._members[elimination.witness.index].name)
            return f"It was eliminated in round {elimination.round:,}: {reason}."
    again = " It becomes active again if that changes." if portfolio._traits.readmits else ""
    return f"It is inactive, because its rewards contradict its bound.{again}"


def rule_of(portfolio: PortfolioState) -> str:
    """How learners are chosen."""
    name, rule = part_name(portfolio._selector), getattr(portfolio._selector, "explanation", None)
    return f"The rule of {name}: {rule[0].lower()}{rule[1:]}" if rule else f"{name} does not say how it chooses."


def _comparison(portfolio: PortfolioState, rows: list[Standing], i: int) -> Iterator[str]:
    """What the rule has to go by for this learner."""
    selector, members = portfolio._selector, portfolio._members
    active = [row for row in rows if row.active]
    known = [row for row in active if not isnan(row.mean_reward)]
    best = max(known, key=lambda row: row.mean_reward, default=None)
    if best is not None and not isnan(rows[i].mean_reward):
        if best.learner == i:
            yield "Its mean reward is the highest of all active learners."
        else:
            highest = f"{_with_radius(best)}, that of {_name(members, best)}"
            yield f"The highest mean reward of an active learner is {highest}."
    if "bounds" in selector.needs and len(known) > 1 and rows[i] in known:
        bounds = ", ".join(f"{_rounded(_bound(row))} of {_name(members, row)}" for row in known if row.learner != i)
        yield f"Its bound for its plays that count is {_rounded(_bound(rows[i]))}, compared with {bounds}."
    yield from _next_round(portfolio, i)


def _next_round(portfolio: PortfolioState, i: int) -> Iterator[str]:
    chances = portfolio._chooser.probabilities_in(portfolio._round + 1, None)
    if chances is None:
        return
    if portfolio._traits.randomized:
        yield f"In the next round it plays with probability {chances[i]:.3g}."
    elif chances[i] == 1.0:
        yield "It plays the next round."
    else:
        chosen = max(range(len(chances)), key=chances.__getitem__)
        yield f"{portfolio._members[chosen].name} plays the next round."


def _bound(row: Standing) -> float:
    return row.mean_bound * (row.plays - row.pending)


def _name(members: list[Member], row: Standing) -> str:
    return members[row.learner].name
