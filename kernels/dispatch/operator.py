"""Attention as PyTorch knows it: an operator for `torch.compile` and fake tensors, functions for autograd."""

import torch
from torch._C import _any_requires_grad, _len_torch_dispatch_stack
from torch._C._functorch import TransformType, get_interpreter_stack, is_legacy_batchedtensor, unwrap_if_dead
from torch._library.autograd import Info, make_autograd_impl
from torch.autograd import forward_ad
from torch.utils.flop_counter import register_flop_formula

from kernels.call.arguments import check_options, check_tensors
from kernels.call.formula import attention_by_formula
from kernels.call.key_ranges import ranges_of
from kernels.call.terms import Terms, terms_of
from kernels.call.value_checks import PLAIN, check_layout, check_untransformed, resolved, traced
from kernels.dispatch import dispatch
from kernels.dispatch.dispatch import algorithms, check_differentiable, checked, differentiated
from kernels.launch.launch import interpreted, output_like


def formula(q, k, v, options: tuple, terms: Terms | None) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse as `dispatch.run` gives them, in PyTorch's own operations: in float32, with S held whole.

    For forward-mode differentiation, which sees into no kernel, and for code that is compiled or
    functionalised under torch.func's transforms, which serve no function of autograd's there.
    """
    call = checked(q, k, v, *options, stand_in=torch.compiler.is_compiling())
    if terms is None:
        sides = None if call.window is None else call.window - 1, 0 if call.causal else None
        terms = Terms(ranges_of(call.seq_q, call.seq_kv, sides, None, None, q.device))
    first, end, position = terms.ranges[:, :, None, :, None].unbind(1)
    keys, numbers = torch.arange(call.seq_kv, device=q.device), (each.float() for each in (q, k, v))
    seen, distance = (keys >= first) & (keys < end), (position - keys).abs()
    of_scores = call.scale, terms.softcap, terms.slopes, terms.sinks
    out, lse = attention_by_formula(*numbers, seen, distance, *of_scores)
    return out.to(q.dtype), lse


NO_GRADIENTS = (None,) * 7  # of causal to splits
NO_TERMS = Terms(None)

# torch.library.custom_op would do as well, and take three times as long at each call
LIBRARY = torch.library.Library("attention_tiles", "DEF")
LIBRARY.define(
    "attention(Tensor q, Tensor k, Tensor v, Tensor? ranges, Tensor? sinks, Tensor? slopes, float? softcap,"
    " bool causal, SymInt? window, float? scale, str algorithm, SymInt? block_q, SymInt? block_kv,"
    " SymInt? splits) -> (Tensor out, Tensor lse)"
)
LIBRARY.define(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? d_out, Tensor? d_lse,"
    " Tensor? ranges, Tensor? sinks, Tensor? slopes, float? softcap, bool causal, SymInt? window,"
    " float? scale, str algorithm, SymInt? block_q, SymInt? block_kv)"
    " -> (Tensor d_q, Tensor d_k, Tensor d_v, Tensor d_sinks)"
)
attention_operator = torch.ops.attention_tiles.attention.default
backward_operator = torch.ops.attention_tiles.attention_backward.default


def _four(terms: Terms | None) -> tuple:
    """ranges, sinks, slopes and softcap, as the operator takes them."""
    return (NO_TERMS if terms is None else terms.ranged())[:4]


def forward(q, k, v, ranges, sinks, slopes, softcap, *options) -> tuple[torch.Tensor, torch.Tensor]:
    """O and lse; with ranges causal only says that late queries see more keys: their blocks start first."""
    terms = terms_of(*resolved(ranges, sinks, slopes), softcap)
    out, lse, _ = dispatch.run(q, k, v, options, terms)
    return out, lse


def whole_gradients(
    q, k, v, out, lse, d_out, d_lse, ranges, sinks, slopes, softcap, *options
) -> tuple[torch.Tensor, ...]:
    """dQ, dK, dV and of the sinks, empty where there are none, as an operator returns tensors alone."""
    q, k, v, out, lse, d_out, d_lse, *terms = resolved(q, k, v, out, lse, d_out, d_lse, ranges, sinks, slopes)
    terms = terms_of(*terms, softcap)
    *d_qkv, d_sinks = dispatch.gradients(q, k, v, out, lse, d_out, d_lse, *options, terms=terms)
    return *d_qkv, q.new_empty(0) if d_sinks is None else d_sinks


LIBRARY.impl("attention", forward, "CompositeExplicitAutograd")
LIBRARY.impl("attention_backward", whole_gradients, "CompositeExplicitAutograd")


@torch.library.register_fake(attention_operator, lib=LIBRARY)
def _(q, k, v, ranges, sinks, slopes, softcap, causal, *options):
    check_tensors(q, k, v, interpreted())
    # a number that PyTorch keeps open counts as not given
    known = (None if isinstance(each, torch.SymInt) else each for each in options)
    check_options(*known, algorithms())
    return output_like(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(backward_operator, lib=LIBRARY)
def _(q, k, v, out, lse, d_out, d_lse, ranges, sinks, *others):
    d_sinks = q.new_empty(0) if sinks is None else torch.empty_like(sinks)
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v), d_sinks


def flops(q, k, ranges, columns: int) -> int:
    """Of products over so many columns together: as PyTorch counts, a plain mask hides nothing; ranges do."""
    batch, heads, seq_q, _ = q.shape
    pairs = batch * seq_q * k.shape[2]
    if type(ranges) is torch.Tensor and ranges.device.type != "meta":
        pairs = int((ranges[:, 1] - ranges[:, 0]).clamp(min=0).sum())
    return 2 * heads * pairs * columns


@register_flop_formula(torch.ops.attention_tiles.attention, get_raw=True)
def _(q, k, v, ranges, *_others, out_val=None):
    return flops(q, k, ranges, q.shape[3] + v.shape[3])


@register_flop_formula(torch.ops.attention_tiles.attention_backward, get_raw=True)
def _(q, k, v, out, lse, d_out, d_lse, ranges, *_others, out_val=None):
    return flops(q, k, ranges, 3 * q.shape[3] + 2 * v.shape[3])


def refuse_second_derivative(ctx, *d_gradients):
    """Raises NotImplementedError."""
    raise NotImplementedError(
        "attention has a first derivative only: for a second one, differentiate kernels.reference_attention"
    )


def register_gradient(operator, name: str, run, backward, setup_context=None) -> None:
    """As torch.library.register_autograd, but without gradient or tracing `run` is called at once.

    That is how compiled code calls, forward and backward; the dispatcher would come to `run` by a second way
    through Python.
    """
    dispatched = make_autograd_impl(operator, Info(backward, setup_context))

    def by_autograd(keys, *arguments):
        q, k, v, *_ = arguments
        check_untransformed(*arguments)
        plain = type(q) in PLAIN and type(k) in PLAIN and type(v) in PLAIN and not _len_torch_dispatch_stack()
        if plain and not (torch.is_grad_enabled() and _any_requires_grad(*arguments)):
            return run(*arguments)
        return dispatched(keys, *arguments)

    LIBRARY.impl(name, by_autograd, "Autograd", with_keyset=True)


def _setup_context(ctx, inputs, output):
    q, k, v, ranges, sinks, slopes, softcap, causal, window, scale, algorithm, block_q, block_kv, _ = inputs
    check_differentiable(algorithm, "q, k or v")
    ctx.save_for_backward(q, k, v, *output, ranges, sinks, slopes)
    ctx.options = softcap, causal, window, scale, algorithm, block_q, block_kv
    ctx.set_materialize_grads(False)


def _backward(ctx, d_out, d_lse, differentiate=backward_operator):
    """Of q, k, v and the sinks; nothing for ranges, slopes and options."""
    *results, ranges, sinks, slopes = ctx.saved_tensors
    d_q, d_k, d_v, d_sinks = differentiate(*results, d_out, d_lse, ranges, sinks, slopes, *ctx.options)
    return d_q, d_k, d_v, None, None if sinks is None else d_sinks, None, None, *NO_GRADIENTS


def seen(operator, run):
    """What runs at once, but where PyTorch has to see the operator."""
    return lambda *arguments: operator(*arguments) if traced(*arguments) else run(*arguments)


class BySample(torch.autograd.Function):
    """A function that torch.func.vmap runs sample by sample."""

    @classmethod
    def vmap(cls, info, dimensions, *arguments):
        """The results of all samples, stacked."""
        samples = [
            cls.apply(
                *(
                    each if dimension is None else each.select(dimension, sample)
                    for each, dimension in zip(arguments, dimensions, strict=True)
                )
            )
            for sample in range(info.batch_size)
        ]
        return tuple(map(torch.stack, zip(*samples, strict=True))), (0,) * len(samples[0])


class Gradients(BySample):
    """dQ, dK, dV and of the sinks, which may be asked for a derivative of their own and refuse."""

    forward = staticmethod(seen(backward_operator, whole_gradients))
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(refuse_second_derivative)


class Differentiable(BySample):
    """The operator for torch.func."""

    forward = staticmethod(seen(attention_operator, forward))
    setup_context = staticmethod(_setup_context)

    @staticmethod
    def backward(ctx, d_out, d_lse):
        """As the operator's."""
        return _backward(ctx, d_out, d_lse, Gradients.apply)


