"""What a tour can ask of a scenario: named quantities, each with its unit and what it rests on."""

from collections.abc import Callable, Mapping
from math import prod
from typing import NamedTuple

from engine.experiment import Experiment
from engine.model.cluster.seconds import modelled
from engine.model.device_memory import largest_context
from engine.model.launch import launch
from engine.model.simulation import simulate
from engine.model.traffic import Traffic
from engine.problem.bounds import blocks
from engine.problem.hardware import GPUS
from engine.problem.inputs import make_inputs
from engine.schedule.step import BY_V_DIM, STATISTIC_BYTES, Tensor
from engine.studies import block_scales, by_hand, latents, linear_attention, selected_keys, survey, your_model
from engine.studies.drawable import drawable
from engine.studies.rescales import in_all, rescales
from engine.studies.several_gpus import TAUGHT_GPUS, taught
from engine.studies.tensor_memory import ALL, on_blackwell, variant
from engine.studies.zoom import STEPS, partitions, zoom
from engine.trace.rows import ALPHA, errors, sampled_rows

GIVEN, COMPUTED, COUNTED, MODELLED, RECORDED = "given", "computed", "counted", "modelled", "recorded"
ORIGINS = (GIVEN, COMPUTED, COUNTED, MODELLED, RECORDED)  # a number put together of two is what comes later
BYTES, FLOPS, SECONDS, INTENSITY, NUMBER = "B", "FLOP", "s", "FLOP/B", ""
CLOCKS = "clocks"
CHIP_BYTES = "B of shared memory"  # bytes too, which the field tells in KiB
FEW, VISIBLE = 2**17, 1e-3  # scores that are looked at, and how far off O is wrong, as a share of its largest


class Quantity(NamedTuple):
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
        columns = problem.v_dim if tensor in BY_V_DIM else problem.head_dim
        columns = problem.seq_kv if tensor in (Tensor.S, Tensor.P) else columns
        return moved / (rows * columns * problem.itemsize)

    return of


def _ideal_bytes(experiment: Experiment) -> int:
    problem = experiment.problem
    queries = 2 * problem.batch * problem.heads * problem.seq_q
    keys = 2 * problem.batch * problem.kv_heads * problem.seq_kv
    return (queries + keys) * (problem.head_dim + problem.v_dim) * problem.itemsize // 2


def _broken_first(experiment: Experiment) -> int:
    """After which key block O of any row of the first head is first wrong where α is left out; 0: none."""
    one = drawable(experiment.changed(batch=1, heads=1, kv_heads=1))
    q, k, v = (each[0] for each in make_inputs(one.problem))
    wrong = (errors(one, q, k, v, sampled_rows(one, FEW, FEW))[ALPHA] > VISIBLE).any(0)
    return int(wrong.argmax()) + 1 if wrong.any() else 0


def _blocks(experiment: Experiment) -> tuple[int, int]:
    problem, tiling = experiment.problem, experiment.tiling
    return int(blocks(problem.seq_q, tiling.block_q)), int(blocks(problem.seq_kv, tiling.block_kv))


def _thread_blocks(experiment: Experiment) -> int:
    return max(kernel.blocks for kernel in launch(experiment).kernels)


def _faster(zigzag: bool) -> Callable[[Experiment], float]:

    def of(experiment: Experiment) -> float:
        time = modelled(taught(experiment, zigzag))
        return time.one_gpu / time.seconds

    return of


def _fourth_gain(technique: str) -> Callable[[Experiment], float]:
    return lambda e: variant(e).tflops / variant(e, ALL - {technique}).tflops


def _clocks(per_second: Callable[[Experiment], float], of_score: Callable[[Experiment], float]):
    """Clocks of one SM, at its peak, for what 128 x 128 scores take of a unit."""
    return lambda e: 128**2 * of_score(e) * e.gpu.sms * e.gpu.clock_hz / per_second(e)


def _by_hand(tile: int, value: str) -> Callable[[Experiment], float]:
    return lambda e: float(getattr(by_hand.by_hand(), value)[tile])


