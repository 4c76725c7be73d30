"""The GPU in slow motion, in a real Chromium: keys, clicks, zoom and tips."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SIZE
from tests.browser.players import SETTLED

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def shown(tab, dashboard):
    """The page with a causal scenario, modelled, in both orders."""
    page = tab.begin()
    page.goto(f"{dashboard}/gpu?seq=2048&causal=true")
    page.wait_for_function("window.__gpu?.state().sentence")
    page.locator(".st-key-footprint").wait_for(state="attached")  # what a run of the page draws last
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.get_by_text("this scenario", exact=True).click()
    page.evaluate("document.activeElement.blur()")
    page.wait_for_function("window.__gpu.state().sentence.startsWith('Heavy blocks first')")
    yield page
    tab.forget(dashboard)
    tab.end()


@pytest.fixture
def gpu(shown):
    """The same page at its first moment, whatever the test before has left."""
    shown.set_viewport_size(SIZE)
    shown.mouse.move(0, 0)
    shown.wait_for_function("document.querySelector('.st-key-gpu').clientWidth > 1000")
    shown.evaluate(SETTLED)
    if state(shown)["playing"]:
        shown.keyboard.press(" ")
    for key in ("Home", "0", *["ArrowUp"] * state(shown)["head"]):
        shown.keyboard.press(key)
    assert (state(shown)["time"], state(shown)["head"]) == (0, 0)
    return shown


def state(page) -> dict:
    return page.evaluate("window.__gpu.state()")


def test_keys_go_to_both_ends_and_the_sentence_says_what_happened(gpu):
    gpu.keyboard.press("Home")
    assert state(gpu)["time"] == 0
    assert "0 of 512 are done" in state(gpu)["sentence"]
    gpu.keyboard.press("End")
    assert state(gpu)["time"] == pytest.approx(state(gpu)["longest"])
    assert state(gpu)["sentence"].startswith("Heavy blocks first: 512 blocks took ")
    assert "the tail" in state(gpu)["sentence"]


def test_arrows_step_from_event_to_event_and_back(gpu):
    gpu.keyboard.press("ArrowRight")
    first = state(gpu)["time"]
    assert first > 0
    gpu.keyboard.press("ArrowRight")
    assert state(gpu)["time"] > first
    gpu.keyboard.press("ArrowLeft")
    assert state(gpu)["time"] == pytest.approx(first)


def test_space_plays_and_stops(gpu):
    gpu.keyboard.press(" ")
    gpu.wait_for_function("window.__gpu.state().time > 0")
    gpu.keyboard.press(" ")
    assert state(gpu)["playing"] is False


def test_a_click_on_the_chart_goes_to_that_moment_and_a_block_has_a_tip(gpu):
    box = gpu.locator(".stage canvas").bounding_box()
    gpu.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    assert 0 < state(gpu)["time"] < state(gpu)["longest"]
    gpu.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.2 * box["height"])
    tip = gpu.locator(".tip", has_text="query block")
    tip.wait_for()
    assert "SM" in tip.inner_text()


def test_the_wheel_zooms_and_zero_shows_the_whole_run(gpu):
    box = gpu.locator(".stage canvas").bounding_box()
    gpu.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    gpu.mouse.wheel(0, -300)  # comes to the page when it comes
    zoomed = "({ window: [start, end], longest }) => end - start < longest"
    gpu.wait_for_function(f"({zoomed})(window.__gpu.state())")
    gpu.keyboard.press("0")
    assert state(gpu)["window"] == [0, state(gpu)["longest"]]


def test_arrows_up_and_down_choose_a_head_and_c_the_colours(gpu):
    gpu.keyboard.press("ArrowDown")
    assert state(gpu)["head"] == 1
    gpu.keyboard.press("ArrowUp")
    assert state(gpu)["head"] == 0
    before = state(gpu)["colouring"]
    gpu.keyboard.press("c")
    assert state(gpu)["colouring"] != before


def test_a_phone_has_what_is_written_below_the_timelines_and_a_tap_chooses_a_head(gpu):
    gpu.set_viewport_size({"width": 390, "height": 844})
    canvas = gpu.locator(".stage canvas")
    gpu.wait_for_function("document.querySelector('.st-key-gpu').clientWidth < 400")
    gpu.evaluate(SETTLED)
    before, box = state(gpu)["head"], canvas.bounding_box()
    for place in (0.02, 0.45):  # of the width: the first head and the last
        canvas.click(position={"x": place * box["width"], "y": box["height"] - 60})
        after, before = before, state(gpu)["head"]
    assert (after, before) == (0, 15)
