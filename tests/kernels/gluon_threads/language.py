"""As much of Gluon's language as the kernels use, on torch tensors and Python numbers."""

import time
from types import SimpleNamespace

import torch

from gluon_threads.block import Barriers, MemoryBarrier
from gluon_threads.memory import Shared, atomic_add, load, store


def is_scalar(*values):
    return not any(isinstance(value, torch.Tensor) and value.dim() for value in values)


def where(condition, one, other):
    """Of numbers a number: which of two, the same of every number of a tensor, or each number's."""
    if is_scalar(condition, one, other):
        return one if condition else other
    return torch.where(torch.as_tensor(condition), one, other)


def nothing(*_args, **_kwargs):
    """What a layout is here."""


def reduced_max(value, axis):
    most = value.amax(axis)
    return most if most.dim() else most.item()


def e4m3_by_four(values):
    """Four tensors as e4m3, those of the same place in an int32, the first in its lowest bits."""
    eight_bits = torch.stack(values, -1).clamp(-448, 448).to(torch.float8_e4m3fn)
    return eight_bits.view(torch.int32)[..., 0]


def codes_by_four(values):
    """Four tensors as the nearest of e4m3's codes: the lower two of them, the upper two, and their sum."""
    codes = torch.stack(values, -1).round().clamp(0, 255).to(torch.uint8)
    fours = codes.view(torch.int32)[..., 0]
    return fours & 0xFFFF, fours >> 16 & 0xFFFF, codes.view(torch.float8_e4m3fn).float().sum(-1)


OF_REGISTERS = "NVMMADistributed", "Slice", "Blocked", "DotOperand", "DistributedLinear", "SwizzledShared"
LAYOUTS = {
    **{f"{name}Layout": nothing for name in OF_REGISTERS},
    "NVMMASharedLayout": SimpleNamespace(get_default_for=nothing),
    "convert_layout": lambda value, layout, assert_trivial: value,
}
ARITHMETIC = {
    **{name: getattr(torch, name) for name in ("float32", "float16", "int32", "int64", "exp2", "log2")},
    "float8e4nv": torch.float8_e4m3fn,
    "split": lambda value: value.unbind(-1),
    "join": lambda one, other: torch.stack((one, other), -1),
    "load": load,
    "to_tensor": lambda value: value,
    "zeros_like": torch.zeros_like,
    "constexpr": lambda value: value,
    "cast": lambda value, dtype: value,
    "static_range": range,
    "cdiv": lambda a, b: -(-a // b),
    "floor": torch.floor,
    "zeros": lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
    "full": lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
    "arange": lambda start, end, layout: torch.arange(start, end),
    "minimum": lambda a, b: min(a, b) if is_scalar(a, b) else torch.minimum(a, torch.as_tensor(b)),
    "maximum": lambda a, b: max(a, b) if is_scalar(a, b) else torch.maximum(a, torch.as_tensor(b)),
    "where": where,
    "max": reduced_max,
    "abs": torch.abs,
    "sum": lambda value, axis: value.sum(axis),
}


ASSEMBLY = {  # by the first of these that it has
    "cvt.rn.satfinite.e4m3x2": e4m3_by_four,
    "cvt.pack.sat.u8": codes_by_four,
    "prmt": lambda values: values[0] | values[1] << 16,
    "add.rn.f16x2": sum,
    "cvt.f32.f16": lambda values: values[0],  # of a pair, which is its sum here
    "mul.f32": lambda values: values[0] * values[1],
    "rcp.approx": lambda values: 1 / values[0],
    "cvt.rn": lambda values: values[0],  # of pairs; here Q is float32
}


def language(block, program, programs):
    """As much of `gl` as flash3 uses, on torch tensors and Python numbers."""

    def allocate(dtype, shape, _layout):
        if dtype is torch.int64:
            return Barriers(MemoryBarrier(block) for _ in range(shape[0]))
        return Shared(torch.full(shape, torch.nan if dtype.is_floating_point else -1, dtype=dtype))

    def assembly(asm, _constraints, values, pack=1, **_kwargs):
        if does := next((does for word, does in ASSEMBLY.items() if word in asm), None):
            return does(values)
        if "mov.b32 $0, $1" in asm:
            return values[0] if pack == 1 else values[0][:, ::4].contiguous().view(torch.float8_e4m3fn)
        return time.monotonic_ns() if "%globaltimer" in asm else torch.tensor(program)

    return SimpleNamespace(
        **LAYOUTS,
        **ARITHMETIC,
        allocate_shared_memory=allocate,
        program_id=lambda axis: program,
        num_programs=lambda axis: programs,
        atomic_add=atomic_add,
        inline_asm_elementwise=assembly,
        warp_specialize=block.specialise,
        store=store,
    )
