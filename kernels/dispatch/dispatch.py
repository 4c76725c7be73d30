"""Which algorithm serves a call and why, and the forward and backward pass it runs."""

from dataclasses import replace

import torch

from kernels.algorithms.flash1 import flash1
from kernels.algorithms.flash2.forward import flash2, served_by_tma, with_tma
from kernels.algorithms.flash3.backward import flash3_backward, pays, unserved
from kernels.algorithms.flash3.forward import flash3, unsupported
from kernels.algorithms.flash3.split_kv import flash3_split
from kernels.algorithms.flash3.split_kv import split_count as flash3_splits
from kernels.algorithms.flash3.stream_k import cut_of, flash3_cut
from kernels.algorithms.fp8.forward import fp8
from kernels.algorithms.fp8.forward import unsupported as unsupported_in_fp8
from kernels.algorithms.split_kv import packs, split_count, split_kv, thin, visible_keys, worthwhile
from kernels.algorithms.standard import standard
from kernels.backward.backward import backward
from kernels.call.arguments import checked
from kernels.call.call import Call
from kernels.call.remember import remember
from kernels.call.tma import TMA_ALIGNMENT
from kernels.launch.launch import POINTER_ALIGNMENT, interpreted, multiprocessors, options_given


def _flash3(q, k, v, call: Call, times=None) -> tuple[torch.Tensor, torch.Tensor]:
    if call.splits not in (None, 1) and times is None:
        return flash3_split(q, k, v, call)
    if call.cut is not None and times is None:
        return flash3_cut(q, k, v, call)
    memory = call.memory
    return flash3(
        q, k, v, causal=call.causal, window=call.window, scale=call.scale, times=times, memory=memory
    )


FORWARD = {
    "standard": standard,
    "flash1": flash1,
    "flash2": flash2,
    "flash3": _flash3,
    "fp8": fp8,
    "split_kv": split_kv,
}
ALGORITHMS = ("auto", *FORWARD)
_CHOSEN: dict[tuple, tuple[Call, str]] = {}  # by layout of the tensors and options
SHORT = 256  # keys up to which flash2 is done before flash3 where each SM has one program, on an H200
FEW_QUERIES = 64  # one warp group's rows: flash3 has two or three of those
FEW_QUERIES_KEYS = 1024  # up to which flash2 was measured to be faster for so few queries
DIFFERENTIABLE = ("flash2", "flash3", "split_kv")
OWN_BLOCKS = ("flash3", "fp8")


def chosen(
    q, k, v, causal, window, scale, algorithm="auto", block_q=None, block_kv=None, splits=None
) -> tuple[Call, str]:
    """The checked call with the algorithm that runs, and the reason that it does.

    Worked out once for tensors of the same layout and the same options.
    """
    options = (causal, window, scale, algorithm, block_q, block_kv, splits)
    try:
        aligned = (q.data_ptr() | k.data_ptr() | v.data_ptr()) % TMA_ALIGNMENT == 0
        alike = (  # all that `_choose` looks at, in one tuple: nested ones take longer
            q.shape, q.stride(), q.dtype, q.device,
            k.shape, k.stride(), k.dtype, k.device,
            v.shape, v.stride(), v.dtype, v.device,
            aligned or tuple(each.data_ptr() % TMA_ALIGNMENT for each in (q, k, v)),
            causal, window, scale, algorithm, block_q, block_kv, splits,
            type(window), type(scale), type(block_q), type(block_kv), type(splits),  # True equals 1
        )  # fmt: skip
        found = _CHOSEN.get(alike)
    except (AttributeError, TypeError, RuntimeError):  # of no tensors with strides, or unhashable: refused
        return _choose(q, k, v, *options)
    if found is None:
        found = _choose(q, k, v, *options)
        remember(_CHOSEN, alike, found)
    return found


