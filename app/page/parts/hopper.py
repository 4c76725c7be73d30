"""FlashAttention-3 inside one block of a Hopper GPU: what each technique is worth, and FP8."""

from collections.abc import Sequence

import streamlit as st

from app.elements import GREY, chart, fold, numbers, plot, too_large, unsure
from app.figures import flash3 as figures
from app.figures.algorithms import caveats, kernel
from app.figures.units import (
    bytes_text,
    digits,
    ratio_digits,
    ratio_text,
    seconds_text,
    share_text,
    short,
    times_text,
)
from app.page.parts import live
from app.scenario import theme
from app.scenario.offers import set_subject
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine import simulate
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies.block_scales import fp8_worth, head_errors, recorded_fp8
from engine.studies.drawable import at_length
from engine.studies.techniques import (
    ALL,
    LOOP,
    TECHNIQUES,
    RecordedKernel,
    Variant,
    ladder,
    recorded_kernels,
    variant,
    without,
)
from engine.studies.warp_groups import Inside
from engine.studies.warp_groups import inside as lanes_of

NAMES = {key: technique.name for key, technique in TECHNIQUES.items()}
PAPERS_IDEA = (
    "In the paper, a group's softmax also overlaps its own P V of the previous block. In this project's "
    "kernel the compiler waits for that product first, as drawn; a barrier that forced the paper's order "
    "made the kernel 5% slower (measured on an H200)."
)
LONGER = 4096  # tokens, of which there are blocks enough for more than one round
TALL = 900  # pixels: tables scroll sideways only, on narrow screens


def _own(experiment: Experiment) -> Experiment:
    return experiment.changed(algorithm=flash3.ALGORITHM.key)


def begin(experiment: Experiment) -> Variant:
    """All techniques; the page's subject."""
    set_subject(_own(experiment))
    unused("This page always shows FlashAttention-3.", "algorithm")
    return variant(experiment, ALL)


def head(experiment: Experiment, shown: Variant, full: Variant) -> None:
    """The headline, and what is measured here."""
    st.header(_headline(experiment, shown, full), anchor=False)
    live.show(live.named(_own(experiment)))


def _headline(experiment: Experiment, shown: Variant, full: Variant) -> str:
    """What everything together gains or, where something is off, what that costs."""
    if shown.techniques != full.techniques:
        usual = f"FlashAttention-3 with everything on, which takes {seconds_text(full.seconds)}"
        if shown.seconds is None:
            return (
                "Without tiling, a thread block needs whole rows of S on the chip, and they do not fit. It "
                f"has no time beside {usual} (modelled)."
            )
        off = "fusion" not in shown.techniques
        what = "Unfused attention" if off else "Attention with these techniques off"
        took, times = seconds_text(shown.seconds), ratio_digits(shown.seconds, full.seconds)
        return f"{what} takes {took}, {times} times as long as {usual} (both modelled)."
    now, apart = map(seconds_text, (full.seconds, variant(experiment, without("overlapped")).seconds))
    times = f"{now}, not {apart} (modelled)" if now != apart else f"{now} (modelled), no less than in turns"
    longer, more = at_length(experiment, LONGER), ""
    if experiment.problem.seq_kv < LONGER and not presenting():
        both = variant(longer, without("overlapped")).seconds, variant(longer, ALL).seconds
        more = f" At {LONGER:,} tokens it is {ratio_digits(*both)} times as fast as in turns (modelled)."
    return (
        "In FlashAttention-3 one warp group takes its softmax while another uses the tensor cores: "
        f"{times}. A gap in the bottom two rows is an idle unit.{more}"
    )


def words(experiment: Experiment, shown: Variant, full: Variant) -> str:
    """What is off and what that means, and which kernel is like it, in one paragraph."""
    off = [key for key in TECHNIQUES if key not in shown.techniques]
    idle = [key for key in off if not shown.techniques.issuperset(TECHNIQUES[key].needs)]
    told = [f"Without {NAMES[key].lower()}: {TECHNIQUES[key].off}" for key in off if key not in idle]
    if idle:
        names = ", ".join(NAMES[key].lower() for key in idle).capitalize()
        needed = {key for each in idle for key in TECHNIQUES[each].needs}
        roots = " and ".join(NAMES[key].lower() for key in off if key in needed and key not in idle)
        need, they_are = ("needs", "it is") if len(idle) == 1 else ("need", "they are")
        told.append(f"{names} {need} {roots}, so {they_are} off too.")
    if not off:
        told.append("Everything is on: this is FlashAttention-3.")
    if shown.kernel:
        told.append(f"The kernel {kernel(shown.kernel)} does exactly this.")
    held = simulate(_own(experiment)).footprint
    if not held.fits and shown.techniques >= LOOP:
        told.append(
            f"A block of it {held.words[1]}, but {held.words[2]}: the model shows it as if it fitted."
        )
    if not experiment.gpu.has_tensor_cores_for(dtype := experiment.problem.dtype):
        told.append(f"In {dtype} the products run on the float32 units, which stand here for tensor cores.")
    if not off and (why := _own(experiment).unserved):
        told.append(why)
    return " ".join(told)


