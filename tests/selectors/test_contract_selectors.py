"""Every registered selector keeps its contract, none escapes the registry, and the suite catches each offender."""

import inspect
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

from equipoise.bounds import Power
from equipoise.errors import EquipoiseError, UnknownDecision
from equipoise.lab.rivals import RIVAL_SELECTORS
from equipoise.selector import Choice
from equipoise.selectors import SELECTORS, BalancedElimination
from equipoise.selectors._core.ledger import Rounds
from equipoise.testing import check_selector
from equipoise.testing.selectors import CHECKS, Subject, play
from tests.selectors.subjects import SUBJECTS


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "learners", "settings", "left_out"), SUBJECTS)
def test_selector_keeps_the_contract(
    cls: type[Any], learners: Any, settings: dict[str, Any], left_out: set[str]
) -> None:
    proved = check_selector(lambda: cls(learners, **settings))
    assert {name.replace(" ", "_") for name in proved} == {check.__name__ for check in CHECKS} - left_out


@pytest.mark.parametrize("cls", SELECTORS.values())
def test_docstring_lists_the_parameters(cls: type[Any]) -> None:
    _, _, section = (inspect.getdoc(cls) or "").partition("Parameters\n----------\n")
    documented = [line for line in section.splitlines() if line and not line.startswith(" ")]
    assert documented == list(inspect.signature(cls).parameters)


def test_the_suite_sees_eliminations() -> None:
    """So that the checks about them are not empty."""
    selector = Sound()
    play(Subject(Sound, (0, 1, 2)), selector)
    assert selector.active == (0, 2)


def test_every_registered_selector_is_checked() -> None:
    assert {cls for cls, *_ in SUBJECTS} == {*SELECTORS.values(), *RIVAL_SELECTORS.values()}


BOUNDS = (Power(0.01), Power(0.02), Power(0.04))


class Sound(BalancedElimination):
    """A selector that passes; each offender below breaks one rule."""

    def __init__(self, bounds: Any = BOUNDS, **settings: Any) -> None:
        super().__init__(bounds, **settings)


class NeedsTheUnknown(Sound):
    needs = frozenset({"luck"})


class AsksForTheContext(Sound):
    def choose(self, context=None, rng=None):  # type: ignore[override]  # that is its offence
        return super().choose(rng)


class ChoosesOnlyOnceSomethingIsBooked(Sound):
    def choose(self, rng=None, available=None):
        if self.standing()[0].plays > 0 and self.standing()[0].pending == self.standing()[0].plays:
            raise RuntimeError("no rewards yet")
        return super().choose(rng, available)


class NumbersPlaysByRound(Sound):
    """Tickets count the rounds of all learners."""

    def choose(self, rng=None, available=None):
        choice = super().choose(rng, available)
        return choice._replace(play=sum(row.plays for row in self.standing()))

    def ticket(self, choice):
        """The ledger's own name of an open play."""
        opened = [key for key in self._rounds.ledger.open_plays if key[0] == choice.learner]
        return choice._replace(play=opened[-1][1] if opened else choice.play)

    def observe(self, choice, proposals, substitutes=()):
        super().observe(self.ticket(choice), proposals)

    def credit(self, choice, reward, regret=None):
        return super().credit(self.ticket(choice), reward, regret)


class ClaimsAnImpossibleProbability(Sound):
    def choose(self, rng=None, available=None):
        return super().choose(rng, available)._replace(probability=0.0)


class NeverPlaysTheLast(Sound):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.evidence.accounts[2].regret_bound = 1e9

    def state(self):
        state = super().state()
        self.evidence.accounts[2].regret_bound = 1e9
        return state


class ForgetsPendingPlays(Sound):
    def standing(self):
        return [row._replace(plays=row.plays - row.pending, pending=0) for row in super().standing()]


class DropsEverybody(Sound):
    @property
    def active(self):
        return () if self.eliminations else super().active


class Revives(Sound):
    def credit(self, choice, reward, regret=None):
        eliminations = super().credit(choice, reward, regret)
        if sum(row.plays for row in self.standing()) == 190:
            for account in self.evidence.accounts:
                account.active = True
        return eliminations


class DropsInSilence(Sound):
    def credit(self, choice, reward, regret=None):
        super().credit(choice, reward, regret)
        return ()


