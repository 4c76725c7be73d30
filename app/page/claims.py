"""The Claims page: what popular articles say, held against the engine and the recordings."""

from __future__ import annotations

from collections import Counter
from functools import partial
from html import escape
from urllib.parse import urlencode

import streamlit as st

from app import scenario
from app.contents import PAGES
from app.elements import chart, one_of
from app.figures import claims as figures
from app.figures.tables import scrolled
from app.page.parts.claims_written import BROKEN, PICTURE
from app.scenario import theme
from app.sidebar.unused import CONTROLS, unused
from engine.studies.claims import checked
from engine.studies.claims.broken import rising
from engine.studies.claims.verdict import DEPENDS, OFF, PARTLY, RIGHT, UNKNOWN, VERDICTS, WRONG, Checked

__all__ = ["PICTURE", "show"]

COLOURS = {RIGHT: "green", DEPENDS: "violet", PARTLY: "blue", OFF: "orange", WRONG: "red", UNKNOWN: "gray"}
SHOWN_ON = {  # the page that shows what a claim is about
    "bytes": "traffic",
    "gradients": "backward",
    "masks": "masks",
    "numbers": "agreement",
    "overlap": "flash3",
    "softmax": "softmax",
    "tiling": "tiles",
    "time": "speed",
    "timeline": "gpu",
}
TALL = 900  # pixels: tables scroll sideways only, on narrow screens


def show() -> None:
    """Draw the page."""
    everything = checked()
    unused("Each claim has a scenario of its own; its link opens that one.", *CONTROLS)
    st.header(_headline(everything), anchor=False)
    st.fragment(partial(_filter, everything))()
    half = (len(everything) + 1) // 2
    with st.container(key="claims"):
        columns = st.columns(2, gap="medium")
    for column, part in zip(columns, (everything[:half], everything[half:]), strict=True):
        for one in part:
            with column, st.container(border=True, key=f"claim_{one.claim.number}"):
                _card(one)


def _headline(everything: tuple[Checked, ...]) -> str:
    counts = Counter(one.verdict for one in everything)
    parts = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    return (
        f"This page checks {len(everything)} claims of popular articles against what this program computes "
        f"and what a GPU recorded: {parts}. Every verdict follows from the numbers found."
    )


def _filter(everything: tuple[Checked, ...]) -> None:
    """Hide all but those of the verdict that is picked: a browser draws 44 tables anew far more slowly."""
    there = [verdict for verdict in VERDICTS if any(one.verdict == verdict for one in everything)]
    names = {name: name.capitalize() for name in ("all", *there)}
    with st.container(horizontal=True, vertical_alignment="center", key="claims_filter"):
        picked = one_of("Verdict", names, "claims_verdict")
        shown = [one for one in everything if picked in ("all", one.verdict)]
        st.html(
            f"<span>{len(shown)} of {len(everything)}</span>{_hiding(shown, everything)}", width="content"
        )


def _hiding(shown: list[Checked], everything: tuple[Checked, ...]) -> str:
    """Style that hides the other claims, and lets those shown fill both columns alike."""
    if len(shown) == len(everything):
        return ""
    others = ", ".join(f".st-key-claim_{one.claim.number}" for one in everything if one not in shown)
    return f"""<style>
      :root .st-key-claims {{
        > div > [data-testid="stHorizontalBlock"] {{ display: block; columns: 2 27rem; column-gap: 2rem; }}
        [data-testid="stColumn"], [data-testid="stColumn"] > [data-testid="stVerticalBlock"],
        [data-testid="stColumn"] > div:has(> [data-testid="stVerticalBlock"]) {{ display: contents; }}
        [class*="st-key-claim_"] {{ break-inside: avoid; margin-bottom: 1rem; }}
        :is({others}) {{ display: none; }}
      }}
    </style>"""


def _card(one: Checked) -> None:
    claim = one.claim
    st.markdown(f":{COLOURS[one.verdict]}-badge[{one.verdict.capitalize()}] **{claim.number}. {claim.says}**")
    st.caption(f"Source: a {claim.source}")
    with st.container(key=f"findings_{len(one.findings)}_{claim.number}"):
        st.html(scrolled(figures.findings_table(one.findings), TALL))
    st.markdown(one.why)
    if claim.number == BROKEN:
        _broken()
    st.latex(claim.formula)
    st.html(_link(one))


def _link(one: Checked) -> str:
    """A link that opens the scenario of a claim on the page that shows it, and what the scenario is."""
    page, experiment = SHOWN_ON[one.claim.subject], one.claim.experiment
    address = f"{page}?{urlencode(scenario.url_values(experiment))}"
    link = f"<a href='{escape(address)}' target='_self'>Open this scenario on the page {PAGES[page]}</a>"
    return f"{link}: {figures.scenario_text(experiment)}"


def _broken() -> None:
    """The update as it was written beside the right one, on one row of rising maxima."""
    course = rising()
    figure = figures.broken(course, theme.colours())
    chart(figure, "Error of O, block by block", "broken update")
    st.html(scrolled(figures.broken_table(course), TALL))
    st.caption(
        "One row of 16 scores whose maximum rises, computed here in float64 with two scores per block."
    )
