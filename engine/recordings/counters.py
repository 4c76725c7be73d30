"""What a GPU's counters say of a scenario, beside the model of the same; and the one nearest to another."""

import math
from dataclasses import dataclass
from operator import attrgetter

from engine.algorithms import ALGORITHMS, FORWARD, offered
from engine.experiment import Experiment, ExperimentError, described
from engine.model.block_seconds import HBM, L2, TENSOR
from engine.model.l1 import requested_by_warps
from engine.model.rates import Rates
from engine.model.simulation import Simulation, simulate
from engine.problem.bounds import field_flops
from engine.problem.cache import kept_with
from engine.problem.hardware import gpu_named
from engine.recordings.nearest import (
    MASK,
    all_heads,
    differing,
    doublings,
    further,
    head_dim,
    length,
    masked,
    nearest,
    sharing_heads,
)
from engine.recordings.recording import Counters, Recording
from engine.recordings.rows import experiment_of

ALIKE_MASKED = differing(masked, further)  # of points of one roofline
MOST_ROWS = 512  # of a file that are held to the model
UNITS = {  # of Modelled.busy, by the counters' own percentage where there is one
    "tensor core": "tensor_percent",
    "exp": "exponential_percent",
}


@dataclass(frozen=True)
class RecordedCounters:
    """The counters of one call and the simulation of the same scenario on the same GPU."""

    row: Counters
    simulation: Simulation

    experiment = property(lambda self: self.simulation.experiment, doc="The scenario.")
    read = property(lambda self: self.row.total("tile_read"), doc="Bytes from L2 to the SMs.")
    written = property(lambda self: self.row.total("tile_written"), doc="Bytes from the SMs to L2.")
    dram_read = property(lambda self: self.row.total("dram_read"), doc="Bytes from DRAM.")
    dram_written = property(lambda self: self.row.total("dram_written"), doc="Bytes to DRAM so far.")
    dram_bytes = property(lambda self: self.row.total("dram_bytes"), doc="Both together.")
    seconds = property(lambda self: self.row.total("seconds"), doc="Of all kernels under the profiler.")
    requested_read = property(
        attrgetter("simulation.traffic.requested.total_read"), doc="Bytes that tiles request, counted."
    )
    modelled_read = property(
        attrgetter("simulation.from_l2"), doc="Modelled: what L1 leaves, in whole sectors."
    )
    modelled_dram_written = property(
        attrgetter("simulation.traffic.dram.total_written"),
        doc="Modelled, with those that the counter misses.",
    )
    modelled_seconds = property(attrgetter("simulation.modelled.profiled"), doc="Modelled, kernel by kernel.")

    @property
    def requested(self) -> float | None:
        """Bytes that warps and TMA requested, which L1 or L2 had; None where that was not recorded."""
        requested = sum(map(self.row.total, ("loaded", "copied", "by_tma")))
        return None if math.isnan(requested) else requested

    @property
    def modelled_requested(self) -> int:
        """The same by the schedule, and by how many warps request m and l of a row."""
        return requested_by_warps(self.simulation.launch, self.simulation.traffic.requested)

    @property
    def modelled_dram_read(self) -> int:
        """Modelled bytes from DRAM: of the tensors, and of instructions, which the counter has too."""
        return self.simulation.traffic.dram.total_read + self.experiment.record.code

    @property
    def dram_read_range(self) -> tuple[int, int]:
        """Between what the modelled bytes from DRAM lie, whatever the counter has included."""
        low, high = self.simulation.traffic.dram_range.read
        return low + self.experiment.record.code, high + self.experiment.record.code

    @property
    def what(self) -> str:
        """The scenario in a few words, its algorithm by the name that readers know."""
        return described(self.experiment).replace(self.experiment.algorithm, self.experiment.record.label, 1)

    def percent(self, field: str) -> float | None:
        """A percentage of the counters over all kernels, each as long as it took; None where not recorded."""
        values = [(getattr(kernel, field), kernel.seconds) for kernel in self.row.kernels]
        if any(value is None for value, _ in values):
            return None
        return sum(value * seconds for value, seconds in values) / sum(seconds for _, seconds in values)

    @property
    def utilisation(self) -> dict[str, float | None]:
        """How busy the counters say each unit was, as a share of what it can do; None where not recorded.

        The units of `Modelled.busy`, and "issue": instructions issued. Those of an SM are of its peak at the
        clock that it had ("exp" without float32); of L2 and HBM it is bytes over what the datasheet's rate
        would have moved; "tail" is the share of time that SMs had no work at all.
        """
        gpu = self.experiment.gpu
        active = self.percent("sm_percent")
        return {
            **{name: _share(self.percent(field)) for name, field in UNITS.items()},
            "L2": (self.read + self.written) / self.seconds / gpu.cache_bytes_per_second,
            "HBM": self.dram_bytes / self.seconds / gpu.memory_bytes_per_second,
            "issue": _share(self.percent("issue_percent")),
            "tail": None if active is None else max(0.0, 1 - active / 100),
        }


