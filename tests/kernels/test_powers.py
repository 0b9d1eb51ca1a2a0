"""Kernels use products instead of powers: a power differs in its last digit between mathematical libraries."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import equipoise
from equipoise.kernels.powers import power

PACKAGE = Path(equipoise.__file__).parent
# Powers with a real exponent, which is a setting or a root. None of them is an input of evidence that is folded.
REAL_EXPONENTS = {
    ("bounds.py", "closed_form"): "a candidate bound c n^p with any p",
    ("lab/rivals/explore_commit_exploit.py", "choose"): "explores with probability t^(-1/3)",
    ("lab/rivals/explore_commit_exploit.py", "credit"): "commits for t^(2/3) rounds",
    ("lab/rivals/modcb.py", "explores"): "explores in t^(1 - kappa) rounds, kappa a setting",
    ("lab/rivals/rate_adaptive.py", "choose"): "explores with probability t^(-1/3)",
}
FUNCTIONS = {"pow", "power", "float_power", "hypot"}  # of math and NumPy; `equipoise.kernels.powers.power` multiplies
MARKS = ("kernel", "native", "dispatched")


def kernels_of(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            marks = {ast.unparse(each).split("(")[0] for each in node.decorator_list}
            if not marks.isdisjoint(MARKS):
                yield node


def has_power(function: ast.FunctionDef) -> bool:
    return any(
        (isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Pow))
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS - {"power"})
        for node in ast.walk(function)
    )


def test_kernels_have_no_powers_except_those_with_real_exponents() -> None:
    found, n_kernels = set(), 0
    for path in PACKAGE.rglob("*.py"):
        for function in kernels_of(ast.parse(path.read_text())):
            n_kernels += 1
            if has_power(function):
                found.add((path.relative_to(PACKAGE).as_posix(), function.name))
    assert found == set(REAL_EXPONENTS)
    assert n_kernels > 200


@pytest.mark.parametrize("code", ["x ** 2", "pow(x, 2)", "math.pow(x, 2)", "np.power(x, 2)", "2.0**x"])
def test_a_power_is_found(code: str) -> None:
    (function,) = kernels_of(ast.parse(f"@kernel\ndef f(x):\n    y = {code}\n    return y"))
    assert has_power(function)
    (function,) = kernels_of(ast.parse("@kernel\ndef f(x):\n    return power(x, 2) * x"))
    assert not has_power(function)
    assert not list(kernels_of(ast.parse(f"def f(x):\n    return {code}")))


def test_power_multiplies() -> None:
    assert [power(3.0, n) for n in range(4)] == [1.0, 3.0, 9.0, 27.0]
    assert power(0.1, 3) == 0.1 * 0.1 * 0.1
    assert power(2.0, 60) == float(1 << 60)