BY_KIND: Mapping[tuple[str, str], Mapping[str, Callable[[Experiment], float]]] = {
    (NUMBER, GIVEN): {
        "queries": lambda e: e.problem.seq_q,
        "keys": lambda e: e.problem.seq_kv,
        "head_dim": lambda e: e.problem.head_dim,
        "heads": lambda e: e.problem.heads,
        "block_q": lambda e: e.tiling.block_q,
        "block_kv": lambda e: e.tiling.block_kv,
        "sms": lambda e: e.gpu.sms,
        "ring_gpus": lambda e: TAUGHT_GPUS,
    },
    (NUMBER, COUNTED): {
        # tiles of one head
        "query_blocks": lambda e: _blocks(e)[0],
        "key_blocks": lambda e: _blocks(e)[1],
        "tiles": lambda e: prod(_blocks(e)),
        "tiles_visited": lambda e: _traffic(e).per_head.tiles_visited,
        "broken_first": _broken_first,
        "tiles_skipped": lambda e: _traffic(e).per_head.tiles_skipped,
        # how often the tiles of one head request each element
        "q_reads": _passes(Tensor.Q),
        "k_reads": _passes(Tensor.K),
        "v_reads": _passes(Tensor.V),
        "s_reads": _passes(Tensor.S),
        "o_reads": _passes(Tensor.O),
        "o_writes": _passes(Tensor.O, written=True),
        "exponentials": lambda e: _traffic(e).exponentials,
        "thread_scores": lambda e: zoom(e).thread_scores,
        "thread_blocks": _thread_blocks,
        "busy_sms": lambda e: min(e.gpu.sms, _thread_blocks(e)),
        # shares of key blocks, FlashAttention-4's: where maxima rise, and where its threshold still rescales
        "maxima_rise": lambda e: in_all(rescales(on_blackwell(e)))[0],
        "threshold_rescales": lambda e: in_all(rescales(on_blackwell(e)))[1],
        # of the scenario's first head: weight on the first key, and blocks at which the maximum rises
        "first_weight": lambda e: rescales(e)[0].first,
        "head_rises": lambda e: rescales(e)[0].rises,
    },
    (BYTES, COUNTED): {
        "ideal_bytes": _ideal_bytes,
        "requested_bytes": lambda e: _traffic(e).requested.total,
        "compulsory_bytes": lambda e: _traffic(e).compulsory.total,
        "score_bytes": lambda e: e.problem.seq_q * e.problem.seq_kv * e.problem.itemsize,  # S of one head
        # of four warps that cut the keys of one tile: the rows' maxima, and all of it
        "exchanged_maxima": lambda e: partitions(e)["keys"].passed[STEPS.index("maximum")],
        "exchanged_bytes": lambda e: partitions(e)["keys"].passed[-1],
        "lse_bytes": lambda e: e.problem.seq_q * STATISTIC_BYTES,  # of one head
        # for one head in the largest tiles that the chip holds, and with half of that memory
        "io_bytes": lambda e: survey.tile_bytes(e, e.gpu.shared_bytes_block),
        "io_bytes_half": lambda e: survey.tile_bytes(e, e.gpu.shared_bytes_block / 2),
        "ring_block": lambda e: taught(e, True).block,  # K and V of one GPU
    },
    (BYTES, MODELLED): {"dram_bytes": lambda e: _traffic(e).dram.total},
    (BYTES, GIVEN): {"gpu_memory_bytes": lambda e: e.gpu.memory_bytes},
    (CHIP_BYTES, MODELLED): {"sram_bytes": lambda e: simulate(e).footprint.shared_bytes},
    (CHIP_BYTES, GIVEN): {"sram_capacity_bytes": lambda e: e.gpu.shared_bytes_block},
    (FLOPS, COUNTED): {"flops": lambda e: _traffic(e).flops},
    (SECONDS, MODELLED): {
        "modelled_seconds": lambda e: simulate(e).modelled.seconds,
        # at the GPU's peak: the DRAM bytes, the matrix products, the exponentials
        "dram_seconds": lambda e: _traffic(e).dram.total / e.gpu.memory_bytes_per_second,
        "matrix_seconds": lambda e: _traffic(e).flops / e.gpu.products_per_second(e.problem.dtype),
        "exponential_seconds": lambda e: _traffic(e).exponentials / e.gpu.exponentials_per_second,
    },
    (INTENSITY, MODELLED): {"intensity": lambda e: _traffic(e).intensity("dram")},
    (INTENSITY, GIVEN): {  # FLOPs that the GPU can do while one byte comes
        "balance": lambda e: survey.roofline(e.gpu, e.problem.dtype).ridge,
    },
    (NUMBER, MODELLED): {
        "largest_context": lambda e: largest_context(e),
        # of a layer of the lecture's model, a prompt of as many tokens as there are keys
        # of a tile on a B200 whose products and exponentials overlap, in four bits beside 16
        "four_bit_gain": lambda e: block_scales.tile_gain(GPUS["b200"], block_scales.NVFP4.products),
        "layer_gain": lambda e: your_model.taught(e).gain,
        "layer_attention_gain": lambda e: your_model.taught(e).attention_gain,
        "layer_attention_share": lambda e: your_model.taught(e).shares[0],
        # FlashAttention-4 on a B200, or on the scenario's Blackwell: how many times as fast as with less
        "two_tiles_gain": _fourth_gain("tiles"),
        "polynomials_gain": _fourth_gain("polynomials"),
        "ring_plain": _faster(False),
        "ring_zigzag": _faster(True),
    },
    (CLOCKS, GIVEN): {
        "product_clocks": _clocks(
            lambda e: e.gpu.products_per_second(e.problem.dtype),
            lambda e: 2 * (e.problem.head_dim + e.problem.v_dim),
        ),
        "exponential_clocks": _clocks(lambda e: e.gpu.exponentials_per_second, lambda e: 1),
    },
    (NUMBER, COMPUTED): {  # four tokens by hand, the same whatever the scenario
        "hand_m": _by_hand(0, "m"),
        "hand_m_next": _by_hand(1, "m"),
        "hand_alpha": _by_hand(1, "alpha"),
        "hand_l": _by_hand(0, "l"),
        "hand_difference": lambda e: by_hand.by_hand().difference,
        # after FlashAttention-3: numbers of a token, and where one way begins to take less than another
        "cached_of_heads": lambda e: latents.DEEPSEEK.of_heads,
        "cached_latent": lambda e: latents.DEEPSEEK.cached,
        "projected_from": lambda e: latents.projecting_pays_from(keys=e.problem.seq_kv),
        "half_weight_keys": lambda e: selected_keys.half_weight()[0],
        "text_keys": lambda e: selected_keys.half_weight()[1],
        "choice_computes_less_from": lambda e: selected_keys.crossing("scores"),
        "choice_reads_less_from": lambda e: selected_keys.crossing("read"),
        "state_decodes_from": lambda e: linear_attention.meets(e.gpu, 1),
    },
}
QUANTITIES = {name: Quantity(*kind, of) for kind, those in BY_KIND.items() for name, of in those.items()}
