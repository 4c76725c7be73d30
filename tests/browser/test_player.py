"""The player in a real Chromium: transport, keys, race, links, speed."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

pytestmark = pytest.mark.browser

FIND = (
    "(s) => [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')]"
    ".map((host) => host.shadowRoot.querySelector(s)).find(Boolean)"
)
BOX = f"(s) => ({FIND})(s).getBoundingClientRect().toJSON()"
SETTLED = f"""async () => {{
    const size = () => JSON.stringify(({BOX})(".stage canvas"));
    for (let before = "", stood = 0; stood < 8; stood = size() === before ? stood + 1 : 0) {{
        before = size();
        await new Promise(requestAnimationFrame);
    }}
}}"""
FEW_FRAMES = "async () => { for (let n = 0; n < 12; n++) await new Promise(requestAnimationFrame); }"
DISPLAYED = """() => {
    const see = (now) => { window.displayed.push(now); requestAnimationFrame(see); };
    window.displayed = [];
    requestAnimationFrame(see);
}"""
STROKES = """() => {
    const pen = CanvasRenderingContext2D.prototype, { last } = window.__player.state(), counts = [];
    const own = Object.entries(Object.getOwnPropertyDescriptors(pen))
        .filter(([, { value }]) => typeof value === "function");
    let strokes = 0;
    for (const [name, { value }] of own)
        pen[name] = function (...a) { strokes++; return value.apply(this, a); };
    for (let n = 0; n < 40; n++, strokes = 0) {
        window.__player.seek(Math.floor(last * ((n * 0.381966) % 1)));
        counts.push(strokes);
    }
    for (const [name, { value }] of own) pen[name] = value;  // the page may be the next test's
    return counts;
}"""


BLUR = """() => {
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    focused?.blur();
}"""


@pytest.fixture(scope="module")
def kept_tab(tab, dashboard):
    """The page that stays open from one test of a module to the next."""
    yield tab
    tab.forget(dashboard)


@pytest.fixture
def page(kept_tab):
    """A page that may still show what the test before opened: `opened` puts it back, or opens it anew."""
    tab = kept_tab
    yield tab.begin()
    tab.end()


USUAL = "seq=1024"  # the usual scenario: without a value the page opens with a smaller one


def opened(page, dashboard, query=USUAL, fragment="", path="tiles"):
    """A page with a player that stands on its canvas, which no longer changes its size."""
    asked = f"{dashboard}/{path}?{query}{fragment}"
    if not put_back(page, asked):
        page.forget(dashboard)
        shown(page, asked)
        page.evaluate("(asked) => { window.asked = asked; }", asked)
        page.as_opened = moment(page)
    return page


def shown(page, asked) -> None:
    """The player of an address stands on its canvas."""
    page.goto(asked)
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.evaluate(SETTLED)


def put_back(page, asked) -> bool:
    """Whether a page that was opened for this stands again as it did: opening takes ten times as long."""
    if page.evaluate("window.asked") != asked:
        return False
    page.evaluate(BLUR)
    for key, pressed in (
        (" ", state(page)["playing"]),
        ("r", state(page)["race"]),
        ("l", state(page)["loop"]),
    ):
        if pressed:
            page.keyboard.press(key)
    page.keyboard.press("Escape")  # closes the list of keys
    page.keyboard.press("Escape")  # follows the rows again
    seek(page, page.as_opened["position"])
    page.evaluate("window.__player.frames.length = 0")
    page.evaluate(SETTLED)
    return moment(page) == page.as_opened


def moment(page) -> dict:
    """All that can be told of the player and of where it stands."""
    size = page.evaluate(f"['.player', '.stage canvas'].map({BOX})")
    shown = page.evaluate(f"['.help', '.steps'].map((of) => ({FIND})(of)?.checkVisibility())")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return {**state(page), "size": size, "shown": shown, "link": page.url, "dark": dark}


def state(page):
    return page.evaluate("window.__player.state()")


def seek(page, position):
    return page.evaluate("(position) => window.__player.seek(position)", position)


def sentences(page) -> list[str]:
    """What is said at every position, from the first to the last."""
    return page.evaluate(
        """() => Array.from({ length: window.__player.state().last + 1 }, (_, at) => {
            window.__player.seek(at);
            return window.__player.state().sentence;
        })"""
    )


def pixels(page):
    """A fingerprint of what the canvas shows."""
    return page.locator(".stage canvas").evaluate("(canvas) => canvas.toDataURL()")


def test_space_plays_and_pauses_and_the_picture_moves(page, dashboard):
    opened(page, dashboard)
    before, picture = state(page)["position"], pixels(page)
    page.keyboard.press(" ")
    page.wait_for_function("(before) => window.__player.state().position > before + 3", arg=before)
    page.keyboard.press(" ")
    paused = state(page)
    assert not paused["playing"]
    assert pixels(page) != picture
    page.evaluate(FEW_FRAMES)
    assert state(page)["position"] == paused["position"]


def test_arrows_step_and_with_shift_move_by_a_tile(page, dashboard):
    opened(page, dashboard)
    start = state(page)["position"]
    page.keyboard.press("ArrowRight")
    assert state(page)["position"] == start + 1
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert state(page)["position"] == start - 1
    page.keyboard.press("Shift+ArrowRight")
    assert "load K" in state(page)["where"]


def test_stepping_back_restores_the_picture_exactly(page, dashboard):
    opened(page, dashboard)
    picture = pixels(page)
    page.keyboard.press("ArrowRight")
    assert pixels(page) != picture
    page.keyboard.press("ArrowLeft")
    assert pixels(page) == picture


def test_home_and_end_reach_both_ends_and_the_end_counts_every_byte(page, dashboard):
    opened(page, dashboard)
    page.keyboard.press("Home")
    assert state(page)["position"] == 0
    page.keyboard.press("End")
    end = state(page)
    assert end["position"] == end["last"]
    # 16 query tiles of 8,192 B, each with 16 key and value tiles; O and lse written: 1024 * (128 + 4) B
    assert "4.46 MB" in end["sentence"]


def test_the_scrubber_moves_the_picture(page, dashboard):
    opened(page, dashboard)
    page.get_by_role("slider", name="Position").fill("100")
    assert state(page)["position"] == 100


def test_up_and_down_choose_a_row_and_escape_follows_again(page, dashboard):
    opened(page, dashboard)
    row = state(page)["row"]
    page.keyboard.press("ArrowDown")
    assert state(page)["row"] > row
    page.keyboard.press("Escape")
    assert state(page)["row"] == row


def test_plus_and_minus_change_the_speed_and_l_loops(page, dashboard):
    opened(page, dashboard)
    speed = state(page)["speed"]
    page.keyboard.press("+")
    assert state(page)["speed"] == 2 * speed
    page.keyboard.press("-")
    page.keyboard.press("l")
    assert state(page)["speed"] == speed
    assert state(page)["loop"]


def test_the_race_ends_with_a_winner_in_modelled_time(page, dashboard):
    opened(page, dashboard)
    page.keyboard.press("r")
    assert state(page)["race"]
    page.keyboard.press("End")
    assert "FlashAttention-2 finished first" in state(page)["sentence"]
    assert "modelled time" in state(page)["where"]
    page.keyboard.press("r")
    assert not state(page)["race"]


def test_full_screen_holds_the_whole_player_and_escape_leaves_it(page, dashboard):
    opened(page, dashboard)
    for width, height in ((1920, 1080), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        page.get_by_role("button", name="Full screen").click()
        page.wait_for_function("document.fullscreenElement && innerHeight === screen.height")
        page.wait_for_function(f"({BOX})('.player').height === innerHeight")
        player, transport = page.evaluate(f"['.player', '.transport'].map({BOX})")
        assert (player["x"], player["y"], player["width"], player["height"]) == (0, 0, width, height)
        assert transport["bottom"] <= height
        page.keyboard.press(" ")  # after a click on its button: plays, and stays on full screen
        assert state(page)["playing"]
        page.keyboard.press(" ")
        page.keyboard.press("Escape")
        page.wait_for_function("!document.fullscreenElement")


def test_the_transport_grows_with_the_screen(page, dashboard):
    opened(page, dashboard)
    small = page.evaluate(f"({BOX})('.transport').height")
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.wait_for_function(f"(small) => ({BOX})('.transport').height > 1.2 * small", arg=small)


def test_a_phone_shows_grid_and_traffic_without_complaint(page, dashboard):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, dashboard)
    for key in ("r", "End", "r", "ArrowRight"):
        page.keyboard.press(key)
    box = page.locator(".player").bounding_box()
    assert box["x"] + box["width"] <= 390
    assert page.watch.complaints == []


def test_two_readers_do_not_move_each_other(page, dashboard):
    """Of one browser, which share what it stores: two browsers share less."""
    opened(page, dashboard)
    before = state(page)
    other = page.context.new_page()
    shown(other, f"{dashboard}/tiles?algorithm=standard&seq=512")
    other.keyboard.press("End")
    drawn = state(other)["redrawn"]
    other.get_by_role("slider", name="Key block").press("ArrowRight")
    other.wait_for_function("(drawn) => window.__player.state().redrawn > drawn", arg=drawn)
    assert state(page) == before
    other.close()


def test_help_lists_the_keys_and_escape_closes_it(page, dashboard):
    opened(page, dashboard)
    page.keyboard.press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".help").is_hidden()


def test_everything_fits_one_screen(page, dashboard):
    opened(page, dashboard)
    for width, height in ((1440, 900), (1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            f"({BOX})('.player').bottom <= innerHeight && ({BOX})('.player').right <= innerWidth"
        )
        page.wait_for_function(f"({BOX})('.player').bottom > innerHeight - 60")  # and uses it


def test_a_changed_scenario_keeps_the_share_of_the_run_that_is_done(page, dashboard):
    opened(page, dashboard)
    seek(page, state(page)["last"] // 2)
    before = state(page)
    page.get_by_role("slider", name="Key block").press("ArrowRight")
    page.wait_for_function("(at) => window.__player.state().redrawn > at", arg=before["redrawn"])
    after = state(page)
    assert after["last"] != before["last"]
    assert abs(after["position"] / after["last"] - 0.5) < 0.01


def test_a_tile_under_the_pointer_tells_what_it_is(page, dashboard):
    opened(page, dashboard, "causal=true")
    canvas = page.locator(".stage canvas")
    canvas.hover(position={"x": 60, "y": 60})
    first = page.locator(".tip").inner_text()
    assert first.splitlines()[:2] == ["Tile (0, 0)", "partial: the mask hides some of it"]
    assert "queries 0 to 63" in first
    assert "softmax share 100%" in first
    assert "asks L2 for 16.4 kB, counted" in first  # a key and a value tile: 2 * 64 * 64 * 2 B
    box = page.locator(".tip").bounding_box()
    canvas.hover(position={"x": 62, "y": 62})
    assert page.locator(".tip").bounding_box() == box
    canvas.hover(position={"x": 400, "y": 60})
    assert "skipped" in page.locator(".tip").inner_text()
    page.locator(".now").hover()
    assert page.locator(".tip").is_hidden()


def test_a_table_of_steps_stands_behind_the_picture(page, dashboard):
    opened(page, dashboard, "causal=true")
    page.wait_for_function(f"({FIND})('tr.current td')")
    rows = page.locator(".steps tbody tr")
    assert rows.count() == 16
    current = page.locator(".steps tr.current td").all_inner_texts()
    assert current[:3] == ["51", "9", "5"]


def test_the_first_moment_tells_of_a_rescale_in_numbers(page, dashboard):
    sentence = state(opened(page, dashboard, "causal=true"))["sentence"]
    assert "rises from" in sentence
    assert "α = 0." in sentence


def test_a_loop_starts_again_at_the_end(page, dashboard):
    opened(page, dashboard, "seq=64&block_q=16&block_kv=16")
    page.keyboard.press("l")
    seek(page, state(page)["last"] - 1)
    page.keyboard.press(" ")
    page.wait_for_function("window.__player.state().position < 40")
    assert state(page)["playing"]


def test_without_a_loop_it_stops_at_the_end(page, dashboard):
    opened(page, dashboard, "seq=64&block_q=16&block_kv=16")
    assert 4 * 4 / state(page)["speed"] < 15  # seconds of the whole run, which is watched from end to end
    seek(page, state(page)["last"] - 1)
    page.keyboard.press(" ")
    page.wait_for_function("!window.__player.state().playing")
    assert state(page)["position"] == state(page)["last"]


def test_who_does_not_fit_the_gpu_does_not_race_silently(page, dashboard):
    opened(page, dashboard, "batch=4096&heads=32")
    page.keyboard.press("r")
    page.keyboard.press("End")
    sentence = state(page)["sentence"]
    assert "FlashAttention-2 took " in sentence
    assert "Standard does not fit" in sentence


def test_a_race_in_which_nobody_fits_says_so(page, dashboard):
    opened(page, dashboard, "block_q=256&block_kv=256&head_dim=256&hardware=a100")
    page.keyboard.press("r")
    assert "Neither of the two fits the A100" in state(page)["sentence"]
    assert state(page)["where"] == "nothing races"


def test_a_link_restores_scenario_moment_and_row(page, dashboard):
    opened(page, dashboard, "algorithm=flash1&seq=512", "#step=77&row=400")
    restored = state(page)
    assert (restored["algorithm"], restored["position"]) == ("flash1", 77)
    assert abs(restored["row"] - 400) <= 1


@pytest.mark.parametrize("algorithm", ["standard", "flash1", "flash2"])
def test_every_moment_of_every_algorithm_has_its_sentence(page, dashboard, algorithm):
    opened(page, dashboard, f"algorithm={algorithm}&seq=100&seq_kv=150&block_q=32&block_kv=32&window=70")
    said = sentences(page)
    assert all(len(sentence) > 20 for sentence in said)
    assert not any(word in sentence for sentence in said for word in ("undefined", "NaN", "null"))


def test_a_large_problem_says_how_much_of_it_is_drawn(page, dashboard):
    opened(page, dashboard, "seq=65536")
    page.keyboard.press("t")
    assert "drawn: 4,096 of 65,536 keys" in page.locator(".steps caption").inner_text()


def test_4096_tiles_that_play_are_drawn_once_a_frame_of_the_display(page, dashboard):
    opened(page, dashboard, "seq=4096")
    seek(page, 0)
    page.evaluate(DISPLAYED)
    page.keyboard.press(" ")
    page.wait_for_function("window.__player.frames.length >= 20")
    drawn, displayed = page.evaluate("[window.__player.frames.map(([at]) => at), window.displayed]")
    assert len(drawn) >= 20
    assert Counter(drawn) <= Counter(displayed)


def test_any_moment_of_4096_tiles_is_drawn_with_half_as_many_strokes(page, dashboard):
    opened(page, dashboard, "seq=4096")
    counts = page.evaluate(STROKES)
    assert min(counts) > 100
    assert max(counts) < 2048


def test_it_plays_in_calm_steps_for_those_who_ask_for_less_motion(page, dashboard):
    page.emulate_media(reduced_motion="reduce")
    opened(page, dashboard)
    page.keyboard.press(" ")
    page.wait_for_function("window.__player.frames.length >= 5")
    times = page.evaluate("window.__player.frames.map(([at]) => at)")
    assert min(late - early for early, late in pairwise(times)) >= 200


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_it_takes_the_theme_of_the_page(page, dashboard, scheme):
    page.emulate_media(color_scheme=scheme)
    opened(page, dashboard)
    ground = page.locator(".player").evaluate("(player) => getComputedStyle(player).backgroundColor")
    assert ground == {"dark": "rgb(15, 19, 24)", "light": "rgb(255, 255, 255)"}[scheme]


def test_nothing_is_complained_about_and_no_request_leaves_the_machine(page, dashboard):
    page.forget(dashboard)
    opened(page, dashboard)
    for key in (" ", " ", "r", "End", "r", "Home", "t", "t", "?", "Escape", "c"):
        page.keyboard.press(key)
    page.wait_for_function(f"({FIND})('tr.current td')")  # the last that follows a moment
    assert page.watch.complaints == []
    assert page.watch.hosts == {"127.0.0.1"}
