"""The page Inside a block: one block of threads over time, by generation, technique by technique."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from app import inside, scenario
from app.elements import GREY, chart, fold, numbers, one_of, unsure
from app.figures import flash3 as figures
from app.figures.algorithms import caveats, kernel
from app.figures.units import (
    bytes_text,
    ratio_digits,
    seconds_text,
    share_text,
    short,
    times_text,
)
from app.gallery.picture import EXAMPLE, Drawn, Picture, SiteFile
from app.page.parts import blackwell as part
from app.page.parts import fp8, live
from app.page.parts.gains import too_large
from app.scenario import theme
from app.scenario.offers import set_subject
from app.scenario.presentation import presenting
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine import simulate
from engine.algorithms import flash3
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.studies import tensor_memory as blackwell
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
WORTH = (
    *("without", "time, modelled", "factor"),
    *("requested from L2, counted", "crosses HBM, modelled", "what happens instead"),
)
PAPERS_IDEA = (
    "In the paper, a group's softmax also overlaps its own P V of the previous block. In this project's "
    "kernel the compiler waits for that product first, as drawn; a barrier that forced the paper's order "
    "made the kernel 5% slower (measured on an H200)."
)
LONGER = 4096  # tokens, of which there are blocks enough for more than one round
TALL = 900  # pixels: tables scroll sideways only, on narrow screens
KERNELS = ("kernel", "adds", "recorded", "rate")


GENERATIONS = {"hopper": "FlashAttention-3 on Hopper", "blackwell": "FlashAttention-4 on Blackwell"}


def show() -> None:
    """Draw the page of the generation that the link names."""
    experiment, generation = scenario.current(), scenario.own("generation")
    if not presenting():
        tied = scenario.tie("generation", generation)
        generation = one_of("Generation", GENERATIONS, first=generation, **tied)
    if generation == "blackwell":
        set_subject(blackwell.on_blackwell(experiment))
        unused("This page shows FlashAttention-4 in its own blocks.", "algorithm", "block_q", "block_kv")
        part.show(experiment)
        return
    full, head = variant(experiment, ALL), st.container(key="flash3_head")
    set_subject(experiment.changed(algorithm=flash3.ALGORITHM.key))
    unused("This page always shows FlashAttention-3.", "algorithm")
    above = None if presenting() else st.container()  # in a room the picture has the first screen
    with st.container(key="apart_inside"):
        picture, beside = st.columns([2.6, 1], gap="large")
    first = picture.container()
    with above or picture:
        shown = variant(experiment, _toggles())
        with st.container(key="flash3_words"):
            st.caption(_what_runs(experiment, shown))
    head.header(_headline(experiment, shown, full), anchor=False)
    with head:
        live.show(live.named(experiment.changed(algorithm=flash3.ALGORITHM.key)))
    block = lanes_of(experiment, shown.pipeline if shown.techniques >= LOOP else full.pipeline)
    with first:
        _picture(experiment, shown, block)
    with beside:
        _numbers(shown, full, block)
    with st.container(key="apart_techniques"):
        fall, recorded = st.columns([1, 1.15], gap="large")
    with fall:
        _waterfall(experiment)
    if recording := chosen_recording():
        with recorded:
            _recorded(recording, experiment)
    _worth(experiment, full)
    fold("fp8", partial(fp8.show, recording, experiment), "FP8: what does its error buy?")


def _headline(experiment: Experiment, shown: Variant, full: Variant) -> str:
    """What everything together gains or, where something is off, what that costs."""
    if shown.techniques != full.techniques:
        return _cost(shown, full)
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


def _cost(shown: Variant, full: Variant) -> str:
    """What attention takes with what is on, beside FlashAttention-3."""
    usual = f"FlashAttention-3 with everything on, which takes {seconds_text(full.seconds)}"
    if shown.seconds is None:
        return (
            "Without tiling, a thread block needs whole rows of S on the chip, and they do not fit. It has "
            f"no time beside {usual} (modelled)."
        )
    what = "Unfused attention" if "fusion" not in shown.techniques else "Attention with these techniques off"
    took, times = seconds_text(shown.seconds), ratio_digits(shown.seconds, full.seconds)
    return f"{what} takes {took}, {times} times as long as {usual} (both modelled)."


def _toggles() -> frozenset[str]:
    """The techniques in use; each can be switched off."""
    chosen = st.pills(
        "Techniques in use: press one to switch it off",
        list(NAMES),
        format_func=NAMES.get,
        selection_mode="multi",
        default=list(NAMES),
        key="flash3_techniques",
    )
    return frozenset(chosen)


def _what_runs(experiment: Experiment, shown: Variant) -> str:
    """What is off and what that means, and which kernel is like it, in one paragraph."""
    off = [key for key in TECHNIQUES if key not in shown.techniques]
    idle = [key for key in off if not shown.techniques.issuperset(TECHNIQUES[key].needs)]
    chosen = [key for key in off if key not in idle]
    words = [f"Without {NAMES[key].lower()}: {TECHNIQUES[key].off}" for key in chosen]
    if idle:
        words.append(_also_off(idle, chosen))
    if not off:
        words.append("Everything is on: this is FlashAttention-3.")
    if shown.kernel:
        words.append(f"The kernel {kernel(shown.kernel)} does exactly this.")
    held = simulate(experiment.changed(algorithm=flash3.ALGORITHM.key)).footprint
    if not held.fits and shown.techniques >= LOOP:
        words.append(
            f"A block of it {held.words[1]}, but {held.words[2]}: the model shows it as if it fitted."
        )
    if not experiment.gpu.has_tensor_cores_for(dtype := experiment.problem.dtype):
        words.append(f"In {dtype} the products run on the float32 units, which stand here for tensor cores.")
    if not off and (why := experiment.changed(algorithm=flash3.ALGORITHM.key).unserved):
        words.append(why)
    return " ".join(words)


def _also_off(idle: Sequence[str], chosen: Sequence[str]) -> str:
    """That techniques are off because those that they rest on are."""
    names = ", ".join(NAMES[key].lower() for key in idle).capitalize()
    needed = {key for each in idle for key in TECHNIQUES[each].needs}
    roots = " and ".join(NAMES[key].lower() for key in chosen if key in needed)
    need, they_are = ("needs", "it is") if len(idle) == 1 else ("need", "they are")
    return f"{names} {need} {roots}, so {they_are} off too."


def _numbers(shown: Variant, full: Variant, block: Inside) -> None:
    """Time and bytes of what is switched on, beside FlashAttention-3's; ranges where the model has them."""
    time = "does not fit" if shown.seconds is None else seconds_text(shown.seconds)
    st.metric("Time, modelled", time, _against(shown.seconds, full.seconds), **GREY)
    for label, kind in (("Requested from L2, counted", "requested"), ("Crosses HBM, modelled", "dram")):
        value, usual = (getattr(each.traffic, kind).total for each in (shown, full))
        st.metric(label, bytes_text(value), _against(value, usual), **GREY)
    looping = shown.techniques >= LOOP
    busy = share_text(block.tensor_busy) if looping else "–"
    whole = "" if shown.of_peak is None else f"whole call: {share_text(shown.of_peak)} of peak"
    st.metric("Tensor cores busy in the loop, modelled", busy, whole or "does not fit", **GREY)
    variants = {flash3.ALGORITHM.label: full}
    if shown.techniques != full.techniques:
        variants = {"these techniques": shown} | variants
    unsure({name: each.traffic for name, each in variants.items()})


