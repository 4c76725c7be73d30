"""The arguments of `attention`, checked in one place."""

import torch

from kernels.call.options import Options
from kernels.call.value_checks import (
    check_build,
    check_is_tensor,
    check_layout,
    positive,
    said,
    shown,
    whole,
)
from kernels.tilings.device import MIN_BLOCK
from kernels.tilings.flash2 import MAX_HEAD_DIM

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_V_DIM, NARROW_HEAD_DIM = 512, 64  # of V, whose head_dim may be larger where that of Q and K is small
LATENT = 576, 512  # head_dims of Q and K, and of V, where a latent is both K and, without its last columns, V
MAX_BLOCK = 1024  # a 1024 x 1024 tile is the most elements Triton allows
MAX_SPLITS = 1024


def check_tensors(q, k, v, interpreted: bool) -> None:
    """ValueError or TypeError with one sentence for tensors that no algorithm can serve."""
    check_build(q)
    tensors = {"q": q, "k": k, "v": v}
    for name, tensor in tensors.items():
        check_tensor(name, tensor)
    _check_alike(tensors, interpreted)
    heads, kv_heads = q.shape[1], k.shape[1]
    if heads % kv_heads:
        raise ValueError(f"q has {heads} heads, which must be a multiple of the {kv_heads} heads of k and v")


def check_options(window, scale, algorithm, block_q, block_kv, splits, algorithms: dict[str, int]) -> None:
    """ValueError with one sentence for a wrong option; algorithms: the most splits of each."""
    if algorithm not in tuple(algorithms):
        raise ValueError(f"algorithm is {shown(algorithm)}, it must be one of {', '.join(algorithms)}")
    check_window(window)
    if scale is not None and not positive(scale):
        raise ValueError(f"scale is {shown(scale)}, it must be a finite number above 0")
    _check_block("block_q", block_q)
    _check_block("block_kv", block_kv)
    _check_splits(splits, algorithm, algorithms)


def check_tensor(name: str, tensor) -> None:
    check_layout(name, tensor, "[batch, heads, sequence, head_dim]")
    if 0 in (shape := tuple(tensor.shape)):
        raise ValueError(f"{name} has shape {shape}, every size must be at least 1")
    if tensor.dtype not in DTYPES:
        raise ValueError(f"{name} is {_plain(tensor.dtype)}, it must be {', '.join(map(_plain, DTYPES))}")
    most = MAX_V_DIM if name == "v" else MAX_HEAD_DIM
    if shape[-1] > most and (name == "v" or shape[-1] != LATENT[0]):
        raise ValueError(f"{name} has head_dim {shape[-1]}, it must be at most {most}")


def _check_alike(tensors: dict[str, torch.Tensor], interpreted: bool) -> None:
    q, k, v = tensors.values()
    dtype, device, q_shape, k_shape, v_shape = q.dtype, q.device, q.shape, k.shape, v.shape
    for name, tensor in tensors.items():
        if tensor.dtype != dtype:
            raise ValueError(f"{name} is {_plain(tensor.dtype)} and q is {_plain(dtype)}, they must be alike")
        if tensor.device != device:
            raise ValueError(f"{name} is on {tensor.device} and q on {device}, they must be on one device")
    if k_shape[0] != q_shape[0] or k_shape[3] != q_shape[3]:
        needed = f"{q_shape[0]} and {q_shape[3]}"
        raise ValueError(f"k has shape {tuple(k_shape)}, its batch and head_dim must be q's, {needed}")
    if k_shape[:3] != v_shape[:3]:
        wanted = f"[{', '.join(map(str, k_shape[:3]))}, head_dim] as k has"
        raise ValueError(f"v has shape {tuple(v_shape)}, it must be {wanted}")
    latent = (q_shape[3], v_shape[3]) == LATENT
    if q_shape[3] > MAX_HEAD_DIM and not latent:
        raise ValueError(
            f"q has head_dim {q_shape[3]}, it must be at most {MAX_HEAD_DIM} where v's is not {LATENT[1]}"
        )
    if v_shape[3] > MAX_HEAD_DIM and q_shape[3] > NARROW_HEAD_DIM and not latent:
        raise ValueError(
            f"v has head_dim {v_shape[3]}, it must be at most {MAX_HEAD_DIM} where q's is above"
            f" {NARROW_HEAD_DIM}, {q_shape[3]}: O and dV would not fit the registers"
        )
    if device.type == "cpu" and not interpreted:
        raise ValueError(
            "q is on the CPU, it must be on a GPU, or TRITON_INTERPRET=1 be set before kernels is imported"
        )
    if device.type not in ("cpu", "cuda"):
        raise ValueError(f"q is on {device}, it must be on a CUDA device, or on the CPU to be interpreted")


