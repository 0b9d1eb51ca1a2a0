"""Capabilities are declared Protocols: an attribute that only has the name of one is not mistaken for it."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise import learner as learner_contract
from equipoise import selector as selector_contract
from equipoise.errors import InvalidArgument
from equipoise.learner import Saves, implements
from equipoise.learners import OFUL, UCB, Constant
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
    (members(learner_contract) | {"features", "arms", "n_columns", "learns", "ignores_contexts", "randomized"})
    - {"config"}
)


class Bare:
    """The least that a learner has."""

    def decide(self, context: Any) -> int:
        return 0

    def learn(self, context: Any, action: Any, reward: float) -> None:
        pass


def nothing() -> None:
    """Take no argument."""


def play(portfolio: Portfolio, rounds: int = 8) -> None:
    for _ in range(rounds):
        portfolio.learn(portfolio.decide(np.ones((2, 3))), 0.5)


def test_the_names_are_those_that_matter() -> None:
    assert {"experts", "propensity", "taught_by", "restart", "compare", "tick", "add_learner"} <= set(SELECTOR_NAMES)
    assert {"pmf", "regret_of", "configure", "state", "restore"} <= set(LEARNER_NAMES)


VALUES: dict[str, Any] = {"int": 3, "str": "x", "list": [(0, True)], "dict": {"a": 1}, "function": nothing}
# A function without parameters under one of these names is the capability, as far as it can be told.
WITHOUT_PARAMETERS = {"blocking", "drift_evidence", "tick"}
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
    "lab/executor.py": ({"sys.modules['__main__']"}, "a module"),
    "learners/_core/finite.py": ({"context"}, "a context"),
    "portfolio/rounds.py": ({"action"}, "an action that is a coroutine by mistake"),
    "portfolio/tickets.py": ({"time"}, "a module"),
    "rl/feature_lsvi.py": ({"function"}, "a function of a caller"),
    "serve/dashboard/decisions.py": ({"data['context']"}, "a context"),
    "serve/guard.py": ({"send"}, "a method of the server"),
    "serve/server.py": ({"record"}, "a record of the log"),
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
