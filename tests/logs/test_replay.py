"""Replay of learners and portfolios on logs, against live runs on the same problem and against plain loops."""

from pathlib import Path

import numpy as np
import pytest

from equipoise.errors import InvalidArgument
from equipoise.learner import MinimalLearner
from equipoise.learners import OFUL, UCB, Constant
from equipoise.logs import LoggedRounds, from_arrays, open_log
from equipoise.logs.arrays import ArraySource
from equipoise.logs.estimators import dm, dr, ips, logged
from equipoise.logs.replay import METHODS, replay, replay_portfolio, summarize
from equipoise.logs.rounds import take
from equipoise.portfolio import Portfolio
from tests.logs.generate import linear_truth


class Fixed:
    """A policy that never learns: the offered action with the largest last feature. Counts what it is taught."""

    name = "fixed"
    accepts = frozenset({"off_policy"})
    randomized = False

    def __init__(self) -> None:
        self.updates: list[tuple[int, float]] = []

    def decide(self, context):
        return int(context[:, -1].argmax())

    def learn(self, context, action, reward):
        self.updates.append((action, reward))


class OwnRounds(Fixed):
    """One that may learn only from its own rounds."""

    accepts = frozenset()


def test_progressive_judges_before_it_teaches() -> None:
    """A learner that repeats the last logged action agrees with the next one by chance only; if it were taught first,
    it would always agree."""

    class Repeats(Fixed):
        def decide(self, context):
            return self.updates[-1][0] if self.updates else 0

    truth = linear_truth(500, 3)
    (result,) = replay(truth.log(), [Repeats()]).learners
    expected = np.concatenate([[0], truth.actions[:-1]]) == truth.actions
    np.testing.assert_array_equal(result.evaluation.probabilities, expected)
    assert result.agreement == expected.mean() < 0.5


def test_estimates_of_a_fixed_policy_by_hand() -> None:
    truth = linear_truth(600, 4)
    policy = Fixed()
    result = replay(truth.log(), [policy])
    (learner,) = result.learners
    agrees = truth.contexts[:, :, -1].argmax(axis=1) == truth.actions
    assert ips(learner.evaluation).value == pytest.approx((agrees / truth.propensities * truth.rewards).mean())
    assert learner.estimate("progressive").value == dr(learner.evaluation).value
    assert learner.advantage("progressive").value == pytest.approx(
        dr(learner.evaluation).value - logged(learner.evaluation).value
    )
    assert len(policy.updates) == 600
    assert learner.evaluation.max_weight == pytest.approx(1 / truth.pmf.min())


def test_a_learner_of_its_own_rounds_is_taught_those_only() -> None:
    truth = linear_truth(600, 5)
    for method in METHODS:
        policy = OwnRounds()
        (learner,) = replay(truth.log(), [policy], method=method, seed=1).learners
        agrees = truth.contexts[:, :, -1].argmax(axis=1) == truth.actions
        assert agrees[learner.accepted].all()
        assert [action for action, _ in policy.updates] == truth.actions[learner.accepted].tolist()
        assert 0 < len(learner.accepted) < agrees.sum()  # thinned


@pytest.mark.statistical
def test_rejection_and_progressive_agree_with_the_true_value_of_a_policy() -> None:
    """100 logs of 500 rounds; both means within 4.5 standard errors of the truth, one error in 1e5 each.
    Negative control: without thinning, the mean reward of accepted rounds is off by more."""
    errors: dict[str, list[float]] = {"progressive": [], "rejection": [], "unthinned": []}
    for seed in range(100):
        truth = linear_truth(500, seed, floor=0.2)
        best = truth.contexts[:, :, -1].argmax(axis=1)
        value = truth.means[np.arange(500), best].mean()
        for method in METHODS:
            (learner,) = replay(truth.log(), [Fixed()], method=method, seed=seed).learners
            errors[method].append(learner.estimate(method).value - value)
        errors["unthinned"].append(truth.rewards[best == truth.actions].mean() - value)
    scores = {name: np.mean(x) / (np.std(x) / 10) for name, x in errors.items()}
    assert abs(scores["progressive"]) < 4.5 and abs(scores["rejection"]) < 4.5
    assert abs(scores["unthinned"]) > 4.5


@pytest.mark.compiled
def test_learners_that_learn_better_models_rank_first() -> None:
    truth = linear_truth(4_000, 6)
    learners: list[MinimalLearner] = [Fixed(), OFUL(3, name="right"), OFUL(1, name="small")]
    result = replay(truth.log(), learners)
    assert result.learners[result.ranking[0]].name == "right"
    coefficients = result.suggested_coefficients()
    assert coefficients[2] == max(coefficients) and all(c > 0 for c in coefficients)
    low, _ = result.learners[1].advantage("progressive").bootstrap()
    assert low > 0.0


