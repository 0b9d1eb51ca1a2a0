"""Worlds for the round loop, and the loop bound to what takes part in them.

Parts made of kernels run compiled. Anything else runs through its public methods, in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from equipoise.learner import Proposals, accepts
from equipoise.learners._core import ridge
from equipoise.portfolio import Portfolio
from equipoise.simulation import adapters, rounds
from equipoise.simulation.binding import Binding, Function, Group, bind, interpreted
from equipoise.simulation.compiler import driver
from equipoise.simulation.packing import arrays, copy, pack
from equipoise.simulation.parts import SHARES, Episodes, Fresh, Kernel, Recorded, Run, World
from equipoise.types import Array, Integers

SIZES = ("horizon", "n_states", "n_actions")
Part = Any  # a learner, selector or problem, which may be made of kernels or not


class Bound(NamedTuple):
    """A world and the loop that runs in it."""

    world: World
    drive: Callable[[World, Run, int], int]

    def advance(self, run: Run, until: int) -> int:
        """Rounds up to number `until`; the learner of whom the source has no further round, or -1."""
        return int(self.drive(self.world, run, until))


def compiled_loop(world: World, binding: Binding) -> Bound:
    return Bound(world, cast(Callable[[World, Run, int], int], driver(binding)))


def plain_loop(world: World, binding: Binding) -> Bound:
    return Bound(world, cast(Callable[[World, Run, int], int], interpreted(binding)))


def can_compile(*parts: Part) -> bool:
    """Whether learners, problems and selectors are made of kernels; a bound that is a Python function is not."""
    return all(hasattr(part, "kernels") and (not hasattr(part, "traits") or part.traits.compilable) for part in parts)


def can_compile_episodes(problem: Part, learner: Part) -> bool:
    """Whether both are made of kernels for whole episodes, and of one size: compiled code does not look."""
    made_of_kernels = hasattr(problem, "episode_kernels") and hasattr(learner, "learn_episode")
    return made_of_kernels and all(getattr(problem, size) == getattr(learner, size) for size in SIZES)


def alone(problem: Part, learner: Part, lane: int, tape: Array) -> Bound:
    """A learner that plays alone and writes its tape; `lane` keeps its random numbers apart from those of others."""
    recording: dict[str, Function | bool] = {"select": rounds.select_sole, "settle": rounds.write_row}
    if can_compile(problem, learner):
        groups = Groups([learner])
        room = problem.room(problem.columns_for(learner))
        source = groups.source(problem, room, Lanes(lane, 0))
        return compiled_loop(World(source, tape=tape), groups.bind(problem, recording))
    if can_compile_episodes(problem, learner):
        names = {**problem.episode_kernels._asdict(), "learn_episode": type(learner).learn_episode}
        binding = bind({**recording, **names, "play_round": rounds.play_episode})
        return compiled_loop(World(episodes(problem, learner, lane), tape=tape), binding)
    own = adapters.OwnLearner(problem, learner, lane)
    return plain_loop(World(own, tape=tape), bind({**recording, "play_round": adapters.play_alone}))


def episodes(problem: Part, learner: Part, lane: int) -> Episodes:
    states, actions = np.empty((2, problem.horizon), np.int64)
    own = problem.params, learner.params, learner.memory, learner.greatest_width, learner.delta / 2
    return Episodes(*own, states, actions, np.empty(problem.horizon), lane)


def on_recorded(source: Recorded, selector: Part) -> Bound:
    """A selector that draws the next play of whichever learner it chooses from that learner's tape."""
    if can_compile(selector):
        names = {**selector_names(selector), "play_round": rounds.play_recorded, "lacks": rounds.lacks_row}
        return compiled_loop(World(source, selector.to_arrays()), bind(names))
    binding = bind(
        {
            "select": adapters.select_publicly,
            "lacks": adapters.lacks_publicly,
            "play_round": rounds.play_recorded,
            "settle": adapters.settle_publicly,
            "certified": adapters.certified_publicly,
        }
    )
    return plain_loop(World(source, adapters.OwnSelector(selector)), binding)


def selector_names(selector: Part) -> dict[str, Function | bool]:
    """The kernels of a selector that books every reward in its own round."""
    return {
        **selector.kernels._asdict(),
        "select": rounds.select_by_kernel,
        "settle": rounds.settle_at_once,
        "certified": rounds.certified_by_kernel,
    }


def in_portfolio(problem: Part, portfolio: Portfolio) -> Bound:
    """A portfolio on one sequence of rounds, through its public methods."""
    own = adapters.OwnPortfolio(problem, portfolio)
    binding = bind(
        {
            "select": adapters.select_in_portfolio,
            "play_round": adapters.play_in_portfolio,
            "settle": adapters.settle_nothing,
            "certified": adapters.certified_publicly,
        }
    )
    return plain_loop(World(own, own), binding)


