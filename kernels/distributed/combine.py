"""Parts of a result, each over some of its rows, added up in one kernel: gradients, or outputs by their lse.

Over disjoint sets of keys, lse = log sum of exp(lse_i) and O = sum of exp(lse_i - lse) O_i, where a part that
does not reach a row counts for nothing in it.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from kernels.call.call import Call, ceil_div
from kernels.launch.launch import launch
from kernels.tile.tile import narrowed, widened

MOST_PARTS = 8  # that one launch reads; more are added up in several
TILE = 4096  # elements of a part that a program holds


@dataclass(frozen=True)
class Piece:
    """Rows row, row + 1, ... of a result [batch, heads, rows, head_dim]; of an output also their lse."""

    tensor: torch.Tensor
    row: int
    lse: torch.Tensor | None = None


@triton.jit(do_not_specialize=["heads", "rows"])
def combine_kernel(
    out, lse, parts, part_lses, out_strides, lse_strides, part_strides, starts, counts, heads, rows,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    """One program ROWS rows of a head of the result, of PARTS parts and, where there is an lse, theirs."""
    WEIGHED: tl.constexpr = lse is not None
    blocks = tl.cdiv(rows, ROWS)
    batch_head = tl.program_id(0) // blocks
    batch = (batch_head // heads).to(tl.int64)
    head = (batch_head % heads).to(tl.int64)
    row = tl.program_id(0) % blocks * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK_D)
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    if WEIGHED:
        for i in tl.static_range(PARTS):
            at = row - starts[i]
            present = (at >= 0) & (at < counts[i])
            line = part_lses[i] + batch_head.to(tl.int64) * counts[i]
            largest = tl.maximum(largest, tl.load(line + at, present, other=float("-inf")))
    reference = tl.where(largest == float("-inf"), 0.0, largest)  # no key seen: -inf - -inf is NaN
    total = tl.zeros([ROWS], tl.float32)
    accumulator = tl.zeros([ROWS, BLOCK_D], tl.float32)
    for i in tl.static_range(PARTS):
        at = row - starts[i]
        present = (at >= 0) & (at < counts[i])
        start = parts[i] + batch * part_strides[i][0] + head * part_strides[i][1]
        places = start + at.to(tl.int64)[:, None] * part_strides[i][2] + columns[None, :]
        tile = widened(tl.load(places, present[:, None] & (columns < HEAD_DIM)[None, :], other=0.0))
        if WEIGHED:
            line = part_lses[i] + batch_head.to(tl.int64) * counts[i]
            weight = tl.exp(tl.load(line + at, present, other=float("-inf")) - reference)
            total += weight
            tile = tile * weight[:, None]
        accumulator += tile
    inside = row < rows
    if WEIGHED:
        total = tl.where(total == 0.0, 1.0, total)
        accumulator = accumulator / total[:, None]
        lse_line = lse + batch * lse_strides[0] + head * lse_strides[1]
        tl.store(lse_line + row, largest + tl.log(total), inside)
    out_start = out + batch * out_strides[0] + head * out_strides[1]
    out_places = out_start + row.to(tl.int64)[:, None] * out_strides[2] + columns[None, :]
    shown = inside[:, None] & (columns < HEAD_DIM)[None, :]
    tl.store(out_places, narrowed(accumulator, out.dtype.element_ty), shown)


def combine(pieces: list[Piece], call: Call, out: torch.Tensor, lse: torch.Tensor | None = None) -> None:
    """Write into out (and lse), contiguous at last, the sum of the pieces; unreached rows are 0 (-inf)."""
    while len(pieces) > MOST_PARTS:
        pieces = [added(pieces[:MOST_PARTS], call, out.shape[2]), *pieces[MOST_PARTS:]]
    parts = [each.tensor if each.tensor.stride(3) == 1 else each.tensor.contiguous() for each in pieces]
    weighed = lse is not None
    part_lses = tuple(each.lse.contiguous() for each in pieces) if weighed else None
    rows = max(1, TILE // call.padded_head_dim)
    batch, heads = out.shape[:2]
    launch(
        combine_kernel,
        batch * heads * ceil_div(out.shape[2], rows),
        call,
        (out, lse, tuple(parts), part_lses),
        out_strides=out.stride(),
        lse_strides=lse.stride() if weighed else (0, 0),
        part_strides=tuple(part.stride()[:3] for part in parts),
        starts=tuple(each.row for each in pieces),
        counts=tuple(part.shape[2] for part in parts),
        heads=heads,
        rows=out.shape[2],
        HEAD_DIM=out.shape[3],
        BLOCK_D=call.padded_head_dim,
        ROWS=rows,
        PARTS=len(parts),
    )


def added(pieces: list[Piece], call: Call, rows: int) -> Piece:
    """The pieces as one of `rows` rows, in float32."""
    batch, heads, _, head_dim = pieces[0].tensor.shape
    device = pieces[0].tensor.device
    out = torch.empty((batch, heads, rows, head_dim), dtype=torch.float32, device=device)
    weighed = pieces[0].lse is not None
    lse = torch.empty((batch, heads, rows), dtype=torch.float32, device=device) if weighed else None
    combine(pieces, call, out, lse)
    return Piece(out, 0, lse)
