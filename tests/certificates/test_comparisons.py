"""Statements about two learners: true in simulations, recomputable, refused where no theorem covers them."""

import copy
import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Observed, Power
from equipoise.certificates.records import comparison_record, describe_elimination, verify_record
from equipoise.certificates.wording import at_least, at_most
from equipoise.cli import main
from equipoise.errors import InvalidArgument, UnknownName
from equipoise.learners import OFUL, UCB, Constant
from equipoise.selectors import (
    BalancedElimination,
    Corral,
    CounterfactualBalancing,
    EpochBalancing,
    RealizedBalancing,
    Uniform,
)
from equipoise.storage.files import digest
from tests.certificates.alterations import altered
from tests.radii import mixture_radius
from tests.recorders import player

MEANS = (0.3, 0.4, 0.9)


def played(seed: int = 0, rounds: int = 2_000, **settings: Any) -> Portfolio:
    rng = np.random.default_rng(seed)
    portfolio = Portfolio([Constant(0), UCB(3)], BalancedElimination([Power(1.0), Power(2.0)], **settings))
    for _ in range(rounds):
        decision = portfolio.decide(None)
        portfolio.learn(decision, float(rng.random() < MEANS[decision.action]))
    return portfolio


def record_of(portfolio: Portfolio, first: int = 0, second: int = 1) -> dict[str, Any]:
    rounds = portfolio.certificate().rounds
    about: Any = {"selector_label": "s", "seed": 0, "round": rounds, "learner_names": portfolio.learner_names}
    return comparison_record(portfolio.compare(first, second), premises=portfolio.selector.premises, **about)


def test_the_interval_is_that_of_the_formula() -> None:
    portfolio = played()
    found = portfolio.compare("Constant(0)", "UCB")
    sides = (found.learner, found.other)
    radii = [mixture_radius(side.plays, 0.5, 0.05 / 6) / side.plays for side in sides]
    means = [side.reward_sum / side.plays for side in sides]
    assert found.difference_lower == pytest.approx(means[1] - means[0] - sum(radii))
    assert found.difference_upper == pytest.approx(means[1] - means[0] + sum(radii))
    turned = portfolio.compare(1, 0)
    assert (turned.difference_lower, turned.difference_upper) == (-found.difference_upper, -found.difference_lower)


def test_the_sentence_has_hypothesis_confidence_and_numbers() -> None:
    portfolio = played()
    found = portfolio.compare(0, 1)
    assert found.describe(portfolio.learner_names) == (
        "With confidence 0.95, if contexts are independent and identically distributed, the learner is chosen before "
        "each is seen and the law of rewards never changes: per play, over its "
        f"{found.learner.plays} plays so far, Constant(0) has had between {at_least(found.difference_lower)} and "
        f"{at_most(found.difference_upper)} more regret than UCB over its {found.other.plays:,} plays."
    )
    assert "less regret than Constant(0)" in portfolio.compare(1, 0).describe(portfolio.learner_names)
    early = played(rounds=20, contexts="fixed").compare(0, 1).describe(portfolio.learner_names)
    assert "if contexts, offered actions and the law of rewards never change" in early
    assert "has had at most" in early
    narrowed = played(rounds=20, radius_scale=0.1).compare(0, 1)
    assert narrowed.describe(portfolio.learner_names).startswith("No statement: radius_scale is below 1")


class Late:
    """Which of the two rewards comes late: the lower one, by 50 rounds."""

    def __init__(self, portfolio: Portfolio) -> None:
        self.portfolio, self.waiting = portfolio, list[Any]()

    def learn(self, decision: Any, reward: float, t: int) -> None:
        if reward < 0.5:
            self.waiting.append((t + 50, decision, reward))
        else:
            self.portfolio.learn(decision, reward)
        while self.waiting and self.waiting[0][0] <= t:
            _, open_decision, late = self.waiting.pop(0)
            self.portfolio.learn(open_decision, late)


