"""Writes the recorded journal and file of format version 1: `python -m tests.journal.golden`.

Releases must open both as they are. Write new ones, with a new number, only together with a migration of these.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import equipoise
from equipoise import Portfolio
from equipoise.journal import SQLiteJournal, digest, rebuild
from equipoise.learners import UCB, EpsilonGreedy
from equipoise.portfolio.warm_start import LoggedRound

RECORDED = Path(__file__).parents[1] / "recorded"
JOURNAL, FILE, DIGESTS = RECORDED / "journal-1.db", RECORDED / "portfolio-1.equipoise", RECORDED / "golden-1.json"
START = 1.7e9  # seconds


class Flaky(UCB):
    """Fails to learn from some rewards; not registered, so a reader must give it."""

    def learn(self, context: Any, action: Any, reward: float, weight: float = 1.0) -> None:
        if reward == 0.125:
            raise ValueError("an eighth")
        super().learn(context, action, reward, weight)


def make() -> Portfolio:
    return Portfolio(
        [UCB(3), Flaky(3, scale=0.5, name="flaky"), EpsilonGreedy(3, epsilon=0.1)],
        seed=5,
        deadline="1h",
        default_reward=0.0,
        fallback=1,
        explore=0.05,
    )


def play(live: Any) -> None:
    """Events of all kinds."""
    live.warm_start([LoggedRound(None, k % 3, 0.5, 1 / 3) for k in range(6)], learners=["UCB"])
    rng, waiting = np.random.default_rng(1), []
    for t in range(60):
        at = START + 60.0 * t
        decision = live.decide(None, id=f"order {t}" if t % 4 == 0 else None, at=at)
        if t % 10 == 7:
            waiting.append(decision)
        elif t % 10 == 8:
            live.withdraw(decision)
        elif t % 10 != 9:
            live.learn(decision, 0.125 if t % 9 == 1 else float(rng.integers(0, 5)) / 4, at=at + 1.0)
    for decision in waiting[::-1]:
        live.learn(decision, 0.75, at=START + 3600.0)
    live.retry_updates()
    live.suspend("UCB")
    live.decide(None, at=START + 3700.0)
    live.resume("UCB")
    live.add_learner(UCB(3, scale=2.0, name="late"))
    live.rename_learner("late", "newest")
    live.reconfigure(explore=0.0, fallback=2)
    live.transact(lambda portfolio, at: portfolio.declare(replace(portfolio.declared, explore=0.0)))
    live.remove_learner(live.learner_names[2])
    live.expire(at=START + 9000.0)
    for t in range(20):
        live.learn(live.decide(None, at=START + 9100.0 + t), 0.5, at=START + 9100.0 + t)
    live.decide(None, id="open", at=START + 9200.0)


def main() -> None:
    JOURNAL.unlink(missing_ok=True)
    with equipoise.open(JOURNAL, make) as live:
        play(live)
    journal = SQLiteJournal(JOURNAL, create=False)
    portfolio = rebuild(journal, make()).portfolio
    journal.close()
    portfolio.save(FILE)
    for end in ("-wal", "-shm", ".lock"):
        Path(f"{JOURNAL}{end}").unlink(missing_ok=True)
    DIGESTS.write_text(json.dumps({"digest": digest(portfolio), "pending": list(portfolio.pending)}) + "\n")


if __name__ == "__main__":
    main()
