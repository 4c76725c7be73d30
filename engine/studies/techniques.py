"""FlashAttention taken apart: each technique switched off, and what that does to bytes and modelled time.

A technique that is off changes the schedule (what is read, written and multiplied) or the pipeline (what runs
at the same time). All fused variants take the blocks of FlashAttention-3, so that nothing else differs;
unfused attention is the scenario's, with the blocks that it has on every page.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from engine.algorithms import ALGORITHMS, Pipeline, flash1, flash3, standard
from engine.algorithms.record import ACCUMULATOR_BYTES
from engine.experiment import Experiment
from engine.model.launch import Launch, launch
from engine.model.seconds import modelled_time
from engine.model.traffic import Traffic, traffic
from engine.problem.hardware import KIB
from engine.problem.problem import Problem, Tiling
from engine.recordings.nearest import nearest_length
from engine.recordings.recording import Recording
from engine.recordings.rows import nearest_shape, timings_of
from engine.schedule.step import Operation, Step, Tensor, load, store

SCORED, WEIGHTED = Step(Operation.SCORES), (Step(Operation.RESCALE), Step(Operation.ACCUMULATE))
# a visit of both passes: their order is of no account to what is counted
TWO_PASSES = (
    *(load(Tensor.K), SCORED, Step(Operation.MAXIMUM)),
    *(load(Tensor.K), load(Tensor.V), SCORED, *WEIGHTED),
)
TWO_PASSES_OF_KEYS = (  # key blocks outside, each loaded once a pass
    *(load(Tensor.Q), load(Tensor.STATISTICS), SCORED, Step(Operation.MAXIMUM), store(Tensor.STATISTICS)),
    *(load(Tensor.Q), load(Tensor.O), load(Tensor.STATISTICS), SCORED, *WEIGHTED, store(Tensor.O)),
)


class Technique(NamedTuple):
    """One idea: its name, what attention does without it, and which other ideas it rests on."""

    name: str
    off: str
    needs: tuple[str, ...] = ()


TECHNIQUES = {
    "fusion": Technique(
        "Kernel fusion", "Three kernels run: S is written to memory and read back, then P likewise."
    ),
    "queries": Technique(
        "Queries outside, in parallel",
        "As in FlashAttention-1, key blocks are outside and one thread block takes a whole head: O, m and l "
        "return to memory at every visit.",
        ("fusion",),
    ),
    "tiling": Technique("Tiling", "A thread block needs whole rows of S on the chip at once.", ("fusion",)),
    "online": Technique(
        "Online softmax",
        "The maximum is found in a pass of its own, so K is read and Q Kᵀ computed twice.",
        ("tiling",),
    ),
    "deferred": Technique(
        "Fewer non-matrix operations",
        "As in FlashAttention-1, O is divided by l at every visit and not once at the end: two more "
        "multiplications per number of O.",
        ("queries", "online"),
    ),
    "asynchronous": Technique(
        "Asynchronous copies",
        "K and V are requested only when the tile before is done, so the block waits for them.",
        ("queries", "online"),
    ),
    "specialised": Technique(
        "Persistent blocks, a copying warp",
        "All warps copy and compute, and a block ends with its tile, so the next waits for its first copies.",
        ("asynchronous",),
    ),
    "overlapped": Technique(
        "Softmax under products",
        "Q Kᵀ, softmax and P V take turns, so tensor cores and exponentials wait for each other.",
        ("queries", "online"),
    ),
}
ALL = frozenset(TECHNIQUES)
LOOP = frozenset({"queries", "online"})  # what keeps O on the chip in one pass


@dataclass(frozen=True)
class Variant:
    """Attention with some of the techniques, on one problem; bytes and seconds over batch and heads."""

    techniques: frozenset[str]  # those in use
    pipeline: Pipeline  # what its kernel does at the same time
    traffic: Traffic  # bytes and FLOPs, counted; of DRAM modelled
    seconds: float | None  # modelled; None where it does not fit the chip
    # share of the tensor cores' peak that the whole call reaches, modelled; None likewise
    of_peak: float | None
    misfit: str | None  # one sentence on why, if so
    kernel: str | None  # which of this project's kernels it is; None if none


def sensible(chosen: Iterable[str], of: Mapping[str, Technique] = TECHNIQUES) -> frozenset[str]:
    """Of the chosen techniques those whose needs are chosen too; the others have nothing to work on."""
    left = frozenset(chosen).intersection(of)
    while off := [key for key in left if not left.issuperset(of[key].needs)]:
        left -= {*off}
    return left


def variant(experiment: Experiment, chosen: frozenset[str]) -> Variant:
    """An experiment's problem with the sensible part of the chosen techniques, whatever its algorithm."""
    techniques = sensible(chosen)
    asked = Tiling() if "fusion" in techniques else experiment.asked  # fused ones take flash3's own blocks
    return _variant(replace(experiment, algorithm=flash3.ALGORITHM.key, asked=asked), techniques)


