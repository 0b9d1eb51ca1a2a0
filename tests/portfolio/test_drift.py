"""Drift: alarms against a slow reference and under their nulls, and what a portfolio does about them."""

from collections import deque
from collections.abc import Callable
from itertools import pairwise
from math import inf, log, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio, Proposal
from equipoise.bounds import Observed, Power
from equipoise.certificates.records import describe_elimination, verify_record
from equipoise.certificates.wording import law_clause
from equipoise.drift_order import MAX_WINDOWS, Pairs, PairSums, share
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy
from equipoise.portfolio import Event
from equipoise.portfolio.drift import CHECK_EVERY, MAX_WAITING, STEP, Play, RewardMonitor, Stream, law_of
from equipoise.selectors import BalancedElimination, CounterfactualBalancing, RealizedBalancing, realized_balancing
from equipoise.storage.codec import made
from tools.studies.drift import NULLS, alarms, bound_alarm, regrets_after_swap, stream_crosses, trusting_all_widths


def fed(rewards: list[float], alpha: float = 0.01, widths: float = 0.0) -> Stream:
    stream = Stream(alpha, 0.25, 0.5)
    for k, reward in enumerate(rewards):
        play = Play(k, 0, widths, ())
        play.reward = reward
        stream.queue.append(play)
        stream.advance()
        if stream.plays >= stream.next_check:
            stream.check()
    return stream


def plain_ends(rewards: list[float], alpha: float, widths: float) -> tuple[float, float]:
    """Both ends by their definition, over all windows and all checks."""

    def radius(variance: float, level: float, n: int) -> float:
        return 1.7 * sqrt(n * variance * (log(log(2 * n)) + 0.72 * log(5.2 / level)))

    lower, upper = -inf, inf
    for n in range(CHECK_EVERY, len(rewards) + 1, CHECK_EVERY):
        for j, start in enumerate(range(0, n, STEP)):
            own, m = rewards[start:n], n - start
            level = alpha / ((j + 1) * (j + 2))
            lower = max(lower, (sum(own) - radius(0.25, level, m)) / m)
            upper = min(upper, (sum(own) + widths * m + radius(0.5, level, m)) / m)
    return lower, upper


def test_windows_agree_with_their_definition() -> None:
    """As long as no window has been dropped."""
    rng = np.random.default_rng(1)
    rewards = [*map(float, rng.random(300) < 0.8), *map(float, rng.random(340) < 0.3)]
    stream = fed(rewards, widths=0.05)
    assert (stream.highest_lower, stream.least_upper) == pytest.approx(plain_ends(rewards, 0.01, 0.05))
    assert stream.highest_lower > stream.least_upper - 0.05


def test_few_windows_are_kept_of_all_ages() -> None:
    stream = fed([0.5] * 20_000)
    starts = [window.start for window in stream.windows]
    assert len(starts) <= MAX_WINDOWS
    assert starts[0] == 0
    assert 20_000 - starts[-1] < STEP
    ages = [20_000 - start + STEP for start in starts]
    assert max(old / young for old, young in pairwise(ages)) < 4
    assert sum(share(1.0, j) for j in range(100_000)) == pytest.approx(1.0, abs=1e-4)


def test_a_stream_of_one_law_is_seldom_refuted() -> None:
    """150 streams of 1,500 fair coins, alpha = 0.05 on either side: crossings have probability at most 0.1, so that
    more than 30 have probability below 1e-3; seeds are fixed. With 0.4 of the radius more than half are refuted."""
    assert sum(stream_crosses(seed, 1_500, alpha=0.05) for seed in range(150)) <= 30
    assert sum(stream_crosses(seed, 1_500, alpha=0.05, scale=0.4) for seed in range(20)) > 10


@pytest.mark.parametrize("name", NULLS)
def test_no_alarm_under_one_law(name: str) -> None:
    """Two runs of each null, with seeds fixed: a false alarm has probability below delta/2 = 0.025 each."""
    assert alarms(name, seeds=range(2), quick=True) == 0


