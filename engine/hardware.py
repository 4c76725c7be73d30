"""The GPUs that an experiment can be placed on: what one streaming multiprocessor and one memory system hold."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

KIB = 1024
MIB = 1024**2
GB = 10**9
GIB = 1024**3


@dataclass(frozen=True)
class Gpu:
    """One GPU as its vendor states it.

    Attributes:
        key: name in URLs and on the command line.
        name: name on a page.
        sms: streaming multiprocessors.
        shared_bytes_block: shared memory that one thread block can have, bytes.
        shared_bytes_sm: shared memory of one SM, bytes.
        register_bytes_sm: register file of one SM, bytes.
        l2_bytes: level-2 cache, bytes.
        l2_effective_bytes: capacity at which K and V start to be fetched again, bytes (each half of a
            Hopper or Ampere data-centre chip keeps its own copy).
        memory_bytes: device memory, bytes.
        memory_bytes_per_second: peak bandwidth of device memory, bytes/s.
        matrix_flops: dense tensor-core peak by dtype, FLOP/s, float32 accumulation.
        exponentials_per_second: peak rate of exp2, 1/s.
        source: where the figures come from.
    """

    key: str
    name: str
    sms: int
    shared_bytes_block: int
    shared_bytes_sm: int
    register_bytes_sm: int
    l2_bytes: int
    l2_effective_bytes: int
    memory_bytes: int
    memory_bytes_per_second: float
    matrix_flops: MappingProxyType
    exponentials_per_second: float
    source: str


def _gpu(
    key, name, sms, block_kib, sm_kib, l2_mb, l2_effective_mb, memory_gb, bandwidth_gbs, tflops, ghz, source
):
    half, single, brain = tflops
    return Gpu(
        key=key,
        name=name,
        sms=sms,
        shared_bytes_block=block_kib * KIB,
        shared_bytes_sm=sm_kib * KIB,
        register_bytes_sm=256 * KIB,
        l2_bytes=l2_mb * MIB,
        l2_effective_bytes=l2_effective_mb * MIB,
        memory_bytes=memory_gb * GB,
        memory_bytes_per_second=bandwidth_gbs * 1e9,
        matrix_flops=MappingProxyType(
            {"float16": half * 1e12, "float32": single * 1e12, "bfloat16": brain * 1e12}
        ),
        exponentials_per_second=16 * sms * ghz * 1e9,
        source=source,
    )


GPUS = MappingProxyType(
    {
        gpu.key: gpu
        for gpu in (
            _gpu("t4", "T4", 40, 64, 64, 4, 4, 16, 320, (65, 8.1, 8.1), 1.59, "NVIDIA Turing whitepaper"),
            _gpu(
                "a100",
                "A100 80 GB",
                108,
                163,
                164,
                40,
                20,
                80,
                2039,
                (312, 19.5, 312),
                1.41,
                "NVIDIA A100 datasheet",
            ),
            _gpu(
                "rtx4090",
                "RTX 4090",
                128,
                99,
                100,
                72,
                72,
                24,
                1008,
                (165.2, 82.6, 165.2),
                2.52,
                "NVIDIA Ada whitepaper",
            ),
            _gpu(
                "h100",
                "H100 SXM",
                132,
                227,
                228,
                50,
                25,
                80,
                3350,
                (989, 67, 989),
                1.83,
                "NVIDIA H100 datasheet",
            ),
            _gpu(
                "h200",
                "H200",
                132,
                227,
                228,
                60,
                32,
                141,
                4800,
                (989, 67, 989),
                1.83,
                "NVIDIA H200 datasheet",
            ),
            _gpu(
                "b200",
                "B200",
                148,
                227,
                228,
                126,
                63,
                180,
                8000,
                (2250, 75, 2250),
                1.85,
                "NVIDIA B200 datasheet",
            ),
        )
    }
)