def picture(experiment: Experiment, shown: Variant, full: Variant) -> tuple[Inside, str, str]:
    """The lanes of a block, of FlashAttention-3 where what is on keeps no O on the chip; whose, and words."""
    looping = shown.techniques >= LOOP
    block = lanes_of(experiment, (shown if looping else full).pipeline)
    whose = ", FlashAttention-3's with everything on"
    if looping:
        blocks = block.experiment.tiling
        whose = f", {blocks.block_q} × {blocks.block_kv}, {experiment.gpu.name}"
    visits = "a tile's only key block"
    if block.visits_in_all > 1:
        visits = (
            f"{block.visits} of {block.visits_in_all:,} key blocks of a tile, the last first, as a mask "
            "crosses that one"
        )
    return block, whose, (
        f"The picture shows {visits}, and the start of the next tile. S is Q Kᵀ, P is its softmax, "
        f"and O accumulates P V. In steady state one key block takes {seconds_text(block.period)}, of which "
        f"the tensor cores are busy for {share_text(block.tensor_busy)} and the softmax units for "
        f"{share_text(block.softmax_busy)}, at the peaks that they have at "
        f"{share_text(experiment.gpu.reached.clock)} of the card's clock."
        f"  \n{PAPERS_IDEA}"
    )  # fmt: skip


def beside(shown: Variant, full: Variant, block: Inside) -> None:
    """Time and bytes of what is switched on, beside FlashAttention-3's, in lines that stay one."""

    def against(value: float | None, usual: float) -> str:
        if value is None:
            return "whole rows of S are too large"
        return "as FlashAttention-3" if value == usual else f"{times_text(value, usual)} FlashAttention-3's"

    time = "does not fit" if shown.seconds is None else seconds_text(shown.seconds)
    st.metric("Time, modelled", time, against(shown.seconds, full.seconds), **GREY)
    for label, kind in (("Requested from L2, counted", "requested"), ("Crosses HBM, modelled", "dram")):
        value, usual = (getattr(each.traffic, kind).total for each in (shown, full))
        st.metric(label, bytes_text(value), against(value, usual), **GREY)
    busy = share_text(block.tensor_busy) if shown.techniques >= LOOP else "–"
    whole = "does not fit" if shown.of_peak is None else f"whole call: {share_text(shown.of_peak)} of peak"
    st.metric("Tensor cores busy in the loop, modelled", busy, whole, **GREY)
    changed = {"these techniques": shown} if shown.techniques != full.techniques else {}
    variants = changed | {flash3.ALGORITHM.label: full}
    unsure({name: each.traffic for name, each in variants.items()})


def below(experiment: Experiment, full: Variant) -> None:
    """Technique by technique, kernels that were recorded, each left out, and FP8."""
    recording = chosen_recording()
    with st.container(key="apart_techniques"):
        fall, recorded = st.columns([1, 1.15], gap="large")
    asked, hidden = experiment.asked, ""
    if experiment.problem.mask.hides:
        hidden = " Unfused attention also computes what the mask hides, which no fused step does."
    steps = [variant(experiment, techniques) for techniques in ladder()]
    plot(
        "Adding one technique at a time",
        figures.waterfall([*NAMES.values()], steps, theme.colours()),
        "Every bar is one schedule beside the one above it, all fused ones in the same blocks, unfused "
        f"attention in the scenario's {asked.block_q} × {asked.block_kv}. The loop over queries outside "
        "comes before the softmax, so that each later step keeps the order of the loops and the "
        f"number of thread blocks.{hidden}{too_large(experiment)}",
        **{"after": ": modelled, beside the step before", "key": "waterfall", "where": fall},
    )
    rows = recorded_kernels(recording, experiment) if recording else ()
    with recorded:
        if rows:
            _kernels(recording, rows)
    st.markdown(
        "**What each is worth**: FlashAttention-3 with this technique, and those that depend on it, left out"
    )
    worth = [worth_row(variant(experiment, without(key)), full, key) for key in TECHNIQUES]
    numbers(worth, "What each technique is worth", words=(0, 5), height=TALL)
    fold("fp8", lambda: _fp8(recording, experiment), "FP8: what does its error buy?")


def worth_row(left: Variant, full: Variant, key: str) -> dict[str, str]:
    """A technique left out alone."""
    fits = left.seconds is not None
    return {
        "without": NAMES[key],
        "time, modelled": seconds_text(left.seconds) if fits else "does not fit",
        "factor": times_text(left.seconds, full.seconds) if fits else "",
        "requested from L2, counted": bytes_text(left.traffic.requested.total),
        "crosses HBM, modelled": bytes_text(left.traffic.dram.total),
        "what happens instead": left.misfit or TECHNIQUES[key].off,
    }


