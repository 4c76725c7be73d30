"""The GPU in slow motion, in a real Chromium: keys, clicks, zoom, tips, and a phone's taps."""

import pytest

from tests.browser.players import SETTLED

pytestmark = pytest.mark.browser
ZOOMED = "(({ window: [start, end], longest }) => end - start < longest)(window.__gpu.state())"


def state(page) -> dict:
    return page.evaluate("window.__gpu.state()")


def test_keys_the_pointer_and_taps_lead_through_a_run(page, dashboard):
    """A causal scenario, modelled, in both orders."""
    page.goto(f"{dashboard}/gpu?seq=2048&causal=true")
    page.wait_for_function("window.__gpu?.state().sentence")
    page.locator(".st-key-footprint").wait_for(state="attached")  # what a run of the page draws last
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.get_by_text("this scenario", exact=True).click()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function("window.__gpu.state().sentence.startsWith('Heavy blocks first')")
    page.evaluate(SETTLED)
    press, canvas = page.keyboard.press, page.locator(".stage canvas")

    press("Home")
    assert state(page)["time"] == 0
    assert "0 of 512 are done" in state(page)["sentence"]
    press("ArrowRight")
    first = state(page)["time"]
    press("ArrowRight")
    assert 0 < first < state(page)["time"]
    press("ArrowLeft")
    assert state(page)["time"] == pytest.approx(first)
    press(" ")
    page.wait_for_function("(first) => window.__gpu.state().time > first", arg=first)
    press(" ")
    assert not state(page)["playing"]
    press("End")
    assert state(page)["time"] == pytest.approx(state(page)["longest"])
    assert state(page)["sentence"].startswith("Heavy blocks first: 512 blocks took ")
    assert "the tail" in state(page)["sentence"]
    before = state(page)
    press("ArrowDown")
    press("c")
    assert (before["head"], state(page)["head"]) == (0, 1)
    assert state(page)["colouring"] != before["colouring"]

    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    assert 0 < state(page)["time"] < state(page)["longest"]
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.2 * box["height"])
    tip = page.locator(".tip", has_text="query block")
    tip.wait_for()
    assert "SM" in tip.inner_text()
    page.mouse.wheel(0, -300)  # comes to the page when it comes
    page.wait_for_function(ZOOMED)
    press("0")
    assert state(page)["window"] == [0, state(page)["longest"]]

    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelector('.st-key-gpu').clientWidth < 400")
    page.evaluate(SETTLED)
    box = canvas.bounding_box()
    for place, head in ((0.45, 15), (0.02, 0)):  # of the width: the last head and the first
        canvas.click(position={"x": place * box["width"], "y": box["height"] - 60})
        assert state(page)["head"] == head
