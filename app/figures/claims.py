"""Claims as pages show them: a card each, and the course of a broken update."""

from html import escape
from math import inf

from app.figures.base import Figure, drawn, line
from app.figures.colours import Palette
from app.figures.units import bytes_text, digits, times_text
from engine.experiment import described
from engine.studies.claims import BrokenUpdate
from engine.studies.claims.verdict import DEPENDS, RIGHT, UNKNOWN, WRONG, Checked

SMALLEST = 1e-17  # of the error axis: what is exactly 0 stands here
LOOKS = {RIGHT: "right", DEPENDS: "depends", WRONG: "wrong", UNKNOWN: "unknown"}  # classes
UNITS = {
    "B": bytes_text,
    "×": times_text,
    "%": lambda value: f"{digits(value)}%",
    "error": lambda value: digits(value) if value >= 0.01 or not value else f"{value:.1e}",
    "": digits,
}


def range_text(ends: tuple[float, float] | None, unit: str) -> str:
    """The least and the most of what is said or found, in one unit."""
    if ends is None:
        return "not recorded"
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
        f"<p>{escape(one.why)}</p>"
        f"<p class='note'>Source: {source}. {link or 'Scenario'}: "
        f"{escape(scenario)}, {claim.experiment.gpu.name}</p></section>"
    )


def broken(course: BrokenUpdate, colours: Palette) -> Figure:
    """The largest error of O after every block, of the right update and of the broken one, logarithmic."""
    blocks = list(range(1, len(course.right) + 1))
    lines = (
        ("with the earlier sum rescaled", course.right, colours.good),
        ("as written", course.broken, colours.bad),
    )
    traces = [
        line(
            blocks,
            [max(float(error), SMALLEST) for error in errors],
            colour,
            f"{name}, block %{{x}}: %{{customdata}}",
            **{"name": name, "mode": "lines+markers", "marker": {"size": 8, "symbol": symbol}},
            customdata=[f"{error:.1e}" for error in errors],
        )
        for (name, errors, colour), symbol in zip(lines, ("circle", "x"), strict=True)
    ]
    return drawn(
        traces,
        colours,
        height=230,
        x={"title_text": "block of the row, maxima rising", "dtick": 1},
        y={"type": "log", "title_text": "error of O, relative", "dtick": 4, "exponentformat": "e"},
    )
