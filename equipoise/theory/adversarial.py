"""Guarantees of Algorithms 2 and 3, whose learners are OFUL on nested classes.

An epoch over the learners I, drawn with probabilities p_i proportional to 1/z_i, ends when its rewards contradict the
lower bounds of some learner (by lem:test_LHS and thm:adv_epoch_balancing_termination, this happens with probability at
most alpha if all are well specified). The functions here bound its regret until then, where * is the smallest learner
such that it and all larger ones are well specified.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), "Regret Bound Balancing and Elimination for Model Selection in
Bandits and RL": thm:adv_general_regret, thm:adv_epoch_balancing_regret, thm:adv_epoch_balancing_regret_ls,
lem:regret_bounds_balanced_prob, theorem::main_adversarial; symbols as in `equipoise.learners._core.linear_class`.
Departures: four one-sided events of alpha = delta/(4 M) each per epoch (the statements count two, or none), radius and
play counts as in `equipoise.confidence` and `lemmas`; the cap b of the random potential must not depend on t, so it
uses the smallest radius beta_1 instead of beta_t; a play costs at most the full width w = 2 R^max. The theorems hide
constants in O~; here those of the proof are explicit. Classes may have a confidence scale kappa and an error eps: beta
is then kappa beta + eps sqrt(t), and n plays cost another 2 eps n, which is at most 2 eps sqrt(n T).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log, sqrt
from typing import NamedTuple

from equipoise.confidence import epoch_alpha, noise_radius, radius_sum
from equipoise.errors import InvalidArgument
from equipoise.kernels.boundaries import STITCHED_RATIO
from equipoise.learners._core.linear_class import SIZES, LinearClass, check_class, check_nested
from equipoise.settings.checks import count, probability
from equipoise.theory.lemmas import ellipsoid_radius, log_determinant_ratio, random_potential


class EpochBound(NamedTuple):
    """The regret of an epoch of t <= T rounds is at most `rooted` sqrt(t/T) + `rest`."""

    rooted: float
    rest: float

    @property
    def total(self) -> float:
        return self.rooted + self.rest


def epoch_guarantee(
    classes: Sequence[LinearClass],
    best: int,
    *,
    rounds: int,
    delta: float,
    n_epochs: int = 1,
    noise: float | None = None,
) -> EpochBound:
    """thm:adv_general_regret with its constants, and with it both theorems on epochs (common range, and R^max = L S).

    2 beta sqrt(t X) + sum_i [ 2.9 w l + 2 beta_i sqrt(3 p_i t (1 + b_i^2) d_i ln(1 + 3 p_i t L^2/(d_i lambda))) ] +
    2 D(t) + w, with X the random potential of *, l = 1.4 ln ln(2 t) + ln(5.2 |I|/alpha), all at t = `rounds`.

    >>> bound = epoch_guarantee([LinearClass("a", 2), LinearClass("b", 4)], 1, rounds=10**6, delta=0.05)
    >>> round(bound.rooted), round(bound.rest)
    (297812, 62)
    """
    checked = _classes(classes, best)
    alpha = epoch_alpha(count("n_epochs", n_epochs), probability("delta", delta))
    t, star = count("rounds", rounds), checked[best]
    weights = [1 / SIZES["proof"](model_class, t) for model_class in checked]
    width = max(high - low for low, high in (model_class.reward_range for model_class in checked))
    potential = random_potential(_log_determinant(star, t), _cap(star), weights[best] / sum(weights), t, alpha)
    rooted, rest = 2 * _radius(star, t) * sqrt(t * potential) + 2 * star.misspecification * t, width
    logs = 1.4 * log(log(2 * t)) + log(STITCHED_RATIO * len(checked) / alpha)
    for model_class, weight in zip(checked, weights, strict=True):
        plays = min(3 * weight / sum(weights), 1.0) * t
        rooted += _learning(model_class, t, plays)
        rest += 2.9 * width * logs
    rooted += 2 * radius_sum(noise_radius(alpha=alpha, width=width, noise=noise, scale=1.0), t)
    return EpochBound(rooted, rest)


def adversarial_guarantee(
    classes: Sequence[LinearClass], best: int, *, rounds: int, delta: float, noise: float | None = None
) -> float:
    """theorem::main_adversarial with constants: sqrt(sum of rooted^2) + sum of rest over the possible B + 1
    epochs, where B = `best` is the number of false classes.

    >>> round(adversarial_guarantee([LinearClass("a", 2), LinearClass("b", 4)], 1, rounds=10**6, delta=0.05))
    344783
    """
    checked = _classes(classes, best)
    settings = {"rounds": rounds, "delta": delta, "n_epochs": len(checked), "noise": noise}
    epochs = [epoch_guarantee(checked[s:], best - s, **settings) for s in range(best + 1)]  # type: ignore[arg-type]
    return sqrt(sum(epoch.rooted**2 for epoch in epochs)) + sum(epoch.rest for epoch in epochs)


def balanced_regret_bounds(
    classes: Sequence[LinearClass], *, rounds: int, alpha: float, chances: Sequence[float]
) -> float:
    """lem:regret_bounds_balanced_prob: upper bound on the sum of the observed bounds of all learners in an epoch, with
    probability 1 - alpha, if learner i is drawn with probability `chances[i]`.

    >>> round(balanced_regret_bounds([LinearClass("a", 2)], rounds=1000, alpha=0.05, chances=[1.0]))
    778
    """
    checked, t = _classes(classes, 0), count("rounds", rounds)
    logs, total = 1.4 * log(log(2 * t)) + log(STITCHED_RATIO * len(checked) / probability("alpha", alpha)), 0.0
    for model_class, chance in zip(checked, chances, strict=True):
        low, high = model_class.reward_range
        plays = min(3 * chance, 1.0) * t
        total += 2.9 * (high - low) * logs + _learning(model_class, t, plays)
    return total


def _classes(classes: Sequence[LinearClass], best: int) -> list[LinearClass]:
    checked = [check_class(model_class) for model_class in classes]
    if not checked:
        raise InvalidArgument("classes is empty, but must have one LinearClass per learner")
    check_nested(checked)
    count("best", best, minimum=0, maximum=len(checked) - 1)
    return checked


def _log_determinant(model_class: LinearClass, plays: float) -> float:
    return log_determinant_ratio(
        model_class.dim, plays, action_bound=model_class.action_bound, regularization=model_class.regularization
    )


def _radius(model_class: LinearClass, plays: float) -> float:
    """kappa beta + eps sqrt(n)."""
    radius = ellipsoid_radius(
        _log_determinant(model_class, plays),
        noise=model_class.noise,
        norm_bound=model_class.norm_bound,
        delta=model_class.delta,
        regularization=model_class.regularization,
    )
    return model_class.scale * radius + model_class.misspecification * sqrt(plays)


def _learning(model_class: LinearClass, rounds: int, plays: float) -> float:
    """Return the sum of the bounds that a learner gives for its plays."""
    potential = (1 + _cap(model_class)) * _log_determinant(model_class, plays)
    return 2 * _radius(model_class, rounds) * sqrt(plays * potential) + 2 * model_class.misspecification * plays


def _cap(model_class: LinearClass) -> float:
    """b^2, where b is the smaller of w/(2 beta_1) and L/sqrt(lambda)."""
    low, high = model_class.reward_range
    largest = model_class.action_bound / sqrt(model_class.regularization)
    return min((high - low) / (2 * _radius(model_class, 0)), largest) ** 2
