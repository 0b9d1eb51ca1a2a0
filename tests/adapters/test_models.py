"""Models and bandits of other libraries do what these libraries do when called directly."""

from __future__ import annotations

import threading
from math import nan
from typing import Any, ClassVar

import numpy as np
import pytest

from equipoise.adapters import VW, Epsilon, Exploring, InverseGap, LightGBM, MABWiser, River, Sklearn, Softmax
from equipoise.adapters.exploring import Exploration
from equipoise.errors import EquipoiseError, InvalidArgument, UnknownName, UnreadableFile
from tests.adapters.subjects import SUBJECTS, needs

DIM = 4


def updates(n: int, seed: int = 0) -> list[tuple[np.ndarray, int, float]]:
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal((3, DIM)), int(rng.integers(3)), float(rng.random())) for _ in range(n)]


class TestExplorations:
    scores = np.array([0.2, 0.9, 0.5])

    def test_epsilon(self) -> None:
        assert Epsilon(0.3).pmf(self.scores, 1, 1) == pytest.approx([0.1, 0.8, 0.1])

    def test_softmax(self) -> None:
        weights = np.exp(self.scores / 0.2)
        assert Softmax(0.2).pmf(self.scores, 1, 1) == pytest.approx(weights / weights.sum())

    def test_softmax_of_distant_scores_does_not_overflow(self) -> None:
        assert Softmax(1e-9).pmf(np.array([0.0, 1.0]), 1, 1).tolist() == [0.0, 1.0]

    def test_inverse_gap(self) -> None:
        rate = 4.0 * 9**0.5
        others = [1 / (3 + rate * 0.7), 1 / (3 + rate * 0.4)]
        found = InverseGap(4.0).pmf(self.scores, 1, 9)
        assert found == pytest.approx([others[0], 1 - sum(others), others[1]])

    @pytest.mark.parametrize("bad", [{"class": "Greedy"}, {"epsilon": 0.1}, "Epsilon", 3])
    def test_unknown_exploration_is_refused(self, bad: Any) -> None:
        pytest.importorskip("sklearn", reason="sklearn is not installed")
        model = Sklearn({"class": "linear_model.SGDRegressor"}, dim=DIM)
        with pytest.raises((InvalidArgument, UnknownName), match="exploration"):
            Exploring(model, bad)


@needs("sklearn")
class TestScikitLearn:
    def test_linear_regression_is_that_of_the_library(self) -> None:
        from sklearn.linear_model import SGDRegressor

        settings = {"eta0": 0.05, "alpha": 0.01, "learning_rate": "constant"}
        learner = Exploring(Sklearn(SGDRegressor(**settings), dim=DIM), reward_range=(-9.0, 9.0))
        reference = SGDRegressor(**settings)
        for actions, action, reward in updates(50):
            learner.learn(actions, action, reward, 2.0)
            reference.partial_fit(actions[action : action + 1], [reward], sample_weight=[2.0])
            proposal = learner.decide(actions, np.random.default_rng(0))
            assert proposal.value == pytest.approx(reference.predict(actions)[proposal.action], rel=1e-12)
            assert proposal.greedy == reference.predict(actions).argmax()

    def test_classifier_learns_shares_as_weighted_labels(self) -> None:
        from sklearn.linear_model import SGDClassifier

        settings = {"loss": "log_loss", "alpha": 0.01, "shuffle": False}
        learner = Exploring(Sklearn(SGDClassifier(**settings), dim=DIM), reward_range=(0.0, 2.0))
        reference = SGDClassifier(**settings)
        for actions, action, reward in updates(50):
            learner.learn(actions, action, 2.0 * reward)
            row = actions[[action, action]]
            reference.partial_fit(row, [0, 1], classes=[0, 1], sample_weight=[1 - reward, reward])
            proposal = learner.decide(actions, np.random.default_rng(0))
            expected = 2.0 * reference.predict_proba(actions)[proposal.action, 1]
            assert proposal.value == pytest.approx(expected, rel=1e-9)

    def test_reward_beyond_the_range_of_a_classifier_is_refused(self) -> None:
        learner = SUBJECTS["logistic"].make()
        with pytest.raises(InvalidArgument, match=r"reward is 1\.5, but must lie in \[0\.0, 1\.0\] for SGDClassifier"):
            learner.learn(np.ones((2, 8)), 0, 1.5)

    def test_what_it_learned_before_is_not_used(self) -> None:
        from sklearn.linear_model import SGDRegressor

        trained = SGDRegressor().partial_fit(np.ones((1, DIM)), [1.0])
        assert Exploring(Sklearn(trained, dim=DIM)).decide(np.ones((1, DIM))).value == 0.5

    @pytest.mark.parametrize(
        ("estimator", "message"),
        [
            ({"class": "linear_model.Ridge"}, r"must have partial_fit\(\)"),
            ({"class": "os.system"}, "class is 'os.system', but must be a class of sklearn.linear_model"),
            ({"class": "linear_model.warnings"}, "must be a class of"),
            ({"class": "linear_model.SGDRegressor", "eta": 1}, "setting of SGDRegressor 'eta' is unknown"),
            ({"class": "linear_model.Perceptron"}, r"must have predict_proba\(\)"),
            (object(), "was given, but must be a class of sklearn.linear_model"),
        ],
    )
    def test_other_estimators_are_refused(self, estimator: Any, message: str) -> None:
        with pytest.raises(EquipoiseError, match=message):
            Sklearn(estimator, dim=DIM)

    def test_model_that_diverges_says_so(self) -> None:
        learner = Exploring(Sklearn({"class": "linear_model.SGDRegressor"}, dim=DIM), name="mine")
        model: Any = learner._model
        model._model.coef_[:] = np.nan
        with pytest.raises(EquipoiseError, match="the model of 'mine' predicts"):
            learner.decide(np.ones((2, DIM)))


