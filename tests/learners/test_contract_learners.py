"""Everything registered keeps its contract, nothing escapes the registry, and the contract suite catches offenders."""

from copy import copy
from itertools import count
from math import isnan, nan
from typing import Any

import numpy as np
import pytest

from equipoise.errors import InvalidArgument, UnknownName
from equipoise.features import Offers
from equipoise.lab.rivals import RIVAL_LEARNERS
from equipoise.learner import Proposal
from equipoise.learners import LEARNERS, UCB, Ball
from equipoise.settings import configurable, setting
from equipoise.testing import check_learner
from equipoise.testing.checks import first_difference
from equipoise.testing.learners import CHECKS, ContextSource, random_actions
from tests.episodes import random_trajectory, start_state
from tests.learners.subjects import EPISODIC, SUBJECTS

FOR_MATRICES = {
    *("bad_contexts_are_refused_and_change_nothing", "bad_actions_are_refused_and_change_nothing"),
    *("offers_are_their_matrix", "a_mask_leaves_offers_out"),
}
MASKS, WITHOUT_MASKS = {"a_mask_leaves_offers_out"}, {"OSOM", "ALBNorm", "Scheduled"}  # rows of these are arms
PMF = "pmf_is_the_distribution_of_its_decisions"
OF_LEARNERS_OF_PROBABILITIES = "probabilities_are_learned_or_refused"


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "settings", "contexts"), SUBJECTS)
def test_learner_keeps_the_contract(cls: type[Any], settings: dict[str, Any], contexts: ContextSource) -> None:
    proved = check_learner(lambda: cls(**settings), contexts)
    left_out = {check.__name__ for check in CHECKS} - {name.replace(" ", "_") for name in proved}
    no_pmf = {PMF} if isinstance(contexts(np.random.default_rng(0)), Ball) else set()
    expected = {OF_LEARNERS_OF_PROBABILITIES} | no_pmf | (set() if contexts is random_actions else FOR_MATRICES)
    free = MASKS if cls.__name__ in WITHOUT_MASKS else set()
    assert left_out - free == expected - free


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "settings"), EPISODIC)
def test_learner_of_episodes_keeps_the_contract(cls: type[Any], settings: dict[str, Any]) -> None:
    proved = check_learner(lambda: cls(**settings), start_state, random_trajectory)
    left_out = {check.__name__ for check in CHECKS} - {name.replace(" ", "_") for name in proved}
    assert left_out == {OF_LEARNERS_OF_PROBABILITIES, PMF} | FOR_MATRICES


def test_every_registered_learner_is_checked() -> None:
    assert {cls for cls, *_ in (*SUBJECTS, *EPISODIC)} == {*LEARNERS.values(), *RIVAL_LEARNERS.values()}


class FirstActionFiveLines:
    """All that a user has to write."""

    def decide(self, context):
        return 0

    def learn(self, context, action, reward):
        pass


minimal: Any = FirstActionFiveLines
nothing: Any = object


def test_minimal_learner_passes_what_applies_to_it() -> None:
    assert check_learner(minimal) == [
        "has a name and declares only known words",
        "decides before any learning",
        "proposals are well formed",
        "what it provides is filled in",
        "the same seed gives the same run",
        "stated probabilities are those of its decisions",
        "instances share nothing",
        "a deep copy is independent and goes on identically",
        "inputs are neither kept nor changed",
        "memory does not grow with rounds",
    ]


def test_learner_without_the_methods_is_told_so() -> None:
    with pytest.raises(AssertionError, match=r"failed: it raised InvalidArgument.*has no decide\(\), but must"):
        check_learner(nothing)


@configurable
class Sound(UCB):
    """A learner that passes; each offender below breaks one rule."""

    arms: int = setting(default=6, kw_only=False)
    noise: float = setting(default=0.2)
    accepts = frozenset({"weight", "probability"})

    def learn(self, context, action, reward, weight=1.0, *, probability=nan):
        if not (isnan(probability) or 0.0 < probability <= 1.0):
            raise ValueError(f"probability is {probability}, but must lie in (0, 1]")
        super().learn(context, action, reward, weight)


class ClaimsTheUnknown(Sound):
    accepts = frozenset({"everything"})


