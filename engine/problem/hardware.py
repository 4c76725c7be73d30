"""The GPUs that an experiment can be placed on, with the source of each group of figures.

- Shared memory and its banks, resident blocks, registers, exponentials per clock: CUDA C++ Programming Guide,
  "Compute Capabilities" and "Arithmetic Instructions" (AMD: CDNA 3 architecture whitepaper, ISA reference).
- Tensor and float32 peaks, memory bandwidth: the vendor's data sheet or architecture whitepaper, dense.
- Memory: what the driver reports, which is not what is printed on the box: MiB in nvidia-smi, as public
  printouts of it have them; each preset says whose.
- Effective L2: half where the chip has two L2 partitions, as the counters of an H100 and an H200 have it, see
  `Gpu.l2_effective_bytes`; all of it where it has one.
- L2 to SMs: 5,120 B per clock on an A100 by its whitepaper. Of a Hopper GPU what an H200's SMs took that
  read the same bytes again and again: 13.5 TB/s of 4 MiB, 11.5 to 12.7 of 8 to 24. Its slices gave 7.0
  to 7.8 of that: one answer serves neighbours that request it at once, as blocks that share K and V do.
  Nobody states it for the others, which are given as much per SM as an H200 has.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from engine.decoded import FileError
from engine.problem.cache import keep_file, kept_file
from engine.problem.calibration import READ, TOGETHER, Calibration, load, loads
from engine.problem.gpu import GB, KIB, MIB, Gpu, Reached
from engine.root import ROOT

__all__ = ["GB", "GPUS", "KIB", "LINKS", "MIB", "Gpu", "gpu_named", "offer", "same_machine"]

SHELF = ROOT / "assets" / "calibrations"  # of what lies here, a file under a preset's key is that preset's
OWN = "ATTENTION_TILES_GPU"  # in the environment: a calibration that is offered, here and in what this starts
BROUGHT = "own-"  # keys of GPUs whose calibration a visitor uploaded, which are listed nowhere

A100_L2_CLOCK, HOPPER_L2_CLOCK = 5120, 13.5e12 / 1.83e9  # bytes/clock
L2_OF_AN_SM = HOPPER_L2_CLOCK / 132  # where nobody states it
# by compute capability, or AMD's target: generation, blocks per SM, KiB of shared memory of an SM and a block
FAMILIES = {
    "7.5": ("Turing", 16, 64, 64),
    "8.0": ("Ampere", 32, 164, 163),
    "8.6": ("Ampere", 16, 100, 99),
    "8.7": ("Ampere", 16, 164, 163),
    "8.9": ("Ada", 24, 100, 99),
    "9.0": ("Hopper", 32, 228, 227),
    "10.0": ("Blackwell", 32, 228, 227),
    "10.3": ("Blackwell Ultra", 32, 228, 227),
    "12.0": ("Blackwell", 24, 100, 99),
    "12.1": ("Blackwell", 24, 100, 99),
    "gfx942": ("CDNA 3", 32, 64, 64),
}
REACHES = "what it reaches"  # of the sources
EXPONENTIALS = {"10.3": 32}  # per clock and SM; 16 elsewhere
SHARED_BYTES = {"7.5": 64}  # per clock and SM; 128 elsewhere: 32 banks of 4 bytes; Turing has 16 load units
ASSUMED = "assumed: as much per SM as an H200's"
A100_L2 = A100_L2_CLOCK, "A100 architecture whitepaper: 5,120 B per clock"
H200_L2 = HOPPER_L2_CLOCK, "measured at the SMs of an H200, where one answer of L2 serves several"
HOPPER_L2 = HOPPER_L2_CLOCK, "taken: what the SMs of an H200 were measured to get"
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
MODAL = "by nvidia-smi, among the totals that Modal lists of its GPUs (modal-client, pull request 2797)"
CLUB = "by nvidia-smi, as printed in reports on club-3090, 2026"
LOGS = "by nvidia-smi, as printed in public logs of several machines"
PRESETS = (
    # key, name, compute capability, SMs, GHz, TFLOP/s of float16, bfloat16 and float32, GB/s of memory, MiB
    # of L2 and what of them serves all SMs, MiB of memory and by whose printout, source of the rest
    ("t4", "T4", "7.5", 40, 1.59, (65.1, 8.1, 8.1), 320, (4, 4), 15_360, MODAL,
     "NVIDIA T4 datasheet; Turing architecture whitepaper (no bfloat16 tensor cores)"),
    ("a10", "A10", "8.6", 72, 1.695, (125, 125, 31.2), 600, (6, 6), 23_028, MODAL,
     "NVIDIA A10 datasheet; GA102 architecture whitepaper"),
    ("a5000", "RTX A5000", "8.6", 64, 1.695, (111.1, 111.1, 27.8), 768, (6, 6), 24_564,
     "by nvidia-smi, as printed in akash-network/provider-configs, pull request 83",
     "NVIDIA RTX A5000 datasheet (222.2 TFLOP/s with sparsity); GA102 architecture whitepaper"),
    ("a100-40gb", "A100 40 GB", "8.0", 108, 1.41, (312, 312, 19.5), 1555, (40, 20), 40_960, MODAL,
     "NVIDIA A100 datasheet, 40 GB SXM; A100 architecture whitepaper"),
    ("a100", "A100", "8.0", 108, 1.41, (312, 312, 19.5), 2039, (40, 20), 81_920, MODAL,
     "NVIDIA A100 datasheet, 80 GB SXM; A100 architecture whitepaper"),
    ("rtx3090", "RTX 3090", "8.6", 82, 1.695, (71.2, 71.2, 35.6), 936, (6, 6), 24_576, CLUB,
     "NVIDIA GA102 architecture whitepaper, GeForce RTX 3090"),
    ("rtx4090", "RTX 4090", "8.9", 128, 2.52, (165.2, 165.2, 82.6), 1008, (72, 72), 24_564,
     "by nvidia-smi, as printed in a report on RLinf, November 2025",
     "NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090"),
    ("l4", "L4", "8.9", 58, 2.04, (121, 121, 30.3), 300, (48, 48), 23_034, MODAL,
     "NVIDIA L4 datasheet (242 TFLOP/s with sparsity); Ada architecture whitepaper"),
    ("l40s", "L40S", "8.9", 142, 2.52, (366.5, 366.5, 91.6), 864, (96, 96), 46_068, MODAL,
     "NVIDIA L40S datasheet (733 TFLOP/s with sparsity, of which half is dense; it also prints 362)"),
    ("h100", "H100 SXM", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 3350, (50, 25), 85_017_493_504 / MIB,
     "by PyTorch, in the recording (80 GB on the data sheet)",
     "NVIDIA H100 SXM datasheet; H100 architecture whitepaper"),
    ("h200", "H200", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 4800, (60, 30), 143_155.9375,
     "by PyTorch, in the recording (141 GB on the data sheet)",
     "NVIDIA H200 SXM datasheet; L2 as its driver reports it (50 MB in the H100 whitepaper)"),
    ("gh200", "GH200", "9.0", 132, 1.83, (989.4, 989.4, 66.9), 4000, (60, 30), 97_871, LOGS,
     "NVIDIA GH200 datasheet, 96 GB HBM3: the GPU alone"),
    ("b200", "B200", "10.0", 148, 1.86, (2250, 2250, 75), 8000, (126, 63), 183_359, LOGS,
     "NVIDIA HGX B200 datasheet (1,000 W); SMs and L2 as its driver reports them"),
    ("b300", "B300", "10.3", 148, 1.86, (2250, 2250, 75), 7700, (126, 63), 275_040,
     "as NVIDIA's aiconfigurator has it (b300_sxm.yaml)",
     "NVIDIA Blackwell Ultra datasheet, HGX B300: 7.7 TB/s, 62 for eight (8 TB/s is a GB300's); SMs and L2 "
     "as its driver reports them; exponentials twice a B200's"),
    ("rtx5090", "RTX 5090", "12.0", 170, 2.407, (209.5, 209.5, 104.8), 1792, (96, 96), 32_607, CLUB,
     "NVIDIA RTX Blackwell GPU architecture whitepaper, GeForce RTX 5090"),
    ("mi300x", "MI300X", "gfx942", 304, 2.1, (1307.4, 1307.4, 163.4), 5325, (256, 256), 206_141_652_992 / MIB,
     "by rocm-smi, as printed in a report on ROCm, 2025",
     "AMD Instinct MI300X data sheet; an SM is a compute unit"),
)  # fmt: skip
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
L2_CLOCK = {
    **{"a100-40gb": A100_L2, "a100": A100_L2, "h100": HOPPER_L2, "h200": H200_L2, "gh200": HOPPER_L2},
    "mi300x": (8192, "CDNA 3 whitepaper: 17.2 TB/s of the Infinity Cache, 8,192 B per clock"),
}
COUNTED = ("h100", "h200")  # whose L2 was seen to keep two copies
AMD_SOURCES = {
    "blocks and shared memory": "CDNA 3 whitepaper: 64 KiB of LDS each; blocks assumed",
    "L2 for what all SMs share": "CDNA 3 whitepaper: 256 MB of Infinity Cache, taken whole",
}
AMD_LIMITS = (
    "Counts of tiles, bytes requested and FLOPs hold for an MI300X. Its DRAM bytes take the Infinity Cache "
    "for L2 and leave out the eight L2 caches of 4 MB; its times take AMD's own rate of matrix products. "
    "This project's kernels are compiled for one, and were never run."
)


def _peaks(float16: float, bfloat16: float, float32: float) -> MappingProxyType:
    """Peaks by dtype, given in TFLOP/s."""
    return MappingProxyType(
        {"float16": float16 * 1e12, "bfloat16": bfloat16 * 1e12, "float32": float32 * 1e12}
    )


def _preset(key, name, family, sms, ghz, tflops, gigabytes_per_second, l2, mib, printed, sheet) -> Gpu:
    """One of PRESETS with its sources."""
    architecture, blocks, shared, block = FAMILIES[family]
    amd = not family[0].isdigit()
    clock, stated = L2_CLOCK.get(key, (L2_OF_AN_SM * sms, ASSUMED))
    halves = "by DRAM counters of an H100 and an H200" if key in COUNTED else "assumed"
    sources = {
        "SMs, clock, peaks, bandwidth": sheet,
        "blocks and shared memory": f"CUDA C++ Programming Guide, compute capability {family}",
        "memory": f"{mib:,.0f} MiB, {printed}",
        "L2 to SMs": stated,
        "L2 for what all SMs share": (
            "assumed: all of L2" if l2[0] == l2[1] else f"half of L2, which has two partitions: {halves}"
        ),
    }
    reached, published = REACHED.get(key, (Reached(), ""))
    sources |= (AMD_SOURCES if amd else {}) | ({REACHES: published} if published else {})
    return Gpu(
        key=key,
        name=name,
        architecture=architecture,
        sms=sms,
        blocks_sm=blocks,
        shared_bytes_block=block * KIB,
        shared_bytes_sm=shared * KIB,
        register_bytes_sm=(512 if amd else 256) * KIB,
        exponentials_per_clock=EXPONENTIALS.get(family, 16),
        shared_bytes_per_clock=SHARED_BYTES.get(family, 128),
        l2_bytes=l2[0] * MIB,
        l2_effective_bytes=l2[1] * MIB,
        l2_bytes_per_clock=clock,
        memory_bytes=round(mib * MIB),
        memory_bytes_per_second=gigabytes_per_second * 1e9,
        clock_hz=ghz * 1e9,
        matrix_flops=_peaks(*tflops),
        sources=MappingProxyType(sources),
        reached=reached,
        scheduled=64 if amd else 128,  # a wave of 64 takes one of four units of 16 lanes for four clocks
        target=family if amd else f"sm_{family.replace('.', '')}",
        limits=AMD_LIMITS if amd else "",
    )


PRESET = MappingProxyType({figures[0]: _preset(*figures) for figures in PRESETS})


class _Offered(dict):
    """GPUs by their keys. One that a visitor brought is found by its key, here and in what this starts."""

    def __missing__(self, key: str) -> Gpu:
        return _brought(str(key))

    def __contains__(self, key: object) -> bool:
        try:
            return bool(self[key])
        except KeyError:
            return False


@lru_cache(64)
def _brought(key: str) -> Gpu:
    """The GPU of an uploaded calibration; raises KeyError."""
    if not re.fullmatch(BROUGHT + "[0-9a-f]{12}", key):
        raise KeyError(key)
    try:
        return calibrated(load(kept_file(key.removeprefix(BROUGHT), ".json")), key)
    except FileError as error:
        raise KeyError(key) from error


_OFFERED = _Offered(PRESET)
GPUS = MappingProxyType(_OFFERED)  # presets, and what was calibrated
REFUSED: dict[Path, str] = {}  # why a file is not offered


def offer(path: Path) -> Gpu:
    """Offer the GPU of a calibration under its file's name; raises FileError."""
    found, key = load(path), re.sub(r"[^a-z0-9]+", "-", path.stem.lower()).strip("-") or "calibrated"
    named = gpu_named(found.gpu)
    if key in PRESET and (named is None or named.key != key):
        raise FileError(f"{path.name} is of another GPU than it is named for, {found.gpu}")
    _OFFERED[key] = calibrated(found, key)
    return _OFFERED[key]