def test_compiled_code_gets_only_contexts_that_the_learner_accepts() -> None:
    truth = linear_truth(50, 0)
    with pytest.raises(InvalidArgument, match=r"learner 'OFUL\(d=3\)', rows 1 to 50 of the log: .* norm 2"):
        replay(truth._replace(contexts=2.0 * truth.contexts).log(), [OFUL(3)])
    with pytest.raises(InvalidArgument, match=r"'UCB', rows 1 to 50 of the log: context has 4 rows, but must have at"):
        replay(truth.log(), [UCB(3)])
    with pytest.raises(InvalidArgument, match="learners is empty"):
        replay(truth.log(), [])
    with pytest.raises(InvalidArgument, match="method is 'guess', but must be one of progressive, rejection"):
        replay(truth.log(), [Fixed()], method="guess")


class One(Fixed):
    """Always the second action."""

    def decide(self, context):
        return 1


def partly_supported(n: int, stated: bool) -> LoggedRounds:
    """Action 1 is logged in the context that pays 1 only, and never in the one that pays 1/3: it is worth 0.8."""
    rng = np.random.default_rng(0)
    poor = rng.random(n) < 0.3
    contexts = np.repeat(poor.astype(float)[:, None, None], 2, axis=1)
    pmf = np.where(poor[:, None], [1.0, 0.0], [0.5, 0.5])
    actions = (rng.random(n) > pmf[:, 0]).astype(int)
    rewards = (rng.random(n) < np.where(poor, 1 / 3, 1.0)).astype(float)
    return from_arrays(contexts, actions, rewards, pmf[np.arange(n), actions], pmf=pmf if stated else None)


@pytest.mark.parametrize(
    ("stated", "why"), [(True, "has probabilities 0"), (False, "does not say the probability of every offered action")]
)
def test_rejection_is_refused_where_the_log_lacks_actions(stated: bool, why: str) -> None:
    """Rounds that remain are selected by their context: a portfolio earned 1.00 and was certified at least 0.98,
    where its learner is worth 0.8."""
    log = partly_supported(20_000, stated)
    for run in (lambda: replay(log, [One()], method="rejection"), lambda: replay_portfolio(log, Portfolio([One()]))):
        with pytest.raises(InvalidArgument, match=f"method is 'rejection', but the log {why}, so whether a round"):
            run()
    with pytest.raises(InvalidArgument, match=f"evidence is True, but the log {why}"):
        Portfolio([One()]).warm_start(log, evidence=True)


def test_columns_without_a_probability_count_as_unknown(tmp_path: Path) -> None:
    """Three actions are offered, and the file states probabilities of two."""
    path = tmp_path / "log.csv"
    path.write_text("action,reward,propensity,pmf.0,pmf.1\n" + "0,1,0.5,0.5,0.5\n1,0,0.5,0.5,0.5\n" * 5)
    assert open_log(path).min_offered_exposure == 0.5
    assert np.isnan(open_log(path, n_actions=3).min_offered_exposure)


def test_a_learner_that_takes_an_unsupported_action_has_no_value() -> None:
    """With the row of the first; the others are judged as ever."""
    log = partly_supported(300, True)
    result = replay(log, [One(), Fixed()])  # which takes action 0, as both have the same feature
    (batch,) = log
    first = int(batch.rows[batch.pmf[:, 1] == 0.0][0])
    assert [learner.unsupported_row for learner in result.learners] == [first, None]
    assert np.isnan(result.learners[0].estimate("progressive").value) and result.ranking == [1, 0]
    rows = summarize(result)
    assert np.isnan(rows[1].value) and 0.0 < rows[2].value < 1.0
    coefficients = result.suggested_coefficients()
    assert np.isnan(coefficients[0]) and coefficients[1] > 0.0


def test_progressive_replay_of_one_batch_has_a_model() -> None:
    """Predictions follow the rounds within a batch, so the direct method is not 0."""
    truth = linear_truth(400, 8)
    (learner,) = replay(truth.log(), [Fixed()]).learners
    assert abs(dm(learner.evaluation).value - dr(learner.evaluation).value) < 0.1 < dm(learner.evaluation).value


