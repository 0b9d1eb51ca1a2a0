"""A portfolio: several learners and the selector that chooses among them.

`decide` lets the selector choose a learner without seeing the context, asks that learner for an action and returns a
decision. `learn` takes the decision (or just its id) with its reward, in any order and however late. If a learner
raises an error during `learn`, the decision stays open, and a second call teaches no learner twice.

Learners whose bound is `Observed` learn in the order of their plays unless delays are declared independent of the
rewards: if bad rewards arrive later than good ones, learning at once would bias the data that the bound is built on.
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

import numpy as np

from equipoise._deprecated import with_old_methods
from equipoise.certificates import AnyElimination, Certificate, Standing
from equipoise.compatibility import check_compatible, check_learners, check_selector, check_sharing
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.kernels.streams import LEARNERS, SELECTOR, open_stream, seek
from equipoise.learner import AdaptedLearner, MinimalLearner, Proposal, unique_names
from equipoise.portfolio.claims import claim
from equipoise.portfolio.decisions import Decision, copy_if_mutable
from equipoise.portfolio.snapshots import SavedPolicies
from equipoise.portfolio.tickets import Ticket
from equipoise.selector import Selector, check_credit, traits_of
from equipoise.settings.checks import boolean, count, one_of
from equipoise.storage.parts import describe_part, read_part, rebuild_learners, rebuild_selector, write_part
from equipoise.types import Config, Context, Outcome, Plain

logger = logging.getLogger("equipoise")


@with_old_methods
class Portfolio:
    """Several learners and the selector that chooses among them.

    Calls on one portfolio must not overlap, so use a lock if threads share it. Different portfolios are independent.
    Decisions are plain values and may be passed between threads and processes.

    Parameters
    ----------
    learners
        The learners, at least `decide` and `learn` each; see `equipoise.Learner`.
    selector
        The rule that chooses among them; by default the recommended one, `RealizedBalancing`, for rewards in [0, 1].
    seed
        Seed of all random numbers that are drawn by learners and selector.
    share_data
        Whether every learner that accepts off-policy data learns from every round.
    deadline
        Number of later decisions after which a decision without a reward gets `default_reward`. All statements are
        then about rewards with these defaults. A reward that arrives even later is logged and ignored.
    default_reward
        The reward of decisions past their deadline; must be given together with `deadline`.
    delays
        "any", or "independent" if the arrival time of a reward is independent of its value given context and action.

    Examples
    --------
    >>> from equipoise.learners import UCB
    >>> portfolio = Portfolio([UCB(3, scale=0.1), UCB(3, scale=1.0)])
    >>> portfolio.learn(portfolio.decide(None), reward=1.0)
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
            from equipoise.selectors import RealizedBalancing  # slow to import

            selector = RealizedBalancing(len(learners))
        check_selector(selector)
        self.learners: tuple[Any, ...] = tuple(learners)  # the given objects
        self._selector = selector
        self._adapted = [AdaptedLearner(learner) for learner in self.learners]
        self.learner_names = unique_names([learner.name for learner in self._adapted])
        check_compatible(selector, self.learners)
        self.seed = count("seed", seed, least=0, most=2**64 - 1)
        self.share_data = boolean("share_data", share_data)
        self._sharing = set(check_sharing(selector, self.learners)) if share_data else set()
        self.delays = one_of("delays", delays, ("any", "independent"))
        self._traits = traits_of(selector)
        if (deadline is None) != (default_reward is None):
            given = f"deadline is {deadline!r} and default_reward is {default_reward!r}"
            raise InvalidArgument(f"{given}, but must be given together")
        self.deadline = None if deadline is None else count("deadline", deadline)
        self.default_reward = None if default_reward is None else self._traits.check_reward(default_reward)
        self._observed = frozenset(self._traits.observed)
        self._weighted = "weight" in selector.needs
        self._all_proposals = self._weighted or "actions" in selector.needs
        self._policies = SavedPolicies()
        self._stream = open_stream(self.seed)
        self._next_id = 1
        self._open: dict[int, Ticket] = {}
        self._defaulted: set[int] = set()
        self._queues: dict[int, deque[Ticket]] = {i: deque() for i in self._observed if delays == "any"}
        self._callbacks: list[Callable[[Any], None]] = []
        claim(self._selector, self)

    def __getstate__(self) -> dict[str, object]:
        # A copy must not call the callbacks of the original.
        return {**self.__dict__, "_callbacks": []}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        claim(self._selector, self)

    def __repr__(self) -> str:
        return f"Portfolio({list(self.learners)}, {self._selector})"

    def decide(self, context: Context) -> Decision:
        """Choose a learner and return its action in this context.

        Arrays, lists, tuples and dicts are copied; a context of another type must not change before its reward is
        learned. Decisions past their deadline get their default reward first, even if this call then fails.
        """
        if self.deadline is not None and self.default_reward is not None:
            self._apply_defaults(self.deadline, self.default_reward)
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
                proposal = self._policies.play(i, choice.snapshot, self._adapted[i], propose)
            proposals = {i: proposal}
            if self._all_proposals:
                proposals |= {j: self._propose(j, context, id_) for j in selector.active if j != i}
            selector.observe(choice, proposals)
        except BaseException:
            selector.withdraw(choice)
            raise
        action = proposal.greedy if choice.greedy else proposal.action
        ticket = Ticket(id_, choice, context, copy_if_mutable(action), proposal.regret)
        if self._weighted:
            ticket.others = {j: copy_if_mutable(other.action) for j, other in proposals.items() if j != i}
        elif choice.keep is not None:
            self._policies.keep(i, choice.keep, self._adapted[i])
        self._open[id_] = ticket
        if self._queues:
            for j in self._learners_to_teach(ticket):
                if j in self._queues:
                    self._queues[j].append(ticket)
        self._next_id = id_ + 1
        given_learner = 1.0 if choice.greedy else proposal.probability
        return Decision(id_, action, i, self.learner_names[i], choice.probability * given_learner)

    def learn(
        self, decision: Decision | int, reward: float, outcome: Outcome = None, regret: float | None = None
    ) -> None:
        """Learn from the reward of a decision.

        Learners learn from `outcome` instead of the action if there is more to learn from (the trajectory of an
        episode). `regret` is what the play adds to the learner's observed regret bound, if that is known only now. If a
        learner raises an error, it is passed on and the decision stays open: call again with the same reward.
        """
        id_ = decision.id if isinstance(decision, Decision) else decision
        ticket = self._open.get(id_) if type(id_) is int else self._find(id_)
        if ticket is None:
            self._ignore_late(id_, reward)
            return
        copied = None if outcome is None else copy_if_mutable(outcome)
        self._announce(self._resolve(ticket, *check_credit(self._selector, ticket.choice, reward, regret), copied))

    def withdraw(self, decision: Decision | int) -> None:
        """Withdraw an open decision whose round did not happen: its play does not count and no learner learns from it.

        Its id is not used again. If a learner raises an error while learning from a later round that waited for this
        one, the decision is withdrawn nevertheless, and the learner gets that round again with its next one.
        """
        id_ = decision.id if isinstance(decision, Decision) else decision
        ticket = self._find(id_)
        if ticket is None:
            raise UnknownDecision(self._why_closed(id_))
        if ticket.taught:
            name = self.learner_names[min(ticket.taught)]
            raise InvalidArgument(f"decision {id_} has been learned by {name!r}, so it cannot be withdrawn")
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
        """What the rewards so far prove, with confidence 1 - delta - the deltas of the learners."""
        deltas = [self._adapted[i].delta for i in sorted(self._observed)]
        return replace(self._selector.certificate(), learners_delta=float(sum(deltas)))

    def standing(self) -> list[Standing]:
        """How every learner is doing, one row per learner."""
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
        """The given selector."""
        return self._selector

    @property
    def pending(self) -> tuple[int, ...]:
        """The ids of the decisions that have no reward yet."""
        return tuple(self._open)

    def on_elimination(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with every elimination, after the round that caused it is credited."""
        if not callable(callback):
            raise InvalidArgument(f"callback is {callback!r}, but must be callable with an Elimination")
        self._callbacks.append(callback)

    def save(self, path: str | Path) -> None:
        """Write everything to a file, including open decisions; if that fails, an old file remains unchanged."""
        write_part(path, "portfolio", self.state())

    @classmethod
    def load(
        cls, path: str | Path, learners: Sequence[MinimalLearner] | None = None, selector: Selector | None = None
    ) -> Self:
        """Read a saved portfolio; it continues exactly as the saved one would have.

        Registered classes are created from the file. For other classes, pass all learners in order, or the selector,
        created with the same settings; they are compared with what was saved.
        """
        return cls.from_state(read_part(path, "portfolio"), learners, selector)

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Plain],
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
    ) -> Self:
        """The portfolio that `state` returned; `learners` and `selector` are as in `load`."""
        rebuilt = rebuild_learners(state["learners"], learners), rebuild_selector(state["selector"], selector)
        portfolio = cls(*rebuilt, **state["settings"])
        portfolio._restore(state)
        return portfolio

    def state(self) -> Config:
        """Everything as plain data: settings, learned state, open decisions."""
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
            "kept": self._policies.state(),
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
        self._policies.restore(saved.get("kept", []))
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
        """The open ticket with this id, a Python or NumPy integer; None if there is none."""
        if isinstance(id_, bool) or not isinstance(id_, int | np.integer):
            raise InvalidArgument(f"decision is {id_!r:.80}, but must be a Decision or its id")
        return self._open.get(int(id_))

    def _ignore_late(self, id_: int, reward: float) -> None:
        if id_ not in self._defaulted:
            raise UnknownDecision(self._why_closed(id_))
        self._traits.check_reward(reward)
        self._defaulted.remove(id_)
        logger.info("reward of decision %d arrived after its deadline and is ignored", id_)

    def _why_closed(self, id_: int) -> str:
        exists = 0 < id_ < self._next_id
        return f"decision {id_} {'already has its reward or was withdrawn' if exists else 'was never made'}"

    def _resolve(
        self, ticket: Ticket, reward: float, regret: float, outcome: Outcome = None
    ) -> tuple[AnyElimination, ...]:
        """Teach the learners, credit the selector and close the decision; returns the resulting eliminations."""
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
        if hasattr(self._selector, "taught_by"):
            return tuple(self._selector.taught_by(ticket.choice))
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

    def _apply_defaults(self, deadline: int, default_reward: float) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.id > self._next_id - 1 - deadline:
                return
            regret = self._default_regret(oldest)
            eliminations = self._resolve(oldest, *check_credit(self._selector, oldest.choice, default_reward, regret))
            self._defaulted.add(oldest.id)
            self._announce(eliminations)

    def _default_regret(self, ticket: Ticket) -> float | None:
        """The regret of a round without a reward, if unknown: the width of the reward range."""
        if ticket.choice.learner not in self._observed or not isnan(ticket.regret):
            return None
        return float(np.ptp(self._traits.reward_range or (0.0, 1.0)))

    def _retire(self, eliminations: Sequence[AnyElimination]) -> None:
        """An eliminated learner never plays again; it still learns from its own open rounds, but not from others'."""
        for i in (elimination.learner.index for elimination in eliminations):
            self._sharing.discard(i)
            if i in self._queues:
                self._queues[i] = deque(ticket for ticket in self._queues[i] if ticket.choice.learner == i)

    def _announce(self, eliminations: Sequence[AnyElimination]) -> None:
        for elimination in eliminations:
            for callback in self._callbacks:
                callback(elimination)
