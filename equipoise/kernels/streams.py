"""Random streams that can start at any round: Philox with key (seed, lane) and the round as its counter.

Philox is counter based, so the numbers of round t do not depend on how many were drawn before it. A run can therefore
be resumed, extended, retried or split over processes without saving any generator state.
Reference: Salmon, Moraes, Dror and Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3".

Creating a generator for each round would cost more than the round itself, so one generator is moved by writing to its
counter. NumPy exposes the address of this state but not its layout; `open_stream` checks the layout against the state
that NumPy reports and raises an error if it is different.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import EquipoiseError
from equipoise.kernels.marks import kernel

# Each lane is an independent stream. Learner i draws from LEARNERS + i and, on tapes, its problem from CONTEXTS + i and
# REWARDS + i.
INSTANCE = 1
SELECTOR = 2
CONTEXTS = 1 << 20
REWARDS = 2 << 20
LEARNERS = 3 << 20
RESAMPLING = 4 << 20  # weights and samples of updates, by a learner with a stream of its own


class Stream(NamedTuple):
    """A generator and views of the state that determines its position."""

    generator: np.random.Generator
    key: NDArray[np.uint64]  # (seed, lane)
    counter: NDArray[np.uint64]  # the last of the four cells holds the round
    buffered: NDArray[np.int32]  # position in the block of four words; 4 means used up
    half_used: NDArray[np.int32]  # whether a 32-bit half word is left over

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy needs a new generator: copied views would not refer to the copied generator.
        return open_stream, (int(self.key[0]),)


def open_stream(seed: int) -> Stream:
    """A stream with this seed, at lane 0 and round 0."""
    generator = np.random.Generator(np.random.Philox(key=np.array([seed, 0], np.uint64)))
    address = generator.bit_generator.ctypes.state_address
    counter_address, key_address = (ctypes.c_uint64 * 2).from_address(address)
    stream = Stream(
        generator,
        _view(key_address, ctypes.c_uint64, 2),
        _view(counter_address, ctypes.c_uint64, 4),
        _view(address + 16, ctypes.c_int32, 1),
        _view(address + 56, ctypes.c_int32, 1),
    )
    _check_layout(stream, seed)
    seek(stream, 0, 0)
    return stream


@kernel
def seek(stream: Stream, lane: int, round_: int) -> None:
    """Move the stream to the first number of a round of a lane."""
    stream.key[1] = lane
    stream.counter[0] = 0
    stream.counter[1] = 0
    stream.counter[2] = 0
    stream.counter[3] = round_
    stream.buffered[0] = 4
    stream.half_used[0] = 0


def generator_at(seed: int, lane: int, round_: int = 0) -> np.random.Generator:
    """A new generator at a round of a lane, for use outside the round loop."""
    key, counter = np.array([seed, lane], np.uint64), np.array([0, 0, 0, round_], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def _view(address: int, kind: Any, size: int) -> NDArray[Any]:
    return np.ctypeslib.as_array((kind * size).from_address(address))


def _check_layout(stream: Stream, seed: int) -> None:
    stream.generator.integers(2**32, dtype=np.uint32)  # fills the block and leaves half a word over
    before = stream.generator.bit_generator.state
    as_expected = stream.buffered[0] == before["buffer_pos"] and stream.half_used[0] == before["has_uint32"] == 1
    seek(stream, 5, 7)
    after = stream.generator.bit_generator.state
    expected = {"counter": [0, 0, 0, 7], "key": [seed, 5]}
    actual = {name: [int(word) for word in after["state"][name]] for name in expected}
    if not as_expected or actual != expected or after["buffer_pos"] != 4 or after["has_uint32"] != 0:
        raise EquipoiseError(
            f"NumPy {np.__version__} stores the state of Philox in a layout that equipoise does not support"
        )
