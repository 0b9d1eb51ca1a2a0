"""Capabilities are declared Protocols: an attribute that only has the name of one is not mistaken for it."""

import ast
import re
from collections.abc import Callable, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise import learner as learner_contract
from equipoise import selector as selector_contract
from equipoise.compatibility import check_compatible
from equipoise.errors import EquipoiseError, InvalidArgument
from equipoise.journal.live import LivePortfolio
from equipoise.learner import Saves, implements
from equipoise.learners import OFUL, UCB, Constant
from equipoise.problems import KArmedBandit
from equipoise.selector import ChangesPool, KnowsPropensity, Updates
from equipoise.selectors import SELECTORS, CounterfactualBalancing, RealizedBalancing
from tests.outside.own_selector import TurnsThenBest

PACKAGE = Path(equipoise.__file__).parent


def protocols(module: Any) -> list[type]:
    found = (
        value for value in vars(module).values() if isinstance(value, type) and getattr(value, "_is_protocol", False)
    )
    return [each for each in found if each.__module__ == module.__name__]


def members(module: Any) -> set[str]:
    """Names of all members of all capabilities, and of the optional attributes."""
    required = {"Selector", "Learner", "MinimalLearner", "ModelClass"}
    names = {name for each in protocols(module) if each.__name__ not in required for name in vars(each)}
    return {name for name in names if not name.startswith("_")}


SELECTOR_NAMES = sorted(
    (members(selector_contract) | {"explanation", "traits", "eliminations", "experts", "taught_by"})
    - set(vars(TurnsThenBest))
)
LEARNER_NAMES = sorted(
    members(learner_contract)
    | {"features", "arms", "n_columns", "n_actions", "n_states", "horizon"}
    | {"learns", "ignores_contexts", "randomized", "compilable", "snapshot", "keep", "teach"}
)


class Bare:
    """The least that a learner has."""

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: Any, reward: float) -> None:
        pass


