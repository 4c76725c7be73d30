"""What the blocks of threads of a kernel have to do, and how long each takes on its SM: modelled from rates.

A visit keeps three units of the SM busy: the tensor cores; exponentials and float32, for the softmax; the way
from L2. `pipeline` says what of that an algorithm does at the same time. Further blocks on the same SM
fill the gaps: each adds the time of the busiest unit only, from two warp groups on. The blocks of unfused
attention are short and many: they hide each other's waiting, and the busiest unit is all that counts. A visit
of split keys, whose rows are few, waits for a round trip and for its keys to pass the SM's own way from L2;
what L2 delivers in all is shared by the SMs that have keys to read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from engine.model.launch import Kernel, Launch
from engine.model.pipeline import arithmetic_seconds, with_copies
from engine.model.placement import makespan_alike, place
from engine.model.rates import (
    CACHE_BYTES_PER_CLOCK,
    LATENCY,
    ROUND_TRIPS,
    SCORE_OPERATIONS,
    TWO_WARP_GROUPS,
    Rates,
)
from engine.model.traffic import Traffic, counts, requested_bytes
from engine.schedule.nest import HEAD, Phase
from engine.schedule.schedule import Schedule
from engine.schedule.step import EXPONENTIALS, MATRIX_PRODUCTS, Operation, Step, Tensor, matrix_flops

TENSOR, EXP, L2, HBM = UNITS = ("tensor core", "exp", "L2", "HBM")
PLACED_ONE_BY_ONE = 1024  # blocks at the end of a launch; those before fill all places evenly


@dataclass(frozen=True)
class Work:
    """The blocks of threads of one kernel.

    Attributes:
        kernel: how they are launched.
        sms: of the GPU.
        seconds: [kernel.count], of each of a head's where all places of its SM are taken; [1] if alike.
        speeds: [places + 1], see `engine.model.placement`.
        around: seconds of a block before its first visit and after its last, on average.
        units: seconds that the work of all blocks takes each unit of the whole GPU, by its name.
    """

    kernel: Kernel
    sms: int
    seconds: np.ndarray
    speeds: np.ndarray
    around: float
    units: dict[str, float]

    @property
    def places(self) -> int:
        """Blocks that share an SM."""
        return len(self.speeds) - 1

    @property
    def slots(self) -> int:
        """Blocks that the GPU holds at once."""
        return self.sms * self.places

    @property
    def even(self) -> float:
        """Seconds that all blocks take if they fill all places evenly."""
        return float(self.seconds.mean()) * self.kernel.blocks / self.slots

    def placed(self, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(sm, start, end), [blocks] each in launch order."""
        block = self.kernel.launched(order, 0, self.kernel.blocks)[1]
        return place(np.broadcast_to(self.seconds, self.kernel.count)[block], self.sms, self.speeds)

    def makespan(self, order: str) -> float:
        """Seconds from the first block's start to the last one's end."""
        if len(self.seconds) == 1:
            return makespan_alike(self.kernel.blocks, float(self.seconds[0]), self.sms, self.speeds)
        first = max(0, self.kernel.blocks - PLACED_ONE_BY_ONE)
        block = self.kernel.launched(order, first, self.kernel.blocks)[1]
        before = self.even - float(self.seconds[block].sum()) / self.slots if first else 0.0
        return before + float(place(self.seconds[block], self.sms, self.speeds)[2].max())


