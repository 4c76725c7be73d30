"""A component and its data as a single HTML file that plays anywhere: no server, no network."""

import json
from base64 import b64encode
from html import escape
from typing import Any

from app.figures.colours import DARK, LIGHT, Palette

# The file may run what it carries and show what it draws; a browser lets it fetch nothing.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
DATA = "attention-data"
START = f"""
const carried = document.getElementById("{DATA}");
let data = carried.type === "application/json" ? JSON.parse(carried.textContent)
  : Uint8Array.from(atob(carried.textContent), (character) => character.charCodeAt(0));
const start = () => show({{ data, parentElement: document.body }});
start();
// Whoever frames it can give it other data: a notebook whose sliders moved.
addEventListener("message", (sent) => {{
  if (sent.source !== parent || !(sent.data instanceof Uint8Array)) return;
  data = sent.data;
  start();
}});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", start);
"""


def html_file(html: str, css: str, js: str, data: Any, title: str, above: str = "", below: str = "") -> str:
    """A whole HTML document that shows a component's data, bytes or what JSON holds, in the reader's theme.

    The JavaScript is one module whose default export is named `show`; `above` and `below` are HTML around it.
    """
    script = f'<script type="module">\n{js}\n{START}\n</script>'
    return document(title, css, f"<main>{above}{html}{below}</main>\n{_carried(data)}\n{script}")


def document(title: str, css: str, body: str, policy: str = POLICY) -> str:
    """A whole HTML document in the reader's theme."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<style>
:root {{ color-scheme: light dark; {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}
body {{ margin: 0; padding: 14px 20px 0; background: var(--st-background-color); }}
{css}
</style>
</head>
<body>
{body}
</body>
</html>
"""


def _carried(data: Any) -> str:
    """The data in an element that no browser runs."""
    if isinstance(data, bytes):
        return f'<script type="text/plain" id="{DATA}">{b64encode(data).decode()}</script>'
    text = json.dumps(data).replace("</", "<\\/")
    return f'<script type="application/json" id="{DATA}">{text}</script>'


def _variables(palette: Palette) -> str:
    """The variables by which Streamlit tells a component its theme."""
    values = {
        "background-color": palette.ground,
        "secondary-background-color": palette.panel,
        "text-color": palette.ink,
        "border-color": palette.grid,
        "primary-color": palette.q,
    }
    return " ".join(f"--st-{name}: {value};" for name, value in values.items())
