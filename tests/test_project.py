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
from functools import cache
from pathlib import Path
from shutil import copy, copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import equipoise

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "equipoise"
MAX_LINES = 700  # a module has one reason to change; look again above this

# From the ground up: rows of modules and folders, the longest name that fits a module being its own. A module may
# import what stands in its own row or in a row above it, at any depth of its functions, never what stands below it.
RINGS = (
    ("errors", "types"),
    ("settings", "kernels", "theme"),
    ("bounds", "confidence", "features", "learner", "problem", "storage.files"),
    ("certificates",),
    ("drift_order",),
    ("selector",),
    ("compatibility",),
    ("learners", "selectors", "problems"),
    ("adapters",),
    ("storage",),
    ("portfolio",),
    ("config",),
    ("rl", "testing", "theory", "journal", "lab.executor", "simulation"),
    ("lab.rivals",),
    ("lab",),
    ("logs",),
    ("serve",),
    ("cli", "__main__"),
)
LEVEL = {unit: level for level, row in enumerate(RINGS) for unit in row}
# The package itself offers names of the core, and opens lazily, when asked, what lies further out.
TOP = "equipoise"
LEVEL["__init__"] = LEVEL["portfolio"]
DOORS = {
    ("equipoise.__init__", "equipoise.journal.opening"),
    ("equipoise.__init__", "equipoise.simulation.api"),
    ("equipoise.__init__", "equipoise.lab.runs.results"),
    ("equipoise.portfolio.portfolio", "equipoise.lab.report.portfolio_page"),
    ("equipoise.config", "equipoise.lab.rivals"),
}
MAX_ROOT_MODULES = 12

# Extras whose packages are too large for the environment of the tests, and how many megabytes they add to it. What
# needs them is skipped there, with a reason.
NOT_INSTALLED_FOR_TESTS = {
    "mabwiser": 88,
    "xgboost": 200,
    "stable-baselines3": 700,
    "distributed": 42,
    "ray": 251,
    "torch": 890,
}

MAX_MODULES_LOADED = 140  # by `import equipoise`, beyond `import numpy`
RUNS_FOREIGN_CODE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}

SOURCES = sorted(PACKAGE.rglob("*.py"))
DATA = [
    PACKAGE / "py.typed",
    *(PACKAGE / "theme").glob("*.css"),
    *(path for path in (PACKAGE / "serve" / "static").rglob("*") if path.is_file()),
]


def module_name(path: Path) -> str:
    """The dotted name of `path`, a file of the package; that of a folder's own file ends in `__init__`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def unit_of(module: str) -> str:
    """The entry of the table that a module belongs to: the longest one that its name begins with; else empty."""
    parts = module.split(".")[1:] or ["__init__"]
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in LEVEL:
            return ".".join(parts[:length])
    return ""


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


@cache
def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def imported_modules(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and name of every module of the package that `module` imports, or imports something from."""
    for line, name in imports(tree, module):
        if name.split(".")[0] != TOP or name == f"{TOP}.__version__":
            continue
        yield line, name if is_module(name) else name.rpartition(".")[0] or TOP


def upward_imports(tree: ast.AST, module: str) -> list[str]:
    own = LEVEL[unit_of(module)]
    found = []
    for line, name in imported_modules(tree, module):
        is_door = (module, name) in DOORS or module == f"{TOP}.__main__"
        if (name == TOP or LEVEL[unit_of(name)] > own) and not is_door:
            found.append(f"line {line}: {name}")
    return found


def numba_outside_simulation(tree: ast.AST, module: str) -> list[str]:
    if module.startswith("equipoise.simulation."):
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


def test_every_module_stands_in_a_layer_and_keeps_the_rules() -> None:
    found = {module_name(path): offences(path) for path in SOURCES}
    assert {module: named for module, named in found.items() if named} == {}


def offences(path: Path) -> list[str]:
    source, module = path.read_text(encoding="utf-8"), module_name(path)
    if not unit_of(module):
        return ["stands in no row of RINGS"]
    tree, n_lines = parsed(path), len(source.splitlines())
    found = [f"{rule.__name__}, {offence}" for rule in RULES for offence in rule(tree, module)]
    return found + [f"has {n_lines} lines, but must have at most {MAX_LINES}"] * (n_lines > MAX_LINES)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


