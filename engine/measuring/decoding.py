"""Few queries against many keys: bytes of K and V over time, by the number of splits and by contender."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from engine.measuring import clock
from engine.measuring.implementations import implementations
from engine.measuring.libraries import kernels, torch
from engine.measuring.trial import Checked, Trial, in_turns
from engine.problem.problem import Problem
from engine.recordings.timing import Decoding

SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
COPIED = 2**30  # bytes
REPEATS = clock.Repeats(10, 30, 0.03)
PEERS = ("flash2", "sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "fa3", "fa4")
COPY, SPLIT, PAGED = "copy", "split_kv", "attention_paged"
PAGE_SIZES = (16, 64, 256)


def key_bytes(problem: Problem) -> int:
    """Bytes of K and V, which decoding has to read."""
    return 2 * problem.batch * problem.kv_heads * problem.seq_kv * problem.head_dim * problem.itemsize


def own_blocks(problem: Problem) -> tuple[int, int]:
    """(block_q, block_kv) that split_kv takes for a problem."""
    rows = problem.group * problem.seq_q
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return kernels.split_blocks(rows, problem.head_dim, getattr(torch, problem.dtype), device)


def planned(problem: Problem) -> dict[Decoding, Callable]:
    """What is timed for a problem, as rows without times, and what prepares the call of each.

    split_kv with every number of splits and with its own, the peers, and the same keys in pages.
    """
    known, blocks = implementations(), dict(zip(("block_q", "block_kv"), own_blocks(problem), strict=True))
    own = known[SPLIT]
    found = {
        Decoding(SPLIT, own.label, problem, splits, **blocks): partial(own.prepare, splits=splits)
        for splits in (None, *SPLITS)
    }
    peers = (known[name] for name in PEERS if known[name].installed)
    found |= {Decoding(one.name, one.label, problem): one.prepare for one in peers}
    for size in (size for size in PAGE_SIZES if problem.seq_kv % size == 0):
        row = Decoding(PAGED, f"Triton, pages of {size} keys", problem, **blocks, page_size=size)
        found[row] = partial(_paged, page_size=size)
    return found


def rows_of(problem: Problem, cuda: bool) -> list[Decoding]:
    """All that is planned, each checked first, and a copy, timed in turns."""
    trial, size = Trial.of(problem, cuda), COPIED if cuda else COPIED // 64
    found = {row: trial.checked(prepare) for row, prepare in planned(problem).items()}
    found[Decoding(COPY, "device copy, read plus written", problem)] = Checked(copying(size, cuda))
    rows = []
    for row in in_turns(found, REPEATS, cuda):
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