class OwnMeans(Bare):
    """A learner that can be saved, with attributes that can all be replaced."""

    name = "means"

    def __init__(self, n_actions: int) -> None:
        self.counts = np.zeros(n_actions)

    def learn(self, context: Any, action: Any, reward: float) -> None:
        self.counts[action] += 1

    def config(self) -> dict[str, Any]:
        return {"n_actions": len(self.counts)}

    def state(self) -> dict[str, Any]:
        return {"counts": self.counts.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        self.counts = state["counts"].copy()


def nothing() -> None:
    """Take no argument."""


def play(portfolio: Portfolio | LivePortfolio, rounds: int = 8) -> None:
    for _ in range(rounds):
        portfolio.learn(portfolio.decide(np.ones((2, 3))), 0.5)


def test_the_names_are_those_that_matter() -> None:
    assert {"experts", "propensity", "taught_by", "restart", "compare", "tick", "add_learner"} <= set(SELECTOR_NAMES)
    assert {"pmf", "regret_of", "configure", "state", "restore"} <= set(LEARNER_NAMES)


VALUES: dict[str, Any] = {"int": 3, "str": "x", "list": [(0, True)], "dict": {"a": 1}, "function": nothing}
# A function without parameters under one of these names is the capability, as far as it can be told.
WITHOUT_PARAMETERS = {"blocking", "drift_evidence", "pending_bytes", "tick"}
CASES = [
    (name, kind) for name in SELECTOR_NAMES for kind in VALUES if kind != "function" or name not in WITHOUT_PARAMETERS
]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_selector_may_have_attributes_of_any_name(name: str, kind: str) -> None:
    """The reported fault: a selector with `experts`, `propensity` or `taught_by` died in its portfolio."""
    value = VALUES[kind]
    selector = TurnsThenBest(2)
    setattr(selector, name, value)
    portfolio = Portfolio([UCB(2), Constant(1)], selector)
    play(portfolio)
    assert portfolio.describe() and portfolio.health()["rounds"] == 8
    assert portfolio.explain("UCB")


@pytest.mark.parametrize("value", [3, "x", None, [1]], ids=["int", "str", "None", "list"])
@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_a_learner_may_have_attributes_that_are_called_like_capabilities(name: str, value: Any) -> None:
    learner: Any = Bare()
    setattr(learner, name, value)
    portfolio = Portfolio([learner, Constant(1)], RealizedBalancing(2), reward_range=(0.0, 2.0))
    play(portfolio)
    assert portfolio.health()["rounds"] == 8
    assert all(row["failures"] == 0 for row in portfolio.health()["learners"])


@pytest.mark.parametrize("word", ["accepts", "provides"])
def test_declarations_that_are_no_sets_get_one_clear_line(word: str) -> None:
    learner: Any = Bare()
    setattr(learner, word, "weight")
    with pytest.raises(
        InvalidArgument, match=f"^{word} of learner 'Bare' is 'weight', but must be a set of words from "
    ):
        Portfolio([learner])
    learner = Bare()
    learner.delta = "small"
    with pytest.raises(InvalidArgument, match=r"^delta of learner 'Bare' is 'small', but must be a number"):
        Portfolio([learner])


def test_a_capability_that_is_declared_but_missing_is_named() -> None:
    learner: Any = Bare()
    learner.provides, learner.pmf = frozenset({"pmf"}), 0.5
    with pytest.raises(InvalidArgument, match=r"learner 'Bare' provides 'pmf', but must then have pmf\(context\)"):
        learner_contract.AdaptedLearner(learner).pmf(None)
    with pytest.raises(InvalidArgument, match=r"must have add_learner\(\) and remove_learner\(\) to change its pool"):
        Portfolio([UCB(2)], TurnsThenBest(1)).add_learner(UCB(2))


def test_a_method_counts_if_it_takes_the_parameters() -> None:
    class Near:
        def propensity(self) -> float:  # takes no choice
            return 0.5

        def learners_updated_by(self, choice: Any, extra: Any) -> tuple[int, ...]:
            return ()

        def add_learner(self, bound: Any = None, **more: Any) -> int:
            return 0

    near = Near()
    assert not implements(near, KnowsPropensity) and not implements(near, Updates)
    assert not implements(near, ChangesPool)  # one of two methods
    near.remove_learner = lambda learner: None  # type: ignore[attr-defined]
    assert implements(near, ChangesPool)
    assert implements(CounterfactualBalancing, Updates) and not implements(RealizedBalancing, Updates)
    assert implements(OFUL(2), Saves) and implements(OFUL, Saves)


@pytest.mark.parametrize("name", SELECTORS)
def test_every_selector_of_the_package_can_be_saved(name: str) -> None:
    assert implements(SELECTORS[name], Saves)


def inspected(tree: ast.Module) -> set[str]:
    """The objects of which `getattr` and `hasattr` read an attribute by a literal name."""
    return {
        ast.unparse(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("getattr", "hasattr")
        and isinstance(node.args[1], ast.Constant)
    }


CONTRACTS = {"learner.py", "selector.py", "problem.py"}
# The objects that other modules look into, none of them a learner or a selector, and what they are.
OTHER_OBJECTS = {
    "adapters/mab_wiser.py": ({"mab", "self._mab._imp"}, "objects of MABWiser"),
    "adapters/models/scikit_learn.py": ({"estimator", "self._model"}, "an estimator of scikit-learn"),
    "cli/__init__.py": ({"error"}, "an error of Typer"),
    "journal/opening.py": ({"config"}, "an object that makes a portfolio"),
    "journal/sqlite.py": ({"error"}, "an error of SQLite"),
    "lab/executor.py": ({"sys.modules['__main__']"}, "a module"),
    "learners/_core/finite.py": ({"context"}, "a context"),
    "portfolio/rounds.py": ({"action"}, "an action that is a coroutine by mistake"),
    "portfolio/clock.py": ({"time"}, "a module"),
    "rl/feature_lsvi.py": ({"function"}, "a function of a caller"),
    "serve/dashboard/decisions.py": ({"data['context']"}, "a context"),
    "serve/client/threads.py": ({"select"}, "a module"),
    "serve/guard.py": ({"send"}, "a method of the server"),
    "serve/handlers.py": ({"entry"}, "a line of a batch"),
    "serve/logs.py": ({"record"}, "a record of the log"),
    "simulation/cache.py": ({"module", "os"}, "modules"),
    "simulation/loops.py": ({"memory", "problem"}, "a problem, and the tuple of arrays of a learner"),
    "simulation/sources.py": (
        {"getattr(sys.modules.get(source), alias.name, None)", "sys.modules.get(module)"},
        "modules and their contents",
    ),
    "simulation/watch.py": ({"problem"}, "a problem"),
    "testing/learners.py": ({"action"}, "an action"),
    "testing/problems.py": ({"problem"}, "a problem"),
}


def test_only_the_contracts_look_for_optional_members() -> None:
    paths = {str(path.relative_to(PACKAGE)): path for path in PACKAGE.rglob("*.py")}
    found = {name: inspected(ast.parse(path.read_text(encoding="utf-8"))) for name, path in paths.items()}
    others = {name: objects for name, objects in found.items() if objects and name not in CONTRACTS}
    assert others == {name: objects for name, (objects, _) in OTHER_OBJECTS.items()}


def test_the_check_finds_a_lookup() -> None:
    tree = ast.parse("getattr(learner, 'arms', None); getattr(part, name); hasattr(self.selector, 'experts')")
    assert inspected(tree) == {"learner", "self.selector"}


# Values that are not methods, under every name that the package looks for in a learner or a selector.
NOT_CALLABLE: dict[str, Any] = {"int": 3, "None": None, "str": "x", "bool": True, "list": [1]}
DECLARATIONS = {"name", "accepts", "provides", "delta"}
EVERY_LEARNER_NAME = sorted({*LEARNER_NAMES, *DECLARATIONS, "decide", "learn"})
OF_SELECTORS = {name for name in vars(selector_contract.Selector) if not name.startswith("_")}
EVERY_SELECTOR_NAME = sorted(
    members(selector_contract)
    | members(learner_contract)
    | OF_SELECTORS
    | {"name", "explanation", "traits", "experts", "taught_by", "snapshot", "keep", "teach"}
)


class Open(TurnsThenBest):
    """A selector whose attributes can all be replaced, also those that are properties of its class."""

    active = (0, 1)


def learner_with(name: str, value: Any) -> Any:
    learner: Any = OwnMeans(2)
    setattr(learner, name, value)
    return learner


def selector_with(name: str, value: Any) -> Any:
    selector: Any = Open(2)
    setattr(selector, name, value)
    return selector


def refusal(call: Callable[[], object]) -> EquipoiseError | None:
    """Return the error of the package that a call raises, None if it works; other errors are faults and pass on."""
    try:
        call()
    except EquipoiseError as error:
        return error
    return None


def walk(
    learner: Callable[[], Any], selector: Callable[[], Any], folder: Path, *, kept: bool = True
) -> list[EquipoiseError]:
    """Construct, decide, learn, describe, save, load, and if `kept` open a journal twice; return what was refused."""

    def make() -> Portfolio:
        return Portfolio([learner(), Constant(1)], selector())

    if (refused := refusal(make)) is not None:
        return [refused]
    portfolio, file, journal = make(), folder / "portfolio.eqp", folder / "journal.db"

    def reload() -> None:
        play(Portfolio.load(file, [learner(), Constant(1)], selector()))

    def keep() -> None:
        for _ in range(2):
            with equipoise.open(journal, make) as live:
                play(live)
                assert live.describe()

    def inspect_all() -> None:
        assert portfolio.describe() and portfolio.explain(portfolio.learner_names[0])
        portfolio.standing(), portfolio.certificate(), portfolio.health(), portfolio.statements()

    found = [refusal(step) for step in (lambda: play(portfolio), inspect_all)]
    saved = refusal(lambda: portfolio.save(file))
    found += [saved, None if saved else refusal(reload), refusal(keep) if kept else None]
    return [error for error in found if error is not None]


def assert_clear(errors: Sequence[EquipoiseError], name: str) -> None:
    """Every error is one line that names the member and the rule."""
    for error in errors:
        message = str(error)
        assert "\n" not in message and re.search(rf"\b{name}\b", message), message
        assert re.search(r"but must|cannot be saved|is unknown; did you mean", message), message


@pytest.mark.parametrize("kind", NOT_CALLABLE)
@pytest.mark.parametrize("name", EVERY_LEARNER_NAME)
def test_a_learner_with_any_attribute_works_or_gets_a_clear_line(name: str, kind: str, tmp_path: Path) -> None:
    """The reported fault: `state = 3`, `restore = 4` or `config = 7` raised a TypeError on saving."""
    value = NOT_CALLABLE[kind]
    errors = walk(lambda: learner_with(name, value), lambda: Open(2), tmp_path, kept=kind == "int")
    assert_clear(errors, name)
    refused = {"decide", "learn", "state", "restore", "accepts", "provides", "delta"}
    assert not errors or name in refused, errors


@pytest.mark.parametrize("kind", NOT_CALLABLE)
@pytest.mark.parametrize("name", EVERY_SELECTOR_NAME)
def test_a_selector_with_any_attribute_works_or_gets_a_clear_line(name: str, kind: str, tmp_path: Path) -> None:
    """The reported fault: `config = 3`, `state = 3`, `needs = None` and `choose = 3` raised other errors."""
    value = NOT_CALLABLE[kind]
    errors = walk(lambda: OwnMeans(2), lambda: selector_with(name, value), tmp_path, kept=kind == "int")
    assert_clear(errors, name)
    assert not errors or name in OF_SELECTORS - {"config", "from_config"}, errors


SIMULATED = ("kernels", "learn_episode", "params", "memory", "compilable", "premises", "eliminations")


@pytest.mark.parametrize("kind", [*NOT_CALLABLE, "functions"])
@pytest.mark.parametrize("name", SIMULATED)
def test_a_simulation_uses_only_what_is_a_capability(name: str, kind: str) -> None:
    """The reported fault in another place: `kernels = 3` raised an AttributeError in the compiled loop."""
    value = (nothing,) if kind == "functions" else NOT_CALLABLE[kind]
    learners, selector = [learner_with(name, value), OwnMeans(2)], selector_with(name, value)
    run = equipoise.simulate(KArmedBandit([0.2, 0.8]), learners, selector, rounds=20)
    assert run.plays[0, -1].sum() == 20


@pytest.mark.parametrize("needs", [(), [], set(), ("bounds",), ["bounds"], {"bounds"}])
def test_needs_may_be_any_collection_of_words(needs: Any, tmp_path: Path) -> None:
    assert walk(lambda: OwnMeans(2), lambda: selector_with("needs", needs), tmp_path) == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("needs", None, "needs of selector 'Open' is None, but must be a set of words from "),
        ("needs", "bounds", "needs of selector 'Open' is 'bounds', but must be a set of words from "),
        ("needs", [["bounds"]], "needs of selector 'Open' is [['bounds']], but must be a set of words from "),
        ("needs", {"bound"}, "needs of selector 'Open': word 'bound' is unknown; did you mean bounds?"),
        ("choose", 3, "choose of selector 'Open' is 3, but must be a method"),
        ("replay", 3, "replay of selector 'Open' is 3, but must be a method"),
        ("observe", 3, "observe of selector 'Open' is 3, but must be a method as in equipoise.Selector"),
        ("credit", 3, "credit of selector 'Open' is 3, but must be a method as in equipoise.Selector"),
        ("credit", nothing, "credit of selector 'Open' is <function nothing"),
        ("standing", None, "standing of selector 'Open' is None, but must be a method as in equipoise.Selector"),
        ("active", 3, "active of selector 'Open' is 3, but must be a tuple of indices of learners"),
        ("active", "ab", "active of selector 'Open' is 'ab', but must be a tuple of indices of learners"),
        ("active", (0.5,), "active of selector 'Open' is (0.5,), but must be a tuple of indices of learners"),
        ("active", (True, 1), "active of selector 'Open' is (True, 1), but must be a tuple of indices of learners"),
        ("active", (0, 2), "active of selector 'Open' is (0, 2), but must be a tuple of indices below 2"),
        ("active", (-1,), "active of selector 'Open' is (-1,), but must be a tuple of indices below 2"),
    ],
)
def test_a_selector_without_its_required_members_is_refused_at_construction(
    name: str, value: Any, message: str
) -> None:
    learners = [OwnMeans(2), OwnMeans(2)]
    for construct in (Portfolio, lambda parts, selector: check_compatible(selector, parts)):
        error = refusal(lambda make=construct: make(learners, selector_with(name, value)))  # type: ignore[misc]
        assert error is not None and str(error).startswith(message)
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("accepts", {"of_policy"}, "accepts of learner 'means': word 'of_policy' is unknown; did you mean off_policy?"),
        ("provides", ["gredy"], "provides of learner 'means': word 'gredy' is unknown; did you mean greedy?"),
        ("provides", [["greedy"]], "provides of learner 'means' is [['greedy']], but must be a set of words from "),
        ("accepts", {3}, "accepts of learner 'means' is {3}, but must be a set of words from "),
        ("delta", nan, "delta of learner 'means' is nan, but must be a number in [0, 1)"),
        ("delta", 1.0, "delta of learner 'means' is 1.0, but must be a number in [0, 1)"),
        ("delta", -0.1, "delta of learner 'means' is -0.1, but must be a number in [0, 1)"),
        ("delta", True, "delta of learner 'means' is True, but must be a number in [0, 1)"),
        ("delta", "0.1", "delta of learner 'means' is '0.1', but must be a number in [0, 1)"),
    ],
)
def test_a_wrong_declaration_of_a_learner_is_refused_at_construction(name: str, value: Any, message: str) -> None:
    error = refusal(lambda: Portfolio([learner_with(name, value), Constant(1)]))
    assert error is not None and str(error).startswith(message) and "\n" not in str(error)


