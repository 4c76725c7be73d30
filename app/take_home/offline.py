"""The player and one payload as a single HTML file that plays anywhere: no server, no network."""

from __future__ import annotations

from base64 import b64encode
from html import escape

from app.figures.colours import DARK, LIGHT, Palette
from app.player import sources

# The file may run what it carries and show what it draws; a browser lets it fetch nothing.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
DATA = "attention-payload"
START = f"""
const packed = document.getElementById("{DATA}").textContent;
const start = () => show({{
  data: Uint8Array.from(atob(packed), (character) => character.charCodeAt(0)), parentElement: document.body,
}});
start();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", start);
"""


def html_file(payload: bytes, title: str) -> str:
    """A whole HTML document that shows what `app.player.payload.build` packed, in the reader's own theme."""
    html, css, js = sources()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
body {{ margin: 0; padding: 14px 20px 0; background: var(--st-background-color); }}
{css}
</style>
</head>
<body>
{html}
<script type="text/plain" id="{DATA}">{b64encode(payload).decode()}</script>
<script type="module">
{js}
{START}
</script>
</body>
</html>
"""


def _variables(palette: Palette) -> str:
    """The variables by which Streamlit tells a component its theme."""
    values = {
        "background-color": palette.ground,
        "secondary-background-color": palette.panel,
        "text-color": palette.ink,
    }
    return " ".join(f"--st-{name}: {value};" for name, value in values.items())
