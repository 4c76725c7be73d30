"""How the rows of a recording's sections are measured: each call checked first, those of a group in turns.

Imports torch and kernels when called.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import gcd

import numpy as np

from engine.experiment import Experiment
from engine.measuring.clock import FLUSH_BYTES, Repeats, percentiles, stopwatch, wants_more
from engine.measuring.implementations import implementations
from engine.measuring.libraries import kernels, torch
from engine.measuring.precompile import Kernel
from engine.measuring.scenarios import together
from engine.measuring.trial import Checked, Trial, attempt, in_turns, not_timed, random_inputs
from engine.model.launch import HEAVY_FIRST, launch
from engine.problem.problem import Problem
from engine.recordings.recording import TracedCall, TracedKernel
from engine.recordings.timing import Decoding, Fp8Timing, TilingTiming, VariantTiming
from engine.studies.masks import beside

OUTLIERS, OUTLIER_SIZE = 0.001, 10.0  # the share that is drawn from a distribution so much wider
WRONG = 0.5  # of O in FP8: no rounding takes as much
SWEPT = Repeats(3, 8, 0.02)
LONGEST = 0.1  # seconds per call; slower is recorded from one call
DECODED = Repeats(10, 30, 0.03)
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COPIED = 2**30  # bytes
PEERS = ("flash2", "sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "fa3", "fa4")
COPY, SPLIT, CHUNKED, PAGED = "copy", "split_kv", "flash3", "attention_paged"
PAGE_SIZES = (16, 64, 256)
TRACES = 5  # of a call; the one of median length is kept
UNTRACED = Repeats(5, 20, 0.02)


def timed_variants(rows: Sequence[VariantTiming], repeats: Repeats, cuda: bool) -> list[VariantTiming]:
    """The rows with their times, each result held against float64 first; or with why there is none."""
    known, found = implementations(), {}
    for row in rows:
        trial, reason = attempt(lambda row=row: Trial.of(row.whole, cuda, row.direction), cuda)
        found[row] = reason or trial.checked(known[row.provider].prepare)
    return in_turns(found, repeats, cuda)


def variant_line(row: VariantTiming, plain: VariantTiming) -> str:
    """A row as the command line prints it: its time, its rate, and that rate over the plain one's."""
    name = row.problem.mask.text
    name += f", prefix {row.prefix:,}" if row.prefix else ""
    name += f", {row.term}" if row.term else ""
    name += f", d {row.problem.head_dim}/{row.v_dim}" if row.v_dim else ""
    if row.times is None:
        return f"{row.direction:<8} {name:<46} {row.skipped}"
    over = f"{row.tflops / plain.tflops:.2f} of plain" if plain.tflops else ""
    return f"{row.direction:<8} {name:<46} {row.times.p50 * 1e3:7.3f} ms {row.tflops:4.0f} TFLOP/s  {over}"


def run_variants(repeats: Repeats) -> list[VariantTiming]:
    """Times all of them and prints a line for each."""
    found = []
    for planned in together("variants", "direction"):
        rows = timed_variants(planned, repeats, cuda=True)
        found += rows
        for row in rows:
            print(variant_line(row, beside(row, rows)), flush=True)
    return found


def timed_fp8(rows: Sequence[Fp8Timing], repeats: Repeats, cuda: bool) -> list[Fp8Timing]:
    """The rows of one problem and its inputs with their errors, and times in turns; or with why none."""
    problem = rows[0].problem
    tensors = random_inputs(problem, cuda)
    if rows[0].inputs == "outliers":
        tensors = with_outliers(tensors)
    exact, found = _exact_fp8(tensors, problem), {}
    for row in rows:
        error, checked = _fp8(row.numbers, tensors, problem, exact)
        found[row if error is None else replace(row, relative_error=error)] = checked
    return in_turns(found, repeats, cuda)


def checked_fp8(numbers: str, problem: Problem) -> Checked | str:
    """The call in these numbers on normally distributed inputs, if its result is right; else why not."""
    tensors = random_inputs(problem, cuda=True)
    return _fp8(numbers, tensors, problem, _exact_fp8(tensors, problem))[1]


