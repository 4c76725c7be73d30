"""FlashAttention-3 inside one block of a Hopper GPU: what each technique is worth, and FP8."""

import streamlit as st

from app.elements import TALL, fold, numbers, too_large, unsure
from app.figures.algorithms import caveats, kernel
from app.figures.units import (
    bytes_text,
    ratio_digits,
    ratio_text,
    seconds_text,
    share_text,
    short,
    times_text,
)
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from engine import simulate
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.recordings.timing import Fp8Timing
from engine.studies import techniques
from engine.studies.block_scales import head_errors, recorded_fp8
from engine.studies.drawable import at_length
from engine.studies.techniques import ALL, LOOP, TECHNIQUES, Variant, recorded_kernels, variant
from engine.studies.warp_groups import Inside
from engine.studies.warp_groups import inside as lanes_of

LABEL, STUDY = flash3.ALGORITHM.label, techniques
UNUSED = ("This page always shows FlashAttention-3.", "algorithm")
PAPERS_IDEA = (
    "In the paper, a group's softmax also overlaps its own P V of the previous block. In this project's "
    "kernel the compiler mostly waits for that product first, as drawn; under a causal mask at head "
    "dimensions of 80 to 128 it does not. Forced elsewhere, the paper's order made the kernel 5% slower "
    "(measured on an H200)."
)
LONGER = 4096  # tokens, of which there are blocks enough for more than one round
NUMBERS = {
    "float16": "float16",
    "tensor": "FP8, one scale per tensor",
    "block": "FP8, scales by block",
    "rotated": "FP8, by block, rotated",
}


def own(experiment: Experiment) -> Experiment:
    """The scenario under FlashAttention-3."""
    return experiment.changed(algorithm=flash3.ALGORITHM.key)


def headline(experiment: Experiment, shown: Variant, full: Variant) -> str:
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
    in_turns = ALL - {"overlapped"}
    now, apart = map(seconds_text, (full.seconds, variant(experiment, in_turns).seconds))
    times = f"{now}, not {apart} (modelled)" if now != apart else f"{now} (modelled), no less than in turns"
    longer, more = at_length(experiment, LONGER), ""
    if experiment.problem.seq_kv < LONGER and not presenting():
        both = variant(longer, in_turns).seconds, variant(longer, ALL).seconds
        more = f" At {LONGER:,} tokens it is {ratio_digits(*both)} times as fast as in turns (modelled)."
    return (
        "In FlashAttention-3 one warp group takes its softmax while another uses the tensor cores: "
        f"{times}. A gap in the bottom two rows is an idle unit.{more}"
    )


def also(experiment: Experiment, shown: Variant, full: Variant) -> list[str]:
    """Which kernel is like what is on, and what does not hold of it here."""
    told, one = [], own(experiment)
    if shown.kernel:
        told.append(f"The kernel {kernel(shown.kernel)} does exactly this.")
    if "fusion" not in shown.techniques:
        told.append(too_large(experiment).strip())
    held = simulate(one).footprint
    if not held.fits and shown.techniques >= LOOP:
        told.append(
            f"A block of it {held.words[1]}, but {held.words[2]}: the model shows it as if it fitted."
        )
    if not experiment.gpu.has_tensor_cores_for(dtype := experiment.problem.dtype):
        told.append(f"In {dtype} the products run on the float32 units, which stand here for tensor cores.")
    if shown.techniques == full.techniques and (why := one.unserved):
        told.append(why)
    return told


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


