"""How far every page's parts move by themselves: while it loads, on slider moves, in another theme, on folds.

Run `python tests/browser/bench_shift.py`. A number is the sum of the layout shifts: of those that no click or
key of the last half second explains, which is held to the limit, and of all.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from app.contents import HOME, PAGES  # noqa: E402
from tests.dashboard import chromium, served  # noqa: E402

LIMIT = 0.05  # of one kind of change on one page
SIZES = {
    "1440": (1440, 900),
    "1920": (1920, 1080),
    "presented": (1280, 720),
    "768": (768, 1024),
    "390": (390, 844),
}
STEPS = ("load", "slider", "theme", "folds")
SLIDER = "[data-testid=stMain] input[type=range]:enabled, [data-testid=stSidebar] input[type=range]:enabled"
QUIET = 700  # ms without a change after which a page stands
HEAR = """
window.__shifts = [];
new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
        const named = sources.map(({ node, previousRect: from, currentRect: to }) => {
            const on = node?.nodeType === 1 ? node : node?.parentElement;
            const key = on?.closest('[class*=st-key-]')?.className.match(/st-key-\\S+/)?.[0] ?? '';
            const size = ({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(' ');
            return `${on?.dataset?.testid ?? on?.tagName} in ${key}: ${size(from)} to ${size(to)}`;
        });
        window.__shifts.push([value, hadRecentInput, named]);
    }
}).observe({ type: 'layout-shift', buffered: true });
"""
CHANGED = """new MutationObserver(() => { window.__changed = performance.now(); })
    .observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
window.__changed = performance.now();"""
STANDS = """(ms) => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'
    && !document.querySelector('[data-testid=stSkeleton], [data-testid=stAppSkeleton]')
    && performance.now() - window.__changed > ms"""


def main() -> int:
    """Measure, print a table, and return 1 where a page moves too far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*", default=list(PAGES), help="some of " + ", ".join(PAGES))
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), help="some of " + ", ".join(SIZES))
    parser.add_argument("--steps", nargs="*", default=STEPS, help="some of " + ", ".join(STEPS))
    parser.add_argument("--sources", action="store_true", help="say what moved, from where to where")
    options = parser.parse_args()
    far = False
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        with served() as server:
            for size, name in product(options.sizes, options.pages):
                far |= _page(browser, server.address, name, size, options)
        browser.close()
    return int(far)


def _page(browser, address: str, name: str, size: str, options) -> bool:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme="light")
    page = context.new_page()
    page.add_init_script(HEAR + CHANGED)
    values = "?present=true" if size == "presented" else ""
    steps: dict[str, Callable[[], object]] = {
        "load": lambda: page.goto(f"{address}/{'' if name == HOME else name}{values}"),
        "slider": lambda: _move(page),
        "theme": lambda: page.emulate_media(color_scheme="dark"),
        "folds": lambda: _unfold(page),
    }
    told, far = [], False
    for step, act in steps.items():
        if step != "load":
            if step not in options.steps:
                continue
            page.evaluate("window.__shifts.length = 0")
        act()
        _wait(page)
        shifts = page.evaluate("window.__shifts")
        alone = sum(value for value, recent, _ in shifts if not recent)
        told.append(f"{step} {alone:.3f} ({sum(value for value, *_ in shifts):.3f})")
        far |= alone > LIMIT
        for value, recent, named in sorted(shifts, reverse=True) if options.sources else ():
            print(f"    {step} {value:.4f} {'after input' * recent}: {'; '.join(named)[:600]}")
    context.close()
    print(f"{size:9} {name:9} {', '.join(told)}{', FAR' * far}", flush=True)
    return far


def _wait(page) -> None:
    page.wait_for_function(STANDS, arg=QUIET, polling=100, timeout=60_000)


def _move(page) -> None:
    """Three moves of a slider that can be seen, each after the other has been drawn."""
    slider = page.locator(SLIDER).first
    if not slider.count() or page.viewport_size["width"] < 768:
        return
    slider.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        _wait(page)


def _unfold(page) -> None:
    """Open every part that is closed, one after the other."""
    folds = page.locator("[data-testid=stMain] [data-testid=stExpander] summary")
    for n in range(folds.count()):
        folds.nth(n).click()
        _wait(page)


if __name__ == "__main__":
    sys.exit(main())
