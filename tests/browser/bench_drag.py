"""How soon every page shows the last value of a slider that was moved quickly, and what a move costs.

Run `python tests/browser/bench_drag.py` on an idle machine. A drag is 20 key presses, 40 ms apart. A page
shows the last value when the run has ended, the link says what the slider says, and nothing changes any
more. Server and browser are CPU time, of one move that nothing overtakes and of a whole drag: on a quiet
machine with two cores nothing else stands in its way.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from pathlib import Path

from playwright.sync_api import TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.browser.bench_pages import chromium, start  # noqa: E402

LIMIT = 400  # ms from the last move
PRESSES, APART, SINGLES = 20, 40, 8
NEVER = 30_000  # ms after which a value that is not shown counts as lost
IN_THE_LINK = {"Sequence length": "seq", "Key block": "block_kv"}
USUAL = ("Sequence length", "Key block")
PAGES = {
    "tiles": USUAL,
    "softmax": ("Step", "Key block"),
    "masks": USUAL,
    "traffic": USUAL,
    "speed": USUAL,
    "backward": USUAL,
    "decoding": ("Number of splits", "Key block"),
    "flash3": USUAL,
    "gpu": USUAL,
    "across": USUAL,
    "agreement": USUAL,
}
WATCH = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const seen = window.__seen = { key: 0, changed: 0 };
    addEventListener('keydown', () => { seen.key = performance.now(); }, true);
    new MutationObserver(() => { seen.changed = performance.now(); }).observe(main,
        { subtree: true, childList: true, characterData: true, attributeFilter: ['src', 'd', 'transform'] });
}"""
SHOWN = "Math.max(window.__seen.changed, window.__player?.state().redrawn ?? 0)"
SETTLED = f"""(name) => {{
    const app = document.querySelector('[data-testid=stApp]'), drawn = {SHOWN};
    const link = new URLSearchParams(location.search), value = document.activeElement.ariaValueText;
    return (name ? link.get(name) === value : drawn > window.__seen.key)
        && app.dataset.testScriptState === 'notRunning'
        && performance.now() - Math.max(drawn, window.__seen.key) > 300;
}}"""


def main() -> int:
    """Measure, print a table, and return 1 where a page is late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="some of " + ", ".join(PAGES))
    parser.add_argument("--rounds", type=int, default=3, help="how many drags of each slider")
    options = parser.parse_args()
    late = False
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        server, address, _ = start()
        try:
            for name in options.pages:
                for slider in PAGES[name]:
                    late |= _measure(browser, server.pid, address, name, slider, options.rounds)
        finally:
            server.terminate()
            server.wait(timeout=20)
            browser.close()
    return int(late)


class Costs:
    """What was used since the last look: ms of the server's CPU and of the page's, and KB received."""

    def __init__(self, page, pid: int):
        self._pid, self._cdp, self._bytes = pid, page.context.new_cdp_session(page), 0
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._cdp.send("Network.enable")
        self._cdp.on("Network.webSocketFrameReceived", self._received)
        self._last = self._now()

    def _received(self, event) -> None:
        self._bytes += len(event["response"]["payloadData"]) * 3 // 4  # it comes as base64

    def _now(self) -> tuple[float, float, float]:
        metrics = self._cdp.send("Performance.getMetrics")["metrics"]
        page = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 10.0, page * 1000, self._bytes / 1000

    def taken(self) -> list[float]:
        last, self._last = self._last, self._now()
        return [now - then for now, then in zip(self._last, last, strict=True)]


def _measure(browser, pid: int, address: str, name: str, slider: str, rounds: int) -> bool:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(60_000)
    page.goto(f"{address}/{name}?seq=1024")
    handle = page.get_by_role("slider", name=re.compile(f"^{slider}")).first
    handle.wait_for()
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_timeout(3000)
    page.evaluate(WATCH)
    handle.focus()
    keys, link = ["ArrowRight", "ArrowLeft"], IN_THE_LINK.get(slider, "")
    for key in keys:  # what a page loads when it is first moved is no part of a move
        _settle(page, [key], link)
    costs, singles = Costs(page, pid), []
    for n in range(SINGLES):
        took = _settle(page, [keys[n // 2 % 2]], link)
        singles.append([took, *costs.taken()])
    drags = []
    for n in range(rounds):
        costs.taken()
        took = _settle(page, [keys[(press // 3 + n) % 2] for press in range(PRESSES)], link)
        drags.append([took, *costs.taken()])
    page.close()
    one, drag = _typical(singles), _typical(drags)
    late = drag[0] > LIMIT
    print(
        f"{name:10} {slider:17} a move {one[0]:5.0f} ms: server {one[1]:4.0f}, browser {one[2]:4.0f} ms of "
        f"CPU, {one[3]:5.0f} kB; after a drag {drag[0]:5.0f} ms (worst {max(drags)[0]:5.0f}); in all server "
        f"{drag[1]:4.0f}, browser {drag[2]:4.0f} ms of CPU{', LATE' * late}",
        flush=True,
    )
    return late


def _typical(rows: list[list[float]]) -> list[float]:
    """The median of the waits, and what was used on average: the server's is counted in steps of 10 ms."""
    took, *used = zip(*rows, strict=True)
    return [statistics.median(took), *map(statistics.fmean, used)]


def _press(page, keys: list[str]) -> None:
    for key in keys:
        begun = time.monotonic()
        page.keyboard.press(key)
        page.wait_for_timeout(max(0, APART - 1000 * (time.monotonic() - begun)))


def _settle(page, keys: list[str], name: str = "") -> float:
    """Press keys; ms from the last to the page as it stays."""
    _press(page, keys)
    try:
        page.wait_for_function(SETTLED, arg=name, polling=50, timeout=NEVER)
    except TimeoutError:
        return NEVER
    return max(0, page.evaluate(f"{SHOWN} - window.__seen.key"))  # what stands there already needs no run


if __name__ == "__main__":
    sys.exit(main())