def broken_runs(setting: str, factor: float, runs: int = 25, rounds: int = 200) -> int:
    """Number of the runs in which a comparison is false at some round, with both half widths multiplied by `factor`.

    Two contexts in equal shares; action 0 pays 0.1 or 0.3, action 1 pays 0.9 or 0.5. The regret of each play is known.
    """
    means = np.array([[0.1, 0.9], [0.3, 0.5]])
    broken = 0
    for seed in range(runs):
        rng = np.random.default_rng([5, seed])
        learners = [Constant(0), Constant(1)] if setting != "shared" else [OFUL(4, noise=0.5), OFUL(4, noise=0.5)]
        portfolio = Portfolio(learners, Uniform(2, seed=seed, delta=0.2), share_data=setting == "shared")
        late, regrets = Late(portfolio), [list[float]() for _ in learners]
        failed = False
        for t in range(rounds):
            x = int(rng.random() < 0.5)
            offers = np.eye(4)[2 * x : 2 * x + 2] if setting == "shared" else None
            decision = portfolio.decide(offers)
            regrets[player(decision)].append(float(means[x].max() - means[x][decision.action]))
            reward = float(rng.random() < means[x][decision.action])
            if setting == "late":
                late.learn(decision, reward, t)
            else:
                portfolio.learn(decision, reward)
            if t % 10 == 9 and min(row.plays - row.pending for row in portfolio.standing()) > 0:
                found = portfolio.compare(0, 1)
                sides = [(regrets[side.index][: side.plays], side) for side in (found.learner, found.other)]
                truth = np.mean(sides[0][0]) - np.mean(sides[1][0])
                failed |= bool(abs(truth - found.difference) > factor * found.mean_radius)
        broken += int(failed)
    return broken


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["prompt", "late", "shared"])
def test_comparisons_are_true(setting: str) -> None:
    """With delta = 0.2 five of 25 runs may fail in expectation, and more than 12 with probability below 4e-4."""
    assert broken_runs(setting, 1.0) <= 12


def test_comparisons_with_an_eighth_of_the_radius_are_false() -> None:
    """The negative control: the same check finds them false in most runs."""
    assert broken_runs("prompt", 0.125) > 12


@pytest.mark.parametrize(
    "settings",
    [{}, {"radius": "stitched"}, {"radius": "paper"}, {"radius": "bernstein"}, {"contexts": "fixed", "delta": 0.001}],
)
def test_a_record_proves_itself(settings: dict[str, Any]) -> None:
    record = record_of(played(rounds=300, **settings))
    again = json.loads(json.dumps(record))
    assert verify_record(again) == []
    assert describe_elimination(again).startswith("With confidence 0.9")


def test_records_of_selectors_with_a_separate_lower_radius_and_without_choice_of_noise() -> None:
    for selector in (RealizedBalancing(2), Corral(2, rounds=300)):
        rng = np.random.default_rng(1)
        learners = [OFUL(1, noise=0.5), OFUL(1, noise=0.5)]
        portfolio = Portfolio(learners, selector)
        for _ in range(50):
            decision = portfolio.decide(np.ones((1, 1)))
            portfolio.learn(decision, float(rng.random()))
        assert verify_record(record_of(portfolio)) == []


def test_a_record_states_since_when_one_law_is_assumed_if_that_was_refuted() -> None:
    portfolio = played(rounds=300)
    about: Any = {"selector_label": "s", "seed": 0, "round": 300, "learner_names": portfolio.learner_names}
    compared = replace(portfolio.compare(0, 1), law_refuted_at=200)
    record = comparison_record(compared, premises=portfolio.selector.premises, **about)
    assert (record["law_since"], record["law_refuted_at"]) == (1, 200)
    assert verify_record(record) == []
    assert not {"law_since", "law_refuted_at"} & set(record_of(portfolio))


