"""An algorithm that no script knows by name plays in a real Chromium: what it is like is in its payload."""

from __future__ import annotations

import pytest

from app.player import PLAYER
from app.player.payload import build
from engine import Experiment
from tests.browser.players import pixels, seek, sentences, state
from tests.test_toy_algorithm import toy

__all__ = ["toy"]
pytestmark = pytest.mark.browser


def test_it_has_its_picture_its_sentences_and_its_lane_in_the_race(page, toy, tmp_path):
    file = tmp_path / "toy.html"
    file.write_text(
        PLAYER.offline(build(Experiment.of(algorithm="toy", seq=256, causal=True)), "toy"), "utf-8"
    )
    page.goto(file.as_uri())
    page.wait_for_function("() => window.__player?.state().redrawn")
    last, said, pictures = state(page)["last"], sentences(page), set()
    for position in range(0, last + 1, 20):
        seek(page, position)
        pictures.add(pixels(page))
    assert state(page)["algorithm"] == "toy"
    assert not any(word in sentence for sentence in said for word in ("undefined", "NaN", "null"))
    assert len(pictures) > last // 20
    assert said[-1].startswith("Done. This head's tiles requested ")
    page.keyboard.press("r")
    page.evaluate("window.__player.seek(0)")
    assert state(page)["sentence"].startswith("3 algorithms compute one head")
    page.keyboard.press("?")
    assert "race of the three algorithms" in page.locator(".help").inner_text()
    assert page.watch.complaints == []
