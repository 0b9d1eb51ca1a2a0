"""An explicit regret bound of D3RB with prompt rewards, in the style of its publication but with all constants.

Contexts and rewards have one law, the learner is chosen before the context is seen, and every learner can be chosen in
every round. Rewards have width w; d, d_min and c_i are in units of rewards, so that c_i starts at d_min (w times the
setting). Let * be a learner with Reg_*(n) <= d sqrt(n) for all n, d >= d_min, and let the event of the radius D hold:
for all learners and n, |n mu* - U - Reg| <= D(n). Let c_i be the presumed coefficient of learner i.

1. c_* <= 2 d. It is doubled only if U_* + c_* sqrt(n) + D(n) is below n times the lower mean of some learner, hence
   below n mu* <= U_* + d sqrt(n) + D(n); so c_* was below d.
2. All learners are played in the first M rounds. Let i be another learner, and m >= 2 its plays up to the last one
   after which its coefficient was not doubled. When that play was chosen, c_i sqrt(m - 1) <= c_* sqrt(n_*) <= 2 d
   sqrt(n_*). With m <= 2 (m - 1), c_i sqrt(m) <= 2 sqrt(2) d sqrt(n_*) and sqrt(m/n_*) <= 2 sqrt(2) d/d_min.
3. It passed the test, so U_i + c_i sqrt(m) + D(m) >= (m/n_*)(U_* - D(n_*)), and on the event
     Reg_i(m) <= c_i sqrt(m) + 2 D(m) + (m/n_*)(d sqrt(n_*) + 2 D(n_*)).
   With D(n) <= g sqrt(n) for n <= T this is at most 2 sqrt(2) d sqrt(T) + sqrt(m) (2 g + 2 sqrt(2) (d/d_min)(d + 2 g)).
4. Its other plays are the first one and those that doubled c_i, which is at most 4 d sqrt(T) in the end: at most
   log2(4 d sqrt(T)/d_min) plays. The sum of sqrt(m) over M - 1 learners is at most sqrt((M - 1) T). So

  Reg(T) <= d sqrt(T) + (M - 1) 2 sqrt(2) d sqrt(T) + sqrt((M - 1) T) (2 g + 2 sqrt(2) (d/d_min)(d + 2 g))
            + (M - 1) w (1 + log2(4 d sqrt(T)/d_min)).

For g we take that of the stitched boundary with half of alpha, which is nowhere below the default radius and, divided
by sqrt(n), grows with n.

Reference: Pacchiano, Dann and Gentile (2023), "Data-driven online model selection with regret guarantees".
"""

from __future__ import annotations

from math import log2, sqrt

from equipoise.confidence import radius_sum, stitched
from equipoise.selectors import D3RB


def doubling_regret(rounds: int, n_learners: int, coefficient: float, *, d_min: float = 1.0) -> float:
    """The bound of D3RB if one of its learners has regret at most `coefficient` sqrt(n); rewards in [0, 1].

    It holds with probability 0.95, the default of `D3RB`, for all rounds at once.

    >>> round(doubling_regret(10_000, 5, 1.0))
    7018
    """
    selector = D3RB(n_learners, d_min=d_min)
    radius = stitched(selector.confidence.radius.variance, selector.alpha / 2, 1.0)
    growth, root, others = radius_sum(radius, rounds) / sqrt(rounds), sqrt(rounds), n_learners - 1
    d = max(coefficient, d_min)
    balanced = d * root + others * 2 * sqrt(2) * d * root
    tested = sqrt(others) * root * (2 * growth + 2 * sqrt(2) * d / d_min * (d + 2 * growth))
    return balanced + tested + others * (1 + log2(4 * d * root / d_min))
