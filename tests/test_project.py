"""Rules of the code base that a reader cannot enforce by eye: what may import what, what is never used, what is pinned.

Every rule over source text is a function from a module's syntax tree to the list of its offences. It is applied to all
files of the package, and to a small offender of its own that it has to catch.
"""

import ast
import graphlib
import json
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import equipoise

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "equipoise"
MAX_LINES = 400

# From the ground up. A module or folder may import what stands in its own row or in a row above it, never below it.
LAYERS = (
    ("errors", "types", "settings", "kernel", "streams", "normals", "validation", "records", "confidence", "bounds"),
    ("learner", "nesting", "selector", "problem", "trajectory", "ledger", "policies", "storage", "archive", "outlook"),
    ("compatibility", "migrations"),
    ("learners", "selectors", "problems"),
    ("saving", "tickets", "portfolio", "executor", "simulation", "entitlement"),
    ("rl", "theory", "experiments", "suite"),
    ("testing", "bench", "audit"),
    ("terminal", "cli"),
)
# The package itself re-exports everything, so it stands above all rows: only its version may be imported from below.
TOP = "equipoise"
LEVEL = {unit: level for level, row in enumerate((*LAYERS, (TOP, "__main__"))) for unit in row}

SLOW_TO_IMPORT = ("numba", "matplotlib", "polars", "gymnasium")
RUNS_FOREIGN_CODE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}

SOURCES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """The dotted name of `path`, a file of the package; that of a folder's own file ends in `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def unit_of(module: str) -> str:
    """The entry of the layer table that `module` belongs to: its part right below the package."""
    parts = module.split(".")
    return TOP if parts[1:] in ([], ["__init__"]) else parts[1]


def imports(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and dotted name of everything that `module` imports, at any depth, relative or by `import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            anchor = module.split(".")[: -node.level] if node.level else []
            source = ".".join([*anchor, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and called_name(node) in ("import_module", "__import__"):
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield node.lineno, name


def called_name(call: ast.Call) -> str:
    """The last part of the name of the function that is called; empty if it has none."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def imported_units(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and layer entry of every import of `module` from the package, apart from those within its own entry."""
    for line, name in imports(tree, module):
        if name.split(".")[0] != TOP or name == f"{TOP}.__version__":
            continue
        # A name taken from the package that is no module of its own is a re-export, and belongs to the top.
        unit = unit_of(name) if unit_of(name) in LEVEL else TOP
        if unit != unit_of(module):
            yield line, unit


def upward_imports(tree: ast.AST, module: str) -> list[str]:
    own = LEVEL[unit_of(module)]
    return [f"line {line}: {unit}" for line, unit in imported_units(tree, module) if LEVEL[unit] > own]


def numba_outside_simulation(tree: ast.AST, module: str) -> list[str]:
    if unit_of(module) == "simulation":
        return []
    found = imports(tree, module)
    return [f"line {line}: {name}" for line, name in found if name.split(".")[0] in ("numba", "llvmlite")]


def code_from_data(tree: ast.AST, module: str) -> list[str]:
    """Uses of whatever runs code that came in as data: pickle and its kin, also inside arrays, eval and exec."""
    found = [(line, name) for line, name in imports(tree, module) if name.split(".")[0] in RUNS_FOREIGN_CODE]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("eval", "exec"):
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            found.append((node.value.lineno, "allow_pickle"))
    return [f"line {line}: {name}" for line, name in found]


RULES = (upward_imports, numba_outside_simulation, code_from_data)
Rule = Callable[[ast.AST, str], list[str]]


