"""Every claim with its verdict, the numbers found, and why, as the static site and phones show it."""

from __future__ import annotations

from html import escape

from app.figures import claims as figures
from app.gallery.picture import Drawn, Picture, SiteFile
from app.gallery.shell import both, sideways
from app.gallery.svg import chart
from app.markup import markdown
from app.markup.formulas import mathml
from engine.studies.claims import checked
from engine.studies.claims.broken import rising
from engine.studies.claims.verdict import Checked

BROKEN = 4  # the claim whose update runs beside the right one
ABOUT = "What popular articles say of attention, each held against counted, modelled and recorded numbers."


def _drawn(*_) -> Drawn:
    return Drawn("".join(_claim(one) for one in checked()))


def _claim(one: Checked) -> str:
    claim = one.claim
    return (
        f"<section class='card'><h2>{claim.number}. {escape(claim.says)}</h2>"
        f"<p><span class='verdict'>{escape(one.verdict.capitalize())}</span> "
        f"<span class='note'>Source: a {escape(claim.source)}</span></p>"
        f"{sideways(figures.findings_table(one.findings))}"
        f"{markdown.html(one.why)}{_broken() if claim.number == BROKEN else ''}{mathml(claim.formula)}"
        f"<p class='note'>Scenario: {escape(figures.scenario_text(claim.experiment))}</p></section>"
    )


def _broken() -> str:
    """The update as it was written beside the right one."""
    course, alt = rising(), "Error of O, block by block"
    return both(lambda colours: chart(figures.broken(course, colours), alt)) + (
        f"{sideways(figures.broken_table(course))}"
    )


PICTURE = Picture(_drawn, lambda: [SiteFile("claims.html", "Claims", ABOUT, _drawn)])
