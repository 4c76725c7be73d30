"""What the player says of a moment: sentences, a tile's words, the table, the link."""

import pytest

from app.player import backward
from engine import Experiment
from tests.browser.players import filed, opened, page, pixels, seek, sentences, state
from tests.test_toy_algorithm import toy

pytestmark = pytest.mark.browser
__all__ = ["page", "toy"]


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
    assert "requests 16.4 kB from L2, counted" in first  # a key and a value tile: 2 * 64 * 64 * 2 B
    box = page.locator(".tip").bounding_box()
    canvas.hover(position={"x": 62, "y": 62})
    assert page.locator(".tip").bounding_box() == box
    canvas.hover(position={"x": 400, "y": 60})
    assert "skipped" in page.locator(".tip").inner_text()
    page.locator(".now").hover()
    assert page.locator(".tip").is_hidden()


def test_a_link_restores_scenario_moment_and_row(page, dashboard):
    opened(page, dashboard, "algorithm=flash1&seq=512", "#step=77&row=400")
    restored = state(page)
    assert (restored["algorithm"], restored["position"]) == ("flash1", 77)
    assert abs(restored["row"] - 400) <= 1


SMALL = {"block_q": 32, "block_kv": 32, "head_dim": 16}
RAGGED = {**SMALL, "seq": 100, "seq_kv": 150, "window": 70}


@pytest.mark.parametrize(
    ("algorithm", "shape"),
    [
        *((algorithm, RAGGED) for algorithm in ("standard", "flash1", "flash2", "backward")),
        ("backward", {**SMALL, "seq": 50, "seq_kv": 20, "causal": True}),  # rows without keys
        ("backward", {**SMALL, "seq": 20, "seq_kv": 100, "window": 30}),  # keys without queries
    ],
)
def test_every_moment_of_every_algorithm_has_its_sentence(page, tmp_path, algorithm, shape):
    drawing = backward.build(Experiment.of(**shape)) if algorithm == "backward" else None
    with filed(page, tmp_path, drawing, algorithm=algorithm, **shape) as alone:
        said = sentences(alone)
        assert alone.watch.complaints == []
    assert all(len(sentence) > 20 for sentence in said)
    assert not any(word in sentence for sentence in said for word in ("undefined", "NaN", "null"))


def test_an_algorithm_that_no_script_knows_has_its_picture_its_sentences_and_its_lane_in_the_race(
    page, toy, tmp_path
):
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
