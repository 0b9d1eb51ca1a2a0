"""What the names in `rounds` stand for that are bound anew for each combination of problem, learners and selector.

Nothing here has a value; see `equipoise.simulation.binding`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.kernels.streams import Stream
from equipoise.learner import Proposal, Proposals
from equipoise.simulation.parts import Components, Evidence, Fresh, Kernel, Played, Run, Turn
from equipoise.types import Array, Integers

# What a round is made of.
select: Callable[[Kernel, Stream, int], Turn]
exhausted: Callable[[Components, Run, Turn], bool]  # whether the source has no such round yet
play_round: Callable[[Components, Run, Turn], Played]
deliver: Callable[[Components, Run, Turn, Played], None]  # tell the selector, or write the tape
certified: Callable[[Kernel], float]
probe_round: Callable[[Components, Run], None]  # a probe's look at the round that is over
# What the selector asks of its learners.
ASKS_ALL: bool  # every active learner proposes in every round
WEIGHTED: bool  # lessons count 1 / probability times
SMOOTHED: bool  # policies are kept and play again
SHARED: bool  # somebody learns from rounds that others play
# Kernels of the problem, of the learners by their index, and of the selector.
draw: Callable[[Kernel, Kernel, np.random.Generator], tuple[Array, Array]]
draw_reward: Callable[[Kernel, float, np.random.Generator], float]
record: Callable[[Kernel, int, int, float], None]
complete: Callable[[Kernel, Kernel, int], None]
decide: Callable[[Fresh, int, Kernel, Array, np.random.Generator], Proposal]
learn: Callable[[Fresh, int, Array, int, float, float], None]
start: Callable[[Kernel, np.random.Generator], int]
roll_out: Callable[[Kernel, Integers, Integers, Integers, Array, np.random.Generator], None]
loss: Callable[[Kernel, Integers, int], float]
learn_episode: Callable[[Kernel, Kernel, Integers, Integers, Array], None]
choose: Callable[[Kernel, Kernel, np.random.Generator], tuple[int, float]]
stage: Callable[[Kernel, Kernel, int, float, np.random.Generator], int]
open_play: Callable[[Kernel, Kernel, int], None]
credit: Callable[[Kernel, Kernel, int, float, float, float], None]
rewind: Callable[[Kernel, Kernel, int], None]
play: Callable[[Kernel, Kernel, int, int, float], None]
pool: Callable[[Kernel, Kernel, float], None]
close_round: Callable[[Kernel, Kernel, int, float, float, Proposals], None]
certify: Callable[[Kernel, Kernel], tuple[float, float, float, float, bool]]
is_active: Callable[[Kernel, Kernel, int], bool]
evidence_of: Callable[[Kernel, Kernel], Evidence]
# Kernels of a probe: after a round was pooled, after a play was booked, of a certificate.
check_pool: Callable[[Evidence, Kernel, int, float], None]
check_play: Callable[[Evidence, Kernel, int, float], None]
check_certificate: Callable[[Evidence, Kernel, tuple[float, float, float, float, bool], Run], None]