def _kernels(recording: Recording, rows: Sequence[RecordedKernel]) -> None:
    """Where a kernel has some of the techniques: its recorded time."""
    problem, before = rows[0].problem, (frozenset(), *(row.techniques for row in rows))
    st.markdown(
        f"**Kernels that use them**, {recording.origin}: N = {short(problem.seq_kv)}, batch {problem.batch}, "
        f"{problem.heads} heads, d = {problem.head_dim}, {problem.mask.text}, {problem.dtype}"
    )
    cells = [kernel_row(row, row.techniques - less) for row, less in zip(rows, before, strict=False)]
    numbers(cells, "Kernels that use the techniques", words=(0, 1), height=TALL)
    st.caption(
        "Each kernel runs in blocks of its own; the bars on the left are modelled in FlashAttention-3's. "
        f"{caveats(row.kernel for row in rows)}"
    )


def kernel_row(row: RecordedKernel, added: frozenset[str]) -> dict[str, str]:
    """A recorded kernel, and what it has that those above it have not."""
    return {
        "kernel": kernel(row.kernel) + (f", {row.stages} stage" if row.stages else ""),
        "adds": ", ".join(NAMES[key].lower() for key in TECHNIQUES if key in added) or "none of them",
        "recorded": seconds_text(row.seconds),
        "rate": f"{row.tflops:,.0f} TFLOP/s",
    }


def _fp8(recording: Recording | None, experiment: Experiment) -> None:
    """How fast attention in FP8 is and how far off: computed on the scenario's head, and recorded."""
    st.markdown(
        "FP8 (e4m3) doubles the rate of the tensor cores but keeps only three bits of each number's "
        "fraction, so it rounds by up to 6%, and an outlier by a step as large as many other numbers. A "
        "scale per block fits each block's own range. Rotating Q and K before they are rounded spreads an "
        "outlier over all columns and leaves Q Kᵀ as it was. Half of the weights are made from their "
        "logarithms, rounded by up to 8%, which spares their exponentials."
    )
    errors = [
        {"numbers": name, **{scaled: share_text(each, 2) for scaled, each in found.items()}}
        for name, found in head_errors(experiment).items()
    ]
    numbers(errors, "Error of O in FP8 on this scenario's head")
    st.caption(
        "Computed here, on up to 256 rows and 512 keys of the scenario's first head under its mask, beside "
        "normal numbers of its shape, without and with outliers: Q, K, V and the weights are rounded to "
        "E4M3, and nothing else. Choose a sentence as Numbers to see real heads."
    )
    rows = recorded_fp8(recording, experiment)
    if not rows:
        st.caption("The recording that is chosen has no attention in FP8, so there is nothing to draw.")
        return
    problem = rows[0].problem
    st.markdown(
        f"**{recording.heading}**: N = {short(problem.seq_kv)}, batch {problem.batch}, {problem.heads} "
        f"heads, d = {problem.head_dim}, {problem.mask.text}"
    )
    drawing, beside = st.columns([1, 1.15], gap="large")
    figure = figures.error_by_speed(rows, recording.origin, theme.colours())
    chart(figure, "Error of O over TFLOP/s, FP8 beside float16", "fp8", drawing)
    numbers(fp8_cells(rows), "Attention in FP8", words=(0, 1), height=330, where=beside)
    gained = ""
    if worth := fp8_worth(rows):
        faster, closer = map(digits, worth)
        gained = (
            f"With scales by block and the rotation, FP8 runs at {faster} times float16's speed, and with "
            f"outliers its error is {closer} times smaller than with one scale per tensor. "
        )
    st.caption(
        f"{gained}Every mark is recorded: the median time of a call, quantising included, timed in turns "
        "with FlashAttention-3 in float16; and the root mean square of the difference to float64 over that "
        "of O. Inputs are normal, or as in FlashAttention-3's paper normal with one number in a thousand "
        "from a distribution ten times as wide."
    )


def fp8_cells(rows: Sequence[Fp8Timing]) -> list[dict[str, str]]:
    """Recorded rows, beside float16 on the same inputs."""
    usual = {row.inputs: row.times.p50 for row in rows if row.numbers == "float16"}
    return [
        {
            "numbers": figures.NAMES[row.numbers],
            "inputs": figures.INPUTS[row.inputs][0],
            "recorded": seconds_text(row.times.p50),
            "rate": f"{row.tflops:,.0f} TFLOP/s",
            "× float16": ratio_text(usual[row.inputs], row.times.p50) if row.inputs in usual else "",
            "error of O": share_text(row.relative_error, 2),
        }
        for row in rows
    ]
