"""The arithmetic of the leaderboard against plain loops, and what is kept on disk."""

import json
from collections.abc import Callable
from math import exp, inf, isnan, log, nan
from pathlib import Path

import numpy as np
import pytest

from equipoise.lab.rivals import RIVAL_LEARNERS, RIVAL_SELECTORS
from equipoise.lab.runs.summary import regret_unit, small_percent
from equipoise.lab.suite.contenders import BEST_GREEDY, CONTENDERS, ORACLE
from equipoise.lab.suite.leaderboard import N_DRAWS, Cost, Scores, cost, leaderboard, restricted, with_references
from equipoise.lab.suite.suite import ResultLog
from equipoise.learner import Proposal
from equipoise.selectors import SELECTORS
from equipoise.simulation import sources
from equipoise.simulation.tapes import Tapes, load_tapes, save_tapes

N_SEEDS = 6
ROUNDS = np.array([10, 60, 200])


def synthetic_scores() -> Scores:
    """Three instances of which the third is closed to the second selector; the best learner loses little on "b"."""
    rng = np.random.default_rng(8)
    learners = {
        "a": rng.uniform(100, 300, (N_SEEDS, 3)),
        "b": rng.uniform(1, 5, (N_SEEDS, 2)),
        "c": rng.uniform(40, 60, (N_SEEDS, 4)),
    }
    selectors = {
        "first": {name: rng.uniform(150, 900, N_SEEDS) for name in "abc"},
        "second": {name: rng.uniform(150, 900, N_SEEDS) for name in "ab"},
        "third": {name: rng.uniform(200, 700, N_SEEDS) for name in "abc"},
    }
    rewards = {name: 1_000.0 - regrets for name, regrets in learners.items()}
    return Scores(learners, rewards, selectors, {"a": 25.0, "b": 20.0, "c": 25.0})


def plain_means(learners: list[list[float]]) -> list[float]:
    return [sum(row[i] for row in learners) / len(learners) for i in range(len(learners[0]))]


def plain_ratio(regrets: list[float], learners: list[list[float]]) -> float:
    return sum(regrets) / len(regrets) / min(plain_means(learners))


def plain_log_mean(scores: Scores, label: str, names: str, seeds: list[int]) -> float:
    logs = []
    for name in names:
        learners = [scores.learners[name][seed].tolist() for seed in seeds]
        regrets = [float(scores.selectors[label][name][seed]) for seed in seeds]
        logs.append(log(plain_ratio(regrets, learners)))
    return sum(logs) / len(logs)


def test_cost_by_hand() -> None:
    """Learners lose 30 and 50 on average, the selector 90, in 10,000 rounds with rewards of width 2."""
    learners = {"a": np.array([[20.0, 60.0], [40.0, 40.0]])}
    rewards = {"a": np.array([[5_000.0, 7_000.0], [7_000.0, 9_000.0]])}
    scores = Scores(learners, rewards, {"any": {"a": np.array([80.0, 100.0])}}, {"a": regret_unit(10_000, 2.0)})
    found = cost(scores, "any", "a")
    assert (found.best, found.regret, found.ratio, found.strict) == (30.0, 90.0, 3.0, 3.0)
    assert found.excess == pytest.approx(60 / 200)
    assert found.reward_lost == pytest.approx(60 / 6_000)


def test_no_floor_makes_a_small_ratio() -> None:
    """On almost-no-noise the best learner loses 2, the selector 13; a floor of sqrt(T)/4 made that 0.17."""
    assert Cost(best=2.0, regret=13.0, unit=316.0, reward=1.0).ratio == 6.5
    assert Cost(best=0.0, regret=13.0, unit=316.0, reward=1.0).ratio == inf
    assert Cost(best=0.0, regret=0.0, unit=316.0, reward=1.0).ratio == 1.0
    assert isnan(Cost(best=2.0, regret=13.0, unit=316.0, reward=-1.0).reward_lost)


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.01234, "1.2 %"), (-0.0004, "−0.04 %"), (0.3, "30 %"), (-1e-9, "0.00 %"), (None, "–"), (nan, "–")],
)
def test_a_small_share_has_at_most_two_places(share: float | None, text: str) -> None:
    assert small_percent(share) == text


