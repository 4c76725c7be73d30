"""The opening picture: the same work twice, its bytes streaming between two memories."""

from functools import lru_cache
from pathlib import Path
from typing import Any

from app.canvas.moving import Moving
from app.figures.units import bytes_text, digits, seconds_text
from engine.problem.hardware import gpu_named
from engine.recordings.file import recordings
from engine.recordings.recording import Counters
from engine.studies.same_work import TENSORS, SameWork, same_work

OPENING = Moving("opening", Path(__file__).with_name("start.html"), "The same work twice")
FLIGHT = 4_000_000  # bytes that a square stands for
SENTENCE = (
    "Attention compares every token with every other. That makes two large matrices, the scores S and the "
    "weights P. Standard attention is slow because it stores them in the GPU's memory, HBM, and reads them "
    "back. FlashAttention cuts them into tiles small enough for the chip's processors, its SMs, and never "
    "stores them."
)


@lru_cache(maxsize=1)
def shown() -> SameWork | None:
    """The two calls, of the first recording that has such a pair."""
    return next(filter(None, map(same_work, recordings())), None)


def payload(work: SameWork, height: int | None = None) -> dict[str, Any]:
    """What the picture needs: both calls kernel by kernel, bytes and seconds as recorded.

    A height is in px; without one the picture follows the window's.
    """
    gpu = gpu_named(work.recording.device.gpu)
    problem = work.problem
    return {
        "lanes": [
            _lane("Standard attention", "S and P go to memory and back", work.stored, True),
            _lane("FlashAttention-2", "S and P stay on the chip, tile by tile", work.fused, False),
        ],
        "height": height,
        "flight": FLIGHT,
        "keys": problem.seq_kv,
        "width": problem.head_dim,
        "memory": ["Memory (HBM)", *([bytes_text(gpu.memory_bytes)] if gpu else [])],
        "chip": [f"Chip: {gpu.sms} SMs", f"{bytes_text(gpu.shared_bytes_sm)} each"] if gpu else ["Chip"],
        "sms": gpu.sms if gpu else 0,
    }


def _lane(name: str, about: str, call: Counters, stores: bool) -> dict[str, Any]:
    kernels = [
        {"seconds": each.seconds, "read": each.dram_read, "written": each.dram_written, "of": of}
        for each, of in zip(call.kernels, TENSORS[call.provider], strict=True)
    ]
    return {"name": name, "about": about, "kernels": kernels, "stores": stores}


def conclusion(work: SameWork) -> str:
    """The two totals and their ratios, in one sentence."""
    stored, fused = work.stored, work.fused
    return (
        f"Standard attention moved {bytes_text(stored.total('dram_bytes'))} through HBM in "
        f"{seconds_text(stored.total('seconds'))}; FlashAttention-2 moved "
        f"{bytes_text(fused.total('dram_bytes'))} in {seconds_text(fused.total('seconds'))}: "
        f"{digits(work.times_less('dram_bytes'))} times fewer bytes and "
        f"{digits(work.times_less('seconds'))} times less time for the same result."
    )


def origin(work: SameWork) -> str:
    """Where the numbers come from, and what the picture adds to them."""
    problem, device = work.problem, work.recording.device
    return (
        f"Bytes were recorded by the hardware counters of an {device.gpu} and the time by the same "
        f"profiler on {device.date[:10]}: {problem.batch * problem.heads} heads, {problem.seq_kv:,} tokens, "
        f"head dimension {problem.head_dim}, {problem.dtype}, both as Triton kernels in blocks of "
        f"{work.fused.block_q} × {work.fused.block_kv}, with L2 emptied before each kernel; the counters "
        f"miss what still lay in L2 when a kernel ended. A square stands for {bytes_text(FLIGHT)}; "
        "the picture spreads a kernel's bytes evenly over its time."
    )
