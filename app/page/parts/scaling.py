"""What more GPUs gain: efficiency, when transfers are hidden, memory, and the model beside recorded times."""

from collections.abc import Iterable

import streamlit as st

from app.across.payload import NAMES
from app.elements import chart, fold, numbers
from app.figures import across as figures
from app.figures.colours import Palette
from app.figures.tables import records, scrolled
from app.figures.units import bytes_text, scaled, seconds_text, share_text, tokens_text
from app.page.parts.job import sentence
from engine.algorithms import FORWARD
from engine.measuring.live import Live
from engine.model.cluster.spread import ALL_GATHER, ALL_TO_ALL, RING, RING_SEND, TWO_LEVEL, Spread
from engine.problem.cache import kept_with
from engine.problem.gpu import Reached
from engine.problem.hardware import GPUS, gpu_named
from engine.recordings.cluster import ClusterTiming
from engine.recordings.recording import Recording
from engine.studies.recorded_clusters import Held, errors, held, recorded_links, seconds_of, sent_bytes
from engine.studies.several_gpus import Room, blocks_passing, hiding, over_gpus, rooms, rounds_by_tokens

TALL = 420  # pixels
FORMULA = r"n^* = \frac{F\, e\, H_{kv}}{2\, B\, H}\,(\times\,2 \text{ where causal})"


def efficiency(spread: Spread, found: tuple[Held, ...], colours: Palette) -> None:
    """Methods over the number of GPUs; recorded points where there are any of this length."""
    st.markdown("**Efficiency over the number of GPUs**: one GPU's time over that of all GPUs together")
    methods = (RING, RING_SEND, TWO_LEVEL, ALL_GATHER, ALL_TO_ALL)
    lines = {method: over_gpus(spread.by(method)) for method in methods}
    lines = {method: found for method, found in lines.items() if len(found) > 1}
    # forward passes of methods on several GPUs, all heads with keys of their own
    every = [
        one
        for one in found
        if one.row.gpus > 1 and one.row.direction == FORWARD and one.efficiency
        if one.row.problem.heads == one.row.problem.kv_heads
    ]
    asked = spread.problem.seq_q, spread.problem.mask
    points = [one for one in every if (one.row.problem.seq_q, one.row.problem.mask) == asked]
    figure = figures.efficiency(lines, points, spread.gpus, colours)
    chart(figure, "Efficiency over GPUs", "across efficiency")
    words = (
        "Dotted lines are modelled. From one host to several, a flat ring waits for the network in every "
        "round; a ring of hosts waits only once per host."
    )
    if points:
        problem = points[0].row.problem
        words += (
            f" Diamonds were {_origins(points)}: {problem.heads} heads, head dimension {problem.head_dim}, "
            f"{problem.dtype}."
        )
    modelled = (one.efficiency for found in lines.values() for one in found.values())
    if any(each > 1 for each in (*modelled, *(one.efficiency for one in points))):
        reached = GPUS[spread.hardware].reached
        words += (
            " Above 100% one GPU alone is slowed down: its power limit leaves it "
            f"{share_text(reached.sustained_clock)} of its clock in a call, after "
            f"{reached.sustained_from * 1000:.0f} ms of it."
        )
    if every and not points:
        words += f" Recorded are {_listed(one.row.problem.seq_q for one in every)} tokens."
    st.caption(words)


def ring_here(recorded: tuple[Held, ...], found: Live) -> list[str]:
    """A ring that was measured here, beside the model of it and its recordings."""
    if found.ring is None:
        return []
    row, sent = found.ring
    name = f"{row.label}, {row.gpus} GPUs{'' if row.direction == FORWARD else ', forward and backward'}"
    if row.times is None:
        return [sentence(f"{name}: {row.skipped}")]
    gpu = gpu_named(found.device)
    beside = [f"*modelled* {seconds_text(seconds_of(row, gpu.key))}"] if gpu else []
    asked = (row.provider, row.direction, row.problem, row.gpus)
    beside += [
        f"*{one.recording.origin}* {seconds_text(one.row.times.median)}"
        for one in recorded
        if (one.row.provider, one.row.direction, one.row.problem, one.row.gpus) == asked
    ]
    lines = [f"{name}: **{seconds_text(row.times.median)}** ({'; '.join(beside)})"]
    return lines + (
        [sentence(f"bytes over NVLink were not measured: {sent.skipped}")] if sent.skipped else []
    )


def links(spread: Spread, recordings: tuple[Recording, ...], here: Live | None, colours: Palette) -> None:
    """What each GPU sends over NVLink while a ring runs, over time: as it was measured here, and recorded."""
    found = recorded_links(spread, recordings)
    if here and here.ring and here.ring[1].interval:
        found = [(here.ring[1], here.origin), *found]
    for column, (row, origin) in zip(st.columns(len(found) or 1, gap="large"), found, strict=False):
        with column:
            title = f"Bytes over NVLink: {NAMES[row.provider]}, {row.gpus} GPUs"
            st.markdown(f"**{title}**, {origin}")
            chart(figures.sent(row, spread.fabric.peak, colours), title, f"links {row.provider} {origin}")
            of = Spread(row.problem, row.gpus, row.provider, row.problem.mask.causal)
            counted = " and ".join(map(bytes_text, sent_bytes(of)))
            sent = " and ".join(bytes_text(each.sent_bytes) for each in row.marks)
            st.caption(
                f"In the forward pass the GPUs sent {sent}, in order; counted are {counted}: keys that the "
                "mask hides from a GPU are not sent to it. Each line begins with its own GPU's work; the "
                "dotted line is what a link carries."
            )


