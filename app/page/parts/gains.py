"""The hero of Speed, which a tour may show too: how many times fewer bytes, and how many times less time."""

from collections.abc import Sequence

import streamlit as st

from app.elements import GREY, chart, unsure
from app.figures.algorithms import short
from app.figures.speed import gains_by_length
from app.figures.units import bytes_text, gain_text, ratio_digits
from app.scenario import theme
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.recordings.recording import Recording
from engine.studies.gains import Gain, fused_of, gain_at, modelled_gain, modelled_gains, recorded_gains
from engine.studies.survey import growth

LONGEST = 65536  # keys of the axis, unless the scenario has more
LITTLE = 1.5  # times fewer bytes that are no reason for less time


def show(experiment: Experiment, recording: Recording | None) -> None:
    """Two ratios at the scenario's length, and both over the length."""
    keys, fused = experiment.problem.seq_kv, fused_of(experiment)
    modelled = modelled_gains(experiment, max(LONGEST, keys))
    recorded = recorded_gains(recording, experiment) if recording else ()
    numbers, lines = st.columns([1, 2.4], gap="large")
    with numbers, st.container(key="gains_numbers"):
        _numbers(modelled_gain(experiment), gain_at(recorded, keys))
        unsure({short(fused.algorithm): simulate(fused).traffic})
    with lines:
        st.markdown(f"**Bytes and time over the length**: {short(fused.algorithm)} against unfused attention")
        origin = recording.origin if recording else ""
        figure = gains_by_length(modelled, recorded, origin, keys, theme.colours())
        chart(figure, "Bytes and time over the sequence length, as many times less than unfused attention")
        marks = "Nothing was recorded for this shape."
        if recorded:
            marks = (
                f"Diamonds are {origin} by the chip's counters, under the profiler, for this shape and these "
                "tiles; the counters miss what still lay in L2 when a kernel ended."
            )
        shape = _shape(modelled, experiment)
        st.caption(f"Lines are modelled. {marks} {shape}{too_large(experiment)}")


def _numbers(modelled: Gain, recorded: Gain | None) -> None:
    rows = (
        ("Bytes across HBM", "fewer", lambda gain: gain.bytes),
        ("Time", "less", lambda gain: gain.seconds),
    )
    for name, less, ratio in rows:
        shown, origin, beside = modelled, "modelled", "not recorded at this scenario"
        if recorded:
            shown, origin, beside = recorded, "recorded", f"{times(ratio(modelled), less)}, modelled"
        st.metric(f"{name}, {origin}", gain_text(ratio(shown), less), beside, border=True, **GREY)


def times(ratio: float, less: str) -> str:
    """A ratio as "16.9 times fewer" or, below 1, as "1.2 times more"; `less` is fewer or less."""
    return f"{ratio_digits(1, ratio)} times more" if ratio < 1 else f"{ratio_digits(ratio, 1)} times {less}"


def too_large(experiment: Experiment) -> str:
    """That unfused attention's S and P have no room in the GPU's memory; empty where they have."""
    need, gpu = growth(experiment), experiment.gpu
    if need.unfused <= need.capacity:
        return ""
    return (
        f" Unfused attention could not run here: it needs {bytes_text(need.unfused)}, and "
        f"{gpu.with_article} has {bytes_text(need.capacity)}. Its time and bytes are what it would take with "
        "enough memory."
    )


def _shape(modelled: Sequence[Gain], experiment: Experiment) -> str:
    """What to see in the lines, as they run at this scenario."""
    last, problem = modelled[-1], experiment.problem
    if last.bytes < LITTLE and problem.seq_q < problem.seq_kv:
        return "With so few queries S and P are small beside K and V at every N, so fusing saves little."
    if last.seconds < 1:
        return "Where the time lies below 1×, the fused kernel moves fewer bytes and yet takes longer."
    bytes_ = [gain.bytes for gain in modelled]
    until = "" if bytes_ == sorted(bytes_) else " as long as L2 holds the K and V that are read again"
    if problem.mask.window:
        return (
            f"Bytes and time saved grow with N{until}: unfused attention also computes all that the window "
            "hides."
        )
    hidden = "; unfused attention computes what the mask hides too" if problem.mask.hides else ""
    return (
        f"The bytes saved grow with N{until}, but the time saved levels off: once HBM is no longer the fused "
        f"kernel's bottleneck, its arithmetic is{hidden or ', and unfused attention has as much'}."
    )
