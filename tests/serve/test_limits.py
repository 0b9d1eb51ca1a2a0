"""Bounds in bytes: what waits for rewards, for a portfolio and for a token, and the state of learners."""

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from equipoise import Portfolio
from equipoise.bounds import Observed
from equipoise.errors import InvalidArgument
from equipoise.features import Offers
from equipoise.learners import OFUL, UCB
from equipoise.portfolio.updates import BYTES_OF_DECISION, size_of
from equipoise.selectors import BalancedElimination, RealizedBalancing
from equipoise.serve.failures import TooManyOpen
from equipoise.serve.hosted import Hosted, Limits
from equipoise.serve.service import Settings
from equipoise.serve.tokens import Token, Tokens, digest_of
from tests.serve.served import ARMS, COLORS, LINEAR, client, service_of

DECIDE = "/v1/portfolios/linear/decide"
ZEROS = {"context": [[0] * 50] * 40}  # 16 kB as an array
SIZE = BYTES_OF_DECISION + 50 * 40 * 8


def check_full(answer: Any, *words: str) -> None:
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["type"].endswith("too-many-open")
    assert [word for word in words if word not in answer.json()["detail"]] == [], answer.json()["detail"]


def open_bytes(service: TestClient, name: str = "linear") -> int:
    return int(service.get(f"/v1/portfolios/{name}").json()["health"]["open_bytes"])


def test_large_contexts_cannot_fill_the_memory(tmp_path: Path) -> None:
    """The reported attack: bodies of zeros, each a large array, and a limit that counts decisions only."""
    limits = Settings(max_open_bytes=5 * SIZE)
    with client(LINEAR, data=tmp_path, settings=limits) as service:
        ids = [service.post(DECIDE, json={**ZEROS, "id": f"d{k}"}).json()["id"] for k in range(5)]
        assert open_bytes(service) == 5 * SIZE
        check_full(service.post(DECIDE, json=ZEROS), f"take {5 * SIZE} bytes", f"this one {SIZE}")
        assert service.post(DECIDE, json={**ZEROS, "id": "d0"}).status_code == 200, "a repeated request is no new one"
        assert open_bytes(service) == 5 * SIZE
        service.post("/v1/portfolios/linear/rewards", json={"id": ids[0], "reward": 0.5})
        service.post("/v1/portfolios/linear/withdraw", json={"id": ids[1]})
        assert open_bytes(service) == 3 * SIZE
        assert f'equipoise_open_bytes{{portfolio="linear"}} {3.0 * SIZE}' in service.get("/metrics").text
    with client(LINEAR, data=tmp_path, settings=limits) as service:  # what waited before a restart counts after it
        assert open_bytes(service) == 3 * SIZE
        assert [service.post(DECIDE, json=ZEROS).status_code for _ in range(3)] == [200, 200, 503]


def test_the_limit_in_bytes_follows_from_the_other_one() -> None:
    assert Settings(max_open=1_000).open_bytes == 1_000 * 10_240
    assert Settings(max_open=1_000, max_open_bytes=5).open_bytes == 5


def test_a_deadline_makes_room() -> None:
    with client(COLORS, settings=Settings(max_open_bytes=5 * 3_000)) as service:  # its deadline is three rounds
        decided = [service.post("/v1/portfolios/colors/decide", json={"context": [1, 1]}) for _ in range(9)]
        assert [answer.status_code for answer in decided] == [200] * 9


def tokens(*names: str) -> Tokens:
    return Tokens(Token(name, digest_of(name), ("decide", "reward", "read")) for name in names)


def by(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}"}


LIMITS = {
    "number": Settings(max_open=8, max_open_bytes=99 * SIZE),
    "bytes": Settings(max_open_bytes=8 * SIZE),
}


