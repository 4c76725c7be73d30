"""The Masks page: which tiles a mask spares, and what that saves."""

from functools import partial

import numpy as np
import streamlit as st

from app import scenario
from app.elements import TALL, fold, numbers
from app.figures import masks as figures
from app.figures.colours import Palette
from app.figures.units import bytes_text, counted, scaled, seconds_text, share_text, short, times_text
from app.gallery.html_page import both
from app.gallery.picture import USUAL, Drawn, Picture, tokens
from app.page.parts import live
from app.scenario import theme
from app.sidebar.recording import chosen_recording
from app.sidebar.unused import unused
from engine.algorithms import ALGORITHMS, BACKWARD, FORWARD
from engine.experiment import Experiment
from engine.problem.problem import Mask
from engine.recordings.recording import Recording
from engine.recordings.timing import VariantTiming
from engine.studies import masks as studies
from engine.studies.masks import FAINT, ramps

DOCUMENTS = (1, 2, 4, 8, 16, 32, 64, 256, 1024)
TERM_NAMES = {"softcap": "a softcap", "sinks": "sinks", "alibi": "ALiBi"}
RAMP_KEY = ("under 0.1% left, or hidden", "25% left", "50% left", "all left")


def show() -> None:
    """Draw the page."""
    experiment, colours = scenario.current(), theme.colours()
    found = studies.under_masks(experiment)
    unused("This page compares the masks under FlashAttention-2, whatever the algorithm.", "algorithm")
    st.header(_headline(found), anchor=False)
    live.show({", ".join(_name(one.mask, one.keys)): one.simulation.experiment for one in found})
    with st.container(key="masks_sliders"):
        documents, says = st.columns([1, 2.2], gap="large", vertical_alignment="center")
    documents.select_slider(
        "Documents in the sequence", scenario.options("documents", DOCUMENTS), **scenario.control("documents")
    )
    says.caption(_assumed(experiment))
    with st.container(key="masks_picture"):
        st.html(figures.multiples(_panels(found), experiment.problem, colours))
    st.html(figures.key(found[0].density.exact, colours))
    st.caption(_scale(found[0], experiment))
    fold("masks", partial(_counted, found))
    fold("mask times", partial(_recorded, chosen_recording()), "What do masks and terms cost, as recorded?")
    fold("alibi", partial(_alibi, experiment), "What does ALiBi's slope do to the tiles?")


def _headline(found: tuple[studies.Masked, ...]) -> str:
    """What a causal mask spares."""
    none, causal = found[:2]
    skips = f"{share_text(causal.skipped)} of the tiles ({times_text(causal.spares(none))} less work)"
    if causal.spares(none) == 1:
        skips = "no tile here, because every tile holds a score that it allows"
    return f"A causal mask lets the kernel skip {skips}."


def _assumed(experiment: Experiment) -> str:
    """What the pictures show that the scenario does not have."""
    mask = experiment.problem.mask
    lacks = {} if mask.window is not None else {"no window": "a window"}
    lacks |= {} if mask.packed else {"a single document": "documents"}
    size = "one eighth of the sequence" if experiment.problem.seq_kv >= studies.SHARE else "one key"
    has, example = " and ".join(lacks), " or ".join(lacks.values())
    return f"Your scenario has {has}, so the pictures use an example: {example} of {size}." if lacks else ""


def _panels(found: tuple[studies.Masked, ...]) -> list[figures.Panel]:
    """Each mask's picture, with what it spares."""
    panels = []
    for one in found:
        spared, share = one.spares(found[0]), share_text(one.visited)
        if spared > 1:
            share = f"{share_text(one.visited, 1)}, {times_text(spared)} less work"
        own = ("the scenario's mask",) * one.own
        costs = (counted(one.simulation.per_head.tiles_visited, "tile"), share, *own)
        panels.append(figures.Panel(*_name(one.mask, one.keys), one.density, costs, one.own))
    return panels


def _name(mask: Mask, keys: int) -> tuple[str, str]:
    """A mask's name, and its extent."""
    window = ""
    if mask.window:
        window = "its own key" if mask.window == 1 else f"the last {mask.window:,} keys"
    if mask.keys_after:
        window = f"{counted(mask.window - 1, 'key')} before, {mask.ahead:,} after"
    name, extent = ("Causal", "keys up to its own") if mask.causal else ("None", "every key")
    if mask.packed:
        lengths = mask.document_lengths(keys)
        least, most = min(lengths), max(lengths)
        length = f"{short(least)} key{'s' * (least > 1)}"
        if least < most:
            length = f"{least:,} {'or' if isinstance(mask.documents, int) else 'to'} {most:,} keys"
        name = "Documents, window" if mask.window else "Documents, causal" if mask.causal else "Documents"
        extent = ", ".join(filter(None, (f"{len(lengths):,} of {length}", window)))
    elif mask.window:
        name, extent = "Window", window
    prefix = f"and the first {mask.prefix:,}" if mask.prefix and mask.causal else ""
    return name, ", ".join(filter(None, (extent, prefix, mask.others)))


def _scale(none: studies.Masked, experiment: Experiment) -> str:
    """What a pixel is."""
    tiling, problem = none.simulation.experiment.tiling, experiment.problem
    rows, columns = len(none.simulation.schedule.query_rows), len(none.simulation.schedule.key_rows)
    grid = (
        f"Rows are queries and columns are keys: {rows:,} × {columns:,} tiles of {tiling.block_q} queries × "
        f"{tiling.block_kv} keys, {short(problem.seq_q)} × {short(problem.seq_kv)} in all."
    )
    if not none.density.exact:
        tiles = f"{none.density.tiles:,} tiles"
        grid += f" Each pixel stands for up to {tiles}; its shade is the share visited."
    return f"{grid} Counted."


