"""Claims about the chip: how full it is, how fast its memories are, and what M is."""

from __future__ import annotations

from itertools import product

from engine.model.launch import Launch, launch
from engine.model.occupancy import RESERVED, set_aside, threads_of
from engine.problem.hardware import GPUS, KIB, MIB
from engine.recordings.file import is_of, recordings
from engine.recordings.recording import Recording
from engine.studies.claims import recorded, sources
from engine.studies.claims.machine import A100, ON_A100
from engine.studies.claims.verdict import (
    DATASHEET,
    DEPENDS,
    MODELLED,
    OFF,
    PARTLY,
    RIGHT,
    WRONG,
    Claim,
    Finding,
    over,
    said,
)

H100 = GPUS["h100"]
WARPS_SM = 64  # that an SM of compute capability 8.0, 9.0 or 10.0 holds (CUDA C++ Programming Guide)
WARP = 32  # threads
KERNELS = "versions 1 to 3, d of 64 and 128, A100 and H200"
GROUP_ROWS, GROUP_THREADS = 64, 128  # of a warp group of version 3; one more copies


def _kernels() -> list[Launch]:
    """Launches of each fused version, as KERNELS says, in blocks that kernels take."""
    pairs = product(("a100", "h200"), (64, 128))
    sized = [ON_A100.changed(hardware=hardware, head_dim=head_dim) for hardware, head_dim in pairs]
    launches = [launch(each.changed(algorithm=name)) for each in sized for name in ("flash1", "flash2")]
    third = [each.changed(algorithm="flash3") for each in sized]
    return launches + [launch(each) for each in third if each.unserved is None]


def _warps_resident(run: Launch) -> float:
    """Per cent of the warps that an SM could hold."""
    (kernel,) = run.kernels
    threads = threads_of(run.schedule, kernel.phase)
    if run.pipeline.specialised:
        threads = (run.tiling.block_q // GROUP_ROWS + 1) * GROUP_THREADS
    return 100 * kernel.resident * threads / WARP / WARPS_SM


def _shared_used(run: Launch) -> float:
    """Per cent of an SM's shared memory that its resident blocks set aside."""
    (kernel,) = run.kernels
    if run.pipeline.specialised:
        taken = sum(part.bytes for part in run.parts[kernel.phase.name])
    else:
        taken = set_aside(run.algorithm, run.schedule, kernel.phase, run.gpu)
    return 100 * kernel.resident * (taken + RESERVED) / run.gpu.shared_bytes_sm


def _occupancy(recording: Recording | None) -> tuple[Finding, ...]:
    row = recorded.counters(recording, "flash2", 4096, 128)
    busy = None if row is None else recorded.active(row)
    return (
        over(
            "warps on an SM of those it can hold",
            "%",
            (75, 85),
            map(_warps_resident, _kernels()),
            KERNELS,
            MODELLED,
        ),
        Finding("time in which SMs work, version 2, N = 4,096", "%", None, busy, recorded.origin(recording)),
    )


def _ratio(_: Recording | None) -> tuple[Finding, ...]:
    def faster(key: str) -> float:
        return GPUS[key].shared_bytes_per_second / GPUS[key].memory_bytes_per_second

    others = [faster(key) for key in GPUS if key != "a100"]
    what = "shared memory of all SMs over HBM"
    return (
        said(f"{what}, A100 of 80 GB", "×", 10, faster("a100"), DATASHEET),
        over(f"{what}, other GPUs", "×", None, others, f"{len(others)} GPUs", DATASHEET),
    )


def _sizes(_: Recording | None) -> tuple[Finding, ...]:
    return (
        said("registers of an SM", "KiB", 256, A100.register_bytes_sm / KIB, DATASHEET),
        said("L2 of an A100", "MiB", 40, A100.l2_bytes / MIB, DATASHEET),
    )


def _filled(_: Recording | None) -> tuple[Finding, ...]:
    used = map(_shared_used, _kernels())
    return (over("shared memory set aside on an SM", "%", (85, 85), used, KERNELS, MODELLED),)


def _hbm(_: Recording | None) -> tuple[Finding, ...]:
    own = next((each for each in recordings() if is_of(each, H100.key)), None)
    copied, origin = recorded.copied(own), recorded.origin(own)
    return (
        said("peak of an H100 SXM", "B/s", 3e12, H100.memory_bytes_per_second, DATASHEET),
        said("what a copy reaches, read and written", "B/s", 3e12, copied, origin),
    )


def _m(_: Recording | None) -> tuple[Finding, ...]:
    return (
        said("M: shared memory of one block, A100", "B", 20e6, A100.shared_bytes_block, DATASHEET),
        Finding("shared memory of all its SMs", "B", None, A100.sms * A100.shared_bytes_sm, DATASHEET),
    )


CLAIMS = (
    Claim(
        23,
        sources.CODE,
        "Flash attention reaches an SM occupancy of 75 to 85%.",
        r"\frac{\text{warps on an SM}}{64}",
        "timeline",
        ON_A100,
        _occupancy,
        {
            OFF: "Few warps are resident, because each holds a large tile in registers. SMs are busy for all "
            "that: what counts is the time in which they work.",
            DEPENDS: "It depends on the kernel and its blocks.",
        },
    ),
    Claim(
        26,
        sources.CODE,
        "SRAM is 10 times faster than HBM.",
        r"\frac{\text{SMs} \cdot 128\,\text{B} \cdot \text{clock}}{\text{bandwidth of HBM}}",
        "time",
        ON_A100,
        _ratio,
        {
            RIGHT: "This holds for an A100 of 80 GB, counting the shared memory of all SMs at its peak. Of "
            "other GPUs it is another factor.",
        },
    ),
    Claim(
        27,
        sources.CODE,
        "An A100's SM has 256 KB of registers, and the GPU 40 MB of L2.",
        r"65{,}536 \cdot 4\ \text{bytes}",
        "tiling",
        ON_A100,
        _sizes,
        {
            RIGHT: "This is what the data sheet says, with powers of 1,024. Either half of L2 keeps its "
            "own copy."
        },
    ),
    Claim(
        28,
        sources.CODE,
        "About 85% of shared memory is used.",
        r"\frac{\text{blocks on an SM} \cdot (\text{tiles} \cdot \text{stages})}{\text{shared memory}}",
        "tiling",
        ON_A100,
        _filled,
        {
            DEPENDS: "It depends on the kernel, its blocks and the GPU: registers often limit the blocks "
            "of an SM before shared memory does.",
            OFF: "Registers limit the blocks of an SM before shared memory does.",
        },
    ),
    Claim(
        35,
        sources.CONTEXT,
        "An H100's HBM gives about 3 TB/s.",
        r"5120\ \text{bits} \cdot 5.2\ \text{Gbit/s}",
        "time",
        ON_A100.changed(hardware="h100"),
        _hbm,
        {PARTLY: "The peak is 3.35 TB/s, and about 3 TB/s is what a copy reaches of it."},
    ),
    Claim(
        36,
        sources.AWARE,
        "M, the fast memory in the bound on traffic, is about 20 MB.",
        r"\Theta\!\left(\frac{N^2 d^2}{M}\right)",
        "tiling",
        ON_A100,
        _m,
        {
            WRONG: "M is what one thread block has: its tiles decide how often K and V pass. 20 MB is all "
            "SMs'."
        },
    ),
)
