"""Which tile requests reach DRAM: modelled, with a least-recently-used cache of coarse chunks.

A GPU runs as many programs at once as its SMs hold, a wave, in launch order, and they walk their loops in
step. What they share stays in L2 as long as everything touched since its last use fits
`Gpu.l2_effective_bytes`. Against an H200's counter dram__bytes_read.sum this is right within 3 % on the three
shapes that the tests hold. What lies dirty in L2 when a kernel ends is counted as written.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

import numpy as np

from engine.bounds import KeyBounds
from engine.bytes import Bytes
from engine.experiment import Experiment, Mask
from engine.footprint import footprint
from engine.schedule import Schedule, Tensor, block_bytes

CHUNKS = 64  # the cache, and the K and V of a head, are cut into at most so many
FEWEST_WAVES = 4  # that are walked
MOST_TOUCHES = 8_000  # of chunks that are walked; the waves after them are taken to go on alike


def dram_bytes(experiment: Experiment, schedule: Schedule, compulsory: Bytes, requested: Bytes) -> Bytes:
    """Modelled DRAM bytes over batch and heads: compulsory, and what must be fetched or written again."""
    model = _MODELS[experiment.algorithm]
    slots = experiment.gpu.sms * max(1, footprint(experiment).blocks_per_sm)
    read, written = dict(compulsory.read), dict(compulsory.written)
    model(experiment, schedule, slots, read, written)
    return Bytes.of(
        {tensor: min(amount, requested.read[tensor]) for tensor, amount in read.items()},
        {tensor: min(amount, requested.written[tensor]) for tensor, amount in written.items()},
    )


def _whole(experiment: Experiment, tensor: Tensor) -> int:
    """Bytes of one head's tensor."""
    problem = experiment.problem
    return block_bytes(problem, tensor).of(problem.seq_q, problem.seq_kv)


