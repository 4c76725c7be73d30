"""Triton's interpreter with every load, store, atomic and product reported: nothing else knows its inside.

Written for Triton 3.7.1; a test holds what is taken of it. Arguments are handed on as they come, because
other versions have fewer.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np

from engine.watch.tags import NOTHING, Pointer, Product, Tags

BLOCK_ACCESSES = (
    "create_tensor_pointer_load",
    "create_tensor_pointer_store",
    "create_descriptor_load",
    "create_descriptor_store",
)
ATOMICS = ("create_atomic_rmw", "create_atomic_cas")
REPORTED = {
    *("create_masked_load", "create_masked_store", "create_dot", "create_fmul", "create_addptr"),
    *(*BLOCK_ACCESSES, *ATOMICS),
}
UNTOUCHED = {"create_load", "create_store", "create_make_block_ptr", "create_advance"}


class Listener(Protocol):
    """What is told of a run. pointers are addresses, mask where they are meant, base what they count from."""

    tags: Tags

    def launched(self, kernel: str, arguments: dict[str, Any]) -> None: ...

    def program(self, index: tuple[int, int, int]) -> None: ...

    def access(self, kind: str, pointers, mask, itemsize: int, base: int | None) -> Any:
        """kind is load, store or atomic; returns the mask of what may be touched."""

    def loaded(self, values, mask) -> frozenset:
        """Values that the last access brought; returns their tags."""

    def product(self, left: frozenset, right: frozenset, matrix: bool) -> frozenset:
        """A matrix product, or one element by element; returns the tags of what it gives."""


@contextmanager
def reporting(listener: Listener, backwards: bool = False) -> Iterator[None]:
    """Within it all that the interpreter runs is reported; backwards: the last program of a grid is first."""
    from triton.runtime import interpreter

    changed = _Builder(interpreter, listener, backwards)
    parts = partial(_launch, listener), changed.set_grid_idx, partial(_combined, listener.tags)
    with replaced(changed.replacement, *parts):
        yield


@contextmanager
def replaced(
    operation: Callable[[str, Callable], Callable], launched: Callable, program: Callable, combined: Callable
) -> Iterator[None]:
    """Within it the interpreter's parts are others, each of which is given the usual one.

    operation: what is called instead of one of the builder's by its name. launched: given a kernel's executor
    and arguments. program: given an index. combined: given reduce or scan before, and the operation after.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    names = [name for name in dir(builder) if name.startswith("create_")]
    others = {name: operation(name, getattr(builder, name)) for name in names}
    classes = (
        (interpreter.GridExecutor, "__call__", launched),
        (interpreter.ReduceOps, "apply", partial(combined, "reduce")),
        (interpreter.ScanOps, "apply", partial(combined, "scan")),
    )
    with ExitStack() as stack:
        set_grid_idx = partial(program, builder.set_grid_idx)
        stack.enter_context(patch.multiple(builder, **others, set_grid_idx=set_grid_idx))
        for owner, name, other in classes:
            method = partialmethod_of(other, getattr(owner, name))
            stack.enter_context(patch.object(owner, name, method))
        yield


def partialmethod_of(function: Callable, usual: Callable) -> Callable:
    """A method that calls a function with the usual one before self."""
    return lambda self, *args, **kwargs: function(usual, self, *args, **kwargs)


def _launch(listener: Listener, call, executor, *args, **kwargs):
    """A kernel's launch: its arguments by name are told first."""
    named = {**dict(zip(executor.arg_names, args, strict=False)), **kwargs}
    listener.launched(executor.fn.__name__, named)
    return call(executor, *args, **kwargs)


def _combined(tags: Tags, kind: str, apply, operation, given):
    """A sum of products of Q and K is a score; other reductions, such as a row's maximum, come from many."""
    found = apply(operation, given)
    if kind == "reduce" and not isinstance(given, tuple):
        came = tags.of(given.handle.data)
        if Product() in came:
            tags.put(found.handle.data, came - {Product()})
    return found


