"""Where the keys of several sequences lie: a whole cache for each, or pages of one pool."""

from __future__ import annotations

import streamlit as st

from app.figures import paging as figures
from app.figures.colours import Palette
from app.figures.tables import scrolled
from app.figures.units import bytes_text, percent_text, scaled
from app.scenario.page_values import OWN, own, tie
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.studies.decoding import recorded_pages
from engine.studies.paging import Paging, paging_of

TABLE_HEIGHT = 330  # pixels: the rows of eight sequences


def show(decoding: Experiment, recording: Recording | None, colours: Palette) -> None:
    """Whole caches beside pages, the block tables, and what reading through them costs."""
    size, count = (own(name) for name in ("page_size", "sequences"))
    paging = paging_of(decoding.problem, count, size)
    st.markdown(_sentence(paging))
    pages, sequences = st.columns(2, gap="medium")
    pages.select_slider("Page size (keys)", OWN["page_size"].options, **tie("page_size", size))
    sequences.select_slider("Number of sequences", OWN["sequences"].options, **tie("sequences", count))
    st.html(figures.pictures(paging, _titles(paging), colours))
    st.html(scrolled(figures.block_tables(paging), TABLE_HEIGHT))
    st.caption(_counted(paging, decoding))
    if recording:
        _recorded(recording, decoding)


def _sentence(paging: Paging) -> str:
    more = f" The pages that stay free have room for {_sequences(paging.more)} more." if paging.more else ""
    return (
        f"**Pages of {paging.page_size} keys leave {_percent(paging.unused_share)} of the memory that they "
        f"take unused (counted); a whole cache per sequence leaves {_percent(paging.idle_share)} "
        f"unused.**{more}"
    )


def _sequences(count: int) -> str:
    return "1 sequence" if count == 1 else f"{count:,} sequences"


def _percent(share: float) -> str:
    return f"{share:.2%}" if share < 0.01 else f"{share:.1%}"


def _titles(paging: Paging) -> tuple[tuple[str, str], tuple[str, str]]:
    """What the two pictures show, and how much of it is unused."""
    reserved, idle, taken, unused = (
        bytes_text(paging.bytes_of(slots))
        for slots in (paging.reserved, paging.idle_slots, paging.taken_slots, paging.unused_slots)
    )
    return (
        (
            "A whole cache per sequence",
            f"{paging.reserved:,} slots are reserved ({reserved}); {paging.idle_slots:,} of them are unused "
            f"({idle}).",
        ),
        (
            f"A pool of {paging.pages:,} pages, as much memory",
            f"{paging.taken:,} pages are taken ({taken}); {paging.unused_slots:,} of their slots are unused "
            f"({unused}).",
        ),
    )


def _counted(paging: Paging, decoding: Experiment) -> str:
    keys, drawn = decoding.problem.seq_kv, ""
    if paging.room != keys:
        drawn = f"Every page is drawn, so the room per sequence is {paging.room:,} keys, not {keys:,}. "
    return (
        f"{drawn}A slot holds K and V of one key in one layer: {bytes_text(paging.key_bytes)}. Lengths are "
        f"spread evenly up to the {paging.room:,} keys that a sequence may reach. A sequence takes the next "
        "free page when its last one is full, so at most one page per sequence is partly empty (internal "
        "fragmentation). Prompts, half of each length, came one after another; then all sequences got one "
        f"key each in turn. The block tables take {bytes_text(paging.table_bytes)}, 4 bytes per page."
    )


def _recorded(recording: Recording, decoding: Experiment) -> None:
    """How fast recorded kernels read pages, beside a cache in one piece."""
    whole, pages = recorded_pages(recording, decoding)
    if whole is None or not pages:
        return
    rates = ", ".join(
        f"{scaled(row.bytes_per_second, 'B/s')} from pages of {row.page_size} "
        f"({percent_text(row.bytes_per_second, whole.bytes_per_second)})"
        for row in pages
    )
    problem = whole.problem
    st.caption(
        f"{recording.heading}, batch {problem.batch}, {problem.seq_kv:,} "
        f"keys: K and V come at {scaled(whole.bytes_per_second, 'B/s')} from a whole cache, and at {rates}."
    )
