"""Claims as pages show them: a card each."""

from html import escape
from math import inf

from app.figures.units import bytes_text, digits, times_text
from engine.experiment import described
from engine.studies.claims import DEPENDS, RIGHT, WRONG, Checked

LOOKS = {RIGHT: "right", DEPENDS: "depends", WRONG: "wrong"}  # classes
UNITS = {
    "B": bytes_text,
    "×": times_text,
    "%": lambda value: f"{digits(value)}%",
    "error": lambda value: digits(value) if value >= 0.01 or not value else f"{value:.1e}",
    "": digits,
}


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
