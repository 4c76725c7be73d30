"""Inside one block of threads of FlashAttention-4 over time: copies, products, softmax, correction; modelled.

Two tiles of 128 queries are in flight (Zadouri et al., arXiv 2603.05451, section 3). One warp issues all
products: of each tile in turn P V of a key block, then Q Kᵀ of the next, whose S takes P's place in tensor
memory. Two softmax groups take turns at the exponentials; a correction group rescales O, which lies in tensor
memory too. Units work at the rates of `engine.model.rates`, an H200's shares of a B200's peaks; handing over
from one warp to another takes no time here.
"""

from functools import lru_cache
from typing import NamedTuple

from engine.algorithms import flash2, flash4
from engine.experiment import Experiment
from engine.model.launch import Launch
from engine.model.rates import (
    CACHE_BYTES_PER_CLOCK,
    SCORE_OPERATIONS,
    Rates,
    exponential_seconds,
    exponentials_of,
    term_instructions,
)
from engine.model.simulation import simulate
from engine.model.traffic import requested_bytes
from engine.problem.hardware import GPUS
from engine.problem.problem import Tiling
from engine.schedule.bytes import Bytes
from engine.studies.techniques import Technique
from engine.studies.techniques import sensible as supported
from engine.studies.warp_groups import MOST_VISITS, Block, Inside

LOOKED = 40  # visits after which they follow each other evenly
TILES = "first", "second"  # query tiles in flight
QK, PV = ({tile: f"{product} {tile}" for tile in TILES} for product in ("Q Kᵀ", "P V"))
MAXIMUM, EXPONENTIALS, CORRECTION, STORE = "maximum", "exponentials", "correction", "divide, store O"
OWN = "correction by the softmax group"
COPIES, PRODUCTS, CORRECTING = 0, 1, 4  # lanes; 2 and 3 are the softmax groups
LANES = "copies by TMA", "tensor cores", "softmax group 1", "softmax group 2", "correction group"
VOTE = 1 / 8  # of a correction, to find that there is none: it looks at α, not at O
PAIRED_DIMS = 128, 192  # head dims of which the public kernel has pairs of blocks, without a mask

CHOICES = {"generation": (("hopper", "blackwell"), "hopper")}  # what a page may ask, and usually does
TECHNIQUES = {
    "memory": Technique(
        "Tensor memory",
        "As on Hopper, S and O fill registers, 128 KiB a tile, so one tile is in flight; P passes through "
        "shared memory. (Only a thought: Blackwell's tensor cores write to tensor memory alone.)",
    ),
    "tiles": Technique(
        "Two query tiles in flight",
        "One tile is in flight: its products wait for its softmax, its softmax for its products, and K and V "
        "are copied for 128 queries.",
        ("memory",),
    ),
    "turns": Technique(
        "Softmax groups take turns",
        "Both groups wait for both tiles' scores and share the exponentials' unit; the tensor cores idle.",
        ("tiles",),
    ),
    "correction": Technique(
        "A correction group apart",
        "Each softmax group rescales O itself, between its maximum and its exponentials.",
    ),
    "threshold": Technique(
        "Rescaling only above 2⁸",
        "O is rescaled at every key block after the first, as the online softmax has it.",
    ),
    "polynomials": Technique(
        "Part of the exponentials by polynomials", "All exponentials go through their unit, 16 a clock."
    ),
    "pairs": Technique(
        "Two blocks share K and V",
        "Each block copies all of K and V, and its products read all of them from its shared memory.",
        ("tiles",),
    ),
}
ALL = frozenset(TECHNIQUES)


class Variant(NamedTuple):
    techniques: frozenset[str]  # those in use
    block: Inside  # what is drawn; its period is one key block of all tiles in flight
    tflops: float  # TFLOP/s of all SMs at that pace; of_peak: share of the tensor cores' peak that this is
    of_peak: float
    shared_busy: float  # share of the time in which operands pass from shared memory to the tensor cores
    requested: Bytes  # bytes asked of L2 by the whole call, counted


def on_blackwell(experiment: Experiment) -> Experiment:
    """FlashAttention-4 on the scenario's GPU where that has tensor memory, else on a B200."""
    own = experiment.gpu.architecture.startswith("Blackwell") and experiment.gpu.shared_bytes_block > 2**17
    gpu = experiment.gpu if own else GPUS["b200"]
    return experiment.changed(algorithm=flash4.ALGORITHM.key, hardware=gpu.key)


def sensible(experiment: Experiment, chosen: frozenset[str]) -> frozenset[str]:
    """Of the chosen techniques those whose needs are chosen, and that the public kernel has here."""
    problem = experiment.problem
    pairs = problem.head_dim in PAIRED_DIMS and problem.v_dim == 128 and not problem.mask.hides
    left = chosen if pairs and problem.seq_q > 2 * flash4.TILE else chosen - {"pairs"}
    return supported(left - {"tiles"} if flash4.tiles(problem) == 1 else left, TECHNIQUES)


