"""The Claims page: what papers and articles say, held against the engine and the recordings."""

from collections import Counter
from html import escape
from urllib.parse import urlencode

import streamlit as st

from app import scenario
from app.contents import PAGES
from app.figures import claims as figures
from app.gallery.picture import Drawn, Picture
from app.sidebar.unused import CONTROLS, unused
from engine.studies.claims import VERDICTS, Checked, checked

ABOUT = "What papers and articles say of attention, each held against a counted, modelled or recorded number."


def show() -> None:
    """Draw the page."""
    unused("Each claim has a scenario of its own; its link opens that one.", *CONTROLS)
    counts = Counter(one.verdict for one in checked())
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS)
    st.header(
        f"{len(checked())} claims of papers and popular articles, held against what this program computes "
        f"and what a GPU recorded: {parts}. Every verdict follows from a number.",
        anchor=False,
    )
    st.html(f"<div class='claims'>{''.join(figures.card(one, _link(one)) for one in checked())}</div>")


def _link(one: Checked) -> str:
    """A link that opens the scenario of a claim on the page that shows it."""
    page = one.claim.page
    address = f"{page}?{urlencode(scenario.url_values(one.claim.experiment))}"
    return f"<a href='{escape(address)}' target='_self'>Open this scenario on the page {PAGES[page]}</a>"


def _drawn(*_) -> Drawn:
    """Every claim, for the static site and phones."""
    return Drawn(f"<div class='claims'>{''.join(map(figures.card, checked()))}</div>")


PICTURE = Picture(_drawn, ABOUT)