def _against(value: float | None, full: float) -> str:
    """A value beside that of FlashAttention-3; always one line, so that nothing moves."""
    if value is None:
        return "whole rows of S are too large"
    return "as FlashAttention-3" if value == full else f"{times_text(value, full)} FlashAttention-3's"


def _picture(experiment: Experiment, shown: Variant, block: Inside) -> None:
    """The lanes of a block; of FlashAttention-3 where what is on has no loop that keeps O on the chip."""
    blocks = block.experiment.tiling
    whose = f"{blocks.block_q} × {blocks.block_kv}, {experiment.gpu.name}, modelled"
    if not shown.techniques >= LOOP:
        whose = "FlashAttention-3's with everything on, modelled"
    if not presenting():  # in a room every line counts
        st.markdown(f"**Inside one thread block**, {whose}")
    with st.container(key="flash3_picture"):
        inside.INSIDE.show(inside.payload(block), key="inside")
    st.caption(
        f"The picture shows {_visits(block)}, and the start of the next tile. S is Q Kᵀ, P is its softmax, "
        f"and O accumulates P V. In steady state one key block takes {seconds_text(block.period)}, of which "
        f"the tensor cores are busy for {share_text(block.tensor_busy)} and the softmax units for "
        f"{share_text(block.softmax_busy)}, at the peaks that they have at "
        f"{share_text(experiment.gpu.reached.clock)} of the card's clock."
        f"  \n{PAPERS_IDEA}"
    )


