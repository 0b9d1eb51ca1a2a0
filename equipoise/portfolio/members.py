"""A learner of a portfolio: its name, its failures and pauses, and where its time goes.

A learner that fails `TOLERATED` times in a row, while deciding or while learning, is suspended for `FIRST_PAUSE`
rounds. If it fails again right after a pause, the next pause is twice as long, up to `LONGEST_PAUSE` rounds; after
`TRUSTED` successes in a row, while neither decisions nor lessons fail, pauses start short again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from equipoise.learner import AdaptedLearner
from equipoise.types import Config

TOLERATED = 3
FIRST_PAUSE = 8
LONGEST_PAUSE = 1024
TRUSTED = 5
MAX_ERROR_LENGTH = 300  # characters


@dataclass(slots=True)
class Times:
    """How long the calls of one method took, in seconds; not saved."""

    calls: int = 0
    total: float = 0.0
    longest: float = 0.0

    def add(self, seconds: float) -> None:
        self.calls += 1
        self.total += seconds
        if seconds > self.longest:
            self.longest = seconds

    def to_json(self) -> Config:
        mean = self.total / self.calls if self.calls else 0.0
        return {"calls": self.calls, "mean_seconds": mean, "longest_seconds": self.longest}


@dataclass(slots=True)
class Member:
    """One learner of a portfolio. `learner` is None once it is removed."""

    learner: AdaptedLearner | None
    name: str
    suspended: bool = False  # by request
    paused_until: int = 0  # the first round in which it may play again after failures
    pause: int = 0  # length of the last pause; 0 after enough successes
    failing_decisions: int = 0  # in a row
    failing_lessons: int = 0  # in a row
    successes: int = 0  # since the last failure
    failures: int = 0  # in all
    last_error: str = ""
    logged_rounds: int = 0  # of logs that it was taught before it played
    decide_times: Times = field(default_factory=Times, compare=False)
    learn_times: Times = field(default_factory=Times, compare=False)

    def is_available(self, round_: int) -> bool:
        """Whether it may be chosen in this round."""
        return self.learner is not None and not self.suspended and self.paused_until <= round_

    @property
    def adapted(self) -> AdaptedLearner:
        assert self.learner is not None, f"{self.name} is removed"
        return self.learner

    def failed(self, round_: int, error: str, *, deciding: bool) -> bool:
        """Count a failure; returns whether the learner is suspended because of it."""
        self.failures += 1
        self.successes = 0
        self.last_error = error
        if deciding:
            self.failing_decisions += 1
        else:
            self.failing_lessons += 1
        # After a pause the first failure is enough.
        tolerated = TOLERATED if self.pause == 0 else 1
        if max(self.failing_decisions, self.failing_lessons) < tolerated:
            return False
        self.pause = min(LONGEST_PAUSE, 2 * self.pause or FIRST_PAUSE)
        self.paused_until = round_ + self.pause + 1
        return True

    def succeeded_deciding(self) -> None:
        """Count a decision, unless lessons fail: then it says nothing about them."""
        self.failing_decisions = 0
        if not self.failing_lessons:
            self.successes += 1
            if self.successes == TRUSTED:
                self.pause = 0

    def succeeded_learning(self) -> None:
        """Count a lesson, unless decisions fail."""
        self.failing_lessons = 0
        if not self.failing_decisions:
            self.successes += 1
            if self.successes == TRUSTED:
                self.pause = 0

    def resume(self) -> None:
        """End every suspension."""
        self.suspended, self.paused_until, self.pause = False, 0, 0
        self.failing_decisions = self.failing_lessons = 0

    def state(self) -> Config:
        return {**{name: getattr(self, name) for name in _SAVED}, "logged_rounds": self.logged_rounds}

    def restore(self, state: Config) -> None:
        for name in _SAVED:
            setattr(self, name, state[name])
        self.logged_rounds = state.get("logged_rounds", 0)  # not in files of earlier releases


_SAVED = (
    "name",
    "suspended",
    "paused_until",
    "pause",
    "failing_decisions",
    "failing_lessons",
    "successes",
    "failures",
    "last_error",
)


def describe_error(error: BaseException) -> str:
    """The error in one line."""
    return f"{type(error).__name__}: {error}".splitlines()[0][:MAX_ERROR_LENGTH]
