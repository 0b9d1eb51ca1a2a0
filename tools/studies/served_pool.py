"""A pool of learners of several libraries behind HTTP: who plays, what a kill changes, and whether its journal replays.

python -m tools.studies.served_pool [--rounds 3000] [--folder build/served_pool]

OFUL, UCB, VW, SGD, LightGBM and River get the same requests: named features, of which one of each side is a category.
One process is never stopped; another one is killed, ended properly, and killed again. Both must give the same answers.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from equipoise import config as configuration
from equipoise.logs import open_log
from equipoise.logs.replay import replay, replay_portfolio, summarize
from equipoise.serve import Client
from tools.main import run_command

NAME = "shop"
FILE = """
version = 1
name = "shop"
explore = 0.05
[reward]
range = [0, 1]
[context]
device = { type = "category", values = ["phone", "desktop"] }
age = { type = "number", low = 0, high = 100 }
[actions.features]
color = { type = "category", values = ["red", "green", "blue"] }
price = { type = "number", low = 0, high = 10 }
[[learner]]
use = "OFUL"
[[learner]]
use = "UCB"
arms = 8
[[learner]]
use = "VW"
name = "VW"
options = "--squarecb"
[[learner]]
use = "Exploring"
name = "SGD"
model = { use = "Sklearn", estimator = { use = "linear_model.SGDRegressor", eta0 = 0.05 } }
[[learner]]
use = "Exploring"
name = "LightGBM"
model = { use = "LightGBM", window = 500, every = 100, lag = 20 }
exploration = { use = "InverseGap", scale = 20.0 }
[[learner]]
use = "Exploring"
name = "River"
model = { use = "River", regressor = { use = "linear_model.LinearRegression" } }
exploration = { use = "Softmax", temperature = 0.1 }
"""
COLORS = ("red", "green", "blue")


class Answer(NamedTuple):
    learner: str | None
    drawn: int | None
    action: str | None
    propensity: float
    reward: float


class Outcome(NamedTuple):
    answers: list[Answer]
    status: dict[str, Any]  # of the portfolio at the end


def request(t: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return context and offers of a round: 2 to 5 of eight items."""
    rng = random.Random(t)
    items = rng.sample(range(8), rng.randint(2, 5))
    offers = [
        {"id": f"item {k}", "features": {"color": COLORS[k % 3], "price": round(10 * rng.random(), 3)}} for k in items
    ]
    return {"device": rng.choice(["phone", "desktop"]), "age": round(100 * rng.random(), 1)}, offers


def reward_of(t: int, context: Mapping[str, Any], features: Mapping[str, Any]) -> float:
    """Return a click: on a phone red items sell, on a desktop green ones, and no blue ones."""
    fits = features["color"] == {"phone": "red", "desktop": "green"}[context["device"]]
    mean = 0.2 + 0.5 * fits - 0.015 * features["price"] + 0.001 * context["age"]
    return float(random.Random(f"reward of {t}").random() < mean)


class Process:
    """`equipoise serve` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "pool.toml"
        self._file.write_text(FILE)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.client = Client(f"http://127.0.0.1:{self._port}", NAME)
        self.start()

    def start(self) -> None:
        arguments = ["serve", str(self._file), "--data", str(self.folder / "data"), "--port", str(self._port)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([sys.executable, "-m", "equipoise", *arguments], stdout=log, stderr=log)
        for _ in range(1_200):
            try:
                self.get("/readyz")
            except OSError:
                if self._process.poll() is not None:
                    raise RuntimeError((self.folder / "log").read_text()[-2_000:]) from None
                time.sleep(0.1)
            else:
                return
        raise TimeoutError("the service is not ready after two minutes")

    def stop(self, number: signal.Signals) -> None:
        self.client.close()
        self._process.send_signal(number)
        self._process.wait(60)

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
            return json.load(answer)


def play(folder: Path, rounds: int, stops: Mapping[int, signal.Signals]) -> Outcome:
    """Play rounds over HTTP; before some of them the process is stopped by a signal and started again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    process, answers = Process(folder), []
    try:
        for t in range(rounds):
            if t in stops:
                process.stop(stops[t])
                process.start()
            context, offers = request(t)
            decision = process.client.decide(context, offers=offers, id=f"d{t}")
            (chosen,) = (offer for offer in offers if offer["id"] == decision.action_id)
            reward = reward_of(t, context, chosen["features"])
            process.client.reward(decision.id, reward)
            answers.append(
                Answer(decision.learner_name, decision.drawn, decision.action_id, decision.propensity, reward)
            )
        return Outcome(answers, process.get(f"/v1/portfolios/{NAME}"))
    finally:
        process.stop(signal.SIGTERM)


def compare(folder: Path, rounds: int) -> dict[str, Any]:
    """Return who played, how many answers a kill changed, and what the journal says about the same learners."""
    third = rounds // 3
    stops = {third: signal.SIGKILL, 2 * third: signal.SIGTERM, 2 * third + 20: signal.SIGKILL}
    control, stopped = play(folder / "control", rounds, {}), play(folder / "stopped", rounds, stops)
    differing = sum(one != other for one, other in zip(control.answers, stopped.answers, strict=True))
    same = all(control.status[part] == stopped.status[part] for part in ("standing", "certificate"))
    log, config = open_log(folder / "stopped" / "data" / f"{NAME}.db"), configuration.read(folder / "stopped/pool.toml")
    values = {
        method: {
            row.name: round(row.value, 3)
            for row in summarize(replay(log, config.learners(), method=method, reward_range=(0, 1)))
        }
        for method in ("progressive", "rejection")
    }
    by_rejection = replay_portfolio(log, config.portfolio())
    return {
        "plays": dict(Counter(str(answer.learner) for answer in control.answers)),
        "refused": sum(row["refused"] for row in control.status["health"]["learners"]),
        "failures": sum(row["failures"] for row in control.status["health"]["learners"]),
        "differing answers": differing,
        "same standing and certificate": same,
        "rounds in the log": log.n_rounds,
        "values": values,
        "rounds of the portfolio by rejection": len(by_rejection.rewards),
        "warm start": [row.rounds for row in config.portfolio().warm_start(log).learners],
    }


def main(rounds: int = 3_000, folder: Path = Path("build/served_pool")) -> None:
    for name, value in compare(folder, rounds).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    run_command(main)
