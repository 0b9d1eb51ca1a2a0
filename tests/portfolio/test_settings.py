"""Settings of a portfolio: each is one field, and everything else derives from the fields."""

import asyncio
import inspect
from dataclasses import MISSING, dataclass, fields
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

from equipoise import Portfolio
from equipoise.bounds import Power
from equipoise.config import parse
from equipoise.errors import EquipoiseError, InvalidArgument, NoLearnerAvailable, StoreConflict
from equipoise.features import Flag, Number, Schema
from equipoise.journal import open as open_journal
from equipoise.learners import OFUL, UCB
from equipoise.portfolio import PortfolioSettings, settings
from equipoise.selectors import UCB1, BalancedElimination, CounterfactualBalancing
from equipoise.settings import equal_data
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
    "sticky": {"sticky": "7d"},
    "fallback": {"fallback": 1},
    "explore": {"explore": 0.25},
    "reward_range": {"reward_range": (0.0, 2.0)},
    "clip": {"clip": True},
    "on_drift": {"on_drift": "ignore"},
    "action_names": {"action_names": ("red", "blue")},
    "schema": {
        "schema": Schema({"age": Number(0, 99), "user": {"vip": Flag()}}, {"price": Number()}, unknown="ignore")
    },
}
NO_NUMBERS: list[Any] = [True, False, "0.5", [0.5], nan, inf]
NO_WORDS: list[Any] = [True, 1, 0.5, ["any"], nan]
WRONG: dict[str, list[Any]] = {
    "seed": [-1, 0.0, *NO_NUMBERS],
    "share_data": ["yes", 1, 0.0, [True], nan],
    "deadline": ["soon", 0, -3, 2.0, "-1s", "5", *NO_NUMBERS],
    "default_reward": ["none", *NO_NUMBERS],
    "aggregate": ["mean", "", *NO_WORDS],
    "delays": ["none", *NO_WORDS],
    "window": [0, 3.0, *NO_NUMBERS],
    "sticky": ["soon", 0, 5, -3, "-1s", "5", "0s", *NO_NUMBERS],
    "explore": [1.5, -0.1, *NO_NUMBERS],
    "reward_range": [[1, 0], [0, 1, 2], [0], 3, True, "01", [False, True], [0, nan], [0, inf], [0, "1"], [[0], 1]],
    "clip": ["yes", 1, 0.0, [True], nan],
    "on_drift": ["panic", *NO_WORDS],
    "action_names": ["red", [], ["red", "red"], [1], [True], 3, True, nan],
    "schema": [3, "age", True, 0.5],
}


def content(given: dict[str, Any]) -> dict[str, Any]:
    """A file with these settings."""
    file: dict[str, Any] = {"version": 1, "name": "shop", "selector": {"use": "UCB1"}}
    for name, value in given.items():
        *table, key = settings.file_keys()[name]
        if name == "schema":
            file |= as_tables(value)
            continue
        plain = list(value) if isinstance(value, tuple) else value
        (file.setdefault(table[0], {}) if table else file)[key] = plain
    return {**file, "learner": [{"use": "OFUL", "dim": 2}, {"use": "OFUL", "dim": 3, "name": "wide"}]}


def as_tables(schema: Any) -> dict[str, Any]:
    """The tables of a file for a schema, or for what is wrong in its place."""
    if not isinstance(schema, Schema | dict):
        return {"schema": schema}
    given = schema.to_plain() if isinstance(schema, Schema) else schema
    rules = {key: each for key, each in given.items() if key not in ("context", "actions") and each is not None}
    sides = {"context": given.get("context"), "actions": {"features": given.get("actions")}}
    return {**{side: each for side, each in sides.items() if given.get(side)}, "schema": rules}


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
        assert getattr(portfolio.settings, name) == getattr(portfolio.declared, name) == wanted
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
        assert live.transact(lambda portfolio, at: getattr(portfolio.settings, name)) == wanted
        kinds = [event.kind for event in live.journal.read(1) if not event.derived]
        assert kinds == ["created", "decided", "config"]
    with open_journal(path) as live:  # it is in the journal, not only in the file
        assert live.transact(lambda portfolio, at: getattr(portfolio.settings, name)) == wanted
        assert live.pending == ("first",)
    with open_journal(path, lambda: make(OTHERS[name])) as live:
        kinds = [event.kind for event in live.journal.read(1) if not event.derived]
        assert kinds[3:] == []  # nothing is left to change
    with open_journal(path, lambda: make({})) as live:  # and back
        assert live.transact(lambda portfolio, at: portfolio.settings) == make({}).settings