class _Builder:
    """What takes the place of the builder's methods while it is watched."""

    def __init__(self, interpreter, listener: Listener, backwards: bool):
        self.interpreter, self.listener, self.tags = interpreter, listener, listener.tags
        self.builder, self.backwards = interpreter.interpreter_builder, backwards
        self.base: int | None = None

    def replacement(self, name: str, original: Callable) -> Callable:
        """What is called instead of an operation."""
        if name in UNTOUCHED:
            return original
        if name in BLOCK_ACCESSES:
            return partial(self.block_access, original)
        if name in ATOMICS:
            return partial(self.atomic, original)
        own = getattr(self, name.removeprefix("create_"), None) if name in REPORTED else None
        return partial(own or self.handed_on, original)

    def set_grid_idx(self, original, *index):
        """The next program begins."""
        if self.backwards:
            index = tuple(size - 1 - at for size, at in zip(self.builder.grid_dim, index, strict=True))
        self.listener.program(index)
        return original(*index)

    def handed_on(self, original, *args, **kwargs):
        """Any operation: what it gives comes from all that it took."""
        result = original(*args, **kwargs)
        came = NOTHING
        for each in args:
            if isinstance(each, self.interpreter.TensorHandle):
                came |= self.tags.of(each.data)
        if came:
            for each in result if isinstance(result, tuple) else (result,):
                if isinstance(each, self.interpreter.TensorHandle):
                    self.tags.put(each.data, came)
        return result

    def addptr(self, original, pointer, offset):
        """A pointer counts from the first address that it was made of."""
        result = original(pointer, offset)
        came = self.tags.of(pointer.data)
        if not came:
            came = frozenset({Pointer(int(pointer.data.flat[0]))})
        self.tags.put(result.data, came)
        return result

    def block_access(self, original, pointer, *args, **kwargs):
        """A block pointer's or a descriptor's access, which ends in a masked one."""
        self.base = int(pointer.base.data.flat[0])
        held = self.tags.of(pointer.base.data)
        self.base = next((tag.base for tag in held if isinstance(tag, Pointer)), self.base)
        try:
            return original(pointer, *args, **kwargs)
        finally:
            self.base = None

    def masked_load(self, original, pointers, mask, other, *rest, **named):
        """A load of what is allowed; the rest is as if masked."""
        mask = self._allowed("load", pointers, mask)
        result = original(pointers, mask, other, *rest, **named)
        self.tags.put(result.data, self.listener.loaded(result.data, mask.data))
        return result

    def masked_store(self, original, pointers, value, mask, *rest, **named):
        """A store of what is allowed."""
        mask = self._allowed("store", pointers, mask, value)
        return original(pointers, value, mask, *rest, **named)

    def atomic(self, original, *args):
        """A read, a change and a write that nothing comes between."""
        at = next(place for place, each in enumerate(args) if isinstance(each, self.interpreter.TensorHandle))
        args = list(args)
        if at and len(args) > at + 2:  # an operation comes before, and a mask after the value
            args[at + 2] = self._allowed("atomic", args[at], args[at + 2], args[at + 1])
        else:
            whole = self.interpreter.TensorHandle(np.ones_like(args[at].data, bool), bit_type())
            self._allowed("atomic", args[at], whole, args[at + 1])
        return original(*args)

    def fmul(self, original, left, right):
        """Element by element; of Q and K it is a product as a matrix product is."""
        result = original(left, right)
        came = self.tags.of(left.data), self.tags.of(right.data)
        if came[0] or came[1]:
            self.tags.put(result.data, self.listener.product(*came, False))
        return result

    def dot(self, original, left, right, total, *rest):
        """A matrix product; in bfloat16, which the interpreter takes for whole numbers, it is widened."""
        came = self.tags.of(left.data), self.tags.of(right.data)
        result = original(self._widened(left), self._widened(right), total, *rest)
        self.tags.put(result.data, self.listener.product(*came, True))
        return result

    def _allowed(self, kind: str, pointers, mask, value=None):
        """The mask of what may be touched: addresses are held to their tensors, in elements of one size."""
        found = self.tags.of(pointers.data)
        base = next((tag.base for tag in found if isinstance(tag, Pointer)), self.base)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        if value is not None and value.data.itemsize != size:
            raise ValueError(f"values of {value.data.itemsize} bytes are written to elements of {size}")
        data = mask.data if hasattr(mask, "data") and not isinstance(mask, np.ndarray) else mask
        allowed = self.listener.access(kind, pointers.data, data, size, base)
        return self.interpreter.TensorHandle(allowed, bit_type())

    def _widened(self, operand):
        import triton.language as tl

        if operand.dtype.scalar != tl.bfloat16:
            return operand
        wide = (operand.data.astype(np.uint32) << 16).view(np.float32)
        return self.interpreter.TensorHandle(wide, tl.float32)


def bit_type():
    """What masks are made of."""
    import triton.language as tl

    return tl.int1
