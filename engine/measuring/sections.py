"""What a new GPU is recorded on, the calls of the recordings there are: how they are made, checked and timed.

Imports torch and kernels when called.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from engine.algorithms import FORWARD
from engine.experiment import Experiment
from engine.measuring.clock import FLUSH_BYTES, Repeats
from engine.measuring.exact import options_of
from engine.measuring.implementations import Prepare, implementations, own_kernel
from engine.measuring.machine import kernels, torch
from engine.measuring.trial import Checked, Trial, attempt, in_turns, random_inputs
from engine.model.launch import HEAVY_FIRST, launch
from engine.problem.problem import Problem
from engine.recordings.file import SHELF, recordings
from engine.recordings.recording import Counters, Row, TracedCall, TracedKernel, unmeasured
from engine.recordings.samples import Samples
from engine.recordings.timing import Decoding, Fp8Timing, TilingTiming
from engine.studies.your_model import LAYERS

OUTLIERS, OUTLIER_SIZE = 0.001, 10.0  # the share that is drawn from a distribution so much wider
WRONG = 0.5  # of O in FP8: no rounding takes as much
COPIED = 2**30  # bytes
COPY = "copy"
TRACES = 5  # of a call; the one of median length is kept
UNTRACED = Repeats(5, 20, 0.02)


def plan(section: str, *folders: Path) -> list[Row]:
    """Every call of a section, the most telling first: a recording that runs out of time has those.

    >>> plan("counters")[0].problem.seq_kv
    512
    """
    shelves = (one for folder in folders or (SHELF, LAYERS) for one in recordings(folder))
    return list(dict.fromkeys(unmeasured(row) for one in shelves for row in getattr(one, section)))


def together(section: str, *alike: str) -> list[list[Row]]:
    """The calls of a section, those together of which these properties are equal: they are timed in turns.

    Without any each call is by itself.
    """
    found: dict[object, list[Row]] = {}
    for row in plan(section):
        found.setdefault(tuple(getattr(row, name) for name in alike) or row, []).append(row)
    return list(found.values())


@dataclass(frozen=True)
class Relative:
    """O in float64 of the first and last head of the first sequence, which rounding to 8 bits may miss."""

    exact: Any
    allowed: float = WRONG

    def error(self, out) -> float:
        """Root mean square of the difference, over that of O."""
        return float((_ends(out).double() - self.exact).norm() / self.exact.norm())


def _ends(tensor):
    return tensor[:1, [0, -1]]


def trial_of(row: Row, cuda: bool) -> Trial:
    """What a row's call is given, and what it must give."""
    problem, numbers = getattr(row, "whole", row.problem), getattr(row, "numbers", "float16")
    if numbers == "float16" and not isinstance(row, Fp8Timing):
        return Trial.of(problem, cuda, getattr(row, "direction", FORWARD))
    tensors = random_inputs(problem, cuda)
    if getattr(row, "inputs", None) == "outliers":
        tensors = with_outliers(tensors)
    exact, _ = kernels.reference_attention(*map(_ends, tensors), causal=problem.mask.causal)
    return Trial(problem, cuda, tensors, None, Relative(exact))


def prepared(row: Row) -> Prepare:
    """How a row's call is prepared, with what its kernel does not choose for itself.

    flash3 keeps its tiles whole where bytes are counted, as the model has them: with pieces of the last it
    reads and writes more. The blocks of a row of decoding are the kernel's own.
    """
    if getattr(row, "page_size", None):
        return partial(paged, page_size=row.page_size)
    if getattr(row, "numbers", "float16") != "float16":
        return partial(_in_eight_bits, row.numbers)
    if isinstance(row, TracedCall):
        return partial(_traced, row)
    name = row.algorithm if isinstance(row, TilingTiming) else row.provider
    names = ("splits",) if isinstance(row, Decoding) else ("block_q", "block_kv", "splits")
    given = {name: value for name in names if (value := getattr(row, name, None)) is not None}
    if name == "flash3" and isinstance(row, Counters | Samples):
        given["splits"] = 1
    prepare = partial(implementations()[name].prepare, **given)
    return partial(_launched, row, prepare) if isinstance(row, TilingTiming) else prepare


