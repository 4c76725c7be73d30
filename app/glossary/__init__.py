"""What the terms of the pages mean: a hover away on every page, and listed in one place."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from html import escape
from types import MappingProxyType

import streamlit as st

from app.canvas.scripts import address
from app.figures.tables import scrolled
from engine.root import ROOT

LIST_HEIGHT = 460  # px


@lru_cache(maxsize=1)
def meanings() -> str:
    """Where a browser finds the meanings of all terms, once."""
    return address("glossary", json.dumps(found_on_pages()), "json")


def show() -> None:
    """The popover that lists every term, once it is opened."""
    popover = st.popover("Glossary", key="words", on_change="rerun")
    if popover.open:
        popover.caption("Point at an underlined word on a page to read its meaning there.")
        popover.html(scrolled(listed(), LIST_HEIGHT))


FILE = ROOT / "assets" / "glossary.md"
ENTRY = re.compile(r"^- \*\*(.+?)\*\*((?:, [^:]+)?): (.+)$", re.MULTILINE)
# term, or terms between | signs that mean the same: the first is its name
TERMS: Mapping[str, str] = MappingProxyType(
    {
        f"{name}{others.replace(', ', '|')}": meaning
        for name, others, meaning in ENTRY.findall(FILE.read_text("utf-8"))
    }
)
LETTERS = 2  # shorter names are not looked for on a page: K, V and m are in too many words


def names(term: str) -> list[str]:
    """A term's name, and what else it is called."""
    return term.split("|")


@lru_cache(maxsize=1)
def found_on_pages() -> dict[str, str]:
    """Every name that is looked for on a page, also where it begins a sentence, with its definition."""
    return {
        written: meaning
        for term, meaning in TERMS.items()
        for name in names(term)
        if len(name) >= LETTERS
        for written in (name, name[:1].upper() + name[1:])
    }


@lru_cache(maxsize=1)
def listed() -> str:
    """Every term with its other names and its definition, in order, as HTML."""
    entries = (
        f"<dt><b>{escape(first)}</b>{escape(''.join(f', {name}' for name in others))}</dt>"
        f"<dd>{escape(meaning)}</dd>"
        for (first, *others), meaning in (
            (names(term), meaning)
            for term, meaning in sorted(TERMS.items(), key=lambda entry: entry[0].casefold())
        )
    )
    return f"<dl>{''.join(entries)}</dl>"
