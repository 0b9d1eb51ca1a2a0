"""What every selector made of kernels has in common: tickets, validation, standings, certificates, saving.

A selector is two things. Its *kernel* is a set of small functions over arrays that know only plays in order; the
simulator compiles and calls them directly. The *ledger* turns tickets and late rewards into such calls. This class
validates, holds both and forwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import isnan, nan
from typing import Any, ClassVar, NamedTuple, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from equipoise import bounds as bounds_module
from equipoise.bounds import BOUNDS, Bound, Custom, Observed
from equipoise.confidence import (
    Radius,
    lower_sum,
    make_radius,
    radius_alpha,
    radius_shares,
    radius_sum,
    upper_sum,
)
from equipoise.errors import InvalidArgument
from equipoise.learner import Proposal
from equipoise.ledger import Bookkeeping, Ledger
from equipoise.records import as_columns, as_records, check_columns, check_shapes, take_columns, take_records
from equipoise.selector import Certificate, Choice, Dropped, Elimination, Evidence, Standing
from equipoise.selectors import evidence
from equipoise.selectors.evidence import Rules, open_books, open_books_without_bounds
from equipoise.streams import SELECTOR, open_stream, seek
from equipoise.validation import count, interval, non_negative, one_of, positive, probability, real


class Kernels(NamedTuple):
    """The functions of a selector, all over (params, state, ...); i is a learner."""

    choose: Callable[..., tuple[int, float]]  # (generator) -> learner, probability
    book: Callable[..., None]  # (i, reward, regret, probability): a play was resolved, in play order
    open_play: Callable[..., None] = evidence.open_play  # (i)
    rewind: Callable[..., None] = evidence.rewind  # (i)
    play: Callable[..., None] = evidence.play  # (i, position, regret)
    pool: Callable[..., None] = evidence.pool  # (reward)
    close_round: Callable[..., None] = evidence.close_round  # (i, reward, regret, lowers, regrets), in round order
    certify: Callable[..., Any] = evidence.certify
    is_active: Callable[..., bool] = evidence.is_active  # (i)
    stage: Callable[..., int] = evidence.stage  # (i, probability, generator) right after choose -> TEACH, KEEP, REPLAY


class Settings(TypedDict, total=False):
    """What every selector over random or fixed contexts may be told; `BalancedElimination` says what it means."""

    delta: float
    reward_range: tuple[float, float]
    noise: float | None
    contexts: str
    radius: str
    radius_scale: float


def check_bounds(bounds: Any) -> tuple[Bound, ...]:
    """One candidate bound per learner, or what is wrong with them."""
    if not isinstance(bounds, Iterable):
        raise InvalidArgument(f"bounds is {bounds!r}, but must have one bound per learner")
    candidates = tuple(bounds)
    if not candidates:
        raise InvalidArgument("bounds is empty, but must have one bound per learner")
    for bound in candidates:
        if not isinstance(bound, tuple(BOUNDS.values())):
            raise InvalidArgument(f"bounds has {bound!r}, but every entry must be one of {', '.join(BOUNDS)}")
    return candidates


class BookedSelector:
    """A selector that keeps the books of `evidence`."""

    name: str
    needs: frozenset[str] = frozenset()
    randomized: ClassVar[bool] = False  # whether choosing draws random numbers
    lower_apart: ClassVar[bool] = False  # whether lower means have a stitched radius of their own
    readmits: ClassVar[bool] = False  # whether a learner that is not active may become so again
    per_learner: ClassVar[tuple[str, ...]] = ("bounds",)  # settings with one entry for each learner
    worlds: ClassVar[tuple[str, ...]] = ("random", "fixed")  # how contexts may come about
    kernels: ClassVar[Kernels]

    def __init__(
        self,
        n_learners: int,
        bounds: Sequence[Bound] | None,
        *,
        delta: float = 0.05,
        reward_range: tuple[float, float] = (0.0, 1.0),
        noise: float | None = None,
        contexts: str = "random",
        radius: str = "stitched",
        radius_scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.n_learners = count("n_learners", n_learners)
        self.bounds = None if bounds is None else tuple(bounds)
        self.delta = probability("delta", delta)
        self.reward_range = interval("reward_range", reward_range)
        self.noise = None if noise is None else positive("noise", noise)
        self.contexts = one_of("contexts", contexts, self.worlds)
        self.radius = radius
        self.radius_scale = positive("radius_scale", radius_scale)
        self.alpha = self._share_of_delta()
        low, high = self.reward_range
        self.rules = Rules(self._make_radius(), low, high, high - low)
        self.books = self._open_books()
        self.observed = tuple(i for i, bound in enumerate(self.bounds or ()) if isinstance(bound, Observed))
        self._customs = {i: bound for i, bound in enumerate(self.bounds or ()) if isinstance(bound, Custom)}
        self.eliminations: list[Any] = []  # what was dropped, all in the form of this selector
        self.seed = count("seed", seed, least=0, most=2**64 - 1)
        self._stream = open_stream(self.seed)
        self._draws = 0
        self._pick = partial(self.kernels.choose, self.params, self.kernel_state)
        self._ledger = Ledger(n_learners, self._bookkeeping(), self._n_notes())

    def _share_of_delta(self) -> float:
        """The failure probability of one side of one radius."""
        return radius_alpha(self.n_learners, self.delta, self.shares)

    @property
    def shares(self) -> int:
        """How many one-sided events every learner's plays and the pool are used for."""
        return radius_shares(self.radius, self.contexts, self.lower_apart)

    def _make_radius(self) -> Radius:
        low, high = self.reward_range
        return make_radius(
            self.radius,
            n_learners=self.n_learners,
            delta=self.delta,
            width=high - low,
            noise=self.noise,
            contexts=self.contexts,
            scale=self.radius_scale,
            lower_apart=self.lower_apart,
        )

    def _open_books(self) -> Any:
        if self.bounds is None:
            return open_books_without_bounds(self.n_learners, self.rules.width)
        return open_books(self.bounds)

    @property
    def params(self) -> Any:
        """What the kernels take first."""
        return self.rules

    @property
    def kernel_state(self) -> Any:
        """What the kernels take second: a tuple of arrays that they change in place."""
        return self.books

    def _bookkeeping(self) -> Bookkeeping:
        params, state, kernels = self.params, self.kernel_state, self.kernels

        def close(i: int) -> None:
            self.books.accounts[i].plays -= 1

        def play(i: int, offset: int, regret: float) -> None:
            position = self.books.accounts[i].booked_plays + offset
            kernels.play(params, state, i, position, self._increment(i, position, regret))

        def book(i: int, reward: float, regret: float, probability: float) -> None:
            regret = self._increment(i, self.books.accounts[i].booked_plays + 1, regret)
            kernels.book(params, state, i, reward, regret, probability)

        return Bookkeeping(
            open=partial(kernels.open_play, params, state),
            close=close,
            rewind=partial(kernels.rewind, params, state),
            play=play,
            book=book if self._customs else partial(kernels.book, params, state),
            pool=partial(kernels.pool, params, state),
        )

    def _n_notes(self) -> int:
        """How many numbers are kept with a round until it is closed."""
        return 0

    def _increment(self, i: int, position: int, regret: float) -> float:
        """What play number `position` of learner i adds to its bound; the kernel cannot evaluate a `Custom` one."""
        custom = self._customs.get(i)
        if custom is None:
            return regret
        return custom.raw(position) - (custom.raw(position - 1) if position > 1 else 0.0)

    @property
    def has_custom_bounds(self) -> bool:
        """Whether a bound is a Python function, which compiled code cannot call."""
        return bool(self._customs)

    @property
    def active(self) -> tuple[int, ...]:
        is_active, params, state = self.kernels.is_active, self.params, self.kernel_state
        return tuple(i for i in range(self.n_learners) if is_active(params, state, i))

    def choose(self, rng: np.random.Generator | None = None) -> Choice:
        """The learner that plays this round; opens a play."""
        self._ledger.settle()
        if rng is None and self.randomized:
            seek(self._stream, SELECTOR, self._draws)
            rng = self._stream.generator
        learner, chance = self._pick(rng)
        if learner in self._customs:  # the user's function may break its rule: find out before the play is opened
            self._customs[learner].raw(self.books.accounts[learner].plays + 1)
        self._draws += 1
        return Choice(learner, self._ledger.open(learner, chance), chance)

    def observe(self, choice: Choice, proposals: Mapping[int, Proposal]) -> None:
        """Take in what the chosen learner proposed."""
        if choice.learner not in proposals:
            raise InvalidArgument(f"proposals has learners {sorted(proposals)}, but must have {choice.learner}")
        self._ledger.entry(choice.learner, choice.play)  # raises what is wrong with a ticket that is not open
        if choice.learner in self.observed:
            regret = self._check_regret(proposals[choice.learner].regret)
            self._ledger.observe(choice.learner, choice.play, regret)

    def check_reward(self, reward: float) -> float:
        """The reward as a float, or the reason why it cannot be booked."""
        low, high = self.reward_range
        if type(reward) is float and low <= reward <= high:
            return reward
        number = real("reward", reward)
        if self.noise is None and not low <= number <= high:
            raise InvalidArgument(f"reward is {reward!r}, but must lie in reward_range ({low:g}, {high:g})")
        return number

    def check_credit(self, choice: Choice, reward: float, regret: float | None = None) -> tuple[float, float]:
        """Reward and regret as floats, nan for a regret not given; raises what `credit` would and changes nothing."""
        number = self.check_reward(reward)
        entry = self._ledger.entry(choice.learner, choice.play)
        known = nan if regret is None else self._check_regret(regret)
        if choice.learner in self.observed and isnan(known) and isnan(entry.regret):
            raise InvalidArgument(
                f"regret of play {choice.play} of learner {choice.learner} is unknown, "
                "but its bound is Observed and needs it from observe() or credit()"
            )
        return number, known

    def credit(self, choice: Choice, reward: float, regret: float | None = None) -> None:
        """Book the reward of a play, in any order and however late; `regret` where it is known only now."""
        self.credit_checked(choice, *self.check_credit(choice, reward, regret))

    def credit_checked(self, choice: Choice, reward: float, regret: float) -> None:
        """Book what `check_credit` has passed."""
        self._ledger.credit(choice.learner, choice.play, reward, regret)
        if self.books.pool[0].eliminated != len(self.eliminations):
            self._note_eliminations()

    def withdraw(self, choice: Choice) -> None:
        """The round did not happen: strike its play."""
        if self._ledger.withdraw(choice.learner, choice.play):
            self._draws -= 1  # the next choice draws the same numbers
        if self.books.pool[0].eliminated != len(self.eliminations):
            self._note_eliminations()

    def standing(self) -> list[Standing]:
        """How every learner stands; nan where a learner has no resolved play."""
        rows, active = [], self.active
        for i, account in enumerate(self.books.accounts):
            n = account.booked_plays
            rows.append(
                Standing(
                    learner=i,
                    plays=account.plays,
                    pending=account.plays - n,
                    mean_reward=account.rewards / n if n else nan,
                    mean_radius=radius_sum(self.rules.radius, n) / n if n else nan,
                    mean_bound=account.booked_bound / n if n else nan,
                    mean_lower=account.mean_lower if n else nan,
                    mean_upper=account.mean_upper if n else nan,
                    active=i in active,
                )
            )
        return rows

    def certificate(self) -> Certificate:
        """What the rewards booked so far prove about the optimum and the regret."""
        lower, upper, regret_lower, regret_upper, consistent = self.kernels.certify(self.params, self.kernel_state)
        proved = []
        for account in self.books.accounts:
            n = account.booked_plays
            radius = radius_sum(self.rules.radius, n) if n > 0 else 0.0
            proved.append(max(0.0, n * lower - account.rewards - radius))
        return Certificate(
            rounds=evidence.rounds_made(self.books),
            resolved_rounds=self.books.pool[0].plays,
            optimum_lower=lower,
            optimum_upper=upper,
            regret_lower=regret_lower,
            regret_upper=regret_upper,
            learner_regret_lowers=tuple(proved),
            delta=self.delta,
            learners_delta=0.0,
            consistent=consistent,
            valid=self.radius_scale >= 1.0,
        )

    def config(self) -> dict[str, Any]:
        """The constructor's arguments, as plain data."""
        learners: dict[str, Any] = {"n_learners": self.n_learners}
        if self.bounds is not None:
            learners = {"bounds": [bounds_module.to_json(bound) for bound in self.bounds]}
        return {
            **learners,
            "delta": self.delta,
            "reward_range": list(self.reward_range),
            "noise": self.noise,
            "contexts": self.contexts,
            "radius": self.radius,
            "radius_scale": self.radius_scale,
            **({"seed": self.seed} if self.randomized else {}),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The selector that `config` describes, in its initial state."""
        settings = {**config, "reward_range": tuple(config["reward_range"])}
        if config.get("bounds") is not None:
            settings["bounds"] = [bounds_module.from_json(bound) for bound in config["bounds"]]
        return cls(**settings)

    def to_arrays(self) -> tuple[Any, Any]:
        """Params and state as arrays, for compiled code; the state is a copy."""
        return self.params, type(self.books)(*map(as_records, self.books))

    def from_arrays(self, state: Any) -> None:
        """Take on a state that compiled code has worked on, all of whose plays are resolved."""
        for rows, records in zip(self.books, state, strict=True):
            take_records(rows, records)
        self._note_eliminations()

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything learned, as arrays."""
        self._ledger.settle()  # so that equal histories have equal states, whenever pending plays were counted
        books: dict[str, NDArray[Any]] = {}
        for name, rows in self.books._asdict().items():
            books |= as_columns(name, rows)
        ledger = {f"ledger.{name}": array for name, array in self._ledger.state().items()}
        eliminated = np.array([elimination.learner.index for elimination in self.eliminations], np.int64)
        return {**books, **ledger, "eliminated": eliminated, "draws": np.array([self._draws], np.int64)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Take on a state that `state` returned; any other is refused and changes nothing."""
        ledger = {name.removeprefix("ledger."): array for name, array in state.items() if name.startswith("ledger.")}
        for name, rows in self.books._asdict().items():
            check_columns(name, rows, state)
        n_eliminated = int(np.count_nonzero(state["accounts.eliminated_at"]))
        check_shapes(state, {"draws": (1,), "eliminated": (n_eliminated,)})
        self._ledger.check_state(ledger)
        for name, rows in self.books._asdict().items():
            take_columns(name, rows, state)
        self._ledger.restore(ledger)
        self._draws = int(state["draws"][0])
        self.eliminations[:] = [self._elimination(i) for i in state["eliminated"].tolist()]

    def _check_regret(self, regret: float) -> float:
        # Only nan, which stands for unknown, differs from itself.
        return nan if regret != regret else non_negative("regret", regret)

    def _note_eliminations(self) -> None:
        known = {elimination.learner.index for elimination in self.eliminations}
        gone = [i for i, account in enumerate(self.books.accounts) if account.eliminated_at > 0 and i not in known]
        for i in sorted(gone, key=lambda i: self.books.accounts[i].eliminated_at):
            self.eliminations.append(self._elimination(i))

    def _elimination(self, i: int) -> Dropped:
        account = self.books.accounts[i]

        radius, plays, bound = self.rules.radius, account.proof_plays, account.proof_bound
        above = upper_sum(radius, plays, account.proof_spread, bound)
        below = lower_sum(radius, account.witness_plays, account.witness_spread)
        return Elimination(
            account.eliminated_at,
            Evidence(i, plays, account.proof_rewards, bound, above, account.proof_spread),
            Evidence(
                account.witness,
                account.witness_plays,
                account.witness_rewards,
                account.witness_bound,
                below,
                account.witness_spread,
            ),
        )
