"""The Backward page: the gradients tile by tile, what recomputing P costs, and whether they are right."""

from collections.abc import Sequence
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
from app.page.parts.recorded import commits_text, shape_text
from app.player import PLAYER, play
from app.player.backward import build
from app.player.payload import begun
from app.scenario import theme
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine import simulate
from engine.algorithms import backward, flash3
from engine.experiment import Experiment
from engine.measuring.agreement import Agreement
from engine.measuring.gradient_check import CHECK, GRADIENTS, ORIGIN, small_backward
from engine.problem.hardware import gpu_named
from engine.recordings import rows as timed
from engine.recordings.backward_counters import recorded_backward_kernels
from engine.recordings.recording import Recording
from engine.recordings.timing import Timing
from engine.studies.recomputation import (
    FLOPS_RATIO,
    ONE_KERNEL,
    PRODUCTS,
    STORED,
    TWO_KERNELS,
    Recomputation,
    recomputation,
)
from engine.worker.client import Job

COUNTERS = (
    "kernel",
    *("requested reads, counted", "recorded"),
    *("requested writes, counted", "recorded"),
    *("time, modelled", "recorded"),
)
FORMULAS = (
    r"P = e^{S - \mathrm{lse}}",
    r"dV = P^\top dO",
    r"dP = dO\,V^\top",
    r"\delta = \mathrm{rowsum}(dO \circ O)",
    r"dS = P \circ (dP - \delta)",
    r"dQ = \tfrac{1}{\sqrt d}\,dS\,K",
    r"dK = \tfrac{1}{\sqrt d}\,dS^\top Q",
)


TERMS = (
    "The modelled time leaves out most of what a cap and slopes cost backward: with them FlashAttention-2's "
    "kernels took 1.45 and 1.7 times as long as modelled (recorded on an H200)."
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
        st.caption(TERMS)
    recording = chosen_recording()
    costs = partial(_costs, experiment, recomputation(experiment))
    fold("backward costs", costs, "What does recomputing P cost, and what does it save?")
    fold("backward times", partial(_recorded, experiment, recording), "How long does it take?")
    fold("backward check", partial(_check, experiment), "Are the gradients right?")
    fold("backward", partial(_derivation, experiment, recording))


def _costs(experiment: Experiment, costs: Recomputation) -> None:
    """What recomputing P costs in FLOPs, and what it saves in bytes."""
    simulation = simulate(experiment)
    for column, (name, ratio) in zip(st.columns(3), costs.saved.items(), strict=True):
        label, times = ("saving", times_text(ratio)) if ratio >= 1 else ("more", times_text(1, ratio))
        column.metric(f"{name}: {label}", times, border=True)
    amounts = {"kept in memory": costs.kept, "crosses HBM": costs.moved, "requested from L2": costs.requested}
    rows = [
        ["products per tile", *map(str, PRODUCTS.values())],
        ["× forward", *map(times_text, FLOPS_RATIO.values())],
        ["FLOPs", *(scaled(costs.flops[way], "FLOP") for way in PRODUCTS)],
        *(
            [name, *(bytes_text(known[way]) if way in known else "" for way in PRODUCTS)]
            for name, known in amounts.items()
        ),
        ["time, modelled", "", "", seconds_text(simulation.modelled.seconds)],
    ]
    numbers(["all heads", *PRODUCTS], rows, "What recomputing P costs and saves", height=460)
    st.caption("\n".join(f"- {sentence}" for sentence in _compared(experiment, costs)))


def _compared(experiment: Experiment, costs: Recomputation) -> list[str]:
    """What the large numbers and the table compare, in words."""
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
    return said


def _derivation(experiment: Experiment, recording: Recording | None) -> None:
    """Where the numbers come from: the formulas, what is counted, and the chip's own counters."""
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
    if recording:
        _counters(recording)


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
    figure = figures.speed_by_length(groups, "p50", lengths, theme.colours(), mark=mark)
    chart(figure, "Recorded backward times over N", "backward times")
    shares, off = timed.modelled_over_recorded(model, timings) if model else None, ""
    if shares:
        off = f", {shares[0]:.2f} to {shares[1]:.2f} times the recorded time"
    dotted = f"The dotted line is the model of {kernel(timed.BACKWARD_PROVIDER)}{off}." * bool(model)
    told = (dotted, _ratio(recording, shape, keys), _fused(timings), commits_text(recording, timings))
    st.caption(" ".join(filter(None, told)))


def _fused(timings: Sequence[Timing]) -> str:
    """What flash3's backward pass does otherwise; empty if it was not recorded."""
    timed_so = any(row.provider == flash3.ALGORITHM.key and row.times for row in timings)
    if not timed_so or timings[0].problem.head_dim not in flash3.FUSED_HEAD_DIMS:
        return ""
    return (
        f"{kernel(flash3.ALGORITHM.key)} is one kernel with {PRODUCTS[ONE_KERNEL]} products per tile "
        f"instead of {PRODUCTS[TWO_KERNELS]}, because every block adds its part of dQ to the sum in memory."
    )


def _ratio(recording: Recording, shape: tuple[int, bool], keys: int) -> str:
    """How the backward time compares with the forward one, beside the FLOPs; empty if not recorded."""
    found = timed.pass_times(recording, *shape, keys)
    if found is None:
        return ""
    length, forward, backward_alone, ratio = found
    return (
        f"At N = {length:,}, *recorded*, {kernel(timed.BACKWARD_PROVIDER)} takes {seconds_text(forward)} "
        f"forward and {seconds_text(backward_alone)} backward: {digits(ratio)} times as "
        f"long, with {digits(FLOPS_RATIO[TWO_KERNELS])} times the FLOPs."
    )


def _counters(recording: Recording) -> None:
    """What the tiles ask for, kernel by kernel, against the GPU's own counters."""
    rows = []
    for one in recorded_backward_kernels(recording):
        problem, chip = one.problem, one.counters
        mask = ", causal" if problem.mask.causal else ""
        shape = f"N {problem.seq_kv:,}, d {problem.head_dim}{mask}, {one.block_q}×{one.block_kv}"
        moved = (one.modelled_read, chip.tile_read, one.modelled_written, chip.tile_written)
        seconds = (one.modelled_seconds, chip.seconds)
        rows.append([f"{one.name}, {shape}", *map(bytes_text, moved), *map(seconds_text, seconds)])
    if not rows:
        return
    st.markdown("**The chip's own counters, kernel by kernel**")
    numbers(COUNTERS, rows, "Backward kernels, modelled and recorded", height=330)
    st.caption(
        f"The counters, {recording.origin}, report bytes between L2 and the SMs, and times under the "
        "profiler. Where the kernel of dK and dV moves more, registers spill to memory; where it "
        "reads less, the L1 cache answers part of the requests for lse and δ."
    )


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
    st.caption(f"The allowed difference is absolute: {ORIGIN}.")


def _playing(experiment: Experiment) -> Drawn:
    gradients = experiment.changed(algorithm=backward.ALGORITHM.key)
    return Drawn(moving=PLAYER, data=begun(build(gradients)))


def _still() -> Drawn:
    return Drawn(moving=PLAYER, data=build(USUAL))


PICTURE = Picture(_playing, lambda: [SiteFile("backward.html", "Backward pass", tokens(USUAL), _still)])