@pytest.mark.parametrize("name", [None, 3, "", ["x"], True], ids=repr)
def test_a_name_that_is_not_a_text_is_the_class_name(name: Any) -> None:
    portfolio = Portfolio([learner_with("name", name), Constant(1)], selector_with("name", name))
    assert portfolio.learner_names[0] == "OwnMeans"
    assert selector_contract.capabilities(portfolio.selector).name == "Open"


def test_a_part_saved_alone_needs_methods(tmp_path: Path) -> None:
    for name in ("state", "restore"):
        for part in (learner_with(name, 3), selector_with(name, 3)):
            with pytest.raises(InvalidArgument, match=r"has no state\(\) and restore\(\), so it cannot be saved"):
                equipoise.save(part, tmp_path / "part.eqp")
    equipoise.save(learner_with("config", 3), tmp_path / "part.eqp")
    assert implements(equipoise.load(tmp_path / "part.eqp", learner_with("config", 3)), Saves)
    with pytest.raises(InvalidArgument, match=r"has no state\(\) and restore\(\), so it cannot be saved"):
        equipoise.load(tmp_path / "part.eqp", learner_with("restore", 3))


def test_every_capability_has_a_name_of_its_own() -> None:
    """Two Protocols of one name, and with different signatures, cannot be told apart by a reader."""
    names = [each.__name__ for module in (learner_contract, selector_contract) for each in protocols(module)]
    assert sorted(names) == sorted(set(names))