register_gradient(attention_operator, "attention", forward, _backward, _setup_context)
register_gradient(backward_operator, "attention_backward", whole_gradients, refuse_second_derivative)


def function_serves() -> bool:
    """Whether torch.func's transforms, as they stand, take an autograd function."""
    if torch.compiler.is_compiling():
        return False
    return all(each.key() != TransformType.Functionalize for each in get_interpreter_stack())


def backward_by_sample(*given):
    """The operator, which PyTorch runs for one after another of gradients that are given at once."""
    with torch._C._AutoDispatchBelowAutograd():
        return backward_operator(*given)


class Direct(torch.autograd.Function):
    """`Differentiable` without torch.func; options come as one: each argument takes autograd time."""

    @staticmethod
    def forward(ctx, q, k, v, sinks, how):
        """O, and lse if it is to be returned, as `dispatch.forward`; sinks are those of the terms."""
        terms, options, return_lse = how
        out, lse, call = dispatch.run(q, k, v, options, terms)
        ctx.options, ctx.memory, ctx.terms = options[:-1], call.memory, None
        if terms is None:
            ctx.save_for_backward(q, k, v, out, lse)
        else:
            ctx.save_for_backward(q, k, v, out, lse, *terms.tensors)
            ctx.terms = terms.with_tensors(*(None,) * 5)
        if not return_lse:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, d_out, d_lse=None):
        """dQ, dK, dV and of the sinks, and nothing for the others."""
        q, k, v, out, lse, *tensors = ctx.saved_tensors
        results = q, k, v, out, lse, d_out, d_lse
        terms = ctx.terms and ctx.terms.with_tensors(*tensors)
        of_out = d_out is not None and is_legacy_batchedtensor(d_out)
        at_once = of_out or (d_lse is not None and is_legacy_batchedtensor(d_lse))
        if not (torch.is_grad_enabled() or at_once):
            return *dispatch.gradients(*results, *ctx.options, ctx.memory, terms), None
        differentiate = backward_by_sample if at_once else Gradients.apply
        *d_qkv, d_sinks = differentiate(*results, *_four(terms), *ctx.options)
        return *d_qkv, None if terms is None or terms.sinks is None else d_sinks, None


