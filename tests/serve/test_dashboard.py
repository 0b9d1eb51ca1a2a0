"""What the dashboard's routes say, without a browser: aggregates against sums over all events, bounds, bad input."""

import gzip
import json
from array import array
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("httpx2", reason="Starlette's test client needs httpx2")

from starlette.testclient import TestClient

from equipoise.learners import UCB
from equipoise.portfolio import Portfolio
from equipoise.serve.dashboard.files import files
from equipoise.serve.dashboard.sampler import update
from equipoise.serve.dashboard.timeline import FIXED, HEAD, MAX_ROWS, SPANS, Row, Timeline, columns, short, times_of
from equipoise.serve.hosted import Arrivals
from equipoise.serve.metrics import N_BUCKETS, SECONDS, Metrics, quantile
from equipoise.serve.tokens import Tokens, add_token, read_tokens
from tests.serve.served import ARMS, client, service_of

HOSTILE = '<img src=x onerror="alert(1)">'


def play(service: TestClient, n: int, portfolio: str = "arms", every: int = 1) -> list[str]:
    ids = []
    for k in range(n):
        ids.append(service.post(f"/v1/portfolios/{portfolio}/decide", json={}).json()["id"])
        if k % every == 0:
            service.post(f"/v1/portfolios/{portfolio}/rewards", json={"id": ids[-1], "reward": (k % 4) / 4})
    return ids


def read_now(service: TestClient, portfolio: str = "arms") -> None:
    whole = service_of(service)
    service.portal.call(lambda: update(whole, whole.portfolios[portfolio], with_text=True))


def row(time: float, round_: float = 0.0, *learners: float) -> Row:
    head = {"time": time, "round": round_}
    return Row(array("d", [*(head.get(name, 0.0) for name in FIXED), *[0.0] * N_BUCKETS, *learners]))


def test_tiers_keep_the_newest_samples_at_least_a_period_apart() -> None:
    """Against the obvious: all samples are kept in a list, and those of a tier are picked from it one by one."""
    timeline, times = Timeline(), np.cumsum(np.random.default_rng(0).exponential(3.0, 5_000)).tolist()
    for time in times:
        timeline.add(row(time))
    now = row(times[-1] + 1.0)
    for span, seconds in SPANS.items():
        kept: list[float] = []
        for time in times:
            if not kept or time - kept[-1] >= seconds / MAX_ROWS:
                kept.append(time)
        expected = [time for time in kept[-MAX_ROWS:] if time > now["time"] - seconds]
        assert [each["time"] for each in timeline.rows(span, now)] == [*expected, now["time"]]
    assert len(timeline.all_rows()) <= MAX_ROWS * len(SPANS)


def test_a_timeline_survives_its_state_and_refuses_another_form() -> None:
    timeline = Timeline()
    for k in range(1_000):
        timeline.add(row(10.0 * k, k, k, k, 0.5 * k, nan, 0.1))
    timeline.start = (100.0, 25.0)
    copy, other = Timeline(), Timeline()
    copy.restore(timeline.state())
    assert [each.numbers[:HEAD] for each in copy.all_rows()] == [each.numbers[:HEAD] for each in timeline.all_rows()]
    assert copy.start == (100.0, 25.0) and copy.last is not None and copy.last["round"] == 999
    other.restore({**timeline.state(), "version": 2})
    assert other.all_rows() == []


def test_columns_are_differences_of_totals() -> None:
    drawn = columns(
        [row(0.0, 0, 0, 0, 0, nan, nan), row(5.0, 10, 10, 8, 6.0, 0.75, 0.3), row(9.0, 14, 14, 12, 6.0, 0.5, 0.2)]
    )
    assert drawn["reward"] == [None, 0.75, 0] and drawn["plays"] == [[0, 10, 14]]
    assert drawn["mean_rewards"] == [[None, 0.75, 0.5]] and drawn["mean_radii"] == [[None, 0.3, 0.2]]
    assert drawn["median_ms"] == [None, None, None]
    assert times_of([0, 3, 10, 11, 99], [row(1.0, 1), row(5.0, 10), row(9.0, 14)]) == [None, 5.0, 5.0, 9.0, None]


@pytest.mark.parametrize(
    ("number", "shown"),
    [(nan, None), (float("inf"), None), (3.0, 3), (0.123456789, 0.12346), (1e300, 1e300), (1e14, 10**14)],
)
def test_numbers_are_sent_short(number: float, shown: float | None) -> None:
    assert short(number) == shown and len(json.dumps(short(number))) <= 15


