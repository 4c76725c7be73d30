"""FlashAttention-4 inside one block of a Blackwell GPU: what each of its techniques is worth, modelled."""

from functools import partial

import streamlit as st

from app.elements import TALL, fold, numbers
from app.figures.units import bytes_text, digits, seconds_text, share_text, times_text
from app.page.parts import rescales
from engine.algorithms import flash4
from engine.experiment import Experiment
from engine.studies import tensor_memory
from engine.studies.tensor_memory import ALL, Variant, beside_published, on_blackwell, variant
from engine.studies.warp_groups import Inside

LABEL, STUDY, own = flash4.ALGORITHM.label, tensor_memory, on_blackwell
UNUSED = ("This page shows FlashAttention-4 in its own blocks.", "algorithm", "block_q", "block_kv")
HOPPER = (
    "**On Hopper two of these cost more than they bring.** This project's FlashAttention-3 was tried with "
    "both on an H200: rescaling skipped by a vote slowed it by 1 to 13%, polynomials by 4 to 14%, "
    "and in FP8 they left 1.14 of 1.23 times float16's rate. There O lies in the registers of the warps "
    "that compute its softmax, tensor cores are half as fast beside as many exponentials, and a warp's own "
    "instructions are as scarce as the unit that polynomials spare. Turns, by named barriers, brought 0 to "
    "1.5% at d = 128 and 4 to 5% at d = 64. (Measured in November 2026; these times are in no recording.)"
)
KERNEL_WORDS = (
    "This project's kernel of this schedule, `kernels/blackwell/forward.py` in Gluon, is compiled for sm_100 "
    "and run thread by thread on a CPU, where its results are float64's. It was never run on the chip."
)
PAPER, KERNEL = "arXiv 2603.05451, B200, bfloat16", "flash_attn/cute, public kernel"
AUTHORS = "its authors' announcement, March 2026"


def headline(_: Experiment, shown: Variant, full: Variant) -> str:
    """What everything together reaches or, where something is off, what that costs."""
    gpu, peak = full.block.experiment.gpu, share_text(full.of_peak)
    if shown.techniques != full.techniques:
        return (
            f"With these techniques off, attention reaches {share_text(shown.of_peak)} of the tensor cores' "
            f"peak, {times_text(shown.tflops, full.tflops)} what FlashAttention-4 does with all "
            f"that it has here, {peak} (both modelled)."
        )
    return (
        "In FlashAttention-4 one warp issues all products, and two softmax groups take turns under "
        f"them: {peak} of the tensor cores' peak on {gpu.with_article} (modelled). One tile at a time "
        f"would reach {share_text(variant(full.block.experiment, ALL - {'tiles'}).of_peak)}."
    )


def also(experiment: Experiment, _: Variant, full: Variant) -> list[str]:
    """What these blocks cannot have, and whose numbers these are."""
    told = []
    if "pairs" not in full.techniques:
        told.append(
            "Pairs of blocks are for no mask and d = 128 (or 192 beside 128), so none share K and V here."
        )
    if experiment.gpu != full.block.experiment.gpu:
        told.append(f"A B200 is shown: {experiment.gpu.with_article} has no tensor memory.")
    return told


def picture(_: Experiment, shown: Variant, __: Variant) -> tuple[Inside, str, str]:
    """The lanes of a block, whose it is, and what they show."""
    block, gpu = shown.block, shown.block.experiment.gpu
    told = (
        f"The picture shows {block.visits} of {block.visits_in_all:,} key blocks, the last first, and the "
        "start of the next tiles. Q₁ and Q₂ are two tiles of 128 queries; S, P and O lie in tensor memory, P "
        f"where S was. In steady state one key block of all tiles takes {seconds_text(block.period)}, of "
        f"which the tensor cores are busy for {share_text(block.tensor_busy)} and exponentials for "
        f"{share_text(block.softmax_busy)}. No B200 was measured: tensor cores are taken to reach "
        f"{share_text(gpu.reached.matrix)} of their peak, as large products do on an H200, and handing over "
        "costs no time here, so the rate is an upper bound of the model."
    )
    return block, f" of FlashAttention-4, {gpu.name}", told


def metrics(shown: Variant, full: Variant, block: Inside) -> list[tuple[str, ...]]:
    """Rate, busy units and bytes of what is switched on, beside FlashAttention-4's."""
    moved, usual = shown.requested.total, full.requested.total
    peak = f"{share_text(shown.of_peak)} of peak"
    if shown.tflops != full.tflops:
        peak += f", not {share_text(full.of_peak)}"
    same = "as FlashAttention-4" if moved == usual else f"{times_text(moved, usual)} FlashAttention-4's"
    return [
        ("Rate in the loop, modelled", f"{shown.tflops:,.0f} TFLOP/s", peak),
        ("Tensor cores busy in the loop, modelled", share_text(block.tensor_busy)),
        ("Exponentials busy, modelled", share_text(block.softmax_busy)),
        ("Shared memory busy, modelled", share_text(shown.shared_busy)),
        ("Requested from L2, counted", bytes_text(moved), same),
    ]


def worth(left: Variant, full: Variant) -> tuple[float, float, dict[str, str]]:
    """Rate without a technique and with all, and the cells of its row."""
    return left.tflops, full.tflops, {
        "rate, modelled": f"{left.tflops:,.0f} TFLOP/s",
        "shared memory busy": share_text(left.shared_busy),
        "requested from L2, counted": bytes_text(left.requested.total),
    }  # fmt: skip


def below(_: Experiment, __: Variant, full: Variant) -> None:
    """Published figures beside the model's, and how often real heads rescale."""
    st.markdown(HOPPER)
    st.markdown("**Beside what was published**")
    st.caption(KERNEL_WORDS)
    numbers(_published(), "Beside what was published", words=(0, 1, 2, 3), height=TALL)
    fold("rescales", partial(rescales.show, full.block.experiment), "How often must these heads rescale?")


def _published() -> list[dict[str, str]]:
    """Published figures, each beside what is modelled or counted here of the same."""
    tflops, of_peak, over_second, clocks = beside_published()
    products, exponentials, operands = (f"{each:,.0f}" for each in clocks.values())
    head = "what", "published", "here, modelled or counted", "source"
    rows = (
        ("Forward, best", "1,613 TFLOP/s, 71% of peak",
         f"{tflops:,.0f} TFLOP/s, {share_text(of_peak)}: a whole call, N = 32,768", PAPER),
        ("Over Triton's kernel", "up to 2.7 times as fast",
         f"{digits(over_second)} times as fast as FlashAttention-2", PAPER),
        ("Clocks for 128 × 128 scores at d = 128",
         "1,024 of tensor cores, 1,024 of exponentials, 768 of shared memory",
         f"{products}, {exponentials} and {operands}, at the peaks", PAPER),
        ("Exponentials by polynomials", "10 to 25%; off by 8.8e-5 at most",
         f"{share_text(flash4.POLYNOMIALS)} as in the public kernel without a mask; off by 8.6e-5", PAPER),
        ("More polynomials, FP8, causal", "3.4% (4k tokens) to 5.5% (16k) faster", "not modelled", KERNEL),
        ("Rescales that the threshold leaves", "about a tenth", "of these heads: below", AUTHORS),
    )  # fmt: skip
    return [dict(zip(head, row, strict=True)) for row in rows]