@lru_cache(maxsize=128)
def variant(experiment: Experiment, chosen: frozenset[str] = ALL) -> Variant:
    """An experiment's problem with the sensible part of the chosen techniques."""
    experiment = on_blackwell(experiment)
    techniques = sensible(experiment, chosen)
    rows = flash4.TILE * (1 + ("tiles" in techniques)) * (1 + ("pairs" in techniques))
    run = Launch.of(flash4.ALGORITHM, experiment.problem, Tiling(rows, flash4.KEYS), experiment.gpu)
    (phase,) = run.schedule.phases
    in_all = int(phase.visits[-1])
    keys = [int(phase.stop[-1]) - 1 - step for step in range(min(in_all, MOST_VISITS))]
    drawn, even = (_Block(run, techniques) for _ in range(2))
    drawn.tile(keys)
    drawn.tile(keys[:1])
    even.tile(list(range(LOOKED)))
    starts = [mark.start for mark in even.marks if mark.operation == PV[TILES[0]]]
    period = (starts[-1] - starts[LOOKED // 2]) / (LOOKED - 1 - LOOKED // 2)
    switch = [mark.start for mark in drawn.marks if mark.operation == QK[TILES[0]]][len(keys)]
    many = len(drawn.tiles)
    busy = (many * each / period for each in (even.scores + even.weighs, even.exponentials))
    block = Inside(experiment, LANES, tuple(drawn.marks), len(keys), in_all, switch, period, *busy)
    dims = experiment.problem.head_dim + experiment.problem.v_dim
    rate = experiment.gpu.sms * many * 2 * flash4.TILE * flash4.KEYS * dims / period
    of_peak, shared = rate / run.gpu.products_per_second(run.problem.dtype), many * even.shared / period
    return Variant(techniques, block, rate / 1e12, of_peak, shared, requested_bytes(run.schedule))


def beside_published() -> tuple[float, float, float, dict[str, float]]:
    """FlashAttention-4's whole call on a B200, modelled, for what its paper says of its best.

    TFLOP/s and share of the peak, of 16 heads of d 128 and 32,768 tokens in bfloat16; how many times as fast
    as FlashAttention-2; and clocks of an SM at its peaks for 128 x 128 scores, by unit.
    """
    long = Experiment.of(seq=32_768, heads=16, head_dim=128, dtype="bfloat16", hardware="b200")
    second, fourth = (simulate(long.changed(algorithm=each.ALGORITHM.key)) for each in (flash2, flash4))
    gpu, rate = long.gpu, fourth.traffic.flops / fourth.modelled.seconds
    scores, dims = flash4.TILE * flash4.KEYS, long.problem.head_dim + long.problem.v_dim
    operands = (flash4.TILE * long.problem.head_dim + flash4.KEYS * dims) * long.problem.itemsize
    peak = gpu.products_per_second(long.problem.dtype)
    clocks = {
        "products": 2 * scores * dims * gpu.sms * gpu.clock_hz / peak,
        "exponentials": scores / gpu.exponentials_per_clock,
        "shared memory": operands / gpu.shared_bytes_per_clock,
    }
    return rate / 1e12, rate / peak, second.modelled.seconds / fourth.modelled.seconds, clocks


class _Block(Block):
    """A block of threads that works on one pair of query tiles after another.

    Attributes, all in seconds of one SM and of one tile:
        scores, weighs: Q Kᵀ and P V of a visit; shared: operands of both from shared memory.
        maximum, exponentials, correction: of the softmax groups, and O times α.
        query, key, store: the copy of Q of a tile, of K or V of a visit, and of O until it has left.
    """

    def __init__(self, run: Launch, techniques: frozenset[str]):
        super().__init__()
        problem, gpu, self.techniques = run.problem, run.gpu, techniques
        self.reached = gpu.reached
        rates, size, rows, keys = Rates.of(gpu, problem.dtype), problem.itemsize, flash4.TILE, flash4.KEYS
        shared, pair = gpu.sms / gpu.shared_bytes_per_second, 1 + ("pairs" in techniques)
        by_shared = 0 if "memory" in techniques else 2 * rows * keys * size  # P, written and read
        reads = (rows + keys / pair) * problem.head_dim * size, keys / pair * problem.v_dim * size + by_shared
        of = [2 * rows * keys * dim * gpu.sms / rates.matrix for dim in (problem.head_dim, problem.v_dim)]
        self.scores, self.weighs = (max(each, shared * read) for each, read in zip(of, reads, strict=True))
        self.shared, numbers = shared * sum(reads), rows * keys
        one = gpu.sms / rates.vector  # an operation of float32
        share = flash4.POLYNOMIALS if "polynomials" in techniques else 0.0
        weights = gpu.sms * exponential_seconds(numbers, exponentials_of(problem), share, rates)
        self.maximum = (1 + term_instructions(problem)) * numbers * one
        self.exponentials = weights + (SCORE_OPERATIONS - 1) * numbers * one
        self.correction = rows * problem.v_dim * one
        way = 1 / (CACHE_BYTES_PER_CLOCK * gpu.clock_hz)
        rows_of = [rows * dim * size * way for dim in (problem.head_dim, problem.v_dim)]
        self.query, self.store = rows_of
        self.key = {name: keys / rows * each / pair for name, each in zip("KV", rows_of, strict=True)}
        self.tiles = TILES[: 1 + ("tiles" in techniques)]
        self.stages = pair * flash4.stages(problem, Tiling(rows * len(self.tiles), keys))
        self.unit = self.corrects = 0.0
        self.done: list[float] = []  # when the products were done with each copy of K or V, in order
        self.group = dict.fromkeys(self.tiles, 0.0)  # when a softmax group can go on
        self.asked, self.left = 0.0, dict.fromkeys(self.tiles, 0.0)  # when Q can come, and O has left

    def tile(self, keys: list[int]) -> None:
        there = self._copy("K", keys[0], self._free(), self.key["K"])
        queries = {tile: self._copy("Q", -1, self.asked, self.query) for tile in self.tiles}
        scored = {tile: self._product(QK[tile], keys[0], max(there, queries[tile])) for tile in self.tiles}
        self.done.append(self.tensor)
        for visit, key in enumerate(keys):
            value = self._copy("V", key, self._free(), self.key["V"])
            later = keys[visit + 1] if visit + 1 < len(keys) else None
            following = None if later is None else self._copy("K", later, self._free(), self.key["K"])
            weighed = self._softmax(key, scored, visit > 0)
            ended = []
            for tile in self.tiles:
                first = value if visit else max(value, self.left[tile])
                ended.append(self._product(PV[tile], key, max(weighed[tile], first)))
                if following is not None:
                    scored[tile] = self._product(QK[tile], later, following)
            self.done.append(ended[-1])
            if following is None:
                self.asked = max(scored.values())
            else:
                self.done.append(self.tensor)
        for tile, end in zip(self.tiles, ended, strict=True):
            start = max(end, self.corrects)
            self.left[tile] = start + self.correction  # from where on tensor memory is free for the next O
            self.corrects = self.mark(CORRECTING, STORE, -1, start, self.correction + self.store)

    def _softmax(self, key: int, scored: dict[str, float], rescales: bool) -> dict[str, float]:
        """When P of each tile is in its place and O is rescaled; α is known as soon as the maximum is."""
        found, apart = {}, "correction" in self.techniques
        correction = self.correction * (VOTE if "threshold" in self.techniques else 1) * rescales
        if "turns" not in self.techniques:  # both wait for both
            scored = dict.fromkeys(self.tiles, max(scored.values()))
        together = 1 if "turns" in self.techniques else len(self.tiles)
        begin = max(self.unit, *(max(scored[tile], self.group[tile]) for tile in self.tiles))
        for lane, tile in enumerate(self.tiles, 2):
            start = max(scored[tile], self.group[tile])
            known = self.mark(lane, MAXIMUM, key, start, self.maximum)
            corrected = known
            if correction and apart:
                self.corrects = self.mark(CORRECTING, CORRECTION, key, max(known, self.corrects), correction)
                corrected = self.corrects
            elif correction:
                known = corrected = self.mark(lane, OWN, key, known, correction)
            start = max(known, self.unit if together == 1 else begin)
            self.group[tile] = self.mark(lane, EXPONENTIALS, key, start, together * self.exponentials)
            if together == 1:
                self.unit = self.group[tile]
            found[tile] = max(self.group[tile], corrected)
        self.unit = max(self.group.values())
        return found

    def _free(self) -> float:
        """When the next of the buffers that K and V pass in turns is free."""
        before = sum(mark.operation in "KV" for mark in self.marks)
        return self.done[before - self.stages] if before >= self.stages else 0.0

    def _copy(self, name: str, key: int, asked: float, seconds: float) -> float:
        """From L2, where others have had K and V."""
        latency = self.reached.latency if name == "Q" else self.reached.l2_latency
        return self.copied(COPIES, name, key, asked, seconds, latency)

    def _product(self, operation: str, key: int, ready: float) -> float:
        """The tensor cores take one product after another, in the order in which they are issued."""
        seconds = self.scores if operation in QK.values() else self.weighs
        self.tensor = self.mark(PRODUCTS, operation, key, max(ready, self.tensor), seconds)
        return self.tensor
