"""How the package is built: composition in the cores, no reads of another module's private names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import equipoise
from equipoise import Portfolio
from equipoise.learners import UCB

PACKAGE = Path(equipoise.__file__).parent
ROOT = PACKAGE.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
# A later change may raise these by naming the collaborator that it adds.
MAX_PACKAGE_MODULES = 330
MAX_PORTFOLIO_MODULES = 23  # with clock, deferring, folding, inputs, joining, slates and units
MAX_PORTFOLIO_ATTRIBUTES = 16  # with inputs and units
OF_THE_LANGUAGE = {"_replace", "_asdict", "_fields", "_make"}  # of named tuples


def private_reads(tree: ast.Module) -> list[str]:
    """Private names that a module reads from other objects than `self` and does not define in a class of its own."""
    own: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            own |= set(defined(node))
    return [
        ast.unparse(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and ast.unparse(node.value) not in ("self", "cls", "super()")
        and node.attr not in own | OF_THE_LANGUAGE
    ]


def defined(node: ast.ClassDef) -> Iterator[str]:
    """The methods of a class, the names that its body assigns, and the attributes that its methods set on `self`."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield statement.name
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id
        elif isinstance(statement, ast.Assign):
            yield from (target.id for target in statement.targets if isinstance(target, ast.Name))
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store) and ast.unparse(each.value) == "self":
            yield each.attr


def parsed() -> dict[str, ast.Module]:
    return {str(path.relative_to(PACKAGE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


# Private names that are not this package's: the reads of each module, with the reason.
FOREIGN = {
    "adapters/mab_wiser.py": (
        {"self._mab._imp", "self._mab._is_initial_fit", "self._mab._rng"},
        "MABWiser keeps its state behind private names only",
    ),
    "simulation/compiler.py": (
        {"fields._getvalue", "self._codegen._data_layout"},
        "Numba has no public names for these",
    ),
}


def test_no_module_reads_private_names_of_another() -> None:
    found = {name: set(private_reads(tree)) for name, tree in parsed().items()}
    assert {name: reads for name, reads in found.items() if reads} == {name: of for name, (of, _) in FOREIGN.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(portfolio):\n    return portfolio._drift.delta", ["portfolio._drift"]),
        ("class A:\n    def _b(self): ...\n    def c(self, other):\n        return other._b()", []),
        (
            "class A:\n    def b(self):\n        self._b = 1\n    def c(self, other):\n        return other._b",
            [],
        ),
        ("class A:\n    def c(self, other):\n        return self._b + other._b", ["other._b"]),
        ("_b = 1\ndef f(other):\n    return other._b + _b", ["other._b"]),
        ("def f(row):\n    return row._replace(a=1)", []),
    ],
)
def test_the_check_finds_a_read(source: str, expected: list[str]) -> None:
    assert private_reads(ast.parse(source)) == expected


def test_a_portfolio_is_composed() -> None:
    assert Portfolio.__mro__ == (Portfolio, object)
    portfolio = Portfolio([UCB(3), UCB(3)])
    portfolio.learn(portfolio.decide(None), 0.5)
    assert len(vars(portfolio)) <= MAX_PORTFOLIO_ATTRIBUTES
    (state,) = (value for value in vars(portfolio).values() if type(value).__module__.startswith("equipoise"))
    assert type(state).__mro__ == (type(state), object)
    assert len(vars(state)) <= MAX_PORTFOLIO_ATTRIBUTES
    parts = [part for part in vars(state).values() if type(part).__module__.startswith("equipoise")]
    assert len(parts) > 8 and all(type(part).__mro__ == (type(part), object) for part in parts)


def test_modules_stay_few() -> None:
    assert len(SOURCES) <= MAX_PACKAGE_MODULES
    assert len(list((PACKAGE / "portfolio").glob("*.py"))) <= MAX_PORTFOLIO_MODULES


def folders_with_code() -> set[str]:
    """Return all folders with files other than pages and pictures, at any depth."""
    found = set()
    for top in ("equipoise", "tools", "examples", "tests", ".ci"):
        for path in (ROOT / top).rglob("*"):
            parts = path.relative_to(ROOT / top).parts
            hidden = any(part == "__pycache__" or part.startswith(".") for part in parts)
            if path.is_file() and not hidden and path.suffix not in (".md", ".png", ".svg"):
                found.add(path.parent.relative_to(ROOT).as_posix())
    return found


def mirrors(folder: str) -> bool:
    """Whether a folder of tests has the name of one of the package, or of the tools."""
    top, _, rest = folder.partition("/")
    return top == "tests" and (rest == "tools" or (PACKAGE / rest).is_dir())


def test_the_map_covers_every_folder_at_every_depth() -> None:
    rows = [line for line in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    listed = [name for row in rows for name in re.findall(r"`([^`]+)/`", row.split("|")[1])]
    folders = folders_with_code()
    assert {"equipoise/serve/static/views", "tests/recorded", "tools/benchmarks/peers", ".ci"} <= folders
    assert sorted(each for each in folders - set(listed) if not mirrors(each)) == []
    assert [name for name in listed if not (ROOT / name).is_dir()] == []
    assert len(set(listed)) == len(listed)


def test_the_walks_name_real_files() -> None:
    architecture = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_]+(?:/[a-z_]+)+\.py)`", architecture)) - {"tests/test_project.py"}
    assert len(named) > 20
    assert [name for name in sorted(named) if not (PACKAGE / name).exists()] == []
