"""The Tiles page: attention as it runs, one tile after the other, on one screen."""

from __future__ import annotations

from app import scenario
from app.figures.units import bound_text
from app.page.parts.job import job_of
from app.page.parts.plays import plays
from app.player.payload import build
from app.sidebar.unused import unused
from engine.experiment import Experiment
from engine.measuring.agreement import AGREE, Agreement, small_sibling

SHOWN = {"m": "m", "alpha": "α", "lse": "lse"}  # the row's numbers whose differences are absolute
KERNEL_AND_SCHEDULER = ("kernel", "trace")


def show() -> None:
    """The player of the current scenario, or why nothing plays."""
    experiment = scenario.current()
    unused("The tiles of one head are the same whoever shares its keys.", "kv_heads")
    plays(experiment, lambda: build(experiment, *_agreement(experiment)), "tiles")


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
    return f"{names} of kernel and scheduler differ by at most {bound_text(largest)}, measured here", True