def test_a_changed_arm_is_found_soon_and_state_and_events_agree() -> None:
    """Saved and loaded in the middle, or folded from its events, the portfolio is the same."""
    events: list[Event] = []
    portfolio = Portfolio([UCB(5), UCB(5, scale=0.5)], seed=3)
    folded = Portfolio([UCB(5), UCB(5, scale=0.5)], seed=3)
    portfolio.on_event(events.append)
    rng = np.random.default_rng(3)
    for t in range(3_200):
        means = [0.1, 0.3, 0.5, 0.7, 0.9 if t < 3_000 else 0.2]
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < means[decision.action]))
        if t == 2_900:
            late = portfolio.decide(None)
            loaded = Portfolio.from_state(portfolio.state())
            loaded.on_event(events.append)
            portfolio = loaded
        if t == 2_950:
            portfolio.learn(late.id, 1.0)
    found = [event for event in events if event.kind == "drift"]
    assert [event.data["alarm"] for event in found] == ["arms"]
    assert found[0].derived
    assert "action 4" in found[0].data["reason"]
    mark = next(mark for mark in portfolio.history.marks if mark.kind == "drift")
    assert 3_000 < mark.round <= 3_110
    proved = portfolio.certificate()
    assert (proved.law_since, proved.law_refuted_at) == (1, mark.round)
    assert "do not rely on it" in portfolio.describe()
    assert "Drift alarm in round" in portfolio.describe()
    for event in events:
        folded.apply(event)
    states = [each.state()["drift"] for each in (portfolio, folded)]
    assert str(states[0]) == str(states[1])


def test_the_mean_of_an_action_has_no_part_in_what_learners_know_of_their_regret() -> None:
    """Learners without regret bounds found no change of an action from .9 to .1; the control: no change, no alarm."""
    for later, expected in ((0.1, ["arms"]), (0.9, [])):
        portfolio = Portfolio([EpsilonGreedy(2, epsilon=0.1), EpsilonGreedy(2, epsilon=0.3)])
        events: list[Event] = []
        portfolio.on_event(events.append)
        rng = np.random.default_rng(0)
        for t in range(1_500):
            decision = portfolio.decide(None)
            mean = (0.9 if t < 1_000 else later, 0.5)[decision.action]
            portfolio.learn(decision, float(rng.random() < mean))
        assert [event.data["alarm"] for event in events if event.kind == "drift"] == expected


def test_a_restart_is_a_new_epoch_of_the_selector() -> None:
    """Plays of the old epoch teach learners and are no evidence; eliminated learners return; delta is shared out."""
    selector = BalancedElimination([Power(1.0)] * 3, contexts="fixed", delta=0.06)
    portfolio = Portfolio([Constant(0), Constant(1), Constant(2)], selector, on_drift="restart")
    assert selector.delta == pytest.approx(0.03)
    found: list[Event] = []
    portfolio.on_event(lambda event: found.append(event) if event.kind == "drift" else None)
    late, rng, t = None, np.random.default_rng(0), 0
    while not found:
        t += 1
        assert t < 4_000
        decision = portfolio.decide(None)
        means = [0.95, 0.5, 0.05] if t <= 2_500 else [0.05, 0.5, 0.95]
        if late is None and t > 100 and decision.learner == 1:
            late = decision
        else:
            portfolio.learn(decision, float(rng.random() < means[decision.action]))
        if t == 2_500:
            assert selector.active == (0, 1)  # nothing is known of 1 beyond its missing reward
    assert late is not None
    assert found[0].data["restart"]
    assert selector.active == (0, 1, 2)
    assert selector.delta == pytest.approx(0.01)
    assert [row.plays for row in portfolio.standing()] == [0, 0, 0]
    portfolio.learn(late, 1.0)
    assert [row.plays for row in portfolio.standing()] == [0, 0, 0]
    with pytest.raises(InvalidArgument, match="reward is 7"):
        portfolio.learn(portfolio.decide(None), 7.0)
    proved = portfolio.certificate()
    assert proved.law_since == proved.law_refuted_at + 1 == t + 1
    words = portfolio.describe()
    assert f"assumes one law since round {t + 1:,}. In round {t:,} the rewards refuted one mean reward of" in words
    assert "their bounds are assumptions" in portfolio.describe()
    again = Portfolio.from_state(portfolio.state())
    assert again.describe() == portfolio.describe()


