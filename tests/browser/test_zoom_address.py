"""The zoom's depth in the address, of the page and of a file, and a score that a finger drags."""

import pytest

from app import rescale, zoom
from engine.experiment import Experiment
from engine.studies.rescales import example
from tests.browser.test_pages import query

pytestmark = pytest.mark.browser
DEPTH = "window.__zoom && window.__zoom.state().time"
SCORE = "document.querySelector('.now').textContent"
FINGERS = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 700}}


def test_the_address_of_the_page_holds_the_depth(page, dashboard):
    page.goto(f"{dashboard}/zoom?zoom=2")
    page.wait_for_function(f"{DEPTH} === 2")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**zoom=3**")
    assert page.evaluate(DEPTH) == pytest.approx(3)
    page.reload()
    page.wait_for_function(f"{DEPTH} === 3")
    page.keyboard.press("Home")
    page.wait_for_url(lambda url: "zoom=" not in url)
    assert query(page)["seq"] == "1024"
    assert page.watch.complaints == []


def test_the_address_of_a_file_holds_the_depth_too(page, tmp_path):
    file = tmp_path / "zoom.html"
    file.write_text(zoom.ZOOM.offline(zoom.payload(Experiment.of(seq=256)), "Zoom"), "utf-8")
    page.goto(f"{file.as_uri()}#zoom=4")
    page.wait_for_function(f"{DEPTH} === 4")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**#zoom=3")


def test_a_finger_drags_a_score_by_its_end_and_scrolls_elsewhere(browser, tmp_path):
    file = tmp_path / "rescale.html"
    below = "<div style='height: 900px'>below</div>"
    file.write_text(rescale.RESCALE.offline(rescale.payload(example()), "α", "", below), "utf-8")
    with browser.new_context(**FINGERS) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_function("window.__rescale")
        box, touch = page.locator("canvas").bounding_box(), context.new_cdp_session(page)

        def drag(x: float, y: float, by: float) -> float:
            """How far the page is scrolled by it."""
            points = [{"x": x, "y": y}], [{"x": x, "y": y + by / 2}], [{"x": x, "y": y + by}], []
            kinds = "touchStart", "touchMove", "touchMove", "touchEnd"
            for kind, at in zip(kinds, points, strict=True):
                touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})
                page.wait_for_timeout(50)
            return page.evaluate("scrollY")

        before, largest = page.evaluate(SCORE), box["x"] + 0.345 * box["width"]  # of tile 2
        for y in range(40, 140, 10):  # until its end is found, wherever that is drawn
            scrolled = drag(largest, box["y"] + y, -30)
            if page.evaluate(SCORE) != before:
                break
            page.evaluate("scrollTo(0, 0)")
        assert page.evaluate(SCORE) != before
        assert scrolled == 0
        assert drag(box["x"] + 100, box["y"] + box["height"] - 60, -200) > 0
