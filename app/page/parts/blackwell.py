"""FlashAttention-4 inside one block of a Blackwell GPU: what each of its techniques is worth, modelled."""

from functools import partial

import streamlit as st

from app import inside
from app.elements import GREY, fold, numbers
from app.figures.units import bytes_text, digits, ratio_digits, seconds_text, share_text, times_text
from app.page.parts import rescales
from app.scenario.presentation import presenting
from engine.algorithms import flash4
from engine.experiment import Experiment
from engine.studies import tensor_memory as study
from engine.studies.tensor_memory import ALL, TECHNIQUES, Variant, variant

NAMES = {key: technique.name for key, technique in TECHNIQUES.items()}
WORTH = (
    *("without", "rate, modelled", "factor", "shared memory busy"),
    *("requested from L2, counted", "on Hopper, measured", "what happens instead"),
)
ON_HOPPER = {  # of this project's kernels on an H200, against the same without; November 2026
    "turns": "0 to 5% faster",
    "threshold": "1 to 13% slower",
    "polynomials": "4 to 14% slower",
}
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
PUBLISHED = ("what", "published", "here, modelled or counted", "source")
PAPER, KERNEL = "arXiv 2603.05451, B200, bfloat16", "flash_attn/cute, public kernel"
AUTHORS = "its authors' announcement, March 2026"
TALL = 900  # pixels: tables scroll sideways only, on narrow screens


def show(experiment: Experiment) -> None:
    """Draw the generation's part of the page."""
    full, head = variant(experiment), st.container(key="flash3_head")
    above = None if presenting() else st.container()  # in a room the picture has the first screen
    with st.container(key="apart_inside"):
        picture, beside = st.columns([2.6, 1], gap="large")
    first = picture.container()
    with above or picture:
        shown = variant(experiment, _toggles(full))
        with st.container(key="flash3_words"):
            st.caption(_what_runs(experiment, shown, full))
    head.header(_headline(shown, full), anchor=False)
    with first:
        _picture(shown)
    with beside:
        _numbers(shown, full)
    st.markdown(
        "**What each is worth**: FlashAttention-4 with this technique, and those that need it, left out"
    )
    rows = [_worth_row(variant(experiment, ALL - {key}), full, key) for key in TECHNIQUES]
    numbers(WORTH, rows, "What each technique of FlashAttention-4 is worth", words=(0, 5, 6), height=TALL)
    st.caption(_neither(experiment, full))
    st.markdown(HOPPER)
    st.markdown("**Beside what was published**")
    st.caption(KERNEL_WORDS)
    numbers(PUBLISHED, _published(), "Beside what was published", words=(0, 1, 2, 3), height=TALL)
    own = full.block.experiment
    fold("rescales", partial(rescales.show, own), "How often must these heads rescale?")


def _toggles(full: Variant) -> frozenset[str]:
    """The techniques in use; each can be switched off."""
    chosen = st.pills(
        "Techniques in use: press one to switch it off",
        [key for key in NAMES if key in full.techniques],
        format_func=NAMES.get,
        selection_mode="multi",
        default=[key for key in NAMES if key in full.techniques],
        key="flash3_techniques_blackwell",
    )
    return frozenset(chosen)


def _headline(shown: Variant, full: Variant) -> str:
    """What everything together reaches or, where something is off, what that costs."""
    gpu, peak = full.block.experiment.gpu, share_text(full.of_peak)
    if shown.techniques == full.techniques:
        return (
            "In FlashAttention-4 one warp issues all products, and two softmax groups take turns under "
            f"them: {peak} of the tensor cores' peak on {gpu.with_article} (modelled). One tile at a time "
            f"would reach {share_text(variant(full.block.experiment, ALL - {'tiles'}).of_peak)}."
        )
    return (
        f"With these techniques off, attention reaches {share_text(shown.of_peak)} of the tensor cores' "
        f"peak, {times_text(shown.tflops, full.tflops)} what FlashAttention-4 does with all "
        f"that it has here, {peak} (both modelled)."
    )


def _what_runs(experiment: Experiment, shown: Variant, full: Variant) -> str:
    """What is off and what that means, and whose numbers these are."""
    off = [
        key for key in full.techniques - shown.techniques if full.techniques.issuperset(TECHNIQUES[key].needs)
    ]
    words = [f"Without {NAMES[key].lower()}: {TECHNIQUES[key].off}" for key in NAMES if key in off]
    if not off:
        words.append("Everything is on: this is FlashAttention-4's forward pass.")
    if "pairs" not in full.techniques:
        words.append(
            "Pairs of blocks are for no mask and d = 128 (or 192 beside 128), so none share K and V here."
        )
    if experiment.gpu != full.block.experiment.gpu:
        words.append(f"A B200 is shown: {experiment.gpu.with_article} has no tensor memory.")
    return " ".join(words)