def _standard(experiment: Experiment, schedule: Schedule, slots: int, read: dict, written: dict) -> None:
    """Three kernels: S and P are read back from L2 as far as they fit; K and V stay if S and P leave room."""
    problem, capacity = experiment.problem, experiment.gpu.l2_effective_bytes
    query_blocks = len(schedule.query_rows)
    scores = read[Tensor.S]
    # a chunk is read when the rest of its kernel and the start of the next, S and P both, have passed by
    resident = min(1.0, max(0.0, capacity / scores - 1))
    for tensor in (Tensor.S, Tensor.P):
        read[tensor] = round(scores * (1 - resident))
    strip = block_bytes(problem, Tensor.S).of(experiment.blocks.block_q, problem.seq_kv)
    if _whole(experiment, Tensor.K) + strip > capacity:
        read[Tensor.K] *= query_blocks * problem.heads // problem.kv_heads
    at_once = min(slots, query_blocks * problem.batch * problem.heads)
    if _whole(experiment, Tensor.V) + at_once * strip > capacity:
        programs = query_blocks * problem.heads // problem.kv_heads
        read[Tensor.V] *= -(-programs // slots)


def _flash1(experiment: Experiment, schedule: Schedule, slots: int, read: dict, written: dict) -> None:
    """One program a head: Q, O, m and l pass by once a key block, from DRAM where all heads' do not fit."""
    problem, phase = experiment.problem, schedule.phases[0]
    heads = problem.batch * problem.heads
    ends = np.concatenate(([0], np.cumsum(schedule.query_rows)))
    rows = np.where(phase.visits > 0, ends[phase.stop] - ends[phase.first], 0)
    passing = (Tensor.Q, Tensor.O, Tensor.STATISTICS)
    row = sum(block_bytes(problem, tensor).of(1, 1) for tensor in passing)
    keys = sum(
        block_bytes(problem, tensor).of(1, experiment.blocks.block_kv) for tensor in (Tensor.K, Tensor.V)
    )
    for together, times in ((min(slots, heads), heads // slots), (heads % slots, 1)):
        share = experiment.gpu.l2_effective_bytes / max(1, together) - keys
        # since a row's last pass, as many rows as a pass has have gone by
        again = int(rows[1:][rows[1:] * row > share].sum()) * together * times
        for tensor in passing:
            amount = block_bytes(problem, tensor).of(again, 1)
            read[tensor] += amount
            written[tensor] += amount if tensor != Tensor.Q else 0


def _flash2(experiment: Experiment, schedule: Schedule, slots: int, read: dict, written: dict) -> None:
    """Query blocks, head after head, walk K and V in step; later waves fetch them again if they are gone."""
    again = _fetched_again(experiment, schedule, slots)
    for tensor in (Tensor.K, Tensor.V):
        read[tensor] += again // 2


def _split_kv(experiment: Experiment, schedule: Schedule, slots: int, read: dict, written: dict) -> None:
    """Partial results stay in L2 if they fit; a key head that does not is fetched again by later waves."""
    capacity, row_blocks = experiment.gpu.l2_effective_bytes, len(schedule.query_rows)
    if read[Tensor.PARTIAL] + read[Tensor.PARTIAL_LSE] <= capacity:
        read[Tensor.PARTIAL] = read[Tensor.PARTIAL_LSE] = 0
    if _whole(experiment, Tensor.K) + _whole(experiment, Tensor.V) > capacity:
        waves = min(row_blocks, -(-row_blocks * experiment.tiling.splits // slots))
        for tensor in (Tensor.K, Tensor.V):
            read[tensor] *= waves


def _backward(experiment: Experiment, schedule: Schedule, slots: int, read: dict, written: dict) -> None:
    """dQ walks K and V as flash2 does; dK and dV walk Q and dO likewise, from the key blocks.

    Heads that share keys are walked as programs of their own, though one program takes them in turn.
    """
    problem, tiling, keys = experiment.problem, experiment.tiling, schedule.phases[1]
    _flash2(experiment, schedule, slots, read, written)
    turned = replace(
        experiment,
        problem=replace(
            problem, seq_q=problem.seq_kv, seq_kv=problem.seq_q, kv_heads=problem.heads, mask=Mask()
        ),
        tiling=replace(tiling, block_q=tiling.block_kv, block_kv=tiling.block_q),
    )
    bounds = KeyBounds(keys.first, keys.stop, keys.first, keys.stop)
    again = _fetched_again(turned, Schedule(turned.problem, turned.tiling, (keys,), bounds), slots)
    for tensor in (Tensor.Q, Tensor.D_O):
        read[tensor] += again // 2


_MODELS = {
    "standard": _standard,
    "flash1": _flash1,
    "flash2": _flash2,
    "flash3": _flash2,
    "split_kv": _split_kv,
    "backward": _backward,
}


def _fetched_again(experiment: Experiment, schedule: Schedule, slots: int) -> int:
    """Bytes of K and V that DRAM delivers beyond the first time."""
    problem, capacity = experiment.problem, experiment.gpu.l2_effective_bytes
    query_blocks = len(schedule.query_rows)
    programs = query_blocks * problem.batch * problem.heads
    waves = -(-programs // slots)
    row = 2 * problem.head_dim * problem.itemsize
    head_bytes = problem.seq_kv * row
    streamed = slots * block_bytes(problem, Tensor.Q).of(experiment.blocks.block_q, 1)
    heads_a_wave = min(slots // query_blocks + 2, problem.batch * problem.heads)
    if waves == 1 or 2 * (heads_a_wave * head_bytes + 2 * streamed) <= capacity:
        return 0
    chunks = max(1, min(CHUNKS, MOST_TOUCHES // (FEWEST_WAVES * heads_a_wave)))
    chunk_rows = max(-(-capacity // (CHUNKS * row)), -(-problem.seq_kv // chunks))
    touches = heads_a_wave * -(-problem.seq_kv // chunk_rows) + 2
    walked = min(waves, max(FEWEST_WAVES, MOST_TOUCHES // touches))
    cache = Cache(capacity)
    for wave in range(walked):
        _walk(cache, schedule, range(wave * slots, min(programs, (wave + 1) * slots)), chunk_rows, row)
    return round(cache.again * (waves - 1) / (walked - 1))


def _walk(cache: Cache, schedule: Schedule, programs: range, chunk_rows: int, row: int) -> None:
    """One wave: its Q comes, its heads' key chunks pass in step, its O goes; a `row` is of K and V, bytes."""
    problem, tiling = schedule.problem, schedule.tiling
    query_blocks = len(schedule.query_rows)
    streamed = len(programs) * tiling.block_q * row // 2
    spans = []
    for head in range(programs.start // query_blocks, (programs.stop - 1) // query_blocks + 1):
        low = max(programs.start - head * query_blocks, 0)
        high = min(programs.stop - head * query_blocks, query_blocks)
        if not problem.mask.looks_ahead:  # the kernel starts the last query blocks first
            low, high = query_blocks - high, query_blocks - low
        starts = schedule.bounds.first[[low, high - 1]] * tiling.block_kv // chunk_rows
        end = -(-min(int(schedule.bounds.stop[high - 1]) * tiling.block_kv, problem.seq_kv) // chunk_rows)
        spans.append((head * problem.kv_heads // problem.heads, int(starts[0]), int(starts[1]), end))
    cache.touch(("Q", programs.start), streamed)
    for step in range(max(end - first for _, first, _, end in spans)):
        for head, first, last, end in spans:
            for chunk in range(first + step, min(last + step + 1, end)):
                rows = min(chunk_rows, problem.seq_kv - chunk * chunk_rows)
                cache.touch((head, chunk), rows * row)
    cache.touch(("O", programs.start), streamed)


class Cache:
    """A least-recently-used cache that counts the bytes that it fetches a second time."""

    def __init__(self, capacity: int):
        self.free = capacity
        self.held: OrderedDict[tuple, int] = OrderedDict()
        self.known: set[tuple] = set()
        self.again = 0

    def touch(self, key: tuple, size: int) -> None:
        """Use something: it is here, or it is fetched and the oldest dropped until it fits."""
        if key in self.held:
            self.held.move_to_end(key)
            return
        self.again += size if key in self.known else 0
        self.known.add(key)
        self.held[key] = size
        self.free -= size
        while self.free < 0:
            self.free += self.held.popitem(last=False)[1]
