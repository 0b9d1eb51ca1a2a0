"""Every adapter keeps the contract of a learner, resumes exactly and can be rebuilt from a file alone."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise import load, save
from equipoise.adapters import ADAPTERS, EXPLORATIONS, MODELS
from equipoise.settings import settings_of
from equipoise.storage.registry import registered_classes
from equipoise.testing import check_learner
from equipoise.testing.learners import CHECKS, random_actions
from tests.adapters.subjects import CASES, SUBJECTS, Subject

FOR_MATRICES = {"bad_contexts_are_refused_and_change_nothing", "bad_actions_are_refused_and_change_nothing"}


@pytest.mark.slow
@pytest.mark.parametrize("subject", CASES)
def test_adapter_keeps_the_contract(subject: Subject) -> None:
    names = {name.replace(" ", "_") for name in check_learner(subject.make, subject.contexts)}
    left_out = {check.__name__ for check in CHECKS} - names
    assert left_out == (set() if subject.contexts is random_actions else FOR_MATRICES)
