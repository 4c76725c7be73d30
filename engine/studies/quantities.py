"""What a tour can ask of a scenario: named quantities, each with its unit and what it rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from engine.experiment import Experiment
from engine.model.cluster.seconds import modelled
from engine.model.device_memory import largest_context, memory_bytes
from engine.model.launch import launch
from engine.model.simulation import simulate
from engine.model.traffic import Traffic
from engine.problem.bounds import blocks
from engine.schedule.step import STATISTIC_BYTES, Tensor
from engine.studies import by_hand, fp8, survey
from engine.studies.several_gpus import TAUGHT_GPUS, taught

GIVEN, COMPUTED, COUNTED, MODELLED, RECORDED = "given", "computed", "counted", "modelled", "recorded"
ORIGINS = (GIVEN, COMPUTED, COUNTED, MODELLED, RECORDED)  # a number put together of two is what comes later
BYTES, FLOPS, SECONDS, INTENSITY, NUMBER = "B", "FLOP", "s", "FLOP/B", ""
RATE = "B/s"
CHIP_BYTES = "B of shared memory"  # bytes too, which the field tells in KiB
LAYER_FLOPS = 6  # over the attention's own: N keys of d cost a token 4 N d H, a layer's matrices 24 (d H)²


@dataclass(frozen=True)
class Quantity:
    """Something to be asked of a scenario: what it is, its unit, where it comes from, and how to get it."""

    words: str
    unit: str
    origin: str
    of: Callable[[Experiment], float]


def _traffic(experiment: Experiment) -> Traffic:
    return simulate(experiment).traffic


def _passes(tensor: Tensor, written: bool = False) -> Callable[[Experiment], float]:
    """How many times one head's tiles request each element of a tensor, or write it: a mean."""

    def of(experiment: Experiment) -> float:
        problem = experiment.problem
        requested = _traffic(experiment).per_head.requested
        moved = (requested.written if written else requested.read)[tensor]
        rows = problem.seq_kv if tensor in (Tensor.K, Tensor.V) else problem.seq_q
        columns = problem.seq_kv if tensor in (Tensor.S, Tensor.P) else problem.head_dim
        return moved / (rows * columns * problem.itemsize)

    return of


def _ideal_bytes(experiment: Experiment) -> int:
    """Q, K and V read once, O written once, over batch and heads."""
    problem = experiment.problem
    queries = 2 * problem.batch * problem.heads * problem.seq_q
    keys = 2 * problem.batch * problem.kv_heads * problem.seq_kv
    return (queries + keys) * problem.head_dim * problem.itemsize


def _grid(experiment: Experiment) -> int:
    problem, tiling = experiment.problem, experiment.tiling
    return int(blocks(problem.seq_q, tiling.block_q) * blocks(problem.seq_kv, tiling.block_kv))


def _busy_sms(experiment: Experiment) -> int:
    """SMs that have a block of the kernel with the most blocks."""
    return min(experiment.gpu.sms, max(kernel.blocks for kernel in launch(experiment).kernels))


def _layer_share(experiment: Experiment) -> float:
    """Attention's share of the FLOPs of a transformer layer with an MLP of four times the hidden size."""
    problem = experiment.problem
    return problem.seq_kv / (problem.seq_kv + LAYER_FLOPS * problem.hidden_size)


def _layer_half(experiment: Experiment) -> int:
    """Keys at which that share is one half."""
    return LAYER_FLOPS * experiment.problem.hidden_size


def _scores(experiment: Experiment) -> int:
    return experiment.problem.seq_q * experiment.problem.seq_kv


def _faster(zigzag: bool) -> Callable[[Experiment], float]:
    """How many times as fast as one GPU a ring of several is."""

    def of(experiment: Experiment) -> float:
        time = modelled(taught(experiment, zigzag))
        return time.one_gpu / time.seconds

    return of


def _by_hand(words: str, pick: Callable[[by_hand.Visit, by_hand.Visit], object]) -> Quantity:
    """Of the row that is followed, over its two tiles."""
    return Quantity(words, NUMBER, COMPUTED, lambda e: float(pick(*by_hand.by_hand().of_row())[by_hand.ROW]))


def _passes_over_a_row(words: str, way) -> Quantity:
    """How often a row of scores is read."""
    return Quantity(f"passes over a row: {words}", NUMBER, COUNTED, lambda e: by_hand.passes(way))


