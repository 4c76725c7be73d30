"""A moving picture of a page: drawn in the browser from one block of data, here or from an offline file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.canvas.bundle import bundle
from app.canvas.offline import html_file
from app.canvas.scripts import loader
from app.scenario.offers import offer

CANVAS = Path(__file__).parent


@dataclass(frozen=True)
class Moving:
    """A component: its JavaScript has one default export, `show({ data, parentElement })`."""

    name: str
    html: str
    css: str
    js: str

    @classmethod
    def of(cls, name: str, html: Path, css: Sequence[Path], entry: Path) -> Moving:
        """From files; the entry and the modules that it imports become one script.

        HTML names what it shares with others as a comment: `<!-- buttons.html -->`.
        """
        styles = "\n".join(file.read_text("utf-8") for file in css)
        shared = re.compile(r"<!-- (\S+\.html) -->")
        whole = shared.sub(lambda found: (html.parent / found[1]).read_text("utf-8"), html.read_text("utf-8"))
        return cls(name, whole, styles, bundle(entry))

    @cached_property
    def _component(self):
        """Registered when a page first needs it."""
        script = loader(self.name, self.js)
        return st.components.v2.component(self.name, html=self.html, css=self.css, js=script)

    def offline(self, data: Any, title: str, above: str = "", below: str = "") -> str:
        """An HTML file that shows the same without server and network, between some HTML of its own."""
        return html_file(self.html, self.css, self.js, data, title, above, below)

    def show(self, data: Any, *, key: str, title: str, height: int | None = None) -> None:
        """Show data, bytes or what JSON holds; changed data under the same key keep the place in the run.

        Pixels of `height` are kept free before the picture is there; without, it has its own.
        """
        offer(title, partial(self.offline, data, title))
        self._component(key=key, data=data, height=height or "content")