def test_quantiles_lie_in_the_bucket_of_the_sorted_times() -> None:
    metrics, times = Metrics(), np.random.default_rng(1).exponential(0.004, 2_000)
    assert sum(metrics.counts_of("decide")) == 0
    for seconds in times:
        metrics.count("decide", 200, float(seconds))
        metrics.count("health", 200, 9.0)
    counts = metrics.counts_of("decide")
    assert sum(counts) == len(times)
    for q in (0.5, 0.99):
        exact, found = float(np.quantile(times, q)), quantile(q, counts)
        bucket = int(np.searchsorted(SECONDS, exact))
        assert SECONDS[bucket - 1] <= found <= SECONDS[bucket]
    assert np.isnan(quantile(0.5, [0.0] * N_BUCKETS)) and quantile(0.5, [0.0] * (N_BUCKETS - 1) + [3.0]) == SECONDS[-1]


def test_arrivals_are_those_of_a_list_of_all_rewards() -> None:
    portfolio = Portfolio([UCB(2, name="a"), UCB(2, name="b")], deadline=5, default_reward=0.0)
    open_before = portfolio.decide(None)
    arrivals, rng, expected = Arrivals(portfolio), np.random.default_rng(3), {0: [0.0], 1: [0.0]}
    learners = {open_before.id: open_before.learner}

    def see(event: Any) -> None:
        if event.kind in ("rewarded", "expired"):
            expected[learners[event.data["id"]]].append(event.data["reward"])  # type: ignore[index]

    portfolio.on_event(see)
    portfolio.learn(open_before, 1.0)
    for _ in range(200):
        decision = portfolio.decide(None)
        learners[decision.id] = decision.learner
        match rng.integers(4):
            case 0:
                portfolio.withdraw(decision)
            case 1:
                pass  # its deadline will pass
            case _:
                portfolio.learn(decision, float(rng.integers(2)))
    for i, rewards in expected.items():
        assert arrivals.of(i) == (len(rewards) - 1, sum(rewards))
    arrivals.resume([(10.0, 4.0)])
    assert arrivals.of(0) == (len(expected[0]) + 9, sum(expected[0]) + 4.0)


def test_the_start_is_the_mean_of_the_first_decisions_not_of_the_first_rewards() -> None:
    """Good rewards come at once, bad ones at the deadline of 50 rounds: the first rewards would make a mean of 1."""
    portfolio = Portfolio([UCB(2)], deadline=50, default_reward=0.0)
    arrivals = Arrivals(portfolio)
    for k in range(160):
        assert k > 145 or arrivals.start is None
        decision = portfolio.decide(None)
        if k % 4 == 0:
            portfolio.learn(decision, 1.0)
    assert arrivals.start == (100.0, 25.0)
    lost = Portfolio([UCB(2)])
    arrivals = Arrivals(lost)
    for k in range(1_000):
        assert arrivals.start is None
        decision = lost.decide(None)
        if k % 4:
            lost.learn(decision, 1.0)
    assert arrivals.start == (75.0, 75.0)


def test_the_overview_has_traffic_rewards_and_what_the_token_allows() -> None:
    with client(ARMS) as service:
        before = service.get("/v1/overview").json()
        assert before["admin"] == ["arms"] and before["portfolios"][0]["reward"] is None
        play(service, 100)
        read_now(service)
        play(service, 100)
        read_now(service)
        (line,) = service.get("/v1/overview").json()["portfolios"]
        assert (line["rounds"], line["open"], line["learners"]) == (200, 0, {"active": 2})
        assert line["reward"] == pytest.approx(0.375, abs=0.01) and line["start_rewards"] == 100
        assert line["recent_rewards"] >= 100 and line["recent_reward"] == pytest.approx(0.375, abs=0.02)


