"""Shapes, masks and naive twins that the kernel tests share."""

from dataclasses import dataclass
from itertools import product

import pytest
import torch

from kernels.call.options import Options
from kernels.reference import reference_attention, visible_mask

ON_CPU = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: nothing to interpret")
HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9


def on_hopper(test):
    """A test that runs on a Hopper GPU alone."""
    return pytest.mark.gpu(pytest.mark.skipif(not HOPPER, reason="needs a Hopper GPU")(test))


@dataclass(frozen=True)
class Shape:
    name: str
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    block_q: int
    block_kv: int
    batch: int = 1
    v_dim: int | None = None  # V's, where it is another

    @property
    def blocks(self):
        return {"block_q": self.block_q, "block_kv": self.block_kv}


SHAPES = [
    Shape("one-token", 1, 1, 1, 1, 1, 16, 16),
    Shape("ragged", 2, 2, 21, 21, 24, 16, 16, batch=2),
    Shape("whole-tiles", 1, 1, 64, 64, 64, 32, 16),
    Shape("grouped-heads-more-keys", 4, 2, 20, 70, 40, 16, 32),
    Shape("one-key-head-more-queries", 3, 1, 36, 20, 16, 32, 16),
    Shape("one-query", 2, 1, 1, 70, 80, 16, 32),
    Shape("head-dim-256", 1, 1, 20, 36, 256, 16, 16),
    Shape("blocks-past-the-end", 1, 1, 20, 20, 128, 64, 32),
    Shape("block-of-keys-wider", 1, 1, 30, 24, 7, 16, 64),
]
RICH = ("ragged", "grouped-heads-more-keys", "one-key-head-more-queries")  # met by all masks everywhere
MASKS = {
    "no-mask": {},
    "causal": {"causal": True},
    "window-1": {"window": 1},
    "window-20": {"window": 20},
    "causal-window-9": {"causal": True, "window": 9},
}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
ALGORITHMS = ["standard", "flash1", "flash2", "split_kv"]


def in_turn(*lists, by=1):
    """All of the product of the lists but the last, of whose values each has `by` in turn: all pairs meet."""
    *others, last = lists
    return [
        (*(one for _, one in each), last[(sum(place for place, _ in each) + more) % len(last)])
        for each in product(*map(enumerate, others))
        for more in range(by)
    ]


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def drawn(*shape, dtype=torch.float32, seed=0):
    """Numbers from a generator of their own."""
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    return numbers.to(dtype)


def random_qkv(shape: Shape, dtype, device, seed=0):
    """q, k, v from a generator of their own: the same numbers on every device."""
    generator = torch.Generator().manual_seed(seed)

    sizes = (shape.heads, shape.seq_q), (shape.kv_heads, shape.seq_kv), (shape.kv_heads, shape.seq_kv)
    columns = shape.head_dim, shape.head_dim, shape.v_dim or shape.head_dim
    return tuple(
        torch.randn(shape.batch, *size, each, generator=generator).to(device=device, dtype=dtype)
        for size, each in zip(sizes, columns, strict=True)
    )


def gradients(attend, tensors, d_out, d_lse=None):
    """dq, dk and dv of <out, d_out> + <lse, d_lse>, rows that see no key left out of the latter."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors]
    out, lse = attend(*leaves)
    total = (out * d_out.to(out.dtype)).sum()
    if d_lse is not None:
        total = total + torch.where(lse.isfinite(), lse, 0.0).mul(d_lse).sum()
    return torch.autograd.grad(total, leaves)


def by_sequence(q, k, v, packed, **given):
    """O and lse in float64 of each of the packed sequences by itself, one after another.

    packed: where they begin among the queries and the keys, [sequences + 1] each.
    """
    spans = [zip(starts.tolist(), starts[1:].tolist(), strict=False) for starts in packed]
    found = [(q.new_zeros(*q.shape[:2], 0, v.shape[3]).double(), q.new_zeros(*q.shape[:2], 0).double())]
    for (row, row_end), (key, key_end) in zip(*spans, strict=True):
        own = q[:, :, row:row_end], k[:, :, key:key_end], v[:, :, key:key_end]
        if row < row_end and key < key_end:
            found.append(reference_attention(*own, **given))
        elif row < row_end:
            lse = torch.full_like(own[0][..., 0], -torch.inf).double()
            if given.get("sinks") is not None:
                lse = given["sinks"].double()[:, None].expand(lse.shape)
            found.append((own[0].new_zeros(*lse.shape, v.shape[3]).double(), lse))
    return [torch.cat(each, 2) for each in zip(*found, strict=True)]


def largest_difference(ours, exact):
    """The largest absolute difference; equal infinities differ by 0, and NaN anywhere gives NaN."""
    ours = ours.double()
    return torch.where(ours == exact, 0.0, (ours - exact).abs()).max().item()


def visited_tiles(shape: Shape, causal=False, window=None):
    """[query_blocks, key_blocks] bool: the tiles that hold a visible pair, counted densely."""
    seen = visible_mask(shape.seq_q, shape.seq_kv, Options(causal, window))
    query_block = torch.arange(shape.seq_q) // shape.block_q
    key_block = torch.arange(shape.seq_kv) // shape.block_kv
    visited = torch.zeros(int(query_block[-1]) + 1, int(key_block[-1]) + 1, dtype=torch.bool)
    queries, keys = seen.nonzero(as_tuple=True)
    visited[query_block[queries], key_block[keys]] = True
    return visited


def online_softmax(q, k, shape: Shape, *, causal=False, window=None):
    """m, l and alpha in float64 after every visited tile, NaN elsewhere: what a probe must show."""
    group = shape.heads // shape.kv_heads
    seen = visible_mask(shape.seq_q, shape.seq_kv, Options(causal, window))
    scores = (q.double() @ k.double().repeat_interleave(group, 1).mT) * shape.head_dim**-0.5
    scores = scores.cpu().masked_fill(~seen, -torch.inf)
    visited = visited_tiles(shape, causal, window)
    size = (shape.batch, shape.heads, *visited.shape, shape.block_q)
    m, l, alpha = (torch.full(size, torch.nan, dtype=torch.float64) for _ in range(3))  # noqa: E741
    for i in range(visited.shape[0]):
        rows = slice(i * shape.block_q, min((i + 1) * shape.block_q, shape.seq_q))
        count = rows.stop - rows.start
        running_max = torch.full((shape.batch, shape.heads, count), -torch.inf, dtype=torch.float64)
        running_sum = torch.zeros_like(running_max)
        for j in visited[i].nonzero().flatten().tolist():
            tile = scores[:, :, rows, j * shape.block_kv : (j + 1) * shape.block_kv]
            new_max = torch.maximum(running_max, tile.amax(-1))
            reference = torch.where(new_max == -torch.inf, 0.0, new_max)
            rescale = torch.exp(running_max - reference)
            running_sum = running_sum * rescale + torch.exp(tile - reference[..., None]).sum(-1)
            running_max = new_max
            for buffer, value in ((m, running_max), (l, running_sum), (alpha, rescale)):
                buffer[:, :, i, j, :count] = value
    return m, l, alpha