def reloaded(path: Path | None, given: dict[str, Any]) -> tuple[PortfolioSettings, str]:
    """Serve a portfolio from a file, change the file, and read it again: the settings, and why it was refused."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    from equipoise.serve.reloading import apply_file
    from equipoise.serve.service import Service, Settings, open_in, open_in_memory
    from equipoise.serve.tokens import Tokens

    async def run() -> tuple[PortfolioSettings, str]:
        service = Service(Tokens(), Settings(), open_in_memory if path is None else open_in(path))
        await apply_file(service, parse(content({})))
        refusal = ""
        try:
            await apply_file(service, parse(content(given)))
        except InvalidArgument as error:
            refusal = str(error)
        engine = service.portfolios["shop"].engine
        found = await engine.run(lambda hosted: hosted.portfolio.settings)
        engine.close()
        return found, refusal

    return asyncio.run(run())


def restarted(path: Path, given: dict[str, Any]) -> tuple[PortfolioSettings, str]:
    """Open a journal, and open it again with another file: the settings, and why it was refused."""
    with open_journal(path, lambda: make({})):
        pass
    refusal = ""
    try:
        open_journal(path, lambda: make(given)).close()
    except StoreConflict as error:
        refusal = str(error).removeprefix(f"{str(path)!r}: ")
    with open_journal(path) as live:
        return live.transact(lambda portfolio, at: portfolio.settings), refusal


def reconfigured(given: dict[str, Any]) -> tuple[PortfolioSettings, str]:
    portfolio, refusal = make({}), ""
    try:
        portfolio.reconfigure(**given)
    except InvalidArgument as error:
        refusal = str(error)
    return portfolio.settings, refusal


@pytest.mark.parametrize("name", OTHERS)
def test_reconfigure_reload_and_restart_agree(name: str, tmp_path: Path) -> None:
    """A setting is changed, or refused by name with one text and the old value kept."""
    found = {
        "reconfigure": reconfigured(OTHERS[name]),
        "reload": reloaded(None, OTHERS[name]),
        "reload of a durable one": reloaded(tmp_path / "data", OTHERS[name]),
        "restart": restarted(tmp_path / "shop.db", OTHERS[name]),
    }
    changed, refusal = found["reconfigure"]
    assert set(found.values()) == {(changed, refusal)}
    if PortfolioSettings.__dataclass_fields__[name].metadata["changeable"]:
        assert refusal == ""
        assert getattr(changed, name) == getattr(PortfolioSettings.given(OTHERS[name]), name)
    else:
        wanted = getattr(PortfolioSettings.given(OTHERS[name]), name)
        assert f"{name} is {wanted!r}" in refusal
        assert "but must stay " in refusal and "for a portfolio that has begun" in refusal
        assert changed == make({}).settings


@pytest.mark.parametrize("name", OTHERS)
def test_a_running_portfolio_changes_a_setting_or_refuses_it_by_name(name: str) -> None:
    portfolio, before = make({}), make({}).settings
    if PortfolioSettings.__dataclass_fields__[name].metadata["changeable"]:
        portfolio.reconfigure(**OTHERS[name])
        assert getattr(portfolio.settings, name) == getattr(PortfolioSettings.given(OTHERS[name]), name)
    else:
        with pytest.raises(InvalidArgument, match=f"^{name} is .*, but must stay .* for a portfolio that has begun"):
            portfolio.reconfigure(**{name: OTHERS[name][name]})
        portfolio.reconfigure(**{name: getattr(before, name)})  # the value that it has
        assert portfolio.settings == before


@pytest.mark.parametrize(("name", "wrong"), [(name, wrong) for name, each in WRONG.items() for wrong in each])
def test_a_wrong_setting_in_a_file_gets_one_line_that_names_it(name: str, wrong: Any) -> None:
    with pytest.raises(EquipoiseError) as caught:
        make({**OTHERS[name], name: wrong})
    message = str(caught.value)
    given = "empty" if wrong == [] else repr(wrong)
    assert f"{name} is {given}, but " in message or f"{name}[" in message or f"{name} has " in message
    assert "\n" not in message
    portfolio = make(OTHERS[name])
    with pytest.raises(EquipoiseError, match=name):
        portfolio.reconfigure(**{name: wrong})
    assert portfolio.settings == make(OTHERS[name]).settings


@pytest.mark.parametrize("wrong", [np.True_, np.False_])
def test_a_truth_value_of_numpy_is_not_a_number(wrong: Any) -> None:
    for name in ("seed", "default_reward", "window", "explore"):
        with pytest.raises(InvalidArgument, match=f"^{name} is "):
            PortfolioSettings(**{**OTHERS[name], name: wrong})


def test_names_of_actions_may_grow_at_the_end_and_keep_their_order(tmp_path: Path) -> None:
    """The reported fault: a restart with the names in another order swapped the actions that were learned."""
    path, names, more = tmp_path / "shop.db", ["red", "blue"], ["red", "blue", "green"]
    portfolio = make({"action_names": names})
    for wrong in (["blue", "red"], ["red"], ["green", "red", "blue"], None):
        with pytest.raises(InvalidArgument, match=r"action_names is .*, but must begin with \('red', 'blue'\)"):
            portfolio.reconfigure(action_names=wrong)
    portfolio.reconfigure(action_names=more)
    assert portfolio.settings.action_names == tuple(more)
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
        assert live.transact(lambda portfolio, at: portfolio.settings.explore) == 0.2
    with open_journal(path, lambda: make({"explore": 0.3})) as live:
        assert live.transact(lambda portfolio, at: portfolio.settings.explore) == 0.3
    with open_journal(path, lambda: make({"explore": 0.1})) as live:  # a file that is changed back is not ignored
        assert live.transact(lambda portfolio, at: portfolio.settings.explore) == 0.1


CHANGEABLE = [each.name for each in fields(PortfolioSettings) if each.metadata["changeable"]]
SECOND: dict[str, dict[str, Any]] = {
    "sticky": {"sticky": "1h"},  # a third value, next to the default and the one of `OTHERS`
    "share_data": {"share_data": False},
    "deadline": {"deadline": 7, "default_reward": 0.0},
    "default_reward": {"deadline": 5, "default_reward": 0.75},
    "fallback": {"fallback": 2},
    "explore": {"explore": 0.5},
}


def opened(path: Path, given: dict[str, Any]) -> tuple[PortfolioSettings, int]:
    """Open a journal with a file: the settings then, and the number of changes in the journal."""
    with open_journal(path, lambda: make(given)) as live:
        kinds = [event.kind for event in live.journal.read(1)]
        return live.transact(lambda portfolio, at: portfolio.settings), kinds.count("config")


@pytest.mark.parametrize("name", CHANGEABLE)
@pytest.mark.parametrize("crashes", [False, True])
def test_a_file_that_follows_a_change_at_run_time_and_returns_is_not_ignored(
    name: str, crashes: bool, tmp_path: Path
) -> None:
    """The reported fault: the file said 0.1, 0.2 after `reconfigure` to 0.2, then 0.1 again, and 0.2 stayed."""
    path, first, second = tmp_path / "shop.db", SECOND[name], OTHERS[name]
    with open_journal(path, lambda: make(first)) as live:
        live.reconfigure(**second)
    assert opened(path, first) == (make(second).settings, 1)  # the change at run time stays
    live = open_journal(path, lambda: make(second))
    assert live.transact(lambda portfolio, at: portfolio.settings) == make(second).settings
    live.close(snapshot=not crashes)  # without one, events alone say what was declared
    with open_journal(path) as live:
        assert live.transact(lambda portfolio, at: portfolio.declared) == make(second).declared
    assert opened(path, second) == (make(second).settings, 2)  # nothing is left to change
    assert opened(path, first) == (make(first).settings, 3)


@pytest.mark.parametrize("name", CHANGEABLE)
def test_a_file_that_follows_a_change_at_run_time_and_returns_is_not_ignored_by_a_reload(name: str) -> None:
    portfolio = make(SECOND[name])
    portfolio.reconfigure(**OTHERS[name])
    portfolio.declare(make(OTHERS[name]).declared)
    assert portfolio.settings == make(OTHERS[name]).settings
    portfolio.declare(make(SECOND[name]).declared)
    assert portfolio.settings == make(SECOND[name]).settings


def test_a_deadline_in_rounds_is_not_one_in_seconds(tmp_path: Path) -> None:
    """A day in seconds is equal to a number of rounds, but is another deadline."""
    rounds, day = ({"deadline": deadline, "default_reward": 0.0} for deadline in (86_400, "24h"))
    assert opened(tmp_path / "shop.db", rounds)[1] == 0
    deadline = opened(tmp_path / "shop.db", day)[0].deadline
    assert deadline == 86_400.0 and isinstance(deadline, float)


def test_a_deadline_of_a_file_comes_with_its_default_reward(tmp_path: Path) -> None:
    """Both were removed at run time; a file that changes one of them states both."""
    path = tmp_path / "shop.db"
    with open_journal(path, lambda: make({"deadline": 5, "default_reward": 0.5})) as live:
        live.reconfigure(deadline=None, default_reward=None)
    wanted = {"deadline": 5, "default_reward": 0.75}
    assert opened(path, wanted)[0] == make(wanted).settings


@pytest.mark.parametrize("stated", [None, (0.0, 1.0)])
def test_a_file_may_state_the_range_that_is_in_effect(stated: Any, tmp_path: Path) -> None:
    """The reported fault: [0, 1] was refused with "must stay None" where (0, 1) was in effect."""
    given = {} if stated is None else {"reward_range": stated}
    other = {"reward_range": (0.0, 1.0)} if stated is None else {}
    path, wide = tmp_path / "shop.db", {"reward_range": (0.0, 2.0)}
    assert opened(path, given)[0].reward_range == stated
    assert opened(path, other) == opened(path, given) == (make(given).settings, 0)
    portfolio = make(given)
    assert portfolio.reward_range == (0.0, 1.0)
    portfolio.declare(make(other).declared)
    portfolio.reconfigure(reward_range=[0, 1])
    text = r"reward_range is \(0.0, 2.0\), but must stay \(0.0, 1.0\) for a portfolio that has begun"
    for refused in (
        lambda: portfolio.declare(make(wide).declared),
        lambda: portfolio.reconfigure(**wide),
        lambda: opened(path, wide),
    ):
        with pytest.raises((InvalidArgument, StoreConflict), match=text):
            refused()
    assert opened(tmp_path / "wide.db", wide)[0].reward_range == (0.0, 2.0)
    with pytest.raises(StoreConflict, match=r"reward_range is \(0.0, 1.0\), but must stay \(0.0, 2.0\)"):
        opened(tmp_path / "wide.db", {})  # the default is another one


@pytest.mark.parametrize("share_data", [None, True, False])
@pytest.mark.parametrize("selector", [{}, {"use": "CounterfactualBalancing"}], ids=["default", "stated"])
def test_shared_data_that_the_selector_follows_from_are_kept_and_refused_alike(
    selector: Any, share_data: bool | None, tmp_path: Path
) -> None:
    """The reported fault: `share_data` of True read False where the selector decides what each learner learns."""

    def built(wanted: bool | None) -> Portfolio:
        file = {**content({} if wanted is None else {"share_data": wanted}), "selector": selector}
        return parse(file).portfolio()

    portfolio = built(share_data)
    before = portfolio.state()
    assert portfolio.settings.share_data is portfolio.declared.share_data is share_data
    assert before["updates"]["sharing"] == []
    portfolio.save(tmp_path / "portfolio")
    assert Portfolio.load(tmp_path / "portfolio").settings.share_data is share_data
    open_journal(tmp_path / "shop.db", lambda: built(share_data)).close()
    others: set[bool | None] = {None, True, False} - {share_data}
    if not selector and share_data is False:
        reason = "Realized balancing was chosen because of it"
    else:
        reason = "Counterfactual balancing decides itself what each learner learns"
    for wanted in others:
        text = f"share_data is {wanted}, but must stay {share_data}: {reason}"
        with pytest.raises(InvalidArgument, match=f"^{text}$"):
            portfolio.reconfigure(share_data=wanted)
        with pytest.raises(InvalidArgument, match=f"^{text}$"):
            portfolio.declare(built(wanted).declared)
        with pytest.raises(StoreConflict, match=f"shop.db': {text}$"):
            open_journal(tmp_path / "shop.db", partial(built, wanted))
    assert equal_data(portfolio.state(), before)
    with open_journal(tmp_path / "shop.db", lambda: built(share_data)) as live:
        assert live.state()["settings"] == before["settings"]


def test_shared_data_are_refused_alike_where_no_learner_can_use_them(tmp_path: Path) -> None:
    def built(share_data: bool | None = None) -> Portfolio:
        return Portfolio([UCB(3), UCB(3)], UCB1(2), share_data=share_data)

    text = "share_data is True, but no learner accepts 'off_policy' data"
    with pytest.raises(InvalidArgument, match=f"^{text}$"):
        built(share_data=True)
    with pytest.raises(InvalidArgument, match=f"^{text}$"):
        built().reconfigure(share_data=True)
    with pytest.raises(InvalidArgument, match=f"^{text}$"):
        built().declare(PortfolioSettings(share_data=True, reward_range=(0.0, 1.0)))


def test_a_learner_that_joins_shares_data_only_if_the_portfolio_shares_them() -> None:
    for share_data, selector, sharing in (
        (True, UCB1(2), [0, 1, 2]),
        (False, UCB1(2), []),
        (True, None, []),  # the selector decides
    ):
        portfolio = Portfolio([OFUL(2), OFUL(3)], selector, share_data=share_data)
        portfolio.add_learner(OFUL(1))
        assert portfolio.state()["updates"]["sharing"] == sharing
        assert portfolio.settings.share_data is share_data
    assert isinstance(portfolio.selector, CounterfactualBalancing)


def test_a_journal_of_a_selector_with_bounds_opens_again(tmp_path: Path) -> None:
    def bounded(coefficient: float = 1.0) -> Portfolio:
        return Portfolio([UCB(3), UCB(3, scale=0.1)], BalancedElimination([Power(coefficient), Power(2.0)]))

    for _ in range(2):
        with open_journal(tmp_path / "arms.db", bounded) as live:
            live.learn(live.decide(None), 0.5)
    with pytest.raises(StoreConflict, match="learner 'UCB' has other settings, or another bound"):
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
    assert Portfolio.load(tmp_path / "portfolio").settings.share_data
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
        live.reconfigure(fallback=1)
    with open_journal(path, with_function) as live:  # a change at run time stays
        assert live.decide(None).action == 1
        live.reconfigure(fallback=None)
    with open_journal(path, with_function) as live, pytest.raises(NoLearnerAvailable):
        live.decide(None)
    with open_journal(path, lambda: Portfolio([UCB(3)], fallback=0)) as live:
        assert live.decide(None).action == 0


def test_a_fallback_is_copied() -> None:
    """The reported fault: settings are frozen, but held the caller's list."""
    fallback = [1, 2]
    portfolio = Portfolio([UCB(3)], fallback=fallback)
    fallback.append(3)
    assert portfolio.settings.fallback == [1, 2]


