"""FlashAttention-3's backward pass on Hopper: which problems it serves, and its launches."""

import math
from dataclasses import replace
from itertools import accumulate

import torch

from kernels.algorithms.flash3 import forward as flash3
from kernels.algorithms.flash3.dq_sums import store_sums
from kernels.backward.backward import sink_gradient
from kernels.backward.row_terms import store_row_terms
from kernels.backward.shared_key_blocks import NONE, Shares, shares_of
from kernels.call.call import Call
from kernels.call.terms import Terms, score_of
from kernels.call.tma import unserved_strides
from kernels.launch.launch import multiprocessors, on_device
from kernels.launch.relaunch import Relaunch
from kernels.tilings.flash3 import BACKWARD_TILING as TILING
from kernels.tilings.flash3 import padded

L2_FOR_ROWS = 32 * 2**20  # bytes of Q, dO and the sums of dQ for running blocks: half of an H200's L2
MOST_TOGETHER = 4  # blocks of more heads side by side were slower, but where a window hides most queries
LONG = 4096  # keys
FLOAT32_BYTES = 4
SLOWER = {64: 1.05}  # a visit where key blocks are shared: ptxas awaits dP before most exponentials there
FEW_BLOCKS = 8  # of threads are few if so many times as many do not fill the GPU


def unserved(call: Call) -> str | None:
    """One sentence on why this does not serve a problem that flash3 serves forward, or None where it does."""
    if call.v_dim is not None:
        return f"flash3's backward pass takes V of the head_dim of Q and K alone, got {call.v_dim}"
    if call.scale <= 0:  # a hidden score of -inf must stay so
        return f"flash3's backward pass takes a scale above 0, got {call.scale}"
    if torch.are_deterministic_algorithms_enabled():
        return "flash3's backward pass sums dQ in any order, and PyTorch is told to fix the order"
    return None


def pays(call: Call, processors: int) -> bool:
    """Whether this is done before flash2's backward pass; as on an H200.

    It is not where heads share keys and hardly any block of threads is there to take them in turn, nor can
    several share a key block: up to a head_dim of 128 flash2 has twice as many.
    """
    call = _tiled(call)
    many = FEW_BLOCKS * _key_blocks(call) > processors or shared(call, processors) is not None
    return call.heads == call.kv_heads or call.head_dim > 128 or many


def flash3_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor,
    d_lse: torch.Tensor | None,
    call: Call,
    again: dict | None = None,
    terms: Terms | None = None,
) -> tuple[torch.Tensor, ...]:
    """dQ, dK and dV like q, k and v, which flash3 serves and `unserved` has no objection to.

    out and lse are any forward pass's, d_out and d_lse (or None) their gradients. dK and dV are the same bits
    every time, dQ is not. again gets what does the same for other tensors of these layouts. terms, if any,
    are a cap and sinks alone, with which comes a fourth gradient, of these, or None.
    """
    copies = unserved_strides(d_out, k, v) is not None
    call = _tiled(call)
    differentiate = _Pass(call, copies, shared(call, multiprocessors(q.device)), score_of(call, terms))
    gradients = differentiate(q, k, v, out, lse, d_out, d_lse, terms)
    if again is not None and None not in differentiate.launches:
        again["gradients"] = differentiate
    return gradients


def _tiled(call: Call) -> Call:
    """With the kernel's own blocks."""
    tiling = TILING[padded(call.head_dim)]
    return replace(call, block_q=tiling["BLOCK_Q"], block_kv=tiling["BLOCK_KV"])


