"""The Backward page: the gradients tile by tile, what recomputing P costs, and whether they are right."""

from functools import partial

import streamlit as st

from app import scenario
from app.elements import chart, fold, numbers, smaller_sibling
from app.figures import speed as figures
from app.figures.algorithms import kernel
from app.figures.units import bytes_text, digits, scaled, seconds_text, times_text
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.page.parts import live
from app.page.parts.compared import differences, verdict
from app.page.parts.job import job_panel
from app.page.parts.recorded import shape_text
from app.player import PLAYER, play
from app.player.backward import build
from app.player.payload import begun
from app.scenario import theme
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine import simulate
from engine.algorithms import backward
from engine.experiment import Experiment
from engine.measuring.agreement import CHECK, GRADIENTS, GRADIENTS_ORIGIN, Agreement, small_backward
from engine.problem.hardware import gpu_named
from engine.recordings import rows as timed
from engine.recordings.recording import Recording
from engine.studies import recomputation as study
from engine.studies.recomputation import ONE_KERNEL, PRODUCTS, STORED, TWO_KERNELS
from engine.worker.client import Job

FORMULAS = (
    r"P = e^{S - \mathrm{lse}}",
    r"dV = P^\top dO",
    r"dP = dO\,V^\top",
    r"\delta = \mathrm{rowsum}(dO \circ O)",
    r"dS = P \circ (dP - \delta)",
    r"dQ = \tfrac{1}{\sqrt d}\,dS\,K",
    r"dK = \tfrac{1}{\sqrt d}\,dS^\top Q",
)


def show() -> None:
    """Draw the page."""
    experiment = set_subject(scenario.current().changed(algorithm=backward.ALGORITHM.key))
    unused("This page always shows the backward pass, in two kernels.", "algorithm")
    st.markdown(
        "Training needs the gradients dQ, dK and dV. The forward pass did not store P, so the backward pass "
        "recomputes it tile by tile, from Q, K and one saved number per row, the log-sum-exp. The N × N "
        "matrix never touches HBM."
    )
    live.show(live.named(experiment))
    play(experiment, lambda: build(experiment), "backward")
    if experiment.problem.terms & {"softcap", "slopes"}:
        st.caption(
            "The modelled time leaves out most of what a cap and slopes cost backward: with them "
            "FlashAttention-2's kernels took 1.45 and 1.7 times as long as modelled (recorded on an H200)."
        )
    fold(
        "backward costs", partial(_costs, experiment), "What does recomputing P cost, and what does it save?"
    )
    fold("backward times", partial(_recorded, experiment, chosen_recording()), "How long does it take?")
    fold("backward check", partial(_check, experiment), "Are the gradients right?")
    fold("backward", partial(_derivation, experiment))


def _costs(experiment: Experiment) -> None:
    """What recomputing P costs in FLOPs, and what it saves in bytes."""
    costs = study.recomputation(experiment)
    for column, (name, ratio) in zip(st.columns(3), costs.saved.items(), strict=True):
        label, times = ("saving", times_text(ratio)) if ratio >= 1 else ("more", times_text(1, ratio))
        column.metric(f"{name}: {label}", times, border=True)
    cells = {
        "products per tile": {way: str(count) for way, count in PRODUCTS.items()},
        "× forward": {way: times_text(ratio) for way, ratio in study.FLOPS_RATIO.items()},
        "FLOPs": {way: scaled(costs.flops[way], "FLOP") for way in PRODUCTS},
    }
    amounts = {"kept in memory": costs.kept, "crosses HBM": costs.moved, "requested from L2": costs.requested}
    for name, known in amounts.items():
        cells[name] = {way: bytes_text(known[way]) if way in known else "" for way in PRODUCTS}
    seconds = seconds_text(simulate(experiment).modelled.seconds)
    cells["time, modelled"] = {**dict.fromkeys(PRODUCTS, ""), TWO_KERNELS: seconds}
    rows = [{"all heads": name, **told} for name, told in cells.items()]
    numbers(rows, "What recomputing P costs and saves", height=460)
    tilings = backward.own_tilings(experiment.problem, experiment.gpu.device)
    blocks = " and ".join(f"{queries} × {keys} for {name}" for name, (queries, keys, *_) in tilings.items())
    own = f"blocks of {blocks} on {experiment.gpu.with_article}"
    said = [
        "The big numbers compare the animated two-kernel version with unfused attention that stores P.",
        f"Matrix products per tile: {PRODUCTS[STORED]} if P is stored, {PRODUCTS[ONE_KERNEL]} if it is "
        f"recomputed once, {PRODUCTS[TWO_KERNELS]} if it is recomputed in both kernels (which avoids atomic "
        "adds to dQ).",
        "Kept for backward: the N × N matrix P, or just lse and δ (4 bytes per row each).",
        f"Both kernels are shown in the scenario's blocks; by themselves they take {own}.",
    ]
    if experiment.problem.mask.hides:
        said.append(
            "Tiles that the mask hides are skipped where P is recomputed; unfused attention computes, keeps "
            "and moves them too."
        )
    if costs.kept[STORED] > experiment.gpu.memory_bytes:
        said.append(
            f"P could not be stored here: it takes {bytes_text(costs.kept[STORED])}, and "
            f"{experiment.gpu.with_article} has {bytes_text(experiment.gpu.memory_bytes)}. The numbers of "
            "the stored P are what it would take with enough memory."
        )
    st.caption("\n".join(f"- {sentence}" for sentence in said))


