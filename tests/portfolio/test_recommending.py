"""The selector of a portfolio that is given none: which, why, and what follows for sharing, loading and joining."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.config import parse
from equipoise.errors import InvalidArgument
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import CounterfactualBalancing, RealizedBalancing
from tests.recorders import saved

COUNTERFACTUAL = "The selector is CounterfactualBalancing: 2 of 2 learners learn from rounds of others."


class FixedRule:
    """A rule of a user's own that never learns, and says so."""

    learns = False

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: int, reward: float) -> None: ...


class WinStay:
    """A plain class: nothing but `decide` and `learn`."""

    action = 0

    def decide(self, context: Any) -> int:
        return self.action

    def learn(self, context: Any, action: int, reward: float) -> None:
        self.action = action if reward > 0.5 else (action + 1) % 3


class OffPolicy(WinStay):
    accepts = frozenset({"off_policy"})


class SilentOffPolicy(OffPolicy):
    silent = True


@pytest.mark.parametrize(
    ("learners", "share_data", "reason"),
    [
        ([OFUL(2), OFUL(4)], None, ""),
        ([OFUL(2), OFUL(4)], True, ""),
        ([OFUL(2), Constant(0)], None, ""),  # a status quo has nothing to learn
        ([OFUL(2), FixedRule()], None, ""),
        ([LinearThompson(2), UCB(3)], None, ""),
        ([OFUL(2), OFUL(4)], False, "data are not shared"),
        ([OFUL(2)], None, "there is one learner"),
        ([UCB(3), UCB(3)], None, "no learner learns from rounds that others play"),
        ([Constant(0), Constant(1)], None, "no learner learns from rounds that others play"),
        ([OFUL(2), EpsilonGreedy(3, epsilon=0.1)], None, ""),
        ([OFUL(2), WinStay()], None, ""),
        ([WinStay(), SilentOffPolicy()], None, "no learner learns from rounds that others play"),
        ([OffPolicy(), WinStay()], None, ""),  # without a greedy action
        ([WinStay(), EpsilonGreedy(3, epsilon=0.1)], None, "no learner learns from rounds that others play"),
    ],
)
def test_the_learners_decide_which_selector_it_is(learners: list[Any], share_data: bool | None, reason: str) -> None:
    portfolio = Portfolio(learners, share_data=share_data)
    last = portfolio.describe().splitlines()[-1]
    if reason:
        assert isinstance(portfolio.selector, RealizedBalancing)
        assert last.startswith(f"The selector is RealizedBalancing: {reason}")
    else:
        assert isinstance(portfolio.selector, CounterfactualBalancing)
        n_sharing = sum(isinstance(learner, OFUL | LinearThompson | OffPolicy) for learner in learners)
        verb = "learns" if n_sharing == 1 else "learn"
        reason = f"{n_sharing} of {len(learners)} learners {verb} from rounds of others."
        assert last == f"The selector is CounterfactualBalancing: {reason}"
    assert "The selector is" not in Portfolio([UCB(2)], RealizedBalancing(1)).describe()


@pytest.mark.parametrize("share_data", [0, "no", np.False_])
def test_sharing_is_yes_or_no(share_data: Any) -> None:
    """Data of learners that must not learn from each other would be shared silently."""
    for make in (Portfolio, CounterfactualBalancing.for_learners):
        with pytest.raises(InvalidArgument, match=r"share_data is .*, but must be True or False"):
            make([OFUL(2), OFUL(4)], share_data=share_data)


def play(portfolio: Portfolio, rounds: int, dim: int = 4) -> None:
    rng = np.random.default_rng(2)
    for _ in range(rounds):
        context = rng.random((3, dim)) / 2
        decision = portfolio.decide(context)
        portfolio.learn(decision, float(rng.random() < context[decision.action, 0]))


def test_data_are_shared_and_a_learner_that_fits_joins_with_its_greedy_expert(tmp_path: Path) -> None:
    portfolio = Portfolio([OFUL(2), OFUL(4)], reward_range=(0.0, 2.0))
    assert portfolio.selector.reward_range == (0.0, 2.0)
    play(portfolio, 20)
    portfolio.add_learner(OFUL(3))
    play(portfolio, 30)
    assert [int(learner.memory.updates[0]) for learner in portfolio.learners] == [50, 50, 30]
    assert portfolio.selector.experts[4:] == ((2, False), (2, True))
    with pytest.raises(InvalidArgument, match="share_data is False, but must stay None: Counterfactual balancing"):
        portfolio.reconfigure(share_data=False)
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p")
    assert saved(loaded) == saved(portfolio) and loaded.describe() == portfolio.describe()
    assert loaded.describe().endswith(COUNTERFACTUAL)


def test_a_journal_keeps_its_selector_if_another_one_is_recommended_now(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with equipoise.open(path, lambda: Portfolio([OFUL(2), OFUL(4)], RealizedBalancing(2))):
        pass
    with equipoise.open(path, lambda: Portfolio([OFUL(2), OFUL(4)])) as live:
        assert live.transact(lambda portfolio, at: type(portfolio.selector).__name__) == "RealizedBalancing"


def test_a_file_without_a_selector_takes_the_one_that_suits_its_learners() -> None:
    content: dict[str, Any] = {
        "version": 1,
        "name": "ranking",
        "reward": {"range": [0, 5]},
        "learner": [{"use": "OFUL", "dim": 2}, {"use": "OFUL", "dim": 4}],
    }
    portfolio = parse(content).portfolio()
    assert isinstance(portfolio.selector, CounterfactualBalancing) and portfolio.reward_range == (0.0, 5.0)
    assert portfolio.describe().endswith(COUNTERFACTUAL)
    named = parse({**content, "selector": {"use": "CounterfactualBalancing", "slack": 8.0}}).portfolio()
    assert (named.selector.experts, named.selector.slack) == (portfolio.selector.experts, 8.0)
    assert tuple(named.selector.learning) == ("all", "all")
    own = parse({**content, "share_data": False, "selector": {"use": "CounterfactualBalancing"}}).portfolio()
    assert tuple(own.selector.learning) == ("agreed", "agreed")
    bounded = parse({**content, "learner": [{**table, "bound": {"use": "Observed"}} for table in content["learner"]]})
    assert isinstance(bounded.portfolio().selector, RealizedBalancing)
