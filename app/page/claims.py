"""The Claims page: what papers and articles say, held against the engine and the recordings."""

from collections import Counter
from html import escape
from math import inf
from urllib.parse import urlencode

import streamlit as st

from app import scenario
from app.contents import PAGES
from app.figures.units import bytes_text, digits, times_text
from app.gallery.picture import Drawn, Picture
from app.sidebar.unused import CONTROLS, unused
from engine.experiment import described
from engine.studies.claims import DEPENDS, RIGHT, VERDICTS, WRONG, Checked, checked

ABOUT = "What papers and articles say of attention, each held against a counted, modelled or recorded number."
LOOKS = {RIGHT: "right", DEPENDS: "depends", WRONG: "wrong"}  # classes
UNITS = {
    "B": bytes_text,
    "×": times_text,
    "%": lambda value: f"{digits(value)}%",
    "error": lambda value: digits(value) if value >= 0.01 or not value else f"{value:.1e}",
    "": digits,
}


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
    st.html(f"<div class='claims'>{''.join(card(one, _link(one)) for one in checked())}</div>")


def range_text(ends: tuple[float, float], unit: str) -> str:
    """The least and the most of what is said or found, in one unit."""
    least, most = map(UNITS[unit], ends)
    if least == most:
        return least
    if ends[0] == 0:
        return f"at most {most}"
    return f"over {least}" if ends[1] == inf else f"{least} to {most}"


def number_text(one: Checked) -> str:
    """What was found beside what is said, of what, and where it is from."""
    claim = one.claim
    found, claimed = (range_text(ends, claim.unit) for ends in (one.found, claim.claimed))
    over = f", over {claim.varied}" if claim.varied else ""
    return (
        f"<b>{escape(found)}</b> <span>({escape(one.origin)}), where {escape(claimed)} is claimed: "
        f"{escape(claim.what + over)}</span>"
    )


def card(one: Checked, link: str = "") -> str:
    """A claim with its verdict, number, reason and source; `link` leads to its scenario."""
    claim, (source, address) = one.claim, one.claim.source
    if address:
        source = f"<a href='{address}' target='_blank' rel='noopener'>{escape(source)}</a>"
    scenario = described(claim.experiment).removeprefix(f"{claim.experiment.algorithm}, ")
    return (
        f"<section class='claim {LOOKS[one.verdict]}' id='claim-{one.number}'>"
        f"<h3>{one.number}. {escape(claim.says)}</h3>"
        f"<p><span class='verdict'>{one.verdict.capitalize()}</span> {number_text(one)}</p>"
        f"<p>{escape(claim.why)}</p>"
        f"<p class='note'>Source: {source}. {link or 'Scenario'}: "
        f"{escape(scenario)}, {claim.experiment.gpu.name}</p></section>"
    )


def _link(one: Checked) -> str:
    """A link that opens the scenario of a claim on the page that shows it."""
    page = one.claim.page
    address = f"{page}?{urlencode(scenario.url_values(one.claim.experiment))}"
    return f"<a href='{escape(address)}' target='_self'>Open this scenario on the page {PAGES[page]}</a>"


def _drawn(*_) -> Drawn:
    """Every claim, for the static site and phones."""
    return Drawn(f"<div class='claims'>{''.join(map(card, checked()))}</div>")


PICTURE = Picture(_drawn, ABOUT)