@pytest.mark.parametrize("limits", LIMITS.values(), ids=LIMITS)
def test_one_token_cannot_shut_out_the_others(limits: Settings) -> None:
    with client(LINEAR, settings=limits, tokens=tokens("one", "two")) as service:
        first = [service.post(DECIDE, json=ZEROS, headers=by("one")) for _ in range(5)]
        assert [answer.status_code for answer in first] == [200] * 4 + [503]
        check_full(first[-1], "4 decisions for token 'one'", "50%")
        second = [service.post(DECIDE, json=ZEROS, headers=by("two")) for _ in range(5)]
        assert [answer.status_code for answer in second] == [200] * 4 + [503]
        id_ = first[0].json()["id"]
        rewarded = service.post(
            "/v1/portfolios/linear/rewards", json={"id": id_, "reward": 0.5}, headers=by("two")
        )  # room for the token that asked for the decision, whichever rewards it
        assert rewarded.status_code == 200
        assert service.post(DECIDE, json=ZEROS, headers=by("two")).status_code == 503
        assert service.post(DECIDE, json=ZEROS, headers=by("one")).status_code == 200


def test_the_only_token_has_all_of_it() -> None:
    with client(LINEAR, settings=Settings(max_open_bytes=4 * SIZE), tokens=tokens("one")) as service:
        assert [service.post(DECIDE, json=ZEROS, headers=by("one")).status_code for _ in range(5)][-2:] == [200, 503]


def test_tokens_without_the_scope_take_no_share() -> None:
    watching = Token("watching", digest_of("watching"), ("read",))
    elsewhere = Token("elsewhere", digest_of("elsewhere"), ("decide",), ("arms",))
    with client(
        LINEAR, ARMS, settings=Settings(max_open=4), tokens=Tokens([*tokens("one"), watching, elsewhere])
    ) as it:
        assert service_of(it).limits("linear").share == 1.0 and service_of(it).limits("arms").share == 0.5


RNG = np.random.default_rng(0)
POOLS: dict[str, tuple[Callable[[], list[Any]], Callable[[], Any]]] = {
    "arms": (lambda: [UCB(3), UCB(3)], lambda: None),
    "small offers": (lambda: [OFUL(2), OFUL(4)], lambda: Offers(RNG.random((3, 4)) / 4)),
    "many ids": (lambda: [OFUL(1), OFUL(1)], lambda: Offers(RNG.random((300, 1)), None, map(str, RNG.random(300)))),
    "large offers": (lambda: [OFUL(40), OFUL(50)], lambda: Offers(RNG.random((40, 50)) / 50)),
    "large matrix": (lambda: [OFUL(40), OFUL(50)], lambda: RNG.random((40, 50)) / 50),
}


@pytest.mark.parametrize("name", POOLS)
def test_the_size_of_an_open_decision_is_right_within_a_factor_of_two(name: str) -> None:
    learners, context = POOLS[name]
    hosted = Hosted(Portfolio(learners(), RealizedBalancing(2)))
    for k in range(100):
        hosted.decide(context(), f"before {k}")
    gc.collect()
    tracemalloc.start()
    try:
        before, counted = tracemalloc.get_traced_memory()[0], hosted.arrivals.bytes
        for k in range(300):
            hosted.decide(context(), f"decision {k:020d}")
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert 0.5 < grown / (hosted.arrivals.bytes - counted) < 2.0


def test_the_size_is_counted_once_and_given_back() -> None:
    hosted = Hosted(Portfolio([UCB(2)]))
    ids = [hosted.decide(None, None, Limits(), None, "a").id for _ in range(3)]
    assert hosted.arrivals.bytes == 3 * size_of(None)
    for id_ in ids:
        hosted.reward(id_, 1.0, None)
    assert hosted.arrivals.bytes == 0 and len(hosted.arrivals) == 0
    assert not hosted.arrivals.excess(None, Limits(1, share=1.0), "a")


WAITING: dict[str, Callable[[], Portfolio]] = {
    "rows": lambda: Portfolio([OFUL(2), OFUL(4)], seed=1),
    "held": lambda: Portfolio([OFUL(2), OFUL(4)], seed=1, deadline=100_000, default_reward=0.0),
    "in order": lambda: Portfolio([OFUL(4)], BalancedElimination([Observed()]), seed=1),
}


def wait_behind(hosted: Hosted, rounds: range, share: float, limits: Limits = Limits()) -> None:  # noqa: B008
    """Reward a share of some rounds, but not the first one."""
    rng = np.random.default_rng(1)
    for k in rounds:
        hosted.decide(Offers(rng.random((3, 4)) / 4), f"d{k}", limits)
        if k and rng.random() < share:
            hosted.reward(f"d{k}", 0.5, None)