def test_charts_go_on_after_a_restart(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        play(service, 20)
        read_now(service)
    with client(ARMS, data=tmp_path) as service:
        play(service, 5)
        read_now(service)
        drawn = service.get("/v1/portfolios/arms/timeline/15m").json()["columns"]
        assert drawn["round"][0] == 0 and drawn["round"][-1] == 25
        view = service.get("/v1/portfolios/arms/view").json()["view"]
        assert sum(each["rewards"] for each in view["standing"]) == 25
    (tmp_path / "arms.timeline").write_bytes(b"not a timeline")
    with client(ARMS, data=tmp_path) as service:
        assert service.get("/v1/portfolios/arms/view").json()["view"]["rounds"] == 25


def test_the_view_says_what_is_stuck_and_what_happened(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        play(service, 20)
        ids = play(service, 60, every=3)
        service.patch("/v1/portfolios/arms/learners/greedy", json={"state": "suspended"})
        read_now(service)
        view = service.get("/v1/portfolios/arms/view").json()["view"]
        assert view["open"] == 40 and view["oldest_open"]["id"] == ids[1]
        assert [(mark["kind"], mark["name"]) for mark in view["marks"]] == [("learner_suspended", "greedy")]
        assert (view["marks"][0]["reason"], view["marks"][0]["word"]) == ("by request", "suspended")
        assert view["learners"]["suspended"] == 1
        assert view["statements"][0].startswith("With confidence") and view["rule"].startswith("The rule of")
        assert {row_["name"] for row_ in view["pairs"]["rows"]} | {view["pairs"]["leader"]} == {"UCB", "greedy"}
        assert sum(row_["plays"] for row_ in view["standing"]) == 80


def test_a_decision_whose_rewards_are_added_up_is_open_until_its_deadline(tmp_path: Path) -> None:
    parts = ARMS.replace("[[learner]]", '[reward]\ndeadline = 1\ndefault = 0.0\naggregate = "sum"\n[[learner]]', 1)
    with client(parts, data=tmp_path) as service:
        service.post("/v1/portfolios/arms/decide", json={"id": "page"})
        service.post("/v1/portfolios/arms/rewards", json={"id": "page", "reward": 0.25, "key": "click"})
        told = service.get("/v1/portfolios/arms/decisions/page").json()["decision"]
        assert (told["state"], told["reward"]) == ("open", None) and len(told["trail"]) == 2
        for _ in range(2):
            service.post("/v1/portfolios/arms/decide", json={})
        told = service.get("/v1/portfolios/arms/decisions/page").json()["decision"]
        assert (told["state"], told["reward"]) == ("expired", 0.25)


def test_the_story_of_a_decision(tmp_path: Path) -> None:
    with client(ARMS, data=tmp_path) as service:
        given = service.post("/v1/portfolios/arms/decide", json={"id": "a/b <x>", "context": None}).json()
        service.post("/v1/portfolios/arms/rewards", json={"id": "a/b <x>", "reward": 0.0})
        told = service.get("/v1/portfolios/arms/decisions/a%2Fb%20%3Cx%3E").json()["decision"]
        assert (told["id"], told["learner"], told["action"]) == ("a/b <x>", given["learner"], given["action"])
        assert told["state"] == "rewarded" and told["reward"] == 0.0 and told["reason"].startswith(given["learner"])
        assert [event["kind"] for event in told["trail"]] == ["decided", "rewarded"]
        assert told["trail"][1]["data"]["reward"] == 0.0  # zero is something
        assert [each["learner"] for each in told["proposals"] if each["played"]] == [given["learner"]]
        assert "context" not in json.dumps(told)
        newest = service.get("/v1/portfolios/arms/decisions").json()["decisions"]
        assert [each["id"] for each in newest] == ["a/b <x>"]
        about = service.get(f"/v1/portfolios/arms/learners/{given['learner']}").json()
        assert about["decisions"] == newest and about["learner"]["explanation"].startswith(given["learner"])
        for path in ("decisions/none", "learners/none", "timeline/1y"):
            assert service.get(f"/v1/portfolios/arms/{path}").status_code == 404


def test_without_a_journal_no_decision_is_looked_up() -> None:
    with client(ARMS) as service:
        play(service, 2)
        assert service.get("/v1/portfolios/arms/decisions").json() == {"decisions": []}
        detail = service.get("/v1/portfolios/arms/decisions/1").json()["detail"]
        assert detail == "no decision of this id is in the journal; a service without a journal keeps none"


def test_a_stream_ends_when_its_token_does(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    secret, other = add_token(file, "one", ["read"]), add_token(file, "two", ["read"])
    assert secret != other
    with client(ARMS, tokens=read_tokens(file)) as service:
        for path in ("/v1/overview/live", "/v1/portfolios/arms/live"):
            service_of(service).tokens = read_tokens(file)
            with service.stream("GET", path, headers={"Authorization": f"Bearer {secret}"}) as answer:
                service_of(service).tokens = Tokens(list(read_tokens(file))[1:])
                kinds = [line for line in answer.iter_lines() if line.startswith("event: ")]
            assert kinds[-1] == "event: refused"
        assert service_of(service).portfolios["arms"].board.watchers == 0


def test_files_are_served_by_exact_name_and_compressed() -> None:
    with client(ARMS) as service:
        for name, file in files().items():
            answer = service.get(f"/static/{name}")
            assert answer.status_code == 200 and answer.content == file.content == gzip.decompress(file.compressed)
            assert answer.headers["content-type"].startswith(file.media_type)
        for name in ("../app.py", "%2e%2e/app.py", "vendor", "vendor/uplot/LICENSE", "", "index.html%00"):
            assert service.get(f"/static/{name}").status_code == 404
        for name in files():
            assert b"http" not in files()[name].content.replace(b"http://www.w3.org/2000/svg", b"").replace(
                b"https://github.com/leeoniya/uPlot", b""
            ), name


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """The page never makes HTML from text: no source but uPlot's has a way to, and the policy forbids it anyway."""
    text = ARMS.replace('name = "greedy"', f"name = '{HOSTILE}'")
    with client(text, data=tmp_path) as service:
        play(service, 5)
        read_now(service)
        names = [each["name"] for each in service.get("/v1/portfolios/arms/view").json()["view"]["standing"]]
        assert HOSTILE in names
        policy = service.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy and "require-trusted-types-for 'script'" in policy
    for name, file in files().items():
        for way in (b"innerHTML", b"outerHTML", b"insertAdjacentHTML", b"document.write", b"eval("):
            assert way not in file.content, (name, way)
