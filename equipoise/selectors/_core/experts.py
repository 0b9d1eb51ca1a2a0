"""Base class of selectors that draw experts: learners, or greedy plays of learners, with known probabilities.

Each expert has an account of its own plays. A play is numbered among all plays of its learner, and its entry in the
ledger keeps the probabilities of the round and, once they are observed, which experts proposed the same action. The
rows of the experts hold those of the round that a kernel has worked on last: they are loaded from the entry when a
kernel needs them, and are not part of what is saved.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np

from equipoise.bounds import Bound
from equipoise.certificates import Certificate, Comparison, Elimination, Side, Standing
from equipoise.certificates.pairs import ExpertName, LatePair, PairedCertificate
from equipoise.confidence import radius_sum
from equipoise.errors import InvalidArgument, UnknownDecision
from equipoise.kernels.records import check_shapes
from equipoise.learner import Proposal, Proposals
from equipoise.selector import Choice
from equipoise.selectors._core import pairs
from equipoise.selectors._core.base import EvidenceSelector
from equipoise.selectors._core.ledger import Entry
from equipoise.selectors._core.pairs import Expert
from equipoise.selectors._core.proposals import ABSENT, blank_proposals, check_value, indices
from equipoise.selectors._core.ways import Way
from equipoise.types import Action, AnyArray, State

UNSEEN = -2  # the action of an expert whose proposal is not known yet
UNASKED = -1  # that of an expert that cannot be drawn in the round
ACTION, GREEDY = Proposal._fields.index("action"), Proposal._fields.index("greedy")


class ExpertSelector(EvidenceSelector[Any, Any]):
    """A selector whose state has rows of experts and tables of their pairs."""

    balances = False
    compares_all = False  # an expert that cannot propose has probability 0
    refuses_learners = ""

    experts: tuple[tuple[int, bool], ...]  # learner, and whether its greedy action is played
    _rows: list[Expert]

    def _set_up(self) -> None:
        self._index_experts()
        super()._set_up()

    def _index_experts(self) -> None:
        self._expert_of = {expert: e for e, expert in enumerate(self.experts)}
        self._same_learner = [[k for k, (j, _) in enumerate(self.experts) if j == i] for i, _ in self.experts]
        self._own = [e for e, (_, greedy) in enumerate(self.experts) if not greedy]  # row of each learner
        self._agreement = any(row.teaching == pairs.AGREED for row in self._rows)
        self._everybody = tuple(range(len(self._own)))
        self._learners = frozenset(self._everybody)
        self._proposed = [(i, GREEDY if greedy else ACTION) for i, greedy in self.experts]
        self._shared = all(row.teaching == pairs.ALL for row in self._rows)
        self._blank = blank_proposals(len(self.experts))

    @property
    def n_accounts(self) -> int:
        """Number of experts, each of which has an account of its own plays."""
        return len(self.experts)

    @property
    def pool_size(self) -> int:
        """Number of learners."""
        return len(self._own)

    @property
    def active(self) -> tuple[int, ...]:
        """The learners that may be chosen."""
        accounts = self.evidence.accounts
        return tuple([i for i, e in enumerate(self._own) if accounts[e].active])

    def _player(self, account: int) -> int:
        return self.experts[account][0]

    def _accounts_of(self, i: int) -> tuple[int, ...]:
        return tuple(self._same_learner[self._own[i]])

    def _open_accounts(self, i: int, bound: Bound | None, share: float) -> None:
        way: Way = self._late[i].way
        known = len(self.experts)
        added = ((i, False), (i, True)) if way.twin else ((i, False),)
        self.experts += added
        self._rows.extend(Expert(i, greedy, way.teaching, known, way.twin and not greedy) for _, greedy in added)
        self._index_experts()
        pairs.add_pairs(self.kernel_state.credit, known)
        for _ in added:
            self._open_account(bound, share / len(added))
        n, unknown = len(added), (nan,) * len(added)
        self._ledger.widen(Proposals((-1,) * n, (-1,) * n, unknown, unknown, (0.0,) * n, unknown))
        self._renew_params()

    def _n_new_pairs(self, twin: bool) -> int:
        """The ordered pairs of experts that a learner adds; one that was removed is never drawn in the same round."""
        known, added = sum(i not in self._removed for i, _ in self.experts), 2 if twin else 1
        return added * (2 * known + added - 1)

    def _change_columns(self) -> dict[str, AnyArray]:
        ways = np.array([late.way for late in self._late.values()], np.int64)
        return {**super()._change_columns(), "added_ways": ways.reshape(-1, len(Way._fields))}

    def _check_changes(self, state: Mapping[str, AnyArray]) -> None:
        super()._check_changes(state)
        check_shapes(state, {"added_ways": (state["added"].size, len(Way._fields))})

    def _saved_way(self, state: Mapping[str, AnyArray], k: int) -> Way:
        teaching, twin, n_pairs = state["added_ways"][k].tolist()
        return Way(teaching, bool(twin), n_pairs)

    def _n_late_accounts(self, state: Mapping[str, AnyArray]) -> int:
        return int(state["added"].size + state["added_ways"][:, 1].sum())

    def _odds(self) -> tuple[float, ...]:
        """The probabilities of the next round; may leave them in the rows."""
        raise NotImplementedError  # abstract

    def _match(self, entry: Entry, reward: float, certifying: bool) -> None:
        """Add a reward that has arrived to what the next draw depends on, and, if no earlier round is open, to the
        sums of the certificates; the rows hold its round."""
        raise NotImplementedError  # abstract

    @property
    def probabilities(self) -> dict[tuple[int, bool], float]:
        """The probability of each expert, a learner or (with True) its greedy twin, in the next round."""
        return dict(zip(self.experts, self._odds(), strict=True))

    def _choose(self, rng: np.random.Generator | None) -> Choice:
        e, chance = self.kernels.choose(self.params, self.kernel_state, rng)
        return self._open(e, chance, tuple([row.probability for row in self._rows]))

    def _chances(self) -> tuple[float, ...]:
        odds = self._odds()
        return tuple(self._learner_chance(e, odds) for e in self._own)

    def _replay(self, choice: Choice, available: Collection[int] | None) -> None:
        e, hidden = self._expert(choice), () if available is None else self._hide(available)
        try:
            odds = self._odds()
            if choice.probability != self._learner_chance(e, odds) or not odds[e] > 0.0:
                raise InvalidArgument(f"choice is {choice}, but that play has probability {odds[e]} now")
            self._open(e, odds[e], odds)
        finally:
            self._show(hidden)

    def propensity(self, choice: Choice) -> float:
        """The probability, given context and proposals, with which the action of an open play was played."""
        entry, total = self._seen(choice), 0.0
        assert entry.proposals is not None
        actions, _, _, _, odds, _ = entry.proposals
        played = actions[entry.learner]
        for e, action in enumerate(actions):
            if action == played:
                total += odds[e]
        return total if total < 1.0 else 1.0  # rounding may leave more

    def taught_by(self, choice: Choice) -> tuple[int, ...]:
        """The learners that learn from an open play."""
        entry, rows, removed = self._seen(choice), self._rows, self._removed
        if self._shared and not removed:
            return self._everybody
        assert entry.proposals is not None
        actions, drawn = entry.proposals.actions, rows[entry.learner]
        played = actions[entry.learner]
        taught = [i for i, e in enumerate(self._own) if pairs.learns(rows[e], drawn, actions[e], played)]
        return tuple([i for i in taught if i not in removed])

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats; raises what `credit` would raise and changes nothing."""
        return self._check_credit(choice, self._seen(choice), reward, regret)

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Record the proposals of all learners; a learner with a twin must have a greedy action."""
        self._observe(choice, self._entry(choice), proposals)

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[Elimination, ...]:
        """Credit the reward of a play, in any order and however late."""
        return self._credit(choice, self._seen(choice), reward, regret)

    def _arrive(self, entry: Entry, reward: float) -> None:
        # Who is drawn next may depend on all rewards so far; accounts and certificates wait for earlier ones.
        self._enter(entry)
        certifying = self._ledger.is_first(entry) and not entry.left_out and self._in_epoch(entry)
        entry.certified = certifying  # with the tables for choosing, in one pass
        self._match(entry, reward, certifying)
        super()._arrive(entry, reward)

    def withdraw(self, choice: Choice) -> tuple[Elimination, ...]:
        """Remove an open play, as if its round had not happened."""
        e = self._expert(choice)
        eliminations = super().withdraw(choice._replace(learner=e))
        self._ledger.share_tickets(e, self._same_learner[e])
        return eliminations

    def standing(self) -> list[Standing]:
        """The standing of each learner, with the plays of its twin."""
        by_expert, rows, accounts = super().standing(), [], self.evidence.accounts
        for i, e in enumerate(self._own):
            row = by_expert[e]._replace(learner=i, active=accounts[e].active, removed=i in self._removed)
            twin = self._expert_of.get((i, True))
            if twin is not None and accounts[twin].plays > 0:
                row = self._joined(row, twin, by_expert[twin])
            rows.append(row)
        return rows

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
        lowers = [0.0] * self.pool_size
        for (i, _), lower in zip(self.experts, certificate.learner_regret_lowers, strict=True):
            lowers[i] += lower
        return replace(certificate, learner_regret_lowers=tuple(lowers))

    def compare(self, learner: int, other: int) -> Comparison:
        """How much more regret per play `learner` has had than `other`, each over plays of its own proposals."""
        accounts = tuple(len(self._accounts_of(i)) for i in range(self.pool_size))
        compared = super().compare(learner, other)
        return replace(compared, accounts=accounts) if max(accounts) > 1 else compared

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
        return PairedCertificate(
            rounds=tables.spread[0].closed,
            better=ExpertName(*better),
            worse=ExpertName(*worse),
            gain=forth.gain - back.gain,
            gain_squares=forth.gain_squares + back.gain_squares,
            n_experts=sum(i < self.n_learners for i, _ in self.experts),
            reward_range=self.reward_range,
            delta=self.delta,
            n_late=len(self._late),
            late=self._late_pair(max(better[0], worse[0])),
        )

    def _late_pair(self, i: int) -> LatePair | None:
        """What pairs of learner i with those before it spend; None if it was there from the start."""
        if i not in self._late:
            return None
        return LatePair(i - self.n_learners, self._late[i].way.n_pairs, self._late[i].round)

    def to_arrays(self) -> tuple[Any, Any]:
        """Params and state as arrays, for compiled code; the state is a copy."""
        self._clear()
        return super().to_arrays()

    def state(self) -> State:
        """The complete state, as arrays."""
        self._clear()
        return super().state()

    def _load(self, state: Mapping[str, AnyArray]) -> None:
        rows = state.get("credit.experts.learner")
        if rows is not None and not {"added_ways", "credit.experts.own", "credit.experts.has_twin"} & state.keys():
            # It was saved when no learner could be added.
            columns = {"own": rows, "has_twin": np.array([row.has_twin for row in self._rows])}
            state = {**state, **{f"credit.experts.{name}": column for name, column in columns.items()}}
            state["added_ways"] = np.zeros((0, len(Way._fields)), np.int64)
        super()._load(state)
        for row in state["ledger.proposals.probabilities"].tolist():
            if abs(sum(row) - 1.0) > 1e-9:
                raise InvalidArgument(f"state ledger.proposals.probabilities has a row {row}, but it must sum to 1")

    def _joined(self, row: Standing, e: int, twin: Standing) -> Standing:
        """The row of a learner with the plays of its twin e; the lower mean of either is a bound on the optimum."""
        account = self.evidence.accounts[e]
        own, n = row.plays - row.pending, account.booked_plays
        plays, resolved = row.plays + account.plays, own + n
        if n > 0:
            share, radius = n / resolved, radius_sum(self.confidence_of(e).radius, n) / n
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
        play, ledger = self._begin(e, chance), self._ledger
        ledger.share_tickets(e, self._same_learner[e])
        asked = tuple([UNSEEN if account.active else UNASKED for account in self.evidence.accounts])
        _, unasked, lowers, regrets, _, values = self._blank
        ledger.open_plays[e, play].proposals = Proposals(asked, unasked, lowers, regrets, odds, values)
        return Choice(learner, play, self._learner_chance(e, odds), greedy=greedy)

    def _learner_chance(self, e: int, odds: tuple[float, ...]) -> float:
        """The probability of the learner of expert e, however it plays."""
        return sum([odds[k] for k in self._same_learner[e]])

    def _expert(self, choice: Choice) -> int:
        e = self._expert_of.get((choice.learner, bool(choice.greedy)))
        if e is None:
            raise UnknownDecision(f"no expert has learner {choice.learner!r} with greedy {choice.greedy!r}")
        return e

    def _entry(self, choice: Choice) -> Entry:
        """The entry of an open play, which the ledger knows by its expert."""
        return self._ledger.entry(self._expert(choice), choice.play)

    def _seen(self, choice: Choice) -> Entry:
        """The entry of an open play whose proposals are known."""
        entry = self._entry(choice)
        if entry.proposals is None or entry.proposals.actions[entry.learner] == UNSEEN:
            play = f"play {choice.play} of learner {choice.learner}"
            raise InvalidArgument(f"proposals of {play} are unknown, but observe() must come before credit()")
        return entry

    def _gather(self, entry: Entry, proposals: Mapping[int, Proposal], left_out: bool) -> Proposals:
        assert entry.proposals is not None
        asked, unasked, lowers, regrets, odds, _ = entry.proposals
        if not self._learners <= proposals.keys():
            self._check_absent(self._player(entry.learner), asked, proposals, left_out)
        actions = [proposals[i][field] if i in proposals else ABSENT for i, field in self._proposed]
        if all([type(action) is int for action in actions]):
            positions = tuple([actions.index(action) for action in actions])
        else:
            self._check_actions(actions)
            positions = indices(actions)
        values = [check_value(i, proposals[i].value) if i in proposals else nan for i in self._everybody]
        values += [nan] * (len(actions) - len(values))
        return Proposals(positions, unasked, lowers, regrets, odds, tuple(values))

    def _check_absent(self, player: int, asked: Sequence[int], proposals: Collection[int], left_out: bool) -> None:
        for (i, _), action in zip(self.experts, asked, strict=True):
            may_be_absent = i != player and (left_out or action == UNASKED or i in self._removed)
            if i not in proposals and not may_be_absent:
                raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {i} too")

    def _check_actions(self, actions: Sequence[Action]) -> None:
        for (i, greedy), action in zip(self.experts, actions, strict=True):
            if greedy and action is None:
                raise InvalidArgument(f"greedy of learner {i} is None, but it has a twin and must have a greedy action")
            if self._agreement and isinstance(action, float | np.floating | np.ndarray):
                raise InvalidArgument(
                    f"{'greedy' if greedy else 'action'} of learner {i} is {action!r:.60}, but teaching has 'agreed': "
                    "in a continuous set no two learners propose the same action"
                )

    def _enter(self, entry: Entry) -> None:
        """Write the probabilities and actions of a round into the rows."""
        assert entry.proposals is not None
        actions, _, _, _, odds, _ = entry.proposals
        for row, action, chance in zip(self._rows, actions, odds, strict=True):
            row.action, row.probability = action, chance

    def _clear(self) -> None:
        for row in self._rows:
            row.action, row.probability = -1, 0.0

    def _close_round(self, entry: Entry) -> None:
        if not entry.certified:
            self._enter(entry)
            limits, tables = self.params.evidence, self.kernel_state.credit
            pairs.add_round(limits, tables, entry.learner, entry.reward, choosing=False, certifying=True)


def _mixed(old: float, new: float, share: float) -> float:
    """The mean of two means, the new one with weight `share`; the old one is nan if that is 1."""
    return new if share == 1.0 else (1.0 - share) * old + share * new