def test_leaderboard_agrees_with_plain_loops() -> None:
    """Geometric means, paired ratios on common instances, intervals from the same draws, worst cases."""
    scores, everyone = synthetic_scores(), list(range(N_SEEDS))
    found = {place.label: place for place in leaderboard(scores)}
    own = {"first": "abc", "second": "ab", "third": "abc"}
    means = {label: plain_log_mean(scores, label, names, everyone) for label, names in own.items()}
    leader = min(("first", "third"), key=lambda label: means[label])  # the second is not compatible with all instances
    draws = np.random.default_rng(0).integers(N_SEEDS, size=(N_DRAWS, N_SEEDS))[:300].tolist()
    for label, names in own.items():
        place = found[label]
        assert place.n_instances == len(names)
        assert place.ratio.value == pytest.approx(exp(means[label]), rel=1e-12)
        ratio = plain_log_mean(scores, label, names, everyone) - plain_log_mean(scores, leader, names, everyone)
        assert place.to_leader.value == pytest.approx(exp(ratio), rel=1e-12)
        # With 300 of the 4,000 draws a quantile at 2.5 % lies between those at 0.3 % and 6 % of them but for a
        # probability below 1e-3; the draws are fixed.
        some = sorted(plain_log_mean(scores, label, names, draw) for draw in draws)
        assert some[1] <= log(place.ratio.low) <= some[18]
        assert some[-19] <= log(place.ratio.high) <= some[-2]
        ratios = {name: exp(plain_log_mean(scores, label, name, everyone)) for name in names}
        assert place.strict == pytest.approx(exp(sum(log(max(1.0, value)) for value in ratios.values()) / len(names)))
        assert place.worst_ratio.instance == max(ratios, key=lambda name: ratios[name])
        assert place.worst_ratio.value == pytest.approx(max(ratios.values()))
        bests = {name: min(plain_means(scores.learners[name].tolist())) for name in names}
        regrets = {name: sum(scores.selectors[label][name].tolist()) / N_SEEDS for name in names}
        assert place.best == pytest.approx(sum(bests.values()) / len(names))
        assert place.regret == pytest.approx(sum(regrets.values()) / len(names))
        excess = {name: (regrets[name] - bests[name]) / scores.units[name] for name in names}
        lost = {name: (regrets[name] - bests[name]) / (1_000 - bests[name]) for name in names}
        for worst, values in ((place.worst_excess, excess), (place.worst_reward_lost, lost)):
            assert worst.value == pytest.approx(max(values.values()))
            assert worst.instance == max(values, key=lambda name: values[name])
        assert place.reward_lost == pytest.approx(sum(lost.values()) / len(names))
        by_seed = {}
        for name in names:
            denominator = float(scores.selectors[label][name].mean()) / ratios[name]
            by_seed[name] = max(scores.selectors[label][name].tolist()) / denominator
        assert place.worst_seed.value == pytest.approx(max(by_seed.values()))
        assert place.worst_seed.instance == max(by_seed, key=lambda name: by_seed[name])
    assert found[leader].to_leader.low == found[leader].to_leader.high == 1.0
    assert [place.to_leader.value for place in leaderboard(scores)] == sorted(
        place.to_leader.value for place in found.values()
    )


def test_selectors_are_compared_by_seed() -> None:
    """Seeds that are hard for all selectors widen the interval of a ratio, but not that of two selectors."""
    hard = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    learners = {"a": np.ones((N_SEEDS, 2))}
    scores = Scores(learners, learners, {"one": {"a": 10 * hard}, "two": {"a": 12 * hard}}, {"a": 1.0})
    one, two = leaderboard(scores)
    assert one.ratio.high > 2 * one.ratio.low
    assert (two.to_leader.low, two.to_leader.value, two.to_leader.high) == pytest.approx((1.2, 1.2, 1.2))


def test_the_oracle_brackets_but_does_not_lead() -> None:
    """Nor does the best greedy expert, which is the best on average of those that there are."""
    scores = synthetic_scores()
    greedy = {"a": scores.learners["a"] / 5}
    greedy["a"][:, np.argmin(greedy["a"].mean(axis=0))] = np.nan  # this learner has none
    found = with_references(scores, greedy)
    least = np.nanmin(greedy["a"].mean(axis=0))
    assert found.selectors[BEST_GREEDY]["a"].mean() == pytest.approx(least)
    assert set(found.selectors[BEST_GREEDY]) == {"a"}
    places = leaderboard(found)
    assert {places[0].label, places[1].label} == {ORACLE, BEST_GREEDY}
    assert places[0].ratio.value <= 1.0
    assert max(places[0].to_leader.value, places[1].to_leader.value) < 1.0
    assert min(place.to_leader.value for place in places[2:]) == 1.0


def test_a_part_is_of_its_instances() -> None:
    scores = synthetic_scores()
    part = restricted(scores, ["c", "a"])
    assert list(part.learners) == ["a", "c"]
    np.testing.assert_array_equal(part.learners["c"], scores.learners["c"])
    np.testing.assert_array_equal(part.selectors["second"]["a"], scores.selectors["second"]["a"])
    assert "second" not in restricted(scores, ["c"]).selectors


