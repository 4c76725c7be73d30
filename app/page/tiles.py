"""The Tiles page: attention as it runs, one tile after the other, on one screen."""

from __future__ import annotations

import math

from app import scenario
from app.page.parts.job import job_of
from app.player import player
from app.player.payload import build
from engine.experiment import Experiment
from engine.measuring.agreement import AGREE, Agreement, small_sibling

SHOWN = {"m": "m", "alpha": "α", "lse": "lse"}  # the row's numbers whose differences are absolute
KERNEL_AND_SCHEDULER = ("kernel", "trace")
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def show() -> None:
    """The player of the current scenario."""
    experiment = scenario.current()
    player(build(experiment, *_agreement(experiment)), key="tiles")


def _agreement(experiment: Experiment) -> tuple[str, bool]:
    """The verdict on a comparison that was measured on this server; nothing where there was none."""
    job = job_of(AGREE, small_sibling(experiment).flat())
    return verdict(job.result) if job is not None and job.state == "done" else ("", True)


def verdict(agreement: Agreement) -> tuple[str, bool]:
    """How far kernel and scheduler differ in one line, and whether everything compared agrees."""
    if not all(agreement.holds(quantity) for quantity in agreement.quantities):
        return "measured here: differs by more than rounding, see Agreement", False
    shown = [quantity for quantity in SHOWN if quantity in agreement.quantities]
    largest = max(agreement.largest(quantity, KERNEL_AND_SCHEDULER) for quantity in shown)
    names = ", ".join(SHOWN[quantity] for quantity in shown)
    return f"{names} of kernel and scheduler differ by at most {power(largest)}, measured here", True


def power(bound: float) -> str:
    """A bound rounded up to one digit and a power of ten: 2·10⁻⁷."""
    if bound == 0:
        return "0"
    exponent = math.floor(math.log10(bound))
    digit = math.ceil(bound / 10.0**exponent)
    digit, exponent = (1, exponent + 1) if digit == 10 else (digit, exponent)
    return f"{digit}·10{str(exponent).translate(SUPERSCRIPTS)}"
