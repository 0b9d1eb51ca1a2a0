"""Times of adapters beside their libraries' own calls, and whether they resume exactly.

    python -m tools.bench.adapters [ROUNDS]

Bare calls and the adapter take turns in blocks of rounds, so that a busy machine slows both; medians over pairs of
blocks of the time of the processor are shown. The adapters of scikit-learn and VW save the libraries work that the bare
calls, written as a user would, repeat (checks of numbers, look-ups), so a difference may be negative. Fits that a
service would run in another thread run in this one, as those of the bare calls do. Resuming saves a learner to a file
in mid run, loads it and plays on beside the original.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from equipoise import load, save
from equipoise.adapters import VW, Epsilon, Exploring, LightGBM, MABWiser, River, Sklearn, XGBoost
from equipoise.types import Array

DIM, N_ACTIONS = 32, 20
BLOCK, N_BLOCKS = 32, 96
WINDOW, EVERY, LAG, TREES = 2_048, 256, 64, 20
Round = Callable[[Array, float, float], None]  # (offered actions, uniform number, reward)


class Contest(NamedTuple):
    """A library: its own calls for one round, and the adapter that makes the same ones."""

    name: str
    package: str
    bare: Callable[[], Round] | None
    adapter: Callable[[], Any]
    context: str = "matrix"  # or "vector" or "none"
    block: int = BLOCK  # rounds before the other's turn: as many as there are from fit to fit


def bare_sgd() -> Round:
    from sklearn.linear_model import SGDRegressor

    model = SGDRegressor().partial_fit(np.zeros((1, DIM)), [0.0])

    def play(actions: Array, number: float, reward: float) -> None:
        action = int((actions @ model.coef_ + model.intercept_[0]).argmax())
        model.partial_fit(actions[action : action + 1], [reward])

    return play


def bare_vw() -> Round:
    from vowpalwabbit import Workspace

    workspace = Workspace("--cb_explore_adf --quiet --cb_min_cost -1 --cb_max_cost 0 --squarecb")
    names = [f"x{column}" for column in range(DIM)]

    def play(actions: Array, number: float, reward: float) -> None:
        examples = [workspace.example({"f": list(zip(names, row, strict=True))}) for row in actions.tolist()]
        for example in examples:
            example.setup_example()
        probabilities = workspace.predict(examples)
        action = int(number * len(actions))
        examples[action].set_label_string(f"0:{-reward}:{probabilities[action]}")
        workspace.learn(examples)
        workspace.finish_example(examples)

    return play


def bare_lightgbm() -> Round:
    import lightgbm

    settings = {"deterministic": True, "force_row_wise": True, "num_threads": 1, "verbosity": -1}
    rows: list[Array] = []
    rewards: list[float] = []
    model: Any = None

    def play(actions: Array, number: float, reward: float) -> None:
        nonlocal model
        action = int(number * len(actions)) if model is None else int(model.predict(actions, num_threads=1).argmax())
        rows.append(actions[action])
        rewards.append(reward)
        if len(rows) % EVERY == 0:
            data = lightgbm.Dataset(np.array(rows[-WINDOW:]), rewards[-WINDOW:])
            model = lightgbm.train(settings, data, TREES)

    return play


def vw(options: str) -> Contest:
    return Contest(f"VW {options}", "vowpalwabbit", None, lambda: VW(options, dim=DIM))


def mab_wiser(policy: str, context: str) -> Contest:
    make = lambda: MABWiser({"arms": list(range(5)), "policy": policy})  # noqa: E731
    return Contest(f"MABWiser {policy}", "mabwiser", None, make, context)


CONTESTS = (
    Contest(
        "scikit-learn SGDRegressor",
        "sklearn",
        bare_sgd,
        lambda: Exploring(Sklearn({"class": "linear_model.SGDRegressor"}, dim=DIM)),
    ),
    Contest(
        "scikit-learn MLPRegressor",
        "sklearn",
        None,
        lambda: Exploring(Sklearn({"class": "neural_network.MLPRegressor", "hidden_layer_sizes": [8]}, dim=DIM)),
    ),
    Contest(
        "scikit-learn SGDClassifier",
        "sklearn",
        None,
        lambda: Exploring(Sklearn({"class": "linear_model.SGDClassifier", "loss": "log_loss"}, dim=DIM)),
    ),
    Contest("VW --squarecb", "vowpalwabbit", bare_vw, lambda: VW("--squarecb", dim=DIM)),
    *(vw(options) for options in ("--regcb", "--regcbopt", "--epsilon 0.1", "--softmax")),
    Contest(
        "LightGBM",
        "lightgbm",
        bare_lightgbm,
        lambda: Exploring(LightGBM(dim=DIM, window=WINDOW, every=EVERY, lag=LAG, trees=TREES), Epsilon(0.1)),
        block=EVERY,
    ),
    Contest("XGBoost", "xgboost", None, lambda: Exploring(XGBoost(dim=DIM, window=256, every=EVERY, lag=LAG))),
    Contest(
        "River LinearRegression",
        "river",
        None,
        lambda: Exploring(River({"class": "linear_model.LinearRegression"}, dim=DIM)),
    ),
    *(mab_wiser(policy, "vector") for policy in ("LinUCB", "LinTS", "LinGreedy")),
    *(mab_wiser(policy, "none") for policy in ("UCB1", "Softmax")),
)


def inputs(rng: np.random.Generator, kind: str = "matrix") -> tuple[Any, float, float]:
    rows = rng.standard_normal((N_ACTIONS, DIM)) / DIM
    context = {"matrix": rows, "vector": rows[0, :5].copy(), "none": None}[kind]
    return context, float(rng.random()), float(rng.random())


class Inline(Executor):
    """Performs at once what is submitted."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **options))
        return future


