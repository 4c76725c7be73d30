"""The number formats of Q, K, V and O. What is true of one stands in its record alone."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

MANTISSA_BITS, LOWEST_EXPONENT, LARGEST = 3, -6, 448.0  # of e4m3
Round = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Dtype:
    """One number format.

    >>> DTYPES["bfloat16"].round(np.float32(1.01)).item()
    1.0078125
    """

    name: str  # as NumPy and torch have it
    bytes: int  # of one number
    digits: int  # bits of the fraction
    round: Round = field(repr=False)  # float32 to the nearest, ties to even; overflow gives infinity
    products: str  # the format at whose rate a GPU multiplies its matrices, see `Gpu.matrix_flops`
    served: bool = True  # whether the kernels here take it; else it is modelled only
    twice: bool = False  # whether tensor cores for 8 bits multiply it twice as fast as that
    stored: str = ""  # the format in which O, S, P and gradients are kept; empty: this one
    words: str = ""  # why no kernel takes it, in a sentence, where that is not all that there is to say

    @property
    def eps(self) -> float:
        """From 1 to the next larger number."""
        return 2.0**-self.digits


def _as_float16(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def _as_bfloat16(array: np.ndarray) -> np.ndarray:
    bits = array.view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(array), array, rounded.view(np.float32))


def round_e4m3(array: np.ndarray) -> np.ndarray:
    """The nearest e4m3 values, ties to even, in the array's own format; larger than 448 becomes 448."""
    _, exponent = np.frexp(array)
    step = np.exp2(np.maximum(exponent - 1, LOWEST_EXPONENT) - MANTISSA_BITS).astype(array.dtype)
    return np.clip(np.rint(array / step) * step, -LARGEST, LARGEST)


EIGHT_BITS = (
    "attention_fp8 rounds float16 and bfloat16 to it in its own call: modelled is the kernel after that."
)
DTYPES = {
    one.name: one
    for one in (
        Dtype("float16", 2, 10, _as_float16, "float16"),
        Dtype("bfloat16", 2, 7, _as_bfloat16, "bfloat16"),
        Dtype("float32", 4, 23, np.asarray, "float32"),
        Dtype("float8_e4m3fn", 1, 3, round_e4m3, "float16", False, True, "float16", EIGHT_BITS),
    )
}


def dtype_named(name: str) -> Dtype:
    """The record of a dtype; raises ValueError for one that is not known here."""
    if name not in DTYPES:
        raise ValueError(f"dtype is {name!r}; it must be one of {', '.join(DTYPES)}")
    return DTYPES[name]


def round_to(array: np.ndarray, dtype: str) -> np.ndarray:
    """The nearest values that a dtype has, ties to even, as float32; overflow gives infinity."""
    return dtype_named(dtype).round(np.asarray(array, np.float32))
