"""Migrations of saved files: what changed since a release, applied to the content of a file when it is read.

Each function takes class name, settings and state as in a file of that release and returns them in the current form.
"""

from __future__ import annotations

import numpy as np

from equipoise.types import Config, State

# Selectors whose state has contained that of `evidence`, under this prefix, since 0.2.
NESTED_SINCE_0_2 = frozenset(
    {
        "AdversarialElimination",
        "Corral",
        "D3RB",
        "DynamicBalancing",
        "ED2RB",
        "EXP3",
        "EpochBalancing",
        "ExploreCommitExploit",
        "RateAdaptive",
        "RealizedBalancing",
        "StochasticCorral",
        "StochasticEXP3P",
        "TsallisCorral",
        "UCB1",
        "UCBC",
    }
)

# Selectors that called the number of rounds their horizon until 0.2.
ROUNDS_SINCE_0_2 = frozenset({"Corral", "EXP3", "StochasticCorral", "StochasticEXP3P", "TsallisCorral", "UCBC"})

# Settings that selectors did not have in files of versions 1 and 2, with the values that are what they did then.
SINCE_VERSION_3: dict[str, Config] = {
    "AdversarialElimination": {"rounds": None},
    "BalancedElimination": {"delta_weights": None, "trusted": None, "same_round": False},
    "Corral": {"radius": "stitched"},
    "EpochBalancing": {"rounds": None},
    "RealizedBalancing": {"head_start": 150.0},
    "StochasticCorral": {"radius": "stitched"},
    "StochasticEXP3P": {"radius": "stitched"},
    "TsallisCorral": {"radius": "stitched"},
    "UCBC": {"radius": "stitched"},
}


def selector_state_0_1(class_name: str, config: Config, state: State) -> tuple[str, Config, State]:
    """A selector as saved by release 0.1; other classes are returned unchanged."""
    if class_name == "StochasticCorral":
        class_name, config = _one_class_per_rule(config)
        state = {**state, "policies.previous": state["policies.kept"].copy()}
    if class_name in ROUNDS_SINCE_0_2:
        config = {"rounds" if name == "horizon" else name: value for name, value in config.items()}
    if class_name == "RealizedBalancing":
        config = {"bounds": None, **config}
    if class_name in ("EpochBalancing", "AdversarialElimination"):
        state = _with_proposals(state)
    state = {"ledger.credited" if name == "ledger.booked" else name: array for name, array in state.items()}
    if class_name in NESTED_SINCE_0_2:
        inside = ("accounts.", "pool.")
        state = {f"evidence.{name}" if name.startswith(inside) else name: array for name, array in state.items()}
    return class_name, config, state


def _one_class_per_rule(config: Config) -> tuple[str, Config]:
    """In 0.1, `master` chose between CORRAL and EXP3.P; only the latter has a floor."""
    settings = {name: value for name, value in config.items() if name != "master"}
    if config.get("master") == "exp3p":
        return "StochasticEXP3P", settings
    return "StochasticCorral", {name: value for name, value in settings.items() if name != "floor"}


def _with_proposals(state: State) -> State:
    """In 0.1, each open round was one row of numbers: the epoch, and the lower bound and regret of every learner."""
    unchanged = {name: array for name, array in state.items() if name != "ledger.notes"}
    notes, learners = state["ledger.notes"], state["ledger.learners"]
    n_learners = len(state["ledger.last_tickets"])
    lowers, regrets = notes[:, 1 : 1 + n_learners], notes[:, 1 + n_learners :]
    nobody, unknown = np.full(lowers.shape, -1, np.int64), np.full(lowers.shape, np.nan)
    return {
        **unchanged,
        "ledger.epochs": notes[:, 0].astype(np.int64),
        "ledger.observed": ~np.isnan(lowers[np.arange(len(notes)), learners]),
        "ledger.proposals.actions": nobody,
        "ledger.proposals.greedy": nobody.copy(),
        "ledger.proposals.lowers": lowers.copy(),
        "ledger.proposals.regrets": regrets.copy(),
        "ledger.proposals.probabilities": unknown,
        "ledger.proposals.values": unknown.copy(),
    }


def portfolio_0_1(saved: Config) -> Config:
    """A portfolio as saved by release 0.1."""
    selector = saved["selector"]
    if selector["ours"]:
        names = ("class", "config", "state")
        selector = selector | dict(zip(names, selector_state_0_1(*map(selector.get, names)), strict=True))
    return {**saved, "selector": selector}


def portfolio_0_2(saved: Config) -> Config:
    """A portfolio as saved by release 0.2: decisions were numbered, and there were no failures and no late learners."""
    settings = {
        **saved["settings"],
        "aggregate": "first",
        "window": None,
        "fallback": None,
        "explore": 0.0,
        "availability": "any",
    }
    rows = [_ticket_0_2(row) for row in saved["tickets"]]
    open_ids = {row["id"] for row in saved["tickets"] if row["open"]}
    last = saved["next_id"] - 1
    return {
        **{name: saved[name] for name in ("learners", "selector")},
        "members": [_member_0_2(row["name"]) for row in saved["learners"]],
        "settings": settings,
        "fallback_is_function": False,
        "round": last,
        "expired_round": max(saved["defaulted"], default=0),
        "time": 0.0,
        "counts": {"unplayed": 0, "fallbacks": 0, "withdrawn": 0, "expired": 0, "ignored": 0},
        "ids": {"epochs": [], "integers": last},
        "callers": [],
        "kept": saved.get("kept", []),
        "tickets": [row for row in rows if row["id"] in open_ids],
        "teaching": {
            "sharing": saved["sharing"],
            "agreeing": [],
            "tickets": [row for row in rows if row["id"] not in open_ids],
            "queues": saved["queues"],
            "failed": [],
            "forgotten": 0,
        },
    }


def _ticket_0_2(row: Config) -> Config:
    unchanged = {
        name: row[name] for name in ("id", "choice", "context", "action", "regret", "outcome", "reward", "taught")
    }
    unknown = float("nan")
    new = {"round": row["id"], "time": 0.0, "probabilities": (unknown, unknown), "agreed": (), "rewards": {}}
    return {**unchanged, **new, "others": row.get("others", [])}


def _member_0_2(name: str) -> Config:
    counts = dict.fromkeys(
        ("paused_until", "pause", "failing_decisions", "failing_lessons", "successes", "failures"), 0
    )
    return {"name": name, "suspended": False, "last_error": "", **counts}


def version_2(kind: str, saved: Config) -> Config:
    """A part or portfolio as in files of version 2: what was saved keeps the radius that it was saved with."""
    return _with_settings(saved) if kind == "part" else {**saved, "selector": _with_settings(saved["selector"])}


def _with_settings(part: Config) -> Config:
    added = SINCE_VERSION_3.get(part["class"], {}) if part["ours"] else {}
    return {**part, "config": {**added, **part["config"]}}


def with_saved_rule(kind: str, saved: Config) -> Config:
    """A part or portfolio whose `RealizedBalancing` continues under its first rule if it was saved before the second.

    There were files of version 3 before there was a second rule, so it is the setting that tells, not the version.
    """
    if kind == "portfolio":
        return {**saved, "selector": with_saved_rule("part", saved["selector"])}
    if saved["class"] == "RealizedBalancing" and saved["ours"] and "rule" not in saved["config"]:
        return {**saved, "config": {**saved["config"], "rule": 1}}
    return saved
