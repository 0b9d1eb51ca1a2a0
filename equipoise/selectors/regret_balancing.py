"""Regret balancing: play the learner with the smallest empirical regret against an optimistic value.

If the bound of a learner holds, its mean reward plus its bound per play is at least about the best expected reward. The
largest such value over learners is the optimistic value; the empirical regret of a learner is that value per play minus
its rewards. Playing the learner with the smallest empirical regret keeps all of them about equal. No learner is
eliminated, and bounds are not tested.

Reference: Abbasi-Yadkori, Pacchiano and Phan (2020), "Regret balancing for bandit and RL model selection", the regret
balancing strategy.
Symbols: n_i plays, U_i rewards, R_i booked_bound, v optimistic, g_i empirical regret.
Guarantee of the reference: regret of the order of the best learner's, if its bound is given and is true and tight.
Nothing is guaranteed if bounds are false.
Departures: the reference has one bound, that of the best learner; here each learner may have its own. For the original,
give all learners the same bound. A bound is evaluated at the learner's own plays. Values use resolved prefixes, and a
pending play counts the full width as empirical regret. Ties go to fewer plays, then to the lower index.

>>> from equipoise.bounds import Power
>>> selector = RegretBalancing([Power(1.0), Power(1.0)])
>>> for _ in range(100):
...     choice = selector.choose()
...     _ = selector.credit(choice, reward=0.4 + 0.2 * choice.learner)
>>> [standing.plays for standing in selector.standing()]
[27, 73]
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Elimination
from equipoise.kernels.marks import kernel
from equipoise.selectors._core import evidence
from equipoise.selectors._core.evidence import Params, State, comes_first
from equipoise.selectors._core.kernels import Kernels
from equipoise.selectors._core.selector import KernelSelector
from equipoise.selectors._core.settings import check_bounds, decode_bounds, encode_bounds
from equipoise.settings import configurable, setting


@kernel
def choose(params: Params, state: State, rng: np.random.Generator) -> tuple[int, float]:
    """An unplayed learner if there is one, otherwise the learner with the smallest empirical regret."""
    optimistic = optimistic_value(params, state)
    chosen, least, fewest = -1, inf, 0
    for i in range(len(state.accounts)):
        account = state.accounts[i]
        plays = account.plays
        regret = empirical_regret(params, state, i, optimistic) if plays > 0 else -inf
        if account.active and (chosen < 0 or comes_first(regret, plays, least, fewest)):
            chosen, least, fewest = i, regret, plays
    return chosen, 1.0


@kernel
def optimistic_value(params: Params, state: State) -> float:
    """An optimistic estimate of the optimum; the lowest possible reward while nothing is resolved."""
    value = params.low
    for j in range(len(state.accounts)):
        account = state.accounts[j]
        if account.booked_plays > 0:
            value = max(value, (account.rewards + account.booked_bound) / account.booked_plays)
    return value


@kernel
def empirical_regret(params: Params, state: State, i: int, optimistic: float) -> float:
    """A total: the shortfall of the rewards of learner i to the optimistic value, plus the width per pending play."""
    account = state.accounts[i]
    n = account.booked_plays
    return n * optimistic - account.rewards + params.width * (account.plays - n)


@configurable
class RegretBalancing(KernelSelector[Params, State, Elimination]):
    """Balances empirical regrets against an optimistic value, without eliminations."""

    name = "Regret balancing"
    explanation = (
        "The learner plays whose rewards are least behind an optimistic value, the largest mean reward plus bound "
        "per play of any learner."
    )
    needs = frozenset({"bounds"})
    kernels: ClassVar[Kernels] = Kernels(choose, evidence.credit_only)

    bounds: Sequence[Bound] = setting(
        "One candidate bound per learner.", check_bounds, encode=encode_bounds, decode=decode_bounds, kw_only=False
    )