class Joint:
    """All learners and the selector on one sequence of rounds, compiled."""

    def __init__(self, problem: Part, learners: Sequence[Part], selector: Part, share_data: bool) -> None:
        needs = {"ASKS_ALL": "actions", "WEIGHTED": "weight", "SMOOTHED": "snapshots"}
        demands = {name: need in selector.needs for name, need in needs.items()}
        groups = Groups(learners)
        source = groups.source(problem, problem.room(), Lanes(0, 1), share_data, demands["SMOOTHED"])
        names = {**selector_names(selector), **demands, "SHARED": bool(source.places[:, SHARES].any())}
        self.bound = compiled_loop(World(source, selector.to_arrays()), groups.bind(problem, names))
        self._selector, self._groups, self._packed = selector, groups, demands["SMOOTHED"]

    def finish(self) -> None:
        """Leave selector and learners in their final state."""
        self._selector.from_arrays(self.bound.world.selector[1])
        if self._packed:
            for packed, own in zip(self._groups.memories, self._groups.live, strict=True):
                copy(packed, own)


class Lanes(NamedTuple):
    """Where a source finds its random numbers."""

    lane: int
    first: int


class Groups:
    """Learners made of kernels, by algorithm."""

    def __init__(self, learners: Sequence[Part]) -> None:
        self.learners = learners
        self.members = grouped(learners)

    def bind(self, problem: Part, names: Mapping[str, Function | bool]) -> Binding:
        """The loop over fresh rounds of a problem with these learners."""
        own = dict(zip(("draw", "draw_reward", "record", "complete"), problem.kernels, strict=True))
        kernels = [(members[0].kernels, len(members)) for members in self.members]
        groups = [Group(each.decide, each.learn, size) for each, size in kernels]
        return bind({**own, **names, "play_round": rounds.play_fresh}, groups)

    def source(
        self, problem: Part, room: Kernel, lanes: Lanes, share_data: bool = False, keep_policies: bool = False
    ) -> Fresh:
        places = np.array([self._place(learner, problem, share_data) for learner in self.learners], np.int64)
        live = self.live = [native_memory(learner, problem) for learner in self.learners]
        memories, words = pack(live) if keep_policies else (live, np.empty((0, 0), np.int64))
        kept, kept_words = pack(live) if keep_policies else (memories, words)
        self.memories = memories
        return Fresh(
            problem.params,
            problem.reward_law,
            room,
            tuple(tuple(learner.params for learner in members) for members in self.members),
            _by_group(memories, places),
            _by_group(kept, places),
            (words, kept_words),
            places,
            open_proposals(len(self.learners)),
            *lanes,
        )

    def _place(self, learner: Part, problem: Part, share_data: bool) -> tuple[int, int, int, int]:
        shares = int(share_data and "off_policy" in accepts(learner))
        for group, members in enumerate(self.members):
            for member, other in enumerate(members):
                if other is learner:
                    return group, member, shares, problem.columns_for(learner)
        raise ValueError(f"{learner.name} is in no group")


def grouped(learners: Sequence[Part]) -> list[list[Part]]:
    """Learners by algorithm, and by how their arrays are laid out, which is part of their type in compiled code."""
    layouts = [tuple(array.flags.c_contiguous for array in arrays(learner.memory)) for learner in learners]
    kinds = [(learner.kernels, layout) for learner, layout in zip(learners, layouts, strict=True)]
    return [[learners[i] for i, own in enumerate(kinds) if own == kind] for kind in dict.fromkeys(kinds)]


def _by_group(memories: Sequence[Kernel], places: Integers) -> tuple[tuple[Kernel, ...], ...]:
    """The memories as the loop finds them: one tuple per group, in the order of its members."""
    groups = range(int(places[:, 0].max()) + 1)
    return tuple(tuple(memories[int(i)] for i in np.flatnonzero(places[:, 0] == group)) for group in groups)


def open_proposals(n: int) -> Proposals:
    numbers = (np.full(n, np.nan) for _ in range(4))
    nobody = np.full(n, -1), np.full(n, -1)
    return Proposals(*nobody, *numbers)  # type: ignore[arg-type]  # arrays are sequences to the kernels


def native_memory(learner: Part, problem: Part) -> Kernel:
    """The learner's own arrays, with scratch room for compiled code."""
    return _with_scratch(learner.memory, problem.n_actions, problem.same_actions)


def _with_scratch(memory: Kernel, n_actions: int, same_actions: bool) -> Kernel:
    if hasattr(memory, "scratch"):
        return memory._replace(scratch=ridge.open_scratch(len(memory.theta), n_actions, same_actions))
    if not isinstance(memory, tuple):
        return memory
    # A learner with regressions inside shows them masked or weighted actions: not the same ones in every round.
    parts = [_with_scratch(part, n_actions, False) for part in memory]
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
