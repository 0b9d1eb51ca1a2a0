"""Builds round loops with their components.

Components made of kernels run compiled. Others run through their public methods, in the same loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple, cast

import numpy as np

from equipoise.learner import LearnsEpisodes, Proposals, accepts, compilable, implements
from equipoise.learners._core import ridge
from equipoise.portfolio import Portfolio
from equipoise.selector import needs_of
from equipoise.simulation import adapters, rounds
from equipoise.simulation.adapters import OnElimination
from equipoise.simulation.binding import Binding, Function, Group, bind, interpreted
from equipoise.simulation.compiler import driver
from equipoise.simulation.parts import (
    AGREES,
    SHARES,
    Components,
    Curves,
    Episodes,
    Fresh,
    Kernel,
    Recorded,
    Run,
    open_run,
)
from equipoise.types import AnyArray, Array, Integers

WORD = 8  # bytes of a word of packed memory
SIZES = ("horizon", "n_states", "n_actions")
Part = Any  # a learner, selector or problem, which may be made of kernels or not


class Loop(NamedTuple):
    components: Components
    drive: Callable[[Components, Run, int], int]

    def advance(self, run: Run, until: int) -> int:
        """Run up to round `until`; returns the learner whose tape is exhausted, or -1."""
        return int(self.drive(self.components, run, until))

    def complete(self, seed: int, marks: Integers, n_learners: int = 1) -> tuple[Curves, float]:
        """Run up to the last mark; returns curves and the time in seconds."""
        run = open_run(seed, marks, n_learners)
        seconds = self.timed(run, int(marks[-1]))
        return run.curves, seconds

    def timed(self, run: Run, until: int) -> float:
        """Run up to round `until`; returns the time in seconds, without that of compiling."""
        self.advance(run, 0)
        start = perf_counter()
        self.advance(run, until)
        return perf_counter() - start


def compiled_loop(components: Components, binding: Binding) -> Loop:
    return Loop(components, cast(Callable[[Components, Run, int], int], driver(binding)))


def plain_loop(components: Components, binding: Binding) -> Loop:
    return Loop(components, cast(Callable[[Components, Run, int], int], interpreted(binding)))


def can_compile(*parts: Part) -> bool:
    """Whether all are made of kernels, no bound is a Python function, and no learner has a feature map."""
    return all(map(compilable, parts))


def replays_policies(selector: Part) -> bool:
    """Whether the selector lets stored policies of learners play again."""
    return can_compile(selector) and selector.kernels.replays_policies


def can_compile_episodes(problem: Part, learner: Part) -> bool:
    """Whether both have kernels for episodes and agree in size, which compiled code does not check."""
    made_of_kernels = hasattr(problem, "episode_kernels") and implements(learner, LearnsEpisodes)
    return made_of_kernels and all(getattr(problem, size) == getattr(learner, size) for size in SIZES)


def alone(problem: Part, learner: Part, lane: int, tape: Array, *, greedy: bool = False) -> Loop:
    """The loop of a learner that plays alone, greedily if `greedy`, and fills a tape; `lane` has its streams."""
    recording: dict[str, Function | bool] = {"select": rounds.select_only_learner, "deliver": rounds.write_row}
    if greedy:
        recording["TWIN"] = True
    if can_compile(problem, learner):
        groups = Groups([learner])
        room = problem.workspace(problem.columns_for(learner))
        source = groups.source(problem, room, Lanes(lane, 0))
        return compiled_loop(Components(source, tape=tape), groups.bind(problem, recording))
    if can_compile_episodes(problem, learner):
        names = {**problem.episode_kernels._asdict(), "learn_episode": type(learner).learn_episode}
        binding = bind({**recording, **names, "play_round": rounds.play_episode})
        return compiled_loop(Components(episodes(problem, learner, lane), tape=tape), binding)
    own = adapters.LearnerSource(problem, learner, lane, greedy)
    return plain_loop(Components(own, tape=tape), bind({**recording, "play_round": adapters.play_alone}))


def episodes(problem: Part, learner: Part, lane: int) -> Episodes:
    states, actions = np.empty((2, problem.horizon), np.int64)
    own = problem.params, learner.params, learner.memory, learner.max_width, learner.delta / 2
    return Episodes(*own, states, actions, np.empty(problem.horizon), lane)


def on_recorded(source: Recorded, selector: Part, on_elimination: OnElimination) -> Loop:
    """The loop of a selector that reads the next play of the chosen learner from its tape."""
    if can_compile(selector):
        names = {**selector_names(selector), "play_round": rounds.play_recorded, "exhausted": rounds.tape_exhausted}
        return compiled_loop(Components(source, selector.to_arrays()), bind(names))
    binding = bind(
        {
            "select": adapters.select_by_method,
            "exhausted": adapters.withdraw_if_exhausted,
            "play_round": rounds.play_recorded,
            "deliver": adapters.deliver_by_method,
            "certified": adapters.certified_by_method,
        }
    )
    return plain_loop(Components(source, adapters.SelectorAdapter(selector, on_elimination)), binding)


def selector_names(selector: Part) -> dict[str, Function | bool]:
    """Hooks of a selector made of kernels that gets every reward in its own round."""
    return {
        **selector.kernels._asdict(),
        "select": rounds.select_by_kernel,
        "deliver": rounds.deliver_now,
        "certified": rounds.certified_by_kernel,
    }


def in_portfolio(problem: Part, portfolio: Portfolio) -> Loop:
    own = adapters.PortfolioSource(problem, portfolio)
    binding = bind(
        {
            "select": adapters.select_in_portfolio,
            "play_round": adapters.play_in_portfolio,
            "deliver": adapters.deliver_nothing,
            "certified": adapters.certified_by_method,
        }
    )
    return plain_loop(Components(own, own), binding)


class Joint:
    """The compiled loop of a selector and its learners on one sequence of rounds."""

    def __init__(self, problem: Part, learners: Sequence[Part], selector: Part, share_data: bool) -> None:
        demands = {name: need in needs_of(selector) for name, need in (("ASKS_ALL", "actions"), ("WEIGHTED", "weight"))}
        demands["SMOOTHED"] = replays_policies(selector)
        demands["EXPERTS"] = draws_experts = bool(selector.traits.experts)
        groups = Groups(learners)
        source = groups.source(problem, problem.workspace(), Lanes(0, 1), share_data, demands["SMOOTHED"])
        if draws_experts:
            for i, word in enumerate(selector.traits.learning_modes):
                source.places[i, SHARES], source.places[i, AGREES] = word == "all", word == "agreed"
        names = {**selector_names(selector), **demands, "SHARED": bool(source.places[:, SHARES].any())}
        self.loop = compiled_loop(Components(source, selector.to_arrays()), groups.bind(problem, names))
        self._selector, self._groups, self._packed = selector, groups, demands["SMOOTHED"]

    def finish(self) -> None:
        """Copy the final state back to selector and learners."""
        self._selector.from_arrays(self.loop.components.selector[1])
        if self._packed:
            for packed, own in zip(self._groups.memories, self._groups.live, strict=True):
                copy(packed, own)


class Lanes(NamedTuple):
    """The random streams of a source."""

    lane: int
    first: int


class Groups:
    """Learners made of kernels, by algorithm."""

    def __init__(self, learners: Sequence[Part]) -> None:
        self.learners = learners
        self.members = grouped(learners)

    def bind(self, problem: Part, names: Mapping[str, Function | bool]) -> Binding:
        """The binding of these learners to a problem that generates its rounds."""
        own = dict(zip(("draw", "draw_reward", "record", "complete"), problem.kernels, strict=True))
        kernels = [(members[0].kernels, len(members)) for members in self.members]
        groups = [Group(each.decide, each.learn, size) for each, size in kernels]
        return bind({**own, **names, "play_round": rounds.play_fresh}, groups)

    def source(
        self, problem: Part, workspace: Kernel, lanes: Lanes, share_data: bool = False, keep_policies: bool = False
    ) -> Fresh:
        places = np.array([self._place(learner, problem, share_data) for learner in self.learners], np.int64)
        offers = problem.n_actions, problem.same_actions
        live = self.live = [native_memory(learner.memory, *offers) for learner in self.learners]
        memories, words = pack(live) if keep_policies else (live, np.empty((0, 0), np.int64))
        kept, kept_words = pack(live) if keep_policies else (memories, words)
        self.memories = memories
        return Fresh(
            problem.params,
            problem.reward_law,
            workspace,
            tuple(tuple(learner.params for learner in members) for members in self.members),
            _by_group(memories, places),
            _by_group(kept, places),
            (words, kept_words),
            places,
            open_proposals(len(self.learners)),
            *lanes,
        )

    def _place(self, learner: Part, problem: Part, share_data: bool) -> tuple[int, int, int, int, int]:
        shares = int(share_data and "off_policy" in accepts(learner))
        for group, members in enumerate(self.members):
            for member, other in enumerate(members):
                if other is learner:
                    return group, member, shares, problem.columns_for(learner), 0
        raise ValueError(f"{learner.name} is in no group")


def grouped(learners: Sequence[Part]) -> list[list[Part]]:
    """Group learners by algorithm and by memory layout, which is part of the type in compiled code."""
    layouts = [tuple(array.flags.c_contiguous for array in arrays(learner.memory)) for learner in learners]
    kinds = [(learner.kernels, layout) for learner, layout in zip(learners, layouts, strict=True)]
    return [[learners[i] for i, own in enumerate(kinds) if own == kind] for kind in dict.fromkeys(kinds)]


def _by_group(memories: Sequence[Kernel], places: Integers) -> tuple[tuple[Kernel, ...], ...]:
    """The memories as one tuple per group, in the order of its members."""
    groups = range(int(places[:, 0].max()) + 1)
    return tuple(tuple(memories[int(i)] for i in np.flatnonzero(places[:, 0] == group)) for group in groups)


def open_proposals(n: int) -> Proposals:
    numbers = (np.full(n, np.nan) for _ in range(4))
    nobody = np.full(n, -1), np.full(n, -1)
    return Proposals(*nobody, *numbers)  # type: ignore[arg-type]  # arrays are sequences to the kernels


def native_memory(memory: Kernel, n_actions: int, same_actions: bool = False) -> Kernel:
    """The arrays of a learner, with scratch space for compiled code."""
    if hasattr(memory, "scratch"):
        return memory._replace(scratch=ridge.new_scratch(len(memory.theta), n_actions, same_actions))
    if not isinstance(memory, tuple):
        return memory
    # A learner that contains regressions passes them masked or weighted actions, which differ from round to round.
    parts = [native_memory(part, n_actions) for part in memory]
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)


def pack(memories: Sequence[Any]) -> tuple[list[Any], Integers]:
    """Memories with the same contents, and the array that holds them: row i is memory i.

    Every array of a memory is a view of its learner's row, so that compiled code can copy a policy as a row of words.
    It cannot loop over a tuple of different types, and separate copies of each array take minutes to compile.
    """
    n_words = [sum(-(-array.nbytes // WORD) for array in arrays(memory)) for memory in memories]
    words = np.zeros((len(memories), max(n_words)), np.int64)
    packed = []
    for memory, row in zip(memories, words, strict=True):
        packed.append(_placed(memory, row, [0]))
        copy(memory, packed[-1])
    return packed, words


def arrays(memory: Any) -> Iterator[AnyArray]:
    """All arrays of a memory, including those in nested tuples."""
    for part in memory:
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays(part)


def copy(source: Any, target: Any) -> None:
    for own, other in zip(arrays(source), arrays(target), strict=True):
        other[...] = own


def _placed(memory: Any, row: Integers, used: list[int]) -> Any:
    parts = []
    for part in memory:
        if not isinstance(part, np.ndarray):
            parts.append(_placed(part, row, used))
            continue
        words = row[used[0] : used[0] + -(-part.nbytes // WORD)]
        used[0] += len(words)
        flat = words.view(np.uint8)[: part.nbytes].view(part.dtype)
        parts.append(flat.reshape(part.shape, order="C" if part.flags.c_contiguous else "F"))
    return type(memory)(*parts) if hasattr(memory, "_fields") else tuple(parts)