def test_every_selector_takes_part_or_says_why_not() -> None:
    absent = {
        "Oracle": "read off the learners' own curves",
        "EpochBalancing": "its guarantee is for a single epoch of adversarial contexts",
        "AdversarialElimination": "made for contexts that an adversary chooses",
    }
    assert {each.selector for each in CONTENDERS.values() if not each.whole} == {*SELECTORS, *RIVAL_SELECTORS} - set(
        absent
    )
    assert {each.selector for each in CONTENDERS.values() if each.whole} < set(RIVAL_LEARNERS)


def test_a_log_survives_half_a_line_and_passes_over_altered_ones(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    rows = [{"key": f"k{i}", "regret": i / 3} for i in range(3)]
    ResultLog(path).add(rows)
    lines = path.read_bytes().splitlines(keepends=True)
    altered = json.loads(lines[1])
    altered["regret"] = 0.0
    path.write_bytes(lines[0] + json.dumps(altered).encode() + b"\n" + lines[2][:-9])
    log = ResultLog(path)
    assert set(log.rows) == {"k0"}
    log.add([{"key": "k1", "regret": 5.0}])
    again = ResultLog(path).rows
    assert {key: row["regret"] for key, row in again.items()} == {"k0": 0.0, "k1": 5.0}


def test_code_counts_with_all_that_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "equipoise"
    package.mkdir()
    (package / "low.py").write_text("x = 1")
    (package / "high.py").write_text("from equipoise.low import x")
    (package / "other.py").write_text("import math")
    monkeypatch.setattr(sources, "PACKAGE", package)

    def digests() -> tuple[str, str]:
        sources._source.cache_clear()
        sources._imported.cache_clear()
        return sources.code_digest(["equipoise.high"]), sources.code_digest(["equipoise.other"])

    before = digests()
    (package / "low.py").write_text("x = 2")
    after = digests()
    assert before[0] != after[0]
    assert before[1] == after[1]


class Coin:
    """Two actions, of which the second is better; made of no kernels."""

    name, iid, reward_range, noise = "Coin", True, (0.0, 1.0), None

    def observe(self, rng: np.random.Generator) -> float:
        return float(rng.random())

    def respond(self, context: float, action: int, rng: np.random.Generator) -> float:
        return float(rng.random() < 0.3 + 0.4 * action * context)

    def gap(self, context: float, action: int) -> float:
        return 0.4 * (1 - action) * context


class Follower:
    """Plays the second action ever more often."""

    name = "Follower"

    def __init__(self) -> None:
        self.earned = 0.0

    def decide(self, context: float, rng: np.random.Generator) -> Proposal:
        return Proposal(int(rng.random() < self.earned / (1 + self.earned)), regret=1 / (1 + self.earned))

    def learn(self, context: float, action: int, reward: float) -> None:
        self.earned += reward


def open_tapes(seed: int = 4, n_learners: int = 2) -> Tapes:
    return Tapes(Coin(), [Follower() for _ in range(n_learners)], ROUNDS, seed)


def test_tapes_come_back_from_disk_and_go_on_where_they_ended(tmp_path: Path) -> None:
    """Extending restored tapes gives the rows of tapes that never were on disk, and nobody plays without need."""
    straight, path = open_tapes(), tmp_path / "tapes.npz"
    straight._play(0, 90, straight.rows[0])
    straight.recorded[0] = 90
    short = open_tapes()
    short._play(0, 50, short.rows[0])
    short.recorded[0] = 50
    save_tapes(short, path, "key")
    restored = open_tapes()
    assert load_tapes(restored, path, "key")
    assert restored.recorded.tolist() == [50, 0]
    np.testing.assert_array_equal(restored.curve(1), short.curve(1))
    assert restored.total_reward(1) == short.total_reward(1) > 0.0
    assert restored.seconds_per_play(0) == short.seconds_per_play(0) > 0
    assert restored.learners[1].earned == 0.0
    restored.extend(0)
    n = min(90, int(restored.recorded[0]))
    np.testing.assert_array_equal(restored.rows[0, :n], straight.rows[0, :n])


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-200],
        lambda data: data[:100],
        lambda data: b"",
        lambda data: b"no archive at all",
        lambda data: data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 255]) + data[len(data) // 2 + 1 :],
    ],
)
def test_damaged_tapes_are_recorded_again(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "tapes.npz"
    tapes = open_tapes()
    tapes.extend(0)
    save_tapes(tapes, path, "key")
    path.write_bytes(damage(path.read_bytes()))
    restored = open_tapes()
    assert not load_tapes(restored, path, "key")
    assert restored.recorded.tolist() == [0, 0]


def test_tapes_of_something_else_are_no_tapes(tmp_path: Path) -> None:
    path = tmp_path / "tapes.npz"
    save_tapes(open_tapes(), path, "key")
    assert not load_tapes(open_tapes(), path, "other key")
    assert not load_tapes(open_tapes(n_learners=3), path, "key")
    assert not load_tapes(open_tapes(), tmp_path / "nothing.npz", "key")
    assert load_tapes(open_tapes(), path, "key")
