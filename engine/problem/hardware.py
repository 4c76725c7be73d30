"""The GPUs that an experiment can be placed on, with the source of each group of figures.

- Shared memory and its banks, resident blocks, registers, exponentials per clock: CUDA C++ Programming Guide,
  "Compute Capabilities" and "Arithmetic Instructions" (AMD: CDNA 3 architecture whitepaper, ISA reference).
- Tensor and float32 peaks, memory bandwidth: the vendor's data sheet or architecture whitepaper, dense.
- Memory: what the driver reports, which is not what is printed on the box: MiB in nvidia-smi, as public
  printouts of it have them; each preset says whose.
- Effective L2: half where the chip has two L2 partitions, as the counters of an H100 and an H200 have it, see
  `Gpu.l2_effective_bytes`; all of it where it has one.
- L2 to SMs: 5,120 B per clock on an A100 by its whitepaper. Of a Hopper GPU what an H200's SMs took by
  `python -m engine bench-kernels --cache`: 13.5 TB/s of 4 MiB, 11.5 to 12.7 of 8 to 24. Its slices gave 7.0
  to 7.8 of that: one answer serves neighbours that ask at once, as blocks that share K and V do. Nobody
  states it for the others, which are given as much per SM as an H200 has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from engine.problem.gpu import GB, KIB, MIB, Gpu

__all__ = ["GB", "GPUS", "KIB", "MIB", "Gpu", "gpu_named", "same_machine"]

A100_L2_CLOCK, HOPPER_L2_CLOCK = 5120, 13.5e12 / 1.83e9  # bytes/clock
L2_OF_AN_SM = HOPPER_L2_CLOCK / 132  # where nobody states it
CAPABILITIES = {  # by compute capability: blocks per SM, KiB of shared memory of an SM and of a block
    "7.5": (16, 64, 64),
    "8.0": (32, 164, 163),
    "8.6": (16, 100, 99),
    "8.9": (24, 100, 99),
    "9.0": (32, 228, 227),
    "10.0": (32, 228, 227),
    "10.3": (32, 228, 227),
    "12.0": (24, 100, 99),
}
EXPONENTIALS = {"10.3": 32}  # per clock and SM; 16 elsewhere
SHARED_BYTES = {"7.5": 64}  # per clock and SM; 128 elsewhere: 32 banks of 4 bytes; Turing has 16 load units
SMI = "nvidia-smi: {:,} MiB, "
LISTED = SMI + "among the totals that Modal lists of its GPUs (modal-client, pull request 2797)"
PRINTED = SMI + "as printed in public logs of several machines"
ASSUMED = "assumed: as much per SM as an H200's"
A100_L2 = "A100 architecture whitepaper: 5,120 B per clock"
H200_L2 = "measured at the SMs of an H200, where one answer of L2 serves several"
HOPPER_L2 = "taken: what the SMs of an H200 were measured to get"
HALF = "assumed: half of L2, which has two partitions"
COUNTED_HALF = "half of L2, which has two partitions: by DRAM counters of an H100 and an H200"
WHOLE = "assumed: all of L2"


def _peaks(float16: float, bfloat16: float, float32: float) -> MappingProxyType:
    """Peaks by dtype, given in TFLOP/s."""
    return MappingProxyType(
        {"float16": float16 * 1e12, "bfloat16": bfloat16 * 1e12, "float32": float32 * 1e12}
    )


def _nvidia(
    key: str,
    name: str,
    architecture: str,
    capability: str,
    *,
    sms: int,
    ghz: float,
    tflops: tuple[float, float, float],
    gigabytes_per_second: float,
    mib: float,
    l2: tuple[int, int],
    sheet: str,
    effective: str,
    l2_clock: tuple[float, str] | None = None,
    memory: str = LISTED,
) -> Gpu:
    """A preset of NVIDIA's.

    Args:
        tflops: of float16, bfloat16, float32.
        l2: MiB, and what of it serves all SMs; effective: why.
        l2_clock: bytes/clock to all SMs with its source; None: assumed.
    """
    blocks, shared, block = CAPABILITIES[capability]
    clock, stated = l2_clock or (L2_OF_AN_SM * sms, ASSUMED)
    return Gpu(
        key=key,
        name=name,
        architecture=architecture,
        sms=sms,
        blocks_sm=blocks,
        shared_bytes_block=block * KIB,
        shared_bytes_sm=shared * KIB,
        register_bytes_sm=256 * KIB,
        exponentials_per_clock=EXPONENTIALS.get(capability, 16),
        shared_bytes_per_clock=SHARED_BYTES.get(capability, 128),
        l2_bytes=l2[0] * MIB,
        l2_effective_bytes=l2[1] * MIB,
        l2_bytes_per_clock=clock,
        memory_bytes=int(mib * MIB),
        memory_bytes_per_second=gigabytes_per_second * 1e9,
        clock_hz=ghz * 1e9,
        matrix_flops=_peaks(*tflops),
        sources=MappingProxyType(
            {
                "SMs, clock, peaks, bandwidth": sheet,
                "blocks and shared memory": f"CUDA C++ Programming Guide, compute capability {capability}",
                "memory": memory.format(mib),
                "L2 to SMs": stated,
                "L2 for what all SMs share": effective,
            }
        ),
    )


_ALL = (
    _nvidia(
        *("t4", "T4", "Turing", "7.5"),
        sms=40,
        ghz=1.59,
        tflops=(65.1, 8.1, 8.1),
        gigabytes_per_second=320,
        mib=15_360,
        l2=(4, 4),
        sheet="NVIDIA T4 datasheet; Turing architecture whitepaper (no bfloat16 tensor cores)",
        effective=WHOLE,
    ),
    _nvidia(
        *("a10", "A10", "Ampere", "8.6"),
        sms=72,
        ghz=1.695,
        tflops=(125, 125, 31.2),
        gigabytes_per_second=600,
        mib=23_028,
        l2=(6, 6),
        sheet="NVIDIA A10 datasheet; GA102 architecture whitepaper",
        effective=WHOLE,
    ),
    _nvidia(
        *("a100-40gb", "A100 40 GB", "Ampere", "8.0"),
        sms=108,
        ghz=1.41,
        tflops=(312, 312, 19.5),
        gigabytes_per_second=1555,
        mib=40_960,
        l2=(40, 20),
        sheet="NVIDIA A100 datasheet, 40 GB SXM; A100 architecture whitepaper",
        effective=HALF,
        l2_clock=(A100_L2_CLOCK, A100_L2),
    ),
    _nvidia(
        *("a100", "A100", "Ampere", "8.0"),
        sms=108,
        ghz=1.41,
        tflops=(312, 312, 19.5),
        gigabytes_per_second=2039,
        mib=81_920,
        l2=(40, 20),
        sheet="NVIDIA A100 datasheet, 80 GB SXM; A100 architecture whitepaper",
        effective=HALF,
        l2_clock=(A100_L2_CLOCK, A100_L2),
    ),
    _nvidia(
        *("rtx3090", "RTX 3090", "Ampere", "8.6"),
        sms=82,
        ghz=1.695,
        tflops=(71.2, 71.2, 35.6),
        gigabytes_per_second=936,
        mib=24_576,
        l2=(6, 6),
        sheet="NVIDIA GA102 architecture whitepaper, GeForce RTX 3090",
        effective=WHOLE,
        memory=SMI + "as printed in reports on club-3090, 2026",
    ),
    _nvidia(
        *("rtx4090", "RTX 4090", "Ada", "8.9"),
        sms=128,
        ghz=2.52,
        tflops=(165.2, 165.2, 82.6),
        gigabytes_per_second=1008,
        mib=24_564,
        l2=(72, 72),
        sheet="NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090",
        effective=WHOLE,
        memory=SMI + "as printed in a report on RLinf, November 2025",
    ),
    _nvidia(
        *("l4", "L4", "Ada", "8.9"),
        sms=58,
        ghz=2.04,
        tflops=(121, 121, 30.3),
        gigabytes_per_second=300,
        mib=23_034,
        l2=(48, 48),
        sheet="NVIDIA L4 datasheet (242 TFLOP/s with sparsity); Ada architecture whitepaper",
        effective=WHOLE,
    ),
    _nvidia(
        *("l40s", "L40S", "Ada", "8.9"),
        sms=142,
        ghz=2.52,
        tflops=(366.5, 366.5, 91.6),
        gigabytes_per_second=864,
        mib=46_068,
        l2=(96, 96),
        sheet="NVIDIA L40S datasheet (733 TFLOP/s with sparsity, of which half is dense; it also prints 362)",
        effective=WHOLE,
    ),
    _nvidia(
        *("h100", "H100 SXM", "Hopper", "9.0"),
        sms=132,
        ghz=1.83,
        tflops=(989.4, 989.4, 66.9),
        gigabytes_per_second=3350,
        mib=81_079,
        l2=(50, 25),
        sheet="NVIDIA H100 SXM datasheet; H100 architecture whitepaper",
        effective=COUNTED_HALF,
        l2_clock=(HOPPER_L2_CLOCK, HOPPER_L2),
        memory="PyTorch, in the recording: {:,.0f} MiB (80 GB on the data sheet)",
    ),
    _nvidia(
        *("h200", "H200", "Hopper", "9.0"),
        sms=132,
        ghz=1.83,
        tflops=(989.4, 989.4, 66.9),
        gigabytes_per_second=4800,
        mib=143_155.9375,
        l2=(60, 30),
        sheet="NVIDIA H200 SXM datasheet; L2 as its driver reports it (50 MB in the H100 whitepaper)",
        effective=COUNTED_HALF,
        l2_clock=(HOPPER_L2_CLOCK, H200_L2),
        memory="PyTorch, in the recording: {:,.0f} MiB (141 GB on the data sheet)",
    ),
    _nvidia(
        *("gh200", "GH200", "Hopper", "9.0"),
        sms=132,
        ghz=1.83,
        tflops=(989.4, 989.4, 66.9),
        gigabytes_per_second=4000,
        mib=97_871,
        l2=(60, 30),
        sheet="NVIDIA GH200 datasheet, 96 GB HBM3: the GPU alone",
        effective=HALF,
        l2_clock=(HOPPER_L2_CLOCK, HOPPER_L2),
        memory=PRINTED,
    ),
    _nvidia(
        *("b200", "B200", "Blackwell", "10.0"),
        sms=148,
        ghz=1.86,
        tflops=(2250, 2250, 75),
        gigabytes_per_second=8000,
        mib=183_359,
        l2=(126, 63),
        sheet="NVIDIA HGX B200 datasheet (1,000 W); SMs and L2 as its driver reports them",
        effective=HALF,
        memory=PRINTED,
    ),
    _nvidia(
        *("b300", "B300", "Blackwell Ultra", "10.3"),
        sms=148,
        ghz=1.86,
        tflops=(2250, 2250, 75),
        gigabytes_per_second=7700,
        mib=275_040,
        l2=(126, 63),
        sheet=(
            "NVIDIA Blackwell Ultra datasheet, HGX B300: 7.7 TB/s, 62 for eight (8 TB/s is a GB300's); "
            "SMs and L2 as its driver reports them; exponentials twice a B200's"
        ),
        effective=HALF,
        memory=SMI + "as NVIDIA's aiconfigurator has it (b300_sxm.yaml)",
    ),
    _nvidia(
        *("rtx5090", "RTX 5090", "Blackwell", "12.0"),
        sms=170,
        ghz=2.407,
        tflops=(209.5, 209.5, 104.8),
        gigabytes_per_second=1792,
        mib=32_607,
        l2=(96, 96),
        sheet="NVIDIA RTX Blackwell GPU architecture whitepaper, GeForce RTX 5090",
        effective=WHOLE,
        memory=SMI + "as printed in reports on club-3090, 2026",
    ),
    Gpu(
        key="mi300x",
        name="MI300X",
        architecture="CDNA 3",
        sms=304,
        blocks_sm=32,
        shared_bytes_block=64 * KIB,
        shared_bytes_sm=64 * KIB,
        register_bytes_sm=512 * KIB,
        exponentials_per_clock=16,
        shared_bytes_per_clock=128,
        l2_bytes=256 * MIB,
        l2_effective_bytes=256 * MIB,
        l2_bytes_per_clock=8192,
        memory_bytes=206_141_652_992,
        memory_bytes_per_second=5.325e12,
        clock_hz=2.1e9,
        matrix_flops=_peaks(1307.4, 1307.4, 163.4),
        sources=MappingProxyType(
            {
                "SMs, clock, peaks, bandwidth": "AMD Instinct MI300X data sheet; an SM is a compute unit",
                "blocks and shared memory": "CDNA 3 whitepaper: 64 KiB of LDS each; blocks assumed",
                "memory": "rocm-smi: 206,141,652,992 B, as printed in a report on ROCm, 2025",
                "L2 to SMs": "CDNA 3 whitepaper: 17.2 TB/s of the Infinity Cache, 8,192 B per clock",
                "L2 for what all SMs share": "CDNA 3 whitepaper: 256 MB of Infinity Cache, taken whole",
            }
        ),
        limits=(
            "Counts of tiles, bytes requested and FLOPs hold for an MI300X. Its DRAM bytes take the Infinity "
            "Cache for L2 and leave out the eight L2 caches of 4 MB; its times take shares that an H200 "
            "reaches. No kernel of this project was ever run on one."
        ),
    ),
)
GPUS = MappingProxyType({gpu.key: gpu for gpu in _ALL})


def gpu_named(name: str) -> Gpu | None:
    """The preset of a GPU by the name that its driver gives it; None if there is none."""
    words = re.split(r"\W+", name.lower())
    joined = {*words, *("".join(words[start : start + 2]) for start in range(len(words)))}
    found = (gpu for gpu in GPUS.values() if joined.issuperset(gpu.key.split("-")))
    return max(found, key=lambda gpu: len(gpu.key), default=None)


def same_machine(gpu: Gpu, row: Mapping[str, Any]) -> bool:
    """Whether a row was measured on the GPU that the model is of."""
    return bool(row["cuda"]) and gpu_named(row["device"]) == gpu