def test_rounds_and_plays_after_a_restart_are_named_as_the_portfolio_counts_them() -> None:
    """A selector counts the rounds of its epoch: an elimination in round 1,700 was said to be in round 124."""
    learners, bounds = [Constant(0), Constant(1)], [Power(1.0), Power(1.0)]
    portfolio = Portfolio(learners, BalancedElimination(bounds, contexts="fixed"), on_drift="restart")
    rng, rounds = np.random.default_rng(0), list[int]()
    portfolio.on_elimination(lambda elimination: rounds.append(elimination.round))
    while len(rounds) < 2:
        t = portfolio.health()["rounds"]
        assert t < 3_000
        decision = portfolio.decide(None)
        best = 0 if t < 1_000 else 1
        portfolio.learn(decision, float(rng.random() < (0.9 if decision.action == best else 0.1)))
    since = portfolio.certificate().law_since
    assert rounds[1] == t + 1 > since > 1_000
    assert f"eliminated in round {t + 1:,}" in portfolio.explain("Constant(0)")
    records = portfolio.records(pairs=[("Constant(0)", "Constant(1)")])
    assert records[0]["round"] == t + 1
    assert [verify_record(record) for record in records] == [[], []]
    for words in (describe_elimination(records[1]), portfolio.compare(0, 1).describe(portfolio.learner_names)):
        assert f"plays since round {since:,}, Constant(0) has had" in words
        assert f"one law since round {since:,}. In round {since - 1:,} the rewards refuted" in words


def _counterfactual() -> CounterfactualBalancing:
    return CounterfactualBalancing.for_learners([Constant(action) for action in range(3)], contexts="fixed")


