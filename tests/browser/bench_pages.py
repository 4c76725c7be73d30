"""How long the dashboard takes to its first page when cold, from a key on a slider to the redrawn page,
for each moment of a run of 4,096 tiles, and for the largest file to take home.

Run `python tests/browser/bench_pages.py` on an idle machine. A page is redrawn at its last change after
the key: the player says when it has drawn; elsewhere it is the last change of the page's elements.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
LIMITS = {  # ms: median, 95th percentile
    "tiles": (150, 250),
    "softmax": (250, 400),
    "traffic": (250, 400),
    "speed": (250, 400),
    "agreement": (250, 400),
}
FIRST_PAGE_LIMIT = 3.0
FILE_LIMIT = 3  # s
FRAME_LIMIT = 1000 / 45  # ms; a display of 60 Hz shows a frame drawn in time 16.7 ms after the last
SCRUB_LIMIT = 5  # ms
SLIDERS = {
    "softmax": (("Step", 2), ("Key block", 2)),
    "usual": (("Sequence length", 8), ("Key block", 2), ("Head dimension", 4)),
}
WATCH = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const seen = window.__seen = { key: 0, changed: 0 };
    addEventListener('keydown', () => { seen.key = performance.now(); seen.changed = 0; }, true);
    new MutationObserver(() => { seen.changed = performance.now(); })
        .observe(main, { subtree: true, childList: true, attributes: true, characterData: true });
}"""
SETTLED = """() => {
    const app = document.querySelector('[data-testid=stApp]'), now = performance.now(), seen = window.__seen;
    const drawn = Math.max(seen.changed, window.__player?.state().redrawn ?? 0);
    return app.dataset.testScriptState === 'notRunning' && drawn > seen.key && now - drawn > 250;
}"""
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
TAKEN = """(tiles) => {
    const seen = window.__seen;
    return (tiles ? window.__player.state().redrawn : seen.changed) - seen.key;
}"""


def main() -> int:
    """Measure, print a table, and return 1 where a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(LIMITS), help="some of " + ", ".join(LIMITS))
    parser.add_argument("--rounds", type=int, default=2, help="how often every slider goes up and down")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        server, address, started = start()
        try:
            late = _first_page(browser, address, started)
            late |= _offline_file() | _player(browser, address)
            for name in options.pages:
                late |= _page(browser, address, name, options.rounds)
        finally:
            server.terminate()
            server.wait(timeout=20)
            browser.close()
    return int(late)


def chromium(playwright):
    """A headless Chromium: the one of CHROMIUM, of the system, or Playwright's own."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    return playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))


def start() -> tuple[subprocess.Popen, str, float]:
    """A dashboard of its own: its process, its address, and when it was started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.headless", "true"]
    started = time.monotonic()
    server = subprocess.Popen(
        [*command, "--server.port", str(port)], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return server, address, started
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    raise SystemExit("the dashboard did not start")


def _first_page(browser, address: str, started: float) -> bool:
    """Time the first visit to a server that has just started."""
    serving = time.monotonic()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
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


def _page(browser, address: str, name: str, rounds: int) -> bool:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{address}/{name}?seq=64")
    page.wait_for_selector("[data-testid=stMain] [data-testid=stElementContainer] >> visible=true")
    page.wait_for_timeout(2500)
    page.evaluate(WATCH)
    times = []
    for _ in range(rounds):
        for slider, presses in SLIDERS.get(name, SLIDERS["usual"]):
            page.get_by_role("slider", name=re.compile(f"^{slider}")).first.focus()
            for key in ["ArrowRight"] * presses + ["ArrowLeft"] * presses:
                page.keyboard.press(key)
                page.wait_for_function(SETTLED, timeout=10_000)
                times.append(page.evaluate(TAKEN, name == "tiles"))
    page.close()
    times.sort()
    median, late = statistics.median(times), times[int(0.95 * (len(times) - 1))]
    limits = LIMITS[name]
    verdict = "ok" if median < limits[0] and late < limits[1] else "LATE"
    print(
        f"{name:10} median {median:4.0f} ms (< {limits[0]}), 95% {late:4.0f} ms (< {limits[1]}), "
        f"{len(times)} presses: {verdict}",
        flush=True,
    )
    return verdict == "LATE"


if __name__ == "__main__":
    sys.exit(main())
