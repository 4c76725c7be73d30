"""Single values as arguments: what they must be, and how an error shows them."""

from math import isfinite
from numbers import Integral, Real

import torch

LONGEST_SHOWN = 100  # characters of a value in an error
FLAGS = ("bool", "bool_", "SymBool")  # of numpy, and of PyTorch where it traces


def shown(value) -> str:
    """A value as an error shows it: short, and on one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"a {type(value).__name__}"


def check_is_tensor(name: str, value) -> None:
    """TypeError with one sentence for what is no tensor."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}, it must be a torch.Tensor")


def check_strided(name: str, value) -> None:
    """TypeError or ValueError with one sentence for what is no tensor with strides."""
    check_is_tensor(name, value)
    if value.layout is not torch.strided or value.is_nested:
        raise ValueError(f"{name} is sparse or nested, it must be a tensor with strides")


def flag(name: str, value) -> bool:
    """True or False; ValueError with one sentence for what is neither, such as the word 'False'."""
    if not isinstance(value, int) and type(value).__name__ not in FLAGS:
        raise ValueError(f"{name} is {shown(value)}, it must be True or False")
    return bool(value)


def whole(value, least: int) -> bool:
    """Whether it is a whole number, NumPy's too, and no bool."""
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= least


def python_int(value) -> int | None:
    """A whole number that may be NumPy's as Python's; None as it is."""
    return None if value is None else int(value)


def positive(value) -> bool:
    """Whether it is a finite number above 0."""
    return not isinstance(value, bool) and isinstance(value, Real) and isfinite(value) and value > 0
