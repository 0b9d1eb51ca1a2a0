"""The statements of a portfolio in words."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan

from equipoise.certificates import Standing
from equipoise.portfolio.events import KINDS
from equipoise.portfolio.statements import (
    ACTIVE,
    ELIMINATED,
    EXCLUDED,
    INACTIVE,
    PAUSED,
    REMOVED,
    SUSPENDED,
    DriftStatement,
    Explanation,
    LearnerStatement,
    Mark,
    Statements,
)

STATE_WORDS = {
    ACTIVE: "active",
    SUSPENDED: "suspended",
    PAUSED: "paused after failures",
    ELIMINATED: "eliminated",
    INACTIVE: "inactive",
    EXCLUDED: "never played",
    REMOVED: "removed",
}
MIN_REFUSED = 20  # contexts in a row, which `explain` mentions


def happened(mark: Mark) -> str:
    """Return the word for what happened; a suspension because of failures is a pause."""
    is_pause = mark.kind == "learner_suspended" and mark.until is not None
    return STATE_WORDS[PAUSED] if is_pause else KINDS[mark.kind].word


def describe(statements: Statements) -> str:
    """Return all statements in sentences: the headlines, a line for each learner, why this selector."""
    lines = [*headlines(statements), *(about(statements, learner) for learner in statements.learners)]
    return "\n".join([*lines, statements.recommendation] if statements.recommendation else lines)


def headlines(statements: Statements) -> list[str]:
    """Return the sentences about the portfolio as a whole, the certificate first."""
    names, rewards = statements.names, statements.rewards.describe()
    lines = [statements.certificate.describe(names)]
    if rewards:
        outside = statements.rewards.outside
        counted = (
            f"; so far {outside:,} {'was' if outside == 1 else 'were'} outside" if statements.rewards.limits else ""
        )
        lines.append(f"All of this is about {rewards}{counted}.")
    lines += _about_drift(statements.drift, names)
    if any(learner.substituted for learner in statements.learners):
        lines.append("Substitutes acted in some rounds: all of this is about each learner with its substitutes.")
    if statements.unplayed:
        lines.append(f"{statements.unplayed:,} of these rounds were drawn for no learner: fallback or exploration.")
    if statements.replayed:
        lines.append(f"{statements.replayed:,} of these rounds were replayed from a log.")
    return lines


def about(statements: Statements, learner: LearnerStatement) -> str:
    """Return the line about one learner."""
    row, state, limits = learner.standing, STATE_WORDS[learner.state], statements.reward_range or (-inf, inf)
    line = row.describe(learner.name, statements.certificate, limits, state)
    if learner.substituted:
        line += f" {_with_substitutes(learner)}"
    if learner.logged_rounds:
        line += f" {_beginning(learner.logged_rounds)}"
    return line if learner.state == ACTIVE or not row.active else f"{line} It is {state}."


def _about_drift(drift: DriftStatement, names: tuple[str, ...]) -> Iterator[str]:
    found = drift.refuted
    if found is not None:
        yield f"Drift alarm in round {found.round - 1:,} ({found.kind}): {found.reason}."
    if drift.since > 1 and drift.has_bounds:
        yield f"Learners learned before round {drift.since:,} too, so their bounds are assumptions since then."
    for i, amount, plays in drift.drops:
        yield (
            f"{names[i]} has earned less per play by at least {amount:.3g} after its first {plays:,} monitored plays. "
            "That is not evidence of drift: learners that explore or lock in do this too."
        )


def _with_substitutes(learner: LearnerStatement) -> str:
    rounds = f"{learner.substituted:,} round{'' if learner.substituted == 1 else 's'}"
    return f"A substitute acted for it in {rounds}."


def _refusing(learner: LearnerStatement) -> str:
    return f"It refused the last {learner.refused_in_a_row:,} contexts ({learner.last_refusal})."


def _beginning(logged_rounds: int) -> str:
    return f"It began with {logged_rounds:,} logged rounds, which no statement counts."


def explain(explanation: Explanation, *, with_rule: bool = True) -> str:
    """Return why a learner plays as often as it does, with the rule of the selector if it may play."""
    learner, statements = explanation.learner, explanation.statements
    sentences = [_plays(learner, statements)]
    sentences += [_with_substitutes(learner)] if learner.substituted else []
    sentences += [_beginning(learner.logged_rounds)] if learner.logged_rounds else []
    sentences += [_refusing(learner)] if learner.refused_in_a_row >= MIN_REFUSED else []
    if learner.state == ACTIVE:
        sentences += [rule(statements)] if with_rule else []
        sentences += _reasons(explanation)
    else:
        sentences.append(_absence(explanation))
    return " ".join(sentences)


def rule(statements: Statements) -> str:
    """Return how learners are chosen."""
    name, words = statements.selector, statements.rule
    return f"The rule of {name}: {words[0].lower()}{words[1:]}" if words else f"{name} does not say how it chooses."


def _plays(learner: LearnerStatement, statements: Statements) -> str:
    row, name = learner.standing, learner.name
    total = sum(each.standing.plays for each in statements.learners) + statements.unplayed
    if row.plays == 0:
        return f"{name} has not played in {total:,} rounds."
    mean = "" if isnan(row.mean_reward) else f", with a mean reward of {_with_radius(row)}"
    words = f"{name} has played {row.plays:,} of {total:,} rounds ({100 * row.plays / total:.1f} %){mean}."
    waiting = row.pending - row.left_out
    return f"{words} {waiting:,} of its plays do not count yet." if waiting else words


def _with_radius(row: Standing) -> str:
    return f"{row.mean_reward:.4g} ± {_rounded(row.mean_radius)}"


def _rounded(number: float) -> str:
    """Return two digits, without an exponent where that is readable."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.2g}"