# without what torch.func alone needs, which binds a signature at every call
_apply = super(torch.autograd.Function, Direct).apply


def attend(q, k, v, options: tuple, terms: Terms | None = None, return_lse: bool = True):
    """O, or O and lse, differentiable where the algorithm is; options of `dispatch.chosen`."""
    transformed = torch._C._are_functorch_transforms_active()
    if forward_ad._current_level >= 0 or (transformed and not function_serves()):
        out, lse = formula(q, k, v, options, terms and terms.ranged())
    elif transformed:
        out, lse = Differentiable.apply(q, k, v, *_four(terms), *options)
    elif traced(q, k, v, *(terms or ())):  # little is asked here: compiled code asks again at every call
        for name, each in (("q", q), ("k", k), ("v", v)):
            if each.is_nested:  # PyTorch would say no more than that there is no such operator
                check_layout(name, each, "[batch, heads, sequence, head_dim]")
        out, lse = attention_operator(q, k, v, *_four(terms), *options)
    else:
        sinks = None if terms is None else terms.sinks
        if differentiated(options[3], q, k, v, sinks):
            q, k, v = unwrap_if_dead(q), unwrap_if_dead(k), unwrap_if_dead(v)
            return _apply(q, k, v, sinks, (terms, options, return_lse))
        out, lse, _ = dispatch.run(q, k, v, options, terms)
    return (out, lse) if return_lse else out
