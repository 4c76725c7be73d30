"""Heads of a model of yours, taken while it runs: `with capture(layer=5, out="heads.npz"): model(...)`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.problem.heads import Heads, HeadsError

TOKENS_FIRST = "flash_attn_func"
CALLED = {  # modules, with their function: of [batch, tokens, heads, d], or of [batch, heads, tokens, d]
    **dict.fromkeys(("kernels", "kernels.dense"), "attention"),
    **dict.fromkeys(("flash_attn", "flash_attn.flash_attn_interface", "kernels.flash_attn"), TOKENS_FIRST),
}


@contextmanager
def capture(
    layer: int = 0, out: str | Path | None = None, *, tokens: int = 1024, words: tuple[str, ...] = ()
) -> Iterator[list[Heads]]:
    """Keep q, k and v of one call of attention, of its first sequence, and write them to a file.

    Calls are those of PyTorch's `scaled_dot_product_attention`, of the library flash_attn and of this
    project's `attention`, however a model reaches them; they compute what they would.

    Args:
        layer: which call, counted from 0.
        out: the .npz that is written at the end.
        tokens: the last keys that are kept, and the queries at them.
        words: the text of each key that is kept.

    Yields:
        A list that holds the heads afterwards.

    Raises:
        HeadsError: where there were no so many calls, or what was kept is no head.

    Example:
        with capture(layer=5, out="heads.npz"):
            model(token_ids)
    """
    found: list[Heads] = []
    seen = 0

    def note(q: Any, k: Any, v: Any, scale: float | None, tokens_first: bool) -> None:
        nonlocal seen
        if seen == layer:
            first = (each.detach().reshape(-1, *each.shape[-3:])[0] for each in (q, k, v))
            arrays = (each.float().cpu().numpy() for each in first)
            q, k, v = (each.swapaxes(0, 1) if tokens_first else each for each in arrays)
            kept = min(tokens, k.shape[1])
            queries = min(q.shape[1], kept)
            k, v = _shared(k[:, -kept:], v[:, -kept:])
            found.append(Heads.of(q[:, -queries:], k, v, words, scale))
        seen += 1

    with ExitStack() as stack:
        stack.enter_context(_mode(note))
        for module, name in CALLED.items():
            if module in sys.modules:
                with suppress(ImportError):  # a model of another library came first: Triton is taken
                    watched = _watched(getattr(sys.modules[module], name), note, name == TOKENS_FIRST)
                    stack.enter_context(patch.object(sys.modules[module], name, watched))
        yield found
    if not found:
        raise HeadsError(f"layer is {layer}; it must be below the {seen} calls of attention that were made")
    if out is not None:
        Path(out).write_bytes(found[0].packed())


def _watched(original: Callable, note: Callable, tokens_first: bool) -> Callable:
    @wraps(original)
    def call(q: Any, k: Any, v: Any, *more: Any, **named: Any) -> Any:
        note(q, k, v, named.get("softmax_scale", named.get("scale")), tokens_first)
        return original(q, k, v, *more, **named)

    return call


def _mode(note: Callable) -> Any:
    """Sees every call of PyTorch's own function, by whatever name a model has it."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Seeing(TorchFunctionMode):
        def __torch_function__(self, called, types, given=(), named=None):
            named = named or {}
            if called is torch.nn.functional.scaled_dot_product_attention:
                names = ("query", "key", "value")
                q, k, v = (given[at] if at < len(given) else named[name] for at, name in enumerate(names))
                note(q, k, v, named.get("scale"), False)
            return called(*given, **named)

    return Seeing()


def _shared(k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K and V once where a model has repeated them for all query heads of a group."""
    for group in range(len(k), 1, -1):
        if len(k) % group == 0 and all(
            (array.reshape(-1, group, *array.shape[1:]) == array[::group, None]).all() for array in (k, v)
        ):
            return k[::group], v[::group]
    return k, v
