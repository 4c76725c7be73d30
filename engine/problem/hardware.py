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
  to 7.8 of that: one answer serves neighbours that request it at once, as blocks that share K and V do.
  Nobody states it for the others, which are given as much per SM as an H200 has.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.problem.calibration import READ, TOGETHER, Calibration, CalibrationError, load
from engine.problem.gpu import GB, KIB, MIB, Gpu, Reached
from engine.root import ROOT

__all__ = ["GB", "GPUS", "KIB", "LINKS", "MIB", "Gpu", "gpu_named", "offer", "same_machine"]

SHELF = ROOT / "assets" / "calibrations"  # of what lies here, a file under a preset's key is that preset's
OWN = "ATTENTION_TILES_GPU"  # in the environment: a calibration that is offered, here and in what this starts

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
ARCHITECTURES = {
    "7.5": "Turing", "8.0": "Ampere", "8.6": "Ampere", "8.7": "Ampere", "8.9": "Ada", "9.0": "Hopper",
    "10.0": "Blackwell", "10.3": "Blackwell Ultra", "12.0": "Blackwell", "12.1": "Blackwell",
}  # fmt: skip
REACHES = "what it reaches"  # of the sources
EXPONENTIALS = {"10.3": 32}  # per clock and SM; 16 elsewhere
SHARED_BYTES = {"7.5": 64}  # per clock and SM; 128 elsewhere: 32 banks of 4 bytes; Turing has 16 load units
SMI = "nvidia-smi: {:,} MiB, "
ASSUMED = "assumed: as much per SM as an H200's"
A100_L2 = A100_L2_CLOCK, "A100 architecture whitepaper: 5,120 B per clock"
H200_L2 = HOPPER_L2_CLOCK, "measured at the SMs of an H200, where one answer of L2 serves several"
HOPPER_L2 = HOPPER_L2_CLOCK, "taken: what the SMs of an H200 were measured to get"
WHOLE = "assumed: all of L2"
HALF = "assumed: half of L2, which has two partitions"
COUNTED_HALF = "half of L2, which has two partitions: by DRAM counters of an H100 and an H200"
# bytes/s in one direction of what joins two GPUs: NVIDIA's data sheets; PCI Express at 16 lanes
LINKS = MappingProxyType(
    {
        "PCIe 4": 32e9,
        "InfiniBand, 400 Gbit/s": 50e9,
        "PCIe 5": 64e9,
        "NVLink 3": 300e9,
        "NVLink 4": 450e9,
        "NVLink 5": 900e9,
    }
)
PRESETS = (
    # key, name, architecture, compute capability, SMs, GHz, TFLOP/s of float16, bfloat16 and float32, GB/s of
    # memory, MiB of it, MiB of L2 and what of them serves all SMs
    ("t4", "T4", "Turing", "7.5", 40, 1.59, (65.1, 8.1, 8.1), 320, 15_360, (4, 4)),
    ("a10", "A10", "Ampere", "8.6", 72, 1.695, (125, 125, 31.2), 600, 23_028, (6, 6)),
    ("a100-40gb", "A100 40 GB", "Ampere", "8.0", 108, 1.41, (312, 312, 19.5), 1555, 40_960, (40, 20)),
    ("a100", "A100", "Ampere", "8.0", 108, 1.41, (312, 312, 19.5), 2039, 81_920, (40, 20)),
    ("rtx3090", "RTX 3090", "Ampere", "8.6", 82, 1.695, (71.2, 71.2, 35.6), 936, 24_576, (6, 6)),
    ("rtx4090", "RTX 4090", "Ada", "8.9", 128, 2.52, (165.2, 165.2, 82.6), 1008, 24_564, (72, 72)),
    ("l4", "L4", "Ada", "8.9", 58, 2.04, (121, 121, 30.3), 300, 23_034, (48, 48)),
    ("l40s", "L40S", "Ada", "8.9", 142, 2.52, (366.5, 366.5, 91.6), 864, 46_068, (96, 96)),
    ("h100", "H100 SXM", "Hopper", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 3350, 81_079, (50, 25)),
    ("h200", "H200", "Hopper", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 4800, 143_155.9375, (60, 30)),
    ("gh200", "GH200", "Hopper", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 4000, 97_871, (60, 30)),
    ("b200", "B200", "Blackwell", "10.0", 148, 1.86, (2250, 2250, 75), 8000, 183_359, (126, 63)),
    ("b300", "B300", "Blackwell Ultra", "10.3", 148, 1.86, (2250, 2250, 75), 7700, 275_040, (126, 63)),
    ("rtx5090", "RTX 5090", "Blackwell", "12.0", 170, 2.407, (209.5, 209.5, 104.8), 1792, 32_607, (96, 96)),
)
SHEETS = {  # of SMs, clock, peaks and bandwidth
    "t4": "NVIDIA T4 datasheet; Turing architecture whitepaper (no bfloat16 tensor cores)",
    "a10": "NVIDIA A10 datasheet; GA102 architecture whitepaper",
    "a100-40gb": "NVIDIA A100 datasheet, 40 GB SXM; A100 architecture whitepaper",
    "a100": "NVIDIA A100 datasheet, 80 GB SXM; A100 architecture whitepaper",
    "rtx3090": "NVIDIA GA102 architecture whitepaper, GeForce RTX 3090",
    "rtx4090": "NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090",
    "l4": "NVIDIA L4 datasheet (242 TFLOP/s with sparsity); Ada architecture whitepaper",
    "l40s": "NVIDIA L40S datasheet (733 TFLOP/s with sparsity, of which half is dense; it also prints 362)",
    "h100": "NVIDIA H100 SXM datasheet; H100 architecture whitepaper",
    "h200": "NVIDIA H200 SXM datasheet; L2 as its driver reports it (50 MB in the H100 whitepaper)",
    "gh200": "NVIDIA GH200 datasheet, 96 GB HBM3: the GPU alone",
    "b200": "NVIDIA HGX B200 datasheet (1,000 W); SMs and L2 as its driver reports them",
    "b300": (
        "NVIDIA Blackwell Ultra datasheet, HGX B300: 7.7 TB/s, 62 for eight (8 TB/s is a GB300's); "
        "SMs and L2 as its driver reports them; exponentials twice a B200's"
    ),
    "rtx5090": "NVIDIA RTX Blackwell GPU architecture whitepaper, GeForce RTX 5090",
}
LISTED = SMI + "among the totals that Modal lists of its GPUs (modal-client, pull request 2797)"
MEMORY = {  # where it is not listed
    "rtx3090": SMI + "as printed in reports on club-3090, 2026",
    "rtx4090": SMI + "as printed in a report on RLinf, November 2025",
    "h100": "PyTorch, in the recording: {:,.0f} MiB (80 GB on the data sheet)",
    "h200": "PyTorch, in the recording: {:,.0f} MiB (141 GB on the data sheet)",
    "gh200": SMI + "as printed in public logs of several machines",
    "b200": SMI + "as printed in public logs of several machines",
    "b300": SMI + "as NVIDIA's aiconfigurator has it (b300_sxm.yaml)",
    "rtx5090": SMI + "as printed in reports on club-3090, 2026",
}
AT_FULL_RATE = {"matrix": 1.0, "power_slope": 0.0, "sustained_clock": 1.0}
HALVED = "products summed in float32 run at half of the tensor cores' rate, and nothing else limits them"
REACHED = {  # of GPUs that this project never measured, where something published says more than an H200
    "t4": (
        Reached(matrix=0.8 * 8.1 / 65.1),
        "Triton multiplies on a T4 without its tensor cores (Triton 3 has none before Ampere), in float32",
    ),
    "rtx3090": (Reached(**AT_FULL_RATE), HALVED),
    "rtx4090": (
        Reached(**AT_FULL_RATE | {"matrix": 1.025}, clock=1.025),
        f"{HALVED}; FlashAttention-2 reaches 169.3 TFLOP/s, for which the clock must be 2.58 GHz",
    ),
    "rtx5090": (
        Reached(**AT_FULL_RATE | {"matrix": 1.047}, clock=1.047),
        f"{HALVED}; attention reaches 219.4 TFLOP/s, for which the clock must be 2.52 GHz",
    ),
    "mi300x": (
        Reached(matrix=0.5, clock=0.531, power_slope=0.0, sustained_clock=1.0),
        "AMD, Measuring Max-Achievable FLOPs, part 2: 654 TFLOP/s in float16, at 1,115 MHz",
    ),
}
L2_CLOCK = {"a100-40gb": A100_L2, "a100": A100_L2, "h100": HOPPER_L2, "h200": H200_L2, "gh200": HOPPER_L2}
COUNTED = ("h100", "h200")  # whose L2 was seen to keep two copies


