"""Base class of selectors that draw experts: learners, or greedy plays of learners, with known probabilities.

Each expert has an account of its own plays. A play is numbered among all plays of its learner, and its entry in the
ledger keeps the probabilities of the round and, once they are observed, which experts proposed the same action. Between
rounds the rows of the experts hold neither: they are loaded from the entry for as long as a kernel needs them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np

from equipoise.certificates import Certificate, Elimination, Side, Standing
from equipoise.certificates.pairs import ExpertName, PairedCertificate
from equipoise.confidence import radius_sum
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.learner import Proposal, Proposals
from equipoise.selector import Choice
from equipoise.selectors._core import pairs
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.evidence import Account
from equipoise.selectors._core.ledger import Entry
from equipoise.selectors._core.pairs import Expert
from equipoise.selectors._core.proposals import blank_proposals
from equipoise.settings import equal_data
from equipoise.settings.checks import real
from equipoise.types import Action, AnyArray

UNSEEN = -2  # the action of an expert whose proposal is not known yet
ABSENT = object()  # that of an expert that was not asked, in a round without evidence


class ExpertSelector(EvidenceSelector[Any, Any]):
    """A selector whose state has rows of experts and tables of their pairs."""

    experts: tuple[tuple[int, bool], ...]  # learner, and whether its greedy action is played
    _rows: list[Expert]

    def _set_up(self) -> None:
        self._expert_of = {expert: e for e, expert in enumerate(self.experts)}
        self._same_learner = [[k for k, (j, _) in enumerate(self.experts) if j == i] for i, _ in self.experts]
        super()._set_up()

    @property
    def n_accounts(self) -> int:
        """Number of experts, each of which has an account of its own plays."""
        return len(self.experts)

    @property
    def pool_size(self) -> int:
        """Number of learners."""
        return self.n_learners

    def _player(self, account: int) -> int:
        return self.experts[account][0]

    def _odds(self) -> tuple[float, ...]:
        """The probabilities of the next round; may leave them in the rows."""
        raise NotImplementedError  # abstract

    def _match(self, entry: Entry, reward: float) -> None:
        """Add a reward that has arrived to what the next draw depends on; the rows hold its round."""
        raise NotImplementedError  # abstract

    @property
    def probabilities(self) -> dict[tuple[int, bool], float]:
        """The probability of each expert, a learner or (with True) its greedy twin, in the next round."""
        drawn = dict(zip(self.experts, self._odds(), strict=True))
        self._clear()
        return drawn

    def _choose(self, rng: np.random.Generator | None) -> Choice:
        e, chance = self.kernels.choose(self.params, self.kernel_state, rng)
        return self._open(e, chance, tuple(row.probability for row in self._rows))

    def _chances(self) -> tuple[float, ...]:
        odds = self._odds()
        self._clear()
        return tuple(self._learner_chance(i, odds) for i in range(self.n_learners))

    def _replay(self, choice: Choice, available: Collection[int] | None) -> None:
        e, hidden = self._expert(choice), () if available is None else self._hide(available)
        odds = self._odds()
        self._clear()
        self._show(hidden)
        if choice.probability != self._learner_chance(e, odds) or not odds[e] > 0.0:
            raise InvalidArgument(f"choice is {choice}, but that play has probability {odds[e]} now")
        self._open(e, odds[e], odds)

    def propensity(self, choice: Choice) -> float:
        """The probability, given context and proposals, with which the action of an open play was played."""
        entry = self._seen(choice)
        self._enter(entry)
        total = pairs.propensity(self.kernel_state.credit, entry.learner)
        self._clear()
        return total

    def taught_by(self, choice: Choice) -> tuple[int, ...]:
        """The learners that learn from an open play."""
        entry = self._seen(choice)
        self._enter(entry)
        rows = self._rows
        drawn = rows[entry.learner]
        taught = tuple(i for i in range(self.n_learners) if pairs.learns(rows[i], drawn, rows[i].action))
        self._clear()
        return taught

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats; raises what `credit` would raise and changes nothing."""
        checked = super().check_credit(self._inner(choice), reward, regret)
        self._seen(choice)
        return checked

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Record the proposals of all learners; a learner with a twin must have a greedy action."""
        super().observe(self._inner(choice), proposals)

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[Elimination, ...]:
        """Credit the reward of a play, in any order and however late."""
        number, _ = self.check_credit(choice, reward, regret)
        entry = self._seen(choice)
        self._enter(entry)
        # Who is drawn next may depend on all rewards so far; accounts and certificates wait for earlier ones.
        self._match(entry, number)
        self._clear()
        return super().credit(self._inner(choice), number, regret)

    def withdraw(self, choice: Choice) -> tuple[Elimination, ...]:
        """Remove an open play, as if its round had not happened."""
        e, eliminations = self._expert(choice), super().withdraw(self._inner(choice))
        self._ledger.share_tickets(e, self._same_learner[e])
        return eliminations

    def standing(self) -> list[Standing]:
        """The standing of each learner, with the plays of its twin."""
        rows = super().standing()
        for (i, greedy), account in zip(self.experts, self.evidence.accounts, strict=True):
            if greedy and account.plays > 0:
                rows[i] = self._joined(rows[i], account, rows[self._expert_of[i, True]])
        return rows[: self.n_learners]

    def blocking(self) -> dict[int, tuple[int, int]]:
        """For each learner whose rewards wait: the first play that they wait for, and how many they are."""
        blocked: dict[int, tuple[int, int]] = {}
        for e, (play, n_waiting) in super().blocking().items():
            first, others = blocked.get(self._player(e), (play, 0))
            blocked[self._player(e)] = min(first, play), others + n_waiting
        return blocked

    def certificate(self) -> Certificate:
        """What the rewards so far prove about the optimum and the regret."""
        certificate = super().certificate()
        lowers = [0.0] * self.n_learners
        for (i, _), lower in zip(self.experts, certificate.learner_regret_lowers, strict=True):
            lowers[i] += lower
        return replace(certificate, learner_regret_lowers=tuple(lowers))

    def _side(self, i: int) -> Side:
        """The plays of learner i itself; those of its twin do not count."""
        side, twin = super()._side(i), self._expert_of.get((i, True))
        return side if twin is None else replace(side, pending=side.pending + self.evidence.accounts[twin].plays)

    def paired_certificate(self, better: tuple[int, bool], worse: tuple[int, bool]) -> PairedCertificate:
        """What is proved about two experts, learners or (with True) greedy twins, with a delta of its own.

        It certifies past proposals, and no learner is eliminated by it: one that still learns may overtake.
        """
        if self.confidence.noise is not None:
            raise InvalidArgument(f"noise is {self.confidence.noise!r}, but must be None: rewards need known limits")
        ends = []
        for expert in (better, worse):
            if expert not in self._expert_of:
                raise InvalidArgument(f"expert is {expert!r}, but must be one of {', '.join(map(str, self.experts))}")
            ends.append(self._expert_of[expert])
        j, k = ends
        if j == k:
            raise InvalidArgument(f"worse is {worse!r}, but must be another expert than better")
        tables, n = self.kernel_state.credit, self.n_accounts
        forth, back = tables.pairs[j * n + k], tables.pairs[k * n + j]
        gain, squares = forth.gain - back.gain, forth.gain_squares + back.gain_squares
        names = ExpertName(*better), ExpertName(*worse)
        rounds = tables.spread[0].closed
        return PairedCertificate(rounds, *names, gain, squares, n, self.reward_range, self.delta)

    def from_arrays(self, state: Any) -> None:
        """Load a state from compiled code."""
        super().from_arrays(state)
        self._clear()

    def _load(self, state: Mapping[str, AnyArray]) -> None:
        super()._load(state)
        for row in state["ledger.proposals.probabilities"].tolist():
            if abs(sum(row) - 1.0) > 1e-9:
                raise InvalidArgument(f"state ledger.proposals.probabilities has a row {row}, but it must sum to 1")

    def _joined(self, row: Standing, account: Account, twin: Standing) -> Standing:
        """The row of a learner with the plays of its twin; the lower mean of either is a bound on the optimum."""
        own, n = row.plays - row.pending, account.booked_plays
        plays, resolved = row.plays + account.plays, own + n
        if n > 0:
            share, radius = n / resolved, radius_sum(self.confidence.radius, n) / n
            row = row._replace(
                mean_reward=_mixed(row.mean_reward, account.rewards / n, share),
                mean_radius=_mixed(row.mean_radius, radius, share),
                mean_bound=_mixed(row.mean_bound, account.booked_bound / n, share),
                mean_lower=max(account.mean_lower, row.mean_lower if own else -inf),
                mean_upper=min(account.mean_upper, row.mean_upper if own else inf),
            )
        left_out, waiting = row.left_out + twin.left_out, row.waiting + twin.waiting
        return row._replace(plays=plays, pending=plays - resolved, left_out=left_out, waiting=waiting)

    def _open(self, e: int, chance: float, odds: tuple[float, ...]) -> Choice:
        learner, greedy = self.experts[e]
        choice = Choice(learner, self._begin(e, chance), self._learner_chance(e, odds), greedy=greedy)
        blank = blank_proposals(self.n_accounts)
        self._ledger.share_tickets(e, self._same_learner[e])
        entry = self._ledger.entry(e, choice.play)
        entry.proposals = blank._replace(actions=(UNSEEN,) * self.n_accounts, probabilities=odds)
        self._clear()
        return choice

    def _learner_chance(self, e: int, odds: tuple[float, ...]) -> float:
        """The probability of the learner of expert e, however it plays."""
        return sum(odds[k] for k in self._same_learner[e])

    def _expert(self, choice: Choice) -> int:
        e = self._expert_of.get((choice.learner, bool(choice.greedy)))
        if e is None:
            raise UnknownDecision(f"no expert has learner {choice.learner!r} with greedy {choice.greedy!r}")
        return e

    def _inner(self, choice: Choice) -> Choice:
        """The choice with its expert in place of the learner, as the ledger knows it."""
        return choice._replace(learner=self._expert(choice))

    def _seen(self, choice: Choice) -> Entry:
        """The entry of an open play whose proposals are known."""
        entry = self._ledger.entry(self._expert(choice), choice.play)
        if entry.proposals is None or entry.proposals.actions[0] == UNSEEN:
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return entry

    def _gather(self, entry: Entry, proposals: Mapping[int, Proposal], left_out: bool) -> Proposals:
        actions: list[Action] = []
        agreement = any(row.teaching == pairs.AGREED for row in self._rows)
        for i, greedy in self.experts:
            if i not in proposals and left_out and i != self._player(entry.learner):
                actions.append(ABSENT)
                continue
            if i not in proposals:
                raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {i} too")
            action = proposals[i].greedy if greedy else proposals[i].action
            if greedy and action is None:
                raise InvalidArgument(f"greedy of learner {i} is None, but it has a twin and must have a greedy action")
            if agreement and isinstance(action, float | np.floating | np.ndarray):
                raise InvalidArgument(
                    f"{'greedy' if greedy else 'action'} of learner {i} is {action!r:.60}, but teaching has 'agreed': "
                    "in a continuous set no two learners propose the same action"
                )
            actions.append(action)
        assert entry.proposals is not None
        values = [_value(i, proposals[i].value) if i in proposals else nan for i in range(self.n_learners)]
        values += [nan] * (self.n_accounts - self.n_learners)
        return entry.proposals._replace(actions=indices(actions), values=tuple(values))

    def _enter(self, entry: Entry) -> None:
        """Write the probabilities and actions of a round into the rows."""
        assert entry.proposals is not None
        for row, action, chance in zip(self._rows, entry.proposals.actions, entry.proposals.probabilities, strict=True):
            row.action, row.probability = action, chance

    def _clear(self) -> None:
        for row in self._rows:
            row.action, row.probability = -1, 0.0

    def _close_round(self, entry: Entry) -> None:
        self._enter(entry)
        limits, tables = self.params.evidence, self.kernel_state.credit
        pairs.add_round(limits, tables, entry.learner, entry.reward, choosing=False, certifying=True)
        self._clear()


def _value(i: int, value: float) -> float:
    # nan, which means unknown, is the only value that differs from itself.
    return nan if value != value else real(f"value of learner {i}", value)


def _mixed(old: float, new: float, share: float) -> float:
    """The mean of two means, the new one with weight `share`; the old one is nan if that is 1."""
    return new if share == 1.0 else (1.0 - share) * old + share * new


def indices(actions: Sequence[Action]) -> tuple[int, ...]:
    """For each action the position of the first one that is equal to it; -1 if there is no action.

    >>> indices([3, 1, 3]), indices([np.array([1.0, 0.0]), np.array([1.0, 0.0])])
    ((0, 1, 0), (0, 0))
    """
    if all(type(action) is int for action in actions):
        return tuple(actions.index(action) for action in actions)
    return tuple(
        -1 if action is ABSENT else next(k for k, other in enumerate(actions) if equal_data(action, other))
        for action in actions
    )
