"""Balanced elimination against the slow reference, and what the paper proves of it, on random streams of events."""

import inspect
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import Elimination
from equipoise.bounds import Bound, Custom, LinearSqrt, Observed, Power, SqrtLog
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownDecision
from equipoise.learner import Proposal
from equipoise.selector import Choice
from equipoise.selectors import BalancedElimination
from equipoise.selectors._core import evidence
from equipoise.selectors._core.kernels import Kernels
from tests.reference import Reference, Round

# Rewards, regrets and custom bounds are multiples of 1/16 of a width that is a power of two: every sum is exact, ties
# are true ties, and the selector has to agree with the reference to the last bit.
STEPS = 16
BOUNDS = st.one_of(
    st.builds(Power, st.sampled_from([0.01, 0.25, 1.0, 8.0]), st.sampled_from([0.5, 0.7, 1.0])),
    st.builds(SqrtLog, st.sampled_from([0.05, 0.5]), st.sampled_from([0.1, 0.9])),
    st.builds(LinearSqrt, st.sampled_from([0.0, 0.125]), st.sampled_from([0.1, 1.0])),
    st.just(Observed()),
    st.sampled_from(
        [Custom(lambda n: n / 8, "line"), Custom(lambda n: n * n / 16, "square"), Custom(lambda _: 0.0, "nil")]
    ),
)
EVENTS = st.tuples(st.sampled_from(["choose"] * 3 + ["credit"] * 3 + ["withdraw"]), st.integers(0, 255))


class Setting(NamedTuple):
    """A selector and the environment it plays in."""

    bounds: list[Bound]
    skills: list[int]  # of each learner, in steps: where its rewards lie in the range
    options: dict[str, Any]
    regret_comes_late: bool = False  # with the reward instead of with the play


@st.composite
def settings_of(draw: Callable[..., Any], most_learners: int = 8) -> Setting:
    n_learners = draw(st.integers(1, most_learners))
    return Setting(
        [draw(BOUNDS) for _ in range(n_learners)],
        [draw(st.integers(0, STEPS)) for _ in range(n_learners)],
        {
            "delta": draw(st.sampled_from([0.01, 0.3, 0.9])),
            "reward_range": draw(st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-2.0, 6.0)])),
            "noise": draw(st.sampled_from([None, 0.25])),
            "contexts": draw(st.sampled_from(["random", "fixed"])),
            "radius_scale": draw(st.sampled_from([1.0, 0.25, 0.05, 0.01])),  # narrow ones eliminate within a few rounds
        },
        draw(st.booleans()),
    )


