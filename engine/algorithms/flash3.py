"""FlashAttention-3: as FlashAttention-2, but the key blocks come from the last to the first, in own blocks.

Jay Shah et al., arXiv 2407.08608, Algorithm 2. What it does at the same time is not a matter of the order:
see its `Pipeline` and `engine.studies.warp_groups`.
"""

from dataclasses import replace

import numpy as np

from engine.algorithms import flash2
from engine.algorithms.record import Algorithm, Part, Pipeline, loaded
from engine.problem.bounds import blocks
from engine.problem.hardware import Gpu
from engine.problem.problem import Problem, Tiling
from engine.schedule.schedule import Schedule
from engine.schedule.step import Operation, Tensor
from kernels.tilings import flash3 as tilings
from kernels.tilings.flash3 import FEW_KEYS, STEP, TILING, V_TILING

CONSUMER_ROWS = 64  # query rows of a warp group
BLOCKS = {  # query, key rows by head dimension
    head_dim: (CONSUMER_ROWS * each["CONSUMERS"], each["BLOCK_KV"]) for head_dim, each in TILING.items()
}
KV_BUFFERS = 2  # for K and for V: one fills while the other is used
LARGEST_BUFFERED = 128  # head dimension up to which there is a second Q buffer, for the next tile's
COARSE_CAPS = 8.0, 64.0  # that its tanh, from exponentials, is exact enough for


def schedule(problem: Problem, tiling: Tiling) -> Schedule:
    """One head: each query block stays on the chip while the key blocks that it sees pass by, last first."""
    forward = flash2.schedule(problem, tiling)
    (phase,) = forward.phases
    before, each = (  # the same steps, loads by TMA
        tuple(replace(step, boxed=step.operation == Operation.LOAD) for step in steps)
        for steps in (phase.before, phase.each)
    )
    boxes = _boxes(problem, tiling) if _begin_with_queries(problem, tiling) else None
    return replace(forward, phases=(replace(phase, before=before, each=each, reverse=True, boxes=boxes),))


def _begin_with_queries(problem: Problem, tiling: Tiling) -> bool:
    """Whether key blocks begin where the query block stands, not at key 0: three consumers, a window.

    Not where a window is up to CONSUMER_ROWS keys longer than whole blocks: it would take one more of them.
    """
    mask, width = problem.mask, tiling.block_kv
    if mask.window is None or mask.packed or mask.ahead or (tiling.block_q, width) != BLOCKS[64]:
        return False
    past_whole = (mask.window - 1) % width
    return width <= mask.window < problem.seq_kv and problem.offset >= 0 and past_whole >= CONSUMER_ROWS


def _boxes(problem: Problem, tiling: Tiling) -> np.ndarray:
    """[query blocks] int64: the key blocks of each that begin where it stands; some before key 0 in part."""
    stands = problem.positions(np.arange(0, problem.seq_q, tiling.block_q))
    first = np.maximum(stands - problem.mask.window + 1, 0)
    stop = np.minimum(stands + tiling.block_q, problem.seq_kv)
    return blocks(stop - stands, tiling.block_kv) - (first - stands) // tiling.block_kv


def tiling(problem: Problem, asked: Tiling, _gpu: Gpu) -> Tiling:
    """By head dimension: one in between is cut as the next larger is, and 64 as 128 where keys are few."""
    served = min((size for size in BLOCKS if size >= problem.head_dim), default=max(BLOCKS))
    if problem.head_dim_v:
        served = 128  # in whose blocks the kernel takes the pairs that it takes
    if problem.keys_seen < FEW_KEYS:
        served = max(served, 128)
    block_q, block_kv = BLOCKS[served]
    return replace(asked, block_q=block_q, block_kv=block_kv)


def heads_together(problem: Problem, taken: Tiling) -> int:
    """As many as their K and V fit L2, in equal sets; with a window, of those that a query sees."""
    bytes_of_keys = 2 * problem.mask.span(problem.seq_kv) * problem.head_dim * problem.itemsize
    return tilings.heads_together(problem.batch * problem.kv_heads, problem.group, bytes_of_keys)