@pytest.mark.parametrize("kind", WAITING)
def test_rewards_behind_a_missing_one_have_a_limit(kind: str) -> None:
    """They had none, so a client that reports all rewards but one could fill the memory."""
    live, share = WAITING[kind](), 0.5 if kind == "held" else 1.0
    with pytest.raises(TooManyOpen, match=r"rewards behind missing ones, take 1\d+ bytes"):
        wait_behind(Hosted(live), range(5_000), share, Limits(bytes=150_000))
    assert live.waiting_bytes > 15_000
    assert live.health()["waiting_bytes"] == Portfolio.from_state(live.state()).waiting_bytes == live.waiting_bytes
    for id_ in live.pending:
        live.learn(id_, 0.5)
    assert live.waiting_bytes == 0 or kind == "held"


@pytest.mark.parametrize("kind", WAITING)
def test_the_size_of_what_waits_is_right_within_a_factor_of_two(kind: str) -> None:
    hosted, share = Hosted(WAITING[kind]()), 0.5 if kind == "held" else 1.0
    wait_behind(hosted, range(600), share)
    hosted._settled = {}  # type: ignore[assignment]  # bounded by a number
    live = hosted.portfolio
    live._state.drift.monitor = None
    live._state.tickets.callers.restore([])
    before = hosted.arrivals.bytes + live.waiting_bytes
    gc.collect()
    tracemalloc.start()
    try:
        for k in range(600, 2_600):
            wait_behind(hosted, range(k, k + 1), share)
            live._state.drift.monitor = None
        hosted._settled = {}  # type: ignore[assignment]
        live._state.tickets.callers.restore([])
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.5 < grown / (hosted.arrivals.bytes + live.waiting_bytes - before) < 2.0


BIG = {"use": "OFUL", "settings": {"dim": 10_000}}


def test_a_learner_with_a_large_state_is_refused_before_it_is_built(tmp_path: Path) -> None:
    with client(LINEAR, data=tmp_path) as service:
        tracemalloc.start()
        try:
            answer = service.post("/v1/portfolios/linear/learners/big", json=BIG)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert answer.status_code == 422 and peak < 10e6
        assert (
            "dim = 10000 takes 762 MiB, but the state of a learner must take at most 64 MiB" in answer.json()["detail"]
        )
        assert [row["name"] for row in service.get("/v1/portfolios/linear").json()["standing"]] == ["OFUL(d=2)"]
        small = {"use": "OFUL", "settings": {"dim": 20}}
        assert service.post("/v1/portfolios/linear/learners/small", json=small).status_code == 201
    with client(LINEAR, settings=Settings(max_state_bytes=3_000)) as service:
        answer = service.post("/v1/portfolios/linear/learners/small", json=small)
        assert answer.status_code == 422 and "at most" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("use", "settings"),
    [
        ("OFUL", {"dim": 10_000}),
        ("DisjointOFUL", {"dim": 10_000, "arms": 2}),
        ("DisjointOFUL", {"dim": 1_000, "arms": 2}),  # a matrix for each of nine rows
        ("SquareCB", {"dim": 10_000}),
        ("UCBVI", {"n_states": 1_000, "n_actions": 1_000, "horizon": 1_000, "episodes": 10}),
        ("QLearning", {"n_states": 10_000, "n_actions": 1_000, "horizon": 1_000, "episodes": 10}),
    ],
)
def test_every_learner_with_a_large_state_is_refused(use: str, settings: dict[str, Any]) -> None:
    with client(ARMS) as service:
        answer = service.post("/v1/portfolios/arms/learners/big", json={"use": use, "settings": settings})
        assert answer.status_code == 422 and "must take at most 64 MiB" in answer.json()["detail"]


def test_a_file_with_a_large_learner_is_refused() -> None:
    """The size of an array of the file is checked as that of a request; 64 MiB are 2,896 dimensions."""
    large = LINEAR.replace("dim = 2", "dim = 60")
    with client(large):
        pass
    with pytest.raises(InvalidArgument, match=r"^dim = 60 takes"), client(large, settings=Settings(max_state_bytes=9)):
        pass
