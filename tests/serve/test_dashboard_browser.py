"""The dashboard in a real browser: every view, live updates, changes, lost connections and tokens, bad input.

Skipped where there is no Chromium, unless EQUIPOISE_REQUIRE_BROWSER says that there must be one, as in CI.
"""

import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs the extra serve")
pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import Browser, Page, expect, sync_playwright

from equipoise.serve import Client
from equipoise.serve.routes import OPERATIONS
from equipoise.serve.tokens import add_token, remove_token
from tests.serve.browser import CHROMIUM, FLAGS, Running, axe_source, watched_page
from tests.serve.served import ARMS, COLORS

REQUIRED = os.environ.get("EQUIPOISE_REQUIRE_BROWSER") == "1"
pytestmark = [
    pytest.mark.service,
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="needs Chromium"),
]

HOSTILE = "<img src=x onerror=alert(1)>"
LIVE_MS = 2_000  # within which a change must be seen
SLOW_MS = 15_000  # for what waits for reconnections


class Site:
    """A service with tokens, and what tests need to know about it."""

    def __init__(self, folder: Path) -> None:
        self.files, self.data = folder / "files", folder / "data"
        self.files.mkdir()
        self.data.mkdir()
        (self.files / "arms.toml").write_text(ARMS.replace('name = "greedy"', f'name = "{HOSTILE}"'))
        (self.files / "colors.toml").write_text(COLORS)
        self.tokens = self.data / "tokens.json"
        self.reader = add_token(self.tokens, "reader", ["read"])
        self.admin = add_token(self.tokens, "admin", ["read", "admin"])
        self.player = add_token(self.tokens, "player", ["decide", "reward"])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.running = Running(self.files, self.data, port)
        self.url = self.running.url
        self.ids: list[str] = []

    def play(self, n: int, portfolio: str = "arms") -> None:
        with Client(self.url, portfolio, self.player) as client:
            for k in range(n):
                self.ids.append(str(client.decide().id))
                if k % 5:
                    client.reward(self.ids[-1], (k % 3) / 2)

    def sign_in(self, page: Page, secret: str, address: str = "#/") -> None:
        page.goto(f"{self.url}/{address}")
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Sign in")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        made.running.start()
        made.play(30)
        yield made
    finally:
        made.running.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None, "CI must have Chromium"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Any]:
    with watched_page(browser, viewport={"width": 1200, "height": 900}) as opened:
        yield opened


def serious_faults(page: Page) -> list[str]:
    """What axe-core finds of impact serious or critical."""
    source = axe_source()
    if source is None:
        assert not REQUIRED, "CI must have npm"
        pytest.skip("axe-core needs npm and its registry")
    page.evaluate(source.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:150]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def views(site: Site) -> dict[str, str]:
    return {
        "overview": "#/",
        "portfolio": "#/p/arms",
        "empty portfolio": "#/p/colors",
        "learner": "#/p/arms/learner/" + HOSTILE.replace("<", "%3C").replace(" ", "%20").replace(">", "%3E"),
        "decision": f"#/p/arms/decision/{site.ids[3]}",
    }