def _fp8(numbers: str, tensors: Sequence, problem: Problem, exact) -> tuple[float | None, Checked | str]:
    """The error of O, and the call; or None and why it is not timed."""
    how = {"causal": problem.mask.causal}
    if numbers == "float16":
        call = partial(kernels.attention, *tensors, **how, algorithm="flash3")
    else:
        scales = "tensor" if numbers == "tensor" else "block"
        call = partial(kernels.attention_fp8, *tensors, **how, rotate=numbers == "rotated", scales=scales)
    out, reason = attempt(call, tensors[0].is_cuda)
    if reason:
        return None, reason
    error = relative_error(out, exact)
    return (error, Checked(call)) if error < WRONG else (None, not_timed(f"it is off by {error:.2g} of O"))


def with_outliers(tensors: Sequence) -> tuple:
    """One number in a thousand of each gets another added that is ten times as wide."""
    generator = torch.Generator(tensors[0].device).manual_seed(1)

    def added(tensor):
        size, drawn = (
            function(tensor.shape, generator=generator, device=tensor.device)
            for function in (torch.randn, torch.rand)
        )
        return (OUTLIER_SIZE * size * (drawn < OUTLIERS)).to(tensor.dtype)

    return tuple(tensor + added(tensor) for tensor in tensors)


def fp8_line(rows: Sequence[Fp8Timing]) -> str:
    """A problem's rows as the command line prints them."""
    problem, mask = rows[0].problem, rows[0].problem.mask.text
    said = [
        f"{row.numbers} {row.skipped}" if row.times is None
        else f"{row.numbers} {row.tflops:.0f} TFLOP/s off by {row.relative_error:.2%}"
        for row in rows
    ]  # fmt: skip
    return f"N {problem.seq_kv} d {problem.head_dim} {mask}, {rows[0].inputs}: {', '.join(said)}"


def _ends(tensor):
    """The first and the last head of the first sequence."""
    return tensor[:1, [0, -1]]


def _exact_fp8(tensors: Sequence, problem: Problem):
    return kernels.reference_attention(*map(_ends, tensors), causal=problem.mask.causal)[0]


def relative_error(out, exact) -> float:
    """Root mean square of the difference of the first and last head to float64, over that of O."""
    return float((_ends(out).double() - exact).norm() / exact.norm())


def call_of(row: TilingTiming, q, k, v, *_):
    """One launch; raises OutOfSharedMemoryError and what else the compiler finds."""
    options = Kernel.of_row(row).options

    def call():
        with kernels.launch_options(row.warps, row.stages):
            return kernels.attention(q, k, v, **options)

    return call


def timed_sweep(wanted: list[TilingTiming], cuda: bool) -> Iterator[TilingTiming]:
    """The rows of one problem, measured in random order so that clock drift favours no block size."""
    if not wanted:
        return
    trial, seconds = Trial.of(wanted[0].problem, cuda), stopwatch(cuda)
    for row in random.Random(0).sample(wanted, len(wanted)):
        found = trial.checked(partial(call_of, row))
        if isinstance(found, str):
            yield replace(row, skipped=_short(found))
            continue
        spent = [seconds(found.call)]
        while spent[0] < LONGEST and wants_more(spent, SWEPT):
            spent.append(seconds(found.call))
        yield replace(row, times=percentiles(spent))


def _short(reason: str) -> str:
    """As a heat map says it: "out of shared memory: 288 KB of 227 KB"."""
    found = re.search(r"needs (\d+) bytes of shared memory.* has (\d+)", reason)
    if found is None:
        return reason
    needed, limit = (int(number) / 1024 for number in found.groups())
    return f"out of shared memory: {needed:.0f} KB of {limit:.0f} KB"


def key_bytes(problem: Problem) -> int:
    """Bytes of K and V, which decoding has to read."""
    return 2 * problem.batch * problem.kv_heads * problem.seq_kv * problem.head_dim * problem.itemsize


def own_blocks(problem: Problem) -> tuple[int, int]:
    """(block_q, block_kv) that split_kv takes for a problem."""
    rows = problem.group * problem.seq_q
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return kernels.split_blocks(rows, problem.head_dim, getattr(torch, problem.dtype), device)


