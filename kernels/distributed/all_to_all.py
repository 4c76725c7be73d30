"""Ulysses (arXiv 2309.14509): from a part of the tokens to a part of the heads and back, one call between."""

from dataclasses import dataclass
from functools import cache

import torch

from kernels.call.call import Call
from kernels.dispatch.dispatch import forward, gradients
from kernels.distributed.layout import Layout, Transfer
from kernels.distributed.movers import Lanes

ALIGNMENT = 256  # bytes of the start of a plane


@dataclass(frozen=True)
class Field:
    """Where rows [batch, heads of a rank and group, columns] lie: `width` bytes each, from byte `at`."""

    at: int
    width: int
    row: tuple[int, int, int]
    dtype: torch.dtype


@cache
def _to_heads(layout: Layout) -> tuple[Transfer, ...]:
    """From the planes of each rank's tokens to all tokens, of the heads of each rank."""
    return tuple(
        Transfer(source, target, target * layout.most_rows + span.row, span.start, span.rows)
        for span, source in layout.owners
        for target in range(layout.ranks)
    )


@cache
def _to_tokens(layout: Layout) -> tuple[Transfer, ...]:
    """The way back, into the planes of each rank's heads."""
    return tuple(
        Transfer(source, target, span.start, source * layout.most_rows + span.row, span.rows)
        for span, target in layout.owners
        for source in range(layout.ranks)
    )


class Swap:
    """One exchange of tokens for heads and back, a group of a rank's heads after another."""

    def __init__(self, mover, layout: Layout, rank: int, groups: int, tensors: list, results: list):
        self.mover, self.layout, self.rank, self.groups = mover, layout, rank, groups
        self.lanes = Lanes(tensors[0].device)
        self.results = results
        self.held = layout.ranks * layout.most_rows
        self.there, published = self._fields(tensors)
        self.back, inbox = self._fields(results)
        self.published, self.inbox = mover.open(self.lanes, published, inbox)
        for tensor, field in zip(tensors, self.there, strict=True):
            self._view(self.published, field).copy_(self._by_rank(tensor).permute(2, 1, 4, 0, 3, 5))
        sizes = [layout.tokens * field.width for field in self.there]
        self.landing = [[self.inbox.new_empty(size) for size in sizes] for _ in range(groups)]
        mover.ready()
        landings = (self._planes(self.there, *each) for each in enumerate(self.landing))
        self.marks = [mover.fetch(_to_heads(layout), planes) for planes in landings]

    def _fields(self, tensors: list[torch.Tensor]) -> tuple[list[Field], int]:
        """A field a tensor, and the bytes of all."""
        fields, at = [], 0
        for tensor in tensors:
            row = (tensor.shape[0], tensor.shape[1] // self.layout.ranks // self.groups, tensor.shape[3])
            width = torch.Size(row).numel() * tensor.element_size()
            fields.append(Field(at, width, row, tensor.dtype))
            at += -(-self.groups * self.held * width // ALIGNMENT) * ALIGNMENT
        return fields, at

    def _view(self, memory: torch.Tensor, field: Field) -> torch.Tensor:
        """[groups, ranks, rows of this rank, batch, heads, columns]."""
        shape = (self.groups, self.layout.ranks, self.layout.most_rows, *field.row)
        plane = memory[field.at :][: self.groups * self.held * field.width]
        return plane.view(field.dtype).view(shape)[:, :, : self.layout.rows(self.rank)]

    def _by_rank(self, tensor: torch.Tensor) -> torch.Tensor:
        """[batch, ranks, groups, heads, rows, columns]."""
        heads = tensor.shape[1] // self.layout.ranks // self.groups
        return tensor.unflatten(1, (self.layout.ranks, self.groups, heads))

    def _planes(self, fields: list[Field], group: int, own: list[torch.Tensor]) -> list:
        start = group * self.held
        return [
            (field.at + start * field.width, field.width, each)
            for field, each in zip(fields, own, strict=True)
        ]

    def here(self, group: int) -> list[torch.Tensor]:
        """The tensors of a group over all tokens; the current stream waits for them."""
        self.lanes.after(self.marks[group])
        return [
            own.view(field.dtype).view(-1, *field.row).permute(1, 2, 0, 3)
            for own, field in zip(self.landing[group], self.there, strict=True)
        ]

    def give(self, group: int, results: list[torch.Tensor]) -> None:
        """Send a group's results to the ranks that hold their tokens."""
        own = [self.lanes.outgoing(each) for each in results]
        self.mover.deliver(_to_tokens(self.layout), self._planes(self.back, group, own))

    def close(self) -> None:
        """Wait for all results and write them where they belong."""
        self.mover.settle()
        for result, field in zip(self.results, self.back, strict=True):
            self._by_rank(result).copy_(self._view(self.inbox, field).permute(3, 1, 0, 4, 2, 5))
        self.mover.close()


def attend(mover, layout: Layout, rank: int, groups: int, call: Call, q, k, v):
    """O and lse of this rank's tokens, and what the backward pass needs: q, k, v, O and lse of its heads."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((*q.shape[:3], 1), dtype=torch.float32, device=q.device)
    swap = Swap(mover, layout, rank, groups, [q, k, v], [out, lse])
    saved = []
    for group in range(groups):
        tensors = swap.here(group)
        results = forward(*tensors, call.causal, call.window, call.scale)
        swap.give(group, [results[0], results[1][..., None]])
        saved += [*tensors, *results]
    swap.close()
    return out, lse[..., 0], saved


def differentiate(mover, layout: Layout, rank: int, groups: int, call: Call, saved, d_out, d_lse):
    """dQ, dK and dV of this rank's tokens, from the gradients of its O and lse (either may be None)."""
    batch, rows, head_dim = saved[0].shape[0], layout.rows(rank), saved[0].shape[3]
    results = [
        saved[0].new_empty((batch, heads, rows, head_dim))
        for heads in (call.heads, call.kv_heads, call.kv_heads)
    ]
    d_out = torch.zeros_like(results[0]) if d_out is None else d_out
    sent = [d_out] if d_lse is None else [d_out, d_lse[..., None]]
    swap = Swap(mover, layout, rank, groups, sent, results)
    for group in range(groups):
        gradient, *of_lse = swap.here(group)
        d_lse = of_lse[0][..., 0] if of_lse else None
        tensors = saved[5 * group : 5 * group + 5]
        options = call.causal, call.window, call.scale
        swap.give(group, gradients(*tensors, gradient, d_lse, *options)[:3])
    swap.close()
    return tuple(results)
