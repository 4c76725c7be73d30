"""How soon every page shows the last value of a slider that was moved quickly, and what a move costs.

Run `python tests/browser/bench_drag.py` on an idle machine. A drag is 20 key presses, 40 ms apart; a row of
buttons is clicked 6 times, 150 ms apart. A page shows the last value when the run has ended, the link says
what the slider says, and nothing changes any more. Server and browser are CPU time, of one move that nothing
overtakes and of a whole drag: on a quiet machine with two cores nothing else stands in its way.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path

from playwright.sync_api import TimeoutError, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.dashboard import chromium, served  # noqa: E402

LIMIT = 400  # ms from the last move
PRESSES, CLICKS = (20, 40), (6, 150)  # moves of a drag, and ms between two
NEVER = 10_000  # ms after which a value that is not shown counts as lost
IN_THE_LINK = {
    "Sequence length": "seq",
    "Key block": "block_kv",
    "Head dimension": "head_dim",
    "Number of splits": "splits",
}
BUTTONS = {"Bytes", "Metric", "Timeline", "Quantity", "Verdict", "Mask"}
USUAL = ("Sequence length", "Key block")
PAGES = {
    "tiles": USUAL,
    "softmax": ("Step", "Key block"),
    "masks": (*USUAL, "Documents"),
    "traffic": (*USUAL, "Bytes"),
    "speed": (*USUAL, "Metric"),
    "backward": USUAL,
    "decoding": ("Number of splits", "Key block", "Metric"),
    "flash3": USUAL,
    "gpu": ("Sequence length", "Head dimension", "Timeline"),
    "across": ("GPUs", "Tokens", "Mask"),
    "agreement": (*USUAL, "Quantity"),
    "claims": ("Verdict",),
    "tour?step=6": ("M, memory",),
}
FIRST = {"gpu": ("radio", "this scenario"), "tour?step=6": ("button", "The answer")}  # else no slider acts
WATCH = """() => {
    const main = document.querySelector('[data-testid=stMain]');
    const seen = window.__seen = { key: 0, changed: 0 };
    for (const moved of ['keydown', 'click'])
        addEventListener(moved, () => { seen.key = performance.now(); }, true);
    const { clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        seen.changed = performance.now();
        clearRect.apply(this, box);
    };
    new MutationObserver(() => { seen.changed = performance.now(); }).observe(main,
        { subtree: true, childList: true, characterData: true, attributeFilter: ['src', 'd', 'transform'] });
}"""
SETTLED = """(name) => {
    const app = document.querySelector('[data-testid=stApp]'), drawn = window.__seen.changed;
    const link = new URLSearchParams(location.search), value = document.activeElement.ariaValueText;
    return (name ? link.get(name) === value : drawn > window.__seen.key)
        && app.dataset.testScriptState === 'notRunning'
        && performance.now() - Math.max(drawn, window.__seen.key) > 300;
}"""


def main() -> int:
    """Measure, print a table, and return 1 where a page is late."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="some of " + ", ".join(PAGES))
    parser.add_argument("--rounds", type=int, default=3, help="how many drags of each control")
    parser.add_argument("--singles", type=int, default=4, help="how many moves that nothing overtakes")
    parser.add_argument("--fewer", action="store_true", help="two sliders of each page, and no buttons")
    options = parser.parse_args()
    late = False
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        with served() as server:
            for name in options.pages:
                late |= _page(browser, server.processes[0], server.address, name, options)
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


def _page(browser, pid: int, address: str, name: str, options) -> bool:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(60_000)
    page.goto(f"{address}/{name}{'&' if '?' in name else '?'}seq=1024")
    page.wait_for_selector("[data-testid=stMain] [data-testid=stElementContainer] >> visible=true")
    page.wait_for_selector("[data-testid=stApp][data-test-script-state=notRunning]")
    page.wait_for_timeout(2500)
    if name in FIRST:
        role, label = FIRST[name]
        page.get_by_role(role, name=label).click()
        page.wait_for_timeout(1000)
    page.evaluate(WATCH)
    controls = [each for each in PAGES[name] if each not in BUTTONS][:2] if options.fewer else PAGES[name]
    late = [_control(page, pid, name, control, options) for control in controls]
    page.close()
    return any(late)


def _control(page, pid: int, name: str, control: str, options) -> bool:
    there, back = _two_moves(page, control)
    link = IN_THE_LINK.get(control, "")
    for move in (there, back):  # what a page loads when it is first moved is no part of a move
        _settle(page, [move], link)
    costs, singles = Costs(page, pid), []
    for n in range(options.singles):
        took = _settle(page, [(there, back)[n // 2 % 2]], link)
        singles.append([took, *costs.taken()])
    drags, (many, apart) = [], CLICKS if control in BUTTONS else PRESSES
    for n in range(options.rounds):
        costs.taken()
        took = _settle(page, [(there, back)[(move // 3 + n) % 2] for move in range(many)], link, apart)
        drags.append([took, *costs.taken()])
    one, drag = _typical(singles), _typical(drags)
    late = drag[0] > LIMIT
    print(
        f"{name:11} {control:15} a move {one[0]:5.0f} ms: server {one[1]:4.0f}, browser {one[2]:4.0f} ms of "
        f"CPU, {one[3]:5.0f} kB; after a drag {drag[0]:5.0f} ms (worst {max(drags)[0]:5.0f}); in all server "
        f"{drag[1]:4.0f}, browser {drag[2]:4.0f} ms of CPU{', LATE' * late}",
        flush=True,
    )
    return late


def _two_moves(page, control: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Moves of a slider there and back, or clicks on two of a row of buttons in turn."""
    role = "radiogroup" if control in BUTTONS else "slider"
    handle = page.get_by_role(role, name=re.compile(f"^{control}")).first
    if control not in BUTTONS:
        handle.focus()
        return partial(page.keyboard.press, "ArrowRight"), partial(page.keyboard.press, "ArrowLeft")
    boxes = cycle([handle.get_by_role("radio").nth(n).bounding_box() for n in (1, 0)])
    return (lambda: page.mouse.click((box := next(boxes))["x"] + 9, box["y"] + 9),) * 2


def _typical(rows: list[list[float]]) -> list[float]:
    """The median of the waits, and what was used on average: the server's is counted in steps of 10 ms."""
    took, *used = zip(*rows, strict=True)
    return [statistics.median(took), *map(statistics.fmean, used)]


def _settle(page, moves: Sequence[Callable[[], None]], name: str, apart: float = 0) -> float:
    """Make the moves; ms from the last to the page as it stays."""
    for move in moves:
        begun = time.monotonic()
        move()
        page.wait_for_timeout(max(0, apart - 1000 * (time.monotonic() - begun)))
    try:
        page.wait_for_function(SETTLED, arg=name, polling=50, timeout=NEVER)
    except TimeoutError:
        return NEVER
    took = page.evaluate("window.__seen.changed - window.__seen.key")
    return max(0, took)  # what stands there already needs no run


if __name__ == "__main__":
    sys.exit(main())
