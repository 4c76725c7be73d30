"""Every file of the gallery, by name: the pages' own pictures, from the same functions, without a session."""

from html import escape

from app import contents, start
from app.contents import NAME
from app.gallery.html_page import page, styles
from app.gallery.picture import Drawn, SiteFile
from app.glossary import listed
from app.hbm import HBM, words

GLOSSARY = SiteFile("glossary.html", "Glossary", "Every term that the pages use.", lambda: Drawn(listed()))


def site() -> dict[str, str]:
    """The whole site: names of files and what is in them; the same at every call."""
    groups = {
        group: [file for name in names if (picture := contents.picture(name)) for file in picture.files()]
        for group, names in contents.GROUPS.items()
    }
    groups["Learn"].append(GLOSSARY)
    files = {"index.html": _index(groups)}
    for listed_files in groups.values():
        for file in listed_files:
            files |= file.documents()
    return files


def _index(groups: dict[str, list[SiteFile]]) -> str:
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
    lecture, tiles = (contents.picture(name).files()[0].name for name in ("tour", "tiles"))
    ways = f"<p class='ways'><a href='{lecture}'>Start the lecture</a><a href='{tiles}'>Explore</a></p>"
    opening = f"<style>{styles()}</style><div class='prose'><h1>{NAME}</h1><p>{start.SENTENCE}</p>{ways}"
    if not (calls := start.race()):
        return page(NAME, start.SENTENCE, ways + lists)
    told = f"<p><b>{start.conclusion(calls)}</b></p><p class='note'>{words(calls, start.WORK)}</p>"
    below = f"<div class='prose'>{told}{lists}</div>"
    return HBM.offline(start.payload(calls), NAME, f"{opening}</div>", below)