@pytest.mark.parametrize("make", [None, _counterfactual])
def test_the_selector_follows_a_swap_that_a_warning_only_reports(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,200 possible, as a mean; the control draws on what the best rule earned before it fell."""
    assert fmean(regrets_after_swap("warn", range(3), make, rounds=3_000)) < 100
    monkeypatch.setattr(realized_balancing, "MIN_DROP", inf)
    assert fmean(regrets_after_swap("warn", range(3), make, rounds=3_000)) > 150


def test_a_restart_follows_a_swap_without_a_second_head_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 1,200 possible; the control treats learners, which keep what they have learned, as new ones."""
    assert regrets_after_swap("restart", range(1), rounds=3_000)[0] < 100
    monkeypatch.setattr(realized_balancing.RealizedBalancing, "restart_settings", {})
    assert regrets_after_swap("restart", range(1), rounds=3_000)[0] > 120


def test_a_restarted_selector_is_saved_as_it_goes_on() -> None:
    selector = realized_balancing.RealizedBalancing(3)
    selector.restart(0.02)
    assert selector.head_start == realized_balancing.HEAD_START  # nothing has been learned
    selector.credit(selector.choose(), 1.0)
    selector.restart(0.01)
    copy = realized_balancing.RealizedBalancing.from_config(selector.config())
    assert (selector.head_start, copy.head_start, copy.params.head_start) == (0.0, 0.0, 0.0)


def test_falling_rewards_are_said_and_nothing_follows() -> None:
    """A learner that always earns less and less is no drift: it may explore, or lock in."""

    class Sinking:
        name = "Sinking"

        def decide(self, context: object) -> Proposal:
            return Proposal(0)

        def learn(self, context: object, action: int, reward: float) -> None: ...

    portfolio, rng = Portfolio([Sinking()], on_drift="restart"), np.random.default_rng(2)
    for t in range(1_500):
        context = rng.random((3, 2))
        portfolio.learn(portfolio.decide(context), float(rng.random() < 0.9 - 0.8 * (t > 700)))
    assert not [mark for mark in portfolio.history.marks if mark.kind == "drift"]
    assert "Sinking has earned less per play by at least" in portfolio.describe()


def test_delays_that_depend_on_rewards_raise_no_alarm() -> None:
    """Ones come at once and zeros 300 rounds late: of the rewards that have arrived the mean falls, in play order it
    does not."""
    portfolio, rng = Portfolio([Constant(0), Constant(1)], seed=1), np.random.default_rng(4)
    waiting: list[tuple[int, Any]] = []
    for t in range(1_500):
        while waiting and waiting[0][0] <= t:
            portfolio.learn(waiting.pop(0)[1], 0.0)
        decision = portfolio.decide(None)
        if rng.random() < 0.5:
            portfolio.learn(decision, 1.0)
        else:
            waiting.append((t + 300, decision))
    assert not [mark for mark in portfolio.history.marks if mark.kind == "drift"]
    monitor = portfolio._state.drift.monitor
    assert monitor is not None and len(monitor.open) == len(waiting)


@pytest.mark.slow
def test_learners_that_learn_late_rewards_at_once_are_not_held_to_their_widths() -> None:
    """One law, zeros of the poor action late: no alarm. The control, which trusts all widths, has alarms in 2 of 2."""
    assert [bound_alarm(seed) for seed in range(2)] == [None, None]
    with trusting_all_widths():
        assert None not in [bound_alarm(seed, rounds=3_600) for seed in range(2)]


def test_a_change_is_found_by_bounds_if_rewards_come_in_order_and_named_as_what_it_is() -> None:
    """Both actions are poor from round 601 on. The clause says which null was refuted."""
    assert all((bound_alarm(seed, late=0, rounds=900, after=0.2) or 0) > 600 for seed in range(2))
    two = law_clause(91, 90, "one law, or that one of A and B keeps its bound")
    assert two.endswith("In round 90 the rewards refuted one law, or that one of A and B keeps its bound.")
    monitor = RewardMonitor(0.05, law_of(1.0, None, "random"))
    for t in range(1, 1_601):
        monitor.open_play(t, t % 2, None, 0.01, False)
        monitor.close_play(t, float(t % 2 and t < 800))
    names = ("A", "B")
    assert monitor.check((), (), {}, names) is None  # no learner is trusted to keep its bound
    for stream in monitor.learners.values():
        stream.next_check = 0
    alarm = monitor.check((), (0, 1), {}, names)
    assert alarm is not None and alarm.null == "one law, or that one of A and B keeps its bound"
    assert alarm.reason.startswith("the rewards since round 1 refute one law, or that one of A and B keeps its bound: ")


def test_order_is_noted_by_learner_and_kept(tmp_path: Path) -> None:
    """Who learned from a later round first, or failed to learn, is not held to its widths any more; others are."""
    portfolio = Portfolio([OFUL(2), UCB(2)], BalancedElimination([Observed(), Power(1.0)]), seed=1)
    offers = np.eye(2)
    first, second = portfolio.decide(offers), portfolio.decide(offers)
    portfolio.learn(second, 0.5)
    updates = portfolio._state.updates
    assert {first.learner, second.learner} == {0, 1}
    assert updates.unordered == ({1} if second.learner == 1 else set())
    portfolio.learn(first, 0.5)
    for _ in range(8):
        late, prompt = portfolio.decide(offers), portfolio.decide(offers)
        portfolio.learn(prompt, 0.5)
        portfolio.learn(late, 0.5)
    assert updates.unordered == {1} and not updates.may_keep_bound(1) and updates.may_keep_bound(0)
    portfolio.save(tmp_path / "p")
    assert Portfolio.load(tmp_path / "p")._state.updates.unordered == {1}
    for delays in ("independent", "any"):
        portfolio = Portfolio([UCB(2)], delays=delays)
        late, prompt = portfolio.decide(None), portfolio.decide(None)
        portfolio.learn(prompt, 0.5)
        assert portfolio._state.updates.may_keep_bound(0) is (delays == "independent")


def test_a_withdrawn_round_holds_up_nobody() -> None:
    portfolio = Portfolio([Constant(0)])
    first = portfolio.decide(None)
    portfolio.learn(portfolio.decide(None), 1.0)
    monitor = portfolio._state.drift.monitor
    assert monitor is not None
    stream = monitor.learners[0]
    stream.advance()
    assert stream.plays == 0
    portfolio.withdraw(first)
    stream.advance()
    assert stream.plays == 1
    assert not monitor.open


def test_a_play_that_no_stream_waits_for_is_forgotten_when_saved() -> None:
    """Its action is monitored no more, and then its learner: a state with it could not be loaded."""
    monitor = RewardMonitor(0.05, law_of(1.0, None, "fixed"))
    monitor.open_play(1, 0, 3, 0.0, True)
    monitor.open_play(2, 1, 3, 0.0, True)
    monitor.arms.clear()
    monitor.forget_learner(0)
    loaded = RewardMonitor.from_state(made(monitor.frozen()))
    assert set(loaded.open) == {2} and not loaded.arms and set(loaded.learners) == {1}


def test_variances_are_those_of_the_radii() -> None:
    assert law_of(2.0, None, "random")[:2] == (1.0, 2.0)
    assert law_of(2.0, None, "fixed")[:2] == (1.0, 1.0)
    assert law_of(2.0, 0.5, "random")[:2] == (1.25, 1.25)


class Bare:
    """A selector with what is required and no restart."""

    def __init__(self) -> None:
        self._inner = RealizedBalancing(1)

    def __getattr__(self, name: str) -> Any:
        if name in ("restart", "_inner"):
            raise AttributeError(name)
        return getattr(self._inner, name)


def test_impossible_responses_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="on_drift is 'panic', but must be one of"):
        Portfolio([UCB(2)], on_drift="panic")
    with pytest.raises(InvalidArgument, match=r"must have restart\(\) to begin a new epoch, as on_drift is 'restart'"):
        Portfolio([UCB(2)], Bare(), on_drift="restart")  # type: ignore[arg-type]
    assert Portfolio([UCB(2)], on_drift="ignore")._state.drift.monitor is None


