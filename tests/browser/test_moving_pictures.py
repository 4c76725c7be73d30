"""Pictures and words of pages in a real Chromium: charts, lanes, the GPU, a watched run, terms, type."""

import re

import pytest

from app import contents, rescale, zoom
from app.gallery.picture import Drawn
from app.notebook import show
from app.watched import WATCHED, build
from engine.experiment import Experiment
from engine.studies.rescales import example
from tests.app.figures.test_watched_tables import stored_report
from tests.app.test_static_files import names
from tests.browser.conftest import SIZE, window
from tests.browser.players import filed
from tests.browser.test_pages import opened, query, settled

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
METRIC = "document.querySelector('[data-testid=stMetricValue]')"
EXACT = 1  # pixel: what Plotly lets pass
BLOCK = "window.__player.state()"


def test_boxes_move_from_step_to_step_and_say_what_happens(page, tmp_path):
    """A key leads on, each step has its sentence, and the picture is another one."""
    filed(page, tmp_path, contents.picture("beyond").of(Experiment(), topic="keys"))
    assert page.evaluate(BLOCK)["sentence"].startswith("Attention visits all")
    canvas = page.locator(".player .stage canvas")
    before = canvas.evaluate("(canvas) => canvas.toDataURL()")
    page.keyboard.press("End")
    page.wait_for_function(f"() => {BLOCK}.sentence.startsWith('No choice leaves out less')")
    assert canvas.evaluate("(canvas) => canvas.toDataURL()") != before
    assert page.evaluate(BLOCK)["where"] == "step 7 of 7"


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
    page.wait_for_function("window.__player?.state().sentence")
    before = page.evaluate(BLOCK)
    assert re.search(r"Group 1: .*\. Group 2: ", before["sentence"])
    page.keyboard.press("Enter")  # wherever the focus is
    page.wait_for_function(f"(time) => {BLOCK}.playing && {BLOCK}.time > time", arg=before["time"])
    page.locator(".play").click()
    page.keyboard.press("End")
    ended = page.evaluate(BLOCK)
    assert (ended["playing"], ended["time"]) == (False, ended["longest"])
    time = page.evaluate(f"{METRIC}.innerText")
    page.get_by_role("button", name="Softmax under products").click()
    settled(page)
    page.wait_for_function(f"time => {METRIC}.innerText !== time", arg=time)
    assert page.evaluate(BLOCK)["longest"] > ended["longest"]
    assert "Without softmax under products" in page.locator("[data-testid=stMain]").inner_text()
    drawn, moved = page.locator(".player").evaluate(FILMED)
    assert drawn > 20_000  # the lanes are there, and not words alone
    assert 500 < moved < 30_000  # the playhead, and what is under way
    assert page.locator("[data-testid=stException], [data-testid=stAlert]").count() == 0
    assert page.watch.complaints == []


def test_keys_lead_through_the_run_and_to_marked_tiles(page, tmp_path):
    """As a file, which needs no kernel to run: a lab that visits hidden tiles."""
    filed(page, tmp_path, Drawn(moving=WATCHED, data=build(stored_report())))
    assert page.evaluate(f"{BLOCK}.sentence").startswith("Done, with 9 visits where FlashAttention-2 makes 6")
    source = page.locator(".source")
    assert "although the mask hides all of it" in source.locator("p").inner_text()
    assert source.locator(".lit").count() == 0
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => {BLOCK}.position === 2")
    assert "tl.load(k + places" in source.locator(".lit").inner_text()
    while not re.search("it is extra|^Done", page.evaluate(f"{BLOCK}.sentence")):
        page.keyboard.press("ArrowRight")
    assert "tl.dot(q_tile" in source.locator(".lit.wrong").inner_text()
    page.keyboard.press(" ")
    page.wait_for_function(f"() => {BLOCK}.playing && {BLOCK}.position > 10")
    page.keyboard.press(" ")
    page.wait_for_function(f"() => !{BLOCK}.playing")
    assert page.watch.complaints == []


MARKED = """() => [...CSS.highlights.get('attention-term') ?? []].map((range) => {
    const { x, y, width, height } = range.getBoundingClientRect();
    return [range.toString(), x + width / 2, y + height / 2];
})"""


def test_charts_leave_their_labels_room_and_terms_are_explained_here_and_on_the_next_page(page, dashboard):
    """Plotly draws a chart once: it need not make more room, nor change what it is sent twice."""
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
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'HBM')")
    settled(page)
    page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop = 350")  # to the first words
    words = [word for word, _, _ in page.evaluate(MARKED)]
    assert len(words) == len(set(words)) > 5  # the first of each alone is underlined
    tip = page.get_by_role("tooltip")
    x, y = next((x, y) for word, x, y in page.evaluate(MARKED) if word == "HBM")
    page.mouse.move(x, y)
    tip.wait_for()
    assert tip.inner_text().startswith("HBM: The GPU's large memory")
    page.mouse.move(x, y + 250)
    tip.wait_for(state="hidden")
    # Across GPUs has links between GPUs by name, in a slider, whose value is not marked, and in a table
    page.get_by_role("link", name="Across GPUs").click()
    page.wait_for_url("**/across?**")
    page.wait_for_function(f"({MARKED})().some(([word]) => word === 'NVLink')")
    inside = "(range) => range.startContainer.parentElement.closest('[data-testid=stSliderThumbValue]')"
    assert page.evaluate(f"[...CSS.highlights.get('attention-term')].filter({inside}).map(String)") == []
    assert page.watch.complaints == []