def modelled_shares(simulation: Simulation) -> dict[str, float]:
    """By unit, the share of its peak that the model has it reach, all kernels together.

    That is the time that the unit's work alone would take at its peak, over the modelled time: of L2 and HBM
    the denominators are those of `RecordedCounters.utilisation`. "launch" and "tail" are shares of the time.
    """
    modelled, one = simulation.modelled, simulation.experiment
    gpu, dtype = one.gpu, one.problem.dtype
    rates = Rates.of(gpu, dtype)
    reached = {TENSOR: rates.matrix / gpu.products_per_second(dtype)}
    units = dict.fromkeys(unit for busy in modelled.busy.values() for unit in busy)
    taken = {unit: sum(busy.get(unit, 0.0) for busy in modelled.busy.values()) for unit in units}
    shares = {unit: reached.get(unit, 1.0) * seconds / modelled.seconds for unit, seconds in taken.items()}
    moved = simulation.traffic  # some wait for L2 longer than their bytes take
    return shares | {
        L2: moved.requested.total / gpu.cache_bytes_per_second / modelled.seconds,
        HBM: moved.dram.total / gpu.memory_bytes_per_second / modelled.seconds,
    }


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


@kept_with(2)
def recorded_counters(recording: Recording, sampled: bool = False) -> tuple[RecordedCounters, ...]:
    """Its counters of what the model knows, each beside its simulation; none if the GPU is unknown.

    By ncu; or those that a chip sampled by itself, which know DRAM alone.
    """
    gpu = gpu_named(recording.device.gpu)
    if gpu is None:
        return ()
    known = [
        row
        for row in recording.counters
        if (row.sampled, row.direction) == (sampled, FORWARD) and row.provider in offered()
        if _has_totals(row)
        if ALGORITHMS[row.provider].chooses_tiling or None not in (row.block_q, row.block_kv)
    ][:MOST_ROWS]
    found = ((row, _experiment(row, gpu.key)) for row in known)
    return tuple(RecordedCounters(row, simulate(experiment)) for row, experiment in found if experiment)


def _has_totals(row: Counters) -> bool:
    """Whether a row has something to divide by; a stranger's file may not."""
    counted = ("seconds", "dram_read") if row.sampled else ("seconds", "dram_read", "tile_read")
    return bool(row.kernels) and all(row.total(name) > 0 for name in counted)


def _experiment(row: Counters, hardware: str) -> Experiment | None:
    try:
        return experiment_of(row.problem, row.provider, row.block_q, row.block_kv, hardware)
    except ExperimentError:  # blocks in a stranger's file
        return None


def nearest_counters(
    recording: Recording, experiment: Experiment, sampled: bool = False
) -> tuple[RecordedCounters, bool] | None:
    """The counters of the same algorithm closest to this scenario, and whether they are of this very one.

    None if the recording has none. The mask comes first; then doublings, those of the problem twice.
    """
    every = recorded_counters(recording, sampled)
    rows = [row for row in every if row.experiment.algorithm == experiment.algorithm]
    best = nearest(rows, experiment, MASK, _doublings, of=attrgetter("experiment"))
    scenario = attrgetter("problem", "tiling", "hardware")
    return best and (best, scenario(best.experiment) == scenario(experiment))


def _doublings(one: Experiment, other: Experiment) -> float:
    problem = doublings(length, all_heads, head_dim, sharing_heads)
    blocks = doublings(lambda each: each.tiling.block_q, lambda each: each.tiling.block_kv)
    return 2 * problem(one, other) + blocks(one, other)


def roofline_points(recording: Recording, experiment: Experiment) -> list[dict]:
    """Forward calls with counters of the scenario's head dimension and mask, as points of the roofline.

    Each has its dtype, FLOP/s as the field counts them over the profiled time, and FLOP per byte at both
    levels: "HBM" by the bytes from and to DRAM, "L2" by those between L2 and the SMs.
    """
    problem = experiment.problem
    shown = [
        row
        for row in recording.counters
        if row.direction == FORWARD
        and not row.sampled
        and _has_totals(row)
        and row.problem.head_dim == problem.head_dim
        and not ALIKE_MASKED(row, experiment)
        and (row.problem.seq_q > 1) == (problem.seq_q > 1)
    ]
    return [
        {
            "provider": row.provider,
            "label": row.provider,
            "keys": row.problem.seq_kv,
            "dtype": row.problem.dtype,
            "tflops": field_flops(row.problem) / row.total("seconds") / 1e12,
            "HBM": field_flops(row.problem) / row.total("dram_bytes"),
            "L2": field_flops(row.problem) / (row.total("tile_read") + row.total("tile_written")),
        }
        for row in shown
    ]
