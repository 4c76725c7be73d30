"""Attention whose queries see any ranges of keys, with a cap, sinks or slopes: chosen, run, differentiated.

PyTorch knows it as an operator of its own, torch.ops.attention_tiles.attention_in_ranges.
"""

import torch
from torch._C._functorch import unwrap_if_dead

from kernels.algorithms import ALGORITHMS
from kernels.backward.backward import backward
from kernels.call.arguments import check_options, check_tensors, check_terms
from kernels.call.key_ranges import ranges_of, remembered_ranges, window_sides
from kernels.call.options import Options
from kernels.call.terms import Terms
from kernels.dispatch.dispatch import algorithms, chosen, differentiated, fallback
from kernels.dispatch.operator import (
    LIBRARY,
    applied,
    refuse_second_derivative,
    register_gradient,
    traced,
    watched,
)
from kernels.launch.launch import interpreted, output_like

NO_GRADIENTS = (None,) * 8  # of slopes and options


def features_of(sinks, slopes, softcap) -> frozenset[str]:
    """Of `record.FEATURES`, what these ask for beside ranges."""
    given = {"sinks": sinks, "alibi_slopes": slopes, "softcap": softcap}
    return frozenset(("ranges", *(name for name, each in given.items() if each is not None)))


def forward(
    q, k, v, ranges, sinks, slopes, softcap, causal, scale, algorithm, block_q, block_kv, splits
) -> tuple[torch.Tensor, torch.Tensor]:
    """O [batch, heads, seq_q, head_dim of v], and lse float32 [batch, heads, seq_q]; tensors as in `Terms`.

    causal only says that late queries see more keys than early ones: their blocks are started first.
    """
    features = features_of(sinks, slopes, softcap)
    call, _ = chosen(q, k, v, causal, None, scale, algorithm, block_q, block_kv, splits, features)
    terms = Terms(ranges, sinks, slopes, softcap)
    return ALGORITHMS[call.algorithm].forward(q, k, v, call, terms=terms)


