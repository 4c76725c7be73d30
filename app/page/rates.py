"""The page of the GPU's figures: each rate that micro-benchmarks measured, beside the vendor's."""

import streamlit as st

from app import scenario
from app.elements import chart, numbers, one_of
from app.figures.hardware import benchmark, figures_lines
from app.figures.units import scaled, seconds_text, share_text
from app.scenario import theme
from app.sidebar.unused import CONTROLS, unused
from engine.problem.hardware import REFUSED, Gpu
from engine.studies import calibrated

COMMAND = "`python -m engine calibrate --out my-gpu.json`"
HOW = (
    f"{COMMAND} measures a GPU in half a minute. The dashboard offers the file as a GPU where it is started "
    "with `-- --gpu my-gpu.json`, or where the file lies in `assets/calibrations`."
)


def show() -> None:
    """Draw the page."""
    gpu = scenario.current().gpu
    unused("These figures are the GPU's alone.", *(name for name in CONTROLS if name != "hardware"))
    origin = calibrated.origin(gpu)
    st.header(
        f"What the {gpu.name} reaches of its vendor's figures: each rate is measured by a kernel that keeps "
        "one unit busy and does nothing else."
        if origin
        else f"The {gpu.name} was never calibrated: the model takes its vendor's figures, and of them the "
        "shares that an H200 reaches.",
        anchor=False,
    )
    st.caption(f"{origin}. {HOW}" if origin else HOW)
    for sentence in REFUSED.values():
        st.warning(sentence)
    if origin:
        _measured(gpu)
    left, right = st.columns(2)
    with left:
        st.markdown("**What the model takes of them**")
        rows = [
            [what, _text(value, unit), "" if found is None else _text(found, unit)]
            for what, unit, value, found in calibrated.taken(gpu)
        ]
        numbers(["of the vendor's figures, and waits", "taken", "measured"], rows, "What the model takes")
    with right:
        st.markdown("**The vendor's figures**, and their sources")
        lines = (f"**{group}**: {words}  \n:gray[{source}]" for group, words, source in figures_lines(gpu))
        st.markdown("\n\n".join(lines))


def _measured(gpu: Gpu) -> None:
    """The picture of one benchmark, and a table of all."""
    pictures = calibrated.pictures(gpu)
    picked = one_of("Benchmark", {key: one.title for key, one in pictures.items()}, "rates_benchmark")
    shown, rows = pictures[picked], []
    chart(benchmark(shown, theme.colours()), f"{shown.title}, measured", f"rates {picked}")
    dotted = f" Dotted: the vendor's figure, at {scaled(gpu.clock_hz, 'Hz')}." if shown.expected else ""
    st.caption(f"{shown.sentence}{dotted}")
    for one in calibrated.measured(gpu):
        span = _text(one.most, one.unit)
        if one.least < one.most:
            span = f"{_text(one.least, one.unit)} to {span}"
        vendor = "" if one.vendor is None else _text(one.vendor, one.unit)
        rows.append([one.title, one.name, span, vendor, "" if one.share is None else share_text(one.share)])
    st.markdown("**Measured**, beside the vendor's figures")
    numbers(["benchmark", "series", "measured", "vendor's", "share"], rows, "Measured rates", words=(0, 1))
    if reason := calibrated.refused(gpu):
        st.caption(f"The chip's own counters were not read: {reason}.")


def _text(value: float, unit: str) -> str:
    """A number with its unit; a share where it has none."""
    if not unit:
        return share_text(value)
    return seconds_text(value) if unit == "s" else scaled(value, unit)
