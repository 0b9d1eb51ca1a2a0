"""Declares the hooks of `rounds`: names that are assigned for each combination of problem, learners and selector.

The declarations have no values; `equipoise.simulation.binding` assigns them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.kernels.streams import Stream
from equipoise.learner import Proposal, Proposals
from equipoise.simulation.parts import Components, Evidence, Fresh, Kernel, Logged, Played, Run, Turn
from equipoise.types import Array, Integers

# The steps of a round.
select: Callable[[Kernel, Stream, int], Turn]
exhausted: Callable[[Components, Run, Turn], bool]  # whether the source has no such round
play_round: Callable[[Components, Run, Turn], Played]
deliver: Callable[[Components, Run, Turn, Played], None]  # pass the result to the selector, or write the tape
certified: Callable[[Kernel], float]
probe_round: Callable[[Components, Run], None]  # inspect a completed round
# What the selector needs from its learners.
ASKS_ALL: bool  # every active learner proposes in every round
WEIGHTED: bool  # learners learn with weight 1 / probability
SMOOTHED: bool  # stored policies play again
EXPERTS: bool  # the selector draws experts: learners, or greedy plays of learners
SHARED: bool  # some learner learns from the rounds of others
TWIN: bool  # a learner alone plays its greedy actions
# Kernels of the problem, of the learners and of the selector.
draw: Callable[[Kernel, Kernel, np.random.Generator], tuple[Array, Array]]
draw_reward: Callable[[Kernel, float, np.random.Generator], float]
record: Callable[[Kernel, int, int, float], None]
complete: Callable[[Kernel, Kernel, int], None]
decide: Callable[[Fresh | Logged, int, Kernel, Array, np.random.Generator], Proposal]
learn: Callable[[Fresh | Logged, int, Array, int, float, float], None]
start: Callable[[Kernel, np.random.Generator], int]
roll_out: Callable[[Kernel, Integers, Integers, Integers, Array, np.random.Generator], None]
loss: Callable[[Kernel, Integers, int], float]
learn_episode: Callable[[Kernel, Kernel, Integers, Integers, Array], None]
choose: Callable[[Kernel, Kernel, np.random.Generator], tuple[int, float]]
stage: Callable[[Kernel, Kernel, int, float, np.random.Generator], int]
arrive: Callable[[Kernel, Kernel, int, float, float], None]
credit: Callable[[Kernel, Kernel, int, float, float, float], None]
close_round: Callable[[Kernel, Kernel, int, float, float, Proposals], None]
certify: Callable[[Kernel, Kernel], tuple[float, float, float, float, bool]]
is_active: Callable[[Kernel, Kernel, int], bool]
learner_of: Callable[[Kernel, Kernel, int], tuple[int, bool]]
evidence_of: Callable[[Kernel, Kernel], Evidence]
# Kernels of a probe: called after a round was pooled, after a play was credited, and for a certificate.
check_pool: Callable[[Evidence, Kernel, int, float], None]
check_play: Callable[[Evidence, Kernel, int, float], None]
check_certificate: Callable[[Evidence, Kernel, tuple[float, float, float, float, bool], Run], None]