def _derivation(experiment: Experiment) -> None:
    """Where the numbers come from: the formulas, and what is counted."""
    with st.container(horizontal=True, horizontal_alignment="center", gap="medium"):
        for formula in FORMULAS:
            st.latex(formula, width="content")
    st.caption(
        "The matrix products are *counted*. Forward computes S and P V; backward computes dV, dP, dQ and "
        "dK, and S again; two kernels compute dP and S once more, so that no program adds to another's "
        "sum. The bytes kept are *counted*; two kernels keep lse once more in units of log₂. Unfused "
        "attention *must* move 7 N² + 8 N d elements per head (closed form), 4 N d of them once for all "
        "heads that share keys; what two kernels move through DRAM is *modelled*. What the tiles request is "
        "*counted*, and L2 answers most of it. What an SM holds is *modelled*. "
        f"{simulate(experiment).footprint.sentence}"
    )


def _recorded(experiment: Experiment, recording: Recording | None) -> None:
    """Recorded times of the backward pass alone, over the length."""
    shape = timed.nearest_shape(recording, experiment) if recording else None
    timings = timed.timings_of(recording, *shape, timed.BACKWARD) if shape else ()
    if not timings:
        st.caption("No recording has times of the backward pass.")
        return
    st.markdown(f"The backward pass alone, *{recording.origin}*: {shape_text(timings, timed.BACKWARD)}")
    gpu, keys = gpu_named(recording.device.gpu), experiment.problem.seq_kv
    lengths = sorted({row.problem.seq_kv for row in timings})
    model = timed.modelled_backward(timings, gpu.key) if gpu else []
    groups = ((figures.MODELLED, model), (recording.origin, timed.recorded_rows(timings)))
    mark = keys if lengths[0] <= keys <= lengths[-1] else None
    figure = figures.speed_by_length(groups, "p50", theme.colours(), mark)
    chart(figure, "Recorded backward times over N", "backward times")
    told, name = [], kernel(timed.BACKWARD_PROVIDER)
    if model and (shares := timed.modelled_over_recorded(model, timings)):
        off = f"{shares[0]:.2f} to {shares[1]:.2f} times the recorded time"
        told.append(f"The dotted line is the model of {name}, {off}.")
    if found := timed.pass_times(recording, *shape, keys):
        length, forward, alone, ratio = found
        told.append(
            f"At N = {length:,}, *recorded*, {name} takes {seconds_text(forward)} "
            f"forward and {seconds_text(alone)} backward: {digits(ratio)} times as "
            f"long, with {digits(study.FLOPS_RATIO[TWO_KERNELS])} times the FLOPs."
        )
    st.caption(" ".join(told))


def _check(experiment: Experiment) -> None:
    """The gradients of the real kernels, of the scheduler and of float64, compared when asked."""
    small = small_backward(experiment)
    run = small.problem
    heads = "one head" if run.heads == 1 else f"{run.heads} heads that share one KV head"
    sibling = smaller_sibling(run, experiment.problem)
    st.caption(
        f"This runs {heads}, {run.seq_q:,} queries and {run.seq_kv:,} keys{sibling}, with head dimension "
        f"{run.head_dim} and {run.dtype}, forward and backward in three ways: through PyTorch's autograd "
        "and the real Triton kernels (interpreted where there is no GPU), through the scheduler's "
        "counting memory, and in dense float64."
    )
    job_panel(CHECK, small.flat(), "Check on this machine", _draw)


def _draw(job: Job | None) -> None:
    if job is None or job.result is None:
        return
    check: Agreement = job.result
    verdict(check)
    differences(check, dict(zip(GRADIENTS, GRADIENTS, strict=True)), "Largest differences of the gradients")
    st.caption(f"The allowed difference is absolute: {GRADIENTS_ORIGIN}.")


def _playing(experiment: Experiment) -> Drawn:
    gradients = experiment.changed(algorithm=backward.ALGORITHM.key)
    return Drawn(moving=PLAYER, data=begun(build(gradients)))


def _still() -> Drawn:
    return Drawn(moving=PLAYER, data=build(USUAL))


PICTURE = Picture(_playing, lambda: [SiteFile("backward.html", "Backward pass", tokens(USUAL), _still)])
