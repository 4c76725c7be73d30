"""Files that a page gives, each read by a reader of its format."""

import base64
import csv
import io
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest

from engine import Experiment, simulate
from tests.browser.players import FIND

pytestmark = pytest.mark.browser

image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")


def opened(page, address):
    page.goto(address)
    page.locator(".st-key-footprint").wait_for(state="attached")  # what a run of the page draws last
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.get_by_role("button", name="Download").click()
    page.locator(".files li").first.wait_for()
    return page


def taken(page, name: str | re.Pattern) -> bytes:
    """The file that a button or a link of the list gives."""
    with page.expect_download() as download:
        page.get_by_role("button", name=name).or_(page.get_by_role("link", name=name)).first.click()
    return download.value.path().read_bytes()


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(image.open(io.BytesIO(data)).convert("RGB"), np.int16)


def blocks(picture: np.ndarray, side: int) -> np.ndarray:
    """The mean colour of every block of so many pixels: type is never drawn alike at two sizes."""
    height, width, _ = picture.shape
    return picture.reshape(height // side, side, width // side, side, 3).mean((1, 3))


def likeness(page, frames: list[np.ndarray], side: int) -> None:
    """The first and the last picture of a film are what the player shows there, by blocks of `side` px."""
    for frame, key in zip(frames, ("Home", "End"), strict=True):
        page.evaluate("(end) => window.__player.seek(end ? Infinity : 0)", key == "End")
        still = blocks(pixels(taken(page, "Player as PNG")), 16)
        difference = np.abs(blocks(frame, side) - still).max(-1)
        assert difference.mean() < 1.5
        assert (difference > 40).mean() < 0.005


def test_the_animation_is_a_gif_that_begins_and_ends_as_the_player_does(page, dashboard):
    opened(page, f"{dashboard}/tiles?causal=true")
    page.evaluate(f"({FIND})('.player').player.choose('speed', 512)")  # the shortest film
    gif = image.open(io.BytesIO(taken(page, "Player as GIF")))
    assert gif.size == (1152, 720)
    assert gif.n_frames == 41  # ten a second, of four seconds
    assert gif.info["loop"] == 0
    frames = []
    for frame in (0, gif.n_frames - 1):
        gif.seek(frame)
        frames.append(np.asarray(gif.convert("RGB"), np.int16))
    likeness(page, frames, 8)
    visits = csv.DictReader(io.StringIO(taken(page, "Player as CSV").decode("utf-8-sig")))
    queries, keys, size = 16 * 64 * 64, 16 * 17 // 2 * 64 * 64, 2  # of 16 x 16 tiles those that are seen
    assert int([*visits][-1]["read from L2 (bytes)"]) == (queries + 2 * keys) * size


PLAYED = """async (base64) => {
    const video = document.createElement("video"),
        heard = (name) => new Promise((done) => video.addEventListener(name, done, { once: true })),
        begun = heard("loadeddata");
    video.src = `data:video/mp4;base64,${base64}`;
    await begun;
    const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight), frames = [];
    for (const time of [0.01, video.duration - 0.01]) {
        const there = heard("seeked");
        video.currentTime = time;
        await there;
        await new Promise((done) => setTimeout(done, 500)); // a frame may come a moment after it is sought
        canvas.getContext("2d").drawImage(video, 0, 0);
        const blob = await canvas.convertToBlob(), reader = new FileReader();
        await new Promise((done) => { reader.onload = done; reader.readAsDataURL(blob); });
        frames.push(reader.result.split(",")[1]);
    }
    return [video.videoWidth, video.videoHeight, video.duration, ...frames];
}"""


def test_a_moving_picture_is_a_film_that_a_browser_plays_or_says_why_none_can_be_made(page, dashboard):
    opened(page, f"{dashboard}/softmax")
    page.evaluate(f"({FIND})('.player').player.choose('speed', 16)")  # the shortest film
    film = taken(page, re.compile("as MP4$"))
    assert film[4:8] == b"ftyp"
    assert film.index(b"moov") < film.index(b"mdat")  # so that it begins to play before all of it is there
    width, height, seconds, *frames = page.evaluate(PLAYED, base64.b64encode(film).decode())
    assert (width, height) == (1920, 1080)
    assert seconds == pytest.approx(6, abs=0.1)  # four that it plays, two that it stands
    first, last = (pixels(base64.b64decode(frame)) for frame in frames)
    ground, bar = (15, 19, 24), slice(1027, 1032)  # of the dark theme; of the progress below the picture
    for frame in (first, last):
        assert np.abs(frame[:20] - ground).max() <= 3  # colours come back as they went in
    assert np.abs(first[bar, 100:1800] - last[bar, 100:1800]).min() > 20  # nothing is played; all is
    assert np.abs(first[200:1000] - last[200:1000]).max() > 100
    page.evaluate("window.VideoEncoder = undefined")
    page.get_by_role("button", name=re.compile("as MP4$")).click()
    page.locator(".files output", has_text="it has no H.264 encoder").wait_for()
    assert page.watch.complaints == []


def test_charts_come_as_pictures_and_tables_as_text_and_all_are_of_the_scenario_on_screen(page, dashboard):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened(page, f"{dashboard}/traffic?seq=512&causal=true")
    page.locator(".growth .verdict", has_text="Standard attention takes < 0.1% of the memory.").wait_for()
    root = ElementTree.fromstring(taken(page, "Bytes over the sequence length as SVG"))
    words = {"".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"sequence length N", "Standard", "Flash 2"} <= words
    picture = pixels(taken(page, "Bytes over the sequence length as PNG"))
    assert picture.shape[:2] == (2 * float(root.get("height")), 2 * int(float(root.get("width"))))
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 20
    bars = ElementTree.fromstring(taken(page, re.compile("^Bytes by tensor.* as SVG")))
    words = {text.text for text in bars.iter("{http://www.w3.org/2000/svg}text")}
    assert {"Standard", "read", "written", "MB"} <= words
    boxes = bars.iter("{http://www.w3.org/2000/svg}rect")
    # S in the key, read and written, on the dark theme
    assert sum(box.get("fill") == "rgb(214, 143, 192)" for box in boxes) >= 3
    rows = list(csv.reader(io.StringIO(taken(page, "as CSV").decode("utf-8-sig"))))
    assert rows[0] == ["", "Standard", "Flash 1", "Flash 2"]
    (requested,) = [row for row in rows if row[0].startswith("requested from L2")]
    standard = Experiment.of(algorithm="standard", seq=512, causal=True)
    assert requested[1] == f"{simulate(standard).traffic.requested.total} B"
    page.get_by_role("button", name="Copy the link").click()
    page.get_by_role("button", name="Link copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    numbers = json.loads(taken(page, "The scenario and its totals"))
    assert (numbers["seq"], numbers["causal"], numbers["tiles_skipped"]) == (512, True, 16 * 28)
    trace = json.loads(taken(page, "Perfetto trace"))
    assert sum(event["ph"] == "X" for event in trace["traceEvents"]) == 16 * 8  # heads, query blocks
    assert page.watch.complaints == []
    assert page.watch.hosts == {"127.0.0.1"}
