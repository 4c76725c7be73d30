"""How soon and how calmly every page is drawn, and what it costs: `python tests/browser/bench_pages.py`.

Run it on an idle machine. Each page is opened in an empty window, its sliders are moved once, and dragged by
20 key presses 40 ms apart, its theme is changed, and its folds are opened. Of each it prints ms until nothing
changes any more, ms of CPU of the server and of the page, and the layout shifts that no click or key of the
last half second explains, with those of all in brackets. Then it prints what the player takes for a frame and
for a jump in a run of 4,096 tiles. The first page of the first size is a fresh server's first as well.
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from app.contents import HOME, PAGES  # noqa: E402
from tests.dashboard import Dashboard, chromium, served  # noqa: E402

LATE = {"load": 2500, "move": 400, "drag": 400}  # ms
FAR = 0.05  # of one kind of change on one page
DRAG = [("ArrowRight", "ArrowLeft")[press // 3 % 2] for press in range(20)]
APART = 40  # ms between two of its presses
FRAME_LIMIT = 1000 / 45  # ms; a display of 60 Hz shows a frame drawn in time 16.7 ms after the last
JUMP_LIMIT = 5  # ms
SIZES = {
    "1440": (1440, 900),
    "1920": (1920, 1080),
    "presented": (1280, 720),
    "768": (768, 1024),
    "390": (390, 844),
}
SLIDERS = "input[type=range]:enabled >> visible=true"
FOLDS = "[data-testid=stMain] [data-testid=stExpander] summary"
SEE = """
const seen = (window.__seen = { begun: 0, changed: 0, shifts: [] });
for (const input of ['keydown', 'click'])
    addEventListener(input, () => { seen.begun = performance.now(); }, true);