class ProvesNothing(Sound):
    def _proofs(self, eliminated):
        proofs: Any = super()._proofs(eliminated)
        return tuple(replace(proof, learner=replace(proof.learner, radius=1000.0)) for proof in proofs)


class BooksTwice(Sound):
    def credit(self, choice, reward, regret=None):
        if (choice.learner, choice.play) in self._rounds.ledger.open_plays:
            return super().credit(choice, reward, regret)
        if choice.learner >= self.n_learners or choice.play > 10**5:
            raise UnknownDecision("never chosen")
        self.evidence.accounts[choice.learner].rewards += reward
        return None


class RefusesAfterCounting(Sound):
    def withdraw(self, choice):
        if choice.learner < self.n_learners:
            account, opened = self.evidence.accounts[choice.learner], self._rounds.ledger.open_plays
            account.plays -= 1
            account.plays += (choice.learner, choice.play) in opened
        super().withdraw(choice)


class TakesAnyReward(Sound):
    def check_reward(self, reward):
        return 0.5 if reward is None or not abs(float(reward)) < 1e9 else float(reward)


class CountsRefusedRewards(Sound):
    def check_reward(self, reward):
        self._rounds.draws += 1
        number = super().check_reward(reward)
        self._rounds.draws -= 1
        return number


class DropsRewardsOutOfOrder(Sound):
    def credit(self, choice, reward, regret=None):
        opened = [play for learner, play in self._rounds.ledger.open_plays if learner == choice.learner]
        return super().credit(choice, reward if choice.play == min(opened, default=0) else 0.0, regret)


class CountsWithdrawnPlays(Sound):
    def withdraw(self, choice):
        super().withdraw(choice)
        self._rounds.draws += 1


class ForgetsPendingPlaysWhenSaved(Sound):
    def restore(self, state):
        super().restore({**state, "ledger.regrets": np.full_like(state["ledger.regrets"], 0.3)})


class KeepsWhatItIsRestoredFrom(Sound):
    def restore(self, state):
        super().restore(state)
        self.kept = state["draws"]

    def state(self):
        return {**super().state(), "draws": getattr(self, "kept", super().state()["draws"])}


class IsCopiedByReference(Sound):
    def __deepcopy__(self, memo):
        return copy(self)


class ReplaysTheFirstLearner(Sound):
    def replay(self, choice, available=None, odds=None):
        return super().replay(choice._replace(learner=0), available, odds)


class TakesAnyState(Sound):
    def restore(self, state):
        super().restore({**self.state(), **state})


class IsNeverTheSame(Sound):
    """Left to itself, it goes round by a counter that all instances move."""

    calls = 0

    def choose(self, rng=None, available=None):
        if rng is not None or available is not None:
            return super().choose(rng, available)
        IsNeverTheSame.calls += 1
        learner = self.active[IsNeverTheSame.calls % len(self.active)]
        return Choice(learner, self._rounds.open(learner, 1.0), 1.0)


class SharedRounds(Rounds):
    common: ClassVar[list[int]] = [0]

    @property
    def draws(self):
        return self.common[0]

    @draws.setter
    def draws(self, value):
        self.common[0] = value


class SharesACounter(Sound):
    def _set_up(self):
        super()._set_up()
        self._rounds.__class__ = SharedRounds
        self._rounds.draws = 0


class ChoosesAnybody(Sound):
    def choose(self, rng=None, available=None):
        return super().choose(rng)


class AnnouncesAnotherChoice(Sound):
    def choice_probabilities(self, available=None):
        return super().choice_probabilities()


class CountsEverything(Sound):
    def leave_out(self, choice): ...


class ForgetsTheWindow(Sound):
    def restore(self, state):
        super().restore({**state, "delays": np.zeros_like(state["delays"])})


class ForgetsTheBudget(Sound):
    def remove_learner(self, learner):
        super().remove_learner(learner)
        late = self._changes.late
        late.update({i: each._replace(delta=0.0) for i, each in late.items()})


class ShowsActiveOnesOnly(Sound):
    def standing(self):
        return [row for row in super().standing() if row.active]


class ShowsTotals(Sound):
    def standing(self):
        return [row._replace(mean_upper=row.mean_upper * max(row.plays, 1)) for row in super().standing()]