def work_of(launch: Launch, kernel: Kernel, traffic: Traffic) -> Work:
    """The blocks of one kernel and how long each takes."""
    gpu, phase, pipeline = launch.gpu, kernel.phase, launch.pipeline
    rates = Rates.of(gpu, launch.problem.dtype, pipeline.returning)
    places = min(kernel.resident, -(-kernel.blocks // gpu.sms))
    units = _units(launch.schedule, phase, traffic, rates)
    if pipeline.crowded or not phase.each:
        around = np.full(1, LATENCY * phase.round_trips)
        visits, rows = np.ones(1), TWO_WARP_GROUPS
        alone = longest = max(units[TENSOR] + units[EXP], units[L2]) * gpu.sms / kernel.blocks
    else:
        tensor, softmax, copies = visit_seconds(launch, phase, rates)
        waited, rows = 0.0, launch.tiling.block_q
        if pipeline.waiting:  # other blocks on the SM run while one waits
            copies, waited = _few_rows(launch, kernel, copies)
            rows = max(rows, TWO_WARP_GROUPS)
        alone = max(waited, with_copies(pipeline, arithmetic_seconds(pipeline, tensor, softmax), copies))
        longest = max(tensor, softmax, copies)
        visits = _visits(launch, kernel, (tensor + softmax) / alone if pipeline.overlapped else 1.0)
        filling = _filling(launch, phase, rates, min(kernel.blocks, gpu.sms), places)
        trips = ROUND_TRIPS - (pipeline.specialised or pipeline.waiting)
        around = trips * LATENCY + np.where(visits > 0, filling, 0.0)
    taken = np.array([_shared_seconds(alone, longest, blocks, rows) for blocks in range(1, places + 1)])
    seconds = around + visits * taken[-1]
    if (seconds == seconds[0]).all():
        seconds = seconds[:1]
    speeds = np.concatenate(([1.0], taken[-1] / taken))
    return Work(kernel, gpu.sms, seconds, speeds, float(around.mean()), units)


def _few_rows(launch: Launch, kernel: Kernel, copies: float) -> tuple[float, float]:
    """Seconds of an SM for a visit's copies, and those that a visit on its own waits for them.

    copies: the first, were all SMs to copy at once.
    """
    gpu, phase = launch.gpu, kernel.phase
    through = _moved(launch.schedule, phase.each) / (CACHE_BYTES_PER_CLOCK * gpu.clock_hz)
    copying = min(gpu.sms, kernel.heads * int((phase.visits > 0).sum()))
    return max(through, copies * copying / gpu.sms), LATENCY + through


def _units(schedule: Schedule, phase: Phase, traffic: Traffic, rates: Rates) -> dict[str, float]:
    """Seconds that each unit of the whole GPU needs for all of a kernel's work."""
    one_head, requested = traffic.per_head, traffic.requested
    if len(schedule.phases) > 1:
        alone = replace(schedule, phases=(phase,))
        one_head, requested = counts(alone), requested_bytes(alone)
    on_chip = any(step.operation in EXPONENTIALS for step in phase.each)
    softmax = one_head.exponentials / rates.exponentials
    softmax += SCORE_OPERATIONS * one_head.exponentials / rates.vector if on_chip else 0.0
    return {
        TENSOR: traffic.heads * one_head.flops / rates.matrix,
        EXP: traffic.heads * softmax,
        L2: requested.total / rates.cache,
        HBM: _dram_bytes(schedule, phase, traffic) / rates.memory,
    }


def _dram_bytes(schedule: Schedule, phase: Phase, traffic: Traffic) -> float:
    """A kernel's share of the modelled DRAM bytes: what several kernels read is divided evenly among them."""

    def moves(phase: Phase) -> set[tuple]:
        return {(step.operation, step.tensor) for step in phase.before + phase.each + phase.after}

    movers = Counter(move for each in schedule.phases for move in moves(each))
    amounts = {Operation.LOAD: traffic.dram.read, Operation.STORE: traffic.dram.written}
    return sum(
        amounts[operation][tensor] / movers[operation, tensor]
        for operation, tensor in moves(phase)
        if operation in amounts
    )


def visit_seconds(launch: Launch, phase: Phase, rates: Rates) -> tuple[float, float, float]:
    """Seconds of one SM that a visit takes: its matrix products, its softmax, its loads and stores."""
    problem, tiling, sms = launch.problem, launch.tiling, launch.gpu.sms
    rows, keys = tiling.block_q, tiling.block_kv
    operations = [step.operation for step in phase.each]
    products = sum(operation in MATRIX_PRODUCTS for operation in operations)
    scores = rows * keys * sum(operation in EXPONENTIALS for operation in operations)
    times = 1 + 2 * launch.pipeline.dividing if Operation.RESCALE in operations else 0
    rescaled = times * rows * problem.head_dim
    return (
        sms * products * matrix_flops(problem).of(rows, keys) / rates.matrix,
        sms * (scores / rates.exponentials + (SCORE_OPERATIONS * scores + rescaled) / rates.vector),
        sms * _moved(launch.schedule, phase.each) / rates.cache,
    )


def _moved(schedule: Schedule, steps: tuple[Step, ...]) -> int:
    """Bytes that these steps move for whole blocks."""
    tiling = schedule.tiling
    moving = (step for step in steps if step.tensor != Tensor.NONE)
    return sum(schedule.amounts[step.tensor].of(tiling.block_q, tiling.block_kv) for step in moving)


def _visits(launch: Launch, kernel: Kernel, masked: float) -> np.ndarray:
    """[blocks] visits of each block of a head, where one of a tile that the mask cuts counts `masked`.

    Such tiles are few, and flash3 takes them one after another, without overlap.
    """
    phase, bounds = kernel.phase, launch.schedule.bounds
    visits = phase.visits.astype(np.float64)
    if phase.outer == "query" and masked != 1.0:
        visits += (masked - 1) * (visits - (bounds.full_stop - bounds.full_first))
    if phase.launched == HEAD:  # one block takes all of them
        visits = visits.sum(keepdims=True)
    problem = launch.schedule.problem
    return visits * (problem.group if phase.shared else 1)


def _filling(launch: Launch, phase: Phase, rates: Rates, running: int, places: int) -> float:
    """Seconds of a block for the bytes of its first visit and around all, which nothing hides.

    They come from HBM, which all running SMs share.
    """
    pipeline = launch.pipeline
    if pipeline.specialised or not pipeline.asynchronous:  # copied ahead, or counted with each visit
        return 0.0
    loads = tuple(step for step in phase.each if step.operation == Operation.LOAD)
    return places * running * _moved(launch.schedule, phase.before + loads + phase.after) / rates.memory


def _shared_seconds(alone: float, longest: float, blocks: int, rows: int) -> float:
    """Seconds in which so many blocks of so many rows on one SM each make a visit."""
    pairs = max(1.0, blocks * rows / TWO_WARP_GROUPS)
    return blocks * (alone + (pairs - 1) * longest) / pairs
