"""Settings of a portfolio: each is one field, and everything else derives from the fields."""

import inspect
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.config import parse
from equipoise.errors import EquipoiseError, InvalidArgument, StoreConflict
from equipoise.journal import open as open_journal
from equipoise.learners import OFUL, UCB
from equipoise.portfolio import PortfolioSettings, settings
from equipoise.selectors import UCB1, BalancedElimination
from equipoise.settings.checks import count

# Another value of each setting, with the settings that it needs.
OTHERS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 7},
    "share_data": {"share_data": True},
    "deadline": {"deadline": "24h", "default_reward": 0.0},
    "default_reward": {"deadline": 5, "default_reward": 0.5},
    "aggregate": {"aggregate": "sum", "deadline": 5, "default_reward": 0.0},
    "delays": {"delays": "independent"},
    "window": {"window": 9, "delays": "exogenous"},
    "fallback": {"fallback": 1},
    "explore": {"explore": 0.25},
    "availability": {"availability": "independent"},
    "reward_range": {"reward_range": (0.0, 2.0)},
    "clip": {"clip": True},
    "on_drift": {"on_drift": "ignore"},
    "action_names": {"action_names": ("red", "blue")},
    "action_features": {"action_features": ("price",)},
    "context_features": {"context_features": ("age", "visits")},
}
WRONG: dict[str, Any] = {
    "seed": -1,
    "share_data": "yes",
    "deadline": "soon",
    "default_reward": "none",
    "aggregate": "mean",
    "delays": "none",
    "window": 0,
    "explore": 1.5,
    "availability": "always",
    "reward_range": [1, 0],
    "clip": "yes",
    "on_drift": "panic",
    "action_names": "red",
    "action_features": ["price", "price"],
    "context_features": [1],
}


def content(given: dict[str, Any]) -> dict[str, Any]:
    """A file with these settings."""
    file: dict[str, Any] = {"version": 1, "name": "shop", "selector": {"use": "UCB1"}}
    for name, value in given.items():
        *table, key = settings.file_keys()[name]
        plain = list(value) if isinstance(value, tuple) else value
        (file.setdefault(table[0], {}) if table else file)[key] = plain
    return {**file, "learner": [{"use": "OFUL", "dim": 2}, {"use": "OFUL", "dim": 3, "name": "wide"}]}


def make(given: dict[str, Any]) -> Portfolio:
    return parse(content(given)).portfolio()


def test_every_setting_has_another_value_and_a_wrong_one() -> None:
    names = {each.name for each in fields(PortfolioSettings)}
    assert set(OTHERS) == names
    assert set(WRONG) == names - {"fallback"}  # any value can be an action
    for name, given in OTHERS.items():
        assert getattr(PortfolioSettings.given(given), name) != getattr(PortfolioSettings(), name)


def test_the_constructor_has_the_fields_with_their_defaults() -> None:
    """Its typed signature is the one second place where settings stand."""
    _, learners, selector, *rest = inspect.signature(Portfolio.__init__).parameters.values()
    assert (learners.name, selector.name) == ("learners", "selector")
    assert [(each.name, each.default) for each in rest] == [
        (each.name, each.default) for each in fields(PortfolioSettings)
    ]
    assert all(each.kind is each.KEYWORD_ONLY for each in rest)
    assert all(each.default is not MISSING for each in fields(PortfolioSettings))


def test_the_docstring_describes_every_setting_once() -> None:
    assert Portfolio.__doc__ is not None
    lines = [line.strip() for line in Portfolio.__doc__.splitlines()]
    for each in fields(PortfolioSettings):
        assert lines.count(each.name) == 1
        assert each.metadata["doc"]
        assert " ".join(each.metadata["doc"].split()) in " ".join(Portfolio.__doc__.split())


@pytest.mark.parametrize("name", OTHERS)
def test_a_setting_reaches_constructor_file_attribute_and_save(name: str, tmp_path: Path) -> None:
    wanted = getattr(PortfolioSettings.given(OTHERS[name]), name)
    from_file = make(OTHERS[name])
    direct = Portfolio(from_file.learners, UCB1(2), **OTHERS[name]) if name not in ("reward_range",) else from_file
    for portfolio in (direct, from_file):
        assert getattr(portfolio.settings, name) == getattr(portfolio, name) == wanted
        portfolio.save(tmp_path / "portfolio")
        assert Portfolio.load(tmp_path / "portfolio").settings == portfolio.settings


