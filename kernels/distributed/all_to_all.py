"""Ulysses (arXiv 2309.14509): from a part of the tokens to a part of the heads and back, one call between."""

import torch

from kernels.arguments import Call
from kernels.dispatch import forward, gradients
from kernels.distributed.lanes import Lanes
from kernels.distributed.layout import Layout
from kernels.distributed.plan import Transfer

ALIGNMENT = 256  # bytes of the start of a plane


class Swap:
    """One exchange of tokens for heads and back, a group of a rank's heads after another.

    Tensors are [batch, heads, rows, columns] before and after, [batch, heads of a rank and group, tokens,
    columns] between.
    """

    def __init__(self, mover, layout: Layout, rank: int, groups: int, tensors: list, results: list):
        self.mover, self.layout, self.rank, self.groups = mover, layout, rank, groups
        self.lanes = Lanes(tensors[0].device)
        self.results = results
        self.rows = layout.rows(rank)
        self.held = layout.ranks * layout.most_rows
        fields = [self._fields(each) for each in (tensors, results)]
        published, self.inbox = mover.open(self.lanes, *(each[-1][0] for each in fields))
        self.there, self.back = fields
        for tensor, (at, _, shape) in zip(tensors, self.there, strict=False):
            self._view(published, at, shape, tensor.dtype).copy_(self._by_rank(tensor).permute(2, 1, 4, 0, 3, 5))
        self.landing = [[self._landing(each, tensor) for each, tensor in self._pairs(tensors)] for _ in range(groups)]
        mover.ready()
        span = [(target, each) for target in range(layout.ranks) for each in layout.spans[target]]
        ranks = range(layout.ranks)
        self.to_heads = tuple(
            Transfer(source, target, target * layout.most_rows + each.row, each.start, each.stop - each.start)
            for source, each in span
            for target in ranks
        )
        self.to_tokens = tuple(
            Transfer(source, target, each.start, source * layout.most_rows + each.row, each.stop - each.start)
            for target, each in span
            for source in ranks
        )
        self.marks = [self._fetch(group) for group in range(groups)]

    def _pairs(self, tensors):
        return list(zip(self.there, tensors, strict=False))

    def _fields(self, tensors: list) -> list[tuple[int, int, tuple[int, ...]]]:
        """(start in bytes, bytes a row, [batch, heads, columns] of a row) of each tensor's planes, and the end."""
        fields, at = [], 0
        for tensor in tensors:
            row = (tensor.shape[0], tensor.shape[1] // self.layout.ranks // self.groups, tensor.shape[3])
            width = row[0] * row[1] * row[2] * tensor.element_size()
            fields.append((at, width, row))
            at += -(-self.groups * self.held * width // ALIGNMENT) * ALIGNMENT
        return [*fields, (at, 0, ())]

    def _view(self, memory: torch.Tensor, at: int, row: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """[groups, ranks, rows, batch, heads, columns] of a tensor's planes."""
        shape = (self.groups, self.layout.ranks, self.layout.most_rows, *row)
        size = torch.Size(shape).numel() * dtype.itemsize
        return memory[at : at + size].view(dtype).view(shape)[:, :, : self.rows]

    def _by_rank(self, tensor: torch.Tensor) -> torch.Tensor:
        """[batch, ranks, groups, heads, rows, columns]."""
        heads = tensor.shape[1] // self.layout.ranks // self.groups
        return tensor.unflatten(1, (self.layout.ranks, self.groups, heads))

    def _landing(self, field, tensor: torch.Tensor) -> torch.Tensor:
        size = self.layout.tokens * field[1]
        return torch.empty(size, dtype=torch.uint8, device=tensor.device)

    def _fetch(self, group: int):
        planes = [
            (at + group * self.held * width, width, own)
            for (at, width, _), own in zip(self.there, self.landing[group], strict=False)
        ]
        return self.mover.fetch(self.to_heads, planes)

    def here(self, group: int, dtypes: list[torch.dtype]) -> list[torch.Tensor]:
        """The tensors of a group over all tokens; the current stream waits for them."""
        self.lanes.after(self.marks[group])
        every = zip(self.landing[group], self.there, dtypes, strict=False)
        return [own.view(dtype).view(-1, *row).permute(1, 2, 0, 3) for own, (_, _, row), dtype in every]

    def give(self, group: int, results: list[torch.Tensor]) -> None:
        """Send a group's results to the ranks that hold their tokens."""
        planes = []
        for result, (at, width, _) in zip(results, self.back, strict=False):
            rows = result.permute(2, 0, 1, 3).contiguous()
            if self.lanes.cuda:
                rows.record_stream(self.lanes.transfers)
            planes.append((at + group * self.held * width, width, rows.view(-1).view(torch.uint8)))
        self.mover.deliver(self.to_tokens, planes)

    def close(self) -> None:
        """Wait for all results and write them where they belong."""
        self.mover.settle()
        for result, (at, _, row) in zip(self.results, self.back, strict=False):
            found = self._view(self.inbox, at, row, result.dtype)
            self._by_rank(result).copy_(found.permute(3, 1, 0, 4, 2, 5))
        self.mover.close()


def attend(mover, layout: Layout, rank: int, groups: int, call: Call, q, k, v):
    """O and lse of this rank's tokens, and what the backward pass needs: q, k, v, O and lse of its heads."""
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((*q.shape[:3], 1), dtype=torch.float32, device=q.device)
    swap = Swap(mover, layout, rank, groups, [q, k, v], [out, lse])
    saved = []
    for group in range(groups):
        with swap.lanes.computing(group):
            tensors = swap.here(group, [q.dtype] * 3)
            results = forward(*tensors, *_options(call), None)
            swap.give(group, [results[0], results[1][..., None]])
            saved += [*tensors, *results]
    swap.close()
    return out, lse[..., 0], saved


def differentiate(mover, layout: Layout, rank: int, groups: int, call: Call, saved, d_out, d_lse):
    """dQ, dK and dV of this rank's tokens."""
    batch, _, rows, head_dim = d_out.shape
    heads = [call.heads, call.kv_heads, call.kv_heads]
    results = [torch.empty((batch, count, rows, head_dim), dtype=d_out.dtype, device=d_out.device) for count in heads]
    sent = [d_out] if d_lse is None else [d_out, d_lse[..., None]]
    swap = Swap(mover, layout, rank, groups, sent, results)
    for group in range(groups):
        with swap.lanes.computing(group):
            gradient, *of_lse = swap.here(group, [each.dtype for each in sent])
            of_lse = of_lse[0][..., 0] if of_lse else None
            swap.give(group, gradients(*saved[5 * group : 5 * group + 5], gradient, of_lse, *_options(call)))
    swap.close()
    return tuple(results)


def _options(call: Call) -> tuple:
    """causal, window, scale, algorithm and blocks, as `kernels.dispatch` takes them."""
    return call.causal, call.window, call.scale, "auto", None, None