def planned_decoding(problem: Problem) -> dict[Decoding, Callable]:
    """What is timed for a problem, as rows without times, and what prepares the call of each.

    split_kv with every number of splits and with its own, the peers, and the same keys in pages. Of a chunk
    of queries the keys in one piece, as flash3 reads them, and in pages.
    """
    known, language, blocks, found = implementations(), "Gluon", {}, {}
    if problem.seq_q == 1:
        language, blocks = "Triton", dict(zip(("block_q", "block_kv"), own_blocks(problem), strict=True))
        own = known[SPLIT]
        found = {
            Decoding(SPLIT, own.label, problem, splits, **blocks): partial(own.prepare, splits=splits)
            for splits in (None, *SPLITS)
        }
    peers = (known[name] for name in (PEERS if problem.seq_q == 1 else [CHUNKED]) if known[name].installed)
    found |= {Decoding(one.name, one.label, problem): one.prepare for one in peers}
    for size in (size for size in PAGE_SIZES if problem.seq_kv % size == 0):
        row = Decoding(PAGED, f"{language}, pages of {size} keys", problem, **blocks, page_size=size)
        found[row] = partial(_paged, page_size=size)
    return found


def timed_decoding(problem: Problem, cuda: bool) -> list[Decoding]:
    """All that is planned, each checked first, and a copy, timed in turns."""
    trial, size = Trial.of(problem, cuda), COPIED if cuda else COPIED // 64
    found = {row: trial.checked(prepare) for row, prepare in planned_decoding(problem).items()}
    found[Decoding(COPY, "device copy, read plus written", problem)] = Checked(copying(size, cuda))
    rows = []
    for row in in_turns(found, DECODED, cuda):
        moved = size if row.provider == COPY else key_bytes(problem)
        rows.append(replace(row, bytes_per_second=row.times and moved / row.times.p50))
    return rows


def _paged(q, k, v, problem: Problem, page_size: int) -> Callable:
    """attention_paged over the same keys, in pages in random order."""
    batch, pages = problem.batch, problem.seq_kv // page_size
    order = torch.randperm(batch * pages, device=k.device)
    caches = [torch.empty_like(k).view(-1, page_size, problem.kv_heads, problem.head_dim) for _ in range(2)]
    for cache, tensor in zip(caches, (k, v), strict=True):
        cache[order] = tensor.transpose(1, 2).reshape(cache.shape)
    table = order.view(batch, pages).int()
    lengths = torch.full((batch,), problem.seq_kv, dtype=torch.int32, device=k.device)
    return lambda: kernels.attention_paged(q, *caches, table, lengths, causal=problem.mask.causal)


def copying(size: int, cuda: bool) -> Callable:
    """A copy that reads half of so many bytes and writes as much."""
    source = torch.ones(size // 2, dtype=torch.uint8, device="cuda" if cuda else "cpu")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def traced_row(row: TracedCall) -> TracedCall:
    """The row of one call, checked against float64 and traced; or why it has none."""
    options, trial = Kernel.of_row(row).options, Trial.of(row.problem, cuda=True)
    heavy_first = row.order == HEAVY_FIRST

    def traced_call():
        return kernels.trace_attention(*trial.inputs, **options, heavy_first=heavy_first)

    found = trial.checked(lambda *_: lambda: traced_call().out)
    if isinstance(found, str):
        return replace(row, skipped=found)
    if row.order == launch(Experiment(row.problem, row.provider)).order:
        untraced = Checked(partial(kernels.attention, *trial.inputs, **options))
        (row,) = in_turns({row: untraced}, UNTRACED, cuda=True)
    repeats = [_blocks(traced_call) for _ in range(TRACES)]
    repeats.sort(key=lambda one: max(int(blocks[:, 2].max()) for blocks in one.values()))
    middle = repeats[len(repeats) // 2]
    tick = gcd(*(int(value) for own in middle.values() for value in np.unique(own[:, 1:])))
    traced = tuple(traced_kernel(name, own, tick) for name, own in middle.items())
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    return replace(row, sms=sms, tick=tick * 1e-9, kernels=traced)


def _blocks(traced_call: Callable) -> dict[str, np.ndarray]:
    """[blocks, 3] of each kernel: SM, start and end in nanoseconds from the first start; the L2 is cold."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    flush.zero_()
    flush.zero_()
    found = {name: blocks.cpu().numpy() for name, blocks in traced_call().blocks.items()}
    first = min(int(blocks[:, 1].min()) for blocks in found.values())
    return {name: blocks - [0, first, first] for name, blocks in found.items()}


def traced_kernel(name: str, blocks: np.ndarray, tick: int) -> TracedKernel:
    """A kernel's blocks as a recording has them, from [blocks, 3] SM, start and end in nanoseconds."""
    start, length = blocks[:, 1] // tick, (blocks[:, 2] - blocks[:, 1]) // tick
    columns = (blocks[:, 0], np.diff(start, prepend=0), length)
    return TracedKernel(name, *(tuple(column.tolist()) for column in columns))
