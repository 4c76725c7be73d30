"""What bounds the scenario's speed, modelled and by the chip's own counters: on the Speed page."""

import streamlit as st

from app.elements import chart, numbers
from app.figures.colours import Palette
from app.figures.roofline import both_levels
from app.figures.units import scaled, share_text
from engine.experiment import Experiment
from engine.model.simulation import simulate
from engine.problem.hardware import gpu_named
from engine.recordings import counters as recorded
from engine.recordings.recording import Recording
from engine.studies.comparison import roofline
from engine.studies.counter_gaps import busiest

UNITS = {  # what each is called in the table, and in the sentence on what bounds
    "tensor core": ("tensor cores", "tensor cores"),
    "exp": ("exp and float32", "exponentials and float32 arithmetic"),
    "L2": ("L2 to SMs", "L2-to-SM bandwidth"),
    "HBM": ("HBM", "HBM bandwidth"),
    "issue": ("issue slots", "issue slots"),
    "launch": ("launch and waiting", "launch and waiting"),
    "tail": ("tail: SMs idle", "the tail, in which SMs are idle"),
}
# where no tensor core takes the dtype
PLAIN = {
    "tensor core": ("matrix products", "matrix products, which run on the float32 units in this data type")
}


def show(recording: Recording | None, experiment: Experiment) -> None:
    """The scenario's bottleneck: modelled, and how busy the counters say each unit was."""
    simulation, gpu = simulate(experiment), experiment.gpu
    units = UNITS if gpu.has_tensor_cores_for(experiment.problem.dtype) else UNITS | PLAIN
    found = recorded.nearest_counters(recording, experiment) if recording else None
    bound = units[simulation.modelled.bound][1]
    shares = recorded.modelled_shares(simulation)
    if alike := recorded.rivals(simulation):
        first, second = (f"{share_text(shares[unit])} of its peak" for unit in alike)
        bound += f", at {first}; {units[alike[1]][1]} is as near, at {second}"
    st.markdown(f"**Bottleneck (modelled)**: {bound}")
    columns = [("modelled", shares)]
    if found is not None:
        one, same = found
        columns += [] if same else [("nearest", recorded.modelled_shares(one.simulation))]
        columns.append(("recorded", one.utilisation))
    rows = [
        [name, *("" if share is None else share_text(share) for share in busy)]
        for unit, (name, _) in units.items()
        if {None} != {*(busy := [each.get(unit) for _, each in columns])}
    ]
    numbers(["busy", *(name for name, _ in columns)], rows, "Busy share of each unit")
    said = (
        "Each row is the share of its peak that a unit reaches over the whole run. Modelled: the time that "
        "the unit would need at its peak ÷ total time; L2's peak is "
        f"{scaled(gpu.cache_bytes_per_second, 'B/s')} ({gpu.sources['L2 to SMs']})."
    )
    if shares["L2"] > shares[simulation.modelled.bound]:
        said += " Copies from L2 run ahead of the products here, so they delay nothing."
    if found is not None:
        nearest = f" Nearest: the model of the recorded scenario nearest to this one, {one.what}."
        unit, share = busiest(one)
        said += (
            f"{'' if same else nearest} Recorded: Nsight counters for "
            f"{'this scenario' if same else 'that one'}, {recording.origin}, as a share of the same peaks, "
            "those of the SM's units at the clock they had (exponentials without float32). The counters saw "
            f"{UNITS[unit][0]} closest to peak, at {share:.0%}."
        )
    st.caption(said)


def rooflines(recording: Recording, experiment: Experiment, colours: Palette) -> None:
    """Counted calls like the scenario under the roofs of L2 and of HBM."""
    gpu, points = gpu_named(recording.device.gpu), recorded.roofline_points(recording, experiment)
    if gpu is None or not points:
        return
    problem = experiment.problem
    mask = "no mask" if problem.mask.looks_ahead else "masked"
    st.markdown(f"**Roofline of L2 and HBM**: d = {problem.head_dim}, {mask}, {recording.origin}")
    figure = both_levels(roofline(gpu, points[0]["dtype"]), points, recording.origin, colours)
    chart(figure, "Recorded roofline at L2 and HBM")
    st.caption(
        "Each line joins the two levels of one call; its length is what L2 saves. Colours are those of the "
        "recorded curves; times are of kernels under the profiler."
    )
