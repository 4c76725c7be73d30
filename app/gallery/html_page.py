"""What the gallery's pages share: their head, their look in both themes, and the way back to the first."""

from collections.abc import Callable
from html import escape
from pathlib import Path

from app.canvas.offline import POLICY
from app.contents import NAME
from app.figures.base import RULES
from app.figures.colours import DARK, LIGHT, Palette

HERE = Path(__file__).parent
HOME = "index.html"
FRAMES = f"{POLICY}; frame-src 'self' file:"  # a page that shows others of the site within it


def styles() -> str:
    """The style sheet of every page."""
    return (HERE / "gallery.css").read_text("utf-8") + RULES


def head(title: str, about: str) -> str:
    """What stands above a page's picture."""
    way = f"<nav class='site'><a href='{HOME}'>{NAME}</a><h1>{escape(title)}</h1></nav>"
    return f"{way}<p class='about'>{escape(about)}</p>"


def both(make: Callable[[Palette], str]) -> str:
    """A picture in both themes, of which the reader's is shown."""
    return f"<div class='on-light'>{make(LIGHT)}</div><div class='on-dark'>{make(DARK)}</div>"


def sideways(content: str) -> str:
    """What is wider than a narrow screen, which keys scroll too."""
    return f"<div class='scroll' tabindex='0'>{content}</div>"


def frame(file: str, title: str) -> str:
    """Another page of the site within this one."""
    return f"<iframe src='{file}' title='{escape(title)}' loading='lazy'></iframe>"


def unseen(title: str) -> str:
    """The heading of a framed page, for those who hear it: the page around it shows the same words."""
    hidden = "position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%)"
    return f"<h1 style='{hidden}'>{escape(title)}</h1>"
