"""A part without its kernels, and how runs with and without kernels are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from equipoise.kernels.records import state_columns


class Plain:
    """The same part without its kernels: a learner, problem or selector of a user's own."""

    def __init__(self, part: Any, **changed: Any) -> None:
        self._part = part
        self.__dict__.update(changed)

    def __getattr__(self, name: str) -> Any:
        if name in ("kernels", "episode_kernels"):
            raise AttributeError(name)
        return getattr(self._part, name)


def assert_same_states(learners: Sequence[Any], others: Sequence[Any], selector: Any, plain: Any) -> None:
    """Two runs ended in the same states of learners and selector, up to rounding."""
    for one, other in zip(learners, others, strict=True):
        for name, array in one.state().items():
            np.testing.assert_allclose(array, other.state()[name], rtol=1e-8, atol=1e-10, err_msg=name)
    ours, theirs = selector.state(), plain.state()
    for name in state_columns(selector.kernel_state):
        assert ours[name] == pytest.approx(theirs[name], rel=1e-8, abs=1e-12), name
