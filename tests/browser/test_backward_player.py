"""The backward pass in the player: three kernels to the end, its own place, no race."""

import pytest

from tests.browser import players
from tests.browser.players import page, pixels, seek, sentences, state

__all__ = ["page"]
pytestmark = pytest.mark.browser

SMALL = "seq=128&head_dim=16&heads=4&kv_heads=2&block_q=32&block_kv=32&causal=true"


def opened(page, dashboard, query=SMALL):
    """The Backward page, its player on its canvas."""
    return players.opened(page, dashboard, query, path="backward")


def test_every_step_has_a_sentence_and_the_three_kernels_follow_each_other(page, dashboard):
    opened(page, dashboard)
    said = sentences(page)
    kernels = [sentence[:8] for sentence in said[1:-1]]
    assert kernels == sorted(kernels)
    assert set(kernels) == {"Kernel 1", "Kernel 2", "Kernel 3"}
    assert said[0].startswith("One head has 128 queries and 128 keys. Its backward pass takes dO")
    assert said[-1].startswith("Done. This head's tiles requested ")
    assert any("of all 2 heads that share it" in sentence for sentence in said)
    assert page.watch.complaints == []


def test_it_opens_on_a_tile_without_a_race_and_each_kernel_paints_its_own_gradients(page, dashboard):
    opened(page, dashboard)
    assert "dS = P ∘ (dP − δ)" in state(page)["sentence"]
    assert page.locator("[data-do=race]").is_hidden()
    page.keyboard.press("r")
    assert not state(page)["race"]
    pictures = set()
    for part in (0.02, 0.3, 0.6, 0.9, 1.0):
        seek(page, int(part * state(page)["last"]))
        pictures.add(pixels(page))
    assert len(pictures) == 5


def test_the_tiles_page_keeps_its_own_moment(page, dashboard):
    opened(page, dashboard)
    seek(page, state(page)["last"])
    page.get_by_role("link", name="Tiles").click()
    page.wait_for_function("window.__player.state().algorithm === 'flash2'")
    assert state(page)["position"] < state(page)["last"]
    page.get_by_role("link", name="Backward").click()
    page.wait_for_function("window.__player.state().algorithm === 'backward'")
    assert state(page)["position"] == state(page)["last"]
