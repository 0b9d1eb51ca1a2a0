"""Sharp settings for Algorithms 2 and 3: learners that know everything but the noise of the rewards.

Every well-specified learner plays the best action, whose expected reward is 1/2, states that as its lower bound and a
regret of 0: all true, and nothing is left between the two sides of the test but the noise of fair coins and the radius.
With OFUL, whose confidence sets are far larger than that noise, not even a test without radius would ever fail.
A misspecified learner plays an action of expected reward 3/10 and states a lower bound of 9/10.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from equipoise.confidence import radius_sum
from equipoise.lab.audit.claims import Seen
from equipoise.lab.audit.lemmas import drawn_plays
from equipoise.learner import Proposal
from equipoise.learners import LinearClass
from equipoise.selectors import AdversarialElimination, EpochBalancing

AnyEpochs: TypeAlias = EpochBalancing | AdversarialElimination

BEST, POOR, OVERSTATED = 0.5, 0.3, 0.9
CLASSES = tuple(LinearClass(f"{dim} features", dim) for dim in (1, 2, 4))


def run_epochs(
    make: Callable[[], AnyEpochs], seed: int, rounds: int, *, wrong: int, optimum: float = BEST
) -> Iterator[Seen]:
    """One run of a new selector in which the first `wrong` learners are misspecified, and the claims that concern it.

    `optimum` is the expected reward of the best action. If it is above what the learners play and state to be best,
    all of them are misspecified.
    """
    selector, rng = make(), np.random.default_rng([5, seed])
    n_learners = selector.n_learners
    uniform, draws = rng.random(rounds), rng.random(rounds)
    stated = [OVERSTATED] * wrong + [BEST] * (n_learners - wrong)
    means = [POOR] * wrong + [BEST] * (n_learners - wrong)
    first_epoch = np.full(n_learners, rounds + 1)
    regret, excess, counts = 0.0, -np.inf, []
    proposals = {i: Proposal(0, lower=lower, regret=0.0) for i, lower in enumerate(stated)}
    for t in range(rounds):
        once: Any = SimpleNamespace(random=lambda t=t: float(draws[t]))  # the one method that is used
        choice = selector.choose(once)
        asked = {i: proposals[i] for i in selector.active} | {choice.learner: proposals[choice.learner]}
        selector.observe(choice, asked)
        selector.credit(choice, float(uniform[t] < means[choice.learner]))
        regret += optimum - means[choice.learner]
        counts.append(choice.learner)
        if t < 100 or t % 10 == 9:
            excess = max(excess, regret - selector.certificate().regret_upper)
        if len(selector.active) < n_learners:
            first_epoch = np.minimum(first_epoch, t + 1)
    eliminated = [end.learner.index for end in selector.eliminations]
    # Algorithm 2 ends its epoch and eliminates nothing.
    ended = [0] if isinstance(selector, EpochBalancing) and selector.ended is not None else []
    gone = [i for i in [*eliminated, *ended] if i >= wrong]
    yield Seen("epochs", wrong + 1.0, len(eliminated) + len(ended) + 1.0, bool(gone), could_have_ended(selector))
    certified = selector.certificate().regret_upper
    yield Seen("certificate", certified, regret, excess > 1e-9, certified < rounds)
    yield _play_counts(selector, counts[: int(first_epoch.min())])


SHARP: dict[str, Callable[[int, int], Iterator[Seen]]] = {
    "epoch balancing": partial(run_epochs, partial(EpochBalancing, CLASSES), wrong=0),
    "adversarial elimination": partial(run_epochs, partial(AdversarialElimination, CLASSES), wrong=1),
}


def could_have_ended(selector: AnyEpochs) -> bool:
    """Whether the test could have failed by now, whatever the rewards and lower bounds: regrets + D(t) < w t."""
    epoch, (low, high) = selector.kernel_state.epoch[0], selector.reward_range
    n = int(epoch.rounds)
    return n > 0 and float(epoch.regrets) + radius_sum(selector.confidence.radius, n) < (high - low) * n


def _play_counts(selector: AnyEpochs, played: Sequence[int]) -> Seen:
    """The lemma on play counts over the rounds of the first epoch."""
    weights = [1 / size for size in selector.sizes]
    moments = (
        (t, plays, weight / sum(weights))
        for i, weight in enumerate(weights)
        for t, plays in enumerate(accumulate(int(j == i) for j in played), 1)
        if t & (t - 1) == 0  # powers of two
    )
    return drawn_plays(moments, len(weights), selector.confidence.alpha)