def _choose(q, k, v, causal, window, scale, algorithm, block_q, block_kv, splits) -> tuple[Call, str]:
    call = checked(
        q,
        k,
        v,
        causal=causal,
        window=window,
        scale=scale,
        algorithm="flash2" if algorithm == "auto" else algorithm,
        algorithms=ALGORITHMS,
        block_q=block_q,
        block_kv=block_kv,
        splits=splits,
        interpreted=interpreted(),
    )
    if algorithm in OWN_BLOCKS:
        _check_served(algorithm, q, k, v, call, block_q, block_kv)
    if algorithm == "flash3" and splits is None:
        call = replace(call, cut=cut_of(call, multiprocessors(q.device)))
    own_blocks = block_q is None and block_kv is None
    if algorithm == "split_kv" and splits is None:
        call = replace(call, splits=split_count(call, multiprocessors(q.device)))
    if algorithm == "fp8":
        return call, "it was asked for, and auto never takes it, because numbers of 8 bits change the result"
    if algorithm != "auto":
        return with_tma(call, k) if own_blocks and _by_tma(call, q, k, v) else call, "it was asked for"
    if not own_blocks:
        return call, "with blocks given, auto is flash2"
    split, _ = _choose(q, k, v, causal, window, scale, "split_kv", None, None, None)
    return _fastest(call, split, q, k, v)


def _fastest(call: Call, split: Call, q, k, v) -> tuple[Call, str]:
    """What auto takes, given flash2's call and split_kv's; as measured on an H200."""
    processors = multiprocessors(q.device)
    flash2_call = with_tma(call, k) if _by_tma(call, q, k, v) else call
    splits = flash3_splits(call, processors)
    if splits is not None and _without_flash3(q, k, v) is None:
        by_parts = replace(call, algorithm="flash3", splits=splits)
        return by_parts, f"it splits the keys of each tile in {splits}, so that most SMs have a part"
    if q.is_cuda and worthwhile(call, split, processors):
        return split, f"flash2 would start {flash2_call.programs} programs on {processors} SMs"
    if q.is_cuda and packs(call, split, processors):
        sharing = split.heads // split.kv_heads
        return split, f"it takes the queries of {sharing} heads that share their keys together"
    if q.is_cuda and thin(split):
        return split, f"for {call.seq_q} queries its tiles of {split.block_q} rows waste least"
    reason = _without_flash3(q, k, v)
    if reason is None:
        reason = _flash2_first(call, flash2_call.programs, processors)
    if reason is None:
        call = replace(call, algorithm="flash3", cut=cut_of(call, processors))
        return call, "auto prefers it on a Hopper GPU"
    return flash2_call, reason


def _flash2_first(call: Call, programs: int, processors: int) -> str | None:
    """Why flash2 is done before flash3, or None where it is not."""
    keys = visible_keys(call)
    at_once = call.programs <= processors
    if at_once and keys <= SHORT:
        return f"for {keys} keys and {programs} programs flash3 takes longer to start"
    if call.seq_q > FEW_QUERIES or keys > FEW_QUERIES_KEYS:
        return None
    if (keys > 2 * SHORT) if call.head_dim <= 64 else at_once:
        return f"for {call.seq_q} queries and {keys} keys most of flash3's larger tiles would be empty"
    return None


def forward(q, k, v, *options) -> tuple[torch.Tensor, torch.Tensor]:
    """O [batch, heads, seq_q, head_dim of v], and lse float32 [batch, heads, seq_q]; options of `chosen`."""
    call, _ = chosen(q, k, v, *options)
    return FORWARD[call.algorithm](q, k, v, call)


