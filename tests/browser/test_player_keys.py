"""The player's transport and keys in a real Chromium."""

import pytest

from tests.browser.players import filed, opened, page, pixels, seek, state

pytestmark = pytest.mark.browser
__all__ = ["page"]

FOUR_BY_FOUR = {"seq": 64, "block_q": 16, "block_kv": 16}  # tiles
FEW_FRAMES = "async () => { for (let n = 0; n < 12; n++) await new Promise(requestAnimationFrame); }"


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


def test_arrows_step_back_to_the_same_picture_and_with_shift_move_by_a_tile(page, dashboard):
    opened(page, dashboard)
    start, picture = state(page)["position"], pixels(page)
    page.keyboard.press("ArrowRight")
    assert state(page)["position"] == start + 1
    assert pixels(page) != picture
    page.keyboard.press("ArrowLeft")
    assert pixels(page) == picture
    page.keyboard.press("ArrowLeft")
    assert state(page)["position"] == start - 1
    page.keyboard.press("Shift+ArrowRight")
    assert "load K" in state(page)["where"]


def test_both_ends_the_scrubber_rows_speeds_and_the_race_are_reached(page, dashboard):
    opened(page, dashboard)
    press, row, speed = page.keyboard.press, state(page)["row"], state(page)["speed"]
    press("?")
    assert page.get_by_role("dialog", name="Keys").is_visible()
    press("Escape")
    assert page.locator(".help").is_hidden()
    press("ArrowDown")
    assert state(page)["row"] > row
    press("Escape")
    assert state(page)["row"] == row
    press("+")
    assert state(page)["speed"] == 2 * speed
    press("-")
    assert state(page)["speed"] == speed
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


def test_it_stops_at_the_end_and_with_a_loop_starts_again(page, tmp_path):
    with filed(page, tmp_path, **FOUR_BY_FOUR) as alone:
        assert 4 * 4 / state(alone)["speed"] < 15  # seconds of the whole run, watched from end to end
        seek(alone, state(alone)["last"] - 1)
        alone.keyboard.press(" ")
        alone.wait_for_function("() => !window.__player.state().playing")
        assert state(alone)["position"] == state(alone)["last"]
        alone.keyboard.press("l")
        seek(alone, state(alone)["last"] - 1)
        alone.keyboard.press(" ")
        alone.wait_for_function("() => window.__player.state().position < 40")
        assert state(alone)["playing"]


def test_nothing_is_complained_about_and_no_request_leaves_the_machine(page, dashboard):
    page.forget(dashboard)
    opened(page, dashboard)
    for key in (" ", " ", "r", "End", "r", "Home", "?", "Escape"):
        page.keyboard.press(key)
    assert page.watch.complaints == []
    assert page.watch.hosts == {"127.0.0.1"}
