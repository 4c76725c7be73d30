"""How the player draws: once a frame, with few strokes, calmly where asked, in the page's theme."""

from collections import Counter
from itertools import pairwise

import pytest

from tests.browser.players import opened, page, seek

pytestmark = pytest.mark.browser
__all__ = ["page"]

GROUND = "([player, ground]) => getComputedStyle(player).backgroundColor === ground"
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


def test_it_takes_the_theme_of_the_page(page, dashboard):
    opened(page, dashboard)
    player = page.locator(".player").element_handle()
    for scheme, ground in (("dark", "rgb(15, 19, 24)"), ("light", "rgb(255, 255, 255)")):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(GROUND, arg=[player, ground])
