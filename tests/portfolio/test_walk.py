"""How many files of the package a decision passes: a measure of how far a reader has to walk."""

from __future__ import annotations

import numpy as np

from equipoise import Portfolio
from equipoise.learners import OFUL, UCB
from tests.walks import Walk

MAX_FILES = 18


def test_a_decision_passes_few_files() -> None:
    arms = Portfolio([UCB(3), UCB(3, scale=0.1)])
    linear = Portfolio([OFUL(2), OFUL(4)])
    contexts = np.random.default_rng(0).uniform(-0.5, 0.5, (64, 3, 4))
    walk = Walk()
    for t in range(30):
        arms.learn(arms.decide(None), float(t % 2))
        linear.learn(linear.decide(contexts[t]), float(t % 2))
    with walk.hooked():
        found = {
            "arms": walk.files(lambda number: arms.decide(None)),
            "linear": walk.files(lambda number: linear.decide(contexts[number])),
        }
    assert "portfolio/portfolio.py" in found["arms"]
    for files in found.values():
        assert len(files) <= MAX_FILES, "\n".join(sorted(files))
