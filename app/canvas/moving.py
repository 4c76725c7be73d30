"""A moving picture of a page: drawn in the browser from one block of data, here or from an offline file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import streamlit as st

from app.canvas.bundle import bundle
from app.canvas.offline import html_file
from app.canvas.scripts import loader
from app.figures.shared_tables import palettes
from app.scenario.offers import offer

CANVAS_STYLE = Path(__file__).parent / "canvas.css"
FRAME = '<div class="player" tabindex="0" role="region"></div>'  # which the script fills


@dataclass(frozen=True)
class Component:
    """What a browser shows or does by a script of its own, from files that are read when it is first needed.

    Args:
        name: by which Streamlit knows it.
        file: its HTML; beside it stand its CSS and the script that begins it, whose default export is
            `show({ data, parentElement })`. A script alone has neither.
    """

    name: str
    file: Path

    @cached_property
    def html(self) -> str:
        """Its HTML."""
        return "" if self.file.suffix == ".js" else self.file.read_text("utf-8")

    @cached_property
    def css(self) -> str:
        """Its style sheet."""
        return self.file.with_suffix(".css").read_text("utf-8")

    @cached_property
    def js(self) -> str:
        """Its script and the modules that it imports, as one."""
        return bundle(self.file.with_suffix(".js"))

    @cached_property
    def mount(self) -> Callable[..., Any]:
        """Streamlit's own call, registered when a page first needs it."""
        parts = {"html": self.html, "css": self.css} if self.html else {}
        return st.components.v2.component(self.name, js=loader(self.name, self.js), **parts)


@dataclass(frozen=True)
class Moving(Component):
    """A moving picture.

    Args:
        title: of what it shows, as a file to take home names it.
    """

    title: str

    def offline(self, data: Any, title: str, above: str = "", below: str = "") -> str:
        """An HTML file that shows the same without server and network, between some HTML of its own."""
        return html_file(self.html, self.css, self.js, _coloured(data), title, above, below)

    def show(self, data: Any, *, key: str, title: str = "", height: int | None = None, **heard) -> Any:
        """Show data, bytes or what JSON holds; changed data under the same key keep the place in the run.

        Returns what it tells the page, of the names that are `heard`: `on_depth_change=lambda: None`.

        A title of what these data are stands for the picture's own. Pixels of `height` are kept free before
        the picture is there; without, it has its own.
        """
        title = title or self.title
        offer(title, partial(self.offline, data, title))
        return self.mount(key=key, data=_coloured(data), height=height or "content", **heard)


def _coloured(data: Any) -> Any:
    """The data with the colours of both themes, which packed ones have already."""
    return data if isinstance(data, bytes) else {**data, "palettes": palettes()}


@dataclass(frozen=True)
class Played(Moving):
    """A moving picture with a stage and a transport: its script fills a frame, CSS beside it adds to theirs.

    Example:
        REPLAY = Played("attention_on_the_gpu", Path(__file__).with_name("gpu.js"), "SMs over time")
    """

    @cached_property
    def html(self) -> str:
        """The frame, empty."""
        return FRAME

    @cached_property
    def css(self) -> str:
        """The style sheet of all stages and its own."""
        own = self.file.with_suffix(".css")
        return "\n".join(style.read_text("utf-8") for style in (CANVAS_STYLE, own) if style.is_file())
