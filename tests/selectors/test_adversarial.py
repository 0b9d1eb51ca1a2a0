"""Algorithms 2 and 3: against a reference written with lists, compiled, saved, and in what they refuse."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Portfolio, Proposal
from equipoise.compatibility import check_compatible
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.lab.experiments.adversarial import ADVERSARIAL
from equipoise.lab.runs.results import log_rounds
from equipoise.lab.runs.runner import complete_settings
from equipoise.learners import OFUL, UCB, LinearThompson
from equipoise.learners._core.linear_class import LinearClass
from equipoise.problems import AdversarialBandit, Hiding, LinearBandit, Predicting, Punishing, Switching
from equipoise.selectors import AdversarialElimination, EpochBalancing, Uniform
from equipoise.simulation.joint import run_jointly, run_portfolio
from equipoise.simulation.tapes import why_not_tapes
from tests.epoch_reference import EpochReference, Round
from tests.nested_pools import DIMS, bandit, classes_of, common_bounds, learners
from tests.recorders import number


class GivenNumber:
    """A generator whose next number is known."""

    def __init__(self, number: float) -> None:
        self.number = number

    def random(self) -> float:
        return self.number


def z(claimed: LinearClass) -> float:
    """d (sigma^2 d + lambda S^2)(1 + b^2) with b the lesser of half the width and L / sqrt(lambda)."""
    low, high = claimed.reward_range
    b = min((high - low) / 2, claimed.action_bound / math.sqrt(claimed.regularization))
    return claimed.dim * (claimed.noise**2 * claimed.dim + claimed.regularization * claimed.norm_bound**2) * (1 + b**2)


class Both:
    """A selector and its reference, given the same rounds."""

    def __init__(self, cls: type[Any], classes: list[LinearClass], **settings: Any) -> None:
        self.selector = cls(classes, **settings)
        self.reference = EpochReference(
            [z(claimed) for claimed in classes], in_epochs=cls is AdversarialElimination, **settings
        )
        self.open: list[tuple[Any, Round]] = []

    def play(self, number: float, lowers: list[float], regrets: list[float]) -> None:
        expected = self.reference.choose(number)
        choice = self.selector.choose(GivenNumber(number))  # all it is asked for
        assert choice.learner == expected.learner
        assert choice.probability == pytest.approx(expected.probability)
        proposals = {i: Proposal(0, lowers[i], regrets[i]) for i in self.selector.active}
        expected.lowers = {i: proposal.lower for i, proposal in proposals.items()}
        expected.regrets = {i: proposal.regret for i, proposal in proposals.items()}
        self.selector.observe(choice, proposals)
        self.open.append((choice, expected))

    def credit(self, position: int, reward: float) -> None:
        choice, expected = self.open.pop(position)
        self.selector.credit(choice, reward)
        self.reference.credit(expected, reward)

    def withdraw(self, position: int) -> None:
        choice, expected = self.open.pop(position)
        self.selector.withdraw(choice)
        self.reference.withdraw(expected)

    def compare(self) -> None:
        selector, reference = self.selector, self.reference
        assert selector.active == tuple(reference.active)
        eliminated = [ending for ending in reference.endings if ending.learner not in reference.active]
        shown = selector.eliminations
        if not reference.in_epochs:
            eliminated, shown = reference.endings, [] if selector.ended is None else [selector.ended]
            assert selector.eliminations == []
        assert len(shown) == len(eliminated)
        for end, expected in zip(shown, eliminated, strict=True):
            assert (end.round, end.learner.index, end.witness.index, end.learner.rounds) == (
                expected.round,
                expected.learner,
                expected.witness,
                expected.rounds,
            )
            assert end.learner.reward_sum == pytest.approx(expected.reward_sum)
            assert end.learner.regret_bound == pytest.approx(expected.regret_sum)
            assert end.learner.radius == pytest.approx(expected.radius)
            assert end.witness.lower_sum == pytest.approx(expected.lower_sum)
            assert end.learner.mean_upper < end.witness.mean_lower
        certificate = vars(selector.certificate())
        for name, value in reference.certificate().items():
            assert certificate[name] == pytest.approx(value, abs=1e-9), name


@st.composite
def scripts(draw: st.DrawFn) -> tuple[Both, list[Any]]:
    """Both algorithms on random classes, and what happens: plays, rewards in any order, withdrawals."""
    dims = sorted(draw(st.lists(st.integers(1, 12), min_size=1, max_size=5)))
    low = draw(st.sampled_from([0.0, -2.0]))
    classes = classes_of(
        dims, norm_bound=draw(st.sampled_from([1.0, 3.0])), reward_range=(low, low + draw(st.sampled_from([1.0, 2.5])))
    )
    both = Both(
        draw(st.sampled_from([EpochBalancing, AdversarialElimination])),
        classes,
        delta=draw(st.sampled_from([0.05, 0.5])),
        reward_range=classes[-1].reward_range,
        noise=draw(st.sampled_from([None, 0.2])),
        radius_scale=draw(st.sampled_from([1.0, 0.15])),
    )
    n_steps = draw(st.integers(1, 120))
    seed, haste = draw(st.integers(0, 10_000)), draw(st.sampled_from([0.0, 0.3, 1.0]))
    return both, [seed, n_steps, haste]


@pytest.mark.slow
@given(scripts())
def test_learner_epoch_and_certificate_are_those_of_the_reference(script: tuple[Both, list[Any]]) -> None:
    """Lower bounds are often higher than rewards, so that epochs end; some lie outside the range and are cut, and so
    are regrets beyond the width."""
    both, (seed, n_steps, haste) = script
    chances = np.random.default_rng(seed)
    low, high = both.selector.reward_range
    n = both.selector.n_learners
    level = chances.uniform(0.2, 1.1)
    for _ in range(n_steps):
        lowers = low + (high - low) * (level + chances.uniform(-0.4, 0.2, n))
        regrets = (high - low) * np.where(chances.random(n) < 0.05, 1.5, 0.3 * chances.random(n))
        both.play(chances.random(), lowers.tolist(), regrets.tolist())
        while both.open and chances.random() < haste + 0.2:
            position = int(chances.integers(len(both.open)))
            if chances.random() < 0.1:
                both.withdraw(position)
            else:
                both.credit(position, float(low + (high - low) * 0.5 * chances.random()))
        both.compare()
    while both.open:
        both.credit(0, low)
        both.compare()


def test_the_scripts_end_epochs() -> None:
    """So that the comparison above is not about runs in which nothing happens: by hand, three epochs and a flag."""
    both = Both(
        AdversarialElimination, classes_of([1, 2, 4, 8]), delta=0.05, reward_range=(0.0, 1.0), radius_scale=0.15
    )
    for t in range(200):
        both.play(t / 200, [0.9] * 4, [0.05] * 4)
        both.credit(0, 0.1)
        both.compare()
    assert both.selector.active == (3,)
    assert [end.learner.index for end in both.selector.eliminations] == [0, 1, 2]
    assert not both.selector.certificate().consistent


def test_the_last_learner_plays_on_alone_and_inconsistency_is_stated() -> None:
    selector = AdversarialElimination(classes_of([4]))
    for t in range(400):
        choice = selector.choose()
        selector.observe(choice, {0: Proposal(0, 0.9, 0.0)})
        selector.credit(choice, 0.2)
        assert selector.active == (0,) and selector.eliminations == []
        if t == 2:
            assert selector.certificate().consistent
    certificate = selector.certificate()
    assert not certificate.consistent
    assert certificate.regret_upper == 400
    assert certificate.describe() == (
        "With confidence 0.95, the class of learner 0, which contains all others, lacks the true model: the rewards "
        "contradict it."
    )


def test_a_round_of_an_epoch_that_has_ended_counts_in_no_other() -> None:
    """Two rounds are open when the epoch ends; their rewards, however bad, are no evidence against the next epoch."""
    both = Both(AdversarialElimination, classes_of([1, 2, 4]), delta=0.05, reward_range=(0.0, 1.0), radius_scale=0.15)
    for _ in range(30):
        both.play(0.0, [0.9] * 3, [0.0] * 3)
    while not both.selector.eliminations:
        both.credit(0, 0.0)
    n_open = len(both.open)
    assert n_open > 5
    while both.open:
        both.credit(0, 0.0)
        both.compare()
    assert both.selector.active == (1, 2)
    assert both.selector.certificate().regret_upper == pytest.approx(30, abs=1e-9)


def test_sizes_by_hand() -> None:
    claimed = LinearClass("a", 4, norm_bound=2.0, action_bound=3.0, regularization=4.0, noise=0.5, reward_range=(-2, 2))
    # In units of the width 4 of the range: norm 1/2, noise 1/8, half the width 1/2.
    assert EpochBalancing([claimed]).sizes[0] == pytest.approx(4 * (4 / 64 + 4 / 4) * (1 + 0.5**2))
    assert EpochBalancing([claimed], size="text").sizes[0] == pytest.approx((16 + 4 / 4) * 0.5)
    assert EpochBalancing([claimed], size="theorem").sizes[0] == pytest.approx(2 * (16 + 4 / 4) * 0.25)
    claimed = claimed._replace(action_bound=0.5)  # L below half the width; L / sqrt(lambda) = 1/4
    assert EpochBalancing([claimed]).sizes[0] == pytest.approx(4 * (4 / 64 + 4 / 4) * (1 + 0.25**2))
    assert EpochBalancing([claimed], size="text").sizes[0] == pytest.approx((16 + 4 / 4) * 0.25)
    # An ellipsoid that starts smaller than 1 divides half the width: 0.5 / (0.1 sqrt(2 ln 100) + 0.1).
    small = LinearClass("b", 2, norm_bound=0.1, action_bound=5.0, noise=0.1)
    b = 0.5 / (0.1 * math.sqrt(2 * math.log(100)) + 0.1)
    assert EpochBalancing([small]).sizes[0] == pytest.approx(2 * (0.02 + 0.01) * (1 + b**2))


def test_the_filter_works_from_the_top() -> None:
    """z is proportional to d (d + 4): 5, 12, 21, 32, 45, 60 and 96; 96 keeps 45, which keeps 21, which keeps 5."""
    selector = AdversarialElimination(classes_of([1, 2, 3, 4, 5, 6, 8]))
    assert selector.active == (0, 2, 4, 6)
    assert selector.excluded == (1, 3, 5)
    weights = [1 / size for size in (5, 21, 45, 96)]
    expected = [0.0] * 7
    for i, weight in zip(selector.active, weights, strict=True):
        expected[i] = weight / sum(weights)
    assert selector.choice_probabilities() == pytest.approx(expected)
    assert EpochBalancing(classes_of([1, 2, 3])).active == (0, 1, 2), "Algorithm 2 takes the set it is given"


class AsksForNested(Uniform):
    """A selector of a user's own that keeps no list of classes."""

    needs = frozenset({"nested"})