class _Pass:
    """The backward pass of a call, for tensors of one layout; copies says that TMA does not take dO's.

    score is what `kernels.call.terms.score_of` says.

    The sums of shares [share, dK or dV, block_kv, head_dim], if any, those of dQ [batch, heads, padded_seq_q,
    head_dim], delta and lse_log2 are one allocation.
    """

    def __init__(self, call: Call, copies: bool, cut: Shares | None, score: tuple):
        self.call, self.copies, self.cut, self.score, self.launches = call, copies, cut, score, ()
        head_dim = padded(call.head_dim)
        self.rows_of_heads = call.batch, call.heads, call.query_blocks * call.block_q
        rows = math.prod(self.rows_of_heads)
        of_shares = 2 * cut.count * call.block_kv * head_dim if cut else 0
        self.sizes = of_shares, rows * head_dim, rows, rows
        self.size = sum(self.sizes)
        self.places = [FLOAT32_BYTES * place for place in accumulate(self.sizes[:-1])]  # of all but the first

    def __call__(self, q, k, v, out, lse, d_out, d_lse, terms=None) -> tuple[torch.Tensor, ...]:
        if self.copies:
            d_out = d_out.clone(memory_format=torch.contiguous_format)
        d_qkv = d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        scratch = torch.empty(self.size, dtype=torch.float32, device=q.device)
        if not self.launches:
            self.launches = self._launch_first(q, k, v, out, lse, d_out, d_lse, d_qkv, scratch)
            return self._with_sinks(d_qkv, scratch, lse, terms)
        clear, differentiate, store = self.launches
        first, d_out_address = scratch.data_ptr(), d_out.data_ptr()
        sums, delta, lse_log2 = (first + place for place in self.places)
        clear(out.data_ptr(), d_out_address, lse.data_ptr(), delta, lse_log2, sums)
        if d_lse is not None:
            self._subtract(d_lse, scratch)
        inputs = q.data_ptr(), k.data_ptr(), v.data_ptr(), d_out_address
        gradients = d_k.data_ptr(), d_v.data_ptr()
        differentiate(*inputs, lse_log2, delta, *gradients, sums)
        store(sums, d_q.data_ptr(), *(gradients if self.cut else ()))
        return self._with_sinks(d_qkv, scratch, lse, terms)

    def _with_sinks(self, d_qkv: tuple, scratch: torch.Tensor, lse: torch.Tensor, terms) -> tuple:
        """With the gradient of the sinks where there are terms, or None."""
        if terms is None:
            return d_qkv
        return *d_qkv, sink_gradient(terms, lse, self._tensors(scratch)[1][..., : self.call.seq_q])

    def _launch_first(self, q, k, v, out, lse, d_out, d_lse, d_qkv, scratch: torch.Tensor) -> tuple:
        """The three launches by way of Triton; returns what does each again."""
        _, d_k, d_v = d_qkv
        sums, delta, lse_log2 = self._tensors(scratch)
        clear = store_row_terms(out, d_out, lse, delta, lse_log2, sums, self.call)
        if d_lse is not None:
            self._subtract(d_lse, scratch)
        tensors = q, k, v, d_out, lse_log2, delta, d_k, d_v
        differentiate = _launch(tensors, sums, self.call, self.cut, self.score)
        together = heads_together(self.call, q.element_size())
        return clear, differentiate, store_sums(d_qkv, sums, self.call, self.cut, together)

    def _tensors(self, scratch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The sums of dQ, delta and lse_log2."""
        _, sums, *terms = scratch.split(self.sizes)
        return sums.view(*self.rows_of_heads, -1), *(each.view(self.rows_of_heads) for each in terms)

    def _subtract(self, d_lse: torch.Tensor, scratch: torch.Tensor) -> None:
        """d lse / dS = P: it enters dS = P o (dP - delta) as delta does."""
        self._tensors(scratch)[1][..., : self.call.seq_q] -= d_lse


def shared(call: Call, processors: int) -> Shares | None:
    """How blocks of threads, so many at a time, share the last key blocks; None where they do not.

    Where a mask hides queries, the last key blocks have few.
    """
    heads = call.heads // call.kv_heads
    slower = SLOWER.get(padded(call.head_dim), 1)
    return None if call.causal else shares_of(_key_blocks(call), call.query_blocks, heads, processors, slower)


def _key_blocks(call: Call) -> int:
    """Of all key heads."""
    return call.batch * call.kv_heads * call.key_blocks


def _launch(
    tensors: tuple[torch.Tensor, ...],
    sums: torch.Tensor,
    call: Call,
    cut: Shares | None,
    score: tuple | None = None,
) -> Relaunch | None:
    """Start one block of threads a key block of a key head, or a share of one; returns what does so again."""
    from kernels.hopper.backward import gradient_kernel

    programs, descriptors, arguments = _prepared(tensors, call, cut, score)
    if arguments["BULK"]:
        sums = _descriptor_of_sums(sums)
    arguments = flash3.compiled_for(arguments)
    with on_device(tensors[0].device):
        return flash3.started(gradient_kernel, programs, (*descriptors, sums), arguments)


def _prepared(
    tensors: tuple[torch.Tensor, ...], call: Call, cut: Shares | None, score: tuple | None = None
) -> tuple[int, list, dict]:
    """Blocks of threads, descriptors of the tensors, and the kernel's named arguments."""
    from kernels.hopper.warp_group import ROWS

    q, k, v, d_out, lse, delta, d_k, d_v = tensors
    block_q, keys = call.block_q, ROWS.value
    by_rows = ((q, block_q), (k, keys), (v, keys), (d_out, block_q))
    descriptors = [flash3._descriptor(*pair) for pair in by_rows]
    descriptors += [_descriptor_of_terms(terms, block_q) for terms in (lse, delta)]
    descriptors += [flash3._descriptor(gradient, keys) for gradient in (d_k, d_v)]
    square = call.causal and call.seq_q == call.seq_kv and not _is_long_and_narrow(call)
    head_dim = padded(call.head_dim)
    scale_log2, cap = score or score_of(call, None)
    bulk = head_dim == 128 and square  # else there is no shared memory left for dQ, or that was slower
    arguments = {
        "batch_heads": call.batch * call.kv_heads,
        "heads_together": heads_together(call, q.element_size()),
        "heads_per_kv_head": call.heads // call.kv_heads,
        "window": call.window or 0,
        **(cut or NONE).arguments(),
        "scales": (call.scale, scale_log2, cap),
        "CAUSAL": call.causal,
        "WINDOWED": call.window is not None,
        "SQUARE": square,
        "SHARED": cut is not None,
        "WIDE": head_dim > 128,
        "BULK": bulk,
        "FULL": bulk and call.heads == call.kv_heads and call.window is None,
        **{name: value for name, value in TILING[head_dim].items() if name != "BLOCK_Q"},
    }
    programs = _key_blocks(call) if cut is None else cut.whole + cut.count
    return programs, descriptors, arguments


def _is_long_and_narrow(call: Call) -> bool:
    """Whether skipping what a mask hides at its edges costs more than it saves, as measured."""
    return call.head_dim == 64 and call.window is None and call.seq_kv > LONG


def heads_together(call: Call, element_bytes: int) -> int:
    """Key heads whose blocks of threads run side by side, so that they find their queries' rows in the L2."""
    bytes_of_row = (call.heads // call.kv_heads) * call.head_dim * (2 * element_bytes + FLOAT32_BYTES)
    rows = min(2 * (call.window or call.seq_q), call.seq_q)  # of a head that running blocks see, about
    together = max(1, L2_FOR_ROWS // (rows * bytes_of_row))
    return min(together, MOST_TOGETHER) if call.window is None else together


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

    from kernels.hopper.dq_sums import ROOM

    block = list(ROOM.value)
    rows, columns = block[1:]
    layout = gl.NVMMASharedLayout(swizzle_byte_width=0, element_bitwidth=32, rank=len(block))
    shape = [sums.numel() // (rows * columns), rows, columns]
    return TensorDescriptor(sums, shape, [rows * columns, columns, 1], block, layout)
