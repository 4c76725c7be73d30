"""Two pictures beside each other are played by one clock, on a page and in a notebook's frames."""

import pytest

from app.notebook import show
from engine.experiment import Experiment

pytestmark = pytest.mark.browser

MOMENTS = """() => {  // of all players: where they stand and end, and whether they play
    const found = [], walk = (root) => root.querySelectorAll("*").forEach((element) => {
        const { player } = element;
        if (player) found.push([player.time, player.end, player.playing]);
        if (element.shadowRoot) walk(element.shadowRoot);
    });
    walk(document);
    return found;
}"""
PLAYING = f"({MOMENTS})().some(([time, , playing]) => playing && time > 0)"
BOTH = f"({MOMENTS})().length === 2"


def test_the_longer_run_is_the_clock_of_both_and_either_bar_plays_and_pauses_it(page, dashboard):
    page.goto(f"{dashboard}/tiles?algorithm=flash2&seq=512&compare=algorithm~standard")
    page.wait_for_function(BOTH)
    page.locator(".play").first.click()
    page.wait_for_function(PLAYING)
    page.locator(".play").last.click()
    (short, long) = page.evaluate(MOMENTS)
    assert not short[2]
    assert not long[2]
    assert 0 < long[0] < short[1] < long[1]
    assert abs(short[0] - long[0]) < short[1] / 50  # within a step
    page.keyboard.press("End")
    (short, long) = page.evaluate(MOMENTS)
    assert (short[0], long[0]) == (short[1], long[1])


def test_frames_of_a_notebook_follow_one_another(page, tmp_path):
    shown = show("tiles", seq=256, beside=Experiment.of(seq=512))
    file = tmp_path / "notebook.html"
    file.write_text(f"<meta charset='utf-8'>{shown._repr_html_()}", "utf-8")
    page.goto(file.as_uri())
    first, second = page.frames[1:]
    for frame in (first, second):
        frame.locator(".play").wait_for()
    first.locator("input[type=range]").first.evaluate(
        "slider => { slider.value = slider.max / 2; slider.dispatchEvent(new Event('input')); }"
    )
    second.wait_for_function(f"({MOMENTS})()[0][0] > 0")
    here, there = (frame.evaluate(MOMENTS)[0] for frame in (first, second))
    assert abs(here[0] - there[0]) < here[1] / 20
