"""Triton's interpreter with every load, store, atomic and product reported: nothing else knows its inside.

Written for Triton 3.7.1; a test holds what is taken of it. Arguments are handed on as they come, because
other versions have fewer.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, partialmethod
from typing import Any
from unittest.mock import patch

import numpy as np

from engine.watch.watch import NOTHING, Pointer, Product, Watch


@contextmanager
def reporting(watch: Watch, tape: Any = None) -> Iterator[None]:
    """Within it all that the interpreter runs is reported.

    tape: a `engine.watch.tape.Tape` that notes every operation that is not part of another.
    """
    from triton.runtime import interpreter

    hooks = _Hooks(interpreter, watch, tape)
    builder = interpreter.interpreter_builder
    names = [name for name in dir(builder) if name.startswith("create_")]
    operations = {name: hooks.operation(name, getattr(builder, name)) for name in names}
    with ExitStack() as stack:
        set_grid_idx = partial(hooks.set_grid_idx, builder.set_grid_idx)
        stack.enter_context(patch.multiple(builder, **operations, set_grid_idx=set_grid_idx))
        number = partial(hooks.number, interpreter._patch_lang_tensor)
        stack.enter_context(patch.object(interpreter, "_patch_lang_tensor", number))
        for owner, name, hook in (
            (interpreter.GridExecutor, "__call__", hooks.launch),
            (interpreter.ReduceOps, "apply", partial(hooks.combined, "reduce")),
            (interpreter.ScanOps, "apply", partial(hooks.combined, "scan")),
        ):  # which is given the usual method before self
            method = partialmethod(partial(hook, getattr(owner, name)))
            stack.enter_context(patch.object(owner, name, method))
        yield


class _Hooks:
    """What takes the place of the interpreter's own parts, each of which is given the usual one first.

    An operation of the builder's, `create_...`, has the hook of its name, or `handed_on`.
    """

    def __init__(self, interpreter, watch: Watch, tape: Any):
        self.interpreter, self.watch, self.tags = interpreter, watch, watch.tags
        self.builder, self.tape = interpreter.interpreter_builder, tape
        self.told = [each for each in (watch, tape) if each]
        self.base: int | None = None
        self.depth = 0  # of operations in operations

    def operation(self, name: str, original: Callable) -> Callable:
        """What is called instead of an operation of the builder's."""
        do = partial(getattr(self, name.removeprefix("create_"), self.handed_on), original)

        def noted(*args, **named):
            result = self.within(do, *args, **named)
            if self.tape and not self.depth:
                self.tape.note(name, args, named, result)
            return result

        return noted

    def within(self, do: Callable, *args, **named):
        """Do an operation; what it is made of is no operation of the kernel's."""
        self.depth += 1
        try:
            return do(*args, **named)
        finally:
            self.depth -= 1

    def number(self, usual, tensor, scope) -> None:
        """A tensor of one number is one: Triton 3.6 takes it for an array, NumPy refuses that from 2.4 on."""
        usual(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: self.handle.data.item())

    def launch(self, call, executor, *args, **kwargs):
        """A kernel's launch: its arguments by name are told first."""
        named = {**dict(zip(executor.arg_names, args, strict=False)), **kwargs}
        for each in self.told:
            each.launched(executor.fn.__name__, named)
        call(executor, *args, **kwargs)
        if self.tape:
            self.tape.ended(self.builder.grid_dim)

    def combined(self, kind: str, apply, operation, given):
        """A sum of products of Q and K is a score; other reductions, such as a maximum, come from many."""
        found = self.within(apply, operation, given)
        if kind == "reduce" and not isinstance(given, tuple):
            came = self.tags.of(given.handle.data)
            if Product() in came:
                self.tags.put(found.handle.data, came - {Product()})
        if self.tape and not self.depth:
            self.tape.combined(kind, operation, given, found)
        return found

    def set_grid_idx(self, original, *index):
        """The next program begins."""
        for each in self.told:
            each.program(index)
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

    def untouched(self, original, *args, **kwargs):
        """What ends in another operation, or makes no numbers."""
        return original(*args, **kwargs)

    load = store = make_block_ptr = advance = untouched

    def block_access(self, original, pointer, *args, **kwargs):
        """A block pointer's or a descriptor's access, which ends in a masked one."""
        self.base = int(pointer.base.data.flat[0])
        held = self.tags.of(pointer.base.data)
        self.base = next((tag.base for tag in held if isinstance(tag, Pointer)), self.base)
        try:
            return original(pointer, *args, **kwargs)
        finally:
            self.base = None

    tensor_pointer_load = tensor_pointer_store = descriptor_load = descriptor_store = block_access

    def masked_load(self, original, pointers, mask, other, *rest, **named):
        """A load of what is allowed; the rest is as if masked."""
        mask = self._allowed("load", pointers, mask)
        result = original(pointers, mask, other, *rest, **named)
        self.tags.put(result.data, self.watch.loaded(result.data, mask.data))
        return result

    def masked_store(self, original, pointers, value, mask, *rest, **named):
        """A store of what is allowed."""
        mask = self._allowed("store", pointers, mask, value)
        return original(pointers, value, mask, *rest, **named)

    def atomic_rmw(self, original, operation, pointers, value, mask, *rest):
        """A read, a change and a write that nothing comes between."""
        mask = self._allowed("atomic", pointers, mask, value)
        return original(operation, pointers, value, mask, *rest)

    def atomic_cas(self, original, pointers, compared, *rest):
        """The same, of one element."""
        self._allowed("atomic", pointers, np.ones_like(pointers.data, bool), compared)
        return original(pointers, compared, *rest)

    def fmul(self, original, left, right):
        """Element by element; of Q and K it is a product as a matrix product is."""
        result = original(left, right)
        came = self.tags.of(left.data), self.tags.of(right.data)
        if came[0] or came[1]:
            self.tags.put(result.data, self.watch.product(*came, False))
        return result

    def dot(self, original, left, right, total, *rest):
        """A matrix product; in bfloat16, which the interpreter takes for whole numbers, it is widened."""
        came = self.tags.of(left.data), self.tags.of(right.data)
        result = original(self._widened(left), self._widened(right), total, *rest)
        self.tags.put(result.data, self.watch.product(*came, True))
        return result

    def _allowed(self, kind: str, pointers, mask, value=None):
        """The mask of what may be touched: addresses are held to their tensors, in elements of one size."""
        found = self.tags.of(pointers.data)
        base = next((tag.base for tag in found if isinstance(tag, Pointer)), self.base)
        size = max(1, pointers.get_element_ty().primitive_bitwidth // 8)
        if value is not None and value.data.itemsize != size:
            raise ValueError(f"values of {value.data.itemsize} bytes are written to elements of {size}")
        data = mask.data if hasattr(mask, "data") and not isinstance(mask, np.ndarray) else mask
        allowed = self.watch.access(kind, pointers.data, data, size, base)
        return self.interpreter.TensorHandle(allowed, self.interpreter.tl.int1)

    def _widened(self, operand):
        if operand.dtype.scalar != self.interpreter.tl.bfloat16:
            return operand
        wide = (operand.data.astype(np.uint32) << 16).view(np.float32)
        return self.interpreter.TensorHandle(wide, self.interpreter.tl.float32)
