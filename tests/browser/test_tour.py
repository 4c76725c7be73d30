"""The tour to its end by keys alone, and the presenter's keys."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = pytest.mark.browser

STEPS = 9
NOTED = """() => {  // the player's moment, for a reload
    const { position, last } = window.__player.state();
    return Math.abs(Number(sessionStorage.getItem("attention moment")) * last - position) < 0.5;
}"""
FITS = """() => {  // the words and the picture, which is drawn
    const [words, picture] = ["words", "picture"].map((of) => document.querySelector(`.st-key-tour_${of}`));
    const ends = [words, picture].map((element) => element.getBoundingClientRect().bottom);
    return picture.offsetHeight > 300 && Math.max(...ends) <= innerHeight;
}"""
PAGE_TYPE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
ALIKE = f"""() => {{  // a chart's words, which are 13 px where the page's are 14
    const words = document.querySelector(".js-plotly-plot .xtitle");
    return words && Math.abs(parseFloat(getComputedStyle(words).fontSize) / {PAGE_TYPE} - 13 / 14) < 0.02;
}}"""


def opened(page, address):
    page.goto(address)
    page.locator("[data-keys]").first.wait_for(state="attached")
    page.locator(".st-key-present button").first.wait_for(state="attached")  # comes with the sidebar, last
    page.wait_for_selector("[data-test-script-state=notRunning]")
    return page


def query(page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


def metric(page):
    return page.locator("[data-testid=stMain] [data-testid=stMetricValue]")


def test_a_remote_leads_through_the_whole_tour_and_every_answer_is_told_after_its_question(page, dashboard):
    opened(page, f"{dashboard}/tour?present=true")
    answers = []
    for number in range(1, STEPS + 1):
        page.get_by_text(f"{number} of {STEPS}", exact=True).wait_for()
        metric(page).wait_for(state="detached")  # Streamlit takes away what is gone when the run ends
        page.keyboard.press(("PageDown", " ", "ArrowRight")[number % 3])
        metric(page).wait_for()
        answers.append(metric(page).inner_text())
        if number < STEPS:
            page.keyboard.press("PageDown")
    assert page.get_by_role("button", name="The end").is_disabled()
    assert len(answers) == STEPS
    page.keyboard.press("PageUp")
    page.get_by_text(f"{STEPS - 1} of {STEPS}", exact=True).wait_for()
    page.wait_for_url(f"**step={STEPS - 1}**")
    assert page.watch.complaints == []


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
@pytest.mark.parametrize("step", [4, 9])
def test_a_presented_step_fits_the_screen_with_its_answer(page, dashboard, step, size):
    page.set_viewport_size({"width": size[0], "height": size[1]})
    opened(page, f"{dashboard}/tour?present=true&step={step}")
    page.keyboard.press("PageDown")
    metric(page).wait_for()
    page.wait_for_function(FITS)


def test_charts_follow_the_type_of_the_room(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, f"{dashboard}/agreement?present=true")
    page.wait_for_function(ALIKE)
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(f"{PAGE_TYPE} > 26")
    page.wait_for_function(ALIKE)
    assert page.watch.complaints == []


def test_the_room_votes_by_number_and_enter_plays_while_space_goes_on(page, dashboard):
    opened(page, f"{dashboard}/tour?step=6")
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    page.keyboard.press("2")
    page.get_by_text("1 vote").wait_for()
    page.keyboard.press("Enter")
    page.wait_for_function("window.__player.state().playing && window.__player.state().position > 2")
    page.keyboard.press("Enter")
    page.keyboard.press(" ")
    metric(page).wait_for()
    assert not page.evaluate("window.__player.state().playing")
    page.locator(".stage canvas").click()  # now the player has the keys, until Escape
    before = page.evaluate("window.__player.state().position")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("window.__player.state().position") == before + 1
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    page.get_by_text(f"7 of {STEPS}", exact=True).wait_for()


def test_presenting_turns_pages_by_keys_and_a_reload_stays_where_it_was(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, f"{dashboard}/softmax?seq=512")
    page.keyboard.press("p")
    page.wait_for_url("**present=true**")
    page.locator("[data-testid=stSidebar]").wait_for(state="hidden")
    assert page.locator("[data-testid=stHeader]").is_hidden()
    page.keyboard.press("PageUp")
    page.wait_for_url("**/tiles?**present=true**")
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    before = page.evaluate("window.__player.state().position")
    page.keyboard.press("ArrowRight")  # the player's own keys stay its own
    assert page.evaluate("window.__player.state().position") == before + 1
    page.wait_for_function(NOTED)
    page.reload()
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    assert page.evaluate("window.__player.state().position") == before + 1
    assert page.locator("[data-testid=stSidebar]").is_hidden()
    assert query(page)["seq"] == "512"
    page.keyboard.press("p")
    page.locator("[data-testid=stSidebar]").wait_for()
    page.wait_for_url(lambda url: "present" not in url)


def test_f_fills_the_screen_and_a_shows_the_audience_a_short_link(page, dashboard):
    opened(page, f"{dashboard}/softmax?seq=512&present=true")
    page.keyboard.press("f")
    page.wait_for_function("document.fullscreenElement === document.documentElement")
    page.keyboard.press("f")
    page.wait_for_function("!document.fullscreenElement")
    page.keyboard.press("j")
    page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop > 50")
    page.keyboard.press("k")
    page.wait_for_function("document.querySelector('[data-testid=stMain]').scrollTop === 0")
    page.keyboard.press("a")
    link = page.locator(".st-key-audience_link code").inner_text()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/softmax\?seq=512", link.strip())
    page.keyboard.press("a")
    page.locator(".st-key-audience_link").wait_for(state="detached")
    page.forget(dashboard)  # from here on it is another reader's
    opened(page, link.strip())
    assert {name: query(page)[name] for name in ("seq", "algorithm")} == {
        "seq": "512",
        "algorithm": "flash2",
    }
    assert page.locator("[data-testid=stSidebar]").is_visible()
