"""Algorithm 3 on ladders of confidence scales and of approximation errors: z accounts for both."""

import json
from itertools import pairwise
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Portfolio
from equipoise.bounds import Observed
from equipoise.errors import IncompatibleLearner, InvalidArgument
from equipoise.features import Columns
from equipoise.lab.rivals import ALBNorm
from equipoise.learners import OFUL
from equipoise.learners._core.linear_class import SIZES, LinearClass, linear_class
from equipoise.selectors import AdversarialElimination, BalancedElimination, EpochBalancing
from equipoise.theory.adversarial import adversarial_guarantee, balanced_regret_bounds

SCALES, ERRORS, ROUNDS = (0.25, 0.5, 1.0), (1 / 16, 1 / 8, 1 / 4, 1 / 2), 10_000


def test_a_ladder_of_confidence_scales_keeps_every_step() -> None:
    """All sizes were equal, so that the filter left the last learner alone."""
    selector = AdversarialElimination.for_learners([OFUL(4, scale=scale) for scale in SCALES])
    assert selector.active == (0, 1, 2) and selector.excluded == ()
    assert all(larger > 2 * smaller for smaller, larger in pairwise(selector.sizes))


def test_a_ladder_of_errors_keeps_the_steps_that_differ_at_the_horizon() -> None:
    learners = [OFUL(4, misspecification=error) for error in ERRORS]
    assert AdversarialElimination.for_learners(learners, rounds=ROUNDS).active == (0, 1, 2, 3)
    # In few rounds an error of 1/16 costs no more than learning does, so the step above it is as good.
    assert AdversarialElimination.for_learners(learners, rounds=2).active == (3,)


def test_errors_without_a_number_of_rounds_are_refused_with_the_reason() -> None:
    learners = [OFUL(4, misspecification=error) for error in ERRORS]
    for kind in (EpochBalancing, AdversarialElimination):
        with pytest.raises(InvalidArgument, match=r"rounds is None, but must be given .* grows faster than the square"):
            kind.for_learners(learners)
    with pytest.raises(InvalidArgument, match="rounds is 0"):
        AdversarialElimination.for_learners(learners, rounds=0)


def test_ladders_must_grow() -> None:
    for name, values in (("scale", SCALES), ("misspecification", ERRORS)):
        learners = [OFUL(4, **{name: value}) for value in reversed(values)]  # type: ignore[arg-type]
        with pytest.raises(IncompatibleLearner, match=name):
            AdversarialElimination.for_learners(learners, rounds=ROUNDS)


def test_classes_of_other_features_are_not_nested() -> None:
    """A class of two features does not contain one of a single feature that it lacks. As a witness it eliminated the
    perfect learner in every run, of this selector and by the same-round test."""
    perfect, wrong, both = (OFUL(features=Columns(columns)) for columns in ([0], [1, 2], [2, 0]))
    same_round = BalancedElimination([Observed(), Observed()], same_round=True)
    for kind in (AdversarialElimination, EpochBalancing):
        with pytest.raises(IncompatibleLearner, match="lacks the feature 'column 0'"):
            kind.for_learners([perfect, wrong])
        selector = kind.for_learners([OFUL(1), both])
        assert json.loads(json.dumps(kind.from_config(selector.config()).config())) == selector.config()
        assert selector.classes[1].features == ("column 2", "column 0")
    with pytest.raises(IncompatibleLearner, match="lacks the feature 'column 0'"):
        Portfolio([perfect, wrong], same_round)
    with pytest.raises(IncompatibleLearner, match="lacks the feature 'intercept 0'"):
        EpochBalancing.for_learners([ALBNorm(1, arms=3), OFUL(5)])
    EpochBalancing.for_learners([OFUL(1), ALBNorm(1, arms=3)])
    with pytest.raises(InvalidArgument, match="features has 1 names, but must have dim = 2"):
        EpochBalancing([LinearClass("a", 2, features=("column 0",))])


@given(
    st.integers(1, 16),
    st.floats(0.05, 2.0),
    st.floats(0.0, 0.5),
    st.floats(0.1, 2.0),
    st.integers(1, 10**6),
    st.sampled_from(sorted(SIZES)),
)
def test_the_regret_of_a_class_is_at_most_the_root_of_its_size_up_to_logarithms(
    dim: int, scale: float, error: float, regularization: float, rounds: int, form: str
) -> None:
    """2 (kappa beta + eps sqrt(n)) sqrt(n X) + 2 eps n, computed here from its parts, against sqrt(z n): the ratio is
    at most the logarithms, for every n up to the horizon. Without the terms in kappa and eps it grows like sqrt(n)."""
    claimed = LinearClass("a", dim, regularization=regularization, scale=scale, misspecification=error)
    size = SIZES[form](claimed, rounds)
    for n in {1, rounds // 2 + 1, rounds}:
        log_det = dim * log(1 + n / (dim * regularization))
        beta = scale * (0.5 * sqrt(log_det + 2 * log(100)) + sqrt(regularization)) + error * sqrt(n)
        cap = min(0.5 / min(1.0, scale * (0.5 * sqrt(2 * log(100)) + sqrt(regularization))), regularization**-0.5)
        regret = 2 * beta * sqrt(n * (1 + cap**2) * log_det) + 2 * error * n
        logs = 1 + log_det / dim + 2 * log(100)
        slack = 4.0 if form == "proof" else 4.0 * sqrt(1 + cap**2) / min(0.5, 1.0) * max(1.0, regularization**0.5)
        assert regret <= slack * logs * sqrt(size * n)


def test_sizes_without_ladders_are_those_of_the_paper() -> None:
    plain = linear_class(OFUL(4, norm_bound=2.0, noise=0.25, action_bound=3.0))
    assert SIZES["proof"](plain, None) == pytest.approx(4 * (4 / 16 + 4) * (1 + (0.5 / 1.0) ** 2))
    assert SIZES["text"](plain, None) == pytest.approx((16 + 16) * 0.5)
    assert SIZES["theorem"](plain, None) == pytest.approx(2 * (16 + 16) * 0.25)


def test_guarantees_grow_with_both_and_keep_their_rate_in_the_error() -> None:
    """An error makes the guarantee linear in T, a confidence scale leaves its rate."""
    plain = LinearClass("a", 4)
    wide, off = plain._replace(scale=2.0), plain._replace(misspecification=0.1)
    few, many = (
        [adversarial_guarantee([claimed], 0, rounds=rounds, delta=0.05) / rounds for claimed in (plain, wide, off)]
        for rounds in (10**8, 10**12)
    )
    assert few[0] < few[1] < 2 * few[0]
    assert many[1] < few[1] / 10 and many[2] > 0.2
    bounds = [
        balanced_regret_bounds([claimed], rounds=100, alpha=0.05, chances=[1.0]) for claimed in (plain, wide, off)
    ]
    assert bounds[0] < min(bounds[1:])
