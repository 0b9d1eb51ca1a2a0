"""Names for the values that pass between learners, selectors, problems and portfolios."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Context: TypeAlias = Any  # what a decision is made on: whatever the learners of a portfolio understand
Action: TypeAlias = Any  # index into the offered actions; a vector on a continuous set; a policy in RL
Outcome: TypeAlias = Any  # what is learned from in place of the action, where there is more than it (a trajectory)

Array: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
AnyArray: TypeAlias = NDArray[Any]

Plain: TypeAlias = Any  # plain data: None, booleans, numbers, strings, arrays, and lists, tuples and dicts of these
Config: TypeAlias = dict[str, Plain]  # the arguments of a constructor
State: TypeAlias = dict[str, AnyArray]  # everything that was learned