def _peaks(float16: float, bfloat16: float, float32: float) -> MappingProxyType:
    """Peaks by dtype, given in TFLOP/s."""
    return MappingProxyType(
        {"float16": float16 * 1e12, "bfloat16": bfloat16 * 1e12, "float32": float32 * 1e12}
    )


def _nvidia(key, name, architecture, capability, sms, ghz, tflops, gigabytes_per_second, mib, l2) -> Gpu:
    """One of PRESETS with its sources."""
    blocks, shared, block = CAPABILITIES[capability]
    clock, stated = L2_CLOCK.get(key, (L2_OF_AN_SM * sms, ASSUMED))
    effective = WHOLE if l2[0] == l2[1] else COUNTED_HALF if key in COUNTED else HALF
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
                "SMs, clock, peaks, bandwidth": SHEETS[key],
                "blocks and shared memory": f"CUDA C++ Programming Guide, compute capability {capability}",
                "memory": MEMORY.get(key, LISTED).format(mib),
                "L2 to SMs": stated,
                "L2 for what all SMs share": effective,
                **({REACHES: REACHED[key][1]} if key in REACHED else {}),
            }
        ),
        reached=REACHED[key][0] if key in REACHED else Reached(),
        target=f"sm_{capability.replace('.', '')}",
    )


