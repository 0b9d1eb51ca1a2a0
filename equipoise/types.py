"""Names for the values that pass between learners, selectors, problems and portfolios."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Context: TypeAlias = Any  # what a decision depends on; any value that the learners understand
Action: TypeAlias = Any  # an index into the available actions, a vector in a continuous set, or a policy in RL
Outcome: TypeAlias = Any  # what learners learn from instead of the action, if there is more (a trajectory)

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
AnyArray: TypeAlias = NDArray[Any]

Plain: TypeAlias = Any  # plain data: None, booleans, numbers, strings, arrays, and lists, tuples and dicts of these
Config: TypeAlias = dict[str, Plain]  # the arguments of a constructor
State: TypeAlias = dict[str, AnyArray]  # everything learned


class Later(NamedTuple):
    """A value that is made when it is needed, from what does not change any more."""

    make: Callable[[], Plain]
