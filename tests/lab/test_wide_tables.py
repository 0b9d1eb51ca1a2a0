"""Tables of reports in a real browser: on a screen of 1200 pixels every column is seen without scrolling.

Skipped where there is no Chromium, unless EQUIPOISE_REQUIRE_BROWSER says that there must be one, as in CI.
"""

import os

import pytest

pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import sync_playwright

from equipoise.lab.report.kit import Table, page
from equipoise.logs.report import COLUMNS
from tests.serve.browser import CHROMIUM, FLAGS

REQUIRED = os.environ.get("EQUIPOISE_REQUIRE_BROWSER") == "1"
HIDDEN = "[...document.querySelectorAll('.wide')].map((each) => each.scrollWidth - each.clientWidth)"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None and not REQUIRED, reason="needs Chromium")
def test_no_column_of_a_replay_is_cut() -> None:
    interval = "-0.1060 to -0.0006"
    numbers = ["0.4485", interval, "-0.0575", interval, "95 % time-uniform", "1,000,000"]
    row = ["epsilon-greedy over all arms of the shop", *numbers]
    content = page("Replay", [Table(["", *COLUMNS], [[*row, "3.9 %"]])])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            shown = browser.new_page(viewport={"width": 1200, "height": 800})
            shown.set_content(content)
            assert shown.evaluate(HIDDEN) == [0]
        finally:
            browser.close()
