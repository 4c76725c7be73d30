"""In a real Chromium: the lanes of a block play and follow the techniques."""

import re

import pytest

from tests.browser.test_pages import opened, settled

pytestmark = pytest.mark.browser

SCENARIO = "seq=4096&head_dim=128&algorithm=flash3"


def moment(page) -> str:
    return page.locator(".inside .when").inner_text()


def marks(page) -> list[str]:
    return page.locator(".inside .picture title").all_text_contents()


def test_the_playhead_walks_to_the_end_and_switching_the_overlap_off_redraws_lanes_and_time(page, dashboard):
    opened(page, f"{dashboard}/flash3?{SCENARIO}")
    page.locator(".inside .picture svg").wait_for()
    before, words = moment(page), page.locator(".inside .now").inner_text()
    assert re.search(r"Group 1: .*\. Group 2: ", words)
    page.locator(".inside .play").click()
    page.locator(".inside.playing").wait_for()
    page.locator(".inside .when").filter(has_not_text=before).wait_for()
    page.locator(".inside .play").click()
    assert page.locator(".inside.playing").count() == 0
    page.locator(".inside input").press("End")
    at, _, whole = moment(page).partition(" of ")
    assert at == whole
    before, time = marks(page), page.locator("[data-testid=stMetricValue]").first.inner_text()
    page.get_by_role("button", name="Softmax under products").click()
    settled(page)
    page.wait_for_function(
        "time => document.querySelector('[data-testid=stMetricValue]').innerText !== time", arg=time
    )
    assert marks(page) != before
    assert "Without softmax under products" in page.locator("[data-testid=stMain]").inner_text()
    assert page.locator("[data-testid=stException], [data-testid=stAlert]").count() == 0
    assert page.watch.complaints == []
