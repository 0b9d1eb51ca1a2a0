"""A portfolio: learners and a selector, held together by decisions that are tickets.

`decide` lets the selector pick a learner before it sees the context, asks that learner for an action and hands out a
decision; `learn` takes the decision (or just its id) back with the reward, in any order and however late. A failure in
the middle of a round leaves everything as it was with the ticket still open, and a retry teaches nobody twice.

Learners whose bound is `Observed` learn in the order of their plays unless delays are declared independent of the
rewards: if bad rewards come later than good ones, learning at once would bias what the bound is built on.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isnan, nan
from pathlib import Path
from typing import Any, Self
from weakref import WeakValueDictionary

import numpy as np

from equipoise._deprecated import with_old_methods
from equipoise.certificates import AnyElimination, Certificate, Standing
from equipoise.compatibility import check_compatible, check_learners, check_selector, check_sharing
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.kernels.streams import LEARNERS, SELECTOR, open_stream, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, Proposal, unique_names
from equipoise.portfolio.decisions import Decision, copy_if_mutable
from equipoise.portfolio.snapshots import KeptPolicies
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Selector, check_credit, traits_of
from equipoise.settings.checks import count, one_of
from equipoise.storage.parts import describe_part, read_part, rebuild_learners, rebuild_selector, write_part
from equipoise.types import Config, Context, Outcome, Plain

logger = logging.getLogger("equipoise")

# Which portfolio holds a selector, by the selector's identity: two that share one would book into the same state.
_HOLDERS: WeakValueDictionary[int, Portfolio] = WeakValueDictionary()


@with_old_methods
class Portfolio:
    """Learners and the selector that plays them against each other; unless given, the recommended one,
    `RealizedBalancing`, for rewards in [0, 1].

    `share_data` teaches every learner that accepts off-policy data from every round. A decision without a reward after
    `deadline` further decisions is booked with `default_reward`; all statements are then about booked rewards, and a
    reward that comes later still is logged and ignored (each such decision costs one remembered number). `delays` is
    "any", or "independent" if when a reward arrives says nothing about its value given context and action.

    Not safe for concurrent use: calls on one portfolio must not overlap, so guard it with one lock if threads share it;
    different portfolios are independent. Decisions are plain values and may be passed between threads and processes.
    """

    def __init__(
        self,
        learners: Sequence[MinimalLearner],
        selector: Selector | None = None,
        *,
        seed: int = 0,
        share_data: bool = False,
        deadline: int | None = None,
        default_reward: float | None = None,
        delays: str = "any",
    ) -> None:
        check_learners(learners)
        if selector is None:
            from equipoise.selectors import RealizedBalancing  # here, as nobody else waits for all selectors to load

            selector = RealizedBalancing(len(learners))
        check_selector(selector)
        self.learners: tuple[Any, ...] = tuple(learners)  # as they were given, with all that their classes have
        self._selector = selector
        self._adapted = [AdaptedLearner(learner) for learner in self.learners]
        self.learner_names = unique_names([learner.name for learner in self._adapted])
        check_compatible(selector, self.learners)
        self.seed = count("seed", seed, least=0, most=2**64 - 1)
        if not isinstance(share_data, bool):
            raise InvalidArgument(f"share_data is {share_data!r}, but must be True or False")
        self.share_data = share_data
        self._sharing = set(check_sharing(selector, self.learners)) if share_data else set()
        self.delays = one_of("delays", delays, ("any", "independent"))
        self._traits = traits_of(selector)
        if (deadline is None) != (default_reward is None):
            raise InvalidArgument(
                f"deadline is {deadline!r} and default_reward is {default_reward!r}, but must be given together"
            )
        self.deadline = None if deadline is None else count("deadline", deadline)
        self.default_reward = None if default_reward is None else self._traits.check_reward(default_reward)
        self._observed = frozenset(self._traits.observed)
        self._weighted = "weight" in selector.needs
        self._all_proposals = self._weighted or "actions" in selector.needs
        self._kept = KeptPolicies()
        self._stream = open_stream(self.seed)
        self._next_id = 1
        self._open: dict[int, Ticket] = {}
        self._defaulted: set[int] = set()
        self._queues: dict[int, deque[Ticket]] = {i: deque() for i in self._observed if delays == "any"}
        self._callbacks: list[Callable[[Any], None]] = []
        self._hold_selector()

    def _hold_selector(self) -> None:
        holder = _HOLDERS.setdefault(id(self._selector), self)
        if holder is not self:
            name = type(self._selector).__name__
            raise InvalidArgument(f"selector is a {name} of another portfolio, but every portfolio needs its own")

    def __getstate__(self) -> dict[str, object]:
        # What a copy does is no business of those who listen to the original.
        return {**self.__dict__, "_callbacks": []}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._hold_selector()

    def decide(self, context: Context) -> Decision:
        """Let a learner act in this context.

        Arrays, lists, tuples and dicts are copied; a context of another kind must not change until its reward is in.
        Decisions past their deadline are booked first, whether or not this one succeeds.
        """
        if self.deadline is not None and self.default_reward is not None:
            self._book_defaults(self.deadline, self.default_reward)
        id_, selector, context = self._next_id, self._selector, copy_if_mutable(context)
        if self._traits.randomized:
            seek(self._stream, SELECTOR, id_)
        choice = selector.choose(self._stream.generator)
        i = choice.learner
        try:
            if choice.snapshot is None:
                proposal = self._propose(i, context, id_)
            else:
                propose = partial(self._propose, i, context, id_)
                proposal = self._kept.play(i, choice.snapshot, self._adapted[i], propose)
            proposals = {i: proposal}
            if self._all_proposals:
                proposals |= {j: self._propose(j, context, id_) for j in selector.active if j != i}
            selector.observe(choice, proposals)
        except BaseException:
            selector.withdraw(choice)
            raise
        action = proposal.action
        ticket = Ticket(
            id_, choice, context, action if type(action) is int else copy_if_mutable(action), proposal.regret
        )
        if self._weighted:
            ticket.others = {j: copy_if_mutable(other.action) for j, other in proposals.items() if j != i}
        elif choice.keep is not None:
            self._kept.keep(i, choice.keep, self._adapted[i])
        self._open[id_] = ticket
        if self._queues:
            for j in self._learners_to_teach(ticket):
                if j in self._queues:
                    self._queues[j].append(ticket)
        self._next_id = id_ + 1
        return Decision(id_, action, i, self.learner_names[i], choice.probability * proposal.probability)

    def learn(
        self, decision: Decision | int, reward: float, outcome: Outcome = None, regret: float | None = None
    ) -> None:
        """Book the reward of a decision; `outcome` stands for the action where more than it is learned from.

        If a learner raises, its error passes through and the decision stays open: call again with the same reward.
        """
        id_ = decision.id if isinstance(decision, Decision) else decision
        ticket = self._open.get(id_) if type(id_) is int else self._find(id_)
        if ticket is None:
            self._ignore_late(id_, reward)
            return
        kept = None if outcome is None else copy_if_mutable(outcome)
        self._announce(self._resolve(ticket, *check_credit(self._selector, ticket.choice, reward, regret), kept))

    def withdraw(self, decision: Decision | int) -> None:
        """Take back an open decision whose round did not happen: its play does not count and nobody learns from it.

        Its id is not given out again. If a learner raises over a later round that waited for this one, the decision is
        withdrawn all the same, and the lesson is tried again with the learner's next.
        """
        id_ = decision.id if isinstance(decision, Decision) else decision
        ticket = self._find(id_)
        if ticket is None:
            raise UnknownDecision(self._why_closed(id_))
        if ticket.taught:
            name = self.learner_names[min(ticket.taught)]
            raise InvalidArgument(f"decision {id_} has been learned from by {name!r}, so it cannot be withdrawn")
        eliminations = self._selector.withdraw(ticket.choice)
        del self._open[ticket.id]
        waiting = [i for i, queue in self._queues.items() if ticket in queue]
        for i in waiting:
            self._queues[i].remove(ticket)
        self._retire(eliminations)
        try:
            for i in waiting:
                self._teach_in_order(i)
        finally:
            self._announce(eliminations)

    def certificate(self) -> Certificate:
        """What the rewards so far prove, with confidence 1 - delta - the learners' own deltas."""
        claims = [self._adapted[i].delta for i in sorted(self._observed)]
        return replace(self._selector.certificate(), learners_delta=float(sum(claims)))

    def standing(self) -> list[Standing]:
        """How every learner stands."""
        return self._selector.standing()

    def describe(self) -> str:
        """Certificate and standing in sentences, one line for the certificate and one for each learner."""
        certificate, names = self.certificate(), self.learner_names
        reward_range = self._traits.reward_range or (-inf, inf)
        rows = [row.describe(names[row.learner], certificate, reward_range) for row in self.standing()]
        return "\n".join([certificate.describe(names), *rows])

    def to_json(self) -> Config:
        """Certificate and standing as plain data."""
        rows = [{"name": self.learner_names[row.learner], **row.to_json()} for row in self.standing()]
        return {"certificate": self.certificate().to_json(), "standing": rows}

    @property
    def selector(self) -> Any:
        """The selector as it was given, with all that its class has."""
        return self._selector

    @property
    def pending(self) -> tuple[int, ...]:
        """The ids of the decisions that have no reward yet."""
        return tuple(self._open)

    def on_elimination(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with every elimination, once the round that brought it is booked."""
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be a function of an Elimination")
        self._callbacks.append(callback)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, open decisions and all; a crash or a full disk leaves the old file as it was."""
        write_part(path, "portfolio", self.state())

    @classmethod
    def load(
        cls, path: str | Path, learners: Sequence[MinimalLearner] | None = None, selector: Selector | None = None
    ) -> Self:
        """Read a saved portfolio; it goes on exactly as the saved one would have.

        Classes of the package are built again from the file. Others cannot be: pass learners (all of them, in order)
        or the selector, newly made with the same settings; they are compared with what was saved.
        """
        return cls.from_state(read_part(path, "portfolio"), learners, selector)

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Plain],
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
    ) -> Self:
        """The portfolio that `state` described; classes of your own are passed as in `load`."""
        rebuilt = rebuild_learners(state["learners"], learners), rebuild_selector(state["selector"], selector)
        portfolio = cls(*rebuilt, **state["settings"])
        portfolio._restore(state)
        return portfolio

    def state(self) -> Config:
        """Everything as plain data: settings, what was learned, open decisions."""
        tickets = {ticket.id: ticket for queue in self._queues.values() for ticket in queue} | self._open
        return {
            "learners": [describe_part(learner) for learner in self.learners],
            "selector": describe_part(self._selector),
            "settings": {
                "seed": self.seed,
                "share_data": self.share_data,
                "deadline": self.deadline,
                "default_reward": self.default_reward,
                "delays": self.delays,
            },
            "next_id": self._next_id,
            "defaulted": sorted(self._defaulted),
            "sharing": sorted(self._sharing),
            "kept": self._kept.state(),
            "tickets": [
                {**ticket.to_row(), "open": ticket.id in self._open}
                for ticket in sorted(tickets.values(), key=lambda ticket: ticket.id)
            ],
            "queues": [(i, [ticket.id for ticket in queue]) for i, queue in sorted(self._queues.items())],
        }

    def _restore(self, saved: Mapping[str, Plain]) -> None:
        for part, learner in zip(saved["learners"], self._adapted, strict=True):
            learner.restore(part["state"])
        self._selector.restore(saved["selector"]["state"])
        self._next_id = saved["next_id"]
        self._defaulted = set(saved["defaulted"])
        self._sharing = set(saved["sharing"])
        self._kept.restore(saved.get("kept", []))
        tickets = {row["id"]: Ticket.from_row(row) for row in saved["tickets"]}
        self._open = {row["id"]: tickets[row["id"]] for row in saved["tickets"] if row["open"]}
        for i, ids in saved["queues"]:
            self._queues[i].extend(tickets[id_] for id_ in ids)

    def _propose(self, i: int, context: Context, id_: int) -> Proposal:
        learner = self._adapted[i]
        if learner.randomized:
            seek(self._stream, LEARNERS + i, id_)
        return learner.decide(context, self._stream.generator)

    def _find(self, id_: object) -> Ticket | None:
        """The open ticket under an id of any kind; numbers of NumPy are as good as plain ones."""
        if isinstance(id_, bool) or not isinstance(id_, int | np.integer):
            raise InvalidArgument(f"decision is {id_!r:.80}, but must be a Decision or its id")
        return self._open.get(int(id_))

    def _ignore_late(self, id_: int, reward: float) -> None:
        if id_ not in self._defaulted:
            raise UnknownDecision(self._why_closed(id_))
        self._traits.check_reward(reward)
        self._defaulted.remove(id_)
        logger.info("reward of decision %d came after its deadline and is ignored", id_)

    def _why_closed(self, id_: int) -> str:
        given_out = 0 < id_ < self._next_id
        return f"decision {id_} {'already has its reward or was withdrawn' if given_out else 'was never given out'}"

    def _resolve(
        self, ticket: Ticket, reward: float, regret: float, outcome: Outcome = None
    ) -> tuple[AnyElimination, ...]:
        """Teach, book and close a decision, all of it checked; returns the eliminations it brought."""
        ticket.reward, ticket.outcome = reward, outcome
        try:
            for i in self._learners_to_teach(ticket):
                self._teach_in_order(i) if i in self._queues else self._teach(i, ticket)
            eliminations = self._selector.credit(ticket.choice, reward, None if isnan(regret) else regret) or ()
        except BaseException:
            ticket.reward, ticket.outcome = nan, None
            raise
        del self._open[ticket.id]
        if eliminations:
            self._retire(eliminations)
        return eliminations

    def _learners_to_teach(self, ticket: Ticket) -> tuple[int, ...]:
        """The learners that learn from this round."""
        own, teach = ticket.choice.learner, ticket.choice.teach
        if self._weighted:
            return tuple(sorted({own, *ticket.others}))
        if not self._sharing:
            return (own,) if teach else ()
        return tuple(sorted(self._sharing | {own} if teach else self._sharing - {own}))

    def _teach_in_order(self, i: int) -> None:
        queue = self._queues[i]
        while queue and not isnan(queue[0].reward):
            self._teach(i, queue[0])
            queue.popleft()

    def _teach(self, i: int, ticket: Ticket) -> None:
        ticket.teach(i, self.learners[i], self._weighted)

    def _book_defaults(self, deadline: int, default_reward: float) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.id > self._next_id - 1 - deadline:
                return
            regret = self._regret_of_lost(oldest)
            new = self._resolve(oldest, *check_credit(self._selector, oldest.choice, default_reward, regret))
            self._defaulted.add(oldest.id)
            self._announce(new)

    def _regret_of_lost(self, ticket: Ticket) -> float | None:
        """What a lost round cost at most where nobody has said: the full width."""
        if ticket.choice.learner not in self._observed or not isnan(ticket.regret):
            return None
        low, high = self._traits.reward_range or (0.0, 1.0)
        return high - low

    def _retire(self, eliminations: Sequence[AnyElimination]) -> None:
        """An eliminated learner never plays again: it still learns from its own open rounds, but from nobody else's."""
        for i in (elimination.learner.index for elimination in eliminations):
            self._sharing.discard(i)
            if i in self._queues:
                self._queues[i] = deque(ticket for ticket in self._queues[i] if ticket.choice.learner == i)

    def _announce(self, eliminations: Sequence[AnyElimination]) -> None:
        for elimination in eliminations:
            for callback in self._callbacks:
                callback(elimination)
