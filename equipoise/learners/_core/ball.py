"""The ball as an action set, and the optimistic action on it.

max over ||a|| <= L of <theta, a> + w ||a||_{Sigma^{-1}} equals L times the largest norm in the ellipsoid
{theta + F u : ||u|| <= w}, F F^T = Sigma^{-1}, and the maximizer is L x / ||x|| for the farthest point x. In the basis
of the ellipsoid's axes (s_i their squared lengths for w = 1, t_i the coordinates of theta) the farthest point is
x_i = mu t_i / (mu - s_i) for the multiplier mu >= max s at which sum s_i t_i^2 / (mu - s_i)^2 = w^2: a trust-region
problem with one root. In the hard case theta has no component along the longest axis, the equation has no root beyond
max s, and the remainder of w is spent along that axis.

Reference: Conn, Gould and Toint (2000), "Trust-region methods", section 7.3 (secular equation and hard case).
Departure: the unknown is not mu but its distance from max s, which avoids cancellation near the hard case.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from equipoise.errors import InvalidArgument
from equipoise.features.offers import as_numbers
from equipoise.settings import setting, value
from equipoise.settings.checks import count, positive
from equipoise.types import Action, Array

NEGLIGIBLE = 1e-50  # components of theta below this, relative to the ellipsoid, count as zero


@value
class Ball:
    """A context that offers all vectors of `dim` entries with norm at most `radius`."""

    dim: int = setting("Number of entries of a vector, at least 1.", count)
    radius: float = setting("Largest norm of a vector, positive.", positive, default=1.0)

    def check_for(self, dim: int, action_bound: float) -> None:
        """Raise an error if the ball has too few dimensions or too large a radius for a learner."""
        if self.dim < dim:
            raise InvalidArgument(f"context has {self.dim} dimensions, but must have at least dim = {dim}")
        if self.radius > action_bound * (1 + 1e-9):
            raise InvalidArgument(
                f"context has radius {self.radius:g}, but must have at most action_bound = {action_bound:g}"
            )


def check_ball_action(ball: Ball, action: Action) -> Array:
    vector = as_numbers(action, "action", f"a vector of {ball.dim} numbers")
    if vector.shape != (ball.dim,):
        raise InvalidArgument(f"action has shape {vector.shape}, but must be a vector of {ball.dim} numbers")
    norm = sqrt(np.vdot(vector, vector))  # overflows without a warning, to a norm that is rejected below
    if not norm <= ball.radius * (1 + 1e-9):
        raise InvalidArgument(f"action has norm {norm:.6g}, but must lie in the ball of radius {ball.radius:g}")
    return vector


def farthest_point(center: Array, factor: Array, width: float) -> Array:
    """The point of largest norm in {center + factor u : ||u|| <= width}."""
    basis, lengths, _ = np.linalg.svd(factor)
    # In units of the longest half-axis: axes of length 1 and less, the center at `coordinates`.
    half_axis = width * float(lengths[0])
    relative_lengths = lengths / lengths[0]
    coordinates = basis.T @ center / half_axis
    # Scaling by `unit` where the center lies far outside the ellipsoid prevents underflow and overflow.
    unit = max(1.0, float(np.abs(coordinates).max()))
    parts = relative_lengths * np.abs(coordinates) / unit
    gaps = (1.0 - relative_lengths) * (1.0 + relative_lengths) / unit
    present = parts > NEGLIGIBLE
    distance, missing = _secular_root(parts[present], gaps[present])
    point = np.zeros(len(center))
    point[present] = coordinates[present] * (1.0 / unit + distance) / (distance + gaps[present])
    point[0] += missing
    return half_axis * (basis @ point)


def _secular_root(parts: Array, gaps: Array) -> tuple[float, float]:
    """(distance, missing): sum (parts / (distance + gaps))^2 = 1 - missing^2, missing > 0 only at distance = 0.

    Newton's method on 1 / sqrt(sum), which is concave and increasing, so from the left it never overshoots the root.
    """
    distance = float((parts - gaps).max(initial=0.0))
    for _ in range(200):
        ratios = parts / (distance + gaps)
        level = float(ratios @ ratios)
        if level <= 1.0:
            return distance, sqrt(1.0 - level) if distance == 0.0 else 0.0
        slope = float((ratios**2 / (distance + gaps)).sum())
        next_distance = distance + (sqrt(level) - 1.0) * level / slope
        if next_distance == distance:
            break
        distance = next_distance
    return distance, 0.0