def _picture(shown: Variant) -> None:
    """The lanes of a block."""
    block, gpu = shown.block, shown.block.experiment.gpu
    if not presenting():  # in a room every line counts
        st.markdown(f"**Inside one thread block** of FlashAttention-4, {gpu.name}, modelled")
    with st.container(key="flash3_picture"):
        inside.INSIDE.show(inside.payload(block), key="inside blackwell")
    st.caption(
        f"The picture shows {block.visits} of {block.visits_in_all:,} key blocks, the last first, and the "
        "start of the next tiles. Q₁ and Q₂ are two tiles of 128 queries; S, P and O lie in tensor memory, P "
        f"where S was. In steady state one key block of all tiles takes {seconds_text(block.period)}, of "
        f"which the tensor cores are busy for {share_text(block.tensor_busy)} and exponentials for "
        f"{share_text(block.softmax_busy)}. No B200 was measured: tensor cores are taken to reach "
        f"{share_text(gpu.reached.matrix)} of their peak, as large products do on an H200, and handing over "
        "costs no time here, so the rate is an upper bound of the model."
    )


def _numbers(shown: Variant, full: Variant) -> None:
    """Rate, busy units and bytes of what is switched on, beside FlashAttention-4's."""
    rate, whole = (each.tflops for each in (shown, full))
    beside = f"{share_text(shown.of_peak)} of peak"
    if rate != whole:
        beside += f", not {share_text(full.of_peak)}"
    st.metric("Rate in the loop, modelled", f"{rate:,.0f} TFLOP/s", beside, **GREY)
    for label, value in (
        ("Tensor cores busy in the loop, modelled", shown.block.tensor_busy),
        ("Exponentials busy, modelled", shown.block.softmax_busy),
        ("Shared memory busy, modelled", shown.shared_busy),
    ):
        st.metric(label, share_text(value))
    moved, usual = shown.requested.total, full.requested.total
    beside = "as FlashAttention-4" if moved == usual else f"{times_text(moved, usual)} FlashAttention-4's"
    st.metric("Requested from L2, counted", bytes_text(moved), beside, **GREY)


def _worth_row(left: Variant, full: Variant, key: str) -> list[str]:
    if key not in full.techniques:
        return [NAMES[key], "not here", "", "", "", ON_HOPPER.get(key, "–"), TECHNIQUES[key].off]
    return [
        NAMES[key],
        f"{left.tflops:,.0f} TFLOP/s",
        times_text(left.tflops, full.tflops),
        share_text(left.shared_busy),
        bytes_text(left.requested.total),
        ON_HOPPER.get(key, "–"),
        TECHNIQUES[key].off,
    ]


def _neither(experiment: Experiment, full: Variant) -> str:
    """That a correction group and a threshold spare the same thing."""
    neither = variant(experiment, ALL - {"correction", "threshold"})
    return (
        "A correction group apart and a threshold keep the same work off the softmax groups, so either alone "
        "is enough in this model; without both the rate is "
        f"{ratio_digits(neither.tflops, full.tflops)} times FlashAttention-4's."
    )


def _published() -> list[list[str]]:
    """Published figures, each beside what is modelled or counted here of the same."""
    found = study.beside_published()
    products, exponentials, operands = (f"{each:,.0f}" for each in found.clocks.values())
    return [
        [
            "Forward, best",
            "1,613 TFLOP/s, 71% of peak",
            f"{found.tflops:,.0f} TFLOP/s, {share_text(found.of_peak)}: a whole call, N = 32,768",
            PAPER,
        ],
        [
            "Over Triton's kernel",
            "up to 2.7 times as fast",
            f"{digits(found.over_second)} times as fast as FlashAttention-2",
            PAPER,
        ],
        [
            "Clocks for 128 × 128 scores at d = 128",
            "1,024 of tensor cores, 1,024 of exponentials, 768 of shared memory",
            f"{products}, {exponentials} and {operands}, at the peaks",
            PAPER,
        ],
        [
            "Exponentials by polynomials",
            "10 to 25%; off by 8.8e-5 at most",
            f"{share_text(flash4.POLYNOMIALS)} as in the public kernel without a mask; off by 8.6e-5",
            PAPER,
        ],
        ["More polynomials, FP8, causal", "3.4% (4k tokens) to 5.5% (16k) faster", "not modelled", KERNEL],
        ["Rescales that the threshold leaves", "about a tenth", "of these heads: below", AUTHORS],
    ]