def gradients(
    q,
    k,
    v,
    out,
    lse,
    d_out,
    d_lse,
    causal,
    window,
    scale,
    algorithm="auto",
    block_q=None,
    block_kv=None,
    memory=None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """dQ, dK and dV like q, k and v, from any algorithm's out and lse; d_out and d_lse may be None.

    memory: of the forward pass's call, where what is worked out here is kept; autograd's hooks may have laid
    the saved tensors out anew since.
    """
    if d_out is None:
        d_out = torch.zeros_like(out)
    elif d_out.stride(-1) != 1:  # such as the expanded gradient of a sum: slower to read than to copy
        d_out = d_out.contiguous()
    if memory is None:
        memory = chosen(q, k, v, causal, window, scale, "flash2", block_q, block_kv)[0].memory
    lse = lse.contiguous()
    pointers = q.data_ptr() | k.data_ptr() | v.data_ptr() | out.data_ptr() | lse.data_ptr() | d_out.data_ptr()
    aligned = pointers % POINTER_ALIGNMENT == 0
    if not aligned:  # kernels are compiled for which of them are
        aligned = tuple(each.data_ptr() % POINTER_ALIGNMENT for each in (q, k, v, out, lse, d_out))
    strides = q.stride(), k.stride(), v.stride(), out.stride(), d_out.stride()
    alike = algorithm, strides, aligned, torch.are_deterministic_algorithms_enabled()
    again = None if options_given() else memory.setdefault(alike, {})
    if again:
        return again["gradients"](q, k, v, out, lse, d_out, d_lse)
    call, _ = chosen(q, k, v, causal, window, scale, "flash2", block_q, block_kv)
    if (block_q is None and block_kv is None) and _by_flash3(call, algorithm, q, k, v):
        return flash3_backward(q, k, v, out, lse, d_out, d_lse, call, again)
    return backward(q, k, v, out, lse, d_out, d_lse, call, block_q, block_kv, None, again)


def differentiated(algorithm: str, q, k, v, sinks=None) -> bool:
    """Whether a gradient of one of these tensors is asked for; ValueError where the algorithm has none."""
    if torch.is_grad_enabled():
        for name, each in (("q", q), ("k", k), ("v", v), ("sinks", sinks)):
            if getattr(each, "requires_grad", False):
                check_differentiable(algorithm, name)
                return True
    return False


def check_differentiable(algorithm: str, leaf: str) -> None:
    """ValueError where an algorithm has no gradient, and a leaf of this name asks for one."""
    if algorithm != "auto" and algorithm not in DIFFERENTIABLE:
        raise ValueError(
            f"algorithm is {algorithm!r} and {leaf} requires grad, it must be one of"
            f" auto, {', '.join(DIFFERENTIABLE)}, or called under torch.no_grad()"
        )


def _by_flash3(call: Call, algorithm: str, q, k, v) -> bool:
    """Whether the gradients of an algorithm's result are flash3's, or flash2's."""
    if algorithm not in ("flash3", "auto") or _without_flash3(q, k, v) or unserved(call):
        return False
    return algorithm == "flash3" or pays(call, multiprocessors(q.device))


def _without_flash3(q, k, v) -> str | None:
    """One sentence on why flash3 does not serve these tensors, or None where it does."""
    if interpreted():
        return "flash3 is written in Gluon, which Triton's interpreter does not run"
    return unsupported(q, k, v)


def _by_tma(call: Call, q, k, v) -> bool:
    """Whether flash2 is to copy K and V by TMA."""
    return call.algorithm == "flash2" and tma_serves(call, q, k, v)


def tma_serves(call: Call, q, k, v) -> bool:
    """Whether K and V can be copied by TMA: from Hopper on, where the layout is one that TMA takes."""
    if not q.is_cuda or interpreted():
        return False
    strides = [stride * k.element_size() for tensor in (k, v) for stride in tensor.stride()[:-1]]
    return (
        torch.cuda.get_device_capability(q.device)[0] >= 9
        and served_by_tma(call, q, k, v)
        and all(stride > 0 and stride % TMA_ALIGNMENT == 0 for stride in strides)
    )


def _check_served(algorithm: str, q, k, v, call: Call, block_q, block_kv) -> None:
    for name, block in (("block_q", block_q), ("block_kv", block_kv)):
        if block is not None:
            raise ValueError(
                f"{name} is {block!r}, it must be None with algorithm {algorithm!r}: its blocks are its own"
            )
    reason = _without_flash3(q, k, v) if algorithm == "flash3" else _without_fp8(q, k, v, call)
    if reason:
        raise ValueError(f"algorithm is {algorithm!r}, which does not serve this call: {reason}")


def _without_fp8(q, k, v, call: Call) -> str | None:
    """One sentence on why FP8 does not serve this call, or None where it does."""
    if call.window is not None:
        return "fp8 takes causal and no other mask"
    if interpreted():
        return "fp8 is written in Gluon, which Triton's interpreter does not run"
    return unsupported_in_fp8(q, k, v)