def test_settings_have_types_and_an_unknown_attribute_is_an_error() -> None:
    """The reported fault: `mypy` accepted any attribute. It reports an ignored error that does not occur."""
    portfolio = make({})
    assert_type(portfolio.settings.explore, float)
    assert_type(portfolio.settings.window, int | None)
    for call in (
        lambda: portfolio.lern(3),  # type: ignore[attr-defined]
        lambda: portfolio.settings.explor,  # type: ignore[attr-defined]
    ):
        with pytest.raises(AttributeError):
            call()


@dataclass(frozen=True, kw_only=True)
class WithDummy(PortfolioSettings):
    """One more setting than there is."""

    dummy: int = settings.portfolio_setting(
        3, partial(count, minimum=2), "A number.", changeable=True, key="reward.dummy"
    )


@pytest.fixture
def with_dummy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the class of the settings one more field."""
    for name in ("__dataclass_fields__", "__init__", "__eq__", "__repr__"):
        monkeypatch.setattr(PortfolioSettings, name, getattr(WithDummy, name))


def dummy_of(found: Any) -> int:
    number: int = found.dummy
    return number


@pytest.mark.usefixtures("with_dummy")
def test_a_new_field_is_found_in_file_reload_restart_and_save(tmp_path: Path) -> None:
    given = {"dummy": 5}
    portfolio = make(given)
    assert dummy_of(portfolio.settings) == 5
    portfolio.save(tmp_path / "portfolio")
    assert dummy_of(Portfolio.load(tmp_path / "portfolio").settings) == 5
    with pytest.raises(InvalidArgument, match="dummy is 1, but must be a whole number at least 2"):
        make({"dummy": 1})
    portfolio.reconfigure(dummy=6)
    assert dummy_of(portfolio.settings) == 6
    changed, refusal = reloaded(tmp_path / "data", given)
    assert (dummy_of(changed), refusal) == (5, "")
    changed, refusal = reloaded(None, {"dummy": 7})
    assert (dummy_of(changed), refusal) == (7, "")
    with open_journal(tmp_path / "shop.db", lambda: make({})) as live:
        assert dummy_of(live.transact(lambda portfolio, at: portfolio.settings)) == 3
    changed, refusal = restarted(tmp_path / "shop.db", given)
    assert (dummy_of(changed), refusal) == (5, "")
    assert "dummy\n" in settings.parameter_docs()
