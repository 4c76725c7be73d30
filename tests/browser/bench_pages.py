"""How long the dashboard takes to its first page when cold, for each moment of a run of 4,096 tiles, and for
the largest file to take home: run `python tests/browser/bench_pages.py` on an idle machine.

What a move of a slider takes on every page is measured by `bench_drag.py`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.dashboard import chromium, served  # noqa: E402

FIRST_PAGE_LIMIT = 3.0
FILE_LIMIT = 3  # s
FRAME_LIMIT = 1000 / 45  # ms; a display of 60 Hz shows a frame drawn in time 16.7 ms after the last
SCRUB_LIMIT = 5  # ms
FRAMES = """async () => {
    const { frames } = window.__player;
    frames.length = 0;
    while (frames.length < 150) await new Promise((done) => setTimeout(done, 50));
    const intervals = frames.slice(1).map(([at], n) => at - frames[n][0]).sort((a, b) => a - b);
    return [intervals[74], intervals[141]];
}"""
SCRUBS = """async () => {
    const { last } = window.__player.state(), times = [];
    for (let n = 0; n < 120; n++) {
        times.push(window.__player.seek(Math.floor(last * ((n * 0.381966) % 1))));
        if (n % 10 === 0) await new Promise(requestAnimationFrame);
    }
    times.sort((a, b) => a - b);
    return [times[60], times[113]];
}"""


def main() -> int:
    """Measure, print a table, and return 1 where a limit is passed."""
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        started = time.monotonic()
        with served() as server:
            late = _first_page(browser, server.address, started)
            late |= _offline_file() | _player(browser, server.address)
        browser.close()
    return int(late)


def _first_page(browser, address: str, started: float) -> bool:
    """Time the first visit to a server that has just started."""
    serving = time.monotonic()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/tiles")
    page.wait_for_function("window.__player?.state().redrawn")
    seen = time.monotonic()
    page.close()
    first = seen - serving
    print(f"server up {serving - started:.2f} s after its start; first page visible {first:.2f} s after that")
    return first > FIRST_PAGE_LIMIT


def _offline_file() -> bool:
    """Make the player's largest file to take home."""
    from app.player import PLAYER
    from app.player.payload import build
    from engine import Experiment

    started = time.monotonic()
    size = len(PLAYER.offline(build(Experiment.of(seq=2**20, heads=7)), "largest").encode())
    taken = time.monotonic() - started
    print(f"largest file to take home: {taken:.2f} s (< {FILE_LIMIT:g}), {size / 1e6:.2f} MB", flush=True)
    return taken > FILE_LIMIT


def _player(browser, address: str) -> bool:
    """Play a run of 4,096 tiles, and jump about in it."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/tiles?seq=4096&head_dim=64&block_q=64&block_kv=64")
    page.wait_for_function("window.__player?.state().redrawn")
    page.wait_for_timeout(2500)
    page.keyboard.press(" ")
    late = False
    for what, script, limit in (("a frame of", FRAMES, FRAME_LIMIT), ("a jump in", SCRUBS, SCRUB_LIMIT)):
        median, most = page.evaluate(script)
        late |= median > limit
        print(f"{what} 4,096 tiles: median {median:.1f} ms (< {limit:.1f}), 95% {most:.1f} ms", flush=True)
        page.keyboard.press(" ")  # the jumps are made while it stands still
    page.close()
    return late


if __name__ == "__main__":
    sys.exit(main())
