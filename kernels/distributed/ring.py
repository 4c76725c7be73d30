"""Attention by the rounds of a plan, and its gradients: fetch two rounds ahead, compute, deliver, combine."""

from math import prod

import torch

from kernels.call.call import Call
from kernels.dispatch.dispatch import forward, gradients
from kernels.distributed.combine import MOST_PARTS, Piece, added, combine
from kernels.distributed.layout import EPOCH, Plan, Round
from kernels.distributed.movers import Lanes, after

AHEAD = 2  # rounds whose keys are under way or here while one is computed
SLOTS = AHEAD + 1


class Keys:
    """K and V of the rounds of a call, as they arrive."""

    def __init__(self, mover, plan: Plan, call: Call, k, v, returning: bool):
        self.mover, self.plan, self.own = mover, plan, (k, v)
        self.lanes = Lanes(k.device)
        self.row = (k.shape[0], k.shape[1] // plan.groups, k.shape[3])
        width = prod(self.row) * k.element_size()
        waiting = plan.inbox_rows if returning else 0
        published, self.inbox = mover.open(self.lanes, width, plan.groups * plan.held, waiting)
        for rows, tensor in zip(published, self.own, strict=True):
            for group in range(plan.groups):  # one after another: any range of a group's tokens is one piece
                own_rows = rows[group * plan.held :][: tensor.shape[2]]
                combine([Piece(tensor[:, self.of(group)], 0)], call, self.as_tensor(own_rows))
        moving = sum(not each.local for each in plan.rounds)
        shape = (2, plan.most_rows, width)
        self.slots = [k.new_empty(shape, dtype=torch.uint8) for _ in range(min(SLOTS, moving))]
        self.landed, self.arrived, self.released = {}, {}, [[] for _ in self.slots]
        mover.ready()
        for number in range(AHEAD):
            self.fetch(number)

    def of(self, group: int) -> slice:
        """The key heads of a group."""
        return _heads(self.own[0], group, self.plan.groups)

    def as_tensor(self, rows: torch.Tensor) -> torch.Tensor:
        """[rows, bytes] as [batch, heads, rows, head_dim]."""
        return rows.view(self.own[0].dtype).view(-1, *self.row).permute(1, 2, 0, 3)

    def fetch(self, number: int) -> None:
        """Start a round's transfers, of this rank and of those that it has to serve."""
        if number >= len(self.plan.rounds):
            return
        current, into = self.plan.rounds[number], self.inbox[:, :0]
        if not current.local:
            slot = self.landed[number] = len(self.landed) % len(self.slots)
            into = self.slots[slot]
            with self.lanes.transferring():
                after(self.released[slot])
        self.arrived[number] = self.mover.fetch(current.transfers, into)

    def here(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V of a round, [batch, heads, rows, head_dim]; the current stream waits for them."""
        current = self.plan.rounds[number]
        # also where they lie here: a kernel that fills the GPU would keep the barrier from starting
        after(self.arrived.pop(number))
        if current.local:
            return tuple(tensor[:, self.of(current.group)] for tensor in self.own)
        return tuple(self.as_tensor(rows[: current.rows]) for rows in self.slots[self.landed[number]])

    def done(self, number: int) -> None:
        """The current stream has read a round's keys."""
        if number in self.landed:
            self.released[self.landed[number]] = self.lanes.mark()

    def deliver(self, current: Round, gradients: list[torch.Tensor]) -> None:
        """Send a round's gradients of others' keys to them."""
        if current.returns:
            self.mover.deliver(current.returns, [self.lanes.outgoing(each) for each in gradients])

    def delivered(self, rounds: tuple[Round, ...], pieces: list[list[list[Piece]]]) -> None:
        """Add to the pieces, by group and tensor, the gradients that others sent for these rounds."""
        for index, rows in enumerate(self.inbox):
            for each in rounds:
                for put, row, count in each.arriving:
                    pieces[each.group][index].append(Piece(self.as_tensor(rows[put : put + count]), row))


def attend(mover, plan: Plan, call: Call, q, k, v) -> tuple[torch.Tensor, torch.Tensor]:
    """O like q and lse of this rank's queries over the keys of all ranks."""
    out = torch.empty_like(q)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    keys = Keys(mover, plan, call, k, v, returning=False)
    pieces: list[list[Piece]] = [[] for _ in range(plan.groups)]
    for number, current in enumerate(plan.rounds):
        keys.fetch(number + AHEAD)
        heads, found = _heads(q, current.group, plan.groups), pieces[current.group]
        k_here, v_here = keys.here(number)
        for part in current.parts:
            tensors = (q[:, heads, part.queries], k_here[:, :, part.keys], v_here[:, :, part.keys])
            new, new_lse = forward(*tensors, part.causal, part.window, call.scale)
            found.append(Piece(new, part.queries.start, new_lse))
        keys.done(number)
        if len(found) > MOST_PARTS:
            found[:] = [added(found, call, q.shape[2])]
    mover.close()
    for group, found in enumerate(pieces):
        heads = _heads(q, group, plan.groups)
        combine(found, call, out[:, heads], lse[:, heads])
    return out, lse


def differentiate(mover, plan: Plan, call: Call, q, k, v, out, lse, d_out, d_lse) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV of this rank's tokens, from the gradients of its O and lse (either may be None)."""
    d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    d_out = torch.zeros_like(out) if d_out is None else d_out
    keys = Keys(mover, plan, call, k, v, returning=True)
    q_pieces: list[list[Piece]] = [[] for _ in range(plan.groups)]
    kv_pieces: list[list[list[Piece]]] = [[[], []] for _ in range(plan.groups)]
    for number, current in enumerate(plan.rounds):
        keys.fetch(number + AHEAD)
        heads = _heads(q, current.group, plan.groups)
        k_here, v_here = keys.here(number)
        found: list[list[Piece]] = [[], []]
        for part in current.parts:
            rows = (slice(None), heads, part.queries)
            tensors = (q[rows], k_here[:, :, part.keys], v_here[:, :, part.keys])
            results = (out[rows], lse[rows].contiguous(), d_out[rows], None if d_lse is None else d_lse[rows])
            new = gradients(*tensors, *results, part.causal, part.window, call.scale)[:3]
            q_pieces[current.group].append(Piece(new[0], part.queries.start))
            for pieces, each in zip(found, new[1:], strict=True):
                pieces.append(Piece(each, part.keys.start))
        keys.done(number)
        new_kv = [_whole(pieces, current.rows, k_here, call) for pieces in found]
        keys.deliver(current, new_kv)
        for pieces, new in zip(kv_pieces[current.group], new_kv, strict=True):
            pieces += [Piece(new[:, :, here : here + count], row) for here, row, count in current.kept]
        if (number + 1) % EPOCH == 0 and number + 1 < len(plan.rounds):
            _fold(mover, keys, plan.rounds[number + 1 - EPOCH : number + 1], q_pieces, kv_pieces, call)
    for group, pieces in enumerate(q_pieces):  # before the last deliveries are waited for
        combine(pieces, call, d_q[:, _heads(q, group, plan.groups)])
    mover.settle()
    keys.delivered(plan.rounds[(len(plan.rounds) - 1) // EPOCH * EPOCH :], kv_pieces)
    for group, both in enumerate(kv_pieces):
        for gradient, pieces in zip((d_k, d_v), both, strict=True):
            combine(pieces, call, gradient[:, keys.of(group)])
    mover.close()
    return d_q, d_k, d_v


def _fold(mover, keys: Keys, rounds, q_pieces, kv_pieces, call: Call) -> None:
    """Add up what has come so far, so that the inboxes can be used anew."""
    mover.settle()
    keys.delivered(rounds, kv_pieces)
    for every in (q_pieces, *zip(*kv_pieces, strict=True)):
        for pieces in every:
            pieces[:] = [added(pieces, call, keys.own[0].shape[2])] if pieces else []
    mover.ready()


def _heads(tensor: torch.Tensor, group: int, groups: int) -> slice:
    """The heads of a group."""
    each = tensor.shape[1] // groups
    return slice(group * each, (group + 1) * each)


def _whole(pieces: list[Piece], rows: int, like: torch.Tensor, call: Call) -> torch.Tensor:
    """The gradients of a round's keys, of one call or added up of several."""
    if len(pieces) == 1 and pieces[0].tensor.shape[2] == rows:
        return pieces[0].tensor
    batch, heads, _, head_dim = like.shape
    out = torch.empty((rows, batch, heads, head_dim), dtype=like.dtype, device=like.device).permute(
        1, 2, 0, 3
    )
    combine(pieces, call, out)
    return out
