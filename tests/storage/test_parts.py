"""Saved portfolios: bit-exact resume, what is refused on the way out and in, full disks, and killed processes."""

import errno
import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from equipoise import Ball, Portfolio, Proposal
from equipoise.bounds import Custom, Observed, Power
from equipoise.errors import EquipoiseError, InvalidArgument, NoLearnerAvailable, StoreConflict, UnreadableFile
from equipoise.learners import OFUL, UCB, Constant, EpsilonGreedy, LinearThompson
from equipoise.selectors import BalancedElimination
from equipoise.storage.parts import pack
from tests.recorders import FiveLines, Recorder, nth, number, saved
from tests.saving_process import make_portfolio, play_round


class Setting(NamedTuple):
    """A portfolio and the contexts it is shown."""

    make: Callable[[], Portfolio]
    context: Callable[[np.random.Generator], Any]


def rows(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(-0.5, 0.5, (int(rng.integers(2, 5)), 4))


SETTINGS = {
    "random learners": Setting(
        lambda: Portfolio(
            [EpsilonGreedy(4, epsilon=0.5), LinearThompson(3), EpsilonGreedy(4, epsilon=0.5)],
            BalancedElimination([Power(0.5), Power(0.5), Power(2.0)]),
            seed=7,
        ),
        rows,
    ),
    "learning in order": Setting(
        lambda: Portfolio([OFUL(2), OFUL(4), UCB(4)], BalancedElimination([Observed(), Observed(), Power(1.0)])), rows
    ),
    "shared data in order": Setting(
        lambda: Portfolio([OFUL(2), OFUL(4)], BalancedElimination([Observed()] * 2), share_data=True), rows
    ),
    "shared data at once": Setting(
        lambda: Portfolio(
            [OFUL(2), UCB(4), LinearThompson(4)],
            BalancedElimination([Observed(), Power(0.1), Power(0.1)]),
            share_data=True,
            delays="independent",
        ),
        rows,
    ),
    "deadline": Setting(
        lambda: Portfolio(
            [OFUL(2), EpsilonGreedy(4, epsilon=0.9)],
            BalancedElimination([Observed(), Power(1.0)], reward_range=(-1.0, 1.0)),
            deadline=3,
            default_reward=-0.5,
        ),
        rows,
    ),
    "balls": Setting(
        lambda: Portfolio([OFUL(2), OFUL(3)], BalancedElimination([Power(1.0)] * 2)), lambda rng: Ball(3, 0.5)
    ),
    "no features": Setting(
        lambda: Portfolio([Constant(0), UCB(3)], BalancedElimination([Power(1.0)] * 2)), lambda rng: np.empty((3, 0))
    ),
    "eliminations": Setting(
        lambda: Portfolio(
            [Constant(0), Constant(1), EpsilonGreedy(2, epsilon=0.5)],
            BalancedElimination([Power(0.01)] * 3, radius_scale=0.1),
        ),
        lambda rng: None,
    ),
}


def apply(portfolio: Portfolio, setting: Setting, event: int) -> str:
    """Decide, or book the reward of some open decision; the text says what happened."""
    rng = np.random.default_rng(event)
    if event % 2 or not portfolio.pending:
        return str(portfolio.decide(setting.context(rng))[1:])
    id_ = portfolio.pending[int(rng.integers(len(portfolio.pending)))]
    portfolio.learn(id_, float(rng.random() < 0.5))
    return f"reward of {number(id_)}"


EVENTS = st.lists(st.integers(0, 10**6), min_size=1, max_size=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", SETTINGS)
@settings(max_examples=12)
@given(before=EVENTS, after=EVENTS)
def test_a_loaded_portfolio_goes_on_bit_by_bit(
    tmp_path_factory: pytest.TempPathFactory, name: str, before: list[int], after: list[int]
) -> None:
    setting, path = SETTINGS[name], tmp_path_factory.getbasetemp() / "portfolio"
    portfolio = setting.make()
    for event in before:
        apply(portfolio, setting, event)
    portfolio.save(path)
    loaded = Portfolio.load(path)
    assert pack({"version": 1, "portfolio": loaded.state()}) == path.read_bytes()
    assert loaded.pending == portfolio.pending
    assert str(loaded.standing()) == str(portfolio.standing())
    assert loaded.certificate() == portfolio.certificate()
    assert loaded.selector.eliminations == portfolio.selector.eliminations
    for event in after:
        assert apply(loaded, setting, event) == apply(portfolio, setting, event)
    assert saved(loaded) == saved(portfolio)


def test_the_runs_above_have_what_is_hard_to_save() -> None:
    """Eliminations, defaulted decisions, and learners that wait while a later reward is known."""
    eliminated, defaulted, waiting = set(), set(), set()
    for name, setting in SETTINGS.items():
        portfolio, n_rewards = setting.make(), 0
        for event in np.random.default_rng(1).integers(0, 10**6, 300).tolist():
            n_rewards += apply(portfolio, setting, event).startswith("reward")
            if sum(row.pending for row in portfolio.standing()) > len(portfolio.pending):
                waiting.add(name)
        if portfolio.selector.eliminations:
            eliminated.add(name)
        if sum(row.plays for row in portfolio.standing()) > n_rewards + len(portfolio.pending):
            defaulted.add(name)
    assert (eliminated, defaulted) == ({"eliminations"}, {"deadline"})
    assert {"learning in order", "shared data in order"} <= waiting


class Named(Recorder):
    """A savable learner of a user's own, with settings."""

    def __init__(self, number: int = 0, weights: Any = (1.0, 2.0)) -> None:
        super().__init__(number)
        self.weights = np.array(weights)

    def config(self) -> dict[str, Any]:
        return {"number": self.number, "weights": self.weights}


def save_named(path: Path, bounds: Any = None) -> Portfolio:
    portfolio = Portfolio([Named(0), OFUL(2)], BalancedElimination(bounds or [Power(1.0)] * 2))
    for _ in range(3):
        portfolio.decide(np.full((2, 2), 0.5))
    portfolio.learn(nth(portfolio, 3), 0.5)
    portfolio.save(path)
    return portfolio


def test_learners_of_the_users_own_are_passed_in(tmp_path: Path) -> None:
    portfolio = save_named(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p", learners=[Named(0), OFUL(2)])
    assert loaded.learners[0].rewards == [0.5]
    assert saved(loaded) == saved(portfolio)


class Other(Named):
    pass


def named_oful() -> type[Any]:
    """A class of the user's own that has the name of one of the package's."""
    return type("OFUL", (Named,), {})


CONFLICTS: list[tuple[Any, str]] = [
    (None, "'Recorder(0)' is a Named, which is not registered: pass learners=..."),
    (lambda: [Named(0)], "learners has 1 entries, but the saved portfolio has 2"),
    (
        lambda: [Other(0), OFUL(2)],
        "'Recorder(0)' is a Other with {'number': 0, 'weights': array([1., 2.])}, but must be a",
    ),
    (
        lambda: [Named(1), OFUL(2)],
        "'Recorder(1)' is a Named with {'number': 1, 'weights': array([1., 2.])}, but must be a",
    ),
    (
        lambda: [Named(0, (1.0, 3.0)), OFUL(2)],
        "'Recorder(0)' is a Named with {'number': 0, 'weights': array([1., 3.])}",
    ),
    (lambda: [Named(0), OFUL(3)], "'OFUL(d=3)' is a OFUL with {'dim': 3, "),
    (lambda: [Named(0), named_oful()(0)], "'Recorder(0)' is a OFUL with {'number': 0, "),
    (lambda: [OFUL(2), Named(0)], "'OFUL(d=2)' is a OFUL with {'dim': 2, "),
]


@pytest.mark.parametrize(("learners", "message"), CONFLICTS, ids=[message for _, message in CONFLICTS])
def test_learners_that_are_not_what_was_saved_are_refused(tmp_path: Path, learners: Any, message: str) -> None:
    save_named(tmp_path / "p")
    with pytest.raises(StoreConflict) as caught:
        Portfolio.load(tmp_path / "p", learners=learners and learners())
    assert str(caught.value).startswith(message)


def test_a_class_of_the_users_own_is_not_taken_for_one_of_the_package(tmp_path: Path) -> None:
    learner = named_oful()(0)
    Portfolio([learner], BalancedElimination([Power(1.0)])).save(tmp_path / "p")
    with pytest.raises(StoreConflict, match=r"^'Recorder\(0\)' is a OFUL, which is not registered: pass learners"):
        Portfolio.load(tmp_path / "p")
    assert Portfolio.load(tmp_path / "p", learners=[named_oful()(0)]).learners[0].number == 0


def test_a_selector_with_a_function_of_the_users_own_is_passed_in(tmp_path: Path) -> None:
    def bounds(name: str = "root") -> list[Any]:
        return [Custom(lambda n: n**0.5, name), Power(1.0)]

    portfolio = save_named(tmp_path / "p", bounds())
    learners: list[Any] = [Named(0), OFUL(2)]
    with pytest.raises(
        StoreConflict, match=r"^'Balanced elimination' cannot be created from the file \(custom bound 'root'"
    ):
        Portfolio.load(tmp_path / "p", learners)
    with pytest.raises(
        StoreConflict, match=r"^'Balanced elimination' is a BalancedElimination with .*'other'.*, but must be a"
    ):
        Portfolio.load(tmp_path / "p", learners, BalancedElimination(bounds("other")))
    loaded = Portfolio.load(tmp_path / "p", [Named(0), OFUL(2)], BalancedElimination(bounds()))
    assert saved(loaded) == saved(portfolio)


def test_a_learner_without_state_works_but_cannot_be_saved(tmp_path: Path) -> None:
    portfolio = Portfolio([FiveLines()], BalancedElimination([Power(1.0)]))
    portfolio.learn(portfolio.decide(None), 0.5)
    message = r"^'FiveLines' has no state\(\) and restore\(\), so it cannot be saved$"
    with pytest.raises(InvalidArgument, match=message):
        portfolio.save(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


class Point(NamedTuple):
    x: float


@pytest.mark.parametrize(
    ("context", "action", "message"),
    [
        ({1, 2}, 0, "context is a set, but must be a number"),
        (Point(1.0), 0, "context is a Point, but must be a number"),
        (np.array([None]), 0, "context is a ndarray, but must be a number"),
        (np.array(["2026-01-01"], "datetime64[D]"), 0, "context is a ndarray, but must be a number"),
        ({"when": datetime(2026, 1, 1)}, 0, "context['when'] is a datetime, but must be a number"),
        ([1, {"a": object()}], 0, "context[1]['a'] is a object, but must be a number"),
        ({1.5: "a"}, 0, "context is a dict, but must be a number"),
        (pl.DataFrame({"a": [1]}), 0, "context is a DataFrame, but must be a number"),
        (csr_array(np.eye(2)), 0, "context is a csr_array, but must be a number"),
        (None, object(), "action is a object, but must be a number"),
        (None, [datetime(2026, 1, 1)], "action[0] is a datetime, but must be a number"),
    ],
)
def test_what_cannot_be_saved_is_refused_when_it_is_decided_and_changes_nothing(
    context: Any, action: Any, message: str
) -> None:
    """So that one request can never block every save."""

    class Stubborn(Recorder):
        def decide(self, context):
            return Proposal(action if self.updates else 0)

    portfolio = Portfolio([Stubborn()], BalancedElimination([Power(1.0)]))
    portfolio.learn(portfolio.decide(None), 0.5)
    before = saved(portfolio)
    with pytest.raises((InvalidArgument, NoLearnerAvailable)) as caught:
        portfolio.decide(context)
    assert message in str(caught.value)
    assert saved(portfolio) == before


@pytest.mark.parametrize(
    "context",
    [b"bytes", np.array(["a", "bc"]), {1: "a", "b": 2}, np.float32(0.5), {"nested": [(1, 2), None, True]}, "text"],
    ids=str,
)
def test_what_can_be_saved_is_the_same_after_loading(context: Any, tmp_path: Path) -> None:
    portfolio = Portfolio([Recorder()], BalancedElimination([Power(1.0)]))
    decision = portfolio.decide(context)
    portfolio.save(tmp_path / "p")
    loaded = Portfolio.load(tmp_path / "p", learners=[Recorder()])
    loaded.learn(decision, 0.5, outcome=[b"1", {2: "x"}])
    ((seen, outcome, _),) = loaded.learners[0].updates
    assert str(seen) == str(context) and outcome == [b"1", {2: "x"}]


def test_an_outcome_that_cannot_be_saved_is_refused_and_changes_nothing() -> None:
    portfolio = Portfolio([Recorder()], BalancedElimination([Power(1.0)]))
    decision = portfolio.decide(None)
    before = saved(portfolio)
    with pytest.raises(InvalidArgument, match=r"^outcome\['at'\] is a datetime, but must be a number"):
        portfolio.learn(decision, 0.5, outcome={"at": datetime(2026, 1, 1)})
    assert saved(portfolio) == before


FILE = pack({"version": 1, "portfolio": SETTINGS["learning in order"].make().state()})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not an equipoise file"),
        (b"{}", "is not an equipoise file"),
        (FILE.replace(b" 1\n", b" 99\n", 1), "has version 99, but this release reads version 1"),
        (FILE[: len(FILE) // 2], "is truncated or was modified: its digest does not match its content"),
        (pack({"portfolios": 1}), "contains no portfolio"),
        (pack([1, 2]), "contains no portfolio"),
    ],
)
def test_what_is_no_saved_portfolio_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "p").write_bytes(data)
    with pytest.raises(UnreadableFile) as caught:
        Portfolio.load(tmp_path / "p")
    assert str(caught.value) == f"{tmp_path / 'p'} {message}"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match=r"none' could not be read: No such file or directory$"):
        Portfolio.load(tmp_path / "none")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """A byte changed: in every place of the first lines, and in a thousand others."""
    places = {*range(200), *np.random.default_rng(0).integers(0, len(FILE), 1000).tolist()}
    for place in sorted(places):
        damaged = bytearray(FILE)
        damaged[place] ^= 1 << place % 8
        (tmp_path / "p").write_bytes(damaged)
        with pytest.raises(UnreadableFile):
            Portfolio.load(tmp_path / "p")


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_and_the_portfolio_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    portfolio = make_portfolio()
    play_round(portfolio)
    portfolio.save(tmp_path / "p")
    before = (tmp_path / "p").read_bytes()
    play_round(portfolio)
    state = saved(portfolio)

    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        if call == "open":
            patch.setattr(Path, "open", fail)
        elif call == "write":
            whole = Path.open

            class Full:
                def __init__(self, file: Any) -> None:
                    self.file = file

                def __enter__(self) -> Any:
                    return self

                def __exit__(self, *_: Any) -> None:
                    self.file.close()

                def write(self, data: bytes) -> None:
                    self.file.write(data[: len(data) // 2])
                    fail()

            patch.setattr(Path, "open", lambda *arguments: Full(whole(*arguments)))
        else:
            patch.setattr(os, call, fail)
        with pytest.raises(
            EquipoiseError, match="could not be written: No space left on device; its old content remains"
        ):
            portfolio.save(tmp_path / "p")
    assert (tmp_path / "p").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["p"]
    assert saved(portfolio) == state
    assert Portfolio.load(tmp_path / "p").certificate().rounds == 1
