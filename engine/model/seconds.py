"""How long a schedule takes on a GPU: modelled from rates, never measured.

A kernel takes as long as its timeline on the SMs (`work`, `placement`), or as its bytes take through HBM,
whichever is longer, what copies of both wait for one another, and its start.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.algorithms import Pipeline
from engine.model.block_seconds import EXP, HBM, L2, TENSOR, work_of
from engine.model.launch import Launch
from engine.model.placement import Work
from engine.model.traffic import Traffic
from engine.model.visit import arithmetic_seconds, with_copies

LAUNCHING, TAIL = "launch", "tail"


@dataclass(frozen=True)
class Modelled:
    """A modelled time.

    `simulate(Experiment()).modelled` takes 16.6e-6 s and is held up by "exp".
    """

    seconds: float  # of all kernels together, over batch and heads
    bound: str  # what holds it up, all kernels together, by the name that it has in `busy`
    parts: Mapping[str, float]  # seconds of every kernel, by its name
    # by kernel, seconds that its work takes each unit of the GPU, were it spread evenly: "tensor core", "exp"
    # (float32 arithmetic of the softmax included), "L2" and "HBM"; of its start and its blocks' first and
    # last round trips, "launch"; and in which SMs have nothing left to do, "tail"
    busy: Mapping[str, Mapping[str, float]]
    limited: bool = False  # whether the card's power limits the clock of a kernel
    beside: float = (
        0.0  # seconds more than its kernels take one by one: between two events, less what overlaps
    )

    @property
    def profiled(self) -> float:
        """Seconds of its kernels as a profiler takes them, one by one."""
        return self.seconds - self.beside


def modelled_time(launch: Launch, traffic: Traffic) -> Modelled:
    """Modelled time of a launch: its kernels one after another."""
    parts, busy, running, limited, beside = {}, {}, 0.0, False, launch.reached.between_events
    for kernel in launch.kernels:
        name, work = kernel.phase.name, work_of(launch, kernel, traffic)
        seconds = work.makespan(launch.order)
        start = launch.start(kernel.phase) + beside * (not parts)
        beside += launch.start(kernel.phase) - launch.reached.launch
        parts[name] = work.with_memory(seconds) + start
        busy[name] = _busy(work, seconds, start)
        running += seconds
        limited |= work.limited
    together = {unit: sum(each[unit] for each in busy.values()) for unit in busy[name]}
    bound = _bound(together, running, launch.pipeline)
    return Modelled(sum(parts.values()), bound, parts, busy, limited, beside)


def _busy(work: Work, seconds: float, start: float) -> dict[str, float]:
    """What `Modelled.busy` says of one kernel whose blocks take so many seconds, after its start."""
    around = work.around * work.kernel.blocks / work.slots
    return {**work.units, LAUNCHING: start + around, TAIL: max(0.0, seconds - work.even)}


def _bound(busy: Mapping[str, float], seconds: float, pipeline: Pipeline) -> str:
    """What holds kernels up whose blocks take so many seconds."""
    if busy[HBM] > seconds:
        return HBM
    arithmetic, copies = arithmetic_seconds(pipeline, busy[TENSOR], busy[EXP]), max(busy[L2], busy[HBM])
    hidden = pipeline.asynchronous and copies < arithmetic  # copies that run ahead hold nothing up
    unit = max((TENSOR, EXP) if hidden else (TENSOR, EXP, L2, HBM), key=busy.get)
    visits = with_copies(pipeline, arithmetic, copies)
    return max(
        {unit: visits, LAUNCHING: busy[LAUNCHING], TAIL: busy[TAIL]}.items(), key=lambda item: item[1]
    )[0]