@pytest.mark.parametrize("path", SOURCES, ids=module_name)
def test_module_stands_in_a_layer_and_keeps_the_rules(path: Path) -> None:
    source, module = path.read_text(encoding="utf-8"), module_name(path)
    tree = ast.parse(source, str(path))
    assert unit_of(module) in LEVEL, f"{module} stands in no row of LAYERS"
    assert {rule.__name__: rule(tree, module) for rule in RULES} == {rule.__name__: [] for rule in RULES}
    n_lines = len(source.splitlines())
    assert n_lines <= MAX_LINES, f"{module} has {n_lines} lines, but must have at most {MAX_LINES}"


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (upward_imports, "equipoise.bounds", "import equipoise.learner"),
        (upward_imports, "equipoise.bounds", "def f():\n    from equipoise.cli import main"),
        (upward_imports, "equipoise.learners.oful", "from ..portfolio import Portfolio"),
        (upward_imports, "equipoise.learners.__init__", "from .. import simulation"),
        (upward_imports, "equipoise.portfolio.portfolio", "from equipoise import load_results"),
        (upward_imports, "equipoise.portfolio.portfolio", "from equipoise import experiments"),
        (upward_imports, "equipoise.selector", "importlib.import_module('equipoise.theory.audit')"),
        (numba_outside_simulation, "equipoise.kernels.marks", "def f():\n    import numba.core"),
        (numba_outside_simulation, "equipoise.learners.oful", "from numba import njit"),
        (code_from_data, "equipoise.storage.files", "import pickle"),
        (code_from_data, "equipoise.storage.files", "from cloudpickle import loads"),
        (code_from_data, "equipoise.cli", "x = eval('1')"),
        (code_from_data, "equipoise.cli", "run = exec"),
        (code_from_data, "equipoise.storage.files", "np.load(path, allow_pickle=True)"),
    ],
)
def test_each_rule_catches_its_offender(rule: Rule, module: str, source: str) -> None:
    assert len(rule(ast.parse(source), module)) == 1


@pytest.mark.parametrize(
    ("rule", "module", "source"),
    [
        (upward_imports, "equipoise.portfolio.portfolio", "from equipoise.learners import OFUL\nfrom . import bounds"),
        (upward_imports, "equipoise.learners.oful", "from .ucb import UCB\nfrom equipoise import learners"),
        (upward_imports, "equipoise.storage.files", "from equipoise import __version__"),
        (upward_imports, "equipoise.__init__", "from .cli import main"),
        (numba_outside_simulation, "equipoise.simulation.compiler", "import numba"),
        (code_from_data, "equipoise.cli", "re.compile('x')\nast.literal_eval('1')\nnp.load(p, allow_pickle=False)"),
    ],
)
def test_rules_let_the_innocent_pass(rule: Rule, module: str, source: str) -> None:
    assert rule(ast.parse(source), module) == []


def test_no_two_modules_import_each_other() -> None:
    """Within a row of the layer table, too, imports go one way."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        module = module_name(path)
        found = {unit for _, unit in imported_units(ast.parse(path.read_text(encoding="utf-8")), module)}
        graph.setdefault(unit_of(module), set()).update(found)
    order = tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError and names the cycle
    assert set(order) >= set(graph)


def test_import_stays_light() -> None:
    """Whoever only decides and learns does not pay for compiler, figures, data frames and environments."""
    program = "import json, sys, equipoise; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(json.loads(run.stdout)).isdisjoint(SLOW_TO_IMPORT)


def test_version_is_in_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert equipoise.__version__ in re.findall(r"^## \[(\d+\.\d+\.\d+)\]", changelog, re.MULTILINE)


def pinned_requirements() -> list[str]:
    """The requirements of requirements.txt, each as one line with its hashes."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    return text.replace("\\\n", " ").strip().splitlines()


def test_every_requirement_is_pinned_and_hashed() -> None:
    """A line is a pinned name with its hashes and nothing else: no index, no address, no option, no path."""
    pin = r"[a-z0-9-]+==[^\s;@/]+( ; [^:@/]+?)?(\s+--hash=sha256:[0-9a-f]{64})+"
    assert [line for line in pinned_requirements() if not re.fullmatch(pin, line)] == []


def test_declared_dependencies_are_pinned_within_their_bounds() -> None:
    """pyproject.toml and requirements.in name the same packages, and the pins satisfy the bounds of the former."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts = [*project["build-system"]["requires"], *project["project"]["dependencies"]]
    texts += project["project"]["optional-dependencies"]["test"]
    declared = {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, texts)}

    direct = (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines()
    assert {canonicalize_name(line) for line in direct if line and not line.startswith("#")} == set(declared)

    pins = [Requirement(line.split(" --hash")[0]) for line in pinned_requirements()]
    assert set(declared) <= {canonicalize_name(pin.name) for pin in pins}
    for pin in pins:
        (version,) = (specifier.version for specifier in pin.specifier)
        requirement = declared.get(canonicalize_name(pin.name))
        assert requirement is None or version in requirement.specifier, f"{pin} does not satisfy {requirement}"


def test_wheel_holds_all_modules_and_the_type_marker(tmp_path: Path) -> None:
    copytree(PACKAGE, tmp_path / "equipoise", ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, tmp_path)
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, check=True)
    (wheel,) = tmp_path.glob(f"equipoise-{equipoise.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("equipoise/")}
    assert held == {path.relative_to(ROOT).as_posix() for path in [*SOURCES, PACKAGE / "py.typed"]}
