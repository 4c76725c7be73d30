"""FlashAttention-4: two query tiles in flight, sums in tensor memory, fewer exponentials and rescales.

Ted Zadouri et al., arXiv 2603.05451. The order of the tiles is FlashAttention-3's. What happens at the same
time inside a block is in `engine.studies.tensor_memory`; blocks, stages, threshold and the share of
polynomials are those of the public kernel for compute capability 10.0 (flash_attn/cute, August 2026).
"""

from dataclasses import replace

from engine.algorithms import flash3
from engine.algorithms.record import Algorithm, Part, Pipeline, loaded
from engine.problem.gpu import KIB
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.schedule import Schedule
from engine.schedule.step import Tensor

TILE, KEYS = 128, 128  # rows of a query tile, a row a thread of its softmax group; keys of a block
TENSOR_MEMORY = 512  # columns of 128 float32 that an SM has: PTX ISA, tcgen05
BUFFERS = 224 * KIB  # that Q, O, and K and V share in turns
THRESHOLD = 8.0  # rise of a maximum in log2 up to which what is summed stays as it is
POLYNOMIALS = 24 / KEYS  # of a row's exponentials, without a mask; under a causal one 16


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each block of two query tiles stays, the key blocks that it sees pass by, last first."""
    last_first = flash3.schedule(problem, tiling)
    return replace(last_first, phases=(replace(last_first.phases[0], boxes=None),))


def tiles(problem: Problem) -> int:
    """Query tiles that a block has in flight: two where their S and O fit tensor memory."""
    return 2 if problem.seq_q > TILE and 2 * (KEYS + problem.v_dim) <= TENSOR_MEMORY else 1


def tiling(problem: Problem, asked: Tiling, _gpu: Gpu) -> Tiling:
    return replace(asked, block_q=tiles(problem) * TILE, block_kv=KEYS)


def stages(problem: Problem, taken: Tiling) -> int:
    """Buffers that K and V pass in turns: as many as fit beside Q and O."""
    each = taken.block_kv * max(problem.head_dim, problem.v_dim) * problem.itemsize
    return max(2, (BUFFERS - _queries(problem, taken)) // each)


def _queries(problem: Problem, taken: Tiling) -> int:
    """Bytes of Q and of O on its way out, which lies in Q's place where Q is wide."""
    q, o = (taken.block_q * dim * problem.itemsize for dim in (problem.head_dim, problem.v_dim))
    return max(q, o) if problem.head_dim > flash3.LARGEST_BUFFERED else q + o


def parts(problem: Problem, taken: Tiling) -> dict[str, tuple[Part, ...]]:
    """The shared memory that it sets aside; S, P and O of both tiles lie in tensor memory."""
    wide = max((loaded(problem, taken, each) for each in (Tensor.K, Tensor.V)), key=lambda part: part.bytes)
    count = stages(problem, taken)
    return {
        "attention": (
            Part("Q, and O on its way out", Tensor.Q, _queries(problem, taken)),
            Part(f"{count} × K or V", Tensor.K, count * wide.bytes),
        )
    }


def unserved(problem: Problem, gpu: Gpu) -> str | None:
    """That it is modelled only."""
    return "FlashAttention-4 is modelled only: its kernel (kernels/blackwell) was never run on the chip."


ALGORITHM = Algorithm(
    *("flash4", "FlashAttention-4", "Flash 4", 4, schedule, parts),
    parts_words="(Model of the forward pass: the buffers of Q, K, V and O. S, P and O lie in tensor memory.)",
    tensors=flash3.ALGORITHM.tensors,
    tiling=tiling,
    chooses_tiling=True,
    heads_together=flash3.heads_together,
    heavy_first=True,
    pipeline=Pipeline(specialised=True, overlapped=True, polynomials=POLYNOMIALS, threshold=THRESHOLD),
    unserved=unserved,
)
