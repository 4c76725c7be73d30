"""A ring on this machine's GPUs, timed and sampled by processes of its own, a GPU each, which stay for more.

Each process samples the bytes of its own GPU: CUPTI gives one process one chip.
"""

import os
import socket
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

from engine.algorithms import FORWARD
from engine.measuring import sampling
from engine.measuring.cluster import Contender, contenders, passed, random_tensors, rows_of
from engine.measuring.libraries import torch
from engine.measuring.ranks import Ranks
from engine.model.cluster.spread import RING
from engine.problem.problem import Problem
from engine.process_tree import end_with
from engine.recordings.cluster import ClusterTimeline, ClusterTiming, GpuMarks
from engine.worker.jobs import JobError


def ring_size(problem: Problem, most: int) -> int:
    """The most GPUs that get alike parts of a problem."""
    return next(gpus for gpus in range(max(most, 1), 0, -1) if gpus == 1 or problem.seq_q % (2 * gpus) == 0)


def ring_here(
    problem: Problem, direction: str, gpus: int, provider: str = RING
) -> tuple[ClusterTiming, ClusterTimeline]:
    """Its times, checked against float64 first, and what each GPU sends in the forward pass; raises JobError.

    Either row may say instead why it has nothing.
    """
    for known in (gpus in _RINGS, False):
        ring = _RINGS[gpus] = _RINGS.get(gpus) or _Ring(gpus)
        try:
            return ring.ask(problem, direction, provider)
        except (EOFError, OSError):
            _RINGS.pop(gpus).end()
            if not known:
                raise JobError("a process of the ring ended unexpectedly; the log says more") from None


class _Ring:
    """Processes that wait for what to do, each with a GPU of its own."""

    def __init__(self, gpus: int):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context, self.pipes, self.processes = get_context("spawn"), [], []
        for rank in range(gpus):
            here, there = context.Pipe()
            process = context.Process(target=_rank, args=(rank, gpus, port, there), daemon=True)
            process.start()
            there.close()  # so that its end is seen
            self.pipes.append(here)
            self.processes.append(process)

    def ask(self, *what):
        """What the first process found, of what all are asked; EOFError or OSError where one has ended."""
        for pipe in self.pipes:
            pipe.send(what)
        return wait(self.pipes)[0].recv()

    def end(self) -> None:
        """End all."""
        for process in self.processes:
            process.kill()


_RINGS: dict[int, _Ring] = {}  # by their GPUs


def _rank(rank: int, gpus: int, port: int, pipe: Connection) -> None:
    """One process of a ring."""
    end_with(os.getppid())
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(gpus))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    ranks = Ranks()
    entered = {one.provider: one for one in contenders(ranks)}
    with suppress(EOFError):  # who asks has ended
        while True:
            problem, direction, provider = pipe.recv()
            (timing,) = rows_of(ranks, problem, direction, [entered[provider]])
            row = ClusterTimeline(provider, FORWARD, problem, gpus, skipped=timing.skipped)
            if timing.times:
                row = _with_sent(ranks, row, entered[provider], timing.times.median)
            if ranks.cuda:
                torch.cuda.empty_cache()  # others use this GPU too
            if ranks.first:
                pipe.send((timing, row))


def _with_sent(ranks: Ranks, row: ClusterTimeline, one: Contender, seconds: float) -> ClusterTimeline:
    """A row with what each GPU sends; every rank samples its own."""
    tensors = random_tensors(ranks, row.problem, row.problem.seq_q // ranks.size, ranks.rank)

    def together() -> None:
        ranks.align()
        torch.cuda.synchronize()
        passed(one, tensors, row.problem.mask.causal, FORWARD)

    with ExitStack() as stack:
        collector, sentence = ranks.attempt(lambda: stack.enter_context(sampling.link_collector(seconds)))
        if sentence is None:  # else one would wait for another that does not sample
            found, sentence = ranks.attempt(partial(sampling.sent, collector, together))
    if sentence:
        return replace(row, skipped=sentence)
    every = ranks.every(found)
    marks = tuple(GpuMarks((), (), (), sent) for _, sent in every)
    return replace(row, marks=marks, interval=every[0][0])