def metrics(shown: Variant, full: Variant, block: Inside) -> list[tuple[str, ...]]:
    """Time and bytes of what is switched on, beside FlashAttention-3's, in lines that stay one."""

    def against(value: float | None, usual: float) -> str:
        if value is None:
            return "whole rows of S are too large"
        return "as FlashAttention-3" if value == usual else f"{times_text(value, usual)} FlashAttention-3's"

    time = "does not fit" if shown.seconds is None else seconds_text(shown.seconds)
    told = [("Time, modelled", time, against(shown.seconds, full.seconds))]
    for label, kind in (("Requested from L2, counted", "requested"), ("Crosses HBM, modelled", "dram")):
        value, usual = (getattr(each.traffic, kind).total for each in (shown, full))
        told.append((label, bytes_text(value), against(value, usual)))
    busy = share_text(block.tensor_busy) if shown.techniques >= LOOP else "–"
    whole = "does not fit" if shown.of_peak is None else f"whole call: {share_text(shown.of_peak)} of peak"
    return [*told, ("Tensor cores busy in the loop, modelled", busy, whole)]


def worth(left: Variant, full: Variant) -> tuple[float | None, float, dict[str, str]]:
    """Time without a technique and with all, and the cells of its row."""
    return left.seconds, full.seconds, {
        "time, modelled": "does not fit" if left.seconds is None else seconds_text(left.seconds),
        "requested from L2, counted": bytes_text(left.traffic.requested.total),
        "crosses HBM, modelled": bytes_text(left.traffic.dram.total),
    }  # fmt: skip


def below(experiment: Experiment, shown: Variant, full: Variant) -> None:
    """Kernels that were recorded, and FP8."""
    unsure({"with these techniques": shown.traffic, LABEL: full.traffic})
    recording = chosen_recording()
    if recording:
        _kernels(recording, experiment)
    fold("fp8", lambda: _fp8(recording, experiment), "FP8: what does its error buy?")


def _kernels(recording: Recording, experiment: Experiment) -> None:
    """Where a kernel has some of the techniques: its recorded time."""
    found, rows, before = recorded_kernels(recording, experiment), [], frozenset()
    if not found:
        return
    for row in found:
        added = [TECHNIQUES[key].name.lower() for key in TECHNIQUES if key in row.techniques - before]
        rows.append({
            "kernel": kernel(row.kernel),
            "adds": ", ".join(added) or "none of them",
            "recorded": seconds_text(row.seconds),
            "rate": f"{row.tflops:,.0f} TFLOP/s",
        })  # fmt: skip
        before = row.techniques
    problem = found[0].problem
    st.markdown(
        f"**Kernels that use them**, {recording.origin}: N = {short(problem.seq_kv)}, batch {problem.batch}, "
        f"{problem.heads} heads, d = {problem.head_dim}, {problem.mask.text}, {problem.dtype}"
    )
    numbers(rows, "Kernels that use the techniques", words=(0, 1), height=TALL)
    st.caption(f"Each kernel runs in blocks of its own. {caveats(row.kernel for row in found)}")


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
        st.caption("The recording that is chosen has no attention in FP8, so there is nothing to show.")
        return
    problem = rows[0].problem
    st.markdown(
        f"**{recording.heading}**: N = {short(problem.seq_kv)}, batch {problem.batch}, {problem.heads} "
        f"heads, d = {problem.head_dim}, {problem.mask.text}"
    )
    numbers(_fp8_cells(rows), "Attention in FP8", words=(0, 1), height=TALL)
    st.caption(
        "The median time of a call, quantising included, timed in turns with FlashAttention-3 in float16; "
        "and the root mean square of the difference to float64 over that of O. Outliers are as in "
        "FlashAttention-3's paper: one number in a thousand is from a distribution ten times as wide."
    )


def _fp8_cells(rows: tuple[Fp8Timing, ...]) -> list[dict[str, str]]:
    """Recorded rows, beside float16 on the same inputs."""
    usual = {row.inputs: row.times.p50 for row in rows if row.numbers == "float16"}
    return [
        {
            "numbers": NUMBERS[row.numbers],
            "inputs": row.inputs,
            "recorded": seconds_text(row.times.p50),
            "rate": f"{row.tflops:,.0f} TFLOP/s",
            "× float16": ratio_text(usual[row.inputs], row.times.p50) if row.inputs in usual else "",
            "error of O": share_text(row.relative_error, 2),
        }
        for row in rows
    ]
