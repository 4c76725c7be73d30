"""Attention on several GPUs, timed: this project's methods, PyTorch's context parallelism, and one GPU alone.

Every rank runs this; each result is held against float64 before it is timed. A page's ring runs in processes
of its own, a GPU each, which stay for more: each samples the bytes of its own GPU, as CUPTI gives one process
one chip. Imports torch when called.
"""

import json
import os
import random
import socket
import statistics
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from engine.algorithms import FORWARD
from engine.measuring import sampling
from engine.measuring.clock import Repeats, wants_more
from engine.measuring.machine import Library, kernels, torch
from engine.measuring.ranks import Ranks
from engine.measuring.trial import not_timed
from engine.model.cluster.seconds import COMPUTING, KINDS, MERGING, PACKING, TRANSFER
from engine.model.cluster.spread import RING
from engine.problem.dtype import dtype_named
from engine.problem.problem import Problem
from engine.process_tree import end_with
from engine.recordings.cluster import BOTH, ONE, ClusterTimeline, ClusterTiming, Extent, GpuMarks
from engine.worker.jobs import JobError

sharded, functional = Library("kernels.distributed"), Library("torch.nn.functional")
IN_TURNS = Repeats(3, 12, 0.6)
LONGEST = 4.0  # seconds of a call on all GPUs together; what would take longer is left out
CHECKED = {True: 2048, False: 16}  # tokens that are held against float64, by whether on GPUs
ALLOWED, LEAST_ALLOWED = 4, 2e-5  # relative error of O or of any gradient: of the dtype's eps, and at least


@dataclass(frozen=True)
class Contender:
    """One way to compute: its call takes q, k, v, dO and whether they are causal; sharded: on a rank's part.

    session is what holds around all its calls of one kind.
    """

    provider: str
    label: str
    call: Callable[..., Any]
    sharded: bool = True
    session: Callable[[Ranks, bool], AbstractContextManager] = lambda ranks, causal: nullcontext()


def contenders(ranks: Ranks) -> list[Contender]:
    """All that run here: one GPU first."""
    whole = lambda q, k, v, causal: kernels.attention(q, k, v, causal=causal)  # noqa: E731
    found = [Contender(ONE, "One GPU", whole, sharded=False)]
    labels = {"ring": "Ring, copy engines", "ring_send": f"Ring, {'NCCL' if ranks.cuda else 'gloo'}"}
    labels |= {"all_gather": "All-gather", "all_to_all": "All-to-all"}
    found += [Contender(method, label, partial(_by_method, method)) for method, label in labels.items()]
    backends = {"flash": "flash", "cudnn": "cuDNN"} if ranks.cuda else {}
    for backend, name in backends.items():
        label = f"PyTorch context_parallel, {name}"
        session = partial(_context_parallel, backend)
        found.append(Contender(f"context_parallel_{backend}", label, _pytorch, session=session))
    return found


def _by_method(method: str, q, k, v, causal: bool):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=f"{method} runs as")  # is no result of this
        return sharded.ring_attention(q, k, v, causal=causal, method=method)


def _pytorch(q, k, v, causal: bool):
    return functional.scaled_dot_product_attention(
        q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1]
    )


@contextmanager
def _context_parallel(backend: str, ranks: Ranks, causal: bool) -> Iterator[None]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if not causal:
        raise ValueError("PyTorch's context_parallel balances causal work and takes no other mask so")
    mesh = init_device_mesh(ranks.device.type, (ranks.size,), mesh_dim_names=("cp",))
    chosen = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[backend]
    sample = torch.zeros(1, 1, 2 * ranks.size, 1, device=ranks.device)
    with sdpa_kernel(chosen), context_parallel(mesh, buffers=[sample], buffer_seq_dims=[2]):
        yield


def passed(contender: Contender, tensors, causal: bool, direction: str) -> tuple:
    """O, and where asked dQ, dK and dV, of one call."""
    q, k, v, d_out = tensors
    if direction == FORWARD:
        with torch.no_grad():
            return (contender.call(q, k, v, causal),)
    leaves = [each.detach().requires_grad_() for each in (q, k, v)]
    out = contender.call(*leaves, causal)
    return (out.detach(), *torch.autograd.grad(out, leaves, d_out))