def box_columns(problem: Problem) -> dict[Tensor, float]:
    """Boxes have the columns of the next larger head dim; beside a V of another Q and K come in pieces.

    Those of K and V have half of them, and a second box the others, where one would be half of zeros.
    """
    whole, of_v = (
        min((size for size in BLOCKS if size >= dim), default=dim)
        for dim in (problem.head_dim, problem.v_dim)
    )
    if problem.head_dim_v:
        return {Tensor.Q: 1.0, Tensor.K: 1.0, Tensor.V: of_v / problem.v_dim}
    tail = tilings.tail_columns(problem.head_dim, problem.v_dim) if whole in BLOCKS else None
    keys = (whole // 2 + tail if tail else whole) / problem.head_dim
    return {Tensor.Q: whole / problem.head_dim, Tensor.K: keys, Tensor.V: keys}


def parts(problem: Problem, taken: Tiling) -> dict[str, tuple[Part, ...]]:
    """The shared memory that the kernel sets aside: every buffer of Q, K and V."""
    q, k, v = (loaded(problem, taken, tensor) for tensor in (Tensor.Q, Tensor.K, Tensor.V))
    queries = 2 if problem.head_dim <= LARGEST_BUFFERED else 1
    return {"attention": (_times(q, queries), _times(k, KV_BUFFERS), _times(v, KV_BUFFERS))}


def unserved(problem: Problem, gpu: Gpu) -> str | None:
    """Why the kernel does not run a problem, in one sentence; None where it does."""
    if gpu.architecture != "Hopper":
        return f"The kernel needs a Hopper GPU, {gpu.with_article} is none: the model shows it as if it were."
    if problem.dtype not in ("float16", "bfloat16"):
        return f"The kernel takes float16 and bfloat16: {problem.dtype} is modelled only."
    if problem.head_dim_v and (problem.head_dim, problem.head_dim_v) not in V_TILING:
        pairs = " or ".join(f"{v_dim} beside {head_dim}" for head_dim, v_dim in V_TILING)
        return f"The kernel takes V of as many numbers as K, or of {pairs}: FlashAttention-2's takes any."
    if problem.softcap and not COARSE_CAPS[0] <= problem.softcap <= COARSE_CAPS[1]:
        caps = " to ".join(f"{cap:g}" for cap in COARSE_CAPS)
        return f"The kernel takes caps of {caps}: FlashAttention-2's takes any."
    if problem.head_dim not in range(min(BLOCKS), max(BLOCKS) + 1, STEP):
        return (
            f"The kernel takes head dimensions {min(BLOCKS)} to {max(BLOCKS)} in steps of {STEP}:"
            f" {problem.head_dim} is modelled only."
        )
    if problem.page_size and (
        problem.mask.kinds - {"causal"} or problem.terms or problem.head_dim not in BLOCKS
    ):
        return (
            "The kernel reads pages of head dims 64, 128 and 256, causal or without a mask: split keys any."
        )
    if problem.mask.packed:
        return "The kernel ends its tiles where a document ends: the model has tiles that go on over its end."
    return None


def _times(part: Part, buffers: int) -> Part:
    return part if buffers == 1 else Part(f"{buffers} × {part.label}", part.tensor, buffers * part.bytes)


ALGORITHM = Algorithm(
    *("flash3", "FlashAttention-3", "Flash 3", 3, schedule, parts),
    parts_words=(
        "(Model of the forward pass: the buffers of Q, K and V. The kernel holds S and O in registers.)"
    ),
    tensors=(Tensor.Q, Tensor.K, Tensor.V, Tensor.O, Tensor.LSE),
    tiling=tiling,
    chooses_tiling=True,
    heads_together=heads_together,
    box_columns=box_columns,
    heavy_first=True,
    pipeline=Pipeline(specialised=True, overlapped=True),
    techniques=frozenset(
        {"fusion", "queries", "tiling", "online", "deferred", "asynchronous", "specialised", "overlapped"}
    ),
    kernel="flash3",
    language="Gluon",
    unserved=unserved,
    code=60_000,
    pages=True,
    traced=True,
    differentiable=True,
)