@needs("lightgbm")
class TestLightGBM:
    settings: ClassVar[Any] = {"dim": DIM, "window": 40, "every": 20, "lag": 7, "trees": 3}

    def test_model_of_update_n_takes_effect_after_update_n_plus_lag(self) -> None:
        import lightgbm

        learner = Exploring(LightGBM(**self.settings, settings={"min_data_in_leaf": 2}), Epsilon(0.0))
        probe, seen = updates(1, seed=9)[0][0], []
        rows: list[np.ndarray] = []
        rewards: list[float] = []
        expected = [0.5] * 3  # the middle of the range
        for n, (actions, action, reward) in enumerate(updates(75), start=1):
            learner.learn(actions, action, reward)
            rows.append(actions[action])
            rewards.append(reward)
            if n >= 20 and n % 20 == 7:
                # The updates up to the last multiple of 20, in the order of the ring of 40.
                last = n - 7
                ring = sorted(range(max(0, last - 40), last), key=lambda update: update % 40)
                data = lightgbm.Dataset(np.array([rows[i] for i in ring]), [2 * rewards[i] - 1 for i in ring])
                fixed = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1, "seed": 0}
                booster = lightgbm.train({**fixed, "min_data_in_leaf": 2}, data, 3)
                expected = (0.5 + 0.5 * booster.predict(probe)).clip(0, 1).tolist()
            proposal = learner.decide(probe, np.random.default_rng(0))
            assert proposal.value == pytest.approx(max(expected), rel=1e-12)
            seen.append(proposal.value)
        assert len(set(seen)) == 4

    def test_late_fit_is_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fit that is slower than the updates changes no score."""
        fast = Exploring(LightGBM(**self.settings))
        for actions, action, reward in updates(64):
            fast.learn(actions, action, reward)
        fit, gate = LightGBM.fit, threading.Event()

        def slow_fit(self: LightGBM, *data: Any) -> bytes:
            gate.wait(0.05)
            return fit(self, *data)

        monkeypatch.setattr(LightGBM, "fit", slow_fit)
        slow = Exploring(LightGBM(**self.settings))
        for actions, action, reward in updates(64):
            slow.learn(actions, action, reward)
        assert slow == fast

    def test_fits_run_in_another_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fit, threads = LightGBM.fit, []

        def noted_fit(self: LightGBM, *data: Any) -> bytes:
            threads.append(threading.current_thread())
            return fit(self, *data)

        monkeypatch.setattr(LightGBM, "fit", noted_fit)
        learner = Exploring(LightGBM(**self.settings))
        for actions, action, reward in updates(47):
            learner.learn(actions, action, reward)
        assert len(threads) == 2 and threading.current_thread() not in threads

    def test_settings_are_checked(self) -> None:
        with pytest.raises(InvalidArgument, match="lag is 9, but must be at most every = 8"):
            Exploring(LightGBM(dim=2, every=8, lag=9))
        with pytest.raises(InvalidArgument, match=r"settings\['objective'\] is <built-in function sum>"):
            LightGBM(dim=2, settings={"objective": sum})


@needs("river")
class TestRiver:
    def test_pipeline_is_that_of_the_library(self) -> None:
        from river import linear_model, optim, preprocessing

        def pipeline() -> Any:
            return preprocessing.StandardScaler() | linear_model.LinearRegression(optimizer=optim.SGD(0.02), l2=0.1)

        learner, reference = Exploring(River(pipeline(), dim=DIM), reward_range=(-99.0, 99.0)), pipeline()
        for actions, action, reward in updates(50):
            learner.learn(actions, action, reward)
            reference.learn_one(dict(zip("0123", actions[action].tolist(), strict=True)), reward)
            proposal = learner.decide(actions, np.random.default_rng(0))
            row = dict(zip("0123", actions[proposal.action].tolist(), strict=True))
            assert proposal.value == pytest.approx(reference.predict_one(row), rel=1e-12)

    def test_what_cannot_be_saved_exactly_is_refused(self) -> None:
        from river import linear_model, tree

        with pytest.raises(InvalidArgument, match="HoeffdingTreeRegressor was given, but must be a class of river"):
            River(tree.HoeffdingTreeRegressor(), dim=DIM)
        with pytest.raises(InvalidArgument, match="BayesianLinearRegression, but must not be: its predictions change"):
            River(linear_model.BayesianLinearRegression(), dim=DIM)


@needs("vowpalwabbit")
class TestVW:
    @pytest.mark.parametrize("options", ["--squarecb --gamma_scale 30", "--regcbopt", "--epsilon 0.1 -q ff"])
    def test_probabilities_are_those_of_text_input(self, options: str) -> None:
        """The same rounds as text, each line with its features, a label on the line of the action that was played."""
        from vowpalwabbit import Workspace

        learner = VW(options, dim=DIM, reward_range=(0.0, 1.0))
        reference = Workspace(f"--cb_explore_adf --quiet {options}")
        for t, (numbers, _, number) in enumerate(updates(60)):
            actions, reward = np.round(numbers), round(number, 2)  # Vowpal Wabbit rounds fractions in text
            lines = ["|f " + " ".join(f"x{j}:{value!r}" for j, value in enumerate(row)) for row in actions.tolist()]
            expected = np.array(reference.predict(lines))
            proposal = learner.decide(actions, np.random.default_rng(t))
            assert learner.pmf(actions).tolist() == (expected / expected.sum()).tolist()
            if t % 2:
                learner.pmf(actions[::-1])  # another context in between, so that examples are built again
            learner.learn(actions, proposal.action, reward)
            lines[proposal.action] = f"0:{1.0 - reward!r}:{proposal.probability!r} {lines[proposal.action]}"
            reference.learn(lines)

    def test_logged_probability_counts(self) -> None:
        actions = updates(1)[0][0]
        learners = [VW("--epsilon 0.2 --cb_type ips", dim=DIM) for _ in range(4)]
        learners[0].learn(actions, 1, 0.5)
        learners[1].learn(actions, 1, 0.5, probability=float(learners[1].pmf(actions)[1]))
        learners[2].learn(actions, 1, 0.5, probability=0.01)
        learners[3].learn(actions, 1, 0.5, probability=np.float64(0.01))
        assert learners[0] == learners[1] != learners[2] == learners[3]
        with pytest.raises(InvalidArgument, match=r"probability is 0\.0, but must lie in \(0, 1\]"):
            learners[0].learn(actions, 1, 0.5, probability=0.0)
        with pytest.raises(InvalidArgument, match="probability is nan, but must be known"):
            learners[0].learn(actions, 1, 0.5, probability=nan)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("", "must have exactly one of --squarecb"),
            ("--squarecb --softmax", "must have exactly one of --squarecb"),
            ("--bag 5", "has '--bag', but may have only"),
            ("--squarecb -f model", "has '-f', but may have only"),
            ("--epsilon", "has '--epsilon' without its value"),
            ("--squarecb --cb_type dr", "must be one of mtr, ips, dm"),
            (["--squarecb"], "must be a string of options"),
        ],
    )
    def test_other_options_are_refused(self, options: Any, message: str) -> None:
        with pytest.raises(InvalidArgument, match=message):
            VW(options, dim=DIM)

    def test_state_with_other_options_is_refused(self) -> None:
        """A model file carries options, which Vowpal Wabbit would obey."""
        learner, other = VW("--squarecb", dim=DIM), VW("--squarecb --noconstant", dim=DIM)
        with pytest.raises(InvalidArgument, match="state has the options"):
            learner.restore(other.state())
        with pytest.raises(UnreadableFile, match="no model of Vowpal Wabbit"):
            learner.restore({**learner.state(), "model": np.zeros(9, np.uint8)})


@needs("mabwiser")
class TestMABWiser:
    def test_decisions_are_those_of_the_library(self) -> None:
        from mabwiser.mab import MAB, LearningPolicy

        mab = MAB(["x", "y", "z"], LearningPolicy.LinUCB(alpha=0.7))
        learner, rng = MABWiser(mab), np.random.default_rng(0)
        contexts, rewards = rng.standard_normal((40, DIM)), rng.random(40)
        arms: list[str] = []
        for t in range(40):
            proposal = learner.decide(contexts[t], rng)
            if t < 3:
                assert proposal.probability == 1 / (3 - t) and "xyz"[proposal.action] not in arms
            else:
                reference = MAB(["x", "y", "z"], LearningPolicy.LinUCB(alpha=0.7))
                reference.fit(arms, rewards[:t], contexts[:t])
                assert "xyz"[proposal.action] == reference.predict(contexts[t : t + 1])
                assert proposal.probability == 1.0
            learner.learn(contexts[t], proposal.action, float(rewards[t]))
            arms.append("xyz"[proposal.action])

    def test_contexts_are_checked(self) -> None:
        learner = SUBJECTS["mabwiser linucb"].make()
        learner.learn(np.ones(3), 0, 1.0)
        for bad in (np.ones(4), np.ones((2, 3)), None, "x", [np.nan] * 3):
            with pytest.raises(InvalidArgument, match="context"):
                learner.decide(bad)
        with pytest.raises(InvalidArgument, match="context is 1, but must be None"):
            SUBJECTS["mabwiser ucb1"].make().decide(1)

    def test_other_policies_are_refused(self) -> None:
        from mabwiser.mab import MAB, LearningPolicy, NeighborhoodPolicy

        with pytest.raises(InvalidArgument, match="has the policy ThompsonSampling, but must have one of LinUCB"):
            MABWiser(MAB([1, 2], LearningPolicy.ThompsonSampling()))
        with pytest.raises(InvalidArgument, match="has a neighborhood policy"):
            MABWiser(MAB([1, 2], LearningPolicy.UCB1(), NeighborhoodPolicy.Radius(1.0)))


def test_epsilon_draws_as_its_probabilities_say() -> None:
    """Against the general way, at 2,000 numbers and at those next to every border."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        exploration, n_actions = Epsilon(float(rng.choice([0.0, 0.1, rng.random(), 1.0]))), int(rng.integers(1, 9))
        scores, greedy = rng.random(n_actions), int(rng.integers(n_actions))
        borders = np.cumsum(exploration.pmf(scores, greedy, 1))[:-1]
        near = np.concatenate([borders - 1e-9, borders + 1e-9])
        for number in [*rng.random(10), *near[(near >= 0.0) & (near < 1.0)]]:
            expected = Exploration.draw(exploration, scores, greedy, 1, float(number))
            assert exploration.draw(scores, greedy, 1, float(number)) == expected


@needs("vowpalwabbit")
def test_vw_says_whether_it_knows_the_best_action() -> None:
    """The optimistic explorers do not tell which action they estimate to be best."""
    context = np.eye(3)
    for options, known in (("--squarecb", True), ("--epsilon 0.1", True), ("--softmax", True), ("--regcb", False)):
        learner = VW(options, dim=3)
        for action in range(3):
            learner.learn(context, action, float(action == 2), probability=0.5)
        assert learner.provides == ({"greedy", "pmf"} if known else {"pmf"})
        assert learner.decide(context, np.random.default_rng(0)).greedy == (2 if known else None)
