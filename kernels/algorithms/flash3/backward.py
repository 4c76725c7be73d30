"""FlashAttention-3's backward pass on Hopper: which problems it serves, and its launches."""

import math
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import torch

from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3.dq_sums import store_sums
from kernels.backward.backward import sink_gradient
from kernels.backward.places import (
    OF_KEYS,
    OF_QUERIES,
    numbers_of,
    packed_shape,
    rows_of_batch,
    store_places,
    store_row_terms,
)
from kernels.backward.shared_key_blocks import NONE, Shares, shares_of
from kernels.call.call import Call
from kernels.call.device import unserved_strides
from kernels.call.terms import Terms, score_of
from kernels.launch.launch import address, multiprocessors
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import LOG2_E
from kernels.tilings.flash3 import BACKWARD_TILING as TILING
from kernels.tilings.flash3 import padded

L2_FOR_ROWS = 32 * 2**20  # bytes of Q, dO and the sums of dQ for running blocks: half of an H200's L2
MOST_TOGETHER = 4  # blocks of more heads side by side were slower, but where a window hides most queries
LONG = 4096  # keys
FLOAT32_BYTES = 4
SLOWER = {64: 1.05}  # a visit where key blocks are shared: ptxas awaits dP before most exponentials there
NO_OTHERS = None, None  # slopes, and where packed sequences' blocks of keys are
FEW_BLOCKS = 8  # of threads are few if so many times as many do not fill the GPU


def unserved(call: Call) -> str | None:
    """One sentence on why this does not serve a problem that flash3 serves forward, or None where it does."""
    if call.scale <= 0:  # a hidden score of -inf must stay so
        return f"flash3's backward pass takes a scale above 0, got {call.scale}"
    if torch.are_deterministic_algorithms_enabled():
        return "flash3's backward pass sums dQ in any order, and PyTorch is told to fix the order"
    return None


def pays(call: Call, processors: int) -> bool:
    """Whether this is done before flash2's, which has more blocks of threads up to a head_dim of 128."""
    call = _tiled(call)
    many = FEW_BLOCKS * _key_blocks(call) > processors or shared(call, processors) is not None
    return call.heads == call.kv_heads or call.head_dim > 128 or many


def flash3_backward(
    q, k, v, out, lse, d_out, d_lse, call: Call, terms: Terms | None = None, again: dict | None = None
) -> tuple[torch.Tensor, ...]:
    """As `Backward.run`, of what flash3 serves and `unserved` does not; dQ's last bits may differ."""
    differentiate = _Pass(call, terms, multiprocessors(q.device))
    gradients = differentiate(q, k, v, out, lse, d_out, d_lse, terms)
    if again is not None and None not in differentiate.launches:
        again["gradients"] = differentiate
    return gradients


def _tiled(call: Call) -> Call:
    """With the kernel's own blocks."""
    tiling = TILING[padded(call.head_dim)]
    return replace(call, block_q=tiling["BLOCK_Q"], block_kv=tiling["BLOCK_KV"])


class Beyond(NamedTuple):
    """What a mask has beside causal and a window; rows and keys are a sequence's on average."""

    rows: int
    keys: int
    alike: bool
    ahead: int | None = None
    prefix: int | None = None
    sequences: int | None = None


def _masked(call: Call, terms: Terms | None) -> tuple[Call, Beyond]:
    """A call with the causal mask and the window of its terms, if any, and what is beyond."""
    alone = Beyond(call.seq_q, call.seq_kv, call.seq_q == call.seq_kv)
    if terms is None or terms.seen is None:
        return call, alone
    seen = terms.seen
    causal, window = flash3.plain_part(seen)
    call = replace(call, causal=causal, window=window if window and window < call.seq_kv else None)
    ahead = min(seen.sides[1] or 0, call.seq_q + call.seq_kv) or None
    if seen.starts is None:
        return call, alone._replace(ahead=ahead, prefix=seen.prefix)
    rows, keys = flash3._typical(seen, call.seq_q, call.seq_kv)
    alike = seen.starts is seen.key_starts
    return call, Beyond(rows, keys, alike, ahead, seen.prefix, len(seen.starts) - 1)


