"""The Tiles page: attention as it runs, one tile after the other, on one screen."""

from functools import partial

from app import scenario
from app.figures.units import bound_text
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.page.parts.job import job_of
from app.player import PLAYER, play
from app.player.payload import begun, build
from app.scenario.presets import preset
from app.sidebar.unused import unused
from engine.algorithms import ALGORITHMS, offered
from engine.experiment import Experiment
from engine.measuring.agreement import AGREE, Agreement, small_sibling

SHOWN = {"m": "m", "alpha": "α", "lse": "lse"}  # the row's numbers whose differences are absolute
RACE = {"seq": 2048, "heads": 128}  # heads enough for every SM, also where one block takes a whole head
KERNEL_AND_SCHEDULER = ("kernel", "trace")


def show() -> None:
    """The player of the current scenario, or why nothing plays."""
    experiment = scenario.current()
    unused("The tiles of one head are the same whoever shares its keys.", "kv_heads")
    play(experiment, lambda: build(experiment, *_agreement(experiment)), "tiles")


def _agreement(experiment: Experiment) -> tuple[str, bool]:
    """The verdict on a comparison that was measured on this server; nothing where there was none."""
    job = job_of(AGREE, small_sibling(experiment).flat())
    return verdict(job.result) if job is not None and job.state == "done" else ("", True)


def verdict(agreement: Agreement) -> tuple[str, bool]:
    """How far kernel and scheduler differ in one line, and whether everything compared agrees."""
    if not agreement.agrees:
        return "measured here: differs by more than rounding, see Agreement", False
    shown = [quantity for quantity in SHOWN if quantity in agreement.quantities]
    largest = max(agreement.largest(quantity, KERNEL_AND_SCHEDULER) for quantity in shown)
    names = ", ".join(SHOWN[quantity] for quantity in shown)
    return f"{names} of kernel and scheduler differ by at most {bound_text(largest)}, measured here", True


def _playing(experiment: Experiment, race: bool = False) -> Drawn:
    return Drawn(moving=PLAYER, data=begun(build(experiment), race=race))


def _still(experiment: Experiment) -> Drawn:
    return Drawn(moving=PLAYER, data=build(experiment))


def _files() -> list[SiteFile]:
    """A player of every algorithm, the usual one first, one of few tiles, and two races."""
    files = []
    for key in sorted(offered(), key=lambda key: key != USUAL.algorithm):
        record = ALGORITHMS[key]
        one = USUAL.changed(algorithm=key, **({"head_dim": 128} if record.chooses_tiling else {}))
        files.append(SiteFile(f"tiles-{key}.html", record.label, tokens(one), partial(_still, one)))
    tiny, few = preset("Tiny, to count by hand"), "FlashAttention-2, few tiles"
    files.append(SiteFile("tiles-tiny.html", few, tokens(tiny), partial(_still, tiny)))
    for name, title, causal in (("race.html", "Race", False), ("race-causal.html", "Race, causal", True)):
        one = Experiment.of(causal=causal, **RACE)
        about = f"{tokens(one)} Every lane runs on the modelled clock of an H200."
        files.append(SiteFile(name, title, about, partial(_playing, one, race=True)))
    return files


PICTURE = Picture(_playing, several=_files)