def test_a_lost_reward_holds_up_a_bounded_number_of_plays_and_later_windows_go_on() -> None:
    """The law changes after the loss: only windows that began after it can tell."""
    portfolio = Portfolio([Constant(0), Constant(1)], RealizedBalancing(2, contexts="fixed"))
    rng, alarms = np.random.default_rng(0), []
    portfolio.on_event(lambda event: alarms.append(event) if event.kind == "drift" else None)
    lost = portfolio.decide(None)
    for t in range(3 * MAX_WAITING):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < (0.9 if t < 2 * MAX_WAITING else 0.1)))
    monitor = portfolio._state.drift.monitor
    assert alarms and monitor is not None
    assert max(len(stream.queue) for stream in monitor.learners.values()) <= MAX_WAITING
    assert len(monitor.open) <= 1
    loaded = Portfolio.from_state(portfolio.state())
    assert loaded.state()["drift"] == portfolio.state()["drift"]
    portfolio.learn(lost, 1.0)


def test_plays_that_wait_for_a_long_deadline_are_not_given_up() -> None:
    """More than `MAX_WAITING` plays are open, and their rewards come in order: every one is in the windows."""
    monitor, n_open, n = RewardMonitor(0.05, law_of(1.0, None, "fixed")), MAX_WAITING + 200, 600
    for t in range(n_open + n):
        monitor.open_play(t, 0, 0, 0.0, True)
        if t >= n_open:
            monitor.close_play(t - n_open, 1.0)
    for stream in monitor.streams():
        assert stream.windows[0].start == 0 and not stream.skipped
        assert n - CHECK_EVERY <= stream.total <= n and stream.held_up == n - stream.plays
    assert len(monitor.open) == n_open


def test_windows_that_begin_after_a_loss_agree_with_their_definition() -> None:
    rng = np.random.default_rng(2)
    rewards = [float(x) for x in rng.random(700) < 0.6]
    stream = Stream(0.01, 0.25, 0.5)
    for k, reward in enumerate(rewards):
        play = Play(k, 0, 0.0, ())
        play.reward = None if k == 0 else reward
        stream.queue.append(play)
    stream.advance()
    assert [play.round for play in stream.skip()] == [0]
    stream.advance()
    stream.check()
    level, n = 0.01 / (2 * 3), len(rewards) - STEP
    radius = 1.7 * sqrt(n * 0.25 * (log(log(2 * n)) + 0.72 * log(5.2 / level)))
    starts = [window.start for window in stream.windows]
    assert starts[0] == STEP and stream.plays == len(rewards) and stream.least_upper < inf
    assert stream.highest_lower >= (sum(rewards[STEP:]) - radius) / n


def order_alarms(seed: int, draw: Callable[[np.random.Generator], float], *, late: int = 0, **settings: Any) -> int:
    """Number of alarms about the order of two equal rules; `late` is by how many rounds the lower rewards come late."""
    learners = [Constant(0), Constant(1)]
    portfolio = Portfolio(learners, CounterfactualBalancing.for_learners(learners, **settings), seed=seed)
    rng, found, waiting = np.random.default_rng([11, seed]), list[Event](), deque[tuple[int, Any, float]]()
    portfolio.on_event(lambda event: found.append(event) if event.kind == "drift" else None)
    for t in range(1_000):
        decision, reward = portfolio.decide(None), draw(rng)
        if late and reward < 0.5:
            waiting.append((t + late, decision, reward))
        else:
            portfolio.learn(decision, reward)
        while waiting and waiting[0][0] <= t:
            portfolio.learn(*waiting.popleft()[1:])
    return sum(event.data["alarm"] == "order" for event in found)