def _absence(explanation: Explanation) -> str:
    learner, statements = explanation.learner, explanation.statements
    if learner.state == REMOVED:
        return "It was removed, and plays no more."
    if learner.state == SUSPENDED:
        return "It is suspended by request until resume() is called; other learners play instead."
    if learner.state == PAUSED:
        return f"It failed ({learner.last_error}), and is not asked before round {learner.paused_until:,}."
    if explanation.excluded:
        return f"{statements.selector} never plays it, because its model class is too near to that of another one."
    elimination = explanation.elimination
    if elimination is not None:
        reason = elimination.reason(statements.names[elimination.witness.index])
        who = ", with its substitutes," if learner.substituted else ""
        return f"It was eliminated{who} in round {elimination.round:,}: {reason}."
    again = " It becomes active again if that changes." if explanation.readmits else ""
    return f"It is inactive, because its rewards contradict its bound.{again}"


def _reasons(explanation: Explanation) -> Iterator[str]:
    """Yield the numbers the selector compares."""
    statements, row = explanation.statements, explanation.learner.standing
    names, i = statements.names, row.learner
    known = [each.standing for each in statements.learners if each.standing.active]
    known = [each for each in known if not isnan(each.mean_reward)]
    best = max(known, key=lambda each: each.mean_reward, default=None)
    if best is not None and not isnan(row.mean_reward):
        if best.learner == i:
            yield "Its mean reward is the highest of all active learners."
        else:
            yield (
                f"The highest mean reward of an active learner is {_with_radius(best)}, that of {names[best.learner]}."
            )
    if explanation.needs_bounds and len(known) > 1 and row in known:
        others = (each for each in known if each.learner != i)
        bounds = ", ".join(f"{_rounded(_bound(each))} of {names[each.learner]}" for each in others)
        yield f"Its bound for its plays that count is {_rounded(_bound(row))}, compared with {bounds}."
    chances = explanation.chances
    if chances is None:
        return
    if explanation.randomized:
        yield f"In the next round it plays with probability {chances[i]:.3g}."
    elif chances[i] == 1.0:
        yield "It plays the next round."
    else:
        yield f"{names[max(range(len(chances)), key=chances.__getitem__)]} plays the next round."


def _bound(row: Standing) -> float:
    return row.mean_bound * (row.plays - row.pending)