class CertifiesTooMuch(Sound):
    def certificate(self):
        sound = super().certificate()
        return type(sound)(**{**vars(sound), "regret_upper": 2.0 * sound.rounds})


class RefusesWithoutAReason(Sound):
    def certificate(self):
        raise EquipoiseError


class ForgetsASetting(Sound):
    def config(self):
        return {key: value for key, value in super().config().items() if key != "delta"}

    @classmethod
    def from_config(cls, config):
        return super().from_config({**config, "delta": 0.9})


class PrefersTheFirst(Sound):
    """The first learner's bound counts half, whoever that is."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.evidence.accounts[0].bound_coefficient *= 0.5


class RemembersEverything(Sound):
    def credit(self, choice, reward, regret=None):
        eliminations = super().credit(choice, reward, regret)
        self.history: list[Choice] = [*getattr(self, "history", []), choice]
        return eliminations


OFFENDERS: list[tuple[type[Any], str]] = [
    (NeedsTheUnknown, "declares only known needs"),
    (AsksForTheContext, "choosing takes no context"),
    (ChoosesOnlyOnceSomethingIsBooked, "chooses before any reward"),
    (NumbersPlaysByRound, "choices are well formed and their tickets unique"),
    (ClaimsAnImpossibleProbability, "choices are well formed and their tickets unique"),
    (NeverPlaysTheLast, "every learner is played"),
    (ForgetsPendingPlays, "plays add up to the rounds"),
    (DropsEverybody, "the active set never empties and never grows"),
    (Revives, "the active set never empties and never grows"),
    (DropsInSilence, "the active set never empties and never grows"),
    (ProvesNothing, "every elimination carries its proof"),
    (BooksTwice, "unknown and repeated tickets are refused and change nothing"),
    (RefusesAfterCounting, "unknown and repeated tickets are refused and change nothing"),
    (TakesAnyReward, "bad rewards are refused and change nothing"),
    (CountsRefusedRewards, "bad rewards are refused and change nothing"),
    (DropsRewardsOutOfOrder, "rewards may come late and in any order"),
    (CountsWithdrawnPlays, "withdrawing the newest play restores the state"),
    (ForgetsPendingPlaysWhenSaved, "state survives a round trip in mid run"),
    (KeepsWhatItIsRestoredFrom, "state survives a round trip in mid run"),
    (IsCopiedByReference, "a deep copy is independent and goes on identically"),
    (ReplaysTheFirstLearner, "replaying its choices gives the same state"),
    (TakesAnyState, "states that do not fit are refused and change nothing"),
    (IsNeverTheSame, "the same seed gives the same run"),
    (SharesACounter, "instances share nothing"),
    (ShowsActiveOnesOnly, "standing is complete"),
    (ShowsTotals, "standing is complete"),
    (CertifiesTooMuch, "the certificate is well formed or refused with a reason"),
    (RefusesWithoutAReason, "the certificate is well formed or refused with a reason"),
    (ForgetsASetting, "config rebuilds an equal selector"),
    (PrefersTheFirst, "reordering learners changes no more than how ties break"),
    (RemembersEverything, "memory does not grow with resolved rounds"),
    (ChoosesAnybody, "only available learners are chosen"),
    (AnnouncesAnotherChoice, "its choice probabilities are those of its choices"),
    (CountsEverything, "rounds that are left out prove nothing"),
    (ForgetsTheWindow, "a window of evidence survives saving"),
    (ForgetsTheBudget, "learners come and go or are refused with a reason"),
]


@pytest.mark.slow
def test_the_sound_selector_passes() -> None:
    assert len(check_selector(Sound)) == len(CHECKS)


@pytest.mark.slow
@pytest.mark.parametrize(("offender", "sentence"), OFFENDERS, ids=[cls.__name__ for cls, _ in OFFENDERS])
def test_the_suite_catches_the_offender(offender: type[Any], sentence: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_selector(offender)
    assert str(caught.value).startswith(f"check {sentence!r} failed: ")


def test_every_check_has_its_offender() -> None:
    assert {sentence.replace(" ", "_") for _, sentence in OFFENDERS} == {check.__name__ for check in CHECKS}
