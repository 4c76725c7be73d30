"""The picture of a watched kernel in a real Chromium: its keys, the line at work, the finding at its line."""

import pytest

from app.watched import WATCHED, build
from engine.watch.labs import stored_report

pytestmark = pytest.mark.browser
STATE = "window.__watched.state()"


def test_keys_lead_through_the_run_and_to_marked_tiles(page, tmp_path):
    """As a file, which needs no kernel to run: a lab that visits hidden tiles."""
    file = tmp_path / "lab.html"
    file.write_text(WATCHED.offline(build(stored_report(5)), "Lab 5"), "utf-8")
    page.goto(file.as_uri())
    page.wait_for_function("() => window.__watched?.state().sentence")
    assert page.evaluate(f"{STATE}.sentence").startswith("Done, with 9 visits where FlashAttention-2 makes 6")
    source = page.locator(".source")
    assert "although the mask hides all of it" in source.locator("p").inner_text()
    assert source.locator(".lit").count() == 0
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {STATE}.position === 2")
    assert "tl.load(k + places" in source.locator(".lit").inner_text()
    page.keyboard.press("n")
    page.wait_for_function(f"() => {STATE}.sentence.includes('it is extra')")
    assert "tl.dot(q_tile" in source.locator(".lit.wrong").inner_text()
    page.keyboard.press(" ")
    page.wait_for_function(f"() => {STATE}.playing && {STATE}.position > 10")
    page.keyboard.press(" ")
    page.wait_for_function(f"() => !{STATE}.playing")
    assert page.watch.complaints == []
