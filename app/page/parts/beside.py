"""Two scenarios side by side on every page that shows one: numbers, and pictures that one clock moves."""

import streamlit as st

from app import contents, scenario
from app.elements import numbers
from app.figures.units import digits, times_text
from app.scenario import beside
from app.tour.step_words import TEXTS
from engine.experiment import Experiment, described
from engine.model.simulation import simulate
from engine.studies.quantities import BY_KIND

WITHOUT = ("start", "tour", "model", "claims", "kernel")  # pages of no scenario, or of one of their own
PLAYED = ("zoom", "tiles", "backward", "flash3", "across", "gpu")  # whose picture shows any scenario
ROWS = {
    "modelled_seconds": "time",
    "dram_bytes": "crosses HBM",
    "requested_bytes": "requested from L2",
    "flops": "work",
    "intensity": "FLOP per byte of HBM",
    "tiles_visited": "tiles visited, one head",
    "tiles_skipped": "tiles skipped, one head",
    "thread_blocks": "thread blocks",
    "busy_sms": "SMs with work",
    "sram_bytes": "shared memory of a block",
}
OF = {name: (unit, origin, of) for (unit, origin), found in BY_KIND.items() for name, of in found.items()}
CLOCK = "One clock moves both pictures; what is chosen in one is chosen in the other."


def show(page: str) -> bool:
    """Draw both scenarios; whether the page has to be drawn no more."""
    other = beside.other()
    if other is None or page in WITHOUT:
        return False
    both = {"A": scenario.current(), "B": other}
    st.header(_headline(*both.values()), anchor=False)
    drawn = page in PLAYED and _played(page, both)
    _numbers(both)
    if not drawn:
        st.caption(f"{contents.PAGES[page]} has no picture of two scenarios: what follows shows A alone.")
    return drawn


def _played(page: str, both: dict[str, Experiment]) -> bool:
    """The page's picture of each; not drawn where a thread block of one does not fit, or it has none."""
    if page in ("tiles", "backward") and not all(simulate(one).footprint.fits for one in both.values()):
        return False
    picture, asked = contents.picture(page), scenario.own_values(page)
    drawn = {name: picture.of(one, **asked) for name, one in both.items()}
    if not all(each.moving for each in drawn.values()):
        return False
    with st.container(key="beside"):
        for column, (name, each) in zip(st.columns(2, gap="medium"), drawn.items(), strict=True):
            with column:
                st.markdown(f"**{name}**: {described(both[name])}")
                each.moving.show(each.data, key=f"{page} {name}", title=f"{each.moving.title} of {name}")
    st.caption(CLOCK)
    return True


def _headline(*both: Experiment) -> str:
    """Which takes longer, and which moves more."""
    one, other = map(simulate, both)
    longer = times_text(other.modelled.seconds, one.modelled.seconds)
    more = times_text(other.traffic.dram.total, one.traffic.dram.total)
    return f"B takes {longer} the time of A, and moves {more} its bytes through HBM (modelled)."


def _numbers(both: dict[str, Experiment]) -> None:
    rows = []
    for name, words in ROWS.items():
        unit, origin, of = OF[name]
        values = [of(one) for one in both.values()]
        over = times_text(*values[::-1]) if all(values) else ""
        told = dict(zip(both, map(TEXTS.get(unit, digits), values), strict=True))
        rows.append({"": f"{words}, {origin}", **told, "B over A": over})
    numbers(rows, "Numbers of A and B")