def _visits(block: Inside) -> str:
    """How many of a tile's key blocks the picture shows."""
    if block.visits_in_all == 1:
        return "a tile's only key block"
    shown = f"{block.visits} of {block.visits_in_all:,}"
    if block.visits == block.visits_in_all:
        shown = "both" if block.visits == 2 else f"all {block.visits}"
    return f"{shown} key blocks of a tile, the last first, as a mask crosses that one"


def _waterfall(experiment: Experiment) -> None:
    """From unfused attention on."""
    asked, hidden = experiment.asked, ""
    if experiment.problem.mask.hides:
        hidden = " Unfused attention also computes what the mask hides, which no fused step does."
    st.markdown("**Adding one technique at a time**: modelled, beside the step before")
    steps = [variant(experiment, techniques) for techniques in ladder()]
    figure = figures.waterfall([*NAMES.values()], steps, theme.colours())
    chart(figure, "Time, technique by technique", "waterfall")
    st.caption(
        "Every bar is one schedule beside the one above it, all fused ones in the same blocks, unfused "
        f"attention in the scenario's {asked.block_q} × {asked.block_kv}. The loop over queries outside "
        "comes before the softmax, so that each later step keeps the order of the loops and the "
        f"number of thread blocks.{hidden}{too_large(experiment)}"
    )


def _worth(experiment: Experiment, full: Variant) -> None:
    """Each technique left out alone."""
    st.markdown(
        "**What each is worth**: FlashAttention-3 with this technique, and those that depend on it, left out"
    )
    rows = [_worth_row(variant(experiment, without(key)), full, key) for key in TECHNIQUES]
    numbers(WORTH, rows, "What each technique is worth", words=(0, 5), height=TALL)
    heads, sms = experiment.problem.all_heads, experiment.gpu.sms
    if heads < sms:
        st.caption(
            f"With key blocks outside, one thread block takes a whole head, so {heads} "
            f"{'head keeps' if heads == 1 else 'heads keep'} only {heads} of {sms} SMs busy. That, and O "
            "passing through memory, is what FlashAttention-2's order of the loops saves."
        )


def _worth_row(left: Variant, full: Variant, key: str) -> list[str]:
    time = ["does not fit", ""]
    if left.seconds is not None:
        time = [seconds_text(left.seconds), times_text(left.seconds, full.seconds)]
    moved = (left.traffic.requested.total, left.traffic.dram.total)
    return [NAMES[key], *time, *map(bytes_text, moved), left.misfit or TECHNIQUES[key].off]


def _recorded(recording: Recording, experiment: Experiment) -> None:
    """Where a kernel has some of the techniques: its recorded time beside the model of the same problem."""
    rows = recorded_kernels(recording, experiment)
    if not rows:
        return
    problem = rows[0].problem
    st.markdown(
        f"**Kernels that use them**, {recording.origin}: N = {short(problem.seq_kv)}, batch {problem.batch}, "
        f"{problem.heads} heads, d = {problem.head_dim}, {problem.mask.text}, {problem.dtype}"
    )
    before = (frozenset(), *(row.techniques for row in rows))
    cells = [_kernel_row(row, row.techniques - less) for row, less in zip(rows, before, strict=False)]
    numbers(KERNELS, cells, "Kernels that use the techniques", words=(0, 1), height=TALL)
    st.caption(
        "Each kernel runs in blocks of its own; the bars on the left are modelled in FlashAttention-3's. "
        f"{caveats(row.kernel for row in rows)}"
    )


def _kernel_row(row: RecordedKernel, added: frozenset[str]) -> list[str]:
    words = ", ".join(NAMES[key].lower() for key in TECHNIQUES if key in added) or "none of them"
    return [
        kernel(row.kernel) + (f", {row.stages} stage" if row.stages else ""),
        words,
        seconds_text(row.seconds),
        f"{row.tflops:,.0f} TFLOP/s",
    ]


def _drawn(experiment: Experiment, generation: str = "hopper") -> Drawn:
    if generation == "blackwell":
        return Drawn(moving=inside.INSIDE, data=inside.payload(blackwell.variant(experiment).block))
    block = lanes_of(experiment, flash3.ALGORITHM.pipeline)
    return Drawn(moving=inside.INSIDE, data=inside.payload(block))


TITLE = "Inside one thread block"
ABOUT = "FlashAttention-3 on an H200: copies, products and softmax, modelled."
FOURTH = "FlashAttention-4 on a B200: products, two softmax groups and a correction group, modelled."
PICTURE = Picture(
    _drawn,
    lambda: [
        SiteFile("inside.html", TITLE, ABOUT, lambda: _drawn(EXAMPLE)),
        SiteFile("inside-blackwell.html", TITLE, FOURTH, lambda: _drawn(EXAMPLE, "blackwell")),
    ],
)
