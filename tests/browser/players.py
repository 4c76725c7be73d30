"""What is asked of a page or a file with a player."""

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
USUAL = "seq=1024"  # the usual scenario: without a value the page opens with a smaller one


def opened(page, dashboard, query=USUAL, path="tiles"):
    """The player of a page stands on its canvas, which no longer changes its size."""
    page.goto(f"{dashboard}/{path}?{query}")
    page.wait_for_function("window.__player && window.__player.state().redrawn")
    page.wait_for_selector("[data-test-script-state=notRunning]")
    page.evaluate(SETTLED)


def filed(page, folder, drawn):
    """A picture as a file: what is its script's alone needs no dashboard around it."""
    file = folder / "picture.html"
    file.write_text(drawn.moving.offline(drawn.data, "A picture"), "utf-8")
    page.goto(file.as_uri())
    page.wait_for_function("() => window.__player?.state().sentence")  # a string is refused by its policy


def state(page):
    return page.evaluate("window.__player.state()")


def seek(page, position):
    return page.evaluate("(position) => window.__player.seek(position)", position)


def pixels(page):
    """A fingerprint of what the canvas shows."""
    return page.locator(".stage canvas").evaluate("(canvas) => canvas.toDataURL()")