def bring(data: bytes, name: str) -> Gpu:
    """The GPU of a calibration that a visitor uploaded, for whoever knows its key; raises FileError."""
    loads(data, name)
    return GPUS[BROUGHT + keep_file(data, ".json")]


def calibrated(found: Calibration, key: str) -> Gpu:
    """The GPU of a calibration: the vendor's figures where a preset has them, else what was measured."""
    named = gpu_named(found.gpu)
    base = PRESET[named.key] if named and named.sms == found.sms else _measured(found)
    when = f"calibrated {found.date[:10]}"
    own = {} if key == base.key else {"key": key, "name": f"{base.name}, {when}"}
    sources = {**base.sources, REACHES: f"{when}, {found.gpu}, driver {found.driver}"}
    return replace(
        base, **own, sources=MappingProxyType(sources), reached=found.reached(base), calibration=found
    )


def _measured(found: Calibration) -> Gpu:
    """A GPU that no preset knows, by its driver and by what was measured."""
    clock, per_clock = found.clock_hz or found.running_clock, found.per_clock
    of_float32 = 2 * per_clock("arithmetic", "multiply-add")
    flops = per_clock("products", "float16"), per_clock("products", "bfloat16"), of_float32
    names = {field.name for field in fields(Gpu)} - {"reached"}
    alike = {name: getattr(found, name) for name in names if hasattr(found, name)} | {"clock_hz": clock}
    alike["memory_bytes_per_second"] = found.memory_bytes_per_second or found.series["memory"][READ][-1][1]
    architecture, blocks, *_ = FAMILIES.get(found.capability, ("", 32))
    return replace(
        PRESET["h200"],
        **alike,
        name=found.gpu.removeprefix("NVIDIA "),
        architecture=architecture,
        blocks_sm=blocks,
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
        except FileError as error:
            REFUSED[path] = str(error)


_offer_all()
