"""What computing P again in the backward pass costs, against keeping it from the forward pass."""

from dataclasses import dataclass

from engine.experiment import Experiment
from engine.model.device_memory import memory_parts
from engine.model.simulation import simulate
from engine.problem.problem import Problem
from engine.schedule.schedule import Schedule
from engine.schedule.step import BY_KEY, Amount, Operation, Tensor, block_bytes

FORWARD_PRODUCTS = 2  # a tile: S = Q K^T and P V
STORED, ONE_KERNEL, TWO_KERNELS = "P stored", "one kernel", "two kernels"
# a tile: dV, dP, dQ, dK; with S again; with S and dP in both kernels
PRODUCTS = {STORED: 4, ONE_KERNEL: 5, TWO_KERNELS: 7}
OF_V = {STORED: 2, ONE_KERNEL: 2, TWO_KERNELS: 3}  # of them, those whose FLOPs go by the head dim of V
FLOPS_RATIO = {way: count / FORWARD_PRODUCTS for way, count in PRODUCTS.items()}  # over the forward pass's


@dataclass(frozen=True)
class Recomputation:
    """Three ways through the backward pass, over batch and heads; by STORED, ONE_KERNEL and TWO_KERNELS."""

    # matrix FLOPs, on the tiles that the mask leaves; with P stored on all of them, as unfused attention
    # skips none
    flops: dict[str, int]
    # bytes in memory for it besides Q, K, V and O: P, or lse, delta and lse in units of log2
    kept: dict[str, int]
    # bytes that pass DRAM: what the unfused pass must move, and what two kernels move as modelled. (What one
    # kernel's dQ costs DRAM is not modelled.)
    moved: dict[str, int]
    # bytes that the tiles of the others request of L2: K, V, dK and dV once for all heads that share them, as
    # the kernels do
    requested: dict[str, int]

    @property
    def saved(self) -> dict[str, float]:
        """How many times less two kernels keep, compute and move than with P stored; below 1 it is more."""
        amounts = {"Memory": self.kept, "FLOPs": self.flops, "Bytes across HBM": self.moved}
        return {name: ways[STORED] / ways[TWO_KERNELS] for name, ways in amounts.items()}


def recomputation(experiment: Experiment) -> Recomputation:
    backward = experiment.changed(algorithm="backward")
    problem, simulation = backward.problem, simulate(backward)
    heads = problem.batch * problem.heads
    memory = memory_parts(backward)
    pair = Amount(2, by_query=True, by_key=True)
    visited = simulation.schedule.total(pair, Operation.KEY_GRADIENT) * heads
    whole = pair.of(problem.seq_q, problem.seq_kv) * heads
    dims = {
        way: (count - OF_V[way]) * problem.head_dim + OF_V[way] * problem.v_dim
        for way, count in PRODUCTS.items()
    }
    rows = sum(memory[tensor] for tensor in (Tensor.LSE, Tensor.DELTA))
    matrix = block_bytes(problem, Tensor.P).of(problem.seq_q, problem.seq_kv) * heads
    spared = _key_bytes(problem) * problem.batch * (problem.heads - problem.kv_heads)
    stored = standard_backward_bytes(backward) * heads - spared
    one_kernel = one_kernel_bytes(simulation.schedule) * heads - spared
    return Recomputation(
        flops={way: dim * (whole if way == STORED else visited) for way, dim in dims.items()},
        kept={STORED: matrix, ONE_KERNEL: rows, TWO_KERNELS: rows + memory[Tensor.LSE_LOG2]},
        moved={STORED: stored, TWO_KERNELS: simulation.traffic.dram.total},
        requested={ONE_KERNEL: one_kernel, TWO_KERNELS: simulation.traffic.requested.total},
    )


def standard_backward_bytes(experiment: Experiment) -> int:
    """Bytes that the unfused backward pass must move, one head, whatever the mask: 7 N^2 + 8 N d elements.

    P read twice, dP and dS written, dP read once, dS twice; dO, V, K, Q read (dO twice), dV, dQ, dK written.
    """
    problem = experiment.problem
    n, m, d = problem.seq_q, problem.seq_kv, (problem.head_dim + problem.v_dim) / 2
    return round(problem.itemsize * (7 * n * m + 4 * n * d + 4 * m * d))


def one_kernel_bytes(schedule: Schedule) -> int:
    """What one kernel over key blocks would request, one head: dQ read and written as float32 at each visit.

    FlashAttention-2's own backward pass, on a backward schedule's visits; lse and delta are left out.
    """
    problem = schedule.problem
    row = (problem.head_dim + problem.v_dim) * problem.itemsize + problem.head_dim * 2 * 4
    return _key_bytes(problem) + schedule.total(Amount(row, by_query=True), Operation.KEY_GRADIENT)


def _key_bytes(problem: Problem) -> int:
    return sum(block_bytes(problem, tensor).of(0, problem.seq_kv) for tensor in BY_KEY)
