"""Nested linear Markov decision processes: which of the first 2, 4, ..., d_max features matter?

Learner i is LSVI-UCB on the first d_i features; those with d_i below the hidden d* are misspecified. A round is an
episode, its reward the return in [0, H]. The selector is run with three candidate bounds: what the learners observe of
themselves, the paper's H^2 sqrt(d_i^3 n) ln(d_max T / delta), and bound_scale H d_i sqrt(n): a small multiple of
what the best known algorithm for linear processes attains in d, with neither the extra sqrt(d) of LSVI-UCB's proof nor
logarithms. `realized` balances the regret that rewards show, without bounds.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Linear Markov Decision Processes with Nested Model
Classes".
"""

from __future__ import annotations

from collections.abc import Mapping

from equipoise.bounds import Bound, Observed, Power
from equipoise.lab.experiment import Experiment, Setup, balancing_selectors
from equipoise.lab.experiments.nested import nested_dims
from equipoise.learners import LSVI_UCB
from equipoise.learners.lsvi_ucb import paper_bound
from equipoise.problems import LinearMDP
from equipoise.types import Plain


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    horizon, episodes, d_max = settings["horizon"], settings["rounds"], settings["d_max"]
    problem = LinearMDP(settings["n_states"], settings["n_actions"], horizon, d_max, settings["d_star"], seed=seed)
    dims = nested_dims(d_max)
    sizes = {"horizon": horizon, "episodes": episodes}
    learners = tuple(
        LSVI_UCB(problem.features, dim, **sizes, bonus=settings["bonus"], name=f"d = {dim}") for dim in dims
    )
    bounds: dict[str, list[Bound]] = {
        "balanced-observed": [Observed() for _ in dims],
        "balanced-paper": [paper_bound(dim, horizon=horizon, episodes=episodes, d_max=d_max) for dim in dims],
        "balanced-scaled": [Power(settings["bound_scale"] * horizon * dim) for dim in dims],
    }
    world = {"delta": settings["delta"], "reward_range": problem.reward_range, "radius": settings["radius"]}
    selectors = balancing_selectors(bounds, **world)
    d_star = settings["d_star"]
    return Setup(
        problem,
        learners,
        selectors,
        facts=lambda: {"d*": d_star},
        well_specified=lambda: [dim >= d_star for dim in dims],
    )


LINEAR_MDP = Experiment(
    name="linear-mdp",
    title="Nested linear decision processes: how many features matter?",
    section="Linear Markov Decision Processes with Nested Model Classes",
    claim=(
        "Without knowing d*, balancing over LSVI-UCB on the first 2, 4, ..., d_max features has regret of the order of "
        "LSVI-UCB on d* features, up to a factor sqrt(d*^3): learners with too few features are eliminated."
    ),
    defaults={
        "rounds": 10_000,
        "seeds": 10,
        "n_states": 20,
        "n_actions": 4,
        "horizon": 5,
        "d_max": 16,
        "d_star": 8,
        "bonus": 0.015,
        "bound_scale": 0.7,
        "delta": 0.05,
        "radius": "stitched",
    },
    selectors=("balanced-observed", "balanced-paper", "balanced-scaled", "realized"),
    build=build,
    setting="""\
A decision process with 20 states, 4 actions and 5 steps, linear in 16 features of which the first d* = 8 matter, the
others being noise. Of those eight the first four pay nothing, so that who sees only them cannot tell good actions from
bad ones. A round is an episode, its reward the return in [0, 5].

Learner i is LSVI-UCB on the first 2, 4, 8 or 16 features, with 0.015 times the bonus of the theorem, whose constant is
not stated anywhere. Bounds: what the learners observe of themselves; the paper's H^2 sqrt(d_i^3 n) ln(d_max T / delta);
and 0.7 H d_i sqrt(n) (`balanced-scaled`). `realized` balances the regret that rewards show and needs no bounds. In the
figure, learners with d_i < d* are dotted.""",
    remarks="""\
Learners with too few features lose four fifths of the optimum for ever. With scaled bounds both are dropped in all
ten seeds, in the median by episode 3,600 and at the latest by 6,000, and none with d_i >= d* ever is. Twenty further
seeds (30 to 49), on which nothing was tuned, say the same: d = 2 and d = 4 are out in 20 of 20, the last in episode
8,262, and nobody else. From then on the regret is nearly flat; the price is what was paid until then, for the smallest
learner has the smallest bound and plays most. `realized` proves nothing against anybody and eliminates nobody, but
does not need to: the small learners show their regret within some dozens of episodes and hardly play again, so that it
ends at one and a half times the regret of d = 8 alone.

The scaled bound is a claim, not a theorem, and it has to be true of some learner. It was: in those twenty seeds the
regret of d = 8 alone reached 0.57 H d sqrt(n) at most, and that of d = 16 at most 0.51, where 0.7 is claimed. With a
bonus of 0.01 instead of 0.015, d = 8 stays with a poor policy for so long in one seed out of 30 that its regret reaches
0.87. Even so the closed-form guarantee is vacuous at this horizon, since it carries the ratio of the bounds of d = 8
and d = 2 twice.

With the paper's constants every bound exceeds H n for the first 55,000 (d = 2) to 3.5 million plays (d = 8), so
`balanced-paper` plays the learners in turn and eliminates nobody.

Observed bounds are proved for the theorem's bonus, with which they say no more than H n at this horizon; with 0.015 of
it they are an extrapolation. On a small process (4 states, 3 features, 3 steps) they were below the true regret in 0 of
200 runs with the theorem's bonus and in 0 of 200 with a tenth of it, where after 4,000 episodes they are at most 60 %
of H n.

An episode costs the same whatever the number of past ones: after 1,000 and after 10,000 episodes 14 µs with 8 features,
and 28 and 30 µs with 16.""",
)