@pytest.mark.parametrize("name", OTHERS)
def test_on_restart_a_setting_is_applied_durably_or_refused_by_name(name: str, tmp_path: Path) -> None:
    path, changeable = tmp_path / "shop.db", PortfolioSettings.__dataclass_fields__[name].metadata["changeable"]
    with open_journal(path, lambda: make({})) as live:
        live.decide([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], id="first")
    wanted = getattr(make(OTHERS[name]).settings, name)
    if not changeable:
        with pytest.raises(StoreConflict, match=rf"(?<!\w){name} is "):
            open_journal(path, lambda: make(OTHERS[name]))
        with open_journal(path, lambda: make({})) as live:  # the old value is kept
            assert live.transact(lambda portfolio, at: portfolio.settings) == make({}).settings
        return
    with open_journal(path, lambda: make(OTHERS[name])) as live:
        assert live.transact(lambda portfolio, at: getattr(portfolio, name)) == wanted
        assert [event.kind for event in live.journal.read(1)] == ["created", "decided", "config"]
    with open_journal(path) as live:  # it is in the journal, not only in the file
        assert live.transact(lambda portfolio, at: getattr(portfolio, name)) == wanted
        assert live.pending == ("first",)
    with open_journal(path, lambda: make(OTHERS[name])) as live:
        assert [event.kind for event in live.journal.read(1)][3:] == []  # nothing is left to change
    with open_journal(path, lambda: make({})) as live:  # and back
        assert live.transact(lambda portfolio, at: portfolio.settings) == make({}).settings


@pytest.mark.parametrize("name", OTHERS)
def test_a_running_portfolio_changes_a_setting_or_refuses_it_by_name(name: str) -> None:
    portfolio, before = make({}), make({}).settings
    if PortfolioSettings.__dataclass_fields__[name].metadata["changeable"]:
        portfolio.reconfigure(**OTHERS[name])
        assert getattr(portfolio, name) == getattr(PortfolioSettings.given(OTHERS[name]), name)
    else:
        with pytest.raises(InvalidArgument, match=f"^{name} is .*, but must stay .* for a portfolio that has begun"):
            portfolio.reconfigure(**{name: OTHERS[name][name]})
        assert portfolio.settings == before


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_in_a_file_gets_one_line_that_names_it(name: str) -> None:
    with pytest.raises(EquipoiseError) as caught:
        make({**OTHERS[name], name: WRONG[name]})
    message = str(caught.value)
    assert f"{name} is {WRONG[name]!r}, but " in message or f"{name}[" in message or f"{name} has " in message
    assert "\n" not in message


def test_names_of_actions_may_grow_at_the_end_and_keep_their_order(tmp_path: Path) -> None:
    """The reported fault: a restart with the names in another order swapped the actions that were learned."""
    path, names, more = tmp_path / "shop.db", ["red", "blue"], ["red", "blue", "green"]
    portfolio = make({"action_names": names})
    for wrong in (["blue", "red"], ["red"], ["green", "red", "blue"], None):
        with pytest.raises(InvalidArgument, match=r"action_names is .*, but must begin with \('red', 'blue'\)"):
            portfolio.reconfigure(action_names=wrong)
    portfolio.reconfigure(action_names=more)
    assert portfolio.action_names == tuple(more)
    with open_journal(path, lambda: make({"action_names": names})):
        pass
    with open_journal(path, lambda: make({"action_names": more})) as live:
        assert [event.kind for event in live.journal.read(1)] == ["created", "config"]
    for wrong in (names, ["blue", "red", "green"], ["green", *names]):
        with pytest.raises(StoreConflict, match=r"action_names is .*, but must begin with \('red', 'blue', 'green'\)"):
            open_journal(path, partial(make, {"action_names": wrong}))
    open_journal(path, lambda: make({"action_names": more})).close()


