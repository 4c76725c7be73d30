"""A KV cache in pages against float64 of every sequence: tables, lengths, appended keys, what is refused."""

import pytest
import torch
from attention_cases import ON_CPU, drawn, largest_difference
from torch._subclasses import FakeTensorMode

from kernels import attention_paged, reference_attention
from kernels.pages.plan import paged_call

NOWHERE = -(2**30)  # a page that no table may lead to
F16, BF16, F32 = torch.float16, torch.bfloat16, torch.float32


class Cache:
    """Sequences of these lengths in shuffled pages; NaN where no key lies, NOWHERE behind the last page."""

    def __init__(self, lengths, page, kv_heads, d, dtype, device, new=0, seen_from=0):
        self.lengths, self.page, self.new = lengths, page, new
        width = -(-(max(lengths) + new) // page) + 1
        order = torch.randperm(len(lengths) * width + 1, generator=torch.Generator().manual_seed(7))
        self.table = order[:-1].view(-1, width).int().to(device)
        self.full = [  # the keys and the values of each sequence
            [
                drawn(kv_heads, n + new, d, dtype=dtype, seed=9 * i + j).to(device)
                for i, n in enumerate(lengths)
            ]
            for j in range(2)
        ]
        self.pools = [self._filled(full, len(order), lengths) for full in self.full]
        self.after = [self._filled(full, len(order), [n + new for n in lengths]) for full in self.full]
        for row, n in zip(self.table, lengths, strict=True):
            row[-(-(n + new) // page) :] = NOWHERE
            row[: max(0, n + new - seen_from) // page if seen_from else 0] = NOWHERE
        self.held = torch.tensor(lengths, dtype=torch.int32, device=device)

    def _filled(self, full, pages, lengths):
        pool = torch.full((pages, self.page, *full[0].shape[::2]), torch.nan).to(full[0])
        for row, each, n in zip(self.table, full, lengths, strict=True):
            for key in range(n):
                pool[row[key // self.page], key % self.page] = each[:, key]
        return pool

    @property
    def added(self):
        """New keys and values, [batch, kv_heads, new, d] each."""
        return [
            torch.stack([each[:, n:] for each, n in zip(full, self.lengths, strict=True)])
            for full in self.full
        ]

    def exact(self, q, **arguments):
        """(O, lse) in float64, one sequence at a time."""
        found = []
        for i, n in enumerate(self.lengths):
            if n + self.new:
                found.append(
                    reference_attention(q[i : i + 1], *(each[i][None] for each in self.full), **arguments)
                )
            else:
                zero = torch.zeros_like(q[i : i + 1]).double()
                found.append((zero, torch.full_like(zero[..., 0], -torch.inf)))
        return [torch.cat(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize(
    ("dtype", "heads", "seq_q", "d", "page", "new", "splits", "arguments"),
    [
        (F16, (4, 2), 1, 24, 16, 0, None, {}),  # 8 pages a key block
        (F32, (4, 2), 3, 16, 64, 3, None, {"causal": True}),  # 2 key blocks a page
        (BF16, (4, 1), 5, 16, 128, 5, 3, {"window": 20}),
        (BF16, (2, 2), 2, 40, 48, 5, 9, {"causal": True}),  # pages across blocks, more splits than blocks
        (F32, (4, 2), 3, 256, 16, 0, None, {"window": (9, 2), "softcap": 2.0, "alibi_slopes": 4, "sinks": 4}),
        (F16, (4, 2), 70, 16, 16, 70, None, {"window": 100}),  # a chunk: blocks of 128 rows
    ],
)
def test_paged_keys_are_those_of_each_sequence(dtype, heads, seq_q, d, page, new, splits, arguments, device):
    heads, kv_heads = heads
    arguments = {k: drawn(heads, seed=5).abs().to(device) if k in ("sinks", "alibi_slopes") else v
                 for k, v in arguments.items()}  # fmt: skip
    lengths = [0, 50, 131] if "sinks" not in arguments else [1, 50]
    cache = Cache(lengths, page, kv_heads, d, dtype, device, new, 24 if arguments.get("window") == 20 else 0)
    q = drawn(len(lengths), heads, seq_q, d, dtype=dtype, seed=3).to(device)
    added = dict(zip(("k_new", "v_new"), cache.added, strict=True)) if new else {}
    out, lse = attention_paged(
        q, *cache.pools, cache.table, cache.held, **added, **arguments, splits=splits, return_lse=True
    )
    exact, exact_lse = cache.exact(q, **arguments)
    eps = 4 * max(torch.finfo(dtype).eps, 1e-6)
    assert (out.dtype, out.shape, lse.dtype) == (dtype, q.shape, F32)
    assert largest_difference(out, exact) <= eps * 2
    assert largest_difference(lse, exact_lse) <= 2e-5
    for ours, right in zip(cache.pools, cache.after, strict=True):
        assert torch.equal(ours.nan_to_num(99), right.nan_to_num(99))  # nothing else was written


def test_keys_past_the_table_are_neither_written_nor_seen(device):
    """Two keys are new behind 31 of at most 32: the second has no page."""
    cache = Cache([31], 16, 1, 16, F32, device, new=1)
    table, (k_new, v_new) = cache.table[:, :2].contiguous(), cache.added
    q = drawn(1, 1, 1, 16, seed=3).to(device)
    twice = [torch.cat([each, each + 1], 2) for each in (k_new, v_new)]
    out = attention_paged(q, *cache.pools, table, cache.held, k_new=twice[0], v_new=twice[1])
    assert largest_difference(out, cache.exact(q)[0]) < 1e-5
    assert torch.equal(cache.pools[0].nan_to_num(99), cache.after[0].nan_to_num(99))


def test_the_splits_are_the_tables_and_the_gpus():
    """One query of 32 heads on 8, on 132 SMs: a program each, of 65,536 keys or of 2,097,152."""
    q, cache = torch.empty(1, 32, 1, 128, dtype=F16), torch.empty(1, 16, 8, 128, dtype=F16)
    for width in (1024, 32768):
        assert paged_call(q, cache.repeat(1, 4, 1, 1), torch.empty(1, width)).splits == 132 // 8
    call = paged_call(q, cache, torch.empty(1, 4096))  # small pages, in blocks of 64 keys: two on an SM
    assert (call.block_kv, call.splits) == (64, 2 * 132 // 8 - 1)
    several = q.expand(16, -1, -1, -1)  # of any lengths: 8 programs an SM, of 4,096 keys at least
    assert paged_call(several, cache, torch.empty(16, 4096)).splits == 8 * 132 // (16 * 8)
    assert paged_call(several, cache, torch.empty(16, 512)).splits == 2
    assert paged_call(several, cache, torch.empty(16, 256)).splits == 1
    assert paged_call(q, cache, torch.empty(1, 4096), 255, 0).splits == 4  # a window sees few keys
    chunk = paged_call(q.expand(-1, -1, 512, -1), cache, torch.empty(1, 2048))
    assert (chunk.block_q, chunk.block_kv, chunk.splits) == (128, 64, 1)  # 16 blocks of rows fill the GPU
    large = paged_call(q.expand(-1, -1, 512, -1), cache.repeat(1, 16, 1, 1), torch.empty(1, 128))
    assert (large.block_q, large.block_kv, large.splits) == (128, 128, 1)


def test_nothing_waits_for_lengths_and_tables(device):
    """Fake tensors hold none."""
    with FakeTensorMode():
        q = torch.empty(2, 4, 3, 16, dtype=F16, device=device)
        pool = torch.empty(9, 16, 2, 16, dtype=F16, device=device)
        table, held = (torch.empty(size, dtype=torch.int32, device=device) for size in ((2, 4), 2))
        out, lse = attention_paged(q, pool, pool, table, held, return_lse=True)
    assert (out.shape, out.dtype, lse.shape, lse.dtype) == (q.shape, F16, (2, 4, 3), F32)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
def test_compiled_in_one_graph_that_appends(device):
    cache, expected = (Cache([5, 20], 16, 1, 16, F32, device, new=1) for _ in range(2))
    q = drawn(2, 2, 1, 16, seed=3).to(device)

    def step(q, cache):
        k_new, v_new = cache.added
        return attention_paged(2 * q, *cache.pools, cache.table, cache.held, k_new=k_new, v_new=v_new)

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert largest_difference(compiled(q, cache), step(q, expected).double()) < 1e-6
    for ours, right in zip(cache.pools, cache.after, strict=True):
        assert torch.equal(ours.nan_to_num(99), right.nan_to_num(99))
    torch.compiler.reset()


@ON_CPU
def test_pages_that_are_not_followed_may_be_anything():
    pool, lost = torch.zeros(3, 16, 2, 16), 99
    table = torch.tensor([[lost, 1, 2, lost], [0, lost, lost, lost]])
    q = torch.zeros(2, 4, 1, 16)
    attention_paged(q, pool, pool, table, torch.tensor([48, 16]), window=20)
    with pytest.raises(ValueError, match=r"^block_table names page 99, it must be from 0 to 2$"):
        attention_paged(q, pool, pool, table, torch.tensor([48, 16]))
    new = torch.zeros(2, 2, 1, 16)
    with pytest.raises(ValueError, match=r"^block_table names page 99"):
        attention_paged(q, pool, pool, table, torch.tensor([47, 16]), window=20, k_new=new, v_new=new)