def random_tensors(ranks: Ranks, problem: Problem, rows: int, seed: int = 0) -> list:
    """q, k, v and dO of so many tokens, alike on all ranks that give the same seed."""
    generator = torch.Generator(ranks.device).manual_seed(seed)
    options = {"generator": generator, "device": ranks.device, "dtype": getattr(torch, problem.dtype)}
    heads = (problem.heads, problem.kv_heads, problem.kv_heads, problem.heads)
    return [torch.randn(problem.batch, each, rows, problem.head_dim, **options) for each in heads]


def error(ranks: Ranks, contender: Contender, problem: Problem, direction: str) -> float:
    """The largest relative error of a result on a short sequence, against float64; the same on all ranks."""
    causal = problem.mask.causal
    rows = CHECKED[ranks.cuda] // (2 * ranks.size) * 2 * ranks.size
    whole = random_tensors(ranks, problem, rows)
    wide = [each.double().requires_grad_() for each in whole[:3]]
    exact = [kernels.reference_attention(*wide, causal=causal)[0]]
    if direction == BOTH:
        exact += torch.autograd.grad(exact[0], wide, whole[3].double())

    def part(tensor):
        return sharded.shard(tensor, causal=causal) if contender.sharded else tensor

    with contender.session(ranks, causal):
        found = passed(contender, [part(each) for each in whole], causal, direction)
    right = [part(each.detach()) for each in exact]
    errors = [(ours.double() - each).norm() / each.norm() for ours, each in zip(found, right, strict=True)]
    return ranks.over(max(float(each.nan_to_num(1e9)) for each in errors))


def rows_of(ranks: Ranks, problem: Problem, direction: str, entered: list[Contender]) -> list[ClusterTiming]:
    """A row for each contender, timed in rounds of random order; why not where there is no time.

    The same on all ranks.
    """
    allowed = max(ALLOWED * dtype_named(problem.dtype).eps, LEAST_ALLOWED)
    small, order, rows = replace(problem, batch=1), random.Random(0), {}
    for one in entered:
        off, sentence = ranks.attempt(partial(error, ranks, one, small, direction))
        if sentence is None and off > allowed:
            sentence = not_timed(f"off by {off:.2g}, allowed is {allowed:g}")
        row = ClusterTiming(one.provider, one.label, direction, problem, ranks.size if one.sharded else 1)
        rows[one] = replace(row, error=off, allowed=allowed, skipped=sentence)
    wanted = [one for one in entered if rows[one].skipped is None]
    spent: dict[Contender, list[tuple[float, float]]] = {one: [] for one in wanted}
    while wanted:
        order.shuffle(wanted)
        for one in wanted:
            once = partial(_once, ranks, problem, direction, one, warm=not spent[one])
            measured, sentence = ranks.attempt(once)
            longest = LONGEST * (1 if one.sharded else ranks.size)
            if sentence is None and measured[0] > longest:
                sentence = f"takes {measured[0]:.1f} s per call; the limit here is {longest:g} s"
            rows[one] = replace(rows[one], skipped=sentence)
            spent[one] += [] if sentence else [measured]
        wanted = [
            one
            for one in wanted
            if rows[one].skipped is None and wants_more([each for each, _ in spent[one]], IN_TURNS)
        ]
    for one in (one for one in spent if rows[one].skipped is None):
        seconds, hosts = zip(*spent[one], strict=True)
        times = Extent(min(seconds), statistics.median(seconds), max(seconds), len(seconds))
        rows[one] = replace(rows[one], times=times, host=statistics.median(hosts))
    return list(rows.values())