def _origins(points: list[Held]) -> str:
    """Where and when, and on how many GPUs."""
    gpus: dict[str, list[int]] = {}
    for one in points:
        gpus.setdefault(one.recording.origin, []).append(one.row.gpus)
    return " and ".join(f"{origin}, on {_listed(counts)} GPUs" for origin, counts in gpus.items())


def _listed(numbers: Iterable[int]) -> str:
    """Each once, in order, in words."""
    *some, last = (f"{each:,}" for each in sorted(set(numbers)))
    return f"{', '.join(some)} and {last}" if some else last


def hidden(spread: Spread, colours: Palette) -> None:
    """When a round's transfer fits under its computing."""
    found = hiding(spread.by(RING))
    st.markdown("**When a ring hides its transfers**: a round's computing beside its transfer, modelled")
    figure = figures.rounds(rounds_by_tokens(spread), found.tokens, found.needed, colours)
    chart(figure, "A round over the tokens per GPU", "across rounds")
    verdict = "so its transfers are hidden" if found.hides else "so each round waits for its transfer"
    st.caption(
        f"Computing grows with n², the transfer with n. Here each GPU has {found.tokens:,} tokens (dotted) "
        f"and needs {found.needed:,.0f} (dashed), {verdict}."
    )
    st.latex(FORMULA)
    problem = spread.problem
    st.caption(
        f"F is what the kernel computes per second ({scaled(found.flops, 'FLOP/s')}), B what comes into a "
        f"GPU per second ({scaled(found.bytes_per_second, 'B/s')} of the link's peak of "
        f"{scaled(found.of_link, 'B/s')}), e the bytes of a number "
        f"({problem.itemsize}), H and H_kv the heads ({problem.heads}) and KV heads ({problem.kv_heads})."
    )


def memory(spread: Spread) -> None:
    """What each GPU holds, and the longest context."""
    found = rooms(spread)
    gpu = GPUS[spread.hardware]
    st.markdown(f"**Memory per GPU**, one layer's attention, {gpu.name}, modelled")
    rows = [
        [
            "One GPU" if room.spread.gpus == 1 else NAMES[room.spread.method],
            bytes_text(room.bytes),
            bytes_text(room.others),
            tokens_text(room.longest),
        ]
        for room in found
    ]
    head = ("", "this sequence", "of it buffers", "longest that fits")
    numbers(head, rows, "", height=330)
    st.caption(
        f"A GPU of {bytes_text(gpu.memory_bytes)} holds its own Q, K, V and O, and buffers for the blocks "
        "that pass by. All-gather keeps a group of heads of all K and V, which grows with the whole "
        f"sequence.{_few(found)}"
    )


def _few(found: list[Room]) -> str:
    """That buffers may take more than sharing saves."""
    alone, ring = found[0], found[1]
    if ring.longest > alone.longest:
        return ""
    gpus = ring.spread.gpus
    passing = ("one block", "two blocks", "three blocks")[blocks_passing(gpus) - 1]
    return (
        f" On {gpus} GPUs a ring's buffers take more than sharing saves: they hold K and V twice to be "
        f"fetched, {passing} of others on the way, and the O of every round until the merge."
    )


def beside_recorded(recordings: tuple[Recording, ...], found: tuple[Held, ...]) -> None:
    """How far the model is from what was recorded."""
    st.subheader("The model beside recorded figures", anchor=False)
    if not found:
        st.markdown("There is no recording of several GPUs to hold the model against.")
    for recording in recordings:
        _recorded(recording, tuple(one for one in found if one.recording is recording))


def _recorded(recording: Recording, found: tuple[Held, ...]) -> None:
    if not found:
        return
    gpus = max(one.row.gpus for one in found)
    st.markdown(f"**{recording.heading}**: {gpus} GPUs, and one alone; the model beside each")
    fold(f"rows {recording.heading}", lambda: st.html(_table(recording)), "Recorded numbers")
    half, most = map(share_text, errors(found))
    st.caption(
        "Times are medians of the slowest GPU, in turns in one run, with the kernels of commit "
        f"{recording.device.commit[:7]}. The model is off by less than {half} in half of the rows, and by "
        f"less than {most} in 95% of them; what NVLink reaches in it comes from such GPUs. It has that the "
        f"card's power limit holds its clock down in calls of over {Reached.sustained_from * 1000:.0f} ms; "
        "it leaves out what the host takes to launch."
    )


@kept_with(1)
def _table(recording: Recording) -> str:
    """Every recorded row beside the model's."""
    found = held((recording,))
    modelled = {one.row.provider for one in found}
    rows = [_recorded_row(one) for one in found]
    beside = (row for row in recording.cluster if row.provider not in modelled)
    rows += [_about(row) | {"note": row.skipped or ""} for row in beside]
    return scrolled(records(rows, ""), TALL)


def _recorded_row(one: Held) -> dict[str, str]:
    return {
        **_about(one.row),
        "efficiency": share_text(one.efficiency) if one.row.gpus > 1 and one.efficiency else "",
        "modelled": seconds_text(one.modelled),
        "error": _signed(one.error),
        "note": "",
    }


def _about(row: ClusterTiming) -> dict[str, str]:
    """What was measured, and its median; nothing where there was none."""
    return {
        "method": row.label,
        "tokens": f"{row.problem.seq_q:,}",
        "mask": "causal" if row.problem.mask.causal else "none",
        "KV heads": f"{row.problem.kv_heads}",
        "pass": "forward" if row.direction == FORWARD else "both",
        "GPUs": f"{row.gpus}",
        "recorded": seconds_text(row.times.median) if row.times else "",
    }


def _signed(error: float) -> str:
    size = f"{abs(error):.1%}"
    sign = "" if size == "0.0%" else "+" if error > 0 else "−"
    return f"{sign}{size}"
