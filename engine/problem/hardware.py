"""The GPUs that an experiment can be placed on: what one streaming multiprocessor and one memory system hold.

Sources of a group of figures, besides each GPU's own `source`:
- shared memory of a block and of an SM, resident blocks, registers, exponentials a clock: CUDA C++
  Programming Guide, "Compute Capabilities" and "Arithmetic Instructions".
- register file: 64 Ki registers of 4 bytes an SM, the same table. Shared memory a clock: 32 banks of 4 bytes
  an SM (the same guide, "Shared Memory"); a Turing SM loads through 16 units instead of 32 (Turing
  architecture whitepaper), so half of that.
- effective L2: on an H200 measured, see `Gpu.l2_effective_bytes`; elsewhere assumed: about half where the
  chip has two L2 partitions, all of it where it has one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

KIB = 1024
MIB = 1024**2
GB = 10**9
EXPONENTIALS_PER_CLOCK = 16  # of one SM, compute capability 7.5 to 10.0


@dataclass(frozen=True)
class Gpu:
    """One GPU as its vendor states it.

    Attributes:
        key: name in URLs and on the command line.
        name: name on a page.
        architecture: its generation.
        sms: streaming multiprocessors.
        blocks_sm: thread blocks that one SM can hold at most.
        shared_bytes_block: shared memory that one thread block can have, bytes.
        shared_bytes_sm: shared memory of one SM, bytes.
        register_bytes_sm: register file of one SM, bytes.
        shared_bytes_per_clock: what one SM can load from its shared memory, bytes a clock.
        l2_bytes: level-2 cache, bytes.
        l2_effective_bytes: room in L2 for what all SMs use, bytes. Where the chip has two L2 partitions each
            keeps its own copy: an H200 with 60 MB behaves as if it had 34 (fitted to its DRAM counters with
            `engine.model.l2`, which says how much of it can be used before bytes are gone).
        memory_bytes: device memory, bytes.
        memory_bytes_per_second: peak bandwidth of device memory, bytes/s.
        clock_hz: the clock at which the tensor cores' peak is stated, Hz.
        matrix_flops: dense peak of a matrix product by dtype, FLOP/s, summed in float32: tensor cores for
            float16 and bfloat16, plain fused multiply-adds for float32 (and for bfloat16 on a T4).
        source: where the figures come from.
    """

    key: str
    name: str
    architecture: str
    sms: int
    blocks_sm: int
    shared_bytes_block: int
    shared_bytes_sm: int
    l2_bytes: int
    l2_effective_bytes: int
    memory_bytes: int
    memory_bytes_per_second: float
    clock_hz: float
    matrix_flops: MappingProxyType
    source: str
    register_bytes_sm: int = 256 * KIB
    shared_bytes_per_clock: int = 128

    @property
    def shared_bytes_per_second(self) -> float:
        """Peak rate at which all SMs load from their shared memories, bytes/s."""
        return self.shared_bytes_per_clock * self.sms * self.clock_hz

    @property
    def exponentials_per_second(self) -> float:
        """Peak rate of exp2, 1/s."""
        return EXPONENTIALS_PER_CLOCK * self.sms * self.clock_hz

    @property
    def with_article(self) -> str:
        """The name as a sentence takes it: a T4, an H200."""
        return ("an " if self.name[0] in "AEFHILMNORSX" else "a ") + self.name


def _peaks(float16: float, bfloat16: float, float32: float) -> MappingProxyType:
    """Peaks by dtype, given in TFLOP/s."""
    return MappingProxyType(
        {"float16": float16 * 1e12, "bfloat16": bfloat16 * 1e12, "float32": float32 * 1e12}
    )


_T4 = Gpu(
    key="t4",
    name="T4",
    architecture="Turing",
    sms=40,
    blocks_sm=16,
    shared_bytes_block=64 * KIB,
    shared_bytes_sm=64 * KIB,
    shared_bytes_per_clock=64,
    l2_bytes=4 * MIB,
    l2_effective_bytes=4 * MIB,
    memory_bytes=16 * GB,
    memory_bytes_per_second=320e9,
    clock_hz=1.59e9,
    matrix_flops=_peaks(65.1, 8.1, 8.1),
    source="NVIDIA T4 datasheet; Turing architecture whitepaper (no bfloat16 tensor cores)",
)
_A100 = Gpu(
    key="a100",
    name="A100",
    architecture="Ampere",
    sms=108,
    blocks_sm=32,
    shared_bytes_block=163 * KIB,
    shared_bytes_sm=164 * KIB,
    l2_bytes=40 * MIB,
    l2_effective_bytes=20 * MIB,
    memory_bytes=80 * GB,
    memory_bytes_per_second=2039e9,
    clock_hz=1.41e9,
    matrix_flops=_peaks(312, 312, 19.5),
    source="NVIDIA A100 80GB SXM datasheet; A100 architecture whitepaper",
)
_RTX_4090 = Gpu(
    key="rtx4090",
    name="RTX 4090",
    architecture="Ada",
    sms=128,
    blocks_sm=24,
    shared_bytes_block=99 * KIB,
    shared_bytes_sm=100 * KIB,
    l2_bytes=72 * MIB,
    l2_effective_bytes=72 * MIB,
    memory_bytes=24 * GB,
    memory_bytes_per_second=1008e9,
    clock_hz=2.52e9,
    matrix_flops=_peaks(165.2, 165.2, 82.6),
    source="NVIDIA Ada GPU architecture whitepaper, GeForce RTX 4090",
)
_H100 = Gpu(
    key="h100",
    name="H100 SXM",
    architecture="Hopper",
    sms=132,
    blocks_sm=32,
    shared_bytes_block=227 * KIB,
    shared_bytes_sm=228 * KIB,
    l2_bytes=50 * MIB,
    l2_effective_bytes=28 * MIB,
    memory_bytes=80 * GB,
    memory_bytes_per_second=3350e9,
    clock_hz=1.83e9,
    matrix_flops=_peaks(989.4, 989.4, 66.9),
    source="NVIDIA H100 SXM datasheet; H100 architecture whitepaper",
)
_H200 = Gpu(
    key="h200",
    name="H200",
    architecture="Hopper",
    sms=132,
    blocks_sm=32,
    shared_bytes_block=227 * KIB,
    shared_bytes_sm=228 * KIB,
    l2_bytes=60 * MIB,
    l2_effective_bytes=34 * MIB,
    memory_bytes=141 * GB,
    memory_bytes_per_second=4800e9,
    clock_hz=1.83e9,
    matrix_flops=_peaks(989.4, 989.4, 66.9),
    source="NVIDIA H200 SXM datasheet; L2 as its driver reports it (50 MB in the H100 whitepaper)",
)
_B200 = Gpu(
    key="b200",
    name="B200",
    architecture="Blackwell",
    sms=148,
    blocks_sm=32,
    shared_bytes_block=227 * KIB,
    shared_bytes_sm=228 * KIB,
    l2_bytes=126 * MIB,
    l2_effective_bytes=63 * MIB,
    memory_bytes=180 * GB,
    memory_bytes_per_second=8000e9,
    clock_hz=1.86e9,
    matrix_flops=_peaks(2250, 2250, 75),
    source="NVIDIA HGX B200 datasheet (1,000 W); SMs and L2 as its driver reports them",
)
GPUS = MappingProxyType({gpu.key: gpu for gpu in (_T4, _A100, _RTX_4090, _H100, _H200, _B200)})


def gpu_named(name: str) -> Gpu | None:
    """The preset of a GPU by the name that its driver gives it; None if there is none."""
    words = re.split(r"\W+", name.lower())
    joined = {"".join(words[start : start + 2]) for start in range(len(words))}
    return next((gpu for gpu in GPUS.values() if gpu.key in joined.union(words)), None)


def same_machine(gpu: Gpu, row: Mapping[str, Any]) -> bool:
    """Whether a row was measured on the GPU that the model is of."""
    return bool(row["cuda"]) and gpu_named(row["device"]) == gpu
