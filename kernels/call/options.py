"""The options of a call: every argument of `attention` beside the tensors, each entered here alone.

A public function says what it takes by a TypedDict of this file, `**given: Unpack[Asked]`, so that type
checkers know each name; `signed` has `inspect.signature` and help show them too. Inside it is one record,
`Options`.
"""

import inspect
from collections import namedtuple
from collections.abc import Callable, Sequence
from numbers import Number
from typing import TypedDict, get_args

import torch

Side = int | None
Window = int | tuple[Side, Side] | None


class Plain(TypedDict, total=False):
    """What every kernel takes."""

    causal: bool
    window: Window
    scale: float | None


class Scored(TypedDict, total=False):
    """What becomes of scores before the softmax."""

    softcap: float | None
    sinks: torch.Tensor | None
    alibi_slopes: torch.Tensor | None


class Seen(Plain, Scored, total=False):
    """All that changes the result: also sequences that are packed, and first keys that every query sees."""

    documents: Sequence[int] | None
    prefix: int | None


class Tiled(TypedDict, total=False):
    """Which kernel runs, and in which blocks."""

    algorithm: str
    block_q: int | None
    block_kv: int | None


class Probing(Seen, Tiled, total=False):
    """What a kernel's probe takes."""


class Explained(Probing, total=False):
    """All that chooses a kernel."""

    splits: int | None


class Asked(Explained, total=False):
    """All there is."""

    return_lse: bool


class Lengths(Plain, Scored, Tiled, total=False):
    """What sequences of lengths on the device take, which say themselves what is packed."""

    return_lse: bool


class Pages(Plain, Scored, total=False):
    """What a cache in pages takes."""

    splits: int | None
    return_lse: bool


USUAL = {bool, int, float, str, tuple, list, type(None), torch.Tensor, torch.nn.Parameter}
DEFAULTS = {"causal": False, "algorithm": "auto", "return_lse": False}  # None: all others
NAMES = tuple(Asked.__annotations__)
BEYOND_PLAIN = tuple(name for name in Seen.__annotations__ if name not in Plain.__annotations__)


class Options(namedtuple("Options", NAMES, defaults=[DEFAULTS.get(name) for name in NAMES])):
    """A call's options, as given or by default."""

    __slots__ = ()

    @property
    def how(self) -> tuple:
        """scale, algorithm, block_q, block_kv and splits: what is beside the mask and the terms."""
        return self.scale, self.algorithm, self.block_q, self.block_kv, self.splits


def asked(given: dict, kind: type) -> Options:
    """The options of a function that takes but those of a kind; TypeError for any other name."""
    known = kind.__annotations__
    if not given.keys() <= known.keys():
        (name, *_) = given.keys() - known.keys()
        raise TypeError(f"{name} is no option here, it must be one of {', '.join(known)}")
    for name, value in given.items():
        if type(value) not in USUAL and isinstance(value, Number):  # such as NumPy's
            given[name] = value.item() if hasattr(value, "item") else value
    return Options(**given)


def signed(function: Callable) -> Callable:
    """The function itself, whose signature shows each option by its name, type and default."""
    signature = inspect.signature(function)
    *own, given = signature.parameters.values()
    (kind,) = get_args(given.annotation)
    named = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(name), annotation=type_)
        for name, type_ in kind.__annotations__.items()
    ]
    function.__signature__ = signature.replace(parameters=[*own, *named])
    return function
