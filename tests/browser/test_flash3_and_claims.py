"""In a real Chromium: the lanes of a block play and follow the techniques; claims lead to their scenarios."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from engine.studies.claims import checked
from engine.studies.claims.verdict import WRONG
from tests.browser.players import filed
from tests.browser.test_pages import opened, query, settled

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


def test_a_claims_link_opens_its_scenario(page, dashboard):
    opened(page, f"{dashboard}/claims")
    link = page.get_by_role("link", name="Open this scenario on the page Traffic").first
    link.click()
    page.wait_for_url("**/traffic?*")
    settled(page)
    assert urlsplit(page.url).path == "/traffic"
    assert (query(page)["seq"], query(page)["batch"], query(page)["hardware"]) == ("1024", "64", "a100-40gb")
    assert page.watch.complaints == []


def test_a_verdict_leaves_its_claims_alone_on_the_page(page, dashboard):
    opened(page, f"{dashboard}/claims")
    cards = page.locator("section.claim")
    assert cards.count() == len(checked())
    page.get_by_text("Wrong", exact=True).first.click()
    wrong = sum(each.verdict == WRONG for each in checked())
    page.get_by_text(f"{wrong} of {len(checked())}").wait_for()
    assert cards.count() == wrong > 1
    boxes = [card.bounding_box() for card in cards.all()]
    assert len({box["x"] for box in boxes}) == 2, "both columns are filled"


def test_the_player_runs_flash3_from_the_last_key_tile_to_the_first(page, tmp_path):
    with filed(page, tmp_path, algorithm="flash3", seq=1024, head_dim=64, causal=True) as alone:
        last = alone.evaluate("window.__player.state().last")
        seen = []
        for position in range(1, last, max(1, last // 60)):
            alone.evaluate(f"window.__player.seek({position})")
            met = re.match(
                r"Query tile (\d+) meets key tile (\d+)", alone.evaluate("window.__player.state().sentence")
            )
            seen += [(int(met[1]), int(met[2]))] if met else []
        assert len(seen) > 10
        assert seen == sorted(seen, key=lambda tile: (tile[0], -tile[1]))
        alone.evaluate(f"window.__player.seek({last})")
        assert "This head's tiles requested " in alone.evaluate("window.__player.state().sentence")
        alone.get_by_role("button", name="Race").click()
        assert alone.evaluate("window.__player.state().race")
        assert "FlashAttention-3" in alone.evaluate("window.__player.state().sentence")
        assert alone.watch.complaints == []