def test_any_selector_may_ask_for_nested_learners() -> None:
    selector = AsksForNested(2)
    check_compatible(selector, [OFUL(2), OFUL(4)])
    with pytest.raises(IncompatibleLearner, match="learner 'last' has dim = 2 after"):
        check_compatible(selector, [OFUL(4), OFUL(2, name="last")])


def test_learners_left_out_are_never_asked_and_never_taught() -> None:
    pool = learners((2, 4, 6, 8))
    portfolio = Portfolio(pool, AdversarialElimination.for_learners(pool), share_data=True)
    problem = LinearBandit(8, 4, 3)
    for t in range(30):
        context = problem.observe(np.random.default_rng(t))
        portfolio.learn(portfolio.decide(context), 0.5)
    assert [learner.memory.updates[0] for learner in pool] == [30, 30, 0, 30]
    assert [row.active for row in portfolio.standing()] == [True, True, False, True]


class OnlyAnAction(OFUL):
    """Its proposals have no lower bound."""

    provides = frozenset({"regret"})


@pytest.mark.parametrize("cls", [EpochBalancing, AdversarialElimination])
@pytest.mark.parametrize(
    ("pool", "message"),
    [
        ([OFUL(4, name="big"), OFUL(2, name="small")], "learner 'small' has dim = 2 after 'big' with 4, but learners"),
        (
            [OFUL(2, norm_bound=2.0, name="wide"), OFUL(4, name="tight")],
            "learner 'tight' has norm_bound = 1 after 'wide' with 2, but",
        ),
        ([OFUL(2, action_bound=3.0), OFUL(4, name="tight")], "learner 'tight' has action_bound = 1 after"),
        ([OFUL(2), OFUL(4, noise=0.1, name="calm")], "learner 'calm' has noise = 0.1 after"),
        ([OFUL(2), OFUL(4, scale=0.5, name="bold")], "learner 'bold' has scale = 0.5 after"),
        ([OFUL(2, misspecification=0.1), OFUL(4, name="exact")], "learner 'exact' has misspecification = 0 after"),
        (
            [OFUL(2, reward_range=(-1.0, 1.0), noise=0.5), OFUL(4, name="narrow")],
            "learner 'narrow' has reward_range (0, 1), but it must contain (-1, 1) of",
        ),
        ([OFUL(2), UCB(4, name="armed")], "learner 'armed' has no model_class(), but must state what it presumes"),
        ([OFUL(2), OnlyAnAction(4, name="mute")], "needs a lower bound from every learner, but 'mute' provides none"),
    ],
)
def test_learners_it_cannot_select_among_are_refused_by_name(cls: Any, pool: list[Any], message: str) -> None:
    with pytest.raises(IncompatibleLearner) as refusal:
        cls.for_learners(pool)
    assert message in str(refusal.value)


