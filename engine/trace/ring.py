"""A ring's schedule run on numbers: every GPU has its own K and V, and fetches others' over counted links."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from engine.algorithms.ring import Order, ring_schedule
from engine.experiment import Experiment
from engine.model.launch import launch
from engine.problem.bounds import visible_keys
from engine.schedule.step import Tensor
from engine.trace.forward import Trace
from engine.trace.split_kv import SplitExecutor


@dataclass(frozen=True)
class RingTrace:
    """What all GPUs computed and moved, one head.

    Attributes:
        trace: of the whole: O and lse as merged, m, l and alpha after every visit.
        out: [chunks, rows, d] float32 O over each chunk of keys, in the order in which a GPU meets them.
        lse: [chunks, rows] float32, natural; -inf where a row sees none of a chunk.
        links: bytes of K and V by (GPU they came from, GPU they went to).
    """

    trace: Trace
    out: np.ndarray
    lse: np.ndarray
    links: Mapping[tuple[int, int], int]


def execute_ring(
    experiment: Experiment, order: Order, q: np.ndarray, k: np.ndarray, v: np.ndarray
) -> RingTrace:
    """Run one head on all GPUs; raises SramOverflow where a tile does not fit.

    q is [seq_q, d], k and v [seq_kv, d]: float32 and already rounded to the problem's dtype.
    """
    executor = RingExecutor(experiment, order, q, k, v)
    trace, arrays = executor.run(), executor.memory.arrays
    if order.gpus == 1:
        return RingTrace(trace, trace.out[None], trace.lse[None], MappingProxyType({}))
    partials = arrays[Tensor.PARTIAL], arrays[Tensor.PARTIAL_LSE][..., 0]
    return RingTrace(trace, *partials, MappingProxyType(executor.links))


class RingExecutor(SplitExecutor):
    """The chips of all GPUs, one program after another; what a GPU has not fetched is not a number to it."""

    def __init__(self, experiment: Experiment, order: Order, q, k, v):
        run = launch(experiment.changed(splits=order.gpus))
        super().__init__(run.with_schedule(ring_schedule(run.problem, run.tiling, order)), q, k, v)
        schedule = self.schedule
        self.of_query, self.of_key = map(order.holders, map(len, (schedule.query_rows, schedule.key_rows)))
        self.seen = [self._seen(gpu) for gpu in range(order.gpus)]
        self.whole = {Tensor.K: k, Tensor.V: v}
        self.local = [
            {tensor: np.full_like(array, np.nan) for tensor, array in self.whole.items()}
            for _ in range(order.gpus)
        ]
        self.fetched: set[tuple[int, int, int]] = set()
        self.links: dict[tuple[int, int], int] = {}
        for key, owner in enumerate(self.of_key.tolist()):
            for tensor, array in self.whole.items():
                self.local[owner][tensor][self._keys(key)] = array[self._keys(key)]

    def _seen(self, gpu: int) -> np.ndarray:
        """[seq_kv] bool: the keys that any query of a GPU sees."""
        rows = np.arange(self.problem.seq_q)
        own = rows[self.of_query[rows // self.schedule.tiling.block_q] == gpu]
        first, stop = visible_keys(self.problem, own)
        edges = np.zeros(self.problem.seq_kv + 1, np.int64)
        np.add.at(edges, first, 1)
        np.add.at(edges, stop, -1)
        return np.cumsum(edges[:-1]) > 0

    def _load(self, tensor: Tensor, query: int, key: int) -> None:
        if tensor in self.whole:
            gpu = int(self.of_query[query])
            self._fetch(tensor, gpu, key)
            self.memory.arrays[tensor] = self.local[gpu][tensor]
        super()._load(tensor, query, key)

    def _fetch(self, tensor: Tensor, gpu: int, key: int) -> None:
        """Bring a block from its owner, counted, unless it lies here: all of a GPU's queries use it then.

        Keys of it that none of them sees stay where they are, and are 0 here.
        """
        owner, place = int(self.of_key[key]), self._keys(key)
        if owner == gpu or (gpu, tensor, key) in self.fetched:
            return
        seen = self.seen[gpu][place, None]
        block = self.local[owner][tensor][place]
        self.local[gpu][tensor][place] = np.where(seen, block, 0)
        self.fetched.add((gpu, tensor, key))
        amount = int(seen.sum()) * block.shape[1] * self.problem.itemsize
        self.links[owner, gpu] = self.links.get((owner, gpu), 0) + amount
