"""The arguments of `attention`, checked in one place."""

import torch

from kernels.call.options import Options
from kernels.call.value_checks import (
    check_build,
    check_is_tensor,
    check_layout,
    must,
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
        must(False, "algorithm", algorithm, f"one of {', '.join(algorithms)}")
    check_window(window)
    if scale is not None:
        must(positive(scale), "scale", scale, "a finite number above 0")
    for name, block in (("block_q", block_q), ("block_kv", block_kv)):
        if block is not None:
            fits = whole(block, MIN_BLOCK) and block <= MAX_BLOCK and not block & (block - 1)
            must(fits, name, block, f"a power of two from {MIN_BLOCK} to {MAX_BLOCK}")
    most = algorithms[algorithm]
    if splits is not None and not (whole(splits, 1) and splits <= most):
        able = " and ".join(name for name, count in algorithms.items() if count > 1)
        none = f"None with algorithm {shown(algorithm)}: only {able} splits"
        must(False, "splits", splits, f"None or a whole number from 1 to {most}" if most > 1 else none)


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
    if not isinstance(window, tuple | list):
        wanted = "None or a whole number of keys, at least 1, or a pair of them"
        must(window is None or whole(window, 1), "window", window, wanted)
    elif len(window) != 2 or not all(side is None or whole(side, 0) for side in window):
        raise ValueError(
            f"window is {shown(window)}, a pair must be of keys before and after: whole numbers or None"
        )


def check_terms(q, k, options: Options) -> None:
    """ValueError or TypeError with one sentence for what no plain mask says; q and k are checked."""
    heads, seq_kv = q.shape[1], k.shape[-2]
    documents, prefix, slopes = options.documents, options.prefix, options.alibi_slopes
    if documents is not None:
        lengths = documents if isinstance(documents, tuple | list) else [None]
        add_up = all(whole(length, 0) for length in lengths) and sum(map(int, lengths)) == seq_kv
        if not add_up:
            must(False, "documents", documents, f"a list of lengths that add up to k's {seq_kv} keys")
    if prefix is not None:
        must(whole(prefix, 0), "prefix", prefix, "None or a whole number of keys")
        alone = options.window is None and documents is None
        must(alone, "prefix", prefix, "None with a window or documents: they may hide its keys")
    if options.softcap is not None:
        must(positive(options.softcap), "softcap", options.softcap, "None or a finite number above 0")
    for name, tensor in (("sinks", options.sinks), ("alibi_slopes", slopes)):
        if tensor is None:
            continue
        shapes = [(heads,)] if name == "sinks" else [(heads,), (q.shape[0], heads)]
        check_is_tensor(name, tensor)
        if tuple(tensor.shape) not in shapes or not tensor.is_floating_point() or tensor.device != q.device:
            wanted = " or ".join(map(str, map(list, shapes)))
            raise ValueError(f"{name} is {said(tensor)}, it must be floating-point, {wanted}, on {q.device}")
    if slopes is not None and slopes.requires_grad:
        raise ValueError("alibi_slopes requires grad, it must not: its gradient is not computed")


def _plain(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