def _counted(found: tuple[studies.Masked, ...]) -> None:
    """Every mask's tiles, bytes, work and time, and what the columns mean."""
    rows = []
    for one in found:
        counts, traffic = one.simulation.per_head, one.simulation.traffic
        rows.append({
            "mask": ": ".join(_name(one.mask, one.keys)) + ", the scenario's" * one.own,
            "visited": f"{counts.tiles_visited:,}",
            "full": f"{counts.tiles_full:,}",
            "partial": f"{counts.tiles_partial:,}",
            "skipped": f"{counts.tiles_skipped:,}",
            "share visited": share_text(one.visited, 1),
            "bytes, counted": bytes_text(traffic.requested.total),
            "FLOPs, counted": scaled(traffic.flops, "FLOP"),
            "time, modelled": seconds_text(one.simulation.modelled.seconds),
        })  # fmt: skip
    numbers(rows, "Tiles, bytes and time by mask", height=TALL)
    st.caption(
        "A partial tile, crossed by the mask's edge, is still computed in full. Tile counts are for one "
        "head; bytes, FLOPs and time of all heads, with FlashAttention-2 and the scenario's blocks. Where "
        "all thread blocks run at once, the call lasts as long as its longest block, so time falls less "
        "than work, not at all, or rises with what masking costs."
    )


def _recorded(recording: Recording | None) -> None:
    """Times of the kernel under masks and terms, beside the plain ones of the same run."""
    ways = (FORWARD, BACKWARD) if recording else ()
    found = {way: costs for way in ways if (costs := studies.variant_costs(recording, way))}
    if not found:
        return st.markdown("No recording shown here has times of masks and terms.")
    every = [cost for costs in found.values() for cost in costs]
    kernels = {cost.row.provider: ALGORITHMS[cost.row.provider].label for cost in every}
    for direction, costs in found.items():
        rows: dict[str, dict[str, str]] = {}
        for cost in costs:
            name, row, kernel = ", ".join(_variant(cost.row)), cost.row, kernels[cost.row.provider]
            start = {f"{direction}: mask or term": name, "pairs left": share_text(cost.seen, 1)}
            rows.setdefault(name, start).update({
                kernel: seconds_text(row.times.p50),
                f"{kernel}, TFLOP/s": f"{row.tflops:.0f}",
                f"{kernel}, of plain": share_text(cost.over),
            })  # fmt: skip
        numbers([*rows.values()], f"Recorded {direction} times of masks and terms", height=TALL)
    problem = every[0].row.problem
    st.caption(
        f"{recording.heading}: times of "
        f"{' and '.join(kernels.values())}, {problem.heads} heads, {problem.seq_kv:,} tokens, "
        f"{problem.dtype}, head dimension 128 unless another is given. FLOPs count only the pairs that the "
        "mask leaves; 'of plain' is that rate over the same kernel's without mask, or with a causal one "
        "where the mask looks back only, timed in turns."
    )


def _variant(row: VariantTiming) -> tuple[str, ...]:
    """A recorded row's mask, and what it has besides."""
    name, extent = _name(row.problem.mask, row.problem.seq_kv)
    if row.problem.head_dim != 128 and not row.v_dim:
        name += f", head dim {row.problem.head_dim}"
    if row.term:
        return f"{name} with {TERM_NAMES[row.term]}", extent
    if row.prefix:
        return name, f"and a prefix of {row.prefix:,} keys"
    return (f"{name}, head dims {row.problem.head_dim} and {row.v_dim}" if row.v_dim else name), extent


def _alibi(experiment: Experiment) -> None:
    """The slope's ramp on the tile grid, for heads with slopes that differ most."""
    found, colours = ramps(experiment), theme.colours()
    first, last = found[0], found[-1]
    heads = f"head 1, and every {last.halves:.3g} in head {last.head:,}"
    st.markdown(
        "**ALiBi lowers a score by the head's slope per key of distance, so the weights fade by half every "
        f"{first.halves:.3g} keys in {'the only head' if first is last else heads}.**"
    )
    panels = []
    for one in found:
        shades, faint = np.where(one.left < FAINT, 0.0, one.left), share_text(one.faint)
        costs = f"halved every {one.halves:.3g} keys", f"{faint} of the tiles keep under 0.1%"
        density = studies.Density(shades, shades, 2)
        panels.append(figures.Panel(f"Head {one.head:,}", f"slope {one.slope:.3g}", density, costs))
    with st.container(key="masks_ramp"):
        title = "Weight that ALiBi leaves in each tile"
        st.html(figures.multiples(panels, experiment.problem, colours, title))
    st.html(figures.key(False, colours, RAMP_KEY))
    st.caption(
        "A score falls by the slope for each key between it and its query, so its weight is multiplied by "
        "exp(−slope · distance) before the softmax divides. Each tile shows the most that one of its weights "
        f"keeps, computed exactly under the scenario's mask on {counted(first.keys, 'key')}. The slopes "
        "are a geometric sequence over the heads that ends at 2⁻⁸ (Press et al., arXiv 2108.12409). The "
        "kernels lower the scores on the chip, so hardly a byte more is moved."
    )


def _drawn(experiment: Experiment) -> Drawn:
    """Which tiles the masks spare."""
    found = studies.under_masks(experiment)

    def picture(colours: Palette) -> str:
        tiles = figures.multiples(_panels(found), experiment.problem, colours)
        return tiles + figures.key(found[0].density.exact, colours)

    return Drawn(both(picture))


PICTURE = Picture(_drawn, f"Which tiles a mask spares. {tokens(USUAL)}")
