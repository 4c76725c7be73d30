"""Pictures and words of pages in a real Chromium: charts, lanes, the GPU, a watched run, terms, type."""

import re

import pytest

from app.watched import WATCHED, build
from engine.watch.labs import stored_report
from tests.app.test_streamlit_names import lacking, names
from tests.browser.conftest import SIZE, window
from tests.browser.players import SETTLED
from tests.browser.test_pages import opened, settled

pytestmark = pytest.mark.browser

CHARTS = "[...document.querySelectorAll('.js-plotly-plot')]"
DRAWN = f"{CHARTS}.filter((chart) => chart.layout?.width && chart._fullLayout?._size).length === 1"
ROOM = f"""() => {CHARTS}.map((chart) => {{
    const {{ margin, template, datarevision, transition, width }} = chart.layout;
    const size = chart._fullLayout._size, plain = !template && !transition && !!datarevision;
    const missing = ['l', 'r', 't', 'b'].map((side) => size[side] - margin[side]);
    return [...missing, plain && Number.isInteger(width)];
}})"""
HEADINGS = """() => [...document.querySelectorAll('.st-key-apart_traffic [data-testid=stColumn]')]
    .map((column) => column.querySelector('p').getBoundingClientRect().height)"""
EXACT = 1  # pixel: what Plotly lets pass


def test_a_chart_leaves_its_labels_the_room_that_they_take_below_headings_of_one_line_each(page, dashboard):
    """Plotly draws it once: it need not make more room, nor change what it is sent twice."""
    page.goto(f"{dashboard}/traffic?seq=16384")
    page.wait_for_function(DRAWN)
    for *missing, plain in page.evaluate(ROOM):
        assert max(map(abs, missing)) <= EXACT
        assert plain
    page.get_by_role("radio", name="requested from L2").click()
    page.get_by_text("Over the length: requested from L2, counted").wait_for()
    heights = page.evaluate(HEADINGS)
    assert len(heights) == 3
    assert max(heights) < 1.5 * min(heights)  # so that the charts below them are level


def test_boxes_move_from_step_to_step_and_say_what_happens(page, dashboard):
    """On the page Beyond: a key leads on, each step has its sentence, and the picture is another one."""
    opened(page, f"{dashboard}/beyond?topic=keys")
    page.wait_for_function("window.__boxes?.state().sentence.startsWith('Attention visits all')")
    canvas = page.locator(".player .stage canvas")
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.locator(".player").focus()
    page.keyboard.press("End")
    page.wait_for_function("window.__boxes.state().sentence.startsWith('No choice leaves out less')")
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before
    assert page.evaluate("window.__boxes.state().where") == "step 7 of 7"


BLOCK = "window.__inside.state()"
# pixels of a film's picture that are not ground, and those that change with the moment
FILMED = """async (root) => {
    const { player } = root, film = await player.takeHome.film({ hall: true }),
        pixels = () => film.pixels().subarray(110 * 1280, 640 * 1280),
        shown = (part) => (film.paint(part * player.last), pixels()),
        [one, other] = [shown(0.3), shown(0.6)];
    const count = (differs) => one.filter(differs).length;
    return [count((pixel) => pixel !== one[0]), count((pixel, n) => pixel !== other[n])];
}"""


def test_the_playhead_walks_to_the_end_and_switching_the_overlap_off_redraws_lanes_and_time(page, dashboard):
    opened(page, f"{dashboard}/flash3?seq=4096&head_dim=128&algorithm=flash3")
    page.wait_for_function("window.__inside?.state().sentence")
    before = page.evaluate(BLOCK)
    assert re.search(r"Group 1: .*\. Group 2: ", before["sentence"])
    page.keyboard.press("Enter")  # wherever the focus is
    page.wait_for_function(f"(time) => {BLOCK}.playing && {BLOCK}.time > time", arg=before["time"])
    page.locator(".play").click()
    page.keyboard.press("End")
    ended = page.evaluate(BLOCK)
    assert (ended["playing"], ended["time"]) == (False, ended["longest"])
    time = page.locator("[data-testid=stMetricValue]").first.inner_text()
    page.get_by_role("button", name="Softmax under products").click()
    settled(page)
    page.wait_for_function(
        "time => document.querySelector('[data-testid=stMetricValue]').innerText !== time", arg=time
    )
    assert page.evaluate(BLOCK)["longest"] > ended["longest"]
    assert "Without softmax under products" in page.locator("[data-testid=stMain]").inner_text()
    drawn, moved = page.locator(".player").evaluate(FILMED)
    assert drawn > 20_000  # the lanes are there, and not words alone
    assert 500 < moved < 30_000  # the playhead, and what is under way
    assert page.locator("[data-testid=stException], [data-testid=stAlert]").count() == 0
    assert page.watch.complaints == []


def state(page) -> dict:
    return page.evaluate("window.__gpu.state()")


