"""The room that the player takes on screens of any size, alone and beside another reader's."""

import pytest

from tests.browser.players import BOX, opened, page, shown, state

pytestmark = pytest.mark.browser
__all__ = ["page"]
APART = """[...document.querySelectorAll('.st-key-navigation > *')]
    .every((group) => group.firstElementChild.scrollWidth <= group.clientWidth + 1)"""


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


def test_a_phone_shows_grid_and_traffic_without_complaint(page, dashboard):
    page.set_viewport_size({"width": 390, "height": 844})
    opened(page, dashboard)
    for key in ("r", "End", "r", "ArrowRight"):
        page.keyboard.press(key)
    box = page.locator(".player").bounding_box()
    assert box["x"] + box["width"] <= 390
    assert page.evaluate(APART), "a group of the navigation lies on the next"
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


def test_everything_fits_one_screen_and_grows_with_it(page, dashboard):
    opened(page, dashboard)
    small = page.evaluate(f"({BOX})('.transport').height")
    for width, height in ((1440, 900), (1920, 1080), (1280, 800)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(
            f"({BOX})('.player').bottom <= innerHeight && ({BOX})('.player').right <= innerWidth"
        )
        page.wait_for_function(f"({BOX})('.player').bottom > innerHeight - 60")  # and uses it
        if width == 1920:
            page.wait_for_function(f"(small) => ({BOX})('.transport').height > 1.2 * small", arg=small)