def gradients(
    q, k, v, out, lse, d_out, d_lse, ranges, sinks, slopes, softcap, causal, scale, block_q, block_kv
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV like q, k and v, and of the sinks, empty where there are none."""
    if d_out is None:
        d_out = torch.zeros_like(out)
    elif d_out.stride(-1) != 1:
        d_out = d_out.contiguous()
    call, _ = chosen(q, k, v, causal, None, scale, fallback().key, block_q, block_kv)
    # autograd's hooks may have laid out anew what the kernels take as it was
    lse, ranges = lse.contiguous(), ranges.contiguous()
    slopes = None if slopes is None else slopes.contiguous()
    terms = Terms(ranges, sinks, slopes, softcap)
    *d_qkv, d_sinks = backward(q, k, v, out, lse, d_out, d_lse, call, block_q, block_kv, terms)
    return *d_qkv, q.new_empty(0) if d_sinks is None else d_sinks


LIBRARY.define(
    "attention_in_ranges(Tensor q, Tensor k, Tensor v, Tensor ranges, Tensor? sinks, Tensor? slopes,"
    " float? softcap, bool causal, float? scale, str algorithm, SymInt? block_q, SymInt? block_kv,"
    " SymInt? splits) -> (Tensor out, Tensor lse)"
)
LIBRARY.define(
    "attention_in_ranges_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? d_out,"
    " Tensor? d_lse, Tensor ranges, Tensor? sinks, Tensor? slopes, float? softcap, bool causal, float? scale,"
    " SymInt? block_q, SymInt? block_kv) -> (Tensor d_q, Tensor d_k, Tensor d_v, Tensor d_sinks)"
)
LIBRARY.impl("attention_in_ranges", forward, "CompositeExplicitAutograd")
LIBRARY.impl("attention_in_ranges_backward", gradients, "CompositeExplicitAutograd")
ranged_operator = torch.ops.attention_tiles.attention_in_ranges.default
backward_operator = torch.ops.attention_tiles.attention_in_ranges_backward.default


@torch.library.register_fake(ranged_operator, lib=LIBRARY)
def _(q, k, v, *others):
    check_tensors(q, k, v, interpreted())
    return output_like(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(backward_operator, lib=LIBRARY)
def _(q, k, v, out, lse, d_out, d_lse, ranges, sinks, *others):
    d_sinks = q.new_empty(0) if sinks is None else torch.empty_like(sinks)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), d_sinks


def _setup_context(ctx, inputs, output):
    q, k, v, ranges, sinks, slopes, softcap, causal, scale, _algorithm, block_q, block_kv, _splits = inputs
    ctx.save_for_backward(q, k, v, *output, ranges, sinks, slopes)
    ctx.options = softcap, causal, scale, block_q, block_kv
    ctx.set_materialize_grads(False)


def _backward(ctx, d_out, d_lse):
    *results, ranges, sinks, slopes = ctx.saved_tensors
    d_q, d_k, d_v, d_sinks = backward_operator(*results, d_out, d_lse, ranges, sinks, slopes, *ctx.options)
    return d_q, d_k, d_v, None, None if sinks is None else d_sinks, *NO_GRADIENTS


class Direct(torch.autograd.Function):
    """The operator for autograd alone, with a fraction of its time on the host."""

    @staticmethod
    def forward(ctx, q, k, v, ranges, sinks, slopes, options):
        """O and lse, as `forward`."""
        output = forward(q, k, v, ranges, sinks, slopes, *options)
        _setup_context(ctx, (q, k, v, ranges, sinks, slopes, *options), output)
        return output

    @staticmethod
    def backward(ctx, d_out, d_lse):
        """As the operator's, and nothing for the slopes and the options."""
        *gradients, _slopes = _backward(ctx, d_out, d_lse)[:6]
        return *gradients, None, None


_apply = applied(Direct)
register_gradient(ranged_operator, "attention_in_ranges", forward, _backward, _setup_context)
register_gradient(backward_operator, "attention_in_ranges_backward", gradients, refuse_second_derivative)


def attention_in_ranges(q, k, v, options: Options, traced: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse), differentiable where the algorithm is.

    traced: by PyTorch, which must see how the ranges come about.
    """
    order = checked_order(q, k, v, options)
    return run(q, k, v, ranges_for(q, k, options, traced), order, options)


def ranges_for(q, k, options: Options, traced: bool = False) -> torch.Tensor:
    """What every query sees, int32 [batch, 3, seq_q]; the options are checked."""
    documents = None if options.documents is None else tuple(options.documents)
    sides = window_sides(options.causal, options.window)
    known = q.shape[2], k.shape[2], sides, documents, options.prefix, q.device
    ranges = (ranges_of if traced else remembered_ranges)(*known)
    return ranges.expand(len(q), -1, -1).contiguous()


def checked_order(q, k, v, options: Options) -> bool:
    """Whether late queries see more keys than early ones; ValueError or TypeError for what is not served."""
    check_tensors(q, k, v, torch.compiler.is_compiling() or interpreted())  # the operator's fake asks again
    check_options(options.window, *options.how, algorithms())
    check_terms(q, k, options)
    return window_sides(options.causal, options.window)[1] == 0


def run(q, k, v, ranges, order: bool, options: Options) -> tuple[torch.Tensor, torch.Tensor]:
    """(O, lse) for checked arguments: ranges as `Terms` has them, order as `checked_order` says."""
    sinks, slopes, softcap = options.sinks, options.alibi_slopes, options.softcap
    with_gradient = differentiated(options.algorithm, q, k, v, sinks)
    if sinks is not None:
        sinks = sinks.float().contiguous()
    if slopes is not None:
        slopes = slopes.float().expand(q.shape[:2]).contiguous()
    plain = None if softcap is None else float(softcap), order, *options.how
    tensors = q, k, v, ranges, sinks, slopes
    if traced(*tensors) or watched():
        return ranged_operator(*tensors, *plain)
    tensors = (None if each is None else unwrap_if_dead(each) for each in tensors)
    return _apply(*tensors, plain) if with_gradient else forward(*tensors, *plain)