@pytest.mark.parametrize(
    ("draw", "settings"),
    [
        (lambda rng: float(rng.random() < 0.9), {}),
        (lambda rng: float(rng.random() < 0.1), {}),
        (lambda rng: float(rng.random() < 0.9), {"late": 40}),
        (lambda rng: 0.6 if rng.random() < 0.99 else -9.4, {"noise": 5.0}),
    ],
    ids=["high", "low", "late", "unbounded"],
)
def test_one_order_raises_no_alarm_wherever_rewards_lie(draw: Callable[..., float], settings: dict[str, Any]) -> None:
    """The sum of Y of a pair has the rounds of both experts, with opposite signs: rewards that are all high, or all
    low, say nothing about their order, and unbounded ones nothing that lemma 2 covers. A false alarm has probability at
    most 0.00625 in each run; seeds are fixed."""
    assert sum(order_alarms(seed, draw, **settings) for seed in range(2)) == 0


def test_a_turned_order_is_found_and_windows_share_delta() -> None:
    """j is better by 0.25 in every round up to 1,280, then worse; checks come every 128 rounds, or late."""
    for late in (0, 5):
        pairs, learning = (Pairs(0.01, 2, 1.0, PairSums(late, [0.0] * 4, [0.0] * 4)) for _ in range(2))
        found, gain = [], 0.0
        for check in range(1, 21):
            gain += 32.0 if check <= 10 else -32.0
            sums = PairSums(128 * check + late, [0.0, gain, -gain, 0.0], [0.0, 8.0 * check, 8.0 * check, 0.0])
            found.append(pairs.check(sums, (0, 1)))
            assert learning.check(sums, (1,)) is None  # expert 0 learns: it may overtake under one law
        assert found[:10] == [None] * 10 and found[-1] == (0, 1)
    alphas = [pairs._alpha(rounds) for rounds in range(100_000)]
    assert 0.007 < 2 * sum(alphas) <= 0.01


def test_arms_are_not_monitored_again_once_contexts_have_changed() -> None:
    """Else every round without a context after one with a context would begin anew, with all of delta."""
    portfolio = Portfolio([Constant(0)])
    for t in range(40):
        portfolio.learn(portfolio.decide(np.ones((1, 1)) if t == 20 else None), 1.0)
        monitor = portfolio._state.drift.monitor
        assert monitor is not None and bool(monitor.arms) == (t < 20)
    loaded = Portfolio.from_state(portfolio.state())
    loaded.learn(loaded.decide(None), 1.0)
    assert loaded._state.drift.monitor is not None and not loaded._state.drift.monitor.arms


def test_a_single_expert_has_no_order() -> None:
    portfolio = Portfolio([Constant(0)], CounterfactualBalancing(1))
    for _ in range(300):
        portfolio.learn(portfolio.decide(None), 0.9)
    assert not [mark for mark in portfolio.history.marks if mark.kind == "drift"]


def test_pairs_of_learners_that_join_are_monitored_with_what_is_left_of_delta() -> None:
    """Expert 2 joins, is worse than expert 0 for four checks and then better; windows that began before ignore it."""
    pairs = Pairs(0.05, 2, 1.0, PairSums(0, (0.0,) * 4, (0.0,) * 4))
    assert pairs.check(PairSums(300, (0.0, 90.0, -90.0, 0.0), (0.0, 30.0, 30.0, 0.0)), (0, 1)) is None
    pairs.grow(3)
    loaded = Pairs.from_state(pairs.state())
    assert loaded.state() == pairs.state()
    pairs = loaded
    gain, found = 0.0, []
    for check in range(1, 9):
        gain += 60.0 if check <= 4 else -60.0
        gains = (0.0, 90.0, gain, -90.0, 0.0, 0.0, -gain, 0.0, 0.0)
        squares = (0.0, 30.0, 20.0 * check, 30.0, 0.0, 0.0, 20.0 * check, 0.0, 0.0)
        found.append(pairs.check(PairSums(300 + 150 * check, gains, squares), (0, 1, 2)))
    assert found[:4] == [None] * 4 and found[-1] == (0, 2)
    sizes = [len(window.sums.gains) for window in pairs.windows]
    assert sizes == [4, 4] + [9] * 8
    assert sum((2 if n == 4 else 6) * window.alpha for n, window in zip(sizes, pairs.windows, strict=True)) < 0.05