def adapted(learner: Any) -> Round:
    rng = np.random.default_rng(1)

    def play(actions: Array, number: float, reward: float) -> None:
        learner.learn(actions, learner.decide(actions, rng).action, reward)

    return play


def seconds(play: Round, rounds: list[tuple[Array, float, float]]) -> float:
    start = time.thread_time()
    for each in rounds:
        play(*each)
    return (time.thread_time() - start) / len(rounds)


def overhead(contest: Contest) -> str:
    """Microseconds per round of bare calls and of the adapter, in turns."""
    players = [contest.bare() if contest.bare else None, adapted(contest.adapter())]
    times: list[list[float]] = [[], []]
    rng = np.random.default_rng(0)
    for _ in range(max(24, N_BLOCKS * BLOCK // contest.block)):
        rounds = [inputs(rng, contest.context) for _ in range(contest.block)]
        for player, measured in zip(players, times, strict=True):
            if player is not None:
                measured.append(1e6 * seconds(player, rounds))
    adapter = np.array(times[1][1:])
    if not times[0]:
        return f"{np.median(adapter):8.0f}"
    bare = np.array(times[0][1:])
    more, share = np.median(adapter - bare), np.median(adapter / bare) - 1
    return f"{np.median(adapter):8.0f} {np.median(bare):8.0f} {more:+8.1f} {100 * share:+7.1f} %"


def resumes_exactly(contest: Contest, n_rounds: int) -> bool:
    """Whether a learner that is loaded from a file in mid run plays on as the original does, to the last bit."""
    learner, rng = contest.adapter(), np.random.default_rng(2)
    rounds = [inputs(rng, contest.context) for _ in range(n_rounds)]

    def play(player: Any, part: range) -> list[str]:
        proposals = []
        for t in part:
            actions, _, reward = rounds[t]
            proposals.append(player.decide(actions, np.random.default_rng([t])))
            player.learn(actions, proposals[-1].action, reward)
        return [repr(proposal) for proposal in proposals]

    saved_at = n_rounds // 2 // EVERY * EVERY + LAG // 2  # a fit has started and is not in effect yet
    play(learner, range(saved_at))
    with tempfile.TemporaryDirectory() as folder:
        save(learner, Path(folder, "learner.eqp"))
        loaded = load(Path(folder, "learner.eqp"))
    rest = range(saved_at, n_rounds)
    return play(learner, rest) == play(loaded, rest) and bool(learner == loaded)


def main() -> None:
    n_rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"{DIM} features, {N_ACTIONS} actions; microseconds of the processor per round")
    print(f"{'':<28} {'adapter':>8} {'bare':>8} {'more':>8} {'':>9}  exact after {n_rounds:,} rounds")
    for contest in CONTESTS:
        if find_spec(contest.package) is None:
            print(f"{contest.name:<28} {contest.package} is not installed")
            continue
        with patch("equipoise.adapters.models.boosted_trees._pool", Inline):
            times = overhead(contest)
        print(f"{contest.name:<28} {times:<36}  {resumes_exactly(contest, n_rounds)}", flush=True)


if __name__ == "__main__":
    main()
