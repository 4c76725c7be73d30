"""What a KV cache takes: in pages of one pool or whole, and with heads that share keys."""

import streamlit as st

from app.elements import numbers
from app.figures import paging as figures
from app.figures.tables import scrolled
from app.figures.units import (
    bytes_text,
    counted,
    heads_text,
    percent_text,
    ratio_digits,
    scaled,
    seconds_text,
    times_text,
)
from app.scenario import theme
from app.scenario.page_values import OWN, own, tie
from engine.experiment import Experiment
from engine.recordings.recording import Recording
from engine.recordings.timing import Decoding
from engine.studies.decoding import grouped, key_reads, recorded_chunk, recorded_pages, recorded_reads
from engine.studies.paging import Paging, paging_of

TABLE_HEIGHT = 330  # pixels: the rows of eight sequences
HEADS = ("", "KV heads", "K and V, counted", "saving", "splits", "time, modelled", "DRAM reads, recorded")


def pages(decoding: Experiment, recording: Recording | None) -> None:
    """Whole caches beside pages, the block tables, and what reading through them costs."""
    size, count = (own(name) for name in ("pool_page", "sequences"))
    paging = paging_of(decoding.problem, count, size)
    st.markdown(_sentence(paging))
    sizes, sequences = st.columns(2, gap="medium")
    sizes.select_slider("Page size (keys)", OWN["pool_page"].options, **tie("pool_page", size))
    sequences.select_slider("Number of sequences", OWN["sequences"].options, **tie("sequences", count))
    st.html(figures.pictures(paging, _titles(paging), theme.colours()))
    st.html(scrolled(figures.block_tables(paging), TABLE_HEIGHT))
    st.caption(_counted(paging, decoding))
    if recording:
        _recorded_pages(recording, decoding)


def _sentence(paging: Paging) -> str:
    unused, idle = (f"{share:.{2 if share < 0.01 else 1}%}" for share in paging.shares)
    more = f" The pages that stay free have room for {counted(paging.more, 'sequence')} more."
    return (
        f"**Pages of {paging.page_size} keys leave {unused} of the memory that they take unused (counted); "
        f"a whole cache per sequence leaves {idle} unused.**{more if paging.more else ''}"
    )


def _titles(paging: Paging) -> dict[str, str]:
    """What the two pictures show, and how much of it is unused."""
    slots = (paging.reserved, paging.idle_slots, paging.taken_slots, paging.unused_slots)
    reserved, idle, taken, unused = (bytes_text(count * paging.key_bytes) for count in slots)
    return {
        "A whole cache per sequence": f"{paging.reserved:,} slots are reserved ({reserved}); "
        f"{paging.idle_slots:,} of them are unused ({idle}).",
        f"A pool of {paging.pages:,} pages, as much memory": f"{paging.taken:,} pages are taken ({taken}); "
        f"{paging.unused_slots:,} of their slots are unused ({unused}).",
    }


def _counted(paging: Paging, decoding: Experiment) -> str:
    keys, drawn = decoding.problem.seq_kv, ""
    if paging.room != keys:
        drawn = f"Every page is drawn, so the room per sequence is {paging.room:,} keys, not {keys:,}. "
    return (
        f"{drawn}A slot holds K and V of one key in one layer: {bytes_text(paging.key_bytes)}. Lengths are "
        f"spread evenly up to the {paging.room:,} keys that a sequence may reach. A sequence takes the next "
        "free page when its last one is full, so at most one page per sequence is partly empty (internal "
        "fragmentation). Prompts, half of each length, came one after another; then all sequences got one "
        f"key each in turn. The block tables take {bytes_text(paging.table_bytes)}, 4 bytes per page."
    )


def _recorded_pages(recording: Recording, decoding: Experiment) -> None:
    """How fast recorded kernels read pages, beside a cache in one piece."""
    whole, pages = recorded_pages(recording, decoding)
    if whole is None or not pages:
        return
    rates = ", ".join(
        f"{scaled(row.bytes_per_second, 'B/s')} from pages of {row.page_size} "
        f"({percent_text(row.bytes_per_second, whole.bytes_per_second)})"
        for row in pages
    )
    problem = whole.problem
    st.caption(
        f"{recording.heading}, batch {problem.batch}, {problem.seq_kv:,} keys: K and V come at "
        f"{scaled(whole.bytes_per_second, 'B/s')} from a whole cache, and at {rates}."
        f"{_recorded_chunk(recorded_chunk(recording))}"
    )


def _recorded_chunk(rows: tuple[Decoding, ...]) -> str:
    """How much longer a chunk of a prompt takes where its keys lie in pages; a sentence, or nothing."""
    if len(rows) < 2:
        return ""
    (whole, *pages), problem = rows, rows[0].problem
    times = " and ".join(
        f"{times_text(row.times.p50, whole.times.p50)} as long over pages of {row.page_size}" for row in pages
    )
    return (
        f" The last {problem.seq_q:,} queries of {problem.seq_kv:,} tokens take FlashAttention-3's kernel "
        f"{seconds_text(whole.times.p50)}, and {times}."
    )


def heads(decoding: Experiment, recording: Recording | None) -> None:
    """Bytes of K and V by the number of KV heads, and the times of the nearest recorded cache."""
    found, problem = grouped(decoding), decoding.problem
    reads = {count: key_reads(one) for count, one in found.items()}
    alone, now = reads[problem.heads], reads[problem.kv_heads]
    said = f"{heads_text(problem.heads, problem.kv_heads)}: "
    if problem.heads == 1:
        said = "One head has **nothing to share.** Set more heads in the sidebar."
    elif now == alone:
        said += "**nothing is shared yet.** Set fewer KV heads in the sidebar."
    else:
        said += f"**{ratio_digits(alone, now)} times fewer bytes** to read for every token."
    st.markdown(said)
    recorded = {n: recording and recorded_reads(recording, one.experiment) for n, one in found.items()}
    rows = [
        [
            _kind(count, problem.heads),
            f"{count}",
            bytes_text(reads[count]),
            times_text(alone, reads[count]),
            f"{one.experiment.tiling.splits}",
            seconds_text(one.modelled.seconds),
            bytes_text(recorded[count].total("dram_read")) if recorded[count] else "not recorded",
        ]
        for count, one in found.items()
    ]
    numbers(HEADS, rows, "Bytes and time by KV heads", height=360)
    where = f" The DRAM reads are the GPU's counters, {recording.origin}." if any(recorded.values()) else ""
    st.caption(f"The numbers are for one token, with as many splits as the kernel chooses.{where}")


def _kind(kv_heads: int, heads: int) -> str:
    if kv_heads == heads:
        return "each head has its own keys"
    return "all heads share one" if kv_heads == 1 else "grouped, as in the scenario"