def _launched(row: TilingTiming, prepare: Prepare, *given) -> Callable:
    call = prepare(*given)

    def launched():
        with kernels.launch_options(row.warps, row.stages):
            return call()

    return launched


def _traced(row: TracedCall, q, k, v, problem: Problem) -> Callable:
    how = {"algorithm": row.provider, "block_q": row.block_q, "block_kv": row.block_kv}
    how |= {"heavy_first": row.order == HEAVY_FIRST, **options_of(problem)}
    return partial(kernels.trace_attention, q, k, v, **how)


def _in_eight_bits(numbers: str, q, k, v, problem: Problem) -> Callable:
    how = {"rotate": numbers == "rotated", "scales": "tensor" if numbers == "tensor" else "block"}
    return partial(kernels.attention_fp8, q, k, v, causal=problem.mask.causal, **how)


def checked(row: Row, prepare: Prepare | None = None) -> Checked | str:
    """A row's call on this GPU, or one that is prepared otherwise, if its result is right; else why not."""
    return trial_of(row, cuda=True).checked(prepare or prepared(row))


def timed(
    rows: Sequence[Row], repeats: Repeats, cuda: bool, beside: Mapping[Row, Checked] | None = None
) -> list[Row]:
    """The rows, each checked first, with times taken in turns; or with why there is none.

    beside: more, whose calls need no check.
    """
    found, trials = {}, {}
    for row in rows:
        about = tuple(getattr(row, name, None) for name in ("whole", "problem", "direction", "inputs"))
        if about not in trials:
            trials[about] = attempt(partial(trial_of, row, cuda), cuda)
        trial, reason = trials[about]
        found[row] = reason or trial.checked(prepared(row))
    return [_shortened(row) for row in in_turns(found | dict(beside or {}), repeats, cuda)]


def _shortened(row: Row) -> Row:
    """Of a tiling that does not fit, why as a heat map says it: "out of shared memory: 288 KB of 227 KB"."""
    found = re.search(r"needs (\d+) bytes of shared memory.* has (\d+)", row.skipped or "")
    if found is None or not isinstance(row, TilingTiming):
        return row
    needed, limit = (int(number) / 1024 for number in found.groups())
    return replace(row, skipped=f"out of shared memory: {needed:.0f} KB of {limit:.0f} KB")


def timed_decoding(rows: Sequence[Decoding], repeats: Repeats, cuda: bool) -> list[Decoding]:
    """The rows of one problem, in turns with a copy, and how fast each has read K and V."""
    size = COPIED if cuda else COPIED // 64
    copies = {row: Checked(copying(size, cuda)) for row in rows if row.provider == COPY}
    found = timed([row for row in rows if row not in copies], repeats, cuda, copies)

    def rate(row: Decoding) -> float | None:
        moved = size if row.provider == COPY else key_bytes(row.problem)
        return row.times and moved / row.times.p50

    return [replace(row, bytes_per_second=rate(row)) for row in found]


def key_bytes(problem: Problem) -> int:
    """Bytes of K and V, which decoding has to read."""
    return 2 * problem.batch * problem.kv_heads * problem.seq_kv * problem.head_dim * problem.itemsize


def own_blocks(row: Decoding) -> Decoding:
    """A row of split_kv with the blocks that it takes on this machine."""
    if row.block_q is None:
        return row
    problem = row.problem
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, problem.dtype)
    blocks = kernels.split_blocks(problem.group * problem.seq_q, problem.head_dim, dtype, device)
    return replace(row, **dict(zip(("block_q", "block_kv"), blocks, strict=True)))


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


def paged(q, k, v, problem: Problem, page_size: int) -> Callable:
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
    trial = Trial.of(row.problem, cuda=True)
    traced_call = prepared(row)(*trial.inputs, row.problem)
    found = trial.checked(lambda *_: lambda: traced_call().out)
    if isinstance(found, str):
        return replace(row, skipped=found)
    if row.order == launch(Experiment(row.problem, row.provider)).order:
        blocks = {"block_q": row.block_q, "block_kv": row.block_kv}
        untraced = own_kernel(row.provider, *trial.inputs, row.problem, **blocks)
        (row,) = in_turns({row: Checked(untraced)}, UNTRACED, cuda=True)
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
