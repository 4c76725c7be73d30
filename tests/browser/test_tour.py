"""The tour to its end by keys alone, and the presenter's keys."""

import re

import pytest

from app.tour import file
from tests.browser.test_pages import query, settled

pytestmark = pytest.mark.browser

STEPS = len(file.load("attention").steps)
DENSE = 6  # from the first, as many as have most on their screens
NOTED = """() => {  // the player's moment, for a reload
    const { position, last } = window.__player.state();
    return Math.abs(Number(sessionStorage.getItem("attention moment forward")) * last - position) < 0.5;
}"""
FITS = """() => {  // the words and the picture, which is drawn, above the room of the keys' hint
    const of = (part) => document.querySelector(`.st-key-tour_${part}`);
    const parts = ["words", "picture", "played"].map(of).filter(Boolean);
    const ends = parts.map((element) => element.getBoundingClientRect().bottom), picture = parts.at(-1);
    const room = document.querySelector(".st-key-presenter_hint").offsetHeight;
    return picture.offsetHeight > 100 && Math.max(...ends) <= innerHeight - room;
}"""
LEAST = """() => Math.min(...[...document.querySelectorAll("[class*=st-key-tour_] *")]
    .filter((element) => element.getBoundingClientRect().height > 1 && !element.closest(".katex, .sms"))
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && /\\w/.test(node.data)))
    .map((element) => parseFloat(getComputedStyle(element).fontSize)))"""
PAGE_TYPE = "parseFloat(getComputedStyle(document.documentElement).fontSize)"
ALIKE = f"""() => {{  // a chart's words, which are 13 px where the page's are 14
    const words = document.querySelector(".js-plotly-plot .xtitle");
    return words && Math.abs(parseFloat(getComputedStyle(words).fontSize) / {PAGE_TYPE} - 13 / 14) < 0.02;
}}"""


def opened(page, address):
    page.goto(address)
    page.locator("[data-keys]").first.wait_for(state="attached")
    page.locator(".st-key-present button").first.wait_for(state="attached")  # comes with the sidebar, last
    settled(page)  # what tells the type's size runs the page again, and a key in between is lost
    return page


def told(page):
    return page.locator(".st-key-tour_played")  # in the question's place


def at_step(page, number: int):
    page.get_by_text(f"{number} of {STEPS}", exact=True).wait_for()
    told(page).wait_for(state="detached")  # Streamlit takes away what is gone when the run ends


def test_a_remote_leads_on_each_answer_after_its_vote_and_all_fits_in_large_type(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, f"{dashboard}/tour?present=true")
    for number in range(1, DENSE + 1):
        at_step(page, number)
        page.wait_for_function(FITS)
        page.keyboard.press("1")
        page.get_by_text("1 vote").wait_for()
        assert not told(page).is_visible()
        page.keyboard.press(("PageDown", " ", "ArrowRight")[number % 3])
        told(page).wait_for()
        page.wait_for_function(FITS)
        assert page.evaluate(LEAST) >= 16
        page.keyboard.press("PageDown")
    at_step(page, DENSE + 1)
    page.keyboard.press("PageUp")
    page.get_by_text(f"{DENSE} of {STEPS}", exact=True).wait_for()
    page.wait_for_url(f"**step={DENSE}**")
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(FITS)
    assert page.watch.complaints == []


def test_the_lecturers_window_follows_the_presented_one_and_leads_it(page, dashboard):
    opened(page, f"{dashboard}/tour?present=true&step={STEPS - 1}")
    lectern = page.context.new_page()
    lectern.goto(f"{dashboard}/tour?presenter")
    now, following = (lectern.locator(f'[data-is="{part}"]') for part in ("now", "next"))
    now.get_by_text("When none of it matters").wait_for()
    assert following.inner_text() == "The lesson, and how to use it"
    assert lectern.locator('[data-is="answer"]').inner_text() == "1.1×"
    assert lectern.locator('[data-is="time"]').inner_text() == "0:00"
    plan = lectern.locator('[data-is="plan"]').inner_text()
    assert re.search(r"^\d+ min for this step, until \d+:00\.$", plan)
    step = file.load("attention").steps[STEPS - 2]
    assert lectern.locator('[data-is="notes"]').inner_text() == step.notes
    assert lectern.locator('[data-is="late"]').inner_text() == ""
    for state in ("visible", "detached"):  # to the answer, then to the last step
        lectern.keyboard.press("ArrowRight")
        told(page).wait_for(state=state)
    now.get_by_text("The lesson, and how to use it").wait_for()
    time = lectern.locator('[data-is="time"]')
    time.filter(has_not_text=re.compile("^0:00$")).wait_for()  # it runs from the first step on
    assert page.get_by_role("button", name="The end").is_disabled()


def test_charts_follow_the_type_of_the_room(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, f"{dashboard}/agreement?present=true")
    page.wait_for_function(ALIKE)
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(f"{PAGE_TYPE} > 26")
    page.wait_for_function(ALIKE)
    assert page.watch.complaints == []


def test_presenting_turns_pages_by_keys_and_a_reload_stays_where_it_was(page, dashboard):
    page.set_viewport_size({"width": 1280, "height": 720})
    opened(page, f"{dashboard}/softmax?seq=512")
    page.keyboard.press("p")
    page.wait_for_url("**present=true**")
    page.locator("[data-testid=stSidebar]").wait_for(state="hidden")
    assert page.locator("[data-testid=stHeader]").is_hidden()
    settled(page)
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
    settled(page)
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
    link = page.locator(".st-key-audience_link [data-testid=stCode] code").inner_text()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/softmax\?seq=512", link.strip())
    page.keyboard.press("a")
    page.locator(".st-key-audience_link").wait_for(state="detached")
    page.forget(dashboard)  # from here on it is another reader's
    opened(page, link.strip())
    assert {name: query(page)[name] for name in ("seq", "algorithm")} == {"seq": "512", "algorithm": "flash2"}
    assert page.locator("[data-testid=stSidebar]").is_visible()
