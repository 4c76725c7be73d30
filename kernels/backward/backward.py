"""The backward pass of FlashAttention-2 (Dao, arXiv 2307.08691, section 3.1.2): scores recomputed from q, k
and lse.

With P = exp(S - lse) and delta = rowsum(dO o O):  dV = P^T dO,  dP = dO V^T,  dS = P o (dP - delta), dK =
scale dS^T Q,  dQ = scale dS K. Key blocks outside for dK and dV, query blocks outside for dQ, so that each
is summed in registers, in one order: no atomics, and the same bits every time.
"""

import math
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import torch

from kernels.backward.kernel import key_gradient_kernel, query_gradient_kernel
from kernels.backward.places import store_row_terms
from kernels.call.call import Call, ceil_div
from kernels.call.device import device_of
from kernels.call.terms import Terms, score_of, tensors_of, tile_of
from kernels.call.value_checks import REMEMBERED
from kernels.launch.launch import fitting, launch, stages
from kernels.launch.relaunch import Relaunch
from kernels.tile.tile import LOG2_E
from kernels.tilings.backward import tilings as of_device


class Pass(NamedTuple):
    """How one of the two large kernels runs; stages is the most it uses, fewer where they do not fit."""

    call: Call
    warps: int
    stages: int


@lru_cache(REMEMBERED)
def tilings(
    call: Call, dtype: torch.dtype, block_q: int | None, block_kv: int | None, device="cpu"
) -> tuple[Pass, Pass]:
    """How the key gradient runs, and how the query gradient: in the blocks given, or in the fastest known."""
    dims = call.head_dim, call.out_dim
    return tuple(
        Pass(replace(call, block_q=rows, block_kv=columns), *launched)
        for rows, columns, *launched in of_device(
            dims, dtype.itemsize, block_q, block_kv, device_of(torch.device(device))
        )
    )


def backward(
    q, k, v, out, lse, d_out, d_lse, call: Call, block_q, block_kv, terms: Terms | None = None, again=None
) -> tuple[torch.Tensor, ...]:
    """As `Backward.run`; block_q and block_kv are None unless they are given."""
    d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    keys, queries = tilings(call, q.dtype, block_q, block_kv, q.device)
    if terms is not None and (terms.softcap is not None or terms.slopes is not None):
        # beside the tiles four warps have too few registers
        keys, queries = (how._replace(warps=8) for how in (keys, queries))
    padding = max(keys.call.block_q, queries.call.block_q)
    rows = 2, call.batch, call.heads, ceil_div(call.seq_q, padding) * padding
    delta, lse_log2 = torch.empty(rows, dtype=torch.float32, device=q.device)
    fill = store_row_terms(out, d_out, lse, d_lse, delta, lse_log2, queries.call)
    shared = {
        "strides": (q.stride(), k.stride(), v.stride(), d_out.stride()),
        "padded_seq_q": delta.shape[2],
        "score": (call.scale, *score_of(call, terms)),
        **call.sizes,
    }
    inputs = q, k, v, d_out, lse_log2, delta

    def launched(how: Pass, *outputs) -> Relaunch | None:
        def run(call: Call) -> Relaunch | None:
            return _launch(inputs, outputs, how._replace(call=call), shared, terms)

        return run(how.call) if block_q or block_kv else fitting(run, how.call)

    differentiate_keys, differentiate_queries = launched(keys, d_k, d_v), launched(queries, d_q)
    if terms is not None:
        return d_q, d_k, d_v, sink_gradient(terms, lse_log2, delta)
    if fill is not None and again is not None:
        again["gradients"] = _Relaunch(call, rows, fill, differentiate_keys, differentiate_queries)
    return d_q, d_k, d_v, None


class _Relaunch:
    """The three launches of a backward pass, to be done again for tensors of the same layouts."""

    def __init__(self, call: Call, rows: tuple[int, ...], *launches: Relaunch):
        """rows: [2, batch, heads, padded_seq_q] of delta and lse_log2, which are one allocation."""
        self.call, self.rows, self.launches = call, rows, launches
        self.lse_log2 = math.prod(rows) // 2 * torch.float32.itemsize  # behind delta

    def __call__(self, q, k, v, out, lse, d_out, d_lse, _terms) -> tuple[torch.Tensor, ...]:
        d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        terms = torch.empty(self.rows, dtype=torch.float32, device=q.device)
        fill, differentiate_keys, differentiate_queries = self.launches
        delta, d_out_address = terms.data_ptr(), d_out.data_ptr()
        lse_log2 = delta + self.lse_log2
        of_lse = () if d_lse is None else (d_lse.data_ptr(),)
        fill(out.data_ptr(), d_out_address, lse.data_ptr(), *of_lse, delta, lse_log2)
        inputs = q.data_ptr(), k.data_ptr(), v.data_ptr(), d_out_address, lse_log2, delta
        differentiate_keys(*inputs, d_k.data_ptr(), d_v.data_ptr())
        differentiate_queries(*inputs, d_q.data_ptr())
        return d_q, d_k, d_v, None


def sink_gradient(terms: Terms, lse_log2: torch.Tensor, delta: torch.Tensor) -> torch.Tensor | None:
    """The sum of P (dP - delta) over the rows: a sink's P is exp(sink - lse), its dP 0 without a value."""
    if terms.sinks is None:
        return None
    given = torch.exp2(terms.sinks[:, None] * LOG2_E.value - lse_log2).mul_(delta)
    if terms.ranges is not None:
        past = terms.ranges[:, None, 0] > terms.ranges[:, None, 1]
        given = given[..., : past.shape[2]].masked_fill(past, 0.0)
    return given.sum((0, 2)).neg_()


def _launch(inputs: tuple, outputs: tuple, how: Pass, shared: dict, terms: Terms | None) -> Relaunch | None:
    """Start the kernel of these outputs, dK and dV or dQ; returns what does so again."""
    call, pair, of_keys = how.call, how.call.padded_head_dim + how.call.padded_out_dim, len(outputs) == 2
    if of_keys:
        kernel, programs = key_gradient_kernel, call.key_blocks * call.batch * call.kv_heads
        streamed, resident, seen_from = call.block_q, call.block_kv, call.seq_kv
        known = {"EVEN_GROUP": (call.even, call.heads // call.kv_heads)}
    else:
        kernel, programs, known = query_gradient_kernel, call.programs, {"EVEN": call.even}
        streamed, resident, seen_from = call.block_kv, call.block_q, None
    return launch(
        kernel,
        programs,
        call,
        (*inputs, *outputs, tensors_of(terms, seen_from)),
        num_warps=how.warps,
        num_stages=min(how.stages, stages(outputs[0], streamed * pair, resident * pair)),
        **shared | {"strides": (*shared["strides"], *(each.stride() for each in outputs))},
        TILE=tile_of(call, terms),
        **known,
    )