_ALL = (
    *(_nvidia(*figures) for figures in PRESETS),
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
                REACHES: REACHED["mi300x"][1],
            }
        ),
        reached=REACHED["mi300x"][0],
        target="gfx942",
        limits=(
            "Counts of tiles, bytes requested and FLOPs hold for an MI300X. Its DRAM bytes take the Infinity "
            "Cache for L2 and leave out the eight L2 caches of 4 MB; its times take AMD's own rate of matrix "
            "products. This project's kernels are compiled for one, and were never run."
        ),
    ),
)
PRESET = MappingProxyType({gpu.key: gpu for gpu in _ALL})
_OFFERED = dict(PRESET)
GPUS = MappingProxyType(_OFFERED)  # presets, and what was calibrated
CALIBRATIONS: dict[str, Calibration] = {}  # by the key of its GPU
REFUSED: dict[Path, str] = {}  # why a file is not offered


def offer(path: Path) -> Gpu:
    """Offer the GPU of a calibration under its file's name; raises CalibrationError."""
    found, key = load(path), re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "calibrated"
    named = gpu_named(found.gpu)
    if key in PRESET and (named is None or named.key != key):
        raise CalibrationError(f"{path.name} is of another GPU than it is named for, {found.gpu}")
    CALIBRATIONS[key] = found
    _OFFERED[key] = calibrated(found, key)
    return _OFFERED[key]


def calibrated(found: Calibration, key: str) -> Gpu:
    """The GPU of a calibration: the vendor's figures where a preset has them, else what was measured."""
    named = gpu_named(found.gpu)
    base = PRESET[named.key] if named and named.sms == found.sms else _measured(found)
    when = f"calibrated {found.date[:10]}"
    own = {} if key == base.key else {"key": key, "name": f"{base.name}, {when}"}
    sources = {**base.sources, REACHES: f"{when}, {found.gpu}, driver {found.driver}"}
    return replace(base, **own, sources=MappingProxyType(sources), reached=found.reached(base))


def _measured(found: Calibration) -> Gpu:
    """A GPU that no preset knows, by its driver and by what was measured."""
    clock, per_clock = found.clock_hz or found.running_clock, found.per_clock
    of_float32 = 2 * per_clock("arithmetic", "multiply-add")
    flops = per_clock("products", "float16"), per_clock("products", "bfloat16"), of_float32
    names = {field.name for field in fields(Gpu)} - {"reached"}
    alike = {name: getattr(found, name) for name in names if hasattr(found, name)} | {"clock_hz": clock}
    alike["memory_bytes_per_second"] = found.memory_bytes_per_second or found.series["memory"][READ][-1][1]
    return replace(
        PRESET["h200"],
        **alike,
        name=found.gpu.removeprefix("NVIDIA "),
        architecture=ARCHITECTURES.get(found.capability, ""),
        blocks_sm=CAPABILITIES.get(found.capability, (32,))[0],
        exponentials_per_clock=int(per_clock("exponentials", "exp2")),
        shared_bytes_per_clock=int(per_clock("shared", "load")),
        l2_bytes_per_clock=found.best("memory", TOGETHER) / clock,
        matrix_flops=_peaks(*(each * found.sms * clock / 1e12 for each in flops)),
        sources=MappingProxyType(dict.fromkeys(PRESET["h200"].sources, "measured, or as its driver says")),
        target=f"sm_{found.capability.replace('.', '')}",
    )


def gpu_named(name: str) -> Gpu | None:
    """The preset of a GPU by the name that its driver gives it; None if there is none."""
    words = re.split(r"\W+", name.lower())
    joined = {*words, *("".join(words[start : start + 2]) for start in range(len(words)))}
    keys = [key for key in PRESET if joined.issuperset(key.split("-"))]
    return GPUS[max(keys, key=len)] if keys else None


def same_machine(gpu: Gpu, row: Mapping[str, Any]) -> bool:
    """Whether a row was measured on the GPU that the model is of."""
    same = gpu_named(row["device"])
    return bool(row["cuda"]) and same is not None and same.key == gpu.key


def _offer_all() -> None:
    files = sorted(SHELF.glob("*.json")) if SHELF.exists() else []
    for path in (*files, *(Path(name) for name in os.environ.get(OWN, "").split(os.pathsep) if name)):
        try:
            offer(path)
        except CalibrationError as error:
            REFUSED[path] = str(error)


_offer_all()