WINDOWS = ((768, 1024, 11), (1280, 720, 11), (390, 844, 14))  # px, the last of type
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


def test_no_word_of_a_picture_that_moves_is_too_small_however_narrow_the_window(browser, tmp_path):
    pictures = [contents.picture(name).of(Experiment()) for name in ("tiles", "backward", "gpu", "across")]
    with window(browser, viewport=SIZE) as context:
        page = context.new_page()
        page.add_init_script(TYPE)
        for drawn in (*pictures, contents.picture("start").of(Experiment())):
            file = tmp_path / "picture.html"
            file.write_text(drawn.moving.offline(drawn.data, "A picture"), "utf-8")
            page.set_viewport_size(SIZE)
            page.goto(file.as_uri())
            for width, height, least in WINDOWS:
                page.set_viewport_size({"width": width, "height": height})
                page.wait_for_timeout(150)  # whatever the window's size brings
                page.evaluate("window.__sizes.clear(), document.querySelector('.player').player.fit(true)")
                smallest, words = min(page.evaluate("[...window.__sizes]"))
                assert smallest > least - 0.01, f"{words!r} of {drawn.moving.title} at {width} by {height}"


PASSING = {"stSkeleton", "stAppSkeleton", "stTextInput"}  # while it loads; where one types
FAILING = {"stException", "stAlertContentError", "stDialog"}  # where something fails: test_connection.py
THERE = """() => [...document.querySelectorAll('*')].flatMap((one) =>
    [one.dataset?.testid, ...one.classList, ...one.getAttributeNames()])"""


def test_every_name_stands_on_a_page(page, dashboard):
    opened(page, f"{dashboard}/speed")
    page.locator(".st-key-footprint").wait_for()
    page.get_by_role("button", name="Download").click()
    page.locator(".files li").first.wait_for()
    page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
    assert names() - set(page.evaluate(THERE)) - PASSING - FAILING == set()


DEPTH = "window.__player && window.__player.state().time"
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
    filed(page, tmp_path, Drawn(moving=zoom.ZOOM, data=zoom.payload(Experiment.of(seq=256))))
    page.goto(f"{page.url}#zoom=4")
    page.reload()
    page.wait_for_function(f"{DEPTH} === 4")
    page.keyboard.press("ArrowLeft")
    page.wait_for_url("**#zoom=3")


def test_a_finger_drags_a_score_by_its_end_and_scrolls_elsewhere(browser, tmp_path):
    file = tmp_path / "rescale.html"
    below = "<div style='height: 900px'>below</div>"
    file.write_text(rescale.RESCALE.offline(rescale.payload(example()), "α", "", below), "utf-8")
    with window(browser, **FINGERS) as context:
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_function("window.__player")
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


MOMENTS = """() => {  // of all players: where they stand and end, and whether they play
    const found = [], walk = (root) => root.querySelectorAll("*").forEach((element) => {
        const { player } = element;
        if (player) found.push([player.time, player.end, player.playing]);
        if (element.shadowRoot) walk(element.shadowRoot);
    });
    walk(document);
    return found;
}"""
PLAYING = f"({MOMENTS})().some(([time, , playing]) => playing && time > 0)"
BOTH = f"({MOMENTS})().length === 2"


def test_the_longer_run_is_the_clock_of_both_and_either_bar_plays_and_pauses_it(page, dashboard):
    page.goto(f"{dashboard}/tiles?algorithm=flash2&seq=512&compare=algorithm~standard")
    page.wait_for_function(BOTH)
    page.locator(".play").first.click()
    page.wait_for_function(PLAYING)
    page.locator(".play").last.click()
    (short, long) = page.evaluate(MOMENTS)
    assert not short[2]
    assert not long[2]
    assert 0 < long[0] < short[1] < long[1]
    assert abs(short[0] - long[0]) < short[1] / 50  # within a step
    page.keyboard.press("End")
    (short, long) = page.evaluate(MOMENTS)
    assert (short[0], long[0]) == (short[1], long[1])


def test_frames_of_a_notebook_follow_one_another(page, tmp_path):
    shown = show("tiles", seq=256, beside=Experiment.of(seq=512))
    file = tmp_path / "notebook.html"
    file.write_text(f"<meta charset='utf-8'>{shown._repr_html_()}", "utf-8")
    page.goto(file.as_uri())
    first, second = page.frames[1:]
    for frame in (first, second):
        frame.locator(".play").wait_for()
    first.locator("input[type=range]").first.evaluate(
        "slider => { slider.value = slider.max / 2; slider.dispatchEvent(new Event('input')); }"
    )
    second.wait_for_function(f"({MOMENTS})()[0][0] > 0")
    here, there = (frame.evaluate(MOMENTS)[0] for frame in (first, second))
    assert abs(here[0] - there[0]) < here[1] / 20
