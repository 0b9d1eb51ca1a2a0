"""The parts of a portfolio, how a round passes through them, and the whole as plain data and back."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from math import inf, isnan, nan
from typing import Any

from equipoise.certificates import AnyElimination
from equipoise.errors import DuplicateReward, InvalidArgument
from equipoise.features import Offers
from equipoise.learner import MinimalLearner, can_be_restored
from equipoise.portfolio import old_forms
from equipoise.portfolio.drift import DriftMonitor
from equipoise.portfolio.events import Events, logger
from equipoise.portfolio.held import HeldReward, clipped, combine
from equipoise.portfolio.inputs import Inputs, adopt_schema, own_copy
from equipoise.portfolio.pool import Pool, Selection, listed
from equipoise.portfolio.rounds import Round, Rounds, check_action
from equipoise.portfolio.settings import PortfolioSettings, lost_function
from equipoise.portfolio.statements import History, Reporter
from equipoise.portfolio.tickets import Counts, Decision, Ticket, Tickets, check_id, check_key
from equipoise.portfolio.units import Units, as_offered, unit_key
from equipoise.portfolio.updates import FailedUpdate, Failures, LearnerUpdates, was_tried
from equipoise.selector import Choice, Reconfigures, Selector, check_credit, require
from equipoise.settings.checks import in_range, measured
from equipoise.storage.parts import describe_part, rebuild_learners, rebuild_selector
from equipoise.types import Config, Context, Outcome, Plain

Learners = Sequence[MinimalLearner] | None
Names = Iterable[str] | None

MAX_EXPIRED = 8  # overdue decisions that one call closes
MAX_KEPT_BYTES = 1 << 12  # of what a context was turned into; larger ones are made again when their reward comes
EARLY = ""  # key of a reward that arrived before the activation; no caller's key is empty
REPORTED_EVERY = 1024  # rounds between two checks of what is held up


class PortfolioState:
    """The collaborators of a portfolio. Callers hold its lock, and have checked what comes from outside."""

    def __init__(
        self, learners: Sequence[MinimalLearner | None], selector: Selector, settings: PortfolioSettings
    ) -> None:
        """Make the parts before the first round; a learner that is None was removed."""
        self.counts, self.history = Counts(), History()
        self.tickets, self.units = Tickets(settings), Units()
        self.events = Events(self.tickets, self.history)
        self.inputs = Inputs(settings)
        self.pool = Pool(learners, self.events)
        self.selection = Selection(selector)
        present = [learner for learner in learners if learner is not None]
        self.savable = all(can_be_restored(part) for part in (selector, *present))
        in_order = self.selection.presumed(self.pool) if settings.delays == "any" else ()
        weighted = "weight" in self.selection.needs
        self.updates = LearnerUpdates(
            self.pool, self.tickets, decides=self.selection.can.updates, weighted=weighted, in_order=in_order
        )
        self.drift = DriftMonitor(settings.on_drift, self.selection, self.pool, self.tickets, self.updates)
        self.rounds = Rounds(self.selection, self.pool, settings, savable=self.savable)
        self.reporter = Reporter(self)
        self.recommendation = ""  # why it has this selector, if it was given none
        self.declared = settings  # as given, in a constructor or a file; changes at run time are not in it
        self.updates.sharing = self.selection.sharing(self.pool, settings.share_data)
        self.adopt(settings)

    def adopt(self, settings: PortfolioSettings) -> None:
        """Use these settings from now on; raise an error before anything changes if the parts do not allow them."""
        limits, noise = self.selection.reward_range(settings.reward_range), self.selection.traits.noise
        if settings.clip and limits is None:
            raise InvalidArgument("clip is True, but neither portfolio nor selector has a reward_range to clip to")
        if settings.clip and noise is not None:
            raise InvalidArgument(
                f"clip is True, but the selector states noise = {noise:g}, which is for rewards without limits"
            )
        if settings.fallback is not None and not callable(settings.fallback):
            check_action("fallback", settings.fallback, None, self.savable)
        if settings.default_reward is not None:
            in_range("default_reward", settings.default_reward, limits if noise is None else None)
        self.inputs.adopt(settings)
        self.settings = self.tickets.settings = self.rounds.settings = settings

    def reconfigure(self, changes: Mapping[str, Any], *, declared: bool = False) -> None:
        """Change settings: all that are given or, after an error, none."""
        selection = self.selection
        own = {name: value for name, value in changes.items() if name != "selector"}
        before, checked = self.settings, self.settings.check_changes(own, self._in_effect)
        settings = replace(before, **checked)
        is_new_law = (before.deadline, before.default_reward) != (settings.deadline, settings.default_reward)
        if is_new_law:
            self.drift.check_new_law()
        if "share_data" in checked:
            self._check_share_data(checked["share_data"])
        if not isinstance(changes.get("selector", {}), Mapping):
            raise InvalidArgument(f"selector is {changes['selector']!r:.80}, but must be a dict of settings")
        self.adopt(settings)
        try:
            if "selector" in changes:
                changing = require(selection.selector, Reconfigures, "change its settings")
                changing.reconfigure(**changes["selector"])
        except BaseException:
            self.adopt(before)
            raise
        selection.refresh()
        if "share_data" in checked:
            self.updates.sharing = selection.sharing(self.pool, settings.share_data)
        if settings.sticky is None:
            self.units.clear()
        data = {name: value for name, value in self.settings.to_plain().items() if name in checked}
        if declared:
            self.declared = replace(self.declared, **data)
        if "selector" in changes:
            data["selector"] = dict(changes["selector"])
        self.events.emit("config", {"changes": data, "declared": declared})
        if is_new_law:
            self._begin_law()

    def _begin_law(self) -> None:
        """Count no round so far, as the reward by the deadline has another law from now on."""
        self.tickets.held.begin()
        since = self.drift.begin_law()
        if since > 1:
            self._forget_rounds()
            self.events.emit("law_changed", {"since": since, "reason": "the deadline or the default reward changed"})

    def _forget_rounds(self) -> None:
        """Follow a selector that has begun again."""
        self.updates.sharing |= self.selection.sharing(self.pool, self.settings.share_data)
        self.counts.unplayed = 0

    def declare(
        self, wanted: PortfolioSettings, learners: Sequence[str | None] | None = None, *, check_only: bool
    ) -> None:
        """Change the settings, and names of learners, in which a file or constructor differs from before."""
        changes = self.settings.changes_to(wanted, self.declared, self._in_effect)
        if "share_data" in changes:
            self._check_share_data(changes["share_data"])
        if changes and not check_only:
            self.reconfigure(changes, declared=True)
        if learners is not None and not check_only and tuple(learners) != self.pool.declared:
            self._declare_learners(learners)

    def _declare_learners(self, names: Sequence[str | None]) -> None:
        """Note by which names a declaration calls the learners; an event that earlier releases fold to nothing."""
        self.pool.declare(names)
        self.events.emit("config", {"changes": {}, "declared": True, "learners": tuple(names)})

    def _check_share_data(self, wanted: bool | None) -> None:
        recommended, now = bool(self.recommendation), self.settings.share_data
        self.selection.check_share_data(self.pool, wanted, now, recommended=recommended)

    @property
    def _in_effect(self) -> PortfolioSettings:
        """The settings, with the range of rewards in effect."""
        return replace(self.settings, reward_range=self.reward_range)

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self.selection.reward_range(self.settings.reward_range)

    @property
    def waiting_bytes(self) -> int:
        """The memory of the rewarded rounds behind a missing reward."""
        sizes = self.selection.can.sizes
        return self.tickets.held.nbytes + self.updates.nbytes + (0 if sizes is None else sizes.pending_bytes())

    def check_reward(self, reward: float) -> float:
        """Return the reward as a float; raise an error if it is invalid."""
        return in_range("reward", reward, self._limits)

    def admit(self, at: float | None) -> float:
        """Return the time of a call; listeners want the clock's."""
        return self.tickets.admit(at, timed=bool(self.events.listeners.callbacks))

    def _events_wanted(self) -> bool:
        """Whether a callback or the log wants ordinary events, so that their data must be made."""
        return bool(self.events.listeners.callbacks) or logger.isEnabledFor(logging.DEBUG)

    # A round is decided.

    def decide(
        self,
        context: Any,
        *,
        offers: Any = None,
        id: str | None,
        available: Iterable[str] | None,
        at: float | None,
        propensity: bool,
        unit: str | None,
        slot: int = 1,
        pmf: bool = False,
        deferred: str = "",
    ) -> Decision:
        """Decide a round, unless the id or the unit has a decision; `slot` is the position in a slate."""
        tickets, digest, key = self.tickets, "", b"" if unit is None else unit_key(unit, slot)
        deferred = deferred and check_id("deferred", deferred)
        context, asked = self.inputs.read(context, offers), {} if unit is None else {"unit": unit, "slot": slot}
        if id is not None:
            earlier, digest = tickets.remembered(id, context)
            if earlier is not None:
                return earlier
        available = listed(available)
        if key and (kept := self.kept(key, context, available, at)) is not None:
            return kept
        allowed = None if available is None else self.pool.indices(available)
        if isinstance(context, Offers):
            asked |= {} if context.seen is None else {"seen": context.seen}
            context = context.without_source()
        elif context is not None:
            context = own_copy(context, "context", self.savable)
        before, time, round_ = tickets.time, self.admit(at), tickets.round + 1
        try:
            decided = self.rounds.decide(context, round_, allowed, propensity=propensity, pmf=pmf)
        except BaseException:
            tickets.time = before
            raise
        ticket = decided.ticket
        ticket.id, ticket.time = tickets.ids.next(round_) if id is None else id, time
        if deferred:
            ticket.deferred = deferred
        decision = self.rounds.decision(decided)
        if id is not None:
            tickets.callers.remember(digest, decision, round_)
        self.keep(key, ticket, decision)
        self.record(decided, decision, digest, asked)
        if self.settings.deadline is not None:
            self.expire(MAX_EXPIRED)
        return decision

    def repeated(
        self, context: Context, id: str | None, unit: object, available: Names, at: float | None, slot: int
    ) -> Decision | None:
        """Return the decision that the id has or, if it has none, the unit keeps."""
        if id is not None and self.tickets.callers.round_of(id) is not None:
            return self.tickets.remembered(id, context)[0]
        return None if unit is None else self.kept(unit_key(unit, slot), context, available, at)

    def kept(self, key: bytes, context: Context, available: Names, at: float | None) -> Decision | None:
        """Return the decision that a unit keeps, if its action is offered and its learner is available."""
        if self.settings.sticky is None:
            return None
        kept = self.units.find(key, self.tickets.moment(at) - self.settings.sticky)
        if kept is None or (available is not None and kept.learner not in {None, *self.pool.indices(available)}):
            return None
        return as_offered(kept, context)

    def keep(self, key: bytes, ticket: Ticket, decision: Decision) -> None:
        """Let a unit keep a decision from now on, if decisions are kept."""
        if key and self.settings.sticky is not None:
            ticket.unit = key
            self.units.keep(key, decision, self.tickets.time, self.tickets.time - self.settings.sticky)

    def record(self, decided: Round, decision: Decision, digest: str, asked: Config) -> None:
        """Record a decided round, announce it, and count the learners that could decide.

        `asked` are further entries of the event: the unit, and values of numbers without a scale.
        """
        ticket, offers = decided.ticket, self.rounds.offers
        if offers is not None and offers.nbytes <= MAX_KEPT_BYTES:
            ticket.offers = offers
        self.open(ticket)
        if self._events_wanted():
            data = decided.data(decision, digest, self.rounds.logged_odds(decided))
            data |= asked
            self.events.emit("decided", data, key=decision.id if digest else None)
        play = decided.play
        if play is not None and not play.failures and not decided.fell_back:  # fast path
            for i in play.proposals:
                self.pool.members[i].succeeded_deciding()
        elif play is not None:
            self.counts.fallbacks += decided.fell_back
            self.pool.count_answers(decided.proposals, decided.failures, decided.refused, ticket.round)
        if ticket.round % REPORTED_EVERY == 0:
            self.events.announce_blocked(self.reporter.blocked)
        if self.tickets.held.holds:
            self.credit_due()
        if "seen" in asked:
            self._see(asked["seen"])

    def _see(self, seen: Config) -> None:
        """Keep values of numbers without a scale, and fix the scales that follow from them."""
        self.inputs.see(seen)
        scales = self.inputs.learned_scales()
        if scales:
            self.fix_scales(scales)

    def fix_scales(self, scales: Mapping[str, Plain]) -> None:
        self.inputs.fix_scales(scales)
        self.events.emit("scaled", scales)

    def open(self, ticket: Ticket, *, monitored: bool = True) -> None:
        """Add a decided round to the ledger."""
        self.tickets.round = ticket.round
        if ticket.round >= self.history.next_round:
            self._sample()
        if ticket.choice is None:
            self._count_unplayed(1)
        elif ticket.substituted:
            self.pool.members[ticket.choice.learner].substituted += 1
        self.tickets.open.add(ticket)
        if ticket.deferred:
            self.tickets.defer(ticket.id, ticket.deferred)
        if self.updates.in_order:
            self.updates.open(ticket)
        if self.tickets.held.holds:
            self.tickets.held.open(ticket)
        self.drift.open_play(ticket, self.reward_range, monitored=monitored)

    def _sample(self) -> None:
        history = self.history
        try:
            standing = self.selection.selector.standing()
            history.sample(self.tickets.round, standing, self.reporter.certificate())
        except Exception:
            logger.exception("the selector failed to state how it is doing; the history ends here")
            history.next_round = inf
        costs = "" if self.reward_range is None else history.oversized(self.reward_range)
        if costs:
            logger.warning("%s", costs)

    def _count_unplayed(self, rounds: int) -> None:
        """Count rounds that no learner played; the certificate of a selector that counts them includes them."""
        self.counts.unplayed = max(0, self.counts.unplayed + rounds)  # an epoch begins with none
        if self.selection.can.unplayed is not None:
            self._finish((), self.selection.can.unplayed.tick(rounds))

    # Its reward arrives, in one part or several, its deadline passes, or it is withdrawn.

    def check_credit(self, ticket: Ticket, reward: float, regret: float | None) -> tuple[float, float]:
        """Return reward and regret as floats, nan for an unknown regret; raise an error if they are invalid.

        A play of a substitute counts the width of the rewards, which was known before, whatever its regret.
        """
        if ticket.choice is None or not self.drift.in_epoch(ticket):
            return self.check_reward(reward), nan
        regret = None if ticket.substituted else regret
        if self.selection.traits.reward_range is None:
            self.check_reward(reward)
        if self.selection.can.credit is not None:
            return self.selection.can.credit.check_credit(ticket.choice, reward, regret)
        return check_credit(self.selection.selector, ticket.choice, reward, regret)

    def counted(self, reward: float) -> float:
        """Return a reward as it counts; parts of a reward are clipped only when they are combined."""
        clips = self.settings.clip and self.settings.aggregate == "first" and self.reward_range is not None
        return clipped(reward, self.reward_range) if clips else reward  # type: ignore[arg-type]  # not None if it clips

    def learn(
        self, decision: Decision | str, reward: float, outcome: Outcome, regret: float | None, key: str | None
    ) -> None:
        """Learn from a reward, or ignore it if it is late."""
        settings, ticket, given = self.settings, self.tickets.find(decision), reward
        reward = self.counted(given)
        if ticket is None:
            id_ = decision.id if isinstance(decision, Decision) else decision
            if not self.tickets.has_expired(id_):
                raise self.tickets.reason_closed(id_)
            self.check_reward(reward)
            self.ignore(id_)
        elif settings.deadline is not None and self.tickets.is_overdue(ticket):
            self.check_reward(reward)
            self.expire_ticket(ticket)
            self.ignore(ticket.id)
        elif ticket.deferred and settings.aggregate == "first":
            if ticket.rewards:
                raise DuplicateReward(f"decision {ticket.id} already has a reward, which waits for its activation")
            self.check_credit(ticket, reward, regret)
            self.add_reward(ticket, EARLY, measured("reward", given), outcome)
        elif settings.aggregate == "first":
            number, known = self.check_credit(ticket, reward, regret)
            self.settle(ticket, "rewarded", number, known, outcome, was_clipped=reward != given)
        else:
            name, part = check_key(ticket, key), measured("reward", reward)
            if not settings.clip:
                self._check_total(ticket, combine(settings.aggregate, {**ticket.rewards, name: part}, part))
            self.add_reward(ticket, name, part, outcome)

    def _check_total(self, ticket: Ticket, total: float) -> None:
        """Raise an error if the reward of a decision would be invalid, as far as its parts are known."""
        what = "reward" if self.settings.aggregate == "last" else f"the sum of the rewards of decision {ticket.id}"
        in_range(what, total, self._limits)

    @property
    def _limits(self) -> tuple[float, float] | None:
        """The range in which a reward must lie; None if it has noise."""
        return self.reward_range if self.selection.traits.noise is None else None

    def regret_of(self, ticket: Ticket, outcome: Outcome) -> float:
        """Return what a play adds to the observed regret bound, if its learner tells that only now; nan otherwise."""
        if ticket.learner is None or ticket.substituted:
            return nan
        in_order = self.updates.is_next(ticket)
        if in_order is None:
            in_order = len(self.tickets.open) == 1 and ticket.round == self.tickets.round
        return self.pool.members[ticket.learner].adapted.regret_after(nan, outcome, ticket.plan, in_order)

    def settle(
        self,
        ticket: Ticket,
        kind: str,
        reward: float,
        regret: float,
        outcome: Outcome,
        failures: Failures | None = None,
        was_clipped: bool = False,
    ) -> None:
        """Credit the selector, update the learners and close the decision; `failures` are from a log."""
        ticket.reward, ticket.outcome = reward, outcome
        eliminations: Sequence[AnyElimination] = ()
        choice, holds = ticket.choice if self.drift.in_epoch(ticket) else None, self.tickets.held.holds
        try:
            if choice is not None and not holds:  # first: if it raises, nothing has changed
                eliminations = self._credit(choice, reward, regret)
            failed = self.updates.update(ticket, failures)
        except BaseException:
            ticket.reward, ticket.outcome = nan, None
            raise
        if self.settings.delays == "any" and not self.tickets.open.is_oldest(ticket):
            self.updates.overtake(ticket)
        self.tickets.close(ticket)
        self.history.see(reward)
        if kind == "rewarded":
            self.history.count_delay(self.tickets.round - ticket.round)
        self.counts.clipped += was_clipped
        if kind == "expired":
            self.tickets.expired_round = max(self.tickets.expired_round, ticket.round)
            self.counts.expired += 1
        if self._events_wanted():
            data = {
                "id": ticket.id,
                "reward": reward,
                "regret": regret,
                "outcome": outcome,
                "failed": tuple(map(tuple, failed)),
                "clipped": was_clipped,
            }
            self.events.emit(kind, data)
        if failed or eliminations:
            self._finish(failed, eliminations)
        if not holds:
            self._monitor(ticket, reward)
            return
        self.tickets.held.settle(ticket, expired=kind == "expired")
        if choice is not None:
            self.tickets.held.hold(ticket, reward, regret)
        self.credit_due()

    def _credit(self, choice: Choice, reward: float, regret: float) -> Sequence[AnyElimination]:
        return self.selection.selector.credit(choice, reward, None if isnan(regret) else regret) or ()

    def credit_due(self) -> None:
        """Let the held rewards count whose plays are old enough by now."""
        for held in self.tickets.held.due():
            if not self.drift.in_epoch(held):
                continue
            try:
                eliminations = self._credit(held.choice, held.reward, held.regret)
            except Exception:  # its decision is closed, and no other one is at fault
                logger.exception("the selector failed to count the reward of round %d, which is lost", held.round)
                continue
            if eliminations:
                self._finish((), eliminations)
            self._monitor(held, held.reward)

    def add_reward(self, ticket: Ticket, key: str, reward: float, outcome: Outcome) -> None:
        """Add one of several rewards; the decision stays open until its deadline."""
        ticket.rewards[key] = reward
        if outcome is not None:
            ticket.outcome = outcome
        if self._events_wanted():
            self.events.emit("rewarded", {"id": ticket.id, "reward": reward, "outcome": outcome, "part": key}, key=key)

    def extend_deadlines(self, seconds: float, at: float | None) -> int:
        """Let the last seconds not count toward deadlines; return the number of open decisions."""
        if not isinstance(self.settings.deadline, float):
            raise InvalidArgument(f"deadline is {self.settings.deadline!r}, but only one in seconds can be extended")
        if not 0.0 < seconds < inf:
            raise InvalidArgument(f"seconds is {seconds!r}, but must be positive and finite")
        self.admit(at)
        self.tickets.extend_deadlines(seconds)
        self.events.emit("deadlines_extended", {"seconds": seconds, "open": len(self.tickets.open)})
        return len(self.tickets.open)

    def expire_at(self, limit: int | None, at: float | None, *, extended: bool) -> int:
        """Settle overdue decisions at a time, which passes only if there are some."""
        before = self.tickets.time
        self.admit(at)
        expired = self.expire(limit, extended=extended)
        if not expired:
            self.tickets.time = before  # nothing happened, so there is no event that could repeat this
        return expired

    def expire(self, limit: int | None, *, extended: bool = True) -> int:
        """Settle overdue decisions, the oldest first; overdue by their deadlines as extended, or as they were."""
        expired = 0
        while self.settings.deadline is not None and (limit is None or expired < limit):
            oldest = self.tickets.oldest()
            if oldest is None or not self.tickets.is_overdue(oldest, extended=extended):
                break
            self.expire_ticket(self.tickets.open[oldest.id])
            expired += 1
        return expired

    def expire_ticket(self, ticket: Ticket) -> None:
        """Settle a decision with the rewards that arrived, or with the default; withdraw one that is not activated."""
        if ticket.deferred:
            self.withdraw(ticket)
            return
        settings = self.settings
        assert settings.default_reward is not None
        total = combine(settings.aggregate, ticket.rewards, settings.default_reward)
        # Parts were checked when they arrived, unless an earlier release took them.
        reward = total if self._limits is None else clipped(total, self._limits)
        # The regret of a round without an outcome, if unknown, is the width of the reward range.
        known = ticket.drawn not in self.selection.traits.observed or not isnan(ticket.regret)
        regret = None if known else self.selection.width(settings.reward_range)
        checked = self.check_credit(ticket, reward, regret)
        self.settle(ticket, "expired", *checked, ticket.outcome, was_clipped=reward != total)

    def ignore(self, id_: str) -> None:
        self.counts.ignored += 1
        self.events.emit("ignored", {"id": id_, "reason": "the reward arrived after its deadline"})

    def withdraw(self, ticket: Ticket, failures: Failures | None = None) -> None:
        """Take back a round; learners learn what waited for it."""
        eliminations: Sequence[AnyElimination] = ()
        if not self.drift.in_epoch(ticket):
            pass  # the selector has forgotten the round
        elif ticket.choice is None:
            self._count_unplayed(-1)
        else:
            self.pool.members[ticket.choice.learner].substituted -= ticket.substituted
            eliminations = self.selection.selector.withdraw(ticket.choice) or ()
        self.counts.withdrawn += 1
        self.tickets.close(ticket)
        if ticket.unit:
            self.units.end(ticket.unit, ticket.id)
        failed = self.updates.withdraw(ticket, failures)
        self.tickets.held.withdraw(ticket)
        if self._events_wanted():
            self.events.emit("withdrawn", {"id": ticket.id, "failed": tuple(map(tuple, failed))})
        self._finish(failed, eliminations)
        self._monitor(ticket, nan)

    def retry_updates(self, failures: Failures | None) -> int:
        """Try failed updates again; return how many succeeded."""
        succeeded, failed = self.updates.retry(failures)
        if self._events_wanted():
            self.events.emit("updates_retried", {"succeeded": succeeded, "failed": tuple(map(tuple, failed))})
        self._finish(failed, ())
        return succeeded

    def _monitor(self, play: Ticket | HeldReward, reward: float) -> None:
        """Pass a resolved play to the monitor of drift, and announce its alarm."""
        alarm = self.drift.close_play(play, reward)
        if alarm is None:
            return
        if alarm["restart"]:
            self._forget_rounds()
        self.events.emit("drift", alarm)

    def _finish(self, failed: Sequence[FailedUpdate], eliminations: Sequence[AnyElimination]) -> None:
        """Announce failures of learners and eliminations, and retire eliminated learners."""
        names = self.pool.names
        for update in failed:
            if was_tried(update) and self.pool.members[update.learner].reports(self.tickets.round):
                self.events.emit("update_failed", {"name": names[update.learner], **update._asdict()})
        self.pool.announce_pauses()
        for elimination in eliminations:
            self.updates.retire(elimination.learner.index)
        for elimination in self.reporter.in_rounds(eliminations):
            data = {"name": names[elimination.learner.index], "witness": names[elimination.witness.index]}
            reason = elimination.reason(data["witness"])
            if self.pool.members[elimination.learner.index].substituted:
                reason += ", with its substitutes"
            self.events.announce_elimination(elimination, {**data, "round": elimination.round, "reason": reason})

    # An event of a log is folded.

    def fold_config(self, data: Mapping[str, Plain]) -> None:
        changes = old_forms.settings(data["changes"])
        if "learners" in data:
            self._declare_learners(data["learners"])
        elif changes or not data["changes"]:
            self.reconfigure(changes, declared=data["declared"])

    def fold_settled(self, kind: str, data: Mapping[str, Plain]) -> None:
        """Fold a reward that arrived, or the one of a deadline that passed, as it was logged."""
        ticket = self.tickets.open[data["id"]]
        if "part" in data:
            self.add_reward(ticket, data["part"], data["reward"], data["outcome"])
        else:
            numbers = data["reward"], data["regret"], data["outcome"]
            self.settle(ticket, kind, *numbers, logged_failures(data), data["clipped"])

    def fold_withdrawn(self, data: Mapping[str, Plain]) -> None:
        self.withdraw(self.tickets.open[data["id"]], logged_failures(data))

    def note_rule(self, version: int | None) -> None:
        """Announce the version of the selector's rule if it is another one than before."""
        selection = self.selection
        if version != selection.noted_version:
            data = {"name": selection.can.name, "version": version, "before": selection.noted_version}
            selection.noted_version = version
            self.events.emit("rule", data)

    def fold_warmed(self, data: Mapping[str, Plain]) -> None:
        i = self.pool.index(data["name"])
        self.pool.members[i].adapted.restore(data["state"])
        self.count_warmed(i, data["rounds"], data["source"])

    def count_warmed(self, i: int, rounds: int, source: str) -> None:
        """Record that a learner has learned logged rounds."""
        member = self.pool.members[i]
        member.logged_rounds += rounds
        state = member.adapted.state()
        data = {"name": member.name, "rounds": rounds, "source": source, "reason": f"{rounds:,} rounds of {source}"}
        self.events.emit("learner_warmed", {**data, "state": state})

    def count_replayed(self, rounds: int) -> None:
        """Count rounds that were played from a log."""
        if rounds:
            self.counts.replayed += rounds
            self.events.emit("rounds_replayed", {"rounds": rounds})

    # The whole as plain data.

    def to_plain(self) -> Config:
        """Return everything: settings, learned state, open decisions; as data for the codec, some of it made later."""
        learners = [None if learner is None else describe_part(learner, frozen=True) for learner in self.pool.learners]
        refusals = [member.refusals for member in self.pool.members]
        return {
            "learners": learners,
            "members": [member.state() for member in self.pool.members],
            "selector": describe_part(self.selection.selector, frozen=True),
            "settings": self.settings.to_saved(),
            "declared": self.declared.to_saved(),
            "recommendation": self.recommendation,
            "rule_version": self.selection.noted_version,
            "drift": self.drift.frozen(),
            "counts": asdict(self.counts),
            "history": self.history.state(),
            "blocked_at": self.events.blocked_at,
            "tickets": self.tickets.frozen(),
            "updates": self.updates.frozen(),
            **({"refusals": refusals} if any(refused for refused, *_ in refusals) else {}),
            **({} if self.pool.declared is None else {"declared_learners": self.pool.declared}),
            **({"units": self.units.frozen()} if self.units else {}),
            **({} if self.inputs.schema is None else {"inputs": self.inputs.state()}),
        }

    @classmethod
    def from_plain(cls, saved: Mapping[str, Plain], learners: Learners, selector: Selector | None) -> PortfolioState:
        """Return what `to_plain` described; `learners` and `selector` are given if they are not registered."""
        rows = [row for row in saved["learners"] if row is not None]
        settings = PortfolioSettings(**old_forms.settings(saved["settings"]))
        inputs = Inputs(settings)
        if "inputs" in saved:
            inputs.restore(saved["inputs"])
        adopt_schema(learners or (), inputs.schema, settings.action_names)
        given = iter(rebuild_learners(rows, learners))
        rebuilt = [None if row is None else next(given) for row in saved["learners"]]
        restored = rebuild_selector(saved["selector"], selector)
        restored.restore(dict(old_forms.selector_state(saved["selector"]["state"], saved["tickets"]["open"])))
        state = cls(rebuilt, restored, settings)
        state.inputs = inputs
        for member, part, row in zip(state.pool.members, saved["learners"], saved["members"], strict=True):
            if part is not None:
                member.adapted.restore(part["state"])
            member.restore(row)
        for member, refusals in zip(state.pool.members, saved.get("refusals", ()), strict=False):
            member.restore_refusals(refusals)
        state.recommendation, state.counts = saved["recommendation"], Counts(**saved["counts"])
        state.selection.noted_version = saved.get("rule_version")
        state.declared = PortfolioSettings(**old_forms.settings(saved["declared"]))
        names = saved.get("declared_learners")
        state.pool.declared = None if names is None else tuple(names)
        state.drift.restore(saved["drift"])
        state.history.restore(saved["history"])
        state.events.blocked_at = saved.get("blocked_at")
        state.tickets.restore(saved["tickets"], {round_ for _, round_, _ in saved["updates"]["failed"]})
        state.updates.restore(saved["updates"], state.tickets.open.objects())
        state.units.restore(saved.get("units", ()))
        if state.settings.fallback is lost_function:
            logger.warning(
                "the fallback of the saved portfolio was a function: give it again with reconfigure(fallback=)"
            )
        return state


def logged_failures(data: Mapping[str, Plain]) -> Failures:
    return {(learner, round_): error for learner, round_, error in data["failed"]}