def test_a_portfolio_refuses_learners_of_other_classes() -> None:
    selector = AdversarialElimination.for_learners([OFUL(2), OFUL(4)])
    with pytest.raises(
        IncompatibleLearner,
        match=r"learner 'OFUL\(d=8\)' has dim = 8, but must have 4, for which Adversarial elimination was created",
    ):
        Portfolio([OFUL(2), OFUL(8)], selector)
    with pytest.raises(IncompatibleLearner, match="learner 'UCB' has no model_class"):
        Portfolio([OFUL(2), UCB(4, name="UCB")], selector)
    with pytest.raises(InvalidArgument, match="learners has 1 entries, but Adversarial elimination was created for 2"):
        Portfolio([OFUL(2)], selector)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "classes is empty, but must have one LinearClass per learner"),
        ((3,), "classes is 3, but must have one LinearClass per learner"),
        (([4],), "classes has 4, but every entry must be a LinearClass"),
        (([LinearClass("a", 0)],), "dim is 0, but must be a whole number at least 1"),
        (([LinearClass("a", 2, norm_bound=math.inf)],), "norm_bound is inf, but must be a finite number"),
    ],
)
def test_classes_that_are_none_are_refused(arguments: tuple[Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        AdversarialElimination(*arguments)
    assert message in str(refusal.value)


def test_settings_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="size is 'huge', but must be one of proof, text, theorem"):
        EpochBalancing(classes_of([2]), size="huge")
    with pytest.raises(InvalidArgument, match=r"delta is 1.5, but must lie in \(0, 1\)"):
        EpochBalancing(classes_of([2]), delta=1.5)


def test_proposals_must_be_complete_and_come_before_the_reward() -> None:
    selector = AdversarialElimination(classes_of([2, 4]))
    choice = selector.choose()
    before = selector.state()
    with pytest.raises(InvalidArgument, match=r"proposals has learners \[0\], but must have 1 too"):
        selector.observe(choice, {0: Proposal(0, 0.1, 0.1)})
    with pytest.raises(InvalidArgument, match="lower of learner 1 is -inf, but must be a finite number"):
        selector.observe(choice, {0: Proposal(0, 0.1, 0.1), 1: Proposal(0, regret=0.1)})
    with pytest.raises(InvalidArgument, match="proposals of play 1 of learner 1 are unknown, but observe"):
        selector.credit(choice, 0.5, regret=0.1)
    after = selector.state()
    assert all(np.array_equal(before[name], after[name], equal_nan=True) for name in before)


def test_tapes_are_refused_with_the_reason() -> None:
    selector = AdversarialElimination.for_learners(learners())
    problem = AdversarialBandit(16, 8, 5, adversary=Switching())
    assert why_not_tapes(LinearBandit(), selector, False) == "Adversarial elimination asks every learner in every round"
    assert "not independent and identically distributed" in str(why_not_tapes(problem, common_bounds(), False))


ADVERSARIES = {
    "switching": Switching(2),
    "predicting": Predicting([2, 3]),
    "punishing": Punishing(patience=200),
    "hiding": Hiding(DIMS, window=200),
}


@pytest.mark.compiled
@pytest.mark.parametrize(("name", "share_data"), [(name, i % 2 == 1) for i, name in enumerate(ADVERSARIES)])
def test_the_compiled_run_is_that_of_a_portfolio(name: str, share_data: bool) -> None:
    """Every adversary, with own and shared data in turn, as compiling for every pair would take a minute more.

    Narrow ellipsoids and radii end epochs in time; with shared data a learner draws numbers as it is asked (Thompson
    sampling), with own data the loop is that of the statistical tests of Algorithm 3.
    """
    marks = log_rounds(3000)

    def parts() -> tuple[list[Any], AdversarialElimination]:
        pool: list[Any] = learners(scale=0.05)
        if share_data:
            pool[3] = LinearThompson(16, noise=0.1, norm_bound=1.1, regularization=0.1, scale=0.05)
        return pool, AdversarialElimination.for_learners(pool, noise=0.1, radius_scale=0.1)

    pool, fast = parts()
    fast_curves, _ = run_jointly(bandit(ADVERSARIES[name]), pool, fast, marks, 3, share_data=share_data)
    pool, slow = parts()
    portfolio = Portfolio(pool, slow, seed=3, share_data=share_data)
    slow_curves, _ = run_portfolio(bandit(ADVERSARIES[name]), portfolio, marks)
    np.testing.assert_array_equal(fast_curves.plays, slow_curves.plays)
    np.testing.assert_allclose(fast_curves.regret, slow_curves.regret, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fast_curves.certified, slow_curves.certified, rtol=1e-9)
    assert [(end.round, end.learner.index) for end in fast.eliminations] == [
        (end.round, end.learner.index) for end in slow.eliminations
    ]
    assert fast.eliminations
    assert fast.certificate().describe() == slow.certificate().describe()


def test_a_saved_portfolio_goes_on_as_the_original(tmp_path: Any) -> None:
    """With rounds open, in mid-epoch."""
    pool = learners((2, 4, 8))
    portfolio = Portfolio(pool, AdversarialElimination.for_learners(pool, noise=0.1), seed=1, share_data=True)
    problem = LinearBandit(8, 4, 3)

    def run(subject: Portfolio, start: int, stop: int) -> list[Any]:
        seen = []
        for t in range(start, stop):
            decision = subject.decide(problem.observe(np.random.default_rng(t)))
            seen.append((decision.learner, decision.action))
            if t % 5 and t > 5:
                for id_ in subject.pending:
                    if number(id_) == number(decision.id) - 5:
                        subject.learn(id_, 0.4 + 0.2 * (t % 2))
        return seen

    run(portfolio, 0, 60)
    portfolio.save(tmp_path / "portfolio")
    loaded = Portfolio.load(tmp_path / "portfolio")
    assert run(loaded, 60, 120) == run(portfolio, 60, 120)
    assert loaded.certificate() == portfolio.certificate()


@pytest.mark.parametrize("instance", ADVERSARIAL.instances)
def test_the_experiment_puts_both_algorithms_before_the_adversary_of_its_instance(instance: str) -> None:
    settings = complete_settings(ADVERSARIAL)
    setup, again = (ADVERSARIAL.set_up(settings, 3, instance) for _ in range(2))
    assert isinstance(setup.problem, AdversarialBandit)
    assert type(setup.problem.adversary).__name__.lower() == instance
    assert setup.problem.config() == again.problem.config()
    params: Any = setup.problem.params
    assert params.history.rounds[0] == 0 and setup.problem is not again.problem
    assert tuple(setup.selectors) == ADVERSARIAL.selectors
    assert {selector.config()["delta"] for selector in setup.selectors.values()} == {0.05}
    assert setup.shared == {"adversarial-shared"}
    assert setup.well_specified is not None and setup.well_specified() == [False, False, True, True]
    for selector in setup.selectors.values():
        check_compatible(selector, setup.learners)
