"""The second example of the paper's introduction: use the context, part of it, or none?

UCB ignores the context, one OFUL uses the first attributes of the visitor, another all of them. Which is best depends
on which attributes the rewards depend on. The selector is run with observed bounds, with proven bounds, with c sqrt(d_i
/ K) sqrt(n), the order of the best bounds known for few actions, and with these and data shared among the learners that
can use it.

Reference: Pacchiano, Dann, Gentile and Bartlett (2020), section "Introduction". The order sqrt(d n) is that of Chu, Li,
Reyzin and Schapire (2011), "Contextual bandits with linear payoff functions", theorem 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import numpy as np

from equipoise.bounds import Power
from equipoise.lab.experiment import SHARED, WITH_SHARED, Experiment, Setup, balancing_selectors, usual_bounds
from equipoise.lab.experiments import ucb_width
from equipoise.learners import OFUL, UCB
from equipoise.learners.oful import closed_form_constant
from equipoise.problems import DisjointLinearBandit
from equipoise.settings.checks import count
from equipoise.types import Plain

N_ACTIONS, N_ATTRIBUTES = 5, 7
EFFECT = 0.4  # of an attribute that matters, on the two actions that it matters to
# Which attribute matters, if any.
INSTANCES = {"no attribute matters": None, "the first attribute matters": 0, "the last attribute matters": -1}


def problem_of(instance: str) -> DisjointLinearBandit:
    """One action is best for all visitors, or an attribute tells which of two actions is best."""
    attribute, weights = INSTANCES[instance], np.zeros((N_ACTIONS, N_ATTRIBUTES))
    if attribute is None:
        return DisjointLinearBandit([0.6, 0.5, 0.5, 0.5, 0.5], weights)
    weights[:2, attribute] = EFFECT, -EFFECT
    return DisjointLinearBandit([0.55, 0.55, 0.4, 0.4, 0.4], weights)


def build(settings: Mapping[str, Plain], seed: int) -> Setup:
    problem = problem_of(settings["instance"])
    n_part = count("n_part", settings["n_part"], maximum=N_ATTRIBUTES - 1)
    n_seen = [0, n_part, N_ATTRIBUTES]
    dims = [N_ACTIONS * (1 + n) for n in n_seen]
    norm_bound = max(problem_of(instance).norm for instance in INSTANCES)
    known = zip(dims[1:], n_seen[1:], strict=True)
    linear = [OFUL(dim, norm_bound=norm_bound, name=f"OFUL, {n} attributes") for dim, n in known]
    learners = (UCB(N_ACTIONS, name="UCB, no context"), *linear)
    rounds, scale = settings["rounds"], settings["bound_scale"]
    constant = closed_form_constant(rounds, norm_bound=norm_bound)
    scaled = [Power(scale * sqrt(dim / N_ACTIONS)) for dim in dims]
    plain = Power(ucb_width.closed_form_constant(rounds, N_ACTIONS))
    bounds = usual_bounds([plain, *(Power(dim * constant) for dim in dims[1:])], scaled)
    bounds["balanced-shared"] = scaled
    selectors = balancing_selectors(bounds, ("realized", "realized-shared"), delta=settings["delta"])
    return Setup(
        problem, learners, selectors, shared=SHARED, well_specified=lambda: [n >= problem.n_relevant for n in n_seen]
    )


CONTEXT_OR_NOT = Experiment(
    name="context-or-not",
    title="Is the context worth using?",
    section="Introduction",
    claim=(
        "Even if the context is known, it may be better to ignore it or to use part of it. Model selection finds out "
        "online to what extent the context helps."
    ),
    defaults={"rounds": 100_000, "seeds": 20, "n_part": 2, "bound_scale": 5.5, "delta": 0.05},
    selectors=WITH_SHARED,
    build=build,
    instances=tuple(INSTANCES),
)
