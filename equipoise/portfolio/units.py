"""Units, and the decisions that they keep: a unit is who is asked, such as a visitor or a device.

Until the setting `sticky` has passed since its decision, a unit gets this decision again, and no round is drawn. Units
are known by digests. A decision is kept as bytes with its time, in the order of the times, so that old ones leave at
the front.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from math import inf
from typing import TypeAlias

from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.portfolio import old_forms
from equipoise.portfolio.inputs import n_offers
from equipoise.portfolio.tickets import Decision
from equipoise.storage.codec import check_savable, decode_body, encode_body
from equipoise.types import Context, Later, Plain

MAX_UNIT_LENGTH = 200  # characters
DIGEST_BYTES = 16
ENTRY_BYTES = 240  # of memory for a unit, in addition to its decision
MAX_LEAVING = 2  # old decisions that leave when one comes
MIN_REMOVED = 64  # entries, before the dict is made again without gaps

Kept: TypeAlias = tuple[float, bytes | Decision]  # the time of a decision; a policy has no bytes


def unit_key(unit: object, slot: int = 1) -> bytes:
    """Return the key of a unit, for a slot of its slates; raise an error if the unit is invalid."""
    if not isinstance(unit, str) or not 0 < len(unit) <= MAX_UNIT_LENGTH or not unit.isprintable():
        rule = f"must be a printable string of 1 to {MAX_UNIT_LENGTH} characters"
        raise InvalidArgument(f"unit is {unit!r:.80}, but {rule}")
    text = unit if slot == 1 else f"{unit}\n{slot}"  # no unit has a line break
    return sha256(text.encode()).digest()[:DIGEST_BYTES]


def as_offered(decision: Decision, context: Context) -> Decision | None:
    """Return a decision with the index that its action has in this context; None if the context does not offer it.

    Actions with ids are known by these, other ones by their indices.
    """
    action, ids = decision.action, context.ids if isinstance(context, Offers) else None
    if (decision.action_id is None) != (ids is None):
        return None
    if ids is not None:
        if decision.action_id not in ids:
            return None
        action = ids.index(decision.action_id)
    n_actions = n_offers(context)
    if n_actions is not None and (type(action) is not int or action >= n_actions):
        return None
    if isinstance(context, Offers) and context.mask is not None and not context.mask[action]:
        return None
    return decision if action is decision.action else decision._replace(action=action)


class Units:
    """The decisions that units keep, the oldest first."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Kept] = {}
        self._removed = 0  # since the dict has no gaps, which the search for the first entry would pass
        self.nbytes = 0  # of memory, about

    def __len__(self) -> int:
        return len(self._kept)

    def __repr__(self) -> str:
        return f"Units({len(self)} units)"

    def find(self, key: bytes, since: float) -> Decision | None:
        """Return the decision of a unit if it was made after a time."""
        time, data = self._kept.get(key, (-inf, b""))
        if time <= since:
            return None
        return Decision(*old_forms.decision(decode_body(data))) if isinstance(data, bytes) else data

    def keep(self, key: bytes, decision: Decision, time: float, since: float) -> None:
        """Keep a decision for a unit; some of those that were made until a time before leave."""
        self._remove(key)
        self._add(key, (time, _packed(decision)))
        for _ in range(MAX_LEAVING):
            oldest = next(iter(self._kept))
            if self._kept[oldest][0] > since:
                break
            self._remove(oldest)
        if self._removed > MIN_REMOVED + len(self._kept) // 16:
            self._kept, self._removed = dict(self._kept), 0

    def end(self, key: bytes, id_: str) -> None:
        """Forget the decision of a unit if it is the one with this id."""
        kept = self.find(key, -inf)
        if kept is not None and kept.id == id_:
            self._remove(key)

    def clear(self) -> None:
        """Forget all decisions."""
        self._kept, self._removed, self.nbytes = {}, 0, 0

    def frozen(self) -> Later:
        """Return the rows of a saved state, made later."""
        return Later(partial(_rows, list(self._kept), list(self._kept.values())))

    def restore(self, rows: Iterable[Plain]) -> None:
        self.clear()
        for key, time, data in rows:
            self._add(key, (time, data))

    def _add(self, key: bytes, kept: Kept) -> None:
        self._kept[key] = kept
        self.nbytes += _size(kept)

    def _remove(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self.nbytes -= _size(kept)
            self._removed += 1


def _rows(keys: Iterable[bytes], kept: Iterable[Kept]) -> list[Plain]:
    """Return rows that an archive can hold; a policy is not saved, so its unit gets a new round."""
    each = zip(keys, kept, strict=True)
    return [(key, time, data) for key, (time, data) in each if isinstance(data, bytes)]


def _packed(decision: Decision) -> bytes | Decision:
    try:
        check_savable(decision.action, "action")
    except InvalidArgument:
        return decision
    return encode_body(decision.to_row())


def _size(kept: Kept) -> int:
    return ENTRY_BYTES + (len(kept[1]) if isinstance(kept[1], bytes) else 0)
