"""What computing P again in the backward pass costs, against keeping it from the forward pass."""

from engine.experiment import Experiment
from engine.model.device_memory import memory_parts
from engine.model.simulation import simulate
from engine.schedule.step import BY_KEY, Tensor, block_bytes

STORED, ONE_KERNEL, TWO_KERNELS = "P stored", "one kernel", "two kernels"
# matrix products of a tile: dV, dP, dQ, dK; with S again; with S and dP in both kernels
PRODUCTS = {STORED: 4, ONE_KERNEL: 5, TWO_KERNELS: 7}
FLOPS, KEPT, MOVED = "FLOPs", "kept in memory", "crosses HBM"


def recomputation(experiment: Experiment) -> dict[str, dict[str, int]]:
    """What the backward pass computes, keeps and moves, over batch and heads: with P stored, in two kernels.

    FLOPS: with P stored on all tiles, as unfused attention skips none. KEPT: bytes besides Q, K, V and O: P,
    or lse, delta and lse in units of log2. MOVED: bytes across HBM, with P stored those that must, else as
    modelled; keys that heads share pass once for all of them.
    """
    backward = experiment.changed(algorithm="backward")
    problem, traffic, memory = backward.problem, simulate(backward).traffic, memory_parts(backward)
    heads = problem.batch * problem.heads
    keys = sum(block_bytes(problem, tensor).of(0, problem.seq_kv) for tensor in BY_KEY)
    spared = keys * problem.batch * (problem.heads - problem.kv_heads)
    scores = problem.seq_q * problem.seq_kv * heads
    amounts = {
        FLOPS: (PRODUCTS[STORED] * scores * (problem.head_dim + problem.v_dim), traffic.flops),
        KEPT: (
            block_bytes(problem, Tensor.P).of(problem.seq_q, problem.seq_kv) * heads,
            sum(memory[tensor] for tensor in (Tensor.LSE, Tensor.DELTA, Tensor.LSE_LOG2)),
        ),
        MOVED: (standard_backward_bytes(backward) * heads - spared, traffic.dram.total),
    }
    return {name: dict(zip((STORED, TWO_KERNELS), pair, strict=True)) for name, pair in amounts.items()}


def standard_backward_bytes(experiment: Experiment) -> int:
    """Bytes that the unfused backward pass must move, one head, whatever the mask: 7 N^2 + 8 N d elements.

    P read twice, dP and dS written, dP read once, dS twice; dO, V, K, Q read (dO twice), dV, dQ, dK written.
    """
    problem = experiment.problem
    n, m, d = problem.seq_q, problem.seq_kv, (problem.head_dim + problem.v_dim) / 2
    return round(problem.itemsize * (7 * n * m + 4 * n * d + 4 * m * d))