# Sources that break a rule, and sources that keep it.
OFFENDERS: list[tuple[Rule, str, str]] = [
    (upward_imports, "equipoise.bounds", "import equipoise.selector"),
    (upward_imports, "equipoise.bounds", "def f():\n    from equipoise.cli import main"),
    (upward_imports, "equipoise.learners.oful", "from ..portfolio import Portfolio"),
    (upward_imports, "equipoise.learners.__init__", "from .. import simulation"),
    (upward_imports, "equipoise.portfolio.portfolio", "from equipoise import load_results"),
    (upward_imports, "equipoise.portfolio.portfolio", "from equipoise import lab"),
    (upward_imports, "equipoise.selector", "importlib.import_module('equipoise.theory.doubling')"),
    (upward_imports, "equipoise.storage.files", "from equipoise.storage.parts import save"),
    (upward_imports, "equipoise.compatibility", "from equipoise.learners._core.linear_class import LinearClass"),
    (upward_imports, "equipoise.__init__", "def f():\n    from equipoise.simulation.tapes import Tapes"),
    (numba_outside_simulation, "equipoise.kernels.marks", "def f():\n    import numba.core"),
    (numba_outside_simulation, "equipoise.learners.oful", "from numba import njit"),
    (code_from_data, "equipoise.storage.files", "import pickle"),
    (code_from_data, "equipoise.storage.files", "from cloudpickle import loads"),
    (code_from_data, "equipoise.cli", "x = eval('1')"),
    (code_from_data, "equipoise.cli", "run = exec"),
    (code_from_data, "equipoise.storage.files", "np.load(path, allow_pickle=True)"),
]
INNOCENT: dict[tuple[Rule, str], str] = {
    (upward_imports, "equipoise.portfolio.portfolio"): "from equipoise.learners import OFUL\nfrom .. import bounds",
    (upward_imports, "equipoise.learners.oful"): "from .ucb import UCB\nfrom equipoise import learners",
    (upward_imports, "equipoise.storage.files"): "from equipoise import __version__",
    (upward_imports, "equipoise.__init__"): "def f():\n    from equipoise.simulation.api import simulate",
    (numba_outside_simulation, "equipoise.simulation.compiler"): "import numba",
    (code_from_data, "equipoise.cli"): "re.compile('x')\nast.literal_eval('1')\nnp.load(p, allow_pickle=False)",
}


@pytest.mark.parametrize(("rule", "module", "source"), OFFENDERS)
def test_each_rule_catches_its_offender(rule: Rule, module: str, source: str) -> None:
    assert len(rule(ast.parse(source), module)) == 1


@pytest.mark.parametrize(("rule", "module"), INNOCENT)
def test_rules_let_the_innocent_pass(rule: Rule, module: str) -> None:
    assert rule(ast.parse(INNOCENT[rule, module]), module) == []


def test_no_two_modules_import_each_other() -> None:
    """Within a row, too, imports go one way; what a door opens when asked is not imported with its module."""
    graph: dict[str, set[str]] = {}
    for path in SOURCES:
        module = module_name(path).removesuffix(".__init__")
        imported = {name for _, name in imported_modules(parsed(path), module_name(path))} - {module}
        graph[module] = {name for name in imported if (module_name(path), name) not in DOORS}
    order = tuple(graphlib.TopologicalSorter(graph).static_order())  # raises CycleError and names the cycle
    assert set(order) >= set(graph)


def test_no_test_file_imports_another() -> None:
    """What several test files share stands in a module without tests, so that each file can be run and read alone."""
    found = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        names = imports(ast.parse(path.read_text(encoding="utf-8")), module_name(path))
        of_tests = [name for _, name in names if name.split(".")[0] == "tests"]
        if offences := [name for name in of_tests if re.search(r"\.test_", name)]:
            found[module_name(path)] = offences
    assert found == {}


def test_the_root_holds_few_modules() -> None:
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert len(modules) <= MAX_ROOT_MODULES, sorted(modules)


def test_import_stays_light() -> None:
    """Importing equipoise loads NumPy, the standard library and its own core, and few modules beyond those of NumPy."""
    program = (
        "import json, sys, numpy; before = set(sys.modules); import equipoise; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = json.loads(run.stdout)
    foreign = {name.partition(".")[0] for name in loaded} - {"equipoise", "numpy", *sys.stdlib_module_names}
    assert foreign == set()
    assert len(loaded) <= MAX_MODULES_LOADED, loaded


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
    texts += [text for extra in project["project"]["optional-dependencies"].values() for text in extra]
    texts = [text for text in texts if not text.startswith("equipoise[")]
    declared = {canonicalize_name(requirement.name): requirement for requirement in map(Requirement, texts)}
    assert set(NOT_INSTALLED_FOR_TESTS) <= set(declared)
    declared = {name: declared[name] for name in declared if name not in NOT_INSTALLED_FOR_TESTS}

    direct = (ROOT / "requirements.in").read_text(encoding="utf-8").splitlines()
    assert {canonicalize_name(line) for line in direct if line and not line.startswith("#")} == set(declared)

    pins = [Requirement(line.split(" --hash")[0]) for line in pinned_requirements()]
    assert set(declared) <= {canonicalize_name(pin.name) for pin in pins}
    for pin in pins:
        (version,) = (specifier.version for specifier in pin.specifier)
        requirement = declared.get(canonicalize_name(pin.name))
        assert requirement is None or version in requirement.specifier, f"{pin} does not satisfy {requirement}"


def test_wheel_holds_all_modules_and_files(tmp_path: Path) -> None:
    copytree(PACKAGE, tmp_path / "equipoise", ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / name, tmp_path)
    build = "from setuptools.build_meta import build_wheel; build_wheel('.')"
    subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, check=True)
    (wheel,) = tmp_path.glob(f"equipoise-{equipoise.__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if name.startswith("equipoise/")}
    assert held == {path.relative_to(ROOT).as_posix() for path in [*SOURCES, *DATA]}
