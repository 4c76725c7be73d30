"""An algorithm that no script knows by name plays in a real Chromium: what it is like is in its payload."""

from __future__ import annotations

import pytest

from tests.browser.players import filed, pixels, seek, sentences, state
from tests.test_toy_algorithm import toy

__all__ = ["toy"]
pytestmark = pytest.mark.browser


def test_it_has_its_picture_its_sentences_and_its_lane_in_the_race(page, toy, tmp_path):
    with filed(page, tmp_path, algorithm="toy", seq=256, causal=True) as alone:
        last, said, pictures = state(alone)["last"], sentences(alone), set()
        for position in range(0, last + 1, 20):
            seek(alone, position)
            pictures.add(pixels(alone))
        assert state(alone)["algorithm"] == "toy"
        assert not any(word in sentence for sentence in said for word in ("undefined", "NaN", "null"))
        assert len(pictures) > last // 20
        assert said[-1].startswith("Done. This head's tiles requested ")
        alone.keyboard.press("r")
        seek(alone, 0)
        assert state(alone)["sentence"].startswith("3 algorithms compute one head")
        alone.keyboard.press("?")
        assert "race of the three algorithms" in alone.locator(".help").inner_text()
        assert alone.watch.complaints == []