def runtime_protocols(source: str) -> set[str]:
    """Names of the Protocols that `isinstance` can check, by the names of their members only."""
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    return {each.name for each in classes if "runtime_checkable" in map(last_name, each.decorator_list)}


def last_name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


# The objects that may be told apart by the names of their members, none of them a learner or a selector.
BY_NAMES_ONLY = {
    "FeatureMap": "feature maps",
    "HasState": "settings compares two objects of one class; it lies below the contracts",
    "KnowsGaps": "environments",
    "Labeled": "a row of a data frame",
    "Log": "logs",
    "NamedRow": "a named tuple",
    "OfSchema": "a log",
    "RowsByName": "a data frame of polars",
    "Tabular": "a data frame of pandas",
}


def test_learners_and_selectors_are_never_told_apart_by_names_only() -> None:
    """A runtime_checkable Protocol looks at names only; `implements` and `find` look at the members themselves."""
    sources = [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")]
    assert set().union(*map(runtime_protocols, sources)) == BY_NAMES_ONLY.keys()


def test_the_check_finds_a_runtime_protocol() -> None:
    assert runtime_protocols("@typing.runtime_checkable\nclass Savable(Protocol): ...") == {"Savable"}
    assert runtime_protocols("class Savable(Protocol): ...") == set()