def test_no_altered_record_passes() -> None:
    record, chances = record_of(played(rounds=300)), random.Random(3)
    for _ in range(300):
        changed = altered(record, chances)
        if changed != record:
            assert verify_record(changed) != []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("difference_lower",), 0.2),
        (("difference_upper",), 0.2),
        (("learner", "reward_sum"), 1.0),
        (("other", "plays"), 3),
        (("learner", "radius"), 1.0),
        (("delta",), 0.01),
        (("radius",), "stitched"),
        (("shares",), 3),
        (("contexts",), "fixed"),
        (("round",), 10),
    ],
)
def test_a_change_of_the_mathematics_is_rejected_even_if_sealed_anew(path: tuple[str, ...], value: Any) -> None:
    forged = copy.deepcopy(record_of(played(rounds=300)))
    holder = forged[path[0]] if len(path) == 2 else forged
    assert holder[path[-1]] != value
    holder[path[-1]] = value
    forged["digest"] = digest(forged)
    assert verify_record(forged) != []


def test_the_command_line_verifies_comparisons(tmp_path: Path) -> None:
    file = tmp_path / "comparisons.jsonl"
    record = record_of(played(rounds=300))
    codes = []
    for content in (record, record | {"difference_lower": 0.5}):
        file.write_text(json.dumps(content) + "\n", encoding="utf-8")
        with pytest.raises(SystemExit) as left:
            main(["verify", str(file)])
        codes.append(left.value.code or 0)
    assert codes == [0, 1]


def test_what_cannot_be_compared_is_refused_with_the_reason() -> None:
    portfolio = played(rounds=1)
    with pytest.raises(InvalidArgument, match="other is 1, which has no resolved play"):
        portfolio.compare(0, 1)
    portfolio = played(rounds=20)
    with pytest.raises(InvalidArgument, match="other is 0, but must be different from learner"):
        portfolio.compare(0, 0)
    with pytest.raises(InvalidArgument, match="learner is 7, but must be from 0 to 1"):
        portfolio.compare(7, 0)
    with pytest.raises(UnknownName, match="other 'UBC' is unknown; did you mean UCB"):
        portfolio.compare(0, "UBC")
    learners = [OFUL(1), OFUL(2)]
    adversarial = Portfolio(learners, EpochBalancing.for_learners(learners))
    with pytest.raises(InvalidArgument, match="under adversarial contexts each learner plays in rounds of its own"):
        adversarial.compare(0, 1)


def test_a_selector_without_comparisons_says_so() -> None:
    class Plain:
        def __getattr__(self, name: str) -> Any:
            if name == "compare":
                raise AttributeError(name)
            return getattr(self.__dict__["inner"], name)

        def __init__(self) -> None:
            self.__dict__["inner"] = BalancedElimination([Observed()] * 2)

    portfolio = Portfolio([OFUL(1), OFUL(2)], Plain())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"selector is a Plain, but must have compare\(\) to compare learners"):
        portfolio.compare(0, 1)


def test_no_difference_exceeds_the_width() -> None:
    found = played(rounds=4, contexts="random").compare(0, 1)
    assert (found.difference_lower, found.difference_upper) == (-1.0, 1.0)
    assert math.isfinite(found.difference)
    assert found.to_json()["difference_upper"] == 1.0


def test_plays_of_greedy_experts_do_not_count_and_records_prove_themselves() -> None:
    """The sentence said "its 23 plays so far" of a learner with 146, and its record did not verify."""
    learners = [OFUL(2), OFUL(2, scale=0.5)]
    portfolio = Portfolio(learners, CounterfactualBalancing.for_learners(learners, share_data=True))
    rng = np.random.default_rng(0)
    for _ in range(60):
        offers = rng.random((3, 2)) * 0.6
        decision = portfolio.decide(offers)
        portfolio.learn(decision, float(rng.random() < offers[decision.action].sum() / 1.2))
    found = portfolio.compare(0, 1)
    for side, row in zip((found.learner, found.other), portfolio.standing(), strict=True):
        assert 0 < side.plays < side.plays + side.pending == row.plays
    assert f"({found.learner.pending} more do not count) so far" in found.describe(portfolio.learner_names)
    record = record_of(portfolio)
    assert verify_record(json.loads(json.dumps(record))) == []
    with pytest.raises(InvalidArgument, match="other is 3, but must be from 0 to 1"):
        portfolio.selector.compare(0, 3)