def test_a_change_at_run_time_stays_until_its_declaration_changes(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with open_journal(path, lambda: make({"explore": 0.1})) as live:
        live.reconfigure(explore=0.2)
    with open_journal(path, lambda: make({"explore": 0.1})) as live:
        assert live.transact(lambda portfolio, at: portfolio.explore) == 0.2
    with open_journal(path, lambda: make({"explore": 0.3})) as live:
        assert live.transact(lambda portfolio, at: portfolio.explore) == 0.3
    with open_journal(path, lambda: make({"explore": 0.1})) as live:  # a file that is changed back is not ignored
        assert live.transact(lambda portfolio, at: portfolio.explore) == 0.1


@pytest.mark.parametrize("selector", [{}, {"use": "CounterfactualBalancing"}], ids=["default", "stated"])
def test_shared_data_that_the_selector_follows_from_are_refused_by_name(selector: Any, tmp_path: Path) -> None:
    def built(share_data: bool | None) -> Portfolio:
        file = {**content({} if share_data is None else {"share_data": share_data}), "selector": selector}
        return parse(file).portfolio()

    with open_journal(tmp_path / "shop.db", lambda: built(None)) as live:
        before = live.state()
    with pytest.raises(StoreConflict, match="share_data is False, but must stay None"):
        open_journal(tmp_path / "shop.db", lambda: built(False))
    with open_journal(tmp_path / "shop.db", lambda: built(None)) as live:
        assert live.state()["settings"] == before["settings"]


def test_a_journal_of_a_selector_with_bounds_opens_again(tmp_path: Path) -> None:
    def bounded(coefficient: float = 1.0) -> Portfolio:
        return Portfolio([UCB(3), UCB(3, scale=0.1)], BalancedElimination([Power(coefficient), Power(2.0)]))

    for _ in range(2):
        with open_journal(tmp_path / "arms.db", bounded) as live:
            live.learn(live.decide(None), 0.5)
    with pytest.raises(StoreConflict, match="different: selector"):
        open_journal(tmp_path / "arms.db", lambda: bounded(3.0))
    open_journal(tmp_path / "arms.db", bounded).close()  # a refused file does not keep the journal


def test_learners_added_at_run_time_need_not_be_declared(tmp_path: Path) -> None:
    with open_journal(tmp_path / "shop.db", lambda: make({})) as live:
        live.add_learner(OFUL(1, name="late"))
    with open_journal(tmp_path / "shop.db", lambda: make({})) as live:
        assert live.learner_names == ("OFUL(d=2)", "wide", "late")


def test_shared_data_outlive_the_learners_that_share(tmp_path: Path) -> None:
    """The reported fault: the file and the journal could not be read once no active learner took shared data."""
    portfolio = Portfolio([OFUL(2), UCB(2)], UCB1(2), share_data=True)
    portfolio.learn(portfolio.decide(np.eye(2)), 0.5)
    portfolio.remove_learner("OFUL(d=2)")
    portfolio.reconfigure(explore=0.1)
    portfolio.save(tmp_path / "portfolio")
    assert Portfolio.load(tmp_path / "portfolio").share_data
    with pytest.raises(InvalidArgument, match="no learner accepts 'off_policy' data"):
        portfolio.reconfigure(share_data=True)


def test_a_deadline_in_seconds_begins_when_it_is_set() -> None:
    portfolio = Portfolio([UCB(3)])
    for _ in range(5):
        portfolio.decide(None)
    portfolio.reconfigure(deadline="1h", default_reward=0.0)
    portfolio.decide(None)
    assert portfolio.health()["expired"] == 0
    assert portfolio.expire(at=portfolio.time + 3601.0) == 6


def test_a_fallback_that_cannot_be_an_action_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgument, match="fallback is -1, but an index must be at least 0"):
        make({"fallback": -1})


def test_a_function_as_fallback_is_given_again_and_is_not_a_change(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"

    def with_function() -> Portfolio:
        return Portfolio([UCB(3)], fallback=lambda context: 2)

    with open_journal(path, with_function) as live:
        live.suspend("UCB")
        assert live.decide(None).action == 2
    with open_journal(path, with_function) as live:
        assert live.decide(None).action == 2
        assert [event.kind for event in live.journal.read(1)].count("config") == 0
    with open_journal(path, lambda: Portfolio([UCB(3)], fallback=1)) as live:
        assert live.decide(None).action == 1
    live = open_journal(path, with_function)  # in place of an action it is a change
    assert live.decide(None).action == 2
    assert [event.kind for event in live.journal.read(1)].count("config") == 2
    live.close(snapshot=False)
    with open_journal(path, with_function) as live:  # also after a crash
        assert live.decide(None).action == 2


@dataclass(frozen=True, kw_only=True)
class WithDummy(PortfolioSettings):
    """One more setting than there is."""

    dummy: int = settings.portfolio_setting(
        3, partial(count, minimum=2), "A number.", changeable=True, key="reward.dummy"
    )


def test_a_new_field_is_found_in_file_reload_restart_and_save(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "PortfolioSettings", WithDummy)
    given = {"dummy": 5}
    portfolio = make(given)
    assert portfolio.dummy == 5
    portfolio.save(tmp_path / "portfolio")
    assert Portfolio.load(tmp_path / "portfolio").dummy == 5
    with pytest.raises(InvalidArgument, match="dummy is 1, but must be a whole number at least 2"):
        make({"dummy": 1})
    portfolio.reconfigure(dummy=6)
    assert portfolio.dummy == 6
    with open_journal(tmp_path / "shop.db", lambda: make({})) as live:
        assert live.transact(lambda portfolio, at: portfolio.dummy) == 3
    with open_journal(tmp_path / "shop.db", lambda: make(given)) as live:
        assert live.transact(lambda portfolio, at: portfolio.dummy) == 5
    assert "dummy\n" in settings.parameter_docs()