@pytest.mark.parametrize(("width", "theme"), [(1200, "light"), (400, "dark")])
def test_every_view_is_accessible_and_fits(browser: Browser, site: Site, width: int, theme: Any) -> None:
    with watched_page(browser, viewport={"width": width, "height": 900}, color_scheme=theme) as page:
        page.goto(site.url)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert serious_faults(page) == []
        site.sign_in(page, site.reader)
        for name, address in views(site).items():
            page.goto(f"{site.url}/{address}")
            expect(page.locator("#connection")).to_have_text("● Live")
            assert serious_faults(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert page.evaluate("document.querySelectorAll('#content img').length") == 0  # the hostile name is text


def test_login_and_hostile_names(page: Any, site: Site) -> None:
    page.expected = ["401"]  # the browser reports the refused request
    page.goto(f"{site.url}/#/p/arms")
    page.get_by_label("Token").fill("eqp_wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("The service does not know this token.")
    site.sign_in(page, site.reader, "#/p/arms")
    expect(page.get_by_role("heading", level=1)).to_have_text("arms")
    expect(page.get_by_role("link", name=HOSTILE).first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Suspend"))).to_have_count(0)
    assert page.evaluate("Object.keys(localStorage).length + Object.keys(sessionStorage).length") == 0
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("alert")).to_have_text("You have signed out.")


def test_an_update_is_seen_within_two_seconds(page: Any, site: Site) -> None:
    site.sign_in(page, site.reader, "#/p/arms")
    expect(page.locator("#connection")).to_have_text("● Live")
    tile = page.locator(".tile").filter(has_text="Traffic")
    before = int(re.findall(r"([\d,]+) decisions", tile.inner_text())[0].replace(",", ""))
    site.play(1)
    expect(tile).to_contain_text(f"{before + 1:,} decisions", timeout=LIVE_MS)


def test_down_to_a_decision_and_its_late_reward(page: Any, site: Site) -> None:
    with Client(site.url, "arms", site.player) as client:
        decision = client.decide(id="late/one")
        site.sign_in(page, site.reader, "#/p/arms")
        page.get_by_label("Find a decision by its id").fill("late/one")
        page.get_by_role("button", name="Show", exact=True).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Decision late/one")
        expect(page.locator(".claim")).to_have_text("It waits for its reward.")
        expect(page.get_by_role("region", name="Proposals")).to_contain_text(f"{decision.learner_name} ← played")
        client.reward("late/one", 0.25)
        expect(page.locator(".claim")).to_have_text("It has its reward.", timeout=2 * LIVE_MS)
    expect(page.locator(".tile").filter(has_text="Reward")).to_contain_text("0.25")
    expect(page.get_by_role("region", name="Events of this decision").locator("tbody tr")).to_have_count(2)


def test_suspend_and_resume_in_two_tabs(browser: Browser, page: Any, site: Site) -> None:
    site.sign_in(page, site.admin, "#/p/arms")
    with watched_page(browser) as other:
        site.sign_in(other, site.reader, "#/p/arms")
        for verb, state in (("Suspend", "suspended"), ("Resume", "active")):
            page.get_by_role("button", name=f"{verb} UCB").click()
            page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
            page.get_by_role("button", name=f"{verb} UCB").click()
            page.get_by_role("dialog").get_by_role("button", name=verb).click()
            for tab in (page, other):
                row = tab.get_by_role("region", name="Learners").locator("tbody tr").filter(has_text="UCB")
                expect(row).to_contain_text(state, timeout=LIVE_MS + 1_000)
    expect(page.locator(".marks li").first).to_contain_text("UCB resumed in round")


def test_charts_as_tables_files_and_by_keyboard(page: Any, site: Site) -> None:
    site.sign_in(page, site.reader, "#/p/arms")
    figure = page.locator("figure").filter(has_text="Mean reward of each learner")
    figure.get_by_text("Show as table").click()
    expect(figure.locator("thead th").first).to_have_text("time")
    page.get_by_label("Range", exact=True).select_option("all")
    expect(figure.locator("thead th").first).to_have_text("round")  # the open table follows the chart
    expect(figure.locator("tbody tr").nth(10)).to_be_visible()
    with page.expect_download() as download:
        figure.get_by_role("button", name=re.compile("as a table$")).click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert lines[0] == f"round,UCB,UCB ±,{HOSTILE},{HOSTILE} ±" and len(lines) > 10
    with page.expect_download() as download:
        figure.get_by_role("button", name=re.compile("as a picture$")).click()
    assert Path(download.value.path()).read_bytes().startswith(b"\x89PNG")
    plot = figure.get_by_role("img")
    plot.focus()
    page.keyboard.press("Home")
    expect(figure.locator(".legend")).to_contain_text("at round 1")
    for axis in ("per round", "log scale"):
        page.locator("figure").filter(has_text="Certified regret").get_by_label(axis).check()


@pytest.mark.parametrize("kind", ["nan", "huge"])
def test_bad_numbers_in_the_stream(page: Any, site: Site, kind: str) -> None:
    def spoil(route: Any) -> None:
        answer = route.fetch()
        body = json.loads(answer.text())
        for row in body["view"]["standing"]:
            row.update(mean_reward=1e300, reward=-1e300, plays=10**15)
        route.fulfill(response=answer, body=json.dumps(body))

    def stream(route: Any) -> None:
        data = '{"view": NaN}' if kind == "nan" else '{"view": '
        route.fulfill(content_type="text/event-stream", body=f"event: view\ndata: {data}\n\n")

    page.route("**/live", stream)
    if kind == "huge":
        page.route("**/view", spoil)
    site.sign_in(page, site.reader, "#/p/arms")
    expect(page.locator("#connection")).to_contain_text("may be old")
    expect(page.get_by_role("region", name="Learners")).to_contain_text("1e300" if kind == "huge" else "UCB")
    page.unroute("**/live")
    page.unroute("**/view")
    expect(page.locator("#connection")).to_have_text("● Live", timeout=SLOW_MS)


def test_a_portfolio_that_comes_and_one_that_is_not_there(page: Any, site: Site) -> None:
    page.expected = ["404", "403"]
    site.sign_in(page, site.reader, "#/p/later")
    expect(page.locator(".claim")).to_contain_text("There is no portfolio “later” here")
    (site.files / "later.toml").write_text(ARMS.replace('name = "arms"', 'name = "later"'))
    site.running.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("later", timeout=SLOW_MS)
    expect(page.locator(".empty").first).to_contain_text("Nothing to draw yet")


def test_an_expired_token(page: Any, site: Site) -> None:
    page.expected = ["401"]
    secret = add_token(site.tokens, "short", ["read"])
    site.running.reload()
    wait_until(lambda: accepts(site, secret))
    site.sign_in(page, secret, "#/p/arms")
    expect(page.locator("#connection")).to_have_text("● Live")
    remove_token(site.tokens, "short")
    site.running.reload()
    expect(page.get_by_role("alert")).to_contain_text("not valid any more", timeout=SLOW_MS)
    page.get_by_label("Token").fill(site.reader)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("arms")


def test_it_comes_back_after_a_restart_of_the_service(page: Any, site: Site) -> None:
    page.expected = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY"]
    site.sign_in(page, site.reader, "#/p/arms")
    expect(page.locator("#connection")).to_have_text("● Live")
    site.running.stop()
    expect(page.locator("#connection")).to_contain_text("What you see may be old")
    site.running.start()
    site.play(1)
    expect(page.locator("#connection")).to_have_text("● Live", timeout=SLOW_MS)
    assert "stale" not in page.locator("body").get_attribute("class")
    with Client(site.url, "arms", site.reader) as client:
        rounds = client.status()["health"]["rounds"]
    expect(page.locator(".tile").filter(has_text="Traffic")).to_contain_text(f"{rounds:,} decisions")


def accepts(site: Site, secret: str) -> bool:
    try:
        with Client(site.url, "arms", secret, retries=0) as client:
            client.status()
    except Exception:
        return False
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen within ten seconds")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_the_routes(site: Site, browser: Browser, width: int) -> None:
    """It describes every route, without the network and under the policy of the dashboard."""
    with watched_page(browser, viewport={"width": width, "height": 900}) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{site.url}/docs#decide")
        expect(page.locator("details.operation")).to_have_count(len(OPERATIONS))
        expect(page.locator("#decide")).to_have_attribute("open", "")
        expect(page.locator("#decide")).not_to_contain_text("For arms")  # a stranger sees no portfolios
        page.get_by_label("Token").fill(site.admin)
        page.get_by_role("button", name="Show my portfolios as examples").click()
        expect(page.locator("#decide")).to_contain_text("For arms")
        page.locator("nav a", has_text="create_portfolio").click()
        expect(page.locator("#create_portfolio pre").first).to_contain_text('"sticky": "7d"')
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert all(url.startswith(site.url) for url in asked)
        assert serious_faults(page) == []
