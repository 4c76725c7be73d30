"""Attention as an operator that PyTorch knows: for autograd, `torch.compile` and fake tensors."""

from inspect import signature

import torch
from torch._functorch.utils import unwrap_dead_wrappers

from kernels.arguments import check_tensors
from kernels.dispatch import forward, gradients
from kernels.launch import interpreted

NO_GRADIENTS = (None,) * 7  # of the options


@torch.library.custom_op("attention_tiles::attention", mutates_args=())
def attention_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    window: int | None,
    scale: float | None,
    algorithm: str,
    block_q: int | None,
    block_kv: int | None,
    splits: int | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """out and lse; the arguments are those of `kernels.attention`."""
    return forward(q, k, v, causal, window, scale, algorithm, block_q, block_kv, splits)


@attention_operator.register_fake
def _(q, k, v, *options):
    check_tensors(q, k, v, interpreted())
    return torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("attention_tiles::attention_backward", mutates_args=())
def backward_operator(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    lse: torch.Tensor,
    d_out: torch.Tensor | None,
    d_lse: torch.Tensor | None,
    causal: bool,
    window: int | None,
    scale: float | None,
    algorithm: str,
    block_q: int | None,
    block_kv: int | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV from out and lse and their gradients."""
    return gradients(q, k, v, out, lse, d_out, d_lse, causal, window, scale, algorithm, block_q, block_kv)


@backward_operator.register_fake
def _(q, k, v, *others):
    return torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)


def _twice(ctx, *d_gradients):
    raise NotImplementedError(
        "attention has a first derivative only: for a second one, differentiate kernels.reference_attention"
    )


backward_operator.register_autograd(_twice)


def _setup_context(ctx, inputs, output):
    q, k, v, causal, window, scale, algorithm, block_q, block_kv, _splits = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.options = causal, window, scale, algorithm, block_q, block_kv
    ctx.set_materialize_grads(False)


def _backward(ctx, d_out, d_lse):
    d_qkv = backward_operator(*ctx.saved_tensors, d_out, d_lse, *ctx.options)
    return *d_qkv, *NO_GRADIENTS


attention_operator.register_autograd(_backward, setup_context=_setup_context)


forward.__signature__ = signature(forward)  # autograd asks for it at every call, and this is quick to read


class Gradients(torch.autograd.Function):
    """dQ, dK and dV, which may be asked for a derivative of their own and refuse."""

    forward = staticmethod(gradients)
    setup_context = staticmethod(lambda ctx, inputs, output: None)
    backward = staticmethod(_twice)


class Differentiable(torch.autograd.Function):
    """The operator for autograd and torch.func, with a fraction of its time on the host."""

    @classmethod
    def apply(cls, *args):
        """As every Function's, which takes time to bind a signature that only torch.func needs."""
        if torch._C._are_functorch_transforms_active():
            return super().apply(*args)
        return super(torch.autograd.Function, cls).apply(*unwrap_dead_wrappers(args))

    forward = staticmethod(forward)
    setup_context = staticmethod(_setup_context)

    @staticmethod
    def backward(ctx, d_out, d_lse):
        """dQ, dK and dV, and nothing for the options."""
        differentiate = Gradients.apply if torch.is_grad_enabled() else gradients
        return *differentiate(*ctx.saved_tensors, d_out, d_lse, *ctx.options), *NO_GRADIENTS