def check_window(window) -> None:
    """ValueError with one sentence for a window that is no number of keys, nor a pair of them."""
    if isinstance(window, tuple | list):
        if len(window) != 2 or not all(side is None or whole(side, 0) for side in window):
            raise ValueError(
                f"window is {shown(window)}, a pair must be of keys before and after: whole numbers or None"
            )
    elif window is not None and not whole(window, 1):
        raise ValueError(
            f"window is {shown(window)}, it must be None or a whole number of keys, at least 1, or a pair"
            " of them"
        )


def check_terms(q, k, options: Options) -> None:
    """ValueError or TypeError with one sentence for what no plain mask says; q and k are checked."""
    seq_kv = k.shape[-2]
    documents, prefix, softcap = options.documents, options.prefix, options.softcap
    if documents is not None:
        lengths = list(documents) if isinstance(documents, tuple | list) else None
        if (
            lengths is None
            or not all(whole(length, 0) for length in lengths)
            or sum(map(int, lengths)) != seq_kv
        ):
            raise ValueError(
                f"documents is {shown(documents)}, it must be a list of lengths that add up to k's {seq_kv}"
                " keys"
            )
    if prefix is not None:
        if not whole(prefix, 0):
            raise ValueError(f"prefix is {shown(prefix)}, it must be None or a whole number of keys")
        if options.window is not None or documents is not None:
            raise ValueError(
                f"prefix is {shown(prefix)}, it must be None with a window or documents: they may hide its"
                " keys"
            )
    if softcap is not None and not positive(softcap):
        raise ValueError(f"softcap is {shown(softcap)}, it must be None or a finite number above 0")
    heads = q.shape[1]
    _check_of_heads("sinks", options.sinks, q, [(heads,)])
    _check_of_heads("alibi_slopes", options.alibi_slopes, q, [(heads,), (q.shape[0], heads)])
    if options.alibi_slopes is not None and options.alibi_slopes.requires_grad:
        raise ValueError("alibi_slopes requires grad, it must not: its gradient is not computed")


def _check_of_heads(name: str, tensor, q: torch.Tensor, shapes: list[tuple]) -> None:
    if tensor is None:
        return
    check_is_tensor(name, tensor)
    if tuple(tensor.shape) not in shapes or not tensor.is_floating_point() or tensor.device != q.device:
        wanted = " or ".join(map(str, map(list, shapes)))
        raise ValueError(f"{name} is {said(tensor)}, it must be floating-point, {wanted}, on {q.device}")


def _check_block(name: str, block) -> None:
    if block is None:
        return
    if not whole(block, MIN_BLOCK) or block > MAX_BLOCK or block & (block - 1):
        raise ValueError(
            f"{name} is {shown(block)}, it must be a power of two from {MIN_BLOCK} to {MAX_BLOCK}"
        )


def _check_splits(splits, algorithm: str, algorithms: dict[str, int]) -> None:
    most = algorithms[algorithm]
    if splits is None or (whole(splits, 1) and splits <= most):
        return
    if most <= 1:
        able = " and ".join(name for name, count in algorithms.items() if count > 1)
        raise ValueError(
            f"splits is {shown(splits)}, it must be None with algorithm {shown(algorithm)}: only {able}"
            " splits"
        )
    raise ValueError(f"splits is {shown(splits)}, it must be None or a whole number from 1 to {most}")


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