def test_keys_and_the_pointer_lead_through_a_run(page, dashboard):
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
    assert (before["head"], state(page)["head"]) == (0, 1)

    box = canvas.bounding_box()
    page.mouse.click(box["x"] + 0.3 * box["width"], box["y"] + 0.2 * box["height"])
    assert 0 < state(page)["time"] < state(page)["longest"]
    page.mouse.move(box["x"] + 0.1 * box["width"], box["y"] + 0.2 * box["height"])
    tip = page.locator(".tip", has_text="query block")
    tip.wait_for()
    assert "SM" in tip.inner_text()


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


MARKED = """() => [...CSS.highlights.get('attention-term') ?? []].map((range) => {
    const { x, y, width, height } = range.getBoundingClientRect();
    return [range.toString(), x + width / 2, y + height / 2];
})"""


def test_a_term_is_explained_where_it_is_pointed_at_and_another_page_is_marked_anew(page, dashboard):
    page.goto(f"{dashboard}/traffic")
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'HBM')")
    settled(page)
    page.evaluate(
        "document.querySelector('[data-testid=stMain]').scrollTop = 350"
    )  # the picture is above all words
    words = [word for word, _, _ in page.evaluate(MARKED)]
    assert len(words) == len(set(words)) > 5  # the first of each alone is underlined
    tip = page.get_by_role("tooltip")
    x, y = next((x, y) for word, x, y in page.evaluate(MARKED) if word == "HBM")
    page.mouse.move(x, y)
    tip.wait_for()
    assert tip.inner_text().startswith("HBM: The GPU's large memory")
    page.mouse.move(x, y + 250)
    tip.wait_for(state="hidden")
    terms, told = page.locator(".terms"), []
    terms.focus()
    tip.wait_for()
    for _ in words:
        told.append(terms.get_attribute("aria-label").split(":")[0])
        page.keyboard.press("ArrowRight")
    assert told == words
    tip.filter(has_text=re.compile(rf"^{re.escape(words[0])}: ")).wait_for()  # arrows go round
    # Across GPUs has links between GPUs by name, in a slider, whose value is not marked, and in a table
    page.get_by_role("link", name="Across GPUs").click()
    page.wait_for_url("**/across?**")
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'NVLink')")
    inside = "(range) => range.startContainer.parentElement.closest('[data-testid=stSliderThumbValue]')"
    assert page.evaluate(f"[...CSS.highlights.get('attention-term')].filter({inside}).map(String)") == []
    assert page.watch.complaints == []


WINDOWS = ((768, 1024, 11), (1024, 768, 11), (1280, 720, 11), (390, 844, 14))  # px, the last of type
TYPE = """
(() => {
    const sizes = (window.__sizes = new Map());
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (words, ...rest) {
        const { a, b } = this.getTransform(); // some words are turned
        const size = (parseFloat(this.font.match(/([\\d.]+)px/)[1]) * Math.hypot(a, b)) / devicePixelRatio;
        if (String(words).trim()) sizes.set(size, words);
        return fill.call(this, words, ...rest);
    };
})()
"""


def test_no_word_of_a_picture_that_moves_is_too_small_however_narrow_the_window(browser, dashboard):
    context = window(browser, viewport=SIZE)
    try:
        page = context.new_page()
        page.add_init_script(TYPE)
        for name in ("tiles", "backward", "gpu", "across", "traffic"):
            page.set_viewport_size(SIZE)
            opened(page, f"{dashboard}/{name}")
            for width, height, least in WINDOWS:
                page.evaluate("window.__sizes.clear()")
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_function("window.__sizes.size > 2")
                page.wait_for_timeout(150)  # whatever else the window's size brings
                smallest, words = min(page.evaluate("[...window.__sizes]"))
                assert smallest > least - 0.01, f"{words!r} on {name} at {width} by {height}"
    finally:
        context.close()


PAGES = ("tiles", "traffic", "softmax?present=true", "speed", "across", "claims")
PASSING = {
    "stSkeleton",
    "stAppSkeleton",
    "stTextInput",
}  # while a script is loaded; where a sentence is typed
FAILING = {"stException", "stAlertContentError", "stDialog"}  # where something fails: test_connection.py
THERE = """() => [...document.querySelectorAll('*')].flatMap((one) =>
    [one.dataset?.testid, ...one.classList, ...one.getAttributeNames()])"""


def test_every_name_stands_on_a_page(page, dashboard):
    seen = set()
    for address in PAGES:
        page.goto(f"{dashboard}/{address}")
        page.wait_for_selector("[data-test-script-state=notRunning]")
        page.locator(".st-key-style").wait_for(state="attached")
        if address == "tiles":
            page.locator(".st-key-footprint").wait_for(state="attached")
            page.get_by_role("button", name="Download").click()
            page.locator(".files li").first.wait_for()
        page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
        seen |= set(page.evaluate(THERE))
    assert names() - seen - PASSING - FAILING == lacking()
