"""A page with a player, kept open from test to test: opening takes ten times as long as putting back."""

from contextlib import contextmanager

import pytest

from app.player import PLAYER
from app.player.payload import build
from engine.experiment import Experiment
from tests.browser.conftest import Watch

FIND = (
    "(s) => [...document.querySelectorAll('[data-testid=stBidiComponentIsolated]')]"
    ".map((host) => host.shadowRoot.querySelector(s)).find(Boolean)"
)
BOX = f"(s) => ({FIND})(s).getBoundingClientRect().toJSON()"
SETTLED = f"""async () => {{
    const size = () => JSON.stringify(({BOX})(".stage canvas"));
    for (let before = "", stood = 0; stood < 8; stood = size() === before ? stood + 1 : 0) {{
        before = size();
        await new Promise(requestAnimationFrame);
    }}
}}"""
BLUR = """() => {
    let focused = document.activeElement;
    while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
    focused?.blur();
}"""


@pytest.fixture
def page(kept):
    """`opened` puts it back, or opens it anew."""
    return kept


USUAL = "seq=1024"  # the usual scenario: without a value the page opens with a smaller one


def opened(page, dashboard, query=USUAL, fragment="", path="tiles"):
    """A page with a player that stands on its canvas, which no longer changes its size."""
    asked = f"{dashboard}/{path}?{query}{fragment}"
    if not put_back(page, asked):
        page.forget(dashboard)
        shown(page, asked)
        page.evaluate("(asked) => { window.asked = asked; }", asked)
        page.as_opened = moment(page)
    return page


def shown(page, asked) -> None:
    """The player of an address stands on its canvas."""
    page.goto(asked)
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.evaluate(SETTLED)


def put_back(page, asked) -> bool:
    """Whether a page that was opened for this stands again as it did: opening takes ten times as long."""
    if page.evaluate("window.asked") != asked:
        return False
    page.evaluate(BLUR)
    for key, pressed in ((" ", "playing"), ("r", "race")):
        if state(page)[pressed]:
            page.keyboard.press(key)
    page.keyboard.press("Escape")  # closes the list of keys
    seek(page, page.as_opened["position"])
    page.evaluate("window.__player.frames.length = 0")
    page.evaluate(SETTLED)
    return moment(page) == page.as_opened


@contextmanager
def filed(page, folder, payload=None, **values):
    """A player as a file in a window of its own: what is its script's alone needs no dashboard around it."""
    file = folder / "player.html"
    drawing = build(Experiment.of(**values)) if payload is None else payload
    file.write_text(PLAYER.offline(drawing, "Player"), "utf-8")
    window = page.context.new_page()
    window.watch = Watch(window)
    window.goto(file.as_uri())
    window.wait_for_function("() => window.__player?.state().redrawn")  # a string is refused by its policy
    yield window
    window.close()


def moment(page) -> dict:
    """All that can be told of the player and of where it stands."""
    size = page.evaluate(f"['.player', '.stage canvas'].map({BOX})")
    shown = page.evaluate(f"({FIND})('.help')?.checkVisibility()")
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return {**state(page), "size": size, "shown": shown, "link": page.url, "dark": dark}


def state(page):
    return page.evaluate("window.__player.state()")


def seek(page, position):
    return page.evaluate("(position) => window.__player.seek(position)", position)


def sentences(page) -> list[str]:
    """What is said at every position, from the first to the last."""
    return page.evaluate(
        """() => Array.from({ length: window.__player.state().last + 1 }, (_, at) => {
            window.__player.seek(at);
            return window.__player.state().sentence;
        })"""
    )


def pixels(page):
    """A fingerprint of what the canvas shows."""
    return page.locator(".stage canvas").evaluate("(canvas) => canvas.toDataURL()")
