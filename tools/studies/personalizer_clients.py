"""Microsoft's clients of Azure Personalizer against a running service, by another address only.

    python -m tools.studies.personalizer_clients [--rounds 1000] [--seed 0] [--clients v1 v2]

The file is the one that `equipoise personalizer` makes of a configuration, so features are hashed. Three kinds of users
click on an action of their kind with probability .8, on others with .1. Every tenth event is deferred: its reward comes
before its activation. Every fortieth is never activated: if these were more than a twentieth, rewards would count for
the selector after the wait time only (`portfolio.held`). For each client it prints the mean reward of the last
half next to those of the best actions and of random ones, the plays of each learner, and how many decisions are open.
The exit code is 1 if an event is open that was rewarded and activated, if the service earns less than the middle of
random and best actions, or if the learner that does not see the user plays most.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np

from equipoise.serve.azure import portfolio_file
from equipoise.serve.client import Client
from equipoise.serve.tokens import add_token

KINDS = {"reader": "News", "fan": "Sports", "listener": "Music"}
MATCHING, OTHER = 0.8, 0.1  # probabilities of a click
RANDOM = (MATCHING + 2 * OTHER) / 3
ACTIONS = [{"id": id_, "features": [{"kind": id_.lower(), "length": k}]} for k, id_ in enumerate(KINDS.values())]
CONFIGURATION = {
    "rewardWaitTime": "PT10M",
    "defaultReward": 0,
    "rewardAggregation": "earliest",
    "explorationPercentage": 0.1,
}
Rank = Callable[[list[dict[str, Any]], bool], tuple[str, str]]  # context and whether it is deferred: event and action


class Calls(NamedTuple):
    """The calls of a client."""

    rank: Rank
    reward: Callable[[str, float], None]
    activate: Callable[[str], None]


def of_version_1(url: str, key: str) -> Calls:
    """Return the calls of `azure-cognitiveservices-personalizer`."""
    from msrest.authentication import CognitiveServicesCredentials

    personalizer: Any = import_module("azure.cognitiveservices.personalizer")
    client, models = personalizer.PersonalizerClient(url, CognitiveServicesCredentials(key)), personalizer.models

    def rank(context: list[dict[str, Any]], defer: bool) -> tuple[str, str]:
        actions = [models.RankableAction(id=each["id"], features=each["features"]) for each in ACTIONS]
        request = models.RankRequest(actions=actions, context_features=context, defer_activation=defer)
        answer = client.rank(request)
        check([(each.id, each.probability) for each in answer.ranking], answer.reward_action_id)
        return answer.event_id, answer.reward_action_id

    return Calls(rank, client.events.reward, client.events.activate)


def of_preview(url: str, key: str) -> Calls:
    """Return the calls of `azure-ai-personalizer`."""
    from azure.core.credentials import AzureKeyCredential

    client: Any = import_module("azure.ai.personalizer").PersonalizerClient(url, AzureKeyCredential(key))

    def rank(context: list[dict[str, Any]], defer: bool) -> tuple[str, str]:
        answer = client.rank({"actions": ACTIONS, "contextFeatures": context, "deferActivation": defer})
        check([(each["id"], each["probability"]) for each in answer["ranking"]], answer["rewardActionId"])
        return answer["eventId"], answer["rewardActionId"]

    return Calls(rank, lambda event, value: client.reward(event, {"value": value}), client.activate)


CLIENTS = {"v1": of_version_1, "v2": of_preview}


def check(ranking: list[tuple[str, float | None]], chosen: str) -> None:
    """Raise an error unless the chosen action comes first and all probabilities sum to 1."""
    chances = [chance for _, chance in ranking if chance is not None]
    if ranking[0][0] != chosen or len(chances) < len(ACTIONS) or abs(sum(chances) - 1.0) > 1e-6:
        raise SystemExit(f"the ranking is {ranking}, but {chosen} must come first and probabilities sum to 1")


def play(calls: Calls, rounds: int, seed: int) -> list[float]:
    """Play rounds, and return their rewards; every tenth is deferred, every fortieth is never activated."""
    rng, earned = np.random.default_rng(seed), list[float]()
    for t in range(rounds):
        kind = list(KINDS)[int(rng.integers(len(KINDS)))]
        event, action = calls.rank([{"user": {"kind": kind, "visits": t % 9}}, {"hour": t % 24}], t % 10 == 0)
        reward = float(rng.random() < (MATCHING if KINDS[kind] == action else OTHER))
        calls.reward(event, reward)
        if t % 10 == 0 and t % 40:
            calls.activate(event)
        earned.append(reward)
    return earned


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run `equipoise serve` on the file, and yield its address."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "news.toml").write_text(portfolio_file(json.dumps(CONFIGURATION), "news"))
    command = [sys.executable, "-m", "equipoise", "serve", str(folder / "news.toml"), "--data", str(folder)]
    with (folder / "log").open("wb") as log:
        service = subprocess.Popen([*command, "--port", str(port)], stderr=log)
    try:
        for _ in range(600):
            try:
                urlopen(f"http://127.0.0.1:{port}/readyz").close()
                break
            except URLError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        service.terminate()
        service.wait(60)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=list(CLIENTS))
    options, failed = parser.parse_args(), False
    for name in options.clients:
        with tempfile.TemporaryDirectory() as folder:
            key = add_token(Path(folder) / "tokens.json", "key", ["decide", "reward", "read"])
            with serving(Path(folder)) as url:
                earned = play(CLIENTS[name](url, key), options.rounds, options.seed)
                with Client(url, "news", token=key) as reader:
                    status = reader.status()
        late = float(np.mean(earned[len(earned) // 2 :]))
        plays = {row["name"]: row["plays"] for row in status["standing"]}
        open_, expected = status["health"]["open"], len(range(0, options.rounds, 40))
        print(
            f"{name}: {options.rounds} rounds, mean reward {np.mean(earned):.3f}, of the last half {late:.3f} "
            f"(best {MATCHING}, random {RANDOM:.3f}), plays {plays}, open {open_} of {expected} not activated"
        )
        failed |= open_ != expected or late < (MATCHING + RANDOM) / 2 or max(plays, key=plays.__getitem__) == "popular"
    sys.exit(failed)


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
