"""Kernels as plain Python functions, whose names for Gluon mean what this package makes of it."""

import sys
from functools import partial
from types import FunctionType, SimpleNamespace

import torch
from triton.language import constexpr

from gluon_threads.block import Block, Copies, Products, TensorCores
from gluon_threads.language import language, nothing
from gluon_threads.memory import TensorMemory, pointer_to


class Source:
    """Functions and classes of kernels.hopper as the Python that they were written as.

    Each sees the names of its own module, but those that are `replaced`.
    """

    def __init__(self, replaced: dict):
        self.replaced = replaced
        self.modules = {}
        self.classes = {}

    def plain(self, value):
        """The same, where it is no Gluon's."""
        if isinstance(value, constexpr):
            return value.value
        if hasattr(value, "hash_attrs"):
            return self._plain_class(value)
        function = getattr(value, "fn", None)
        if not isinstance(function, FunctionType) or not function.__module__.startswith("kernels."):
            return value
        names = self._names(function.__module__)
        return FunctionType(
            function.__code__, names, function.__name__, function.__defaults__, function.__closure__
        )

    def _names(self, module: str) -> dict:
        if module not in self.modules:
            names = self.modules[module] = {}
            names |= {name: self.plain(value) for name, value in vars(sys.modules[module]).items()}
            names |= self.replaced
        return self.modules[module]

    def _plain_class(self, aggregate) -> type:
        """A Gluon aggregate as a Python class with the same methods."""
        if aggregate not in self.classes:
            constructor, *_ = aggregate.hash_attrs  # where Triton leaves it
            methods = {name: each for name, each in vars(aggregate).items() if hasattr(each, "fn")}
            methods = {name: self.plain(each) for name, each in {**methods, "__init__": constructor}.items()}
            self.classes[aggregate] = type(aggregate.__name__, (), methods)
        return self.classes[aggregate]


def kernel_of_block(kernel, program: int, programs: int):
    """A kernel as a Python function, for block `program` of `programs`."""
    block = Block()
    copies, products = Copies(block), Products(block)
    replaced = {
        "gl": language(block, program, programs),
        "mbarrier": SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda barrier, count: barrier.init(count),
            expect=lambda barrier, nbytes: barrier.arrive(1, nbytes),
            arrive=lambda barrier, count: barrier.arrive(count),
            wait=lambda barrier, parity: barrier.wait(parity),
        ),
        "tma": SimpleNamespace(
            async_copy_global_to_shared=copies.start_in,
            async_copy_shared_to_global=copies.start_out,
            store_wait=copies.wait_out,
        ),
        "reduce_add": copies.start_add,
        "start": block.start,
        "warpgroup_mma": products.start,
        "warpgroup_mma_wait": products.wait,
        "tcgen05_mma": TensorCores().start,
        "allocate_tensor_memory": lambda dtype, shape, layout: TensorMemory.of(shape),
        **dict.fromkeys(("TensorMemoryLayout", "get_tmem_reg_layout"), nothing),
        "_power_of_two": torch.exp2,
        "fence_async_shared": lambda: None,
        "barrier_of_warps": lambda: None,
        "named_barrier": block.named_barrier,
        "_beside": lambda column, tensor: column.reshape(-1, *[1] * (tensor.dim() - 1)),
    }
    return Source(replaced).plain(kernel)


class OnThreads:
    """Stands in for a kernel: `OnThreads(kernel)[grid](...)` runs its blocks one after the other."""

    def __init__(self, kernel):
        self.kernel = kernel

    def __getitem__(self, grid):
        return partial(self._launch, grid[0])

    def _given(self, each):
        if isinstance(each, tuple):
            return tuple(map(self._given, each))
        return pointer_to(each) if isinstance(each, torch.Tensor) else each

    def _launch(self, programs, *tensors, num_warps, **arguments):
        given = [self._given(each) for each in tensors]
        for program in range(programs):
            kernel_of_block(self.kernel, program, programs)(*given, **arguments)
