"""Numbers of many things that wait, in a fraction of the memory that an object for each would take.

Things have places: whole numbers from 0, which are given out in order. `Rows` holds a row of numbers at a place, in
blocks of bytes, which the garbage collector does not look into.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np

from equipoise.types import AnyArray

BLOCK = 256  # rows

Field = tuple[str, str] | tuple[str, str, int]  # name, code as in the module `struct`, number of entries if not one


class Layout:
    """The form of a row: fields one after the other, without gaps."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self.fields = tuple(fields)
        self.names = frozenset(name for name, *_ in self.fields)
        self._struct = struct.Struct(
            "<" + "".join(f"{rest[0] if rest else ''}{code}" for _, code, *rest in self.fields)
        )
        self.dtype = np.dtype(
            [(name, f"<{_CODES.get(code, code)}", *map(_shape, rest)) for name, code, *rest in self.fields]
        )
        self.width = self._struct.size
        self.pack, self.unpack_from, self.pack_into = (
            self._struct.pack,
            self._struct.unpack_from,
            self._struct.pack_into,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.fields,)

    def table(self, data: bytes) -> AnyArray:
        """Return a copy of packed rows as a structured array; a layout without fields has none."""
        return np.frombuffer(bytearray(data), self.dtype)

    def widened(self, table: AnyArray, more: Mapping[str, Sequence[Any]]) -> AnyArray:
        """Return rows of another layout in this one, with more entries in the fields that are named."""
        wider = np.zeros(len(table), self.dtype)
        for name, *_ in self.fields:
            if name in more:
                known = table.dtype[name].shape[0]
                wider[name][:, :known], wider[name][:, known:] = table[name], more[name]
            else:
                wider[name] = table[name]
        return wider


_CODES = {"q": "i8", "i": "i4", "h": "i2", "d": "f8", "B": "u1"}  # those of NumPy


def _shape(entries: int) -> tuple[int]:
    return (entries,)


class Rows:
    """Rows of numbers by their places. The first field is a mark of one byte, which is 0 where no row is."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._blocks: dict[int, bytearray] = {}
        self._lowest = 0  # number of the first block that may be there
        self._shared: set[int] = set()  # numbers of blocks that a frozen copy has too

    def mark(self, place: int) -> int:
        """Return the mark of the row at a place; 0 if there is none."""
        block = self._blocks.get(place // BLOCK)
        return 0 if block is None else block[place % BLOCK * self.layout.width]

    def write(self, place: int, *numbers: Any) -> None:
        """Write a row; `numbers` are all entries of all fields, one after the other."""
        self.layout.pack_into(self._own(place // BLOCK), place % BLOCK * self.layout.width, *numbers)

    def _own(self, k: int) -> bytearray:
        """Return a block that may be written to; made if it is not there, copied if a frozen copy has it."""
        block = self._blocks.get(k)
        if block is None:
            block = self._blocks[k] = bytearray(BLOCK * self.layout.width)
        elif k in self._shared:
            self._shared.discard(k)
            block = self._blocks[k] = bytearray(block)
        return block

    def read(self, place: int) -> tuple[Any, ...]:
        """Return all entries of all fields of a row that is there."""
        return self.layout.unpack_from(self._blocks[place // BLOCK], place % BLOCK * self.layout.width)

    def clear(self, place: int) -> None:
        """Let there be no row at a place."""
        if place // BLOCK in self._blocks:
            self._own(place // BLOCK)[place % BLOCK * self.layout.width] = 0

    def drop_before(self, place: int) -> None:
        """Forget the blocks whose places are all before this one."""
        while self._lowest < place // BLOCK:
            self._blocks.pop(self._lowest, None)
            self._shared.discard(self._lowest)
            self._lowest += 1

    def frozen(self) -> Self:
        """Return a copy that stays as it is; it shares blocks with this one until they change."""
        copy = type(self)(self.layout)
        copy._blocks, self._shared = dict(self._blocks), set(self._blocks)
        return copy

    def table(self, first: int, end: int) -> AnyArray:
        """Return a copy of the rows at the places from `first` up to `end` as a structured array."""
        if end <= first:
            return np.empty(0, self.layout.dtype)
        blank, blocks = bytes(BLOCK * self.layout.width), range(first // BLOCK, (end - 1) // BLOCK + 1)
        table = self.layout.table(b"".join([self._blocks.get(k, blank) for k in blocks]))
        return table[first % BLOCK : first % BLOCK + end - first]

    def load(self, first: int, table: AnyArray) -> None:
        """Write the rows of a structured array to the places from `first` on."""
        width, data = self.layout.width, table.tobytes()
        for k in range(first // BLOCK, (first + len(table) - 1) // BLOCK + 1) if len(table) else ():
            start = max(first, k * BLOCK)
            part = data[(start - first) * width : ((k + 1) * BLOCK - first) * width]
            block = self._own(k)
            block[start % BLOCK * width : start % BLOCK * width + len(part)] = part
