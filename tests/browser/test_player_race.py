"""The player's race: who wins, and who cannot run."""

from __future__ import annotations

import pytest

from tests.browser.players import filed, opened, page, state

pytestmark = pytest.mark.browser
__all__ = ["page"]


def test_the_race_ends_with_a_winner_in_modelled_time(page, dashboard):
    opened(page, dashboard)
    page.keyboard.press("r")
    assert state(page)["race"]
    page.keyboard.press("End")
    assert "FlashAttention-2 finished first" in state(page)["sentence"]
    assert "modelled time" in state(page)["where"]
    page.keyboard.press("r")
    assert not state(page)["race"]


def test_who_does_not_fit_the_gpu_does_not_race_silently(page, tmp_path):
    with filed(page, tmp_path, seq=1024, batch=4096, heads=32) as alone:
        alone.keyboard.press("r")
        alone.keyboard.press("End")
        sentence = state(alone)["sentence"]
    assert "FlashAttention-2 took " in sentence
    assert "Standard does not fit" in sentence


def test_a_race_in_which_nobody_fits_says_so(page, tmp_path):
    with filed(page, tmp_path, block_q=256, block_kv=256, head_dim=256, hardware="a100") as alone:
        alone.keyboard.press("r")
        assert "Neither of the two fits the A100" in state(alone)["sentence"]
        assert state(alone)["where"] == "nothing races"
