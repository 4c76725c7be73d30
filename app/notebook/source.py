"""A function of a notebook as a file: its source, with that of all that it names."""

import ast
import inspect
from collections.abc import Mapping
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any

PLAIN = (bool, int, float, str, bytes, tuple, type(None))


def source_of(function: FunctionType) -> str:
    """A file that defines `attention` as a function does, with the modules, functions and numbers it names.

    Raises:
        ValueError: naming what cannot be written down.

    Example:
        Path("my_attention.py").write_text(source_of(my_attention))
    """
    found: dict[str, str] = {}
    _add(function.__name__, function, found)
    last = [] if function.__name__ == "attention" else [f"attention = {function.__name__}\n"]
    return "\n\n".join([*found.values(), *last])


def _add(name: str, value: Any, found: dict[str, str]) -> None:
    """Write a name down after all that it needs."""
    if name in found:
        return
    found[name] = ""  # what names itself is on its way
    inner = getattr(value, "fn", value)  # of triton.jit
    if isinstance(value, ModuleType):
        text = f"import {value.__name__} as {name}"
    elif isinstance(value, PLAIN):
        text = f"{name} = {value!r}"
    elif type(value).__name__ == "constexpr":
        text = f"import triton.language\n{name} = triton.language.constexpr({value.value!r})"
    elif getattr(value, "__module__", "__main__") != "__main__" and not isinstance(inner, FunctionType):
        text = f"from {value.__module__} import {value.__qualname__} as {name}"
    elif isinstance(inner, FunctionType):
        text = dedent(inspect.getsource(inner))
        _add_named(text, inner.__globals__, found)
    else:
        raise ValueError(
            f"{name} is a {type(value).__name__}; a kernel may name modules, functions and numbers"
        )
    del found[name]
    found[name] = text


def _add_named(text: str, known: Mapping[str, Any], found: dict[str, str]) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Name) and node.id in known:
            _add(node.id, known[node.id], found)
