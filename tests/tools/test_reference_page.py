"""The API reference is written from the docstrings and is up to date."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tools.pages import reference

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    written = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert written == reference.page(), "write it anew: python -m tools.pages reference"


@pytest.mark.parametrize("name", reference.MODULES)
def test_every_public_class_and_function_has_an_entry(name: str) -> None:
    section = reference.page().split(f"\n## {name}\n")[1].split("\n## ")[0]
    module = import_module(name)
    public = [item for item in getattr(module, "__all__", ()) if callable(getattr(module, item))]
    assert section.count("\n### ") >= max(len(public), 1)
    assert [item for item in public if f"\n### {item}\n" not in section] == []


def test_nothing_of_one_machine_or_run_is_written() -> None:
    assert " at 0x" not in reference.page()
    assert str(ROOT) not in reference.page()


def sample(first: int, *, second: str = "a", third: object = object(), **others: float) -> None:
    """Do `a * b`, then c * d.

    Parameters
    ----------
    first : int
        How many,
        in all.
    second
        Which.

    >>> 1
    1
    """


def test_signatures_and_sections_are_put_in_words() -> None:
    assert reference.signature("sample", sample) == (
        "sample(first: int, *, second: str = 'a', third: object = ..., **others: float)"
    )
    module = ModuleType("sample")
    module.__all__ = ["sample"]  # type: ignore[attr-defined]
    module.sample = sample  # type: ignore[attr-defined]
    assert reference.public_names(module) == ["sample"]
    assert reference._docstring(sample).split("\n\n") == [
        r"Do `a * b`, then c \* d.",
        "**Parameters**",
        "- `first`: How many,\n    in all.\n- `second`: Which.",
        "```python\n>>> 1\n1\n```",
    ]


def test_sections_with_colons_read_the_same() -> None:
    text = "Parameters:\n    first: How many,\n        in all.\n    second: Which."
    assert reference._paragraph(text) == "**Parameters**\n\n- `first`: How many,\n    in all.\n- `second`: Which."