@lru_cache(maxsize=256)
def _variant(experiment: Experiment, techniques: frozenset[str]) -> Variant:
    run, whole, misfit = _run(experiment, techniques), launch(experiment), None
    moved, gpu = traffic(run), run.gpu
    if "fusion" in techniques and "tiling" not in techniques:  # whole rows of S beside the buffers
        (parts,), rows = whole.parts.values(), whole.tiling.block_q
        need = sum(part.bytes for part in parts) + rows * whole.problem.seq_kv * ACCUMULATOR_BYTES
        if need > gpu.shared_bytes_block:
            misfit = (
                f"Does not fit: {rows} whole rows of S beside Q, K and V take {-(-need // KIB):,} KiB, but "
                f"{gpu.with_article} allows {gpu.shared_bytes_block // KIB} KiB per block."
            )
    seconds = None if misfit else modelled_time(run, moved).seconds
    of_peak = seconds and moved.flops / gpu.products_per_second(run.problem.dtype) / seconds
    return Variant(techniques, run.pipeline, moved, seconds, of_peak, misfit, kernels().get(techniques))


def _run(experiment: Experiment, techniques: frozenset[str]) -> Launch:
    """An experiment's problem as attention with these techniques launches it; fused, in flash3's blocks."""
    if "fusion" not in techniques:  # unfused kernels copy ahead as any matrix product does
        return launch(experiment.changed(algorithm=standard.ALGORITHM.key))
    whole, base = launch(experiment), flash3 if "queries" in techniques else flash1
    run = Launch.of(base.ALGORITHM, whole.problem, whole.tiling, whole.gpu)
    if "tiling" in techniques and "online" not in techniques:  # whole rows need but one pass
        # the maximum is found first, so nothing is ever rescaled
        (phase,) = run.schedule.phases
        twice = {"each": TWO_PASSES}
        if phase.outer == "key":
            twice = {"before": (load(Tensor.K, 2), load(Tensor.V)), "each": TWO_PASSES_OF_KEYS}
        run = replace(run, schedule=replace(run.schedule, phases=(replace(phase, **twice),)))
    ahead = {key: key in techniques for key in ("asynchronous", "specialised", "overlapped")}
    dividing = techniques >= LOOP and "deferred" not in techniques
    pipeline = Pipeline(**ahead, returning="queries" not in techniques, dividing=dividing)
    return replace(run, pipeline=pipeline)


def kernels() -> dict[frozenset[str], str]:
    return {record.techniques: key for key, record in ALGORITHMS.items() if record.techniques is not None}


class RecordedKernel(NamedTuple):
    """A kernel of this project that has some of the techniques, on a recorded problem; seconds forward."""

    kernel: str
    techniques: frozenset[str]
    problem: Problem
    seconds: float  # the recorded median
    tflops: float


def recorded_kernels(recording: Recording, experiment: Experiment) -> tuple[RecordedKernel, ...]:
    """Those of `kernels` that were timed on the recorded problem nearest to the scenario, in their order."""
    shape = nearest_shape(recording, experiment)
    timed = [row for row in timings_of(recording, *shape) if row.times] if shape else []
    lengths = [row.problem.seq_kv for row in timed if row.provider == "flash3"]
    keys = nearest_length(lengths, experiment.problem.seq_kv)
    found = {row.provider: row for row in timed if lengths and row.problem.seq_kv == keys}
    return tuple(
        RecordedKernel(name, used, row.problem, row.times.p50, row.tflops)
        for used, name in sorted(kernels().items(), key=lambda each: len(each[0]))
        for row in [found.get(name)]
        if row
    )