new MutationObserver(() => { seen.changed = performance.now(); })
    .observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
        const named = sources.map(({ node, previousRect: from, currentRect: to }) => {
            const on = node?.nodeType === 1 ? node : node?.parentElement;
            const key = on?.closest('[class*=st-key-]')?.className.match(/st-key-\\S+/)?.[0] ?? '';
            const size = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(' ');
            return `${on?.dataset?.testid ?? on?.tagName} in ${key}: ${size(from)} to ${size(to)}`;
        });
        seen.shifts.push([value, hadRecentInput, named.join('; ')]);
    }
}).observe({ type: 'layout-shift', buffered: true });
"""
BEGIN = "window.__seen && Object.assign(window.__seen, { begun: performance.now() }).shifts.splice(0)"
STANDS = """() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stAppSkeleton]')
    && performance.now() - Math.max(window.__seen.changed, window.__seen.begun) > 700"""
FRAMES = """async () => {
    const { frames } = window.__player;
    frames.length = 0;
    while (frames.length < 150) await new Promise((done) => setTimeout(done, 50));
    return frames.slice(1).map(([at], n) => at - frames[n][0]).sort((a, b) => a - b);
}"""
JUMPS = """async () => {
    const { last } = window.__player.state(), times = [];
    for (let n = 0; n < 120; n++) {
        times.push(window.__player.seek(Math.floor(last * ((n * 0.381966) % 1))));
        if (n % 10 === 0) await new Promise(requestAnimationFrame);
    }
    return times.sort((a, b) => a - b);
}"""


class Window:
    """One page of the dashboard in a window of one size, and whether it was ever late or moved far."""

    def __init__(self, browser, server: Dashboard, name: str, size: str, sources: bool):
        self.missed, self._server, self._sources = False, server, sources
        width, height = SIZES[size]
        self.page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        self.page.set_default_timeout(60_000)
        self.page.add_init_script(SEE)
        self._cdp = self.page.context.new_cdp_session(self.page)
        self._cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
        address = f"{server.address}/{'' if name == HOME else name}{'?present=true' * (size == 'presented')}"
        self._of = f"{size:9} {name:9}"
        self.told("load", "", partial(self.page.goto, address))

    def told(self, kind: str, what: str, act: Callable[[], object]) -> None:
        """Do something, wait until the page stands, and print what that took."""
        self.page.evaluate(BEGIN)
        server, page = self._cpu()
        act()
        self.page.wait_for_function(STANDS, polling=50)
        seen, (server_then, page_then) = self.page.evaluate("window.__seen"), self._cpu()
        took = max(0, seen["changed"] - seen["begun"])  # what stands there already needs no run
        alone, every = (
            sum(value for value, after_input, _ in seen["shifts"] if counted or not after_input)
            for counted in (False, True)
        )
        missed = took > LATE.get(kind, took) or alone > FAR
        print(
            f"{self._of} {kind:5} {what[:20]:20} {took:6.0f} ms; CPU: server {server_then - server:5.0f}, "
            f"page {page_then - page:5.0f} ms; shift {alone:.3f} ({every:.3f}){', MISSED' * missed}",
            flush=True,
        )
        for value, after_input, named in sorted(seen["shifts"], reverse=True) if self._sources else ():
            print(f"    {value:.4f} {'after input' * after_input}: {named[:600]}")
        self.missed |= missed

    def _cpu(self) -> tuple[float, float]:
        """ms of CPU of the server, and of this page's main thread."""
        metrics = self._cdp.send("Performance.getMetrics")["metrics"]
        page = next(one["value"] for one in metrics if one["name"] == "TaskDuration")
        return 1e3 * self._server.cpu, 1e3 * page

    def sliders(self) -> None:
        """Move each that can be seen, and drag it there and back."""
        for slider in self.page.locator(SLIDERS).all():
            name = slider.get_attribute("aria-label") or ""
            slider.focus()
            for _ in range(2):  # what a page loads when it is first moved is no part of a move
                self._press("ArrowRight")
                self.page.wait_for_function(STANDS, polling=50)
            self.told("move", name, partial(self._press, "ArrowLeft"))
            self.told("drag", name, partial(self._press, *DRAG))

    def _press(self, *keys: str) -> None:
        for key in keys:
            begun = time.monotonic()
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(max(0, APART - 1000 * (time.monotonic() - begun)))

    def unfold(self) -> None:
        """Open every part that is closed, one after the other."""
        for fold in self.page.locator(FOLDS).all():
            fold.click()
            self.page.wait_for_function(STANDS, polling=50)


def player(browser, address: str) -> bool:
    """Play a run of 4,096 tiles, and jump about in it; whether that is too slow."""
    page, late = browser.new_page(viewport={"width": 1440, "height": 900}), False
    page.goto(f"{address}/tiles?seq=4096&head_dim=64&block_q=64&block_kv=64")
    page.wait_for_function("window.__player?.state().redrawn")
    page.wait_for_timeout(2500)
    for what, script, limit in (("a frame of", FRAMES, FRAME_LIMIT), ("a jump in", JUMPS, JUMP_LIMIT)):
        page.keyboard.press(" ")  # the jumps are made while it stands still
        times = page.evaluate(script)
        median, most = (times[int(part * len(times))] for part in (0.5, 0.95))
        late |= median > limit
        print(f"{what} 4,096 tiles: median {median:.1f} ms (< {limit:.1f}), 95% {most:.1f} ms", flush=True)
    page.close()
    return late


def main() -> int:
    """Measure, print a line for each change, and return 1 where a limit is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="some of " + ", ".join(PAGES))
    parser.add_argument("--sizes", nargs="*", choices=SIZES, default=["1440"])
    parser.add_argument("--sources", action="store_true", help="say what moved, from where to where")
    options, missed = parser.parse_args(), False
    with served() as server, sync_playwright() as playwright:
        browser = chromium(playwright)
        for size, name in product(options.sizes, options.pages):
            window = Window(browser, server, name, size, options.sources)
            window.sliders()
            window.told("theme", "", partial(window.page.emulate_media, color_scheme="dark"))
            window.told("folds", "", window.unfold)
            window.page.close()
            missed |= window.missed
        missed |= player(browser, server.address)
        browser.close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
