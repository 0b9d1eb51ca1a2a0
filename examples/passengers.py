"""From a data frame to a portfolio: strings, numbers and missing values as they are in the table.

Every row is a passenger of a ship like the Titanic: class, sex, age, fare, port and cabin, some of them missing. There
are two actions, the guesses, and the reward is 1 if the guess is right. `passengers` makes the table, so the
probability of every reward is known, and with it the regret: what the better guess gains over the guess that was made.

    python examples/passengers.py [ROUNDS] [SEEDS]

With more than one seed it prints the mean regret of the portfolio next to the regret of every learner alone.
"""

import os

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # before NumPy

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from equipoise import Portfolio
from equipoise.features import Category, Number, Schema
from equipoise.learners import OFUL, UCB, DisjointOFUL

GUESSES = ("died", "survived")
PORTS = ("Southampton", "Cherbourg", "Queenstown")


def passengers(n: int, seed: int) -> pl.DataFrame:
    """A table of passengers; `chance` is the probability that one survived, which no learner sees."""
    rng = np.random.default_rng([7, seed])
    ticket, sex = rng.choice([1, 2, 3], n, p=[0.25, 0.2, 0.55]), rng.choice(["female", "male"], n, p=[0.35, 0.65])
    age = np.where(rng.random(n) < 0.2, np.nan, np.clip(rng.normal(42 - 5 * ticket, 13, n), 0.5, 80).round(1))
    fare = np.exp(rng.normal(5.0 - ticket, 0.5, n)).round(2)
    cabin = np.where((ticket == 1) & (rng.random(n) < 0.8), rng.choice(["B", "C", "D"], n), "")
    port = np.where(rng.random(n) < 0.02, "", rng.choice(PORTS, n, p=[0.7, 0.2, 0.1]))
    older, pricier = np.where(np.isnan(age), 0.0, age - 30), fare - 30
    logit = 2.6 * (sex == "female") - 1.1 - 0.9 * (ticket - 2) - 0.035 * older + 0.004 * pricier
    chance = 1 / (1 + np.exp(-logit))
    survived = np.where(rng.random(n) < chance, "survived", "died")
    columns = {"class": ticket, "sex": sex, "age": age, "fare": fare, "port": port, "cabin": cabin}
    frame = pl.DataFrame({**columns, "survived": survived, "chance": chance})
    return frame.with_columns(pl.col("age").fill_nan(None), pl.col("port", "cabin").replace("", None))


def learners() -> list[Any]:
    return [OFUL(scale=0.1), OFUL(), DisjointOFUL(arms=2, scale=0.1), UCB(2)]


def play(frame: pl.DataFrame, learners: Sequence[Any]) -> tuple[Portfolio, float]:
    """Let a portfolio guess once for every row; return it with its regret."""
    # From the table to a portfolio that learns from it:
    context = {
        "class": Category([1, 2, 3]),
        "sex": Category(["female", "male"]),
        "port": Category(PORTS),
        "cabin": Category(hashed=4),
        "age": Number(),
        "fare": Number(),
    }
    portfolio = Portfolio(learners, schema=Schema(context, unknown="ignore"), action_names=GUESSES)
    guesses = []
    for row in frame.iter_rows(named=True):
        decision = portfolio.decide(row)
        portfolio.learn(decision, reward=float(decision.action_id == row["survived"]))
        guesses.append(decision.action)
    chance = frame["chance"].to_numpy()
    expected = np.where(np.array(guesses) == 1, chance, 1 - chance)
    return portfolio, float((np.maximum(chance, 1 - chance) - expected).sum())


def main() -> None:
    rounds, seeds = (int(number) for number in (*sys.argv[1:], *("3000", "1")[len(sys.argv) - 1 :]))
    if seeds == 1:
        portfolio, regret = play(passengers(rounds, seed=0), learners())
        print(portfolio.describe())
        print(f"The guesses gained {regret:.0f} rewards less than the better guess for every row of {rounds:,}.")
        return
    alone = {learner.name: k for k, learner in enumerate(learners())}
    regrets: dict[str, list[float]] = {name: [] for name in ("portfolio", *alone)}
    for seed in range(seeds):
        frame = passengers(rounds, seed)
        regrets["portfolio"].append(play(frame, learners())[1])
        for name, k in alone.items():
            regrets[name].append(play(frame, [learners()[k]])[1])
    for name, each in regrets.items():
        print(f"{name:<30} regret {np.mean(each):6.1f} (seeds: {', '.join(f'{regret:.0f}' for regret in each)})")


if __name__ == "__main__":
    main()
