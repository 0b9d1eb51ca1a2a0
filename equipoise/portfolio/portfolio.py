"""A portfolio: several learners and the selector that chooses among them.

`decide` lets the selector choose a learner without seeing the context, asks that learner for an action and returns a
decision. `learn` takes the decision (or just its id) with its reward, in any order and however late. One learner cannot
take the portfolio down: if it fails, another one acts for it, and an update that fails is kept for another try.

The parts: `settings`, `pool` (learners and selector), `rounds` (how a round is decided), `tickets` (open decisions),
`units`, `updates` (which learners learn), `drift`, `events`, `statements`, and `state`, which connects them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

from equipoise.bounds import Bound
from equipoise.certificates import Certificate, Comparison, Standing
from equipoise.certificates.fields import Record
from equipoise.compatibility import check_compatible, check_learners, check_live, check_sharing
from equipoise.errors import InvalidArgument
from equipoise.errors import require as require_package
from equipoise.features import Schema
from equipoise.learner import MinimalLearner
from equipoise.portfolio import deferring, folding, joining, slates, text, warm_start
from equipoise.portfolio.events import Callback, Event, logger
from equipoise.portfolio.inputs import adopt_schema, copy_if_mutable
from equipoise.portfolio.pool import claim, recommend
from equipoise.portfolio.settings import PortfolioSettings, lost_function, parameter_docs
from equipoise.portfolio.state import MAX_EXPIRED, PortfolioState
from equipoise.portfolio.statements import History, Statements
from equipoise.portfolio.tickets import Decision
from equipoise.portfolio.updates import FailedUpdate
from equipoise.portfolio.warm_start import AnyLog, LogReplay, WarmStart
from equipoise.selector import Selector, check_selector
from equipoise.settings.checks import boolean, count, real
from equipoise.storage.codec import check_savable, made
from equipoise.storage.files import write_atomic
from equipoise.storage.parts import read_part, write_part
from equipoise.types import Action, Config, Context, Outcome, Plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Portfolio:
    """Several learners and the selector that chooses among them.

    Safe for use by several threads: calls wait for each other. Decisions are plain values and may be passed between
    threads and processes. Learners over features use the threads of the linear algebra library; on a busy machine one
    thread is many times faster (set OPENBLAS_NUM_THREADS=1 before NumPy is imported).

    Parameters
    ----------
    learners
        The learners, at least `decide` and `learn` each; see `equipoise.Learner`.
    selector
        The rule that chooses among them. By default `CounterfactualBalancing` if a learner can learn from rounds of
        others, else `RealizedBalancing`; `describe()` says which and why.
    {settings}

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
        share_data: bool | None = None,
        deadline: int | timedelta | str | None = None,
        default_reward: float | None = None,
        aggregate: str = "first",
        delays: str = "any",
        window: int | None = None,
        sticky: timedelta | str | None = None,
        fallback: Action | Callable[[Context], Action] | None = None,
        explore: float = 0.0,
        reward_range: tuple[float, float] | None = None,
        clip: bool = False,
        on_drift: str = "warn",
        action_names: Sequence[str] | None = None,
        schema: Schema | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "learners", "selector")}
        self._begin(learners, selector, PortfolioSettings.given(given))

    @classmethod
    def with_settings(
        cls,
        learners: Sequence[MinimalLearner],
        selector: Selector | None,
        settings: PortfolioSettings,
        *,
        live: bool = True,
    ) -> Self:
        """Return a portfolio with these settings; if it is not `live`, parts for simulations only may join."""
        portfolio = cls.__new__(cls)
        portfolio._begin(learners, selector, settings, live=live)
        return portfolio

    def _begin(
        self,
        learners: Sequence[MinimalLearner],
        selector: Selector | None,
        settings: PortfolioSettings,
        *,
        live: bool = True,
    ) -> None:
        check_learners(learners)
        adopt_schema(learners, settings.schema, settings.action_names)
        recommendation = ""
        if selector is None:
            selector, recommendation = recommend(learners, settings.share_data)
        check_selector(selector)
        if live:
            check_live(selector, learners)
        check_compatible(selector, learners)
        check_sharing(selector, learners, settings.share_data)
        self._lock = RLock()
        self._state = state = PortfolioState(learners, selector, settings)
        state.selection.check_units(learners, settings.reward_range)
        claim(selector, self)
        state.recommendation = recommendation
        state.selection.configure(state.pool, settings.reward_range, settings.delays, settings.window)
        state.drift.begin_epoch()
        logger.info("%s", state.selection.describe_sharing(state.pool, settings.share_data, recommendation))

    def __getstate__(self) -> PortfolioState:
        return self._state  # a lock cannot be copied

    def __setstate__(self, state: PortfolioState) -> None:
        self._lock, self._state = RLock(), state
        claim(state.selection.selector, self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        with self._lock:  # no other thread may change what is being copied
            copy = memo[id(self)] = self.__class__.__new__(self.__class__)
            copy.__setstate__(deepcopy(self._state, memo))
            return copy

    def __repr__(self) -> str:
        return f"Portfolio({[learner for learner in self.learners if learner is not None]}, {self.selector})"

    @property
    def settings(self) -> PortfolioSettings:
        """The settings, as they are now."""
        return self._state.settings

    @property
    def declared(self) -> PortfolioSettings:
        """The settings as a constructor or file gave them, but for `reward_range`, which is the one in effect."""
        with self._lock:
            return replace(self._state.declared, reward_range=self._state.reward_range)

    @property
    def declared_learners(self) -> tuple[str | None, ...] | None:
        """The names of the learners in the declaration, None for those added at run time; None if it is not known."""
        return self._state.pool.declared

    @property
    def schema(self) -> Schema | None:
        """The schema with the order of its columns and the scales learned so far, to make offers of features."""
        return self._state.inputs.schema

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Lowest and highest reward; None if there are no limits."""
        return self._state.reward_range

    @property
    def learners(self) -> tuple[Any, ...]:
        """The given learners by index; None for one that was removed."""
        return self._state.pool.learners

    @property
    def learner_names(self) -> tuple[str, ...]:
        """The names of the learners, unique in this portfolio."""
        return self._state.pool.names

    @property
    def selector(self) -> Any:
        """The given selector."""
        return self._state.selection.selector

    @property
    def recommendation(self) -> str:
        """Why the portfolio has its selector, if it was given none; else empty."""
        return self._state.recommendation

    @property
    def pending(self) -> tuple[str, ...]:
        """The ids of the decisions that have no reward yet."""
        with self._lock:
            return tuple(self._state.tickets.open)

    @property
    def n_pending(self) -> int:
        """The number of decisions that have no reward yet."""
        return len(self._state.tickets.open)

    @property
    def waiting_bytes(self) -> int:
        """About how much memory rewarded rounds take that wait behind a missing reward."""
        with self._lock:
            return self._state.waiting_bytes

    def open_decisions(self) -> dict[str, tuple[int | None, Context]]:
        """Return acting learner (None: no learner) and context of each decision that has no reward yet, by its id."""
        with self._lock:
            pairs = zip(self._state.tickets.open.heads(), self._state.tickets.open.contexts(), strict=True)
            return {head.id: (head.learner, context) for head, context in pairs}

    @property
    def unfinished(self) -> frozenset[str]:
        """The ids of the decisions that are open, or that a learner still has to learn from."""
        with self._lock:
            return frozenset(self._state.tickets.open) | self._state.updates.waiting_ids()

    def check_finished(self, ids: Iterable[str]) -> None:
        """Raise an error that names the first of these decisions that is not finished, if there is one."""
        unfinished = self.unfinished
        for id_ in ids:
            if id_ in unfinished:
                raise InvalidArgument(f"id {id_!r} is open, or waits to be learned, but only closed ones can go")

    @property
    def time(self) -> float:
        """Time of the last call, in seconds."""
        return self._state.tickets.time

    @property
    def restarted_settings(self) -> tuple[frozenset[str], float]:
        """The settings of the selector that restarts after drift have changed, and the delta that it began with."""
        with self._lock:
            return self._state.drift.changed_settings, self._state.drift.delta

    @property
    def failed_updates(self) -> tuple[FailedUpdate, ...]:
        """Updates that learners failed to make, the oldest first; see `retry_updates`."""
        with self._lock:
            return self._state.updates.failed

    @property
    def history(self) -> History:
        """What the portfolio looked like at log-spaced rounds, and what happened to its learners; a copy."""
        with self._lock:
            return deepcopy(self._state.history)

    def decide(
        self,
        context: Any,
        *,
        offers: Any = None,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        propensity: bool = False,
        unit: str | None = None,
        pmf: bool = False,
        deferred: str = "",
    ) -> Decision:
        """Choose a learner and return its action in this context.

        Arrays, lists, tuples and dicts are copied; a context of another type must not change before its reward is
        learned.

        Parameters
        ----------
        context
            What the learners decide on. With a schema, a dict of features, a row of a data frame, a named tuple or a
            dataclass has the features that all offers share.
        offers
            The offers of the round, each a dict with its "id", its "features", or both. Default: the context has them,
            or the actions are the `action_names`.
        id
            Your own id of the decision. A repeated call with the same id and context returns the same decision.
        available
            Names of the learners that may act in this round. They may depend on the context: the draw ignores them, and
            if the learner that was drawn is not among them, a substitute acts for it. Default: all.
        at
            Time of the decision, in seconds; used for deadlines. Default: by the clock.
        propensity
            Whether to compute the propensity of the action, which may ask every learner. It is computed anyway if the
            selector asks every learner, and with an exploration floor.
        unit
            Who is asked, such as a visitor. Until `sticky` has passed since its decision, the unit gets this decision
            again, and no round is drawn, also for a new `id`. A new round is decided if the action is not offered now,
            or if `available` excludes its learner.
        pmf
            Whether to compute the probabilities of all actions, which asks every learner.
        deferred
            Name under which `activate` lets this decision count, until its deadline. Default: it counts at once.
        """
        with self._lock:
            asked: Config = {"propensity": propensity, "unit": unit, "pmf": pmf, "deferred": deferred}
            return self._state.decide(context, offers=offers, id=id, available=available, at=at, **asked)

    def slate(
        self,
        context: Any,
        k: int,
        *,
        offers: Any = None,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        propensity: bool = False,
        unit: str | None = None,
    ) -> tuple[Decision, ...]:
        """Fill `k` slots with different offers; return a decision for each, all or, after an error, none.

        Every slot is a round of its own, decided without the offers of the slots before it, with its own propensity and
        reward: slots count as independent. With an `id`, their ids are `id`, `id/2`, `id/3` and so on.

        >>> from equipoise.learners import UCB
        >>> portfolio = Portfolio([UCB(3)])
        >>> [slot.action_id for slot in portfolio.slate(None, 2, offers=[{"id": "a"}, {"id": "b"}, {"id": "c"}])]
        ['a', 'b']
        """
        with self._lock:
            context = self._state.inputs.read(context, offers)
            return slates.decide(
                self._state, context, k, id=id, available=available, at=at, propensity=propensity, unit=unit
            )

    def kept_decision(
        self,
        context: Any,
        unit: str | None = None,
        *,
        offers: Any = None,
        id: str | None = None,
        available: Iterable[str] | None = None,
        at: float | None = None,
        slot: int = 1,
    ) -> Decision | None:
        """Return the decision that `decide` would repeat for an id or a unit; None if it would decide a round."""
        with self._lock:
            return self._state.repeated(self._state.inputs.read(context, offers), id, unit, available, at, slot)

    @property
    def units_bytes(self) -> int:
        """Return about how many bytes the decisions take that units keep."""
        return self._state.units.nbytes

    def learn(
        self,
        decision: Decision | str,
        reward: float,
        outcome: Outcome = None,
        regret: float | None = None,
        *,
        key: str | None = None,
        at: float | None = None,
    ) -> None:
        """Learn from the reward of a decision.

        Learners learn from `outcome` instead of the action if there is more to learn from (the trajectory of an
        episode). `regret` is what the play adds to the learner's observed regret bound, if that is known only now.
        `key` identifies a reward among several of the same decision. A learner that raises an error loses this update,
        which is kept in `failed_updates`; the decision is closed all the same.
        """
        with self._lock:
            state, before = self._state, self._state.tickets.time
            state.admit(at)
            try:
                if outcome is not None:
                    if state.savable:
                        check_savable(tuple(outcome) if isinstance(outcome, tuple) else outcome, "outcome")
                    outcome = copy_if_mutable(outcome)
                state.learn(decision, reward, outcome, regret, key)
            except BaseException:
                state.tickets.time = before
                raise
            if state.settings.deadline is not None:
                state.expire(MAX_EXPIRED)

    def counted(self, reward: float) -> float:
        """Return a reward as it counts: clipped to the range, if the portfolio clips."""
        return self._state.counted(reward)

    def activate(self, name: str, *, at: float | None = None) -> int:
        """Let the decisions deferred under a name count, and learn rewards that waited; return how many there were."""
        with self._lock:
            return deferring.activate(self._state, name, at)

    def withdraw(self, decision: Decision | str) -> None:
        """Withdraw an open decision whose round did not happen: its play does not count and no learner learns from it.

        Its id is not used again.
        """
        with self._lock:
            ticket = self._state.tickets.find_open(decision)
            self._state.updates.check_untouched(ticket)
            self._state.withdraw(ticket)

    def regret_of(self, decision: Decision | str, outcome: Outcome) -> float:
        """Return what a play adds to the observed regret bound, if its learner tells that only now; nan otherwise."""
        with self._lock:
            return self._state.regret_of(self._state.tickets.find_open(decision), outcome)

    def expire(self, limit: int | None = None, *, at: float | None = None, extended: bool = True) -> int:
        """Give overdue decisions their default reward, at most `limit` of them; return the number of these.

        Every call of `decide` and `learn` does this for a few. `extended=False` ignores that deadlines were extended.
        """
        limit = None if limit is None else count("limit", limit)
        with self._lock:
            return self._state.expire_at(limit, at, extended=boolean("extended", extended))

    def extend_deadlines(self, seconds: float, *, at: float | None = None) -> int:
        """Let the last `seconds`, in which no reward could arrive, not count; return the number of open decisions."""
        with self._lock:
            return self._state.extend_deadlines(real("seconds", seconds), at)

    def retry_updates(self) -> int:
        """Try failed updates again, the oldest first; return how many succeeded."""
        with self._lock:
            return self._state.retry_updates(None)

    def add_learner(self, learner: MinimalLearner, *, bound: Bound | None = None) -> str:
        """Add a learner to the running portfolio, with a bound if the selector needs one; return its name."""
        with self._lock:
            return joining.add_learner(self._state, learner, bound)

    def remove_learner(self, name: str) -> None:
        """Remove a learner: it plays and learns no more. Its open decisions may still get their rewards."""
        with self._lock:
            joining.remove_learner(self._state, name)

    def rename_learner(self, name: str, new: str) -> None:
        """Give a learner another name."""
        with self._lock:
            self._state.pool.rename(name, new)

    def suspend(self, name: str) -> None:
        """Let a learner play no more until it is resumed; it continues to learn."""
        with self._lock:
            self._state.pool.suspend(name)

    def resume(self, name: str) -> None:
        """Let a learner play again that was suspended, by request or because of failures."""
        with self._lock:
            self._state.pool.resume(name)

    def reconfigure(self, **changes: Plain) -> None:
        """Change settings of the running portfolio: all that are given or, after an error, none.

        `selector` is a dict of settings that the selector can change; the other names are settings of the portfolio
        that may change while it runs.
        """
        with self._lock:
            self._state.reconfigure(changes)
            if not self._state.events.listeners.callbacks:  # else every decision has a time
                self._state.tickets.stamp()

    def declare(
        self, wanted: PortfolioSettings, *, learners: Sequence[str | None] | None = None, check_only: bool = False
    ) -> None:
        """Change the settings in which a file or constructor differs from what it declared before.

        A setting that may not change is refused by name; with `check_only`, nothing else is done. Settings that were
        changed at run time, by `reconfigure`, stay unless their declaration changes. `learners` are the names of the
        learners in the declaration; see `equipoise.journal.declaring`.
        """
        with self._lock:
            self._state.declare(wanted, learners, check_only=check_only)

    def warm_start(
        self, log: AnyLog, *, learners: Iterable[str] | None = None, evidence: bool = False, seed: int = 0
    ) -> WarmStart:
        """Let learners learn the rounds of a log before they play; return which did, which did not, and why.

        All rounds are learned or, after an error, none. The selector starts without evidence, unless `evidence`: then
        the portfolio plays the log by rejection, and every learner learns the rounds that it plays; if a round cannot
        be decided, those before it stay played.

        Parameters
        ----------
        log
            `equipoise.logs.open_log(...)`, or a list of `LoggedRound`. Check its health first.
        learners
            Names of the learners, which must not have played. Default: all, before the first decision.
        evidence
            Whether rounds that the portfolio would have decided as logged count as played. The log must have the
            probability of every offered action, and contexts and rewards must be distributed as live ones.
        seed
            Seed of the thinning of rounds, with `evidence`.

        Examples
        --------
        >>> import numpy as np
        >>> from equipoise.learners import OFUL
        >>> from equipoise.portfolio.warm_start import LoggedRound
        >>> portfolio = Portfolio([OFUL(2), OFUL(1)])
        >>> log = [LoggedRound(np.eye(2), action=0, reward=1.0, propensity=0.5)] * 20
        >>> print(portfolio.warm_start(log).learners[0].reason)
        as logged
        """
        with self._lock:
            if not boolean("evidence", evidence):
                return warm_start.learn_log(self._state, log, learners)
            replay = self.replay_log(log, learners=learners, seed=seed)
            while replay.advance():
                pass
            return replay.result()

    def replay_log(
        self,
        log: AnyLog,
        *,
        learners: Iterable[str] | None = None,
        seed: int = 0,
        now: Callable[[], float | None] = lambda: None,
    ) -> LogReplay:
        """Return a replay of a log by rejection, which plays some rounds at a time; `now` gives the time of each."""
        if learners is not None:
            raise InvalidArgument("learners is given with evidence, but every learner learns the rounds that it plays")
        with self._lock:
            return LogReplay(self, self._state, self._lock, log, seed, now)

    def apply(self, event: Event, learner: MinimalLearner | None = None) -> None:
        """Fold an event into the state, as recovery from a log does; see `equipoise.portfolio.events`.

        A learner that was added and whose class is not registered must be given as `learner`, as it was then.
        """
        with self._lock:
            folding.apply(self, self._state, event, learner)

    def give_fallback(self, fallback: object) -> None:
        """Give a fallback that is a function again, which files and journals cannot keep."""
        with self._lock:
            if callable(fallback) and self._state.settings.fallback is lost_function:
                self._state.adopt(replace(self._state.settings, fallback=fallback))

    def note_rule(self) -> None:
        """Announce that the selector has another version of its rule than when the portfolio was last used."""
        with self._lock:
            self._state.note_rule(self._state.selection.rule_version)

    def end_id_epoch(self) -> None:
        """Begin a new epoch of ids: two portfolios recovered from one journal must not give out the same ids."""
        with self._lock:
            self._state.tickets.ids.end_epoch()

    def on_event(self, callback: Callback) -> None:
        """Call `callback` with every `Event`, after it happened. If it raises an error, that is logged."""
        self._state.events.listeners.add(callback)

    def on_elimination(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with every elimination, after it happened. If it raises an error, that is logged."""
        self._state.events.add_on_elimination(callback)

    def certificate(self) -> Certificate:
        """Return what the rewards prove, with confidence 1 - `delta` - `learners_delta` of the certificate.

        A round that no learner played counts with the width of the reward range, the most it can cost.
        """
        with self._lock:
            return self._state.reporter.certificate()

    def compare(self, learner: int | str, other: int | str) -> Comparison:
        """Return how much more regret per play one learner has had than another; they are given by index or name."""
        with self._lock:
            return self._state.reporter.compare(learner, other)

    def standing(self) -> list[Standing]:
        """Return how every learner is doing, one row per learner."""
        with self._lock:
            return self._state.reporter.standing()

    def statements(self) -> Statements:
        """Return everything that the portfolio states, as values: certificate, rewards, drift, learners."""
        with self._lock:
            return self._state.reporter.statements()

    def describe(self) -> str:
        """Return certificate and standing in sentences, one line for the certificate and one for each learner.

        The last line says why the portfolio has its selector, if it was given none.
        """
        return text.describe(self.statements())

    def explain(self, name: str, *, with_rule: bool = True) -> str:
        """Return why a learner plays as often as it does, in sentences; `with_rule` adds the rule of the selector."""
        with self._lock:
            return text.explain(self._state.reporter.explanation(name), with_rule=with_rule)

    def health(self) -> Config:
        """Return plain data for an operator: open, overdue and blocking decisions, failures, times."""
        with self._lock:
            return self._state.reporter.health()

    def to_json(self) -> Config:
        """Return certificate and standing as plain data."""
        return self.statements().to_json()

    def records(self, path: str | Path | None = None, *, pairs: Iterable[tuple[str, str]] = ()) -> list[Record]:
        """Return all eliminations, and comparisons of pairs of learners, as records that anyone can verify.

        Parameters
        ----------
        path
            File to write them to, one JSON object per line, for `equipoise verify`. Default: none.
        pairs
            Names of learners to be compared with each other, as `compare` does. Default: none.
        """
        with self._lock:
            records = self._state.reporter.records(pairs)
        if path is not None:
            write_atomic(Path(path), "".join(json.dumps(record) + "\n" for record in records).encode())
        return records

    def plot(self, path: str | Path | None = None) -> Figure | None:
        """Draw shares of plays, mean rewards and certified regret over time, with marks. Needs `equipoise[lab]`.

        Return the figure if there is no path.

        Parameters
        ----------
        path
            File to write: a page with explanations if it ends in .html, else the figure as .png or .svg.
        """
        require_package("portfolio.plot()", "matplotlib")
        from equipoise.lab.report import portfolio_page

        with self._lock:
            if path is None:
                return portfolio_page.draw(self)
            portfolio_page.write(self, Path(path))
            return None

    def save(self, path: str | Path) -> None:
        """Write everything to a file, including open decisions; if that fails, an old file remains unchanged."""
        write_part(path, "portfolio", self.state())

    @classmethod
    def load(
        cls,
        path: str | Path,
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
        changes: Mapping[str, Plain] | None = None,
    ) -> Self:
        """Read a saved portfolio; it continues exactly as the saved one would have.

        Registered classes are created from the file. For other classes, pass all learners in order, or the selector,
        created with the same settings; they are compared with what was saved. `changes` are passed to `reconfigure`.
        """
        if changes is not None and not isinstance(changes, Mapping):
            raise InvalidArgument(f"changes is {changes!r:.80}, but must be a dict of settings")
        portfolio = cls.from_state(read_part(path, "portfolio"), learners, selector)
        portfolio.note_rule()
        if changes:
            portfolio.reconfigure(**changes)
        return portfolio

    def state(self) -> Config:
        """Return everything as plain data: settings, learned state, open decisions."""
        return made(self.frozen())  # type: ignore[no-any-return]

    def frozen(self) -> Config:
        """Return the same for the codec, in little time: most entries are made when they are written."""
        with self._lock:
            return self._state.to_plain()

    @classmethod
    def from_state(
        cls,
        state: Mapping[str, Plain],
        learners: Sequence[MinimalLearner] | None = None,
        selector: Selector | None = None,
    ) -> Self:
        """Return the portfolio that `state` returned; `learners` and `selector` are as in `load`."""
        portfolio = cls.__new__(cls)
        portfolio.__setstate__(PortfolioState.from_plain(state, learners, selector))
        return portfolio

    def rehearsal(self) -> Self:
        """Return a copy to try changes on; it announces them to no callback and not to the log."""
        copy = deepcopy(self)
        copy._state.events.listeners.logs = False
        return copy


if Portfolio.__doc__ is not None:  # not with python -OO
    _settings = "".join(f"    {line}\n" for line in parameter_docs().splitlines())
    Portfolio.__doc__ = Portfolio.__doc__.replace("    {settings}\n", _settings)