class HasANumberForAName(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.name = 5  # type: ignore[assignment]


class NeedsAnUpdateFirst(Sound):
    def decide(self, context, rng=None):
        if not self.memory.plays.any():
            raise RuntimeError("nothing learned yet")
        return super().decide(context, rng)


class ProposesWhatIsNotOffered(Sound):
    def decide(self, context, rng=None):
        return super().decide(context, rng)._replace(action=len(context))


class IsTooCertain(Sound):
    def decide(self, context, rng=None):
        return super().decide(context, rng)._replace(probability=1.5)


class KnowsNoBound(Sound):
    def decide(self, context, rng=None):
        return super().decide(context, rng)._replace(lower=nan)


class GainsByPlaying(Sound):
    def decide(self, context, rng=None):
        return super().decide(context, rng)._replace(regret=-0.1)


class OffersWhatItLacks(Sound):
    def decide(self, context, rng=None):
        return Proposal(super().decide(context, rng).action)


class RollsItsOwnDice(Sound):
    def decide(self, context, rng=None):
        return Proposal(int(np.random.default_rng().integers(len(context))), 0.0, 1.0, greedy=0, value=0.5)


class StatesTheWrongProbability(Sound):
    randomized = True
    provides = UCB.provides - {"pmf"}

    def decide(self, context, rng=None):
        proposal = super().decide(context, rng)
        return proposal if rng.random() < 0.5 else proposal._replace(action=0)


class HasTheWrongPmf(Sound):
    def pmf(self, context):
        return np.full(len(context), 1 / len(context))


class KnowsNoProbabilities(Sound):
    def learn(self, context, action, reward, weight=1.0, *, probability=nan):
        UCB.learn(self, context, action, reward, weight)


class LearnsBeforeItRefusesTheUnknown(Sound):
    def learn(self, context, action, reward, weight=1.0, *, probability=1.0):
        super().learn(context, action, reward, weight, probability=probability)
        if isnan(probability):
            raise InvalidArgument("probability is nan, but must be known")


class FailsWithoutAProbability(Sound):
    def learn(self, context, action, reward, weight=1.0, *, probability=1.0):
        super().learn(context, action, reward, weight, probability=probability)
        if isnan(probability):
            raise ZeroDivisionError("1 / nan")


class SharesItsMemory(Sound):
    shared: Any = None

    def __init__(self) -> None:
        super().__init__()
        SharesItsMemory.shared = self.memory = SharesItsMemory.shared or self.memory


class CopiesItsMemoryByReference(Sound):
    def __deepcopy__(self, memo):
        return copy(self)


class KeepsTheContext(Sound):
    kept: Any = None

    def decide(self, context, rng=None):
        lower = 0.0 if self.kept is None else float(self.kept.sum())
        return super().decide(context, rng)._replace(lower=lower)

    def learn(self, context, action, reward, weight=1.0, **probability):
        super().learn(context, action, reward, weight, **probability)
        self.kept = context


class OverwritesTheContext(Sound):
    def learn(self, context, action, reward, weight=1.0, **probability):
        super().learn(context, action, reward, weight, **probability)
        context[...] = 0.0


class RemembersEverything(Sound):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.rewards: list[float] = []

    def learn(self, context, action, reward, weight=1.0, **probability):
        super().learn(context, action, reward, weight, **probability)
        self.rewards.append(reward)


class LearnsByDeciding(Sound):
    def decide(self, context, rng=None):
        proposal = super().decide(context, rng)
        self.memory.reward_sums[0] += 1e-6
        return proposal


class ForgetsPartOfItsState(Sound):
    def restore(self, state):
        super().restore({**state, "mean_uppers": self.memory.mean_uppers})


class ShowsItsMemoryWithoutCopying(Sound):
    def state(self):
        return {**super().state(), "plays": self.memory.plays}


class KeepsTheStateItIsGiven(Sound):
    def restore(self, state):
        super().restore(state)
        self.memory = self.memory._replace(mean_uppers=state["mean_uppers"])


class HasObjectsInItsState(Sound):
    def state(self):
        return {**super().state(), "notes": np.array([None])}


class TakesAnyState(Sound):
    def restore(self, state):
        own = super().state()
        super().restore({name: np.resize(state.get(name, array), array.shape) for name, array in own.items()})


class TakesAnyContext(Sound):
    def check_context(self, context):
        return np.zeros((min(max(len(context), 1), self.arms), 1))


class TakesAnyAction(Sound):
    def check_offered(self, context, action):
        return self.check_context(context), 0 if action is None else action % len(context)


class ReadsOffersBackwards(Sound):
    def decide(self, context, rng=None):
        proposal = super().decide(context, rng)
        backwards = isinstance(context, Offers) and context.ids is None
        return proposal._replace(action=len(context) - 1 - proposal.action) if backwards else proposal


class LooksBehindTheMask(Sound):
    def pmf(self, context):
        probabilities = super().pmf(context)
        masked = isinstance(context, Offers) and context.mask is not None
        return np.full(len(probabilities), 1 / len(probabilities)) if masked else probabilities


class TakesAnyReward(Sound):
    def check_reward(self, reward, weight):
        return float(reward or 0.0)


class LearnsBeforeItRefuses(Sound):
    def learn(self, context, action, reward, weight=1.0, **probability):
        self.memory.plays[0] += 1
        super().learn(context, action, reward, weight, **probability)
        self.memory.plays[0] -= 1


class MisstatesASetting(Sound):
    def config(self):
        return {"arms": self.arms, "noise": 0.9}


class HasConfigThatIsNoData(Sound):
    def config(self):
        return {"arms": self.arms, "noise": np.float32(0.2)}


def test_exempt_checks_are_not_run_and_need_a_reason() -> None:
    grows = {"memory does not grow with rounds": "it is a log of all rewards"}
    names = check_learner(RemembersEverything, exempt=grows)
    assert len(names) == len(CHECKS) - 1 and not set(names) & set(grows)
    with pytest.raises(UnknownName, match="check 'memory' is unknown; did you mean"):
        check_learner(Sound, exempt={"memory": "why"})
    with pytest.raises(InvalidArgument, match=r"but must be a reason$"):
        check_learner(Sound, exempt={"memory does not grow with rounds": ""})


class HasAStateThatIsNotCanonical(Sound):
    """Its state carries a number that differs from call to call and means nothing."""

    calls = count()

    def state(self):
        return {**super().state(), "stamp": np.array([next(self.calls)])}


class ForgetsWithoutACanonicalState(HasAStateThatIsNotCanonical):
    def restore(self, state):
        super().restore({**state, "mean_uppers": self.memory.mean_uppers})


def test_states_that_are_not_canonical_are_compared_by_behavior() -> None:
    with pytest.raises(AssertionError, match=r"check 'pmf is the .*' failed: state 'stamp' after pmf\(\) has"):
        check_learner(HasAStateThatIsNotCanonical)
    names = check_learner(HasAStateThatIsNotCanonical, canonical=False)
    assert len(names) == len(CHECKS)
    with pytest.raises(AssertionError, match=r"check 'pmf is the .*' failed: proposals by states after pmf\(\) differ"):
        check_learner(ForgetsWithoutACanonicalState, canonical=False)


def test_the_first_differing_place_is_named() -> None:
    seen, expected = np.zeros((50, 60)), np.zeros((50, 60))
    seen[7, 3:5] = 2.5
    assert first_difference(expected, seen) == "np.float64(2.5) at [7, 3], not np.float64(0.0) (2 of 3000 differ)"
    assert first_difference(np.array([np.nan]), np.array([np.nan])) == ""
    assert first_difference(np.zeros(2), np.zeros(3)) == "float64 of shape (3,), not float64 of shape (2,)"


OFFENDERS = {
    ClaimsTheUnknown: "has a name and declares only known words",
    HasANumberForAName: "has a name and declares only known words",
    NeedsAnUpdateFirst: "decides before any learning",
    ProposesWhatIsNotOffered: "proposals are well formed",
    IsTooCertain: "proposals are well formed",
    KnowsNoBound: "proposals are well formed",
    GainsByPlaying: "proposals are well formed",
    OffersWhatItLacks: "what it provides is filled in",
    RollsItsOwnDice: "the same seed gives the same run",
    StatesTheWrongProbability: "stated probabilities are those of its decisions",
    HasTheWrongPmf: "pmf is the distribution of its decisions",
    KnowsNoProbabilities: "probabilities are learned or refused",
    SharesItsMemory: "instances share nothing",
    CopiesItsMemoryByReference: "a deep copy is independent and goes on identically",
    KeepsTheContext: "inputs are neither kept nor changed",
    OverwritesTheContext: "inputs are neither kept nor changed",
    RemembersEverything: "memory does not grow with rounds",
    LearnsByDeciding: "deciding changes nothing",
    ForgetsPartOfItsState: "state survives a round trip in mid run",
    ShowsItsMemoryWithoutCopying: "state survives a round trip in mid run",
    KeepsTheStateItIsGiven: "state survives a round trip in mid run",
    HasObjectsInItsState: "state survives a round trip in mid run",
    TakesAnyState: "states that do not fit are refused",
    TakesAnyContext: "bad contexts are refused and change nothing",
    LearnsBeforeItRefuses: "bad contexts are refused and change nothing",
    TakesAnyAction: "bad actions are refused and change nothing",
    TakesAnyReward: "bad rewards are refused and change nothing",
    LearnsBeforeItRefusesTheUnknown: "probabilities are learned or refused",
    FailsWithoutAProbability: "probabilities are learned or refused",
    ReadsOffersBackwards: "offers are their matrix",
    LooksBehindTheMask: "a mask leaves offers out",
    MisstatesASetting: "config rebuilds an equal learner",
    HasConfigThatIsNoData: "config rebuilds an equal learner",
}


def test_the_learner_that_offenders_derive_from_is_sound() -> None:
    assert len(check_learner(Sound)) == len(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize("offender", OFFENDERS, ids=lambda cls: cls.__name__)
def test_offender_is_caught_by_the_check_it_breaks(offender: type[Any]) -> None:
    with pytest.raises(AssertionError) as error:
        check_learner(offender)
    assert str(error.value).startswith(f"check {OFFENDERS[offender]!r} failed: ")


def test_every_check_has_an_offender() -> None:
    assert set(OFFENDERS.values()) == {check.__name__.replace("_", " ") for check in CHECKS}
