"""Names of version 0.1 still work, and each says what to use and when it goes."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from equipoise import Portfolio, _deprecated, errors
from equipoise.learner import provides
from equipoise.learners import Constant
from equipoise.selectors import Uniform


@pytest.mark.parametrize(
    ("module", "old", "new_module", "new"),
    [(module, old, *new) for module, names in _deprecated.RENAMED.items() for old, new in names.items()],
)
def test_a_renamed_attribute_warns_and_is_the_new_one(module: str, old: str, new_module: str, new: str) -> None:
    message = f"^{module}.{old} is deprecated and will be removed in equipoise 0.3: use {new_module}.{new}$"
    with pytest.warns(DeprecationWarning, match=message) as caught:
        value = getattr(importlib.import_module(module), old)
    assert value is getattr(importlib.import_module(new_module), new)
    assert caught[0].filename == __file__


def test_the_old_error_catches_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match="use equipoise.errors.IncompatibleLearner"):
        from equipoise.errors import NotEntitled
    with pytest.raises(NotEntitled):
        raise errors.IncompatibleLearner("so")


@pytest.mark.parametrize("module", list(_deprecated.RENAMED))
def test_other_names_are_unknown(module: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
        _ = importlib.import_module(module).Nothing


def test_old_methods_warn_and_call_the_new_ones() -> None:
    portfolio: Any = Portfolio([Constant(0), Constant(1)], Uniform(2))
    certificate, row = portfolio.certificate(), portfolio.standing()[0]
    called = {
        "Certificate": (lambda: certificate.words(["a", "b"]), certificate.describe(["a", "b"])),
        "Portfolio": (portfolio.words, portfolio.describe()),
        "Standing": (lambda: row.words("a"), row.describe("a")),
    }
    assert called.keys() == _deprecated.RENAMED_METHODS.keys()
    for owner, (call, expected) in called.items():
        message = rf"^{owner}.words\(\) is deprecated and will be removed in equipoise 0.3: use describe\(\)$"
        with pytest.warns(DeprecationWarning, match=message) as caught:
            assert call() == expected
        assert caught[0].filename == __file__


def test_a_learner_may_still_say_offers() -> None:
    class Old:
        offers = frozenset({"regret"})

    with pytest.warns(DeprecationWarning, match=r"^Old.offers is deprecated .* 0.3: use Old.provides$"):
        assert provides(Old()) == {"regret"}
