"""Triton's interpreter without what it computes for nothing, which is half of its time.

Written for Triton 3.7.1; another version that has other insides keeps them.
"""

import inspect
from dataclasses import replace
from functools import cache

import triton.language as tl
from triton.runtime import interpreter

TAKEN = ("_patch_lang", "_LangPatchScope", "_get_np_dtype", "interpreter_builder", "GridExecutor")


class PatchedOnce:
    """`_patch_lang` that patches the language at a launch, and not at every call of a function in it too."""

    def __init__(self):
        self.patch, self.patched = interpreter._patch_lang, set()

    def __call__(self, function):
        """A scope to restore, of what was not patched yet."""
        found = {each.__name__ for each in languages(function)}
        if found <= self.patched:
            return interpreter._LangPatchScope()
        scope = self.patch(function)
        if not self.patched:  # a launch, which restores; a function called in it does not
            restore = scope.restore
            scope.restore = lambda: (self.patched.clear(), restore())
        self.patched |= found
        return scope


def languages(function) -> list:
    """The modules of Triton's language that a kernel or a function in it sees."""
    seen = filter(inspect.ismodule, function.__globals__.values())
    return [each for each in seen if each in (tl, tl.core)]


def by_element(np_dtype):
    """What gives the numpy dtype of a type of Triton's, as `np_dtype` does, which makes a table each time."""
    known = cache(np_dtype)

    def of(dtype):
        element = dtype.element_ty if isinstance(dtype, tl.block_type) else dtype
        return (np_dtype if isinstance(element, tl.pointer_type) else known)(element)

    return of


def quicken() -> None:
    """From here on no language is patched twice, and no sum computed twice for an assertion that is off."""
    if any(not hasattr(interpreter, name) for name in TAKEN):
        return
    builder = interpreter.interpreter_builder
    # an overflow is looked for with three more operations, and asserted in debug mode alone
    builder.options = replace(builder.options, sanitize_overflow=builder.options.debug)
    interpreter._get_np_dtype = by_element(interpreter._get_np_dtype)
    interpreter._patch_lang = PatchedOnce()
