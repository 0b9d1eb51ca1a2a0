"""Every setting of a registered learner or problem is described in the Parameters section of its class."""

import inspect
import re
from typing import Any

import pytest

from equipoise.learners import LEARNERS
from equipoise.problems import PROBLEMS

CLASSES = [*LEARNERS.values(), *PROBLEMS.values()]


def documented(cls: type[Any]) -> dict[str, str]:
    """The entries of the Parameters section of a class, by name."""
    text = inspect.cleandoc(cls.__doc__ or "")
    assert "\nParameters\n----------\n" in text
    section = text.split("\nParameters\n----------\n")[1].split("\n\n")[0]
    entries = re.findall(r"^(\w+)\n((?:    .*\n?)+)", section, re.MULTILINE)
    return {name: " ".join(lines.split()) for name, lines in entries}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_parameters_are_those_of_the_constructor(cls: type[Any]) -> None:
    assert sorted(documented(cls)) == sorted(inspect.signature(cls).parameters)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_stated_defaults_are_those_of_the_constructor(cls: type[Any]) -> None:
    parameters, entries = inspect.signature(cls).parameters, documented(cls)
    for name, text in entries.items():
        default, stated = parameters[name].default, re.search(r"Default: (.+?)[.,]?(?: as in the reference\.)?$", text)
        if default is inspect.Parameter.empty:
            assert stated is None, name
        elif isinstance(default, str):
            assert f'"{default}" (default)' in text, name
        elif default is None:
            assert stated, name
        else:
            assert stated and eval(stated[1]) == default, name
