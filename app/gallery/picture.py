"""A page's picture: one object, by which phones, the static site and a download show what the page shows.

A page's module holds it as PICTURE, where `contents.picture` finds it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from app.canvas.moving import Moving
from app.canvas.offline import document
from app.gallery.html_page import FRAMES, head, styles
from app.scenario.presets import preset
from engine.experiment import Experiment

USUAL = Experiment()  # what a file of the site shows, unless it takes the example
EXAMPLE = preset("The 4096-token example")


@dataclass(frozen=True)
class Drawn:
    """A picture, drawn."""

    html: str = ""  # what stands still, in both themes
    moving: Moving | None = None  # what moves below it
    data: Any = None  # what that moves, bytes or what JSON holds
    below: str = ""  # HTML below both
    says: str = ""  # a sentence on what is shown
    title: str = ""  # of this picture, where it has one of its own
    framed: Mapping[str, str] = field(default_factory=dict)  # other files of the site, which the HTML frames

    def document(self, title: str, above: str = "", below: str = "", style: str = "") -> str:
        """A whole document of it in the site's style and some more, between more HTML."""
        above = f"<style>{styles()}{style}</style>{above}{self.html}"
        if self.moving:
            return self.moving.offline(self.data, title, above, self.below + below)
        return document(title, "", f"<main class='prose'>{above}{self.below}{below}</main>", FRAMES)


@dataclass(frozen=True)
class SiteFile:
    """A file of the static site: its name, its title, what it shows in a line, and its picture."""

    name: str
    title: str
    about: str
    draw: Callable[[], Drawn]

    def documents(self) -> dict[str, str]:
        """Its text by its name, and the texts of the files that it frames."""
        drawn = self.draw()
        above = head(self.title, f"{self.about} {drawn.says}".rstrip())
        return {self.name: drawn.document(self.title, above), **drawn.framed}


@dataclass(frozen=True)
class Picture:
    """What a page shows elsewhere too.

    Args:
        of: draws an experiment, with what the page asks beside it by name.
        about: what its file in the static site shows, in a line; without, there is none or several.
        example: the experiment of that file.
        several: its files there, where it has not one; a link to the page leads to the first.

    Example:
        PICTURE = Picture(lambda experiment: Drawn(moving=PLAYER, data=build(experiment)), "Tiles.")
    """

    of: Callable[..., Drawn]
    about: str = ""
    example: Experiment = USUAL
    several: Callable[[], Sequence[SiteFile]] = tuple

    def files(self, page: str, title: str = "") -> list[SiteFile]:
        """The picture's files in the static site, of a page of that name and title."""
        one = SiteFile(f"{page}.html", title, self.about, partial(self.of, self.example))
        return [one] if self.about else list(self.several())

    def show(self, experiment: Experiment, *, key: str) -> None:
        """Show what moves of an experiment on the page, and offer it as a file to take home."""
        drawn = self.of(experiment)
        if drawn.moving:
            drawn.moving.show(drawn.data, key=key)


def tokens(experiment: Experiment) -> str:
    """Lengths, head dimension and blocks, in words."""
    problem, tiling = experiment.problem, experiment.tiling
    tokens = f"{problem.seq_kv:,} tokens"
    if problem.seq_q != problem.seq_kv:
        tokens = f"{problem.seq_q:,} {'query' if problem.seq_q == 1 else 'queries'}, {problem.seq_kv:,} keys"
    return f"{tokens}, head dimension {problem.head_dim}, blocks of {tiling.block_q} × {tiling.block_kv}."