QUANTITIES: Mapping[str, Quantity] = MappingProxyType(
    {
        # the scenario
        "queries": Quantity("queries", NUMBER, GIVEN, lambda e: e.problem.seq_q),
        "keys": Quantity("keys", NUMBER, GIVEN, lambda e: e.problem.seq_kv),
        "head_dim": Quantity("head dimension", NUMBER, GIVEN, lambda e: e.problem.head_dim),
        "heads": Quantity("query heads", NUMBER, GIVEN, lambda e: e.problem.heads),
        "block_q": Quantity("rows of a query block", NUMBER, GIVEN, lambda e: e.tiling.block_q),
        "block_kv": Quantity("rows of a key block", NUMBER, GIVEN, lambda e: e.tiling.block_kv),
        "sms": Quantity("SMs of the GPU", NUMBER, GIVEN, lambda e: e.gpu.sms),
        # tiles of one head
        "query_blocks": Quantity(
            "query blocks", NUMBER, COUNTED, lambda e: int(blocks(e.problem.seq_q, e.tiling.block_q))
        ),
        "key_blocks": Quantity(
            "key blocks", NUMBER, COUNTED, lambda e: int(blocks(e.problem.seq_kv, e.tiling.block_kv))
        ),
        "tiles": Quantity("tiles of the grid", NUMBER, COUNTED, _grid),
        "tiles_visited": Quantity(
            "tiles computed", NUMBER, COUNTED, lambda e: _traffic(e).per_head.tiles_visited
        ),
        "tiles_skipped": Quantity(
            "tiles never touched", NUMBER, COUNTED, lambda e: _traffic(e).per_head.tiles_skipped
        ),
        # how often the tiles of one head request each element
        "q_reads": Quantity("times that Q is read", NUMBER, COUNTED, _passes(Tensor.Q)),
        "k_reads": Quantity("times that K is read", NUMBER, COUNTED, _passes(Tensor.K)),
        "v_reads": Quantity("times that V is read", NUMBER, COUNTED, _passes(Tensor.V)),
        "s_reads": Quantity("times that S is read", NUMBER, COUNTED, _passes(Tensor.S)),
        "o_reads": Quantity("times that O is read", NUMBER, COUNTED, _passes(Tensor.O)),
        "o_writes": Quantity("times that O is written", NUMBER, COUNTED, _passes(Tensor.O, written=True)),
        # bytes and work over batch and heads
        "ideal_bytes": Quantity("Q, K, V read once, O written once", BYTES, COUNTED, _ideal_bytes),
        "requested_bytes": Quantity(
            "bytes that the tiles request", BYTES, COUNTED, lambda e: _traffic(e).requested.total
        ),
        "compulsory_bytes": Quantity(
            "every kernel's inputs and outputs once", BYTES, COUNTED, lambda e: _traffic(e).compulsory.total
        ),
        "dram_bytes": Quantity("bytes from and to DRAM", BYTES, MODELLED, lambda e: _traffic(e).dram.total),
        "score_bytes": Quantity(
            "S of one head in memory", BYTES, COUNTED, lambda e: _scores(e) * e.problem.itemsize
        ),
        "lse_bytes": Quantity(
            "the log-sum-exp of one head", BYTES, COUNTED, lambda e: e.problem.seq_q * STATISTIC_BYTES
        ),
        "memory_bytes": Quantity("memory that the tensors take", BYTES, MODELLED, memory_bytes),
        "gpu_memory_bytes": Quantity("memory of the GPU", BYTES, GIVEN, lambda e: e.gpu.memory_bytes),
        "sram_bytes": Quantity(
            "shared memory of one block", CHIP_BYTES, MODELLED, lambda e: simulate(e).footprint.shared_bytes
        ),
        "sram_capacity_bytes": Quantity(
            "shared memory a block may have", CHIP_BYTES, GIVEN, lambda e: e.gpu.shared_bytes_block
        ),
        "io_bytes": Quantity(
            "bytes for one head in the largest tiles that the chip holds",
            BYTES,
            COUNTED,
            lambda e: survey.tile_bytes(e, e.gpu.shared_bytes_block),
        ),
        "io_bytes_half": Quantity(
            "the same with half of that memory",
            BYTES,
            COUNTED,
            lambda e: survey.tile_bytes(e, e.gpu.shared_bytes_block / 2),
        ),
        "flops": Quantity("FLOPs of the matrix products", FLOPS, COUNTED, lambda e: _traffic(e).flops),
        "exponentials": Quantity("exponentials", NUMBER, COUNTED, lambda e: _traffic(e).exponentials),
        "largest_context": Quantity(
            "most keys that fit the GPU's memory", NUMBER, MODELLED, lambda e: largest_context(e)
        ),
        "thread_blocks": Quantity(
            "thread blocks", NUMBER, COUNTED, lambda e: max(each.blocks for each in launch(e).kernels)
        ),
        "busy_sms": Quantity("SMs that have a thread block", NUMBER, COUNTED, _busy_sms),
        "layer_share": Quantity("attention's share of a layer's FLOPs", NUMBER, COUNTED, _layer_share),
        "layer_half": Quantity("keys at which that share is one half", NUMBER, COUNTED, _layer_half),
        # rates and times
        "hbm_rate": Quantity("bytes per second of HBM", RATE, GIVEN, lambda e: e.gpu.memory_bytes_per_second),
        "shared_rate": Quantity(
            "bytes per second of all SMs' shared memory",
            RATE,
            GIVEN,
            lambda e: e.gpu.shared_bytes_per_second,
        ),
        "dram_seconds": Quantity(
            "time of the DRAM bytes at the GPU's peak",
            SECONDS,
            MODELLED,
            lambda e: _traffic(e).dram.total / e.gpu.memory_bytes_per_second,
        ),
        "intensity": Quantity(
            "FLOPs per byte of DRAM traffic", INTENSITY, MODELLED, lambda e: _traffic(e).intensity("dram")
        ),
        "balance": Quantity(
            "FLOPs that the GPU can do while one byte comes",
            INTENSITY,
            GIVEN,
            lambda e: e.gpu.products_per_second(e.problem.dtype) / e.gpu.memory_bytes_per_second,
        ),
        "modelled_seconds": Quantity(
            "modelled time", SECONDS, MODELLED, lambda e: simulate(e).modelled.seconds
        ),
        "matrix_seconds": Quantity(
            "time of the matrix products at the GPU's peak",
            SECONDS,
            MODELLED,
            lambda e: _traffic(e).flops / e.gpu.products_per_second(e.problem.dtype),
        ),
        "exponential_seconds": Quantity(
            "time of the exponentials at the GPU's peak",
            SECONDS,
            MODELLED,
            lambda e: _traffic(e).exponentials / e.gpu.exponentials_per_second,
        ),
        # over several GPUs
        "ring_gpus": Quantity("GPUs", NUMBER, GIVEN, lambda e: TAUGHT_GPUS),
        "ring_block": Quantity("K and V of one GPU", BYTES, COUNTED, lambda e: taught(e, True).block),
        "ring_plain": Quantity("times as fast as one GPU, in plain order", NUMBER, MODELLED, _faster(False)),
        "ring_zigzag": Quantity("times as fast as one GPU, in zigzag order", NUMBER, MODELLED, _faster(True)),
        # four tokens by hand, and numbers of 8 bits: the same whatever the scenario
        "hand_m": _by_hand("maximum after the first tile", lambda first, second: first.m),
        "hand_m_next": _by_hand("maximum after the second", lambda first, second: second.m),
        "hand_alpha": _by_hand("what l and O are multiplied by", lambda first, second: second.alpha),
        "hand_l": _by_hand("sum after the first tile", lambda first, second: first.l),
        "hand_l_next": _by_hand("sum after the second", lambda first, second: second.l),
        "hand_difference": Quantity(
            "largest difference of O by tiles", NUMBER, COMPUTED, lambda e: by_hand.by_hand().difference
        ),
        "safe_passes": _passes_over_a_row("safe softmax", by_hand.safe_weights),
        "online_passes": _passes_over_a_row("online softmax, for its weights", by_hand.online_weights),
        "output_passes": _passes_over_a_row("online softmax, for O alone", by_hand.online_output),
        "fp8_values": Quantity(
            "e4m3 values from 1 to 2", NUMBER, COMPUTED, lambda e: fp8.values_in(fp8.e4m3_values(), 1, 2)
        ),
        "fp16_values": Quantity(
            "float16 values from 1 to 2",
            NUMBER,
            COMPUTED,
            lambda e: fp8.values_in(fp8.float16_values(), 1, 2),
        ),
        "fp8_error": Quantity(
            "error of O with e4m3 inputs", NUMBER, COMPUTED, lambda e: fp8.rounding_errors().e4m3
        ),
        "fp16_error": Quantity(
            "error of O with float16 inputs", NUMBER, COMPUTED, lambda e: fp8.rounding_errors().float16
        ),
    }
)
