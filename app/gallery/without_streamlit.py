"""What a page's function draws with Streamlit, written down as HTML: the same function, without a session."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import lru_cache, partial
from typing import Any
from unittest.mock import patch

import streamlit as st

from app import markup
from app.canvas.moving import Moving
from app.figures.colours import LIGHT, Palette
from app.gallery.html_page import both, sideways
from app.gallery.picture import Drawn
from app.gallery.svg import chart
from app.scenario import state, theme
from engine.experiment import Experiment

WRITE = {  # what becomes of each call
    "markdown": lambda text, **_: markup.html(text),
    "caption": lambda text, **_: f"<div class='note'>{markup.html(text)}</div>",
    "html": lambda text, **_: sideways(text),
    "plotly_chart": lambda figure, *, alt="", **_: chart(figure.to_dict(), alt),
}


class Written:
    """Stands in for Streamlit, or for one of its columns, and keeps what it is given."""

    def __init__(self, opened: list[Written] | None = None):
        self.parts: list[str | list[Written]] = []
        self.moving: list[tuple[Moving, Any, int]] = []  # each with its data and how many parts stand above
        self.opened = [self] if opened is None else opened  # the last takes what is drawn with Streamlit

    def __enter__(self) -> None:
        self.opened.append(self)

    def __exit__(self, *_: Any) -> None:
        self.opened.pop()

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in WRITE:
            raise AttributeError(name)
        return lambda *given, **named: self.parts.append(WRITE[name](*given, **named))

    def columns(self, spec: int | Sequence[float], **_: Any) -> list[Written]:
        self.parts.append([Written(self.opened) for _ in range(spec if isinstance(spec, int) else len(spec))])
        return self.parts[-1]

    def container(self, **_: Any) -> AbstractContextManager[None]:
        """What is drawn within it stands in line with the rest."""
        return nullcontext()

    def text(self, start: int = 0, stop: int | None = None) -> str:
        """All of it, or what stands from one part to another, columns beside each other."""
        return "".join(
            part
            if isinstance(part, str)
            else "<div class='columns'>" + "".join(f"<div>{each.text()}</div>" for each in part) + "</div>"
            for part in self.parts[start:stop]
        )


CALLS = (*WRITE, "columns", "container")


def _draw(opened: list[Written], name: str, *given: Any, **named: Any) -> Any:
    return getattr(opened[-1], name)(*given, **named)


def written(
    picture: Callable[[Experiment, Palette], None], experiment: Experiment, colours: Palette
) -> Written:
    """What a picture draws of an experiment, and its moving pictures with their data."""
    root = Written()

    def show(moving: Moving, data: Any, **_: Any) -> None:
        root.moving.append((moving, data, len(root.parts)))

    with ExitStack() as stack:
        for name in CALLS:
            stack.enter_context(patch.object(st, name, partial(_draw, root.opened, name)))
        stack.enter_context(patch.object(theme, "colours", lambda: colours))
        stack.enter_context(patch.object(Moving, "show", show))
        state.begin_run()
        state.start(experiment, (), {}, by_link=True)
        inspect.unwrap(picture)(experiment, colours)
    return root


def in_both_themes(picture: Callable[[Experiment, Palette], None], experiment: Experiment) -> Drawn:
    """The same in both themes; what moves knows both."""
    write = lru_cache(maxsize=2)(partial(written, picture, experiment))
    moving, data, above = next(iter(write(LIGHT).moving), (None, None, None))

    def text(*ends: int | None) -> str:
        return both(lambda colours: write(colours).text(*ends))

    return Drawn(text(0, above), moving, data, text(above) if moving else "")
