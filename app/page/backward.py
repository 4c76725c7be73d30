"""The Backward page: the gradients tile by tile, what recomputing P costs, and whether they are right."""

from functools import partial

import streamlit as st

from app import scenario
from app.elements import fold, numbers, smaller_sibling
from app.figures.units import bytes_text, gain_text, scaled, times_text
from app.gallery.picture import USUAL, Drawn, Picture, SiteFile, tokens
from app.page.parts import live, recorded
from app.page.parts.compared import differences, verdict
from app.page.parts.job import job_panel
from app.player import PLAYER, play
from app.player.backward import build
from app.player.payload import begun
from app.scenario import theme
from app.scenario.offers import set_subject
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine import simulate
from engine.algorithms import BACKWARD, backward
from engine.experiment import Experiment
from engine.measuring.agreement import CHECK, GRADIENTS, GRADIENTS_ORIGIN, Agreement, small_backward
from engine.studies import gains as study
from engine.worker.client import Job

COUNTED = """
Matrix products of a tile: 4 if P is stored (dV, dP, dQ, dK), 7 if S and dP are computed again in both
kernels, so that no program adds to another's sum; 2 in the forward pass. They are *counted*, as are the
bytes kept: P, or lse, δ and lse in units of log₂. Unfused attention *must* move 7 N² + 8 N d elements per
head, 4 N d of them once for all heads that share keys, and skips nothing that a mask hides; what two kernels
move is *modelled*.
"""


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
    costs = partial(_costs, experiment)
    fold("backward costs", costs, "What does recomputing P cost, and what does it save?")
    if recording := chosen_recording():
        times = partial(recorded.curves, recording, experiment, "p50", theme.colours(), BACKWARD)
        fold("backward times", times, "How long does it take?")
    fold("backward check", partial(_check, experiment), "Are the gradients right?")
    fold("backward", lambda: st.caption(f"{COUNTED} {simulate(experiment).footprint.sentence}"))


def _costs(experiment: Experiment) -> None:
    """What recomputing P costs in FLOPs, and what it saves in bytes."""
    costs, gpu = study.recomputation(experiment), experiment.gpu
    rows = []
    for name, ways in costs.items():
        text = partial(scaled, unit="FLOP") if name == study.FLOPS else bytes_text
        told = {way: text(amount) for way, amount in ways.items()}
        gain = gain_text(times_text(*ways.values()).value, "less")
        rows.append({"all heads": name, **told, "two kernels need": gain})
    numbers(rows, "What recomputing P costs and saves", words=(0, 3))
    tilings = backward.own_tilings(experiment.problem, gpu.device)
    blocks = " and ".join(f"{queries} × {keys} for {name}" for name, (queries, keys, *_) in tilings.items())
    said = (
        f"Two kernels, shown in the scenario's blocks, take blocks of {blocks} by themselves on "
        f"{gpu.with_article}."
    )
    if (stored := costs[study.KEPT][study.STORED]) > gpu.memory_bytes:
        said += (
            f" P could not be stored here: it takes {bytes_text(stored)}, and {gpu.with_article} has "
            f"{bytes_text(gpu.memory_bytes)}."
        )
    st.caption(said)


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


PICTURE = Picture(
    _playing, several=lambda: [SiteFile("backward.html", "Backward pass", tokens(USUAL), _still)]
)
