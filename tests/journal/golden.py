"""Writes the recorded journals and files: `python -m tests.journal.golden`.

Releases must open all of them as they are, also the journals of processes that were killed. Set 0 is from before held
rewards and logged odds, set 1 from before journals named their writers, set 2 from before schemas, and the present code
writes set 3. Write new ones, with a new number, only together with a migration of these. Ids and times are fixed, so
that the same code writes the same files.
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.features import Category, Flag, Number, Offers, Schema, Shared, Text, Vector
from equipoise.journal import SQLiteJournal, digest, rebuild
from equipoise.learners import OFUL, UCB, Constant, DisjointOFUL, EpsilonGreedy
from equipoise.portfolio.clock import Clock
from equipoise.portfolio.warm_start import LoggedRound
from equipoise.selectors import BalancedElimination

NEWEST = 3  # number of the set that the present code writes
RECORDED = Path(__file__).parents[1] / "recorded"
START = 1.7e9  # seconds


class Flaky(UCB):
    """Fails to learn from some rewards; not registered, so a reader must give it."""

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        if reward == 0.125:
            raise ValueError("an eighth")
        super().learn(context, action, reward, weight)


def make_arms() -> Portfolio:
    return Portfolio(
        [UCB(3), Flaky(3, scale=0.5, name="flaky"), EpsilonGreedy(3, epsilon=0.1)],
        seed=5,
        deadline="1h",
        default_reward=0.0,
        fallback=1,
        explore=0.05,
    )


def play_arms(live: Any) -> None:
    """Change the pool and the settings, fail to learn, reach deadlines."""
    live.warm_start([LoggedRound(None, k % 3, 0.5, 1 / 3) for k in range(6)], learners=["UCB"])
    rng, waiting = np.random.default_rng(1), []
    for t in range(60):
        at = START + 60.0 * t
        decision = live.decide(None, id=f"order {t}" if t % 4 == 0 else None, at=at)
        if t % 10 == 7:
            waiting.append(decision)
        elif t % 10 == 8:
            live.withdraw(decision)
        elif t % 10 != 9:
            live.learn(decision, 0.125 if t % 9 == 1 else float(rng.integers(0, 5)) / 4, at=at + 1.0)
    for decision in waiting[::-1]:
        live.learn(decision, 0.75, at=START + 3600.0)
    live.retry_updates()
    live.suspend("UCB")
    live.decide(None, at=START + 3700.0)
    live.resume("UCB")
    live.add_learner(UCB(3, scale=2.0, name="late"))
    live.rename_learner("late", "newest")
    live.reconfigure(explore=0.0, fallback=2, default_reward=0.25)  # a new law
    live.transact(lambda portfolio, at: portfolio.declare(replace(portfolio.declared, explore=0.0)))
    live.remove_learner(live.learner_names[2])
    live.expire(at=START + 9000.0)
    for t in range(20):
        live.learn(live.decide(None, at=START + 9100.0 + t), 0.5, at=START + 9100.0 + t)
    live.decide(None, id="open", at=START + 9200.0)


def make_contexts() -> Portfolio:
    """The default selector over features, with rewards in parts."""
    return Portfolio(
        [OFUL(2, name="two"), OFUL(3, name="three"), OFUL(1, name="one")],
        seed=7,
        aggregate="sum",
        clip=True,
        deadline=5,
        default_reward=0.0,
        action_names=["red", "blue"],
        schema=Schema({"age": Number(scaled=False, missing="zero")}),
    )


def play_contexts(live: Any) -> None:
    """Decide with contexts, get rewards in parts, some too late, and lose the oldest contexts."""
    live.reconfigure(action_names=["red", "blue", "green"])
    rng, decisions = np.random.default_rng(2), []
    for t in range(100):
        at, matrix = START + t, rng.integers(-5, 6, (3, 3)) / 10
        offers = Offers(matrix, [t / 100], ["red", "blue", "green"], mask=[True, True, t % 4 == 0])
        decisions.append(live.decide(offers if t % 2 else matrix, id=f"visit {t}" if t % 5 == 0 else None, at=at))
        for key, reward in (("click", float(matrix[decisions[-1].action, 0] > 0)), ("order", t % 3 / 2)):
            if t % 7 > 1 or key == "click":
                live.learn(decisions[-1], reward, key=key, at=at)
        if t == 30:
            live.learn(decisions[5], 1.0, key="order", at=at)  # past its deadline
            live.add_learner(OFUL(2, regularization=2.0, name="late"))
        if t == 60:
            live.redact(before=START + 40.0)


class Logged(NamedTuple):
    """A log whose every action had the same probability."""

    rounds: list[LoggedRound]
    name: str = "a log"
    min_exposure: float = 1 / 3
    min_offered_exposure: float = 1 / 3

    @property
    def n_rounds(self) -> int:
        return len(self.rounds)

    def each_round(self) -> Iterator[LoggedRound]:
        return iter(self.rounds)


def make_rules() -> Portfolio:
    """Fixed rules with bounds, which are eliminated and return after drift."""
    selector = BalancedElimination([Power(0.25)] * 3, contexts="fixed", delta=0.1)
    return Portfolio([Constant(0), Constant(1), Constant(2)], selector, seed=9, on_drift="restart")


def play_rules(live: Any) -> None:
    """Replay a log, eliminate, see drift, and begin a new epoch, in which a missing reward holds up others."""
    logged = [LoggedRound(None, k // 2 % 3, float(k // 2 % 3 == 0), 1 / 3) for k in range(12)]
    live.warm_start(Logged(logged), evidence=True)
    with patch.object(BalancedElimination, "rule_version", 0):
        live.transact(lambda portfolio, at: portfolio.note_rule())
    live.transact(lambda portfolio, at: portfolio.note_rule())
    early: list[Any] = []
    for t in range(280):
        at, decision = START + t, live.decide(None, at=START + t)
        withheld = (2, 0) if not early else (1, 150)  # the action, and the round before; each holds up others
        if len(early) < 2 and decision.action == withheld[0] and t > withheld[1]:
            early.append(decision)
        else:
            live.learn(decision, float((decision.action == 0) == (t < 110)), at=at)
    live.learn(early[0], 0.0, at=START + 300.0)  # of the epoch before


def make_clock() -> Portfolio:
    return Portfolio([UCB(2), UCB(2, scale=0.1)], seed=11, deadline="1h", default_reward=0.0)


def play_clock(live: Any) -> None:
    """Extend the deadlines of open decisions, and close some as if they had not been extended."""
    decisions = [live.decide(None, at=START + t) for t in range(12)]
    for decision in decisions[::4]:
        live.learn(decision, 1.0, at=START + 60.0)
    live.extend_deadlines(86400.0, at=START + 86460.0)
    live.learn(decisions[1], 0.5, at=START + 86470.0)
    live.decide(None, at=START + 86480.0)
    live.expire(3, at=START + 86490.0, extended=False)
    live.extend_deadlines(7200.0, at=START + 93690.0)
    live.decide(None, at=START + 93700.0)


def make_deferred() -> Portfolio:
    return Portfolio([UCB(2), UCB(2, scale=0.1)], seed=13, deadline="1h", default_reward=0.0)


def play_deferred(live: Any) -> None:
    """Activate some deferred decisions, one of them after its reward, and let the deadline withdraw the others."""
    for t in range(12):
        name = f"page {t // 2}" if t % 3 else ""
        live.decide(None, id=f"mail {t}" if t < 6 else None, deferred=name, at=START + t, pmf=t % 2 == 0)
    live.learn("mail 1", 1.0, at=START + 60.0)
    live.learn("mail 2", 0.5, at=START + 60.0)
    live.activate("page 0", at=START + 120.0)
    live.activate("page 2", at=START + 120.0)
    live.expire(8, at=START + 3700.0)
    live.decide(None, id="waits", deferred="waits", at=START + 3710.0)
    live.learn("waits", 0.25, at=START + 3720.0)
    live.decide(None, id="open", at=START + 3730.0)


def make_units() -> Portfolio:
    return Portfolio([UCB(3), EpsilonGreedy(3, epsilon=0.3)], seed=13, deadline="1h", default_reward=0.0, sticky="5m")


def play_units(live: Any) -> None:
    """Ask units again, some with slates; withdraw, change `sticky`, and forget a unit."""
    offers = Offers(None, ids=["red", "blue", "green"])
    for t in range(60):
        at, unit = START + 20.0 * t, f"user-{t % 7}"
        if t % 10 == 9:
            for decision in live.slate(offers, 2, id=f"page {t}", unit=unit, at=at):
                if decision.id in live.pending:
                    live.learn(decision, 0.5, at=at)
            continue
        decision = live.decide(offers, unit=unit, at=at)
        if decision.id in live.pending:
            if t % 4 == 1:
                live.withdraw(decision)
            elif t % 4:
                live.learn(decision, 1.0, at=at)
    live.reconfigure(sticky="30d")
    live.expire(at=START + 9000.0)
    live.redact(unit="user-3")
    live.decide(offers, unit="user-8", id="open", at=START + 9000.0)


def make_typed() -> Portfolio:
    """Typed features, one with a scale to be learned, and learners whose features follow from them."""
    return Portfolio(
        [OFUL(), OFUL(features=Shared(columns=["user.age"]), name="age"), DisjointOFUL(arms=3), UCB(3)],
        seed=13,
        action_names=["red", "blue"],
        schema=Schema(
            {"device": Category(["phone", "tv"]), "user": {"age": Number(), "vip": Flag()}, "note": Text(hashed=2)},
            {"look": Vector(3, projection=1, missing="zero")},
            unknown="ignore",
        ),
    )


def play_typed(live: Any) -> None:
    """Learn a scale, grow the schema, and leave decisions open that were made before."""
    rng = np.random.default_rng(3)
    for t in range(60):
        user = {"age": None if t % 9 == 4 else float(20 + t % 40), **({"vip": t % 3 == 0} if t % 5 else {})}
        context = {"device": ["phone", "tv", "car", None][t % 4], "user": user, "note": "a NOTE" * (t % 2), "x": t}
        offers = [{"id": each, "features": {"look": [1, 0, t]}} for each in ("red", "blue")]
        visit = f"visit {t}" if t % 6 == 0 else None
        decision = live.decide(context, offers=offers if t % 2 else None, id=visit, at=START + t)
        if t == 45:
            schema = live.settings.schema.to_plain()
            schema["context"]["device"]["values"].append("car")
            live.reconfigure(schema={**schema, "actions": {**schema["actions"], "new": {"type": "number"}}})
            live.add_learner(OFUL(name="late"))
        if t % 10 != 7:
            live.learn(decision, float(rng.random() < 0.5), at=START + t)


class Golden(NamedTuple):
    """A portfolio, what happens to it, and the learners of its file, if the classes of some are not registered."""

    make: Callable[[], Portfolio]
    play: Callable[[Any], None]
    learners: Callable[[], list[Any] | None] = lambda: None


GOLDEN = {
    "arms": Golden(make_arms, play_arms, lambda: [*make_arms().learners[:2], UCB(3, scale=2.0, name="late")]),
    "clock": Golden(make_clock, play_clock),
    "contexts": Golden(make_contexts, play_contexts),
    "deferred": Golden(make_deferred, play_deferred),
    "rules": Golden(make_rules, play_rules),
    "typed": Golden(make_typed, play_typed),
    "units": Golden(make_units, play_units),
}


def journal_of(name: str, folder: Path = RECORDED, number: int = 1, *, killed: bool = False) -> Path:
    return folder / f"journal-{number}-{name}{'-killed' * killed}.db"


def recorded_journals() -> list[tuple[int, str, bool]]:
    """Return the number, the name and the end of every recorded journal: whether its process was killed."""
    each = [(number, name, killed) for number in range(NEWEST + 1) for name in GOLDEN for killed in (False, True)]
    return [
        (number, name, killed)
        for number, name, killed in each
        if journal_of(name, RECORDED, number, killed=killed).exists()
    ]


def file_of(name: str, folder: Path = RECORDED, number: int = 1) -> Path:
    return folder / f"portfolio-{number}-{name}.equipoise"


def facts_of(name: str, folder: Path = RECORDED, number: int = 1) -> Any:
    """The digest of the state, and the open decisions."""
    return json.loads((folder / f"golden-{number}.json").read_text())[name]


def copy_of_killed(source: Path, target: Path) -> None:
    """Write the journal that a process leaves that is killed now, in one file: without a last snapshot."""
    for end in ("", "-wal"):
        shutil.copy(f"{source}{end}", f"{target}{end}")
    with closing(sqlite3.connect(target)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


@contextmanager
def fixed() -> Iterator[None]:
    """Let ids and times be the same in every recording, and report early what is held up."""
    numbers = count(1)
    with ExitStack() as stack:
        for where in ("equipoise.portfolio.tickets.token_hex", "equipoise.journal.schema.secrets.token_hex"):
            stack.enter_context(patch(where, lambda n_bytes: f"{next(numbers):0{2 * n_bytes}x}"))
        stack.enter_context(patch.object(Clock, "now", lambda self, at_least=-inf: max(START, at_least)))
        stack.enter_context(patch("equipoise.journal.sqlite.clock", lambda: START))
        stack.enter_context(patch("equipoise.portfolio.state.REPORTED_EVERY", 32))
        stack.enter_context(patch("equipoise.portfolio.statements.MIN_REPORTED", 10))
        stack.enter_context(patch("equipoise.portfolio.events.BLOCKED_EVERY", 0.0))
        yield


def record(folder: Path = RECORDED) -> None:
    """Write all journals, files and their facts."""
    facts = {}
    for name, (make, play, _) in GOLDEN.items():
        path = journal_of(name, folder, NEWEST)
        path.unlink(missing_ok=True)
        with fixed():
            with equipoise.open(path, make) as live:
                play(live)
                copy_of_killed(path, journal_of(name, folder, NEWEST, killed=True))
            journal = SQLiteJournal(path, create=False)
            portfolio = rebuild(journal, make()).portfolio
            journal.close()
            portfolio.save(file_of(name, folder, NEWEST))
        for end in ("-wal", "-shm", ".lock"):
            Path(f"{path}{end}").unlink(missing_ok=True)
        facts[name] = {"digest": digest(portfolio), "pending": list(portfolio.pending)}
    (folder / f"golden-{NEWEST}.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    record()
