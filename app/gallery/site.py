"""Every file of the gallery, by name: the pages' own pictures, from the same functions, without a session."""

from html import escape
from itertools import chain
from pathlib import Path

from app import contents, start
from app.contents import NAME
from app.gallery.html_page import styles
from app.gallery.picture import Drawn, SiteFile
from app.glossary import listed
from app.hbm import HBM, words
from engine.experiment import Experiment, described

SAME = ("start", "tour", "claims")  # whatever the scenario
GLOSSARY = SiteFile("glossary.html", "Glossary", "Every term that the pages use.", lambda: Drawn(listed()))
EMBEDDED = (  # where a picture is shown, and what is pasted there
    (
        "Moodle, Canvas, any page in HTML",
        "<iframe src='{}' title='{}' style='width:100%; height:640px; border:0'></iframe>",
    ),
    ("reveal.js", "<section data-background-iframe='{}' data-background-interactive title='{}'></section>"),
    ("Markdown", "[{1}]({0})"),
)


def site(experiment: Experiment | None = None, lecture: Path | None = None) -> dict[str, str]:
    """The whole site: names of files and what is in them; the same at every call.

    With an experiment every page's picture is of that, a file per page; a lecture is a tour's own file.
    """
    groups = {
        group: [
            file
            for name, title in names.items()
            if contents.picture(name)
            for file in _files(name, title, experiment, lecture)
        ]
        for group, names in contents.GROUPS.items()
    }
    groups["Learn"].append(GLOSSARY)
    files = {"index.html": _index(groups, experiment)}
    about = "What to paste where a picture is to be shown."
    embed = SiteFile("embed.html", "Embed", about, lambda: Drawn(_embedding(groups)))
    for file in (*chain(*groups.values()), embed):
        files |= file.documents()
    return files


def _files(name: str, title: str, experiment: Experiment | None, lecture: Path | None) -> list[SiteFile]:
    """A page's files: those that it has, or one of an experiment."""
    picture = contents.picture(name)
    if name == "tour" and lecture is not None:
        return contents.page(name).site_files(lecture)
    if experiment is None or name in SAME:
        return picture.files(name, title)
    drawn = picture.of(experiment)
    there = drawn.html or drawn.moving
    return [SiteFile(f"{name}.html", title, f"{described(experiment)}.", lambda: drawn)] * bool(there)


def _embedding(groups: dict[str, list[SiteFile]]) -> str:
    """Every file's lines; a place that moves can be opened at a step."""
    told = (
        "<p>Put the site where a browser finds it, and its address before the name. A moving picture opens "
        "at a step with <code>#step=7</code> behind its name. A platform may ask you to switch its editor "
        "to HTML first.</p>"
    )
    for file in chain(*groups.values()):
        lines = "".join(
            f"<p>{escape(where)}</p><pre>{escape(line.format(file.name, escape(file.title)))}</pre>"
            for where, line in EMBEDDED
        )
        told += f"<h2><a href='{file.name}'>{escape(file.title)}</a></h2>{lines}"
    return told


def _index(groups: dict[str, list[SiteFile]], experiment: Experiment | None) -> str:
    """The first page: the opening picture, and every other page by group."""
    lists = "".join(
        f"<h2>{group}</h2><ul class='list'>"
        + "".join(
            f"<li><a href='{file.name}'>{escape(file.title)}</a><span>{escape(file.about)}</span></li>"
            for file in files
        )
        + "</ul>"
        for group, files in groups.items()
    )
    tiles = contents.picture("tiles").files("tiles")[0].name if experiment is None else "tiles.html"
    ways = f"<p class='ways'><a href='tour.html'>Start the lecture</a><a href='{tiles}'>Explore</a></p>"
    opening = f"<style>{styles()}</style><div class='prose'><h1>{NAME}</h1><p>{start.SENTENCE}</p>{ways}"
    calls = start.race()
    told = f"<p><b>{start.conclusion(calls)}</b></p><p class='note'>{words(calls, start.WORK)}</p>"
    embed = "<p><a href='embed.html'>Show a picture on a page of your own</a></p>"
    below = f"<div class='prose'>{told}{lists}{embed}</div>"
    return HBM.offline(start.payload(calls), NAME, f"{opening}</div>", below)
