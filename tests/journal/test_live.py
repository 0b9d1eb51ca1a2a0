"""A live portfolio has the methods of a portfolio."""

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise
from equipoise import Portfolio
from equipoise.journal import LivePortfolio
from equipoise.learners import OFUL

# Names of `Portfolio` that a live one does not have, and why.
NOT_LIVE = {
    **dict.fromkeys(("with_settings", "from_state", "load"), "`equipoise.open` makes one"),
    **dict.fromkeys(("apply", "give_fallback", "end_id_epoch", "rehearsal"), "of recovery and reloads"),
    "check_finished": "`redact` does it",
    "frozen": "snapshots use it",
    **dict.fromkeys(("declare", "declared_learners", "note_rule"), "`equipoise.open` does it"),
    "replay_log": "`warm_start` does it",
    **dict.fromkeys(("learners", "selector"), "their owner could change them without an event"),
    "on_elimination": "`on_event` delivers eliminations once they are durable",
}


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_live_portfolio_has_every_public_name_with_its_arguments() -> None:
    assert public(Portfolio) - public(LivePortfolio) == set(NOT_LIVE)
    for name in public(Portfolio) & public(LivePortfolio):
        ours, theirs = getattr(LivePortfolio, name), getattr(Portfolio, name)
        assert callable(ours) == callable(theirs) and ours.__doc__, name
        if callable(ours):
            assert list(signature(ours).parameters) == list(signature(theirs).parameters), name


def plain(value: Any) -> Any:
    """Return a value that can be compared: a history has no equality of its own, and nan in its samples."""
    return repr((value.samples, value.marks)) if hasattr(value, "samples") else value


def test_every_read_says_what_the_portfolio_says(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="needs the extra lab")
    rng = np.random.default_rng(0)
    with equipoise.open(tmp_path / "shop.db", lambda: Portfolio([OFUL(2, name="two"), OFUL(3, name="three")])) as live:
        for k in range(30):
            decision = live.decide(rng.uniform(-0.5, 0.5, (4, 3)))
            if k < 27:
                live.learn(decision, float(rng.random()))
        reads: dict[str, tuple[Any, ...]] = {
            **dict.fromkeys(("certificate", "standing", "statements", "describe", "to_json", "records"), ()),
            "open_decisions": (),
            "compare": ("two", "three"),
            "explain": ("two",),
            "counted": (0.5,),
            "regret_of": (decision.id, None),
        }
        for name, arguments in reads.items():
            theirs = live.transact(lambda portfolio, at, name=name: getattr(portfolio, name)(*reads[name]))
            np.testing.assert_equal(getattr(live, name)(*arguments), theirs, err_msg=name)
        for name in sorted(public(Portfolio) & public(LivePortfolio)):
            if isinstance(getattr(Portfolio, name), property):
                theirs = live.transact(lambda portfolio, at, name=name: getattr(portfolio, name))
                assert plain(getattr(live, name)) == plain(theirs), name
        live.plot(tmp_path / "shop.html")
        live.save(tmp_path / "shop.equipoise")
        assert "The selector is" in (tmp_path / "shop.html").read_text(encoding="utf-8")
        assert Portfolio.load(tmp_path / "shop.equipoise").pending == live.pending
        kept = live.history
        live.suspend("two")
        assert len(kept.marks) == 0 and len(live.history.marks) == 1  # a copy, which no thread changes
