"""Attention as an operator that PyTorch knows: for autograd, `torch.compile` and fake tensors."""

import torch
from torch._C import _any_requires_grad, _len_torch_dispatch_stack
from torch._C._functorch import unwrap_if_dead
from torch._library.autograd import Info, make_autograd_impl

from kernels.algorithms import ALGORITHMS
from kernels.call.arguments import check_options, check_tensors
from kernels.dispatch.dispatch import algorithms, check_differentiable, chosen, forward, gradients
from kernels.launch.launch import interpreted, output_like

NO_GRADIENTS = (None,) * 7  # of the options
PLAIN = (torch.Tensor, torch.nn.Parameter)  # neither fake nor traced


# torch.library.custom_op would do as well, and take three times as long at each call
LIBRARY = torch.library.Library("attention_tiles", "DEF")
LIBRARY.define(
    "attention(Tensor q, Tensor k, Tensor v, bool causal, SymInt? window, float? scale, str algorithm,"
    " SymInt? block_q, SymInt? block_kv, SymInt? splits) -> (Tensor out, Tensor lse)"
)
LIBRARY.define(
    "attention_backward(Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? d_out, Tensor? d_lse,"
    " bool causal, SymInt? window, float? scale, str algorithm, SymInt? block_q, SymInt? block_kv)"
    " -> (Tensor d_q, Tensor d_k, Tensor d_v)"
)
LIBRARY.impl("attention", forward, "CompositeExplicitAutograd")
LIBRARY.impl("attention_backward", gradients, "CompositeExplicitAutograd")
attention_operator = torch.ops.attention_tiles.attention.default
backward_operator = torch.ops.attention_tiles.attention_backward.default


def known(options: tuple) -> tuple:
    """Options that may be checked while PyTorch traces: a number that it keeps open counts as not given."""
    return tuple(None if isinstance(each, torch.SymInt) else each for each in options)


@torch.library.register_fake(attention_operator, lib=LIBRARY)
def _(q, k, v, *options):
    check_tensors(q, k, v, interpreted())
    check_options(*known(options[1:]), algorithms())
    return output_like(q, v), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.register_fake(backward_operator, lib=LIBRARY)
def _(q, k, v, *others):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


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
        plain = type(q) in PLAIN and type(k) in PLAIN and type(v) in PLAIN and not _len_torch_dispatch_stack()
        if plain and not (torch.is_grad_enabled() and _any_requires_grad(*arguments)):
            return run(*arguments)
        return dispatched(keys, *arguments)

    LIBRARY.impl(name, by_autograd, "Autograd", with_keyset=True)


register_gradient(backward_operator, "attention_backward", gradients, refuse_second_derivative)


def _setup_context(ctx, inputs, output):
    q, k, v, causal, window, scale, algorithm, block_q, block_kv, _splits = inputs
    check_differentiable(algorithm, "q, k or v")
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = causal, window, scale, algorithm, block_q, block_kv
    ctx.set_materialize_grads(False)


def _backward(ctx, d_out, d_lse):
    d_qkv = backward_operator(*ctx.saved_tensors, d_out, d_lse, *ctx.options)
    return *d_qkv, *NO_GRADIENTS


register_gradient(attention_operator, "attention", forward, _backward, _setup_context)


class Gradients(torch.autograd.Function):
    """dQ, dK and dV, which may be asked for a derivative of their own and refuse."""

    forward = staticmethod(gradients)
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(refuse_second_derivative)


class Differentiable(torch.autograd.Function):
    """The operator for autograd and torch.func, with a fraction of its time on the host."""

    forward = staticmethod(forward)
    setup_context = staticmethod(_setup_context)

    @staticmethod
    def backward(ctx, d_out, d_lse):
        """dQ, dK and dV, and nothing for the options."""
        differentiate = Gradients.apply if torch.is_grad_enabled() else gradients
        return *differentiate(*ctx.saved_tensors, d_out, d_lse, *ctx.options), *NO_GRADIENTS


class Direct(torch.autograd.Function):
    """`Differentiable` without torch.func: what the forward pass chose serves the backward pass too.

    Autograd takes its time for each argument and each result: the options come as one, and lse if asked for.
    """

    @staticmethod
    def forward(ctx, q, k, v, options, return_lse):
        """O, and lse if it is to be returned, as `dispatch.forward`."""
        call, _ = chosen(q, k, v, *options)
        out, lse = ALGORITHMS[call.algorithm].forward(q, k, v, call)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.options = *options[:-1], call.memory
        if not return_lse:
            return out
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx, d_out, d_lse=None):
        """dQ, dK and dV, and nothing for the two others."""
        differentiate = Gradients.apply if torch.is_grad_enabled() else gradients
        return *differentiate(*ctx.saved_tensors, d_out, d_lse, *ctx.options), None, None


def applied(function: type[torch.autograd.Function]):
    """Its `apply`, which binds a signature at every call, without what torch.func alone needs."""
    return super(torch.autograd.Function, function).apply


_apply = applied(Direct)


def differentiable(q, k, v, options: tuple, return_lse: bool):
    """O, or O and lse."""
    if torch._C._are_functorch_transforms_active():
        out, lse = Differentiable.apply(q, k, v, *options)
        return (out, lse) if return_lse else out
    return _apply(unwrap_if_dead(q), unwrap_if_dead(k), unwrap_if_dead(v), options, return_lse)


def watched() -> bool:
    """Whether a transform of torch.func or a dispatch mode is to see each operator."""
    return torch._C._are_functorch_transforms_active() or _len_torch_dispatch_stack() > 0


def traced(*tensors) -> bool:
    """Whether PyTorch has to see the call as one operator: it traces, or a tensor is fake."""
    if torch.compiler.is_compiling():
        return True
    for each in tensors:  # noqa: SIM110 (a generator would take longer than all else here)
        if type(each) not in PLAIN and isinstance(each, torch.Tensor):
            return True
    return False