class Run:
    """The selector and the reference side by side; every event goes to both and has to have the same effect."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.selector = BalancedElimination(setting.bounds, radius="stitched", **setting.options)
        self.reference = Reference(setting.bounds, **setting.options)
        self.open: list[tuple[Choice, Round]] = []

    def apply(self, event: str, number: int) -> None:
        """`number` picks an open play and sets its reward or regret."""
        if event == "choose":
            self.choose(number)
        elif self.open:
            choice, played = self.open.pop(number % len(self.open))
            if event == "credit":
                self.credit(choice, played, number)
            else:
                self.selector.withdraw(choice)
                self.reference.withdraw(played)
        self.check()

    def choose(self, number: int = 0) -> None:
        choice, played = self.selector.choose(), self.reference.choose()
        assert choice.learner == played.learner
        assert choice.probability == 1.0
        self.open.append((choice, played))
        if not self.setting.regret_comes_late:
            played.regret = self.regret(number)
            self.selector.observe(choice, {choice.learner: Proposal(0, regret=played.regret)})

    def credit(self, choice: Choice, played: Round, number: int) -> None:
        low, width = self.reference.low, self.reference.width
        level = self.setting.skills[choice.learner] + number % 5 - 2
        if self.setting.options["noise"] is None:
            level = min(max(level, 0), STEPS)
        if self.setting.regret_comes_late:
            played.regret = self.regret(number)
        reward = low + width * level / STEPS
        self.selector.credit(choice, reward, played.regret if self.setting.regret_comes_late else None)
        self.reference.credit(played, reward)

    def regret(self, number: int) -> float:
        return self.reference.width * (number % 7) / STEPS

    def check(self) -> None:
        assert self.selector.active == tuple(self.reference.active)
        assert len(self.selector.active) >= 1
        assert [asdict(proof) for proof in self.selector.eliminations] == [asdict(p) for p in self.reference.proofs]
        assert [row.plays for row in self.selector.standing()] == [
            len(self.reference.plays(i)) for i in range(len(self.setting.bounds))
        ]

    def check_certificate(self) -> None:
        """Sums of differently ordered terms: equal up to rounding."""
        found = asdict(self.selector.certificate())
        for name, value in self.reference.certificate().items():
            assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def snapshot(selector: BalancedElimination) -> dict[str, tuple[Any, ...]]:
    """The whole state, to the bit."""
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in selector.state().items()}


def environment(seed: int, n_learners: int = 3) -> tuple[Setting, np.random.Generator]:
    """A setting in which learners are soon eliminated, for tests of something else."""
    generator = np.random.default_rng(seed)
    bounds: list[Bound] = [Power(0.25), Observed(), LinearSqrt(0.0, 0.5)]
    skills = generator.integers(0, STEPS + 1, n_learners).tolist()
    return Setting(bounds[:n_learners], skills, {"delta": 0.3, "reward_range": (0.0, 1.0), "noise": None}), generator


@pytest.mark.slow
@settings(max_examples=2000)
@given(settings_of(), st.lists(EVENTS, max_size=50))
def test_every_event_has_the_effect_that_the_reference_says(setting: Setting, events: list[tuple[str, int]]) -> None:
    run = Run(setting)
    for event, number in events:
        run.apply(event, number)
    run.check_certificate()


@pytest.mark.slow
@settings(max_examples=300)
@given(settings_of(4), st.integers(0, 2**32 - 1), st.sampled_from([0, 1, 3, 20]))
def test_longer_runs_with_late_rewards_equal_the_reference(setting: Setting, seed: int, longest_delay: int) -> None:
    """Fifty rounds, each reward late by a random number of them: rewards arrive out of order."""
    run, generator = Run(setting), np.random.default_rng(seed)
    due: list[tuple[int, int]] = []
    for t in range(50):
        run.apply("choose", int(generator.integers(256)))
        due.append((t + int(generator.integers(longest_delay + 1)), t))
        for moment, made in sorted(due):
            if moment <= t:
                position = sum(other < made for _, other in due)
                run.apply("credit", position + len(due) * int(generator.integers(20)))
                due.remove((moment, made))
    run.check_certificate()


@pytest.mark.slow
def test_the_streams_above_do_eliminate_learners() -> None:
    """Against a comparison of nothing with nothing: in environments like those above several learners go."""
    gone: Counter[int] = Counter()
    for seed in range(20):
        setting, generator = environment(seed)
        run = Run(setting._replace(options=setting.options | {"radius_scale": 0.25}))
        for number in generator.integers(256, size=120).tolist():
            run.apply("choose", number)
            run.apply("credit", number)
        gone[len(run.selector.eliminations)] += 1
    assert gone[1] >= 3
    assert gone[2] >= 3


@pytest.mark.slow
@settings(max_examples=300)
@given(settings_of(), st.lists(EVENTS, max_size=60))
def test_bounds_of_active_learners_never_differ_by_more_than_the_width(
    setting: Setting, events: list[tuple[str, int]]
) -> None:
    """The balancing lemma, over all plays made; regrets are known with the play and no round is taken back."""
    run = Run(setting._replace(regret_comes_late=False))
    for event, number in events:
        if event != "withdraw":
            run.apply(event, number)
            reference = run.reference
            levels = [reference.bound(i, reference.plays(i)) for i in run.selector.active]
            assert max(levels) <= min(levels) + reference.width
            assert sum(row.plays for row in run.selector.standing()) == len(reference.rounds)
            assert sum(row.pending for row in run.selector.standing()) >= len(run.open)


def test_unplayed_learners_come_first_then_the_least_bound_then_fewer_plays_then_the_lower_index() -> None:
    selector = BalancedElimination([Power(8.0), Power(0.25), Custom(lambda _: 0.0, "nil"), Power(0.25)])
    chosen = [selector.choose().learner for _ in range(8)]
    assert chosen == [0, 1, 2, 3, 2, 2, 2, 2]
    level = BalancedElimination([Power(0.5), Power(0.25), Power(0.25)])
    # 0.25 sqrt(4) = 0.5 sqrt(1): the tie at 0.5 goes to the learner with one play.
    assert [level.choose().learner for _ in range(10)] == [0, 1, 2, 1, 2, 1, 2, 1, 2, 0]


def test_the_round_of_an_elimination_can_be_computed_by_hand() -> None:
    """Learner 0 always earns 1, learner 1 always 0; their bounds are negligible and equal, so they take turns.

    delta = 0.05, M = 2: alpha = 0.05/6, 0.72 ln(5.2/alpha) = 4.634, v = 1/2. D(n)/n = sqrt(1.445 (ln ln 2n + 4.634)/n)
    is 0.5010 at n = 35 and 0.4943 at n = 36. Learner 1 goes once D(n_0)/n_0 + D(n_1)/n_1 < 1: not in round 70
    (35 and 35 plays: 1.0021), but in round 71 (36 and 35 plays: 0.9953)."""
    selector = BalancedElimination([Power(1e-9), Power(1e-9)], delta=0.05, radius="stitched")
    for t in range(1, 72):
        assert selector.active == (0, 1)
        choice = selector.choose()
        assert choice.learner == (t - 1) % 2
        selector.credit(choice, 1.0 - choice.learner)
    (elimination,) = selector.eliminations
    assert elimination.round == 71 and isinstance(elimination, Elimination)
    assert (elimination.learner.index, elimination.learner.plays, elimination.learner.reward_sum) == (1, 35, 0.0)
    assert (elimination.witness.index, elimination.witness.plays, elimination.witness.reward_sum) == (0, 36, 36.0)
    assert f"{elimination.learner.radius / 35:.4f} {elimination.witness.radius / 36:.4f}" == "0.5010 0.4943"
    assert elimination.learner.mean_upper < elimination.witness.mean_lower
    assert {selector.choose().learner for _ in range(100)} == {0}


def test_a_late_reward_of_an_eliminated_learner_is_booked_and_revives_nobody() -> None:
    selector = BalancedElimination([Power(1e-9), Power(1e-9)], radius_scale=0.4)
    late: list[Choice] = []
    while len(selector.active) == 2:
        choice = selector.choose()
        if choice.learner == 1 and choice.play > 3:
            late.append(choice)
        else:
            selector.credit(choice, 1.0 - choice.learner)
    assert late, "some rewards of the loser have to be out when it goes"
    for choice in late:
        selector.credit(choice, 1.0)
    assert selector.active == (0,)
    assert selector.standing()[1].mean_reward == pytest.approx(len(late) / (3 + len(late)))
    assert selector.certificate().resolved_rounds == selector.certificate().rounds


def test_rewards_beyond_the_first_missing_one_wait() -> None:
    selector = BalancedElimination([Power(0.5)])
    choices = [selector.choose() for _ in range(4)]
    assert [choice.play for choice in choices] == [1, 2, 3, 4]
    for k in (3, 1):
        selector.credit(choices[k], 1.0)
        assert (selector.standing()[0].pending, math.isnan(selector.standing()[0].mean_reward)) == (4, True)
    selector.credit(choices[0], 0.0)
    assert (selector.standing()[0].pending, selector.standing()[0].mean_reward) == (2, 0.5)
    selector.withdraw(choices[2])
    assert (selector.standing()[0].pending, selector.standing()[0].mean_reward) == (0, 2 / 3)


@pytest.mark.slow
@settings(max_examples=200)
@given(settings_of(4), st.lists(EVENTS, max_size=40), st.lists(EVENTS, max_size=30))
def test_a_restored_selector_continues_bit_by_bit(
    setting: Setting, before: list[tuple[str, int]], after: list[tuple[str, int]]
) -> None:
    """Also with plays pending, rewards waiting and rounds withdrawn at the moment of saving."""
    run, twin = Run(setting), Run(setting)
    for event, number in before:
        run.apply(event, number)
        twin.apply(event, number)
    twin.selector = BalancedElimination(setting.bounds, radius="stitched", **setting.options)
    twin.selector.restore({name: array.copy() for name, array in run.selector.state().items()})
    for event, number in [("check", 0), *after]:
        run.apply(event, number)
        twin.apply(event, number)
        assert snapshot(twin.selector) == snapshot(run.selector)
        assert twin.selector.eliminations == run.selector.eliminations
        assert twin.selector.certificate() == run.selector.certificate()


def test_a_restored_selector_knows_who_went_first_and_which_rounds_were_withdrawn() -> None:
    selector, restored = (BalancedElimination([Power(1e-9)] * 3, radius_scale=0.01) for _ in range(2))
    choices = [selector.choose() for _ in range(6)]
    selector.withdraw(choices[4])  # between two rounds that stay open
    for choice, reward in [(choices[0], 1.0), (choices[2], 0.0), (choices[1], 0.0)]:
        selector.credit(choice, reward)
    restored.restore(selector.state())
    assert [elimination.learner.index for elimination in restored.eliminations] == [2, 1]
    with pytest.raises(UnknownDecision):
        restored.credit(choices[4], 0.5)
    for choice in (choices[3], choices[5]):
        restored.credit(choice, 0.5)
    assert restored.certificate().resolved_rounds == 5


def test_a_state_of_another_shape_is_refused_and_changes_nothing() -> None:
    selector = BalancedElimination([Power(0.5), Power(1.0)])
    selector.credit(selector.choose(), 0.5)
    before = snapshot(selector)
    with pytest.raises(InvalidArgument, match=r"^state accounts.bound_kind has shape \(3,\), but must have \(2,\)$"):
        selector.restore(BalancedElimination([Power(0.5)] * 3).state())
    assert snapshot(selector) == before


def pending_run() -> tuple[BalancedElimination, Choice, Choice, Choice]:
    """A selector, two open plays, the first of a learner with an Observed bound that reported none, and a credited
    one."""
    selector = BalancedElimination([Observed(), Power(0.5)], reward_range=(-1.0, 1.0))
    credited, other = selector.choose(), selector.choose()
    selector.credit(credited, 0.5, regret=0.25)
    selector.credit(other, 0.5)
    silent = selector.choose()
    selector.observe(silent, {0: Proposal(0, regret=math.nan)})
    return selector, silent, selector.choose(), credited


UNKNOWN = "is not open: never chosen, withdrawn, or already credited"
MISUSES: list[tuple[Callable[[BalancedElimination, Choice, Choice, Choice], Any], type[EquipoiseError], str]] = [
    (lambda s, _, o, c: s.credit(c, 0.5, 0.25), UnknownDecision, f"play 1 of learner 0 {UNKNOWN}"),
    (lambda s, _, o, c: s.withdraw(c), UnknownDecision, f"play 1 of learner 0 {UNKNOWN}"),
    (lambda s, _, o, c: s.observe(c, {0: Proposal(0)}), UnknownDecision, f"play 1 of learner 0 {UNKNOWN}"),
    (lambda s, _, o, c: s.credit(Choice(1, 7, 1.0), 0.5), UnknownDecision, f"play 7 of learner 1 {UNKNOWN}"),
    (lambda s, _, o, c: s.credit(Choice(9, 1, 1.0), 0.5), UnknownDecision, f"play 1 of learner 9 {UNKNOWN}"),
    (lambda s, _, o, c: s.credit(o, math.nan), InvalidArgument, "reward is nan, but must be a finite number"),
    (lambda s, _, o, c: s.credit(o, -math.inf), InvalidArgument, "reward is -inf, but must be a finite number"),
    (lambda s, _, o, c: s.credit(o, 1e155), InvalidArgument, "reward is 1e+155, but must be a finite number"),
    (lambda s, _, o, c: s.credit(o, 1.001), InvalidArgument, "reward is 1.001, but must lie in reward_range (-1, 1)"),
    (lambda s, _, o, c: s.credit(o, "1"), InvalidArgument, "reward is '1', but must be a real number"),  # type: ignore[arg-type]
    (lambda s, _, o, c: s.credit(o, 0.5, regret=-0.1), InvalidArgument, "regret is -0.1, but must not be negative"),
    (lambda s, _, o, c: s.credit(o, 0.5, regret="a"), InvalidArgument, "regret is 'a', but must be a real number"),  # type: ignore[arg-type]
    (lambda s, _, o, c: s.observe(o, {}), InvalidArgument, "proposals has learners [], but must have 1"),
    (lambda s, q, o, c: s.observe(q, {0: Proposal(0, regret=math.inf)}), InvalidArgument, "regret is inf, but must be"),
    (
        lambda s, q, o, c: s.credit(q, 0.5),
        InvalidArgument,
        "regret of play 2 of learner 0 is unknown, but its bound is Observed and needs it from observe() or credit()",
    ),
]


@pytest.mark.parametrize(("misuse", "kind", "message"), MISUSES, ids=[message for *_, message in MISUSES])
def test_misuse_is_refused_and_changes_nothing(misuse: Any, kind: type[EquipoiseError], message: str) -> None:
    selector, *choices = pending_run()
    before = snapshot(selector)
    with pytest.raises(kind) as caught:
        misuse(selector, *choices)
    assert str(caught.value).startswith(message)
    assert snapshot(selector) == before


def test_with_noise_a_reward_only_has_to_be_finite() -> None:
    selector = BalancedElimination([Power(0.5)], noise=1.0)
    selector.credit(selector.choose(), -17.0)
    assert selector.standing()[0].mean_reward == -17.0
    with pytest.raises(InvalidArgument, match=r"^reward is inf, but must be a finite number"):
        selector.credit(selector.choose(), math.inf)


def test_choosing_costs_the_same_however_many_plays_are_pending() -> None:
    """Kernel calls per choose, with rewards that never come and with rewards that come 200 rounds late."""
    calls: Counter[str] = Counter()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            calls[function.__name__] += 1
            return function(*arguments)

        return counted

    class Counted(BalancedElimination):
        kernels = Kernels(*(counting(function) for function in BalancedElimination.kernels))

    for delay in (10_000, 200):
        selector = Counted([Observed(), Power(0.5), Custom(lambda n: n / 8, "line")])
        pending: list[Choice] = []
        for _ in range(1000):
            calls.clear()
            pending.append(selector.choose())
            assert calls.total() <= 3, "one play counted, one choice, one play opened"
            selector.observe(pending[-1], {pending[-1].learner: Proposal(0, regret=0.25)})
            if len(pending) > delay:
                selector.credit(pending.pop(0), 0.5)
        assert sum(row.pending for row in selector.standing()) == min(delay, 1000)


def test_sums_stay_accurate_over_many_rounds() -> None:
    """Compensated addition against exact rational arithmetic; plain addition is a thousand times worse."""
    total, carry, plain = 0.0, 0.0, 0.0
    for _ in range(300_000):
        total, carry = evidence.add(total, carry, 0.1)
        plain += 0.1
    exact = float(300_000 * Fraction(0.1))
    assert abs(total - exact) <= math.ulp(exact)
    assert abs(plain - exact) > 1000 * math.ulp(exact)


def test_a_choice_cannot_look_at_a_context() -> None:
    """The radii need the learner to be chosen before the context is seen; so nothing but a generator and
    who is available can be passed."""
    assert list(inspect.signature(BalancedElimination.choose).parameters) == ["self", "rng", "available"]


def test_a_proposal_for_a_play_that_is_not_open_is_refused_whatever_the_bound() -> None:
    selector = BalancedElimination([Power(1.0), Power(2.0)])
    choice = selector.choose()
    selector.credit(choice, 0.5)
    with pytest.raises(UnknownDecision, match="play 1 of learner 0 is not open"):
        selector.observe(choice, {choice.learner: Proposal(0)})
