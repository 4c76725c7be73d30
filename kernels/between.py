"""What lies between the matrix products of a layer, each a kernel that reads and writes once.

Tensors of 16 bits, sums in float32. They are for timing a layer as a server runs it; attention needs none.
"""

import kernels.interpreter  # noqa: F401, I001 (before Triton is imported)
import torch
import triton
import triton.language as tl

COLUMNS = 1024  # that a program of a kernel by columns takes


@triton.jit
def norm_kernel(x, more, summed, out, stride, width, ADD: tl.constexpr, WIDTH: tl.constexpr):
    """One program a row: RMSNorm, of a sum where ADD, which is kept."""
    row, columns = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    inside = columns < width
    values = tl.load(x + row * stride + columns, inside, 0.0).to(tl.float32)
    if ADD:
        values += tl.load(more + row * width + columns, inside, 0.0).to(tl.float32)
        tl.store(summed + row * width + columns, values, inside)
    scale = tl.rsqrt(tl.sum(values * values, 0) / width + 1e-6)
    tl.store(out + row * width + columns, values * scale, inside)


@triton.jit
def turn_kernel(x, strides, length, heads, half, HEADS: tl.constexpr, HALF: tl.constexpr):
    """One program a token: pairs of its heads' columns turned in place by its position."""
    token = tl.program_id(0).to(tl.int64)
    head, column = tl.arange(0, HEADS)[:, None], tl.arange(0, HALF)[None, :]
    angle = (token % length).to(tl.float32) * tl.exp2(-13.3 * column.to(tl.float32) / half)  # base 10,000
    cos, sin = tl.cos(angle), tl.sin(angle)
    places = x + token * strides[0] + head * strides[1] + column
    inside = (head < heads) & (column < half)
    first, second = tl.load(places, inside, 0.0), tl.load(places + half, inside, 0.0)
    tl.store(places, first * cos - second * sin, inside)
    tl.store(places + half, second * cos + first * sin, inside)


@triton.jit
def activate_kernel(x, out, width, COLUMNS: tl.constexpr):
    """silu(gate) * up, of rows that hold both side by side."""
    row, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = columns < width
    gate = tl.load(x + row * 2 * width + columns, inside, 0.0).to(tl.float32)
    up = tl.load(x + (row * 2 + 1) * width + columns, inside, 0.0).to(tl.float32)
    tl.store(out + row * width + columns, gate * tl.sigmoid(gate) * up, inside)


@triton.jit
def combine_kernel(x, places, weights, out, width, ACTIVE: tl.constexpr, COLUMNS: tl.constexpr):
    """Of each token the weighted sum of ACTIVE rows, which lie anywhere."""
    token, columns = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, total = columns < width, tl.zeros((COLUMNS,), tl.float32)
    for choice in tl.static_range(ACTIVE):
        place = tl.load(places + token * ACTIVE + choice).to(tl.int64)
        weight = tl.load(weights + token * ACTIVE + choice).to(tl.float32)
        total += weight * tl.load(x + place * width + columns, inside, 0.0).to(tl.float32)
    tl.store(out + token * width + columns, total, inside)


def norm(x: torch.Tensor, more: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """x + more and its RMSNorm, [rows, width] both; x itself and its RMSNorm where there is no more."""
    width, block = x.shape[1], triton.next_power_of_2(x.shape[1])
    out = x.new_empty(x.shape)
    summed = x if more is None else torch.empty_like(out)
    args = x, out if more is None else more, summed, out, x.stride(0), width
    norm_kernel[(len(x),)](*args, ADD=more is not None, WIDTH=block, num_warps=4 if block <= 2048 else 8)
    return summed, out


def turn(x: torch.Tensor, length: int) -> None:
    """Rotary embedding in place, of x [tokens, heads, columns], the sequences of this length."""
    _, heads, columns = x.shape
    blocks = {"HEADS": triton.next_power_of_2(heads), "HALF": triton.next_power_of_2(columns // 2)}
    turn_kernel[(len(x),)](x, x.stride()[:2], length, heads, columns // 2, **blocks)


def activate(x: torch.Tensor) -> torch.Tensor:
    """silu(gate) * up, [rows, width], of x [rows, 2 * width]."""
    rows, width = len(x), x.shape[1] // 2
    out = x.new_empty(rows, width)
    activate_kernel[(rows, triton.cdiv(width, COLUMNS))](x, out, width, COLUMNS)
    return out


def combine(x: torch.Tensor, places: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Of each token the sum of its rows of x, [tokens, width]: places and weights are [tokens, active]."""
    (tokens, active), width = places.shape, x.shape[1]
    out = x.new_empty(tokens, width)
    combine_kernel[(tokens, triton.cdiv(width, COLUMNS))](x, places, weights, out, width, active, COLUMNS)
    return out
