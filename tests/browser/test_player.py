"""The player in a real Chromium: what it is played with, how it draws, its room, what it keeps."""

from collections import Counter
from itertools import pairwise

import pytest

from app.gallery.picture import Drawn
from app.player import PLAYER
from app.player.payload import build
from engine.experiment import Experiment
from tests.browser.players import BOX, filed, opened, pixels, seek, state
from tests.test_toy_algorithm import toy

pytestmark = pytest.mark.browser
__all__ = ["toy"]

FEW_FRAMES = "async () => { for (let n = 0; n < 12; n++) await new Promise(requestAnimationFrame); }"
GROUND = "([player, ground]) => getComputedStyle(player).backgroundColor === ground"
APART = """[...document.querySelectorAll('.pages > *')]
    .every((group) => group.scrollWidth <= group.clientWidth + 1)"""
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
    for (let n = 0; n < 40; counts.push(strokes), n++, strokes = 0)
        window.__player.seek(Math.floor(last * ((n * 0.381966) % 1)));
    return counts;
}"""


def test_keys_and_the_scrubber_lead_to_every_moment_row_speed_and_the_race(page, dashboard):
    opened(page, dashboard)
    press = page.keyboard.press
    before, picture = state(page), pixels(page)
    press("ArrowRight")
    assert state(page)["position"] == before["position"] + 1
    assert pixels(page) != picture
    press("ArrowLeft")
    assert pixels(page) == picture
    press("Shift+ArrowRight")
    assert "load K" in state(page)["where"]
    press(" ")
    page.wait_for_function("(at) => window.__player.state().position > at + 3", arg=state(page)["position"])
    press(" ")
    paused = state(page)["position"]
    page.evaluate(FEW_FRAMES)
    assert (state(page)["playing"], state(page)["position"]) == (False, paused)
    press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    press("Escape")
    assert page.locator(".help").is_hidden()
    speed = state(page)["speed"]
    press("+")
    assert state(page)["speed"] == 2 * speed
    press("-")
    scrubber = page.get_by_role("slider", name="Position")
    scrubber.fill("100")
    assert (state(page)["position"], scrubber.get_attribute("aria-valuetext")) == (100, state(page)["where"])
    press("Home")
    assert state(page)["position"] == 0
    press("End")
    end = state(page)
    assert end["position"] == end["last"]
    # 16 query tiles of 8,192 B, each with 16 key and value tiles; O and lse written: 1024 * (128 + 4) B
    assert "4.46 MB" in end["sentence"]
    for held in ("Control", "Meta", "Alt"):  # what the browser does with these stays its own
        press(f"{held}+r")
    assert state(page) == end
    press("R")
    press("End")
    assert "FlashAttention-2 finished first" in state(page)["sentence"]
    assert "modelled time" in state(page)["where"]
    press("r")
    assert not state(page)["race"]
    page.get_by_label("Speed").select_option(index=1)
    assert state(page)["speed"] == 0.25
    assert page.watch.complaints == []
    assert page.watch.hosts == {"127.0.0.1"}


def test_4096_tiles_are_drawn_once_a_frame_with_half_as_many_strokes(page, dashboard):
    opened(page, dashboard, "seq=4096")
    counts = page.evaluate(STROKES)
    assert min(counts) > 100
    assert max(counts) < 2048
    seek(page, 0)
    page.evaluate(DISPLAYED)
    page.keyboard.press(" ")
    page.wait_for_function("window.__player.frames.length >= 20")
    drawn, displayed = page.evaluate("[window.__player.frames.map(([at]) => at), window.displayed]")
    assert len(drawn) >= 20
    assert Counter(drawn) <= Counter(displayed)
    for _ in range(3):  # too fast for its steps to be read: of a tile what its softmax does is told
        page.wait_for_timeout(900)
        assert " meets key tile " in state(page)["sentence"]


def test_it_plays_calmly_where_that_is_asked_wears_the_pages_theme_and_fits_every_screen(page, dashboard):
    page.emulate_media(reduced_motion="reduce")
    opened(page, dashboard)
    small = page.evaluate(f"({BOX})('.transport').height")
    page.keyboard.press(" ")
    page.wait_for_function("window.__player.frames.length >= 5")
    times = page.evaluate("window.__player.frames.map(([at]) => at)")
    assert min(late - early for early, late in pairwise(times)) >= 200
    page.keyboard.press(" ")
    player = page.locator(".player").element_handle()
    for scheme, ground in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(15, 19, 24)")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(GROUND, arg=[player, ground])
    for width, height in ((1440, 900), (1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(f"({BOX})('.player').right <= innerWidth")
        page.wait_for_function(f"innerHeight - ({BOX})('.player').bottom >= 0")
        page.wait_for_function(f"innerHeight - ({BOX})('.player').bottom < 60")  # and uses it
        if width == 1920:
            page.wait_for_function(f"(small) => ({BOX})('.transport').height > 1.2 * small", arg=small)
    page.get_by_role("button", name="Full screen").click()
    page.wait_for_function("document.fullscreenElement && innerHeight === screen.height")
    page.wait_for_function(f"({BOX})('.player').height === innerHeight")
    player, transport = page.evaluate(f"['.player', '.transport'].map({BOX})")
    assert (player["x"], player["y"], player["width"], player["height"]) == (0, 0, 1280, 800)
    assert transport["bottom"] <= 800
    page.keyboard.press(" ")  # after a click on its button: plays, and stays on full screen
    assert state(page)["playing"]
    page.keyboard.press(" ")
    page.keyboard.press("f")
    page.wait_for_function("!document.fullscreenElement")
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function(f"({BOX})('.player').right <= 390")
    for key in ("r", "End", "r", "ArrowRight"):
        page.keyboard.press(key)
    assert page.evaluate(APART), "a group of the navigation lies on the next"
    assert page.watch.complaints == []


def test_a_link_opens_its_moment_whose_share_a_changed_scenario_keeps_for_this_reader_alone(page, dashboard):
    opened(page, dashboard, "algorithm=flash1&seq=512#step=77&row=400")
    before = state(page)
    assert (before["algorithm"], before["position"]) == ("flash1", 77)
    assert abs(before["row"] - 400) <= 1
    other = page.context.new_page()  # of one browser, which shares what it stores: two browsers share less
    opened(other, dashboard, "algorithm=standard&seq=512")
    seek(other, state(other)["last"] // 2)
    drawn = state(other)
    other.get_by_role("slider", name="Key block").press("ArrowRight")
    other.wait_for_function("(drawn) => window.__player.state().redrawn > drawn", arg=drawn["redrawn"])
    after = state(other)
    assert after["last"] != drawn["last"]
    assert abs(after["position"] / after["last"] - 0.5) < 0.01
    assert state(page) == before
    other.close()


def test_an_algorithm_that_no_script_knows_has_its_picture_and_its_lane_in_the_race(page, toy, tmp_path):
    experiment = Experiment.of(algorithm="toy", seq=256, causal=True)
    filed(page, tmp_path, Drawn(moving=PLAYER, data=build(experiment)))
    last, pictures = state(page)["last"], set()
    for position in range(0, last + 1, 20):
        seek(page, position)
        pictures.add(pixels(page))
    assert state(page)["algorithm"] == "toy"
    assert len(pictures) > last // 20
    page.keyboard.press("r")
    seek(page, 0)
    assert state(page)["sentence"].startswith("3 algorithms compute one head")
    page.keyboard.press("?")
    assert "race of the three algorithms" in page.locator(".help").inner_text()
    assert page.watch.complaints == []


def test_a_backward_pass_has_gradients_and_a_moment_of_its_own_and_no_race(page, dashboard):
    small = "seq=128&head_dim=16&heads=4&kv_heads=2&block_q=32&block_kv=32&causal=true"
    opened(page, dashboard, small, "backward")
    assert "dS = P ∘ (dP − δ)" in state(page)["sentence"]
    assert page.locator("[data-do=race]").is_hidden()
    page.keyboard.press("r")
    assert not state(page)["race"]
    pictures, last = set(), state(page)["last"]
    for part in (0.02, 0.3, 0.6, 0.9, 1.0):
        seek(page, int(part * last))
        pictures.add(pixels(page))
    assert len(pictures) == 5
    page.get_by_role("link", name="Tiles").click()
    page.wait_for_function("window.__player?.state().algorithm === 'flash2'")
    assert state(page)["position"] < state(page)["last"]
    page.get_by_role("link", name="Backward").click()
    page.wait_for_function("window.__player?.state().algorithm === 'backward'")
    assert state(page)["position"] == last
    assert page.watch.complaints == []
