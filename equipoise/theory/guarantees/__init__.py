"""Every bound of the paper as a function with explicit constants; `printed_...` are forms that had to be corrected.

Each docstring names the theorem by its label in the paper's source and states its assumptions; arguments that violate
an assumption raise an error. `docs/theory.md` lists all of them with their checks.
"""

from __future__ import annotations

from equipoise.theory.guarantees.adversarial import (
    EpochBound,
    adversarial_guarantee,
    balanced_regret_bounds,
    epoch_guarantee,
    printed_epoch_guarantee,
)
from equipoise.theory.guarantees.applications import (
    confidence_tuning,
    nested_bandits,
    nested_processes,
    unknown_error,
)
from equipoise.theory.guarantees.balance import (
    imbalance,
    power_ratio,
    printed_sqrt_log_ratio,
    printed_survivor_regret,
    sqrt_log_ratio,
    survivor_regret,
)
from equipoise.theory.guarantees.deviations import (
    bernstein_boundary,
    most_plays,
    printed_mean_radius,
    printed_most_plays,
    printed_noise_radius,
)
from equipoise.theory.guarantees.gaps import (
    power_gap_guarantee,
    power_plays,
    printed_power_gap_order,
    printed_sqrt_log_gap,
    sqrt_log_gap_guarantee,
    sqrt_log_plays,
)
from equipoise.theory.guarantees.linear import (
    ellipsoid_radius,
    elliptical_potential,
    log_determinant_ratio,
    oful_regret,
    printed_ellipsoid_radius,
    printed_random_potential,
    random_potential,
)
from equipoise.theory.guarantees.stochastic import (
    Passed,
    general_guarantee,
    linear_sqrt_guarantee,
    linear_sqrt_survivor,
    power_guarantee,
    printed_general_guarantee,
    printed_power_guarantee,
    printed_sqrt_log_guarantee,
    sqrt_log_guarantee,
)

__all__ = [
    "EpochBound",
    "Passed",
    "adversarial_guarantee",
    "balanced_regret_bounds",
    "bernstein_boundary",
    "confidence_tuning",
    "ellipsoid_radius",
    "elliptical_potential",
    "epoch_guarantee",
    "general_guarantee",
    "imbalance",
    "linear_sqrt_guarantee",
    "linear_sqrt_survivor",
    "log_determinant_ratio",
    "most_plays",
    "nested_bandits",
    "nested_processes",
    "oful_regret",
    "power_gap_guarantee",
    "power_guarantee",
    "power_plays",
    "power_ratio",
    "printed_ellipsoid_radius",
    "printed_epoch_guarantee",
    "printed_general_guarantee",
    "printed_mean_radius",
    "printed_most_plays",
    "printed_noise_radius",
    "printed_power_gap_order",
    "printed_power_guarantee",
    "printed_random_potential",
    "printed_sqrt_log_gap",
    "printed_sqrt_log_guarantee",
    "printed_sqrt_log_ratio",
    "printed_survivor_regret",
    "random_potential",
    "sqrt_log_gap_guarantee",
    "sqrt_log_guarantee",
    "sqrt_log_plays",
    "sqrt_log_ratio",
    "survivor_regret",
    "unknown_error",
]
