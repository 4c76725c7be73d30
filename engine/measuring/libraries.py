"""PyTorch and the kernels, imported when first asked for something: whoever only looks needs neither."""

from importlib import import_module
from typing import Any


class Library:
    """A module by its name: `Library("torch").empty` imports torch."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what Python itself asks of every object imports nothing
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


torch, distributed, kernels = map(Library, ("torch", "torch.distributed", "kernels"))
