"""Units of rewards: their range is said once, at the portfolio, and holds for selector and learners.

A selector or learner that states no range adopts the portfolio's; one that states another is refused, because one of
the two must be wrong. If the portfolio states none, its range is that of the selector, (0, 1) by default.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import InvalidArgument
from equipoise.learner import AdaptedLearner, MinimalLearner, part_name
from equipoise.portfolio.state import PortfolioState
from equipoise.selector import Selector, configure, traits_of
from equipoise.settings import optional
from equipoise.settings.checks import interval

Range = tuple[float, float]


def check(learners: Sequence[MinimalLearner], selector: Selector, reward_range: object) -> None:
    """Raise an error if a part states other units than the portfolio; changes nothing."""
    said, traits = optional(interval)("reward_range", reward_range), traits_of(selector)
    if said not in (None, traits.reward_range):
        _check(selector, said, None)
        if traits.reward_range is not None and not hasattr(selector, "configure"):
            raise InvalidArgument(
                f"reward_range of selector {part_name(selector)!r} is {traits.reward_range}, but that of the portfolio "
                f"is {said}: leave one out, or state the same"
            )
    for learner in learners:
        _check(learner, said or traits.reward_range, traits.noise)


def tell(portfolio: PortfolioState) -> None:
    """Tell selector and learners what the portfolio says once, before the first round."""
    selector, units = portfolio._selector, portfolio.reward_range
    facts = {} if units in (None, portfolio._traits.reward_range) else {"reward_range": units}
    if facts or portfolio.delays == "exogenous":
        configure(selector, delays=portfolio.delays, window=portfolio.window, **facts)
        portfolio._traits = traits_of(selector)
    for member in portfolio._members:
        join(member.adapted, units, portfolio._traits.noise)


def join(learner: AdaptedLearner, units: Range | None, noise: float | None) -> None:
    """Tell a learner the units."""
    if units is not None:
        learner.configure(units, _unless_stated(learner.learner, noise))


def _check(part: object, units: Range | None, noise: float | None) -> None:
    """Raise what `configure` would, if the part can tell without a change."""
    check = getattr(part, "check_units", None)
    if check is not None and units is not None and not isinstance(part, type):  # a class is refused elsewhere
        check(reward_range=units, noise=_unless_stated(part, noise))


def _unless_stated(part: object, noise: float | None) -> float | None:
    """The noise for a learner; None if it states one, since it may know more about its own rounds."""
    states = getattr(part, "states", None)
    return None if states is not None and states("noise") else noise
