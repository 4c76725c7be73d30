"""The page of the GPU's figures: each rate that micro-benchmarks measured, beside the vendor's."""

import streamlit as st

from app import scenario
from app.elements import chart, numbers, one_of
from app.figures.hardware import benchmark
from app.figures.units import scaled, seconds_text, share_text, times_text
from app.scenario import theme
from app.sidebar.unused import CONTROLS, unused
from engine.problem.calibration import BENCHMARKS, Calibration
from engine.problem.hardware import REFUSED, Gpu
from engine.studies import calibrated

HOW = (
    "`python -m engine calibrate --out my-gpu.json` measures a GPU in half a minute. The file is offered as "
    "a GPU where it is uploaded in the sidebar, under More, where the dashboard is started with `-- --gpu "
    "my-gpu.json`, or where it lies in `assets/calibrations`."
)


def show() -> None:
    """Draw the page."""
    gpu = scenario.current().gpu
    unused("These figures are the GPU's alone.", *(name for name in CONTROLS if name != "hardware"))
    found = gpu.calibration
    if found:
        told, origin = "each rate is measured by a kernel that keeps one unit busy.", calibrated.origin(found)
        st.header(f"What the {gpu.name} reaches of its vendor's figures: {told}", anchor=False)
        st.caption(f"{origin}. {HOW}")
    else:
        told = "the model takes shares of its vendor's figures that another GPU reaches, or published ones."
        st.header(f"The {gpu.name} was never calibrated: {told}", anchor=False)
        st.caption(HOW)
    for sentence in REFUSED.values():
        st.warning(sentence)
    if found:
        _measured(found, gpu)
    st.markdown("**What the model takes** of the vendor's figures, and waits")
    whose = "by this calibration" if found else "taken"
    rows = [{"": what, whose: _text(value, unit)} for what, unit, value in calibrated.taken(gpu)]
    numbers(rows, "What the model takes")
    st.caption(
        "Attention does more beside its products than the benchmark of power, so its clock is taken to fall "
        "no less than an H200's counters said of attention."
    )


def _measured(found: Calibration, gpu: Gpu) -> None:
    """The picture of one benchmark, and a table of all."""
    key = one_of("Benchmark", {key: one.title for key, one in BENCHMARKS.items()}, "rates_benchmark")
    shown, clock = BENCHMARKS[key], _text(gpu.clock_hz, "Hz")
    chart(benchmark(key, found, gpu, theme.colours()), f"{shown.title}, measured", f"rates {key}")
    st.caption(f"{shown.sentence} Dotted is the vendor's figure, where there is one, at its {clock}.")
    rows = [
        {
            "benchmark": title,
            "series": name,
            "measured": _text(most, unit)
            if least == most
            else f"{_text(least, unit)} to {_text(most, unit)}",
            "vendor's": _text(vendor, unit),
            "ratio": times_text(most, vendor) if vendor else "",
        }
        for title, name, unit, least, most, vendor in calibrated.measured(found, gpu)
    ]
    st.markdown("**Measured**, beside the vendor's figures")
    numbers(rows, "Measured rates", words=(0, 1))
    if found.refused:
        st.caption(f"The chip's own counters were not read: {found.refused}.")


def _text(value: float | None, unit: str) -> str:
    """A number with its unit; a share where it has none."""
    if value is None or not unit:
        return "" if value is None else share_text(value)
    return seconds_text(value) if unit == "s" else scaled(value, unit)