def _once(ranks: Ranks, problem: Problem, direction: str, one: Contender, warm: bool) -> tuple[float, float]:
    """Seconds of one call on this rank's share, after one that is not timed where `warm`."""
    rows = problem.seq_q // ranks.size if one.sharded else problem.seq_q
    tensors = random_tensors(ranks, problem, rows, ranks.rank)
    causal = problem.mask.causal
    with one.session(ranks, causal):
        for _ in range(warm):
            passed(one, tensors, causal, direction)
        return ranks.timed(lambda: passed(one, tensors, causal, direction))


NANO_PER_MICRO = 1000
ALIGNING = "AllReduce"  # the kernel at whose end all GPUs are at one point
# what is found in a kernel's or copy's name, in this order; what is in none computes
KNOWN = (
    ("barrier", None),
    ("Memset", None),
    ("Memcpy", TRANSFER),
    ("ncclDevKernel", TRANSFER),
    ("combine_kernel", MERGING),
    ("merge_kernel", MERGING),  # of parts of one call
    ("elementwise", PACKING),
    ("gather", PACKING),
    ("copy", PACKING),
)


def timeline_of(ranks: Ranks, problem: Problem, one: Contender) -> ClusterTimeline:
    """A forward call; the same row on all ranks, with the sentence why where there are no marks."""
    row = ClusterTimeline(one.provider, FORWARD, problem, ranks.size)
    if not ranks.cuda:
        return replace(row, skipped="a CPU has no lanes: there is no GPU here")
    events, sentence = ranks.attempt(lambda: _profiled(ranks, problem, one))
    marks = () if sentence else tuple(marks_of(each) for each in ranks.every(events))
    if marks and all(each.kind for each in marks):
        return replace(row, marks=marks)
    return replace(row, skipped=sentence or "the profiler saw nothing on a GPU")


def _profiled(ranks: Ranks, problem: Problem, one: Contender) -> list[tuple[str, float, float]]:
    """(name, start, length) of all that this GPU did, microseconds."""
    from torch.profiler import ProfilerActivity, profile

    tensors = random_tensors(ranks, problem, problem.seq_q // ranks.size, ranks.rank)
    with one.session(ranks, causal=True):
        for _ in range(3):
            passed(one, tensors, True, FORWARD)
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            ranks.timed(lambda: passed(one, tensors, True, FORWARD))
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        found.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    return [
        (event["name"], event["ts"], event["dur"])
        for event in events
        if event.get("ph") == "X" and event.get("cat") in kinds
    ]


def marks_of(events: list[tuple[str, float, float]]) -> GpuMarks:
    """A GPU's events after the point at which all were together, as marks."""
    ends = [start + length for name, start, length in events if ALIGNING in name]
    together = max(ends, default=0.0)
    found = []
    for name, start, length in sorted(events, key=lambda event: event[1]):
        kind = next((kind for words, kind in KNOWN if words.lower() in name.lower()), COMPUTING)
        if kind is not None and start >= together and ALIGNING not in name:
            since, lasts = (round(value * NANO_PER_MICRO) for value in (start - together, length))
            found.append((KINDS.index(kind), since, lasts))
    return GpuMarks(*map(tuple, zip(*found, strict=True))) if found else GpuMarks((), (), ())


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
        ring = _RINGS[gpus] = _RINGS.get(gpus) or _started(gpus)
        pipes, processes = zip(*ring, strict=True)
        try:
            for pipe in pipes:
                pipe.send((problem, direction, provider))
            return wait(pipes)[0].recv()  # of the first process, or the end of any
        except (EOFError, OSError):
            del _RINGS[gpus]
            for process in processes:
                process.kill()
            if not known:
                raise JobError("a process of the ring ended unexpectedly; the log says more") from None


_RINGS: dict[int, list[tuple[Connection, BaseProcess]]] = {}  # by their GPUs: each waits for what to do


def _started(gpus: int) -> list[tuple[Connection, BaseProcess]]:
    """A process for each of so many GPUs."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context, ring = get_context("spawn"), []
    for rank in range(gpus):
        here, there = context.Pipe()
        process = context.Process(target=_rank, args=(rank, gpus, port, there), daemon=True)
        process.start()
        there.close()  # so that its end is seen
        ring.append((here, process))
    return ring


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
