"""Claims as a page shows them: numbers with units, tables of findings, the course of a broken update."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from app.figures.base import Figure, drawn
from app.figures.colours import Palette
from app.figures.tables import table
from app.figures.units import bytes_text, digits, scaled, seconds_text, times_text, tokens_text
from engine.experiment import Experiment
from engine.model.drawable import described
from engine.studies.claims.broken import BrokenUpdate
from engine.studies.claims.verdict import Finding

HEAD = ("number", "claimed", "found", "")
SMALLEST = 1e-17  # of the error axis: what is exactly 0 stands here


def _binary(value: float, power: int) -> str:
    """A number of KiB, MiB or GiB, in the unit that suits it."""
    names = ("B", "KiB", "MiB", "GiB", "TiB")
    while value < 1 and power > 0:
        value, power = value * 1024, power - 1
    return f"{digits(value)} {names[power]}"


UNITS = {
    "B": bytes_text,
    "KiB": lambda value: _binary(value, 1),
    "MiB": lambda value: _binary(value, 2),
    "GiB": lambda value: _binary(value, 3),
    "s": seconds_text,
    "×": times_text,
    "%": lambda value: f"{value:.0f}%",
    "error": lambda value: digits(value) if value >= 0.01 or not value else f"{value:.1e}",
    "FLOP/B": lambda value: f"{digits(value)} FLOP/B",
    "tokens": tokens_text,
    "tokens/s": lambda value: tokens_text(value, "tokens/s"),
    "": digits,
}


def value_text(value: float, unit: str) -> str:
    """A number with its unit; statements as yes or no; infinite is a time that never comes."""
    if unit == "yes":
        return "yes" if value else "no"
    if value == inf:
        return "does not fit"
    return UNITS[unit](value) if unit in UNITS else scaled(value, unit)


def claimed_text(finding: Finding) -> str:
    """What is said: a number, a range, or at least or at most so much."""
    if finding.claimed is None:
        return ""
    low, high = finding.claimed
    if low == high:
        return value_text(low, finding.unit)
    if high == inf:
        return f"over {value_text(low, finding.unit)}"
    if low == 0:
        return f"at most {value_text(high, finding.unit)}"
    return (
        f"{digits(low)} to {value_text(high, finding.unit)}"
        if low >= 1 and high < 1e4
        else (f"{value_text(low, finding.unit)} to {value_text(high, finding.unit)}")
    )


def scenario_text(experiment: Experiment) -> str:
    """What a claim's numbers are of where they name nothing else."""
    shape = described(experiment).removeprefix(f"{experiment.algorithm}, ")
    return f"{shape}, {experiment.gpu.name}"


def findings_table(findings: Sequence[Finding]) -> str:
    """Every number as claimed and as found, where it is from, and whether they agree."""
    return table(HEAD, [_row(finding) for finding in findings], words=(0,), title="Findings of a claim")


def _row(finding: Finding) -> list[str]:
    mark = "" if not finding.judged else "holds" if finding.holds else _miss(finding)
    what = finding.what + f", over {finding.varied}" * bool(finding.varied)
    return [f"{what} · {finding.origin}", claimed_text(finding), found_text(finding), mark]


def found_text(finding: Finding) -> str:
    """Ours: a number, or the least and the most of all choices."""
    if finding.ours is None:
        return "not recorded"
    least, most = (value_text(value, finding.unit) for value in finding.range)
    return least if least == most else f"{least} … {most}"


def _miss(finding: Finding) -> str:
    """By what factor a number misses, where that says something."""
    if finding.depends:
        return "for some"
    if finding.unit == "yes" or finding.factor == inf or finding.factor > 1e6:
        return "misses"
    return f"off by {times_text(finding.factor)}"


def broken(course: BrokenUpdate, colours: Palette) -> Figure:
    """The largest error of O after every block, of the right update and of the broken one, logarithmic."""
    blocks = list(range(1, len(course.m) + 1))
    lines = (
        ("with the earlier sum rescaled", course.right, colours.good),
        ("as written", course.broken, colours.bad),
    )
    traces = [
        {
            "type": "scatter",
            "x": blocks,
            "y": [max(float(error), SMALLEST) for error in errors],
            "name": name,
            "mode": "lines+markers",
            "line": {"color": colour, "width": 2.5},
            "marker": {"size": 8, "symbol": symbol},
            "customdata": [f"{error:.1e}" for error in errors],
            "hovertemplate": f"{name}, block %{{x}}: %{{customdata}}<extra></extra>",
        }
        for (name, errors, colour), symbol in zip(lines, ("circle", "x"), strict=True)
    ]
    return drawn(
        traces,
        colours,
        height=230,
        x={"title_text": "block of the row, maxima rising", "dtick": 1},
        y={"type": "log", "title_text": "error of O, relative", "dtick": 4, "exponentformat": "e"},
    )


def broken_table(course: BrokenUpdate) -> str:
    """The same in numbers."""
    rows = [
        [str(block), f"{m:.1f}", f"{right:.0e}" if right else "0", f"{100 * wrong:.0f}%"]
        for block, (m, right, wrong) in enumerate(zip(course.m, course.right, course.broken, strict=True), 1)
    ]
    return table(("block", "m", "rescaled: error", "as written: error"), rows, title="The broken update")