class _Pass:
    """The backward pass of a call, for tensors of one layout and terms of one kind.

    One allocation has the sums of shares [share, dK or dV, block_kv, head_dim], those of dQ [batch, heads,
    padded_seq_q, head_dim], delta, lse_log2, and where packed sequences' blocks of keys and of queries are.
    """

    def __init__(self, call: Call, terms: Terms | None, processors: int):
        self.call, self.beyond = call, beyond = _masked(_tiled(call), terms)
        self.score, self.launches = score_of(call, terms), ()
        self.packed = beyond.sequences is not None
        self.cut = cut = None if self.packed else shared(self.call, processors)
        head_dim, query_blocks, of_keys, of_queries = padded(call.head_dim), self.call.query_blocks, 0, 0
        if self.packed:
            query_blocks = numbers_of(call.seq_q, self.call.block_q, beyond.sequences)
            of_keys = numbers_of(call.seq_kv, self.call.block_kv, beyond.sequences) * OF_KEYS
            of_queries = query_blocks * OF_QUERIES
        self.rows_of_heads = call.batch, call.heads, query_blocks * self.call.block_q
        rows = math.prod(self.rows_of_heads)
        of_shares = 2 * cut.count * self.call.block_kv * head_dim if cut else 0
        self.sizes = of_shares, rows * head_dim, rows, rows, of_keys, of_queries
        self.size = sum(self.sizes)
        self.places = [FLOAT32_BYTES * place for place in accumulate(self.sizes[:-1])]  # of all but the first

    def __call__(self, q, k, v, out, lse, d_out, d_lse, terms=None) -> tuple[torch.Tensor, ...]:
        inputs = q, k, v, d_out
        if not self.launches:
            self.copied = tuple(map(self._must_be_copied, inputs))
        if any(self.copied):
            inputs = tuple(
                each.clone(memory_format=torch.contiguous_format) if copies else each
                for each, copies in zip(inputs, self.copied, strict=True)
            )
        gradients = tuple(map(torch.empty_like, inputs[:3]))
        scratch = torch.empty(self.size, dtype=torch.float32, device=q.device)
        if self.packed:
            store_places(terms.seen, *self._tensors(scratch)[3:], self.call)
        run = self._launch_again if self.launches else self._launch_first
        run(inputs, (out, lse, d_lse), gradients, scratch, None if terms is None else terms.slopes)
        if terms is None or terms.sinks is None:
            return *gradients, None
        _, delta, lse_log2, *_ = self._tensors(scratch)
        return *gradients, sink_gradient(terms._replace(ranges=None), lse_log2, delta)

    def _launch_first(self, inputs, results, gradients, scratch, slopes) -> None:
        """The three launches by way of Triton; keeps what does each again."""
        out, lse, d_lse = results
        sums, delta, lse_log2, of_keys, of_queries = self._tensors(scratch)
        of_keys, of_queries = (of_keys, of_queries) if self.packed else (None, None)
        clear = store_row_terms(out, inputs[3], lse, d_lse, delta, lse_log2, self.call, sums, of_queries)
        tensors = *inputs, lse_log2, delta, *gradients[1:]
        others = slopes, of_keys
        differentiate = _launch(tensors, sums, self.call, self.cut, self.score, self.beyond, others)
        together = heads_together(self.call, inputs[0].element_size(), self.beyond.rows)
        store = store_sums(gradients, sums, self.call, self.cut, together, of_queries)
        self.launches = clear, differentiate, store

    def _launch_again(self, inputs, results, gradients, scratch, slopes) -> None:
        """Those of `_launch_first`, for other tensors."""
        clear, differentiate, store = self.launches
        first = scratch.data_ptr()
        sums, delta, lse_log2, of_keys, of_queries = (first + place for place in self.places)
        out, lse, d_lse = results
        d_q, *d_kv = map(address, gradients)
        of_lse = () if d_lse is None else (d_lse.data_ptr(),)
        of_slopes = () if slopes is None else (slopes.data_ptr(),)
        places = (of_queries,) if self.packed else ()
        others = (*of_slopes, of_keys) if self.packed else of_slopes
        taken = tuple(map(address, inputs))
        clear(out.data_ptr(), taken[3], lse.data_ptr(), *of_lse, delta, lse_log2, sums, *places)
        differentiate(*taken, lse_log2, delta, *d_kv, sums, *others)
        store(sums, d_q, *(d_kv if self.cut else ()), *places)

    def _must_be_copied(self, tensor: torch.Tensor) -> bool:
        """Whether TMA does not take it as it lies."""
        unserved = unserved_strides(tensor, tensor, tensor) is not None
        return unserved or (self.packed and rows_of_batch(tensor) is None)

    def _tensors(self, scratch: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The sums of dQ, delta, lse_log2, and where blocks of keys and of queries are."""
        _, sums, delta, lse_log2, *places = scratch.split(self.sizes)
        sums = sums.view(*self.rows_of_heads, -1)
        terms = (each.view(self.rows_of_heads) for each in (delta, lse_log2))
        return sums, *terms, *(each.view(torch.int32) for each in places)


def shared(call: Call, processors: int) -> Shares | None:
    """How blocks of threads share the last key blocks; None where they do not, as under a mask."""
    if call.causal or call.window is not None or call.v_dim is not None:
        return None
    heads = call.heads // call.kv_heads
    slower = SLOWER.get(padded(call.head_dim), 1)
    return shares_of(_key_blocks(call), call.query_blocks, heads, processors, slower)


def _key_blocks(call: Call) -> int:
    """Of all key heads."""
    return call.batch * call.kv_heads * call.key_blocks


def _launch(
    tensors: tuple, sums, call: Call, cut: Shares | None, score: tuple, beyond: Beyond, others=NO_OTHERS
) -> Relaunch | None:
    """Start one block of threads a key block of a key head, or a share of one; returns what does so again."""
    from kernels.hopper.backward import gradient_kernel

    programs, descriptors, arguments = _prepared(tensors, call, cut, score, beyond, others)
    if arguments["BULK"]:
        sums = _descriptor_of_sums(sums)
    others = others if arguments["OTHERS"] else None
    tensors = (*descriptors, sums, others)
    return flash3.started(gradient_kernel, programs, tensors, flash3.compiled_for(arguments))


def _prepared(
    tensors: tuple, call: Call, cut: Shares | None, score: tuple, beyond: Beyond, others: tuple = NO_OTHERS
) -> tuple[int, list, dict]:
    """Blocks of threads, descriptors of the tensors, and the kernel's named arguments."""
    from kernels.hopper.warp_group import ROWS

    q, k, v, d_out, lse, delta, d_k, d_v = tensors
    block_q, keys = call.block_q, ROWS.value
    described = flash3._descriptor if beyond.sequences is None else _descriptor_of_sequences
    by_rows = ((q, block_q), (k, keys), (v, keys), (d_out, block_q))
    descriptors = [described(*pair) for pair in by_rows]
    descriptors += [_descriptor_of_terms(terms, block_q) for terms in (lse, delta)]
    descriptors += [described(gradient, keys) for gradient in (d_k, d_v)]
    head_dim, slopes = padded(call.head_dim), others[0]
    more = bool(beyond.ahead or beyond.prefix) or (call.window is not None and not call.causal)
    # there skipping what a mask hides at its edges costs more than it saves, as measured
    long_and_narrow = call.head_dim == 64 and call.window is None and beyond.keys > LONG
    square = call.causal and beyond.alike and not more and not long_and_narrow
    scale_log2, cap = score
    per_slope = None if slopes is None else LOG2_E.value / scale_log2
    bulk = head_dim == 128 and square  # else there is no shared memory left for dQ, or that was slower
    arguments = {
        "batch_heads": call.batch * call.kv_heads,
        "heads_together": heads_together(call, q.element_size(), beyond.rows),
        "window": call.window or 0,
        **(cut or NONE).arguments(),
        "score": (call.scale, scale_log2, cap, per_slope, beyond.ahead, beyond.prefix),
        "CAUSAL": call.causal,
        "WINDOWED": call.window is not None,
        "BEYOND": more,
        "SQUARE": square,
        "SHARED": cut is not None,
        "WIDE": head_dim > 128,
        "BULK": bulk,
        "FULL": bulk and call.heads == call.kv_heads and call.window is None,
        "OTHERS": others != NO_OTHERS,
        "COLUMNS": -(-call.head_dim // 16) * 16,
        "HALF": block_q * head_dim // 2,  # numbers of half a block of dQ
        **{name: value for name, value in TILING[head_dim].items() if name != "BLOCK_Q"},
    }
    if cut is not None:
        programs = cut.whole + cut.count
    elif beyond.sequences is not None:
        blocks = numbers_of(call.seq_kv, call.block_kv, beyond.sequences)
        programs = call.batch * call.kv_heads * blocks
    else:
        programs = _key_blocks(call)
    return programs, descriptors, arguments


def heads_together(call: Call, element_bytes: int, rows: int) -> int:
    """Key heads whose blocks of threads run side by side, so that they find their queries' rows in the L2."""
    bytes_of_row = (call.heads // call.kv_heads) * call.head_dim * (2 * element_bytes + FLOAT32_BYTES)
    rows = min(2 * (call.window or rows), rows)  # of a head that running blocks see, about
    together = max(1, L2_FOR_ROWS // (rows * bytes_of_row))
    return min(together, MOST_TOGETHER) if call.window is None else together


def _descriptor_of_sequences(tensor: torch.Tensor, rows: int):
    """A TMA descriptor of blocks of `rows` rows of a head, by which TMA knows where a sequence ends."""
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    block = (1, 1, 1, rows, padded(tensor.shape[3]))
    shape, strides = packed_shape(tensor)
    layout = flash3._block_layout(block, tensor.dtype)
    return TensorDescriptor(tensor, shape, strides, list(block), layout)


def _descriptor_of_terms(terms: torch.Tensor, rows: int):
    """A TMA descriptor of blocks of `rows` of the numbers that each query has one of."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    block = [1, 1, rows]
    layout = gl.NVMMASharedLayout.get_default_for(block, gl.float32)
    return TensorDescriptor(terms, list(terms.shape), list(terms.stride()), block, layout)


def _descriptor_of_sums(sums: torch.Tensor):
    """A TMA descriptor of the halves of dQ that are added in bulk."""
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from kernels.hopper.backward_common import ROOM

    block = list(ROOM.value)
    rows, columns = block[1:]
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=len(block))
    shape = [sums.numel() // (rows * columns), rows, columns]
    return TensorDescriptor(sums, shape, [rows * columns, columns, 1], block, layout)