def test_intervals_of_learners() -> None:
    """A learner may learn, so betting is not offered; without a range or the probabilities, only the bootstrap."""
    truth = linear_truth(400, 8)
    plain = from_arrays(truth.contexts, truth.actions, truth.rewards, truth.propensities)
    for log, limits, name in ((truth.log(), (0, 1), "time_uniform"), (truth.log(), None, "bootstrap")):
        assert {row.interval.name for row in summarize(replay(log, [Fixed()], reward_range=limits))} == {name}
    logged_row, row = summarize(replay(plain, [Fixed()], reward_range=(0, 1)))
    assert (logged_row.interval.name, row.interval.name) == ("time_uniform", "bootstrap")
    assert "no coverage" in row.interval.conditions
    (learner,) = replay(truth.log(), [Fixed()], reward_range=(0, 1)).learners
    assert "learns" in learner.estimate("progressive").refusals["betting"]
    assert learner.evaluation.max_weight == pytest.approx(1 / truth.pmf.min())
    with pytest.raises(InvalidArgument, match=r"reward_range is \(0, 0.5\), but the log has rewards from 0 to 1"):
        replay(plain, [Fixed()], reward_range=(0, 0.5))


def test_a_portfolio_replays_as_if_it_were_live() -> None:
    """With a log that takes every action in every context in turn, rejection keeps the order of a live run."""
    means, n = np.array([0.2, 0.8]), 400
    actions = np.tile([0, 1], n // 2)
    rewards = means[actions]
    log = from_arrays(None, actions, rewards, np.full(n, 0.5), pmf=np.full((n, 2), 0.5))
    result = replay_portfolio(log, Portfolio([UCB(2), Constant(0)]))
    assert result.estimate.interval().name == "time_uniform" and len(result.rewards) > 100
    live = Portfolio([UCB(2), Constant(0)])
    for reward in result.rewards:
        decision = live.decide(np.eye(2))
        assert means[decision.action] == reward
        live.learn(decision, reward)


@pytest.mark.parametrize("pmf", [[0.6, 0.6, 0.0, 0.0], [1.2, -0.2, 0.0, 0.0], [np.nan, 1.0, 0.0, 0.0]])
def test_probabilities_of_a_learner_are_checked(pmf: list[float]) -> None:
    class Wrong(Fixed):
        randomized, provides = True, frozenset({"pmf"})

        def pmf(self, context):
            return pmf if context[0, 0] == truth.contexts[7, 0, 0] else [0.25] * 4

    truth = linear_truth(20, 1)
    with pytest.raises(InvalidArgument, match=r"pmf of 'fixed' is .*, but must not be negative and must sum to 1"):
        replay(truth.log(), [Wrong()])


class Asks(Fixed):
    """One that is told how probable the action was."""

    accepts = frozenset({"off_policy", "probability"})

    def __init__(self) -> None:
        super().__init__()
        self.told: list[float] = []

    def learn(self, context, action, reward, *, probability=0.0):
        self.told.append(probability)


@pytest.mark.parametrize("method", METHODS)
def test_a_learner_is_told_the_propensity_of_what_it_learns(method: str) -> None:
    """Progressive: the one in the log. By rejection, a round is as one of its own, which it plays with certainty."""
    truth, policy = linear_truth(300, 9), Asks()
    (learner,) = replay(truth.log(), [policy], method=method).learners
    expected = truth.propensities if method == "progressive" else np.ones(len(learner.accepted))
    np.testing.assert_array_equal(policy.told, expected)


def test_rounds_that_stand_for_several_survive_thinning_more_often() -> None:
    """Half of the rounds of one action were dropped, and those that are left count twice: thinning must keep all of
    them and half of the others. 8,000 rounds, 4.5 standard errors; ignoring the weights is off by 20."""
    rng, n = np.random.default_rng(0), 8_000
    offers, actions = np.ones((n, 2, 1)), rng.integers(2, size=n)
    batch = next(iter(from_arrays(offers, actions, actions.astype(float), np.full(n, 0.5))))
    kept = rng.random(n) < np.where(actions == 1, 0.5, 1.0)
    rounds = take(batch._replace(weights=np.where(actions == 1, 2.0, 1.0)), kept)
    log = LoggedRounds(ArraySource(rounds))
    share = np.average(rounds.rewards, weights=log.thinning(rounds))
    assert abs(share - 0.5) < 4.5 * 0.5 / np.sqrt(n / 2) < 0.05
    assert abs(rounds.rewards.mean() - 0.5) > 0.1


def test_a_portfolio_with_an_exploration_floor_replays_too() -> None:
    """A round of the floor is a play of no learner."""
    truth = linear_truth(400, 3)
    result = replay_portfolio(truth.log(), Portfolio([OFUL(3), OFUL(1)], explore=0.5))
    assert 0 < sum(result.plays) < len(result.rewards)
