"""Runs flash3's kernels without a GPU: their source as plain Python, a thread for each partition of warps.

Gluon has no interpreter. Here waits block, a deadlock is an error, products are done when they are waited
for, and what no one has written is NaN, so that a wrong order of the partitions shows in the results.
"""

import math
import threading
import time
from types import FunctionType, SimpleNamespace

import torch
from triton.language import constexpr

from kernels import (
    flash3_backward_kernel,
    flash3_backward_wide_kernel,
    flash3_fp8_kernel,
    flash3_kernel,
    flash3_pages_kernel,
    flash3_schedule,
)

ATTENTION_KERNEL = flash3_kernel.attention_kernel
GRADIENT_KERNEL = flash3_backward_kernel.gradient_kernel
WIDE_GRADIENT_KERNEL = flash3_backward_wide_kernel.wide_gradient_kernel
FP8_KERNEL = flash3_fp8_kernel.attention_fp8_kernel
PAGED_KERNEL = flash3_pages_kernel.paged_attention_kernel
AGGREGATES = ("Ring", "Schedule", "Visits", "PagedTiles")


class DeadlockError(RuntimeError):
    """Every partition waits."""


class Value(torch.Tensor):
    """A tensor whose conversions know Triton's `bitcast`, here of integers to uint32."""

    def to(self, dtype, bitcast=False):
        return self % 2**32 if bitcast else super().to(dtype)


class Shared:
    """Shared memory: a tensor with Gluon's names for looking at it."""

    def __init__(self, memory):
        self.memory = memory
        self.shape = memory.shape
        self.dtype = memory.dtype

    def index(self, i):
        return Shared(self.memory[i])

    def reshape(self, shape):
        return Shared(self.memory.view(shape))

    def permute(self, order):
        return Shared(self.memory.permute(order))

    def slice(self, start, length, dim):
        return Shared(self.memory.narrow(dim, start, length))

    def store(self, value):
        self.memory.copy_(value)

    def load(self, _layout=None):
        return self.memory.clone()

    def _reinterpret(self, _dtype, shape, _layout):
        return Boxes(self.memory, *shape[3:])


class Boxes:
    """Buffers [buffers, 1, 1, rows, columns] in boxes: all rows' first columns lie before the next ones."""

    def __init__(self, memory, rows, columns):
        self.parts = [
            part
            for buffer in memory
            for piece in buffer.split(columns, dim=-1)
            for part in piece.split(rows, dim=-2)
        ]

    def index(self, i):
        return Shared(self.parts[i])


class Descriptor:
    """What TMA knows of a tensor [batch, heads, seq, ...]: past its rows it reads 0, writes nothing."""

    def __init__(self, tensor, rows, columns=None):
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.layout = None
        shape = [1, 1, rows, *([columns] if columns else tensor.shape[3:])]
        self.block_type = SimpleNamespace(shape=shape, nbytes=math.prod(shape) * tensor.element_size())

    def rows(self, batch, head, row, column=0):
        head_rows = self.tensor[batch, head, row : row + self.block_type.shape[2]]
        return head_rows[..., column : column + self.block_type.shape[-1]]


class Pointer:
    """A place, or a tensor of places, in a flat tensor."""

    def __init__(self, memory, offsets=0):
        self.memory = memory
        self.offsets = offsets

    def __add__(self, offsets):
        return Pointer(self.memory, self.offsets + offsets)


class Block:
    """One block of threads: its barriers, and its partitions as threads of which one runs at a time.

    A partition runs until it must wait; the next is the one that has waited longest of those that can go on,
    so that every run takes the same order.
    """

    def __init__(self):
        self.waiting = {}  # a partition's number -> (whether it only rests, what it waits for), oldest first
        self.turns = []
        self.errors = []
        self.named = {}

    def wait_until(self, ready):
        if not ready():
            self._wait(False, ready)

    def let_others_run(self):
        """Rest until every other partition waits or rests; who rested last goes on first."""
        self._wait(True, None)

    def _wait(self, rests, ready):
        number = self.current
        self.waiting[number] = rests, ready
        self._pass_on()
        self.turns[number].acquire()
        if self.errors:
            raise self.errors[0]

    def _pass_on(self):
        """The turn goes to a partition that can go on."""
        able = [number for number, (rests, ready) in self.waiting.items() if not rests and ready()]
        able = able or [number for number, (rests, _) in reversed(self.waiting.items()) if rests]
        if self.waiting and not able and not self.errors:
            self.errors.append(DeadlockError("every partition waits for another"))
        if self.errors:
            able = list(self.waiting)  # each ends with the error
        if able:
            self.current = able[0]
            del self.waiting[self.current]
            self.turns[self.current].release()

    def specialize(self, partitions, _warps, _registers):
        self.turns = [threading.Semaphore(0) for _ in partitions]
        self.waiting = {number: (False, lambda: True) for number in range(len(partitions))}
        threads = [threading.Thread(target=self._run, args=numbered) for numbered in enumerate(partitions)]
        for thread in threads:
            thread.start()
        self._pass_on()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(self, number, partition):
        self.turns[number].acquire()
        function, arguments = partition
        try:
            if not self.errors:
                function(*arguments)
        except BaseException as error:
            self.errors.append(error)
        self._pass_on()

    def named_barrier(self, action, name, threads, own=128):
        """PTX bar.sync and bar.arrive of `own` threads, of so many in all."""
        barrier = self.named.setdefault(name, SimpleNamespace(arrived=0, phase=0))
        phase = barrier.phase
        barrier.arrived += own
        assert barrier.arrived <= threads, "more arrivals than this barrier expects in a phase"
        if barrier.arrived == threads:
            barrier.arrived, barrier.phase = 0, phase + 1
        if action == "sync":
            self.wait_until(lambda: barrier.phase != phase)


class MemoryBarrier:
    """An mbarrier: a phase ends when `count` have arrived and no announced byte is missing."""

    def __init__(self, block):
        self.block = block
        self.phase = self.missing_bytes = self.count = self.pending = 0

    def init(self, count):
        self.count = self.pending = count

    def arrive(self, count=1, missing_bytes=0):
        self.pending -= count
        self.missing_bytes += missing_bytes
        assert self.pending >= 0, "more arrivals than this barrier expects in a phase"
        if self.pending == 0 and self.missing_bytes == 0:
            self.phase, self.pending = self.phase + 1, self.count

    def wait(self, parity):
        """Until the phase of this parity has ended; of a new barrier the one before phase 0 has."""
        self.block.wait_until(lambda: (self.phase & 1) != parity)


class Barriers(list):
    """An allocation of mbarriers."""

    @property
    def shape(self):
        return [len(self), 1]

    def index(self, i):
        return self[i]


class Products(threading.local):
    """Asynchronous products of one warp group: each is done when it is waited for.

    SIZES, where it is a list, gets each product's rows, what it sums over, and columns.
    """

    LATE = False  # and every other partition has done what it can
    SIZES = None

    def __init__(self, block):
        self.block = block
        self.pending = []

    def start(self, left, right, accumulator, use_acc=True, is_async=False):
        assert is_async
        if self.SIZES is not None:
            self.SIZES.append((*left.shape, right.shape[1]))
        result = torch.full_like(accumulator, torch.nan)
        self.pending.append((result, left, right, accumulator if use_acc else None))
        return result

    def wait(self, left_in_flight, deps):
        if self.LATE:
            self.block.let_others_run()
        while len(self.pending) > left_in_flight:
            result, left, right, accumulator = self.pending.pop(0)
            left = left.load() if isinstance(left, Shared) else left
            product = left.float() @ right.load().float()
            result.copy_(product if accumulator is None else accumulator + product)
        return deps[0] if len(deps) == 1 else deps


def is_scalar(*values):
    return not any(isinstance(value, torch.Tensor) and value.dim() for value in values)


def nothing(*_args, **_kwargs):
    """What a layout is here."""


def store(pointer, value, mask=None):
    if mask is None:
        pointer.memory[pointer.offsets] = value
    else:
        pointer.memory[pointer.offsets[mask]] = value[mask]


def load(pointer, mask=True, other=None):
    """One number, or a tensor of them; what is not wanted is not looked at."""
    return pointer.memory[pointer.offsets] if mask is True or mask else torch.tensor(other)


def atomic_add(counter, value, sem):
    if isinstance(counter, Pointer):
        return counter.memory.index_add_(0, counter.offsets, value)
    before = int(counter)
    counter += value
    return before


def reduced_max(value, axis):
    most = value.amax(axis)
    return most if most.dim() else most.item()


def e4m3_by_four(values):
    """Four tensors as e4m3, those of the same place in an int32, the first in its lowest bits."""
    eight_bits = torch.stack(values, -1).clamp(-448, 448).to(torch.float8_e4m3fn)
    return eight_bits.view(torch.int32)[..., 0]


LAYOUTS = {
    "NVMMADistributedLayout": nothing,
    "SliceLayout": nothing,
    "BlockedLayout": nothing,
    "DotOperandLayout": nothing,
    "DistributedLinearLayout": nothing,
    "NVMMASharedLayout": SimpleNamespace(get_default_for=nothing),
    "SwizzledSharedLayout": nothing,
    "convert_layout": lambda value, layout, assert_trivial: value,
}
ARITHMETIC = {
    **{
        name: getattr(torch, name)
        for name in ("float32", "float16", "int32", "int64", "uint32", "exp2", "log2")
    },
    "float8e4nv": torch.float8_e4m3fn,
    "split": lambda value: value.unbind(-1),
    "join": lambda one, other: torch.stack((one, other), -1),
    "load": load,
    "to_tensor": lambda value: value,
    "zeros_like": torch.zeros_like,
    "constexpr": lambda value: value,
    "cast": lambda value, dtype: value,
    "static_range": range,
    "zeros": lambda shape, dtype, layout: torch.zeros(shape, dtype=dtype),
    "full": lambda shape, value, dtype, layout: torch.full(shape, value, dtype=dtype),
    "arange": lambda start, end, layout: torch.arange(start, end).as_subclass(Value),
    "minimum": lambda a, b: min(a, b) if is_scalar(a, b) else torch.minimum(a, b),
    "maximum": lambda a, b: max(a, b) if is_scalar(a, b) else torch.maximum(a, b),
    "where": lambda c, a, b: (a if c else b) if is_scalar(c) else torch.where(c, a, b),
    "max": reduced_max,
    "sum": lambda value, axis: value.sum(axis),
}


def language(block, program, programs):
    """As much of `gl` as flash3 uses, on torch tensors and Python numbers."""

    def allocate(dtype, shape, _layout):
        if dtype is torch.int64:
            return Barriers(MemoryBarrier(block) for _ in range(shape[0]))
        return Shared(torch.full(shape, torch.nan if dtype.is_floating_point else -1, dtype=dtype))

    def assembly(asm, _constraints, values, pack=1, **_kwargs):
        if "cvt.rn.satfinite.e4m3x2" in asm:
            return e4m3_by_four(values)
        if "mul.f32" in asm:
            return values[0] * values[1]
        if "cvt.rn" in asm:  # of pairs; here Q is float32
            return values[0]
        if "mov.b32 $0, $1" in asm:
            return values[0] if pack == 1 else values[0][:, ::4].contiguous().view(torch.float8_e4m3fn)
        return time.monotonic_ns() if "%globaltimer" in asm else torch.tensor(program)

    return SimpleNamespace(
        **LAYOUTS,
        **ARITHMETIC,
        allocate_shared_memory=allocate,
        warp_specialize=block.specialize,
        program_id=lambda axis: program,
        num_programs=lambda axis: programs,
        atomic_add=atomic_add,
        inline_asm_elementwise=assembly,
        store=store,
    )


def plain(member, names):
    """A Gluon function as the Python function it was written as, which sees `names`."""
    function = getattr(member, "fn", None)
    if not isinstance(function, FunctionType):
        return member
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def plain_class(aggregate, names):
    """A Gluon aggregate as a Python class with the same methods."""
    methods = {name: plain(value, names) for name, value in vars(aggregate).items() if hasattr(value, "fn")}
    constructor = aggregate.hash_attrs[0]  # where Triton leaves it
    return type(aggregate.__name__, (), {"__init__": plain(constructor, names), **methods})


def kernel_of_block(kernel, program, programs):
    """One of flash3's kernels as a Python function, for block `program` of `programs`."""
    block = Block()
    gl = language(block, program, programs)

    def copied_in(descriptor, coordinates, barrier, shared):
        rows = descriptor.rows(*coordinates)
        shared.memory.zero_()
        shared.memory[0, 0, : len(rows)] = rows
        barrier.arrive(0, -descriptor.block_type.nbytes)

    def copied_out(descriptor, coordinates, shared):
        rows = descriptor.rows(*coordinates)
        rows.copy_(shared.memory[0, 0, : len(rows)])

    products = Products(block)
    replaced = {
        "gl": gl,
        "mbarrier": SimpleNamespace(
            MBarrierLayout=lambda: None,
            init=lambda barrier, count: barrier.init(count),
            expect=lambda barrier, nbytes: barrier.arrive(1, nbytes),
            arrive=lambda barrier, count: barrier.arrive(count),
            wait=lambda barrier, parity: barrier.wait(parity),
        ),
        "tma": SimpleNamespace(
            async_copy_global_to_shared=copied_in,
            async_copy_shared_to_global=copied_out,
            store_wait=lambda pending: None,
        ),
        "warpgroup_mma": products.start,
        "warpgroup_mma_wait": products.wait,
        "fence_async_shared": lambda: None,
        "barrier_of_warps": lambda: None,
        "named_barrier": block.named_barrier,
        "_beside": lambda column, tensor: column[:, None],
    }
    names = {}
    modules = [
        flash3_schedule,
        flash3_kernel,
    ]  # a kernel's own functions come before others' of the same name
    if kernel is FP8_KERNEL:
        modules.append(flash3_fp8_kernel)
    elif kernel is PAGED_KERNEL:
        modules.append(flash3_pages_kernel)
    elif kernel is not ATTENTION_KERNEL:
        modules.append(flash3_backward_kernel)
    if kernel is WIDE_GRADIENT_KERNEL:
        modules.append(flash3_backward_wide_kernel)
    for module in modules:
        names |= {name: plain(value, names) for name, value in vars(module).items()}
    names |= {name: plain_class(names[name], names) for name in AGGREGATES if name in names}
    names |= {name: value.value for name, value in names.items() if isinstance(value, constexpr)}
    names |= replaced
    return plain(kernel, names)


class Kernel:
    """Stands in for attention_kernel: `Kernel()[grid](...)` runs its blocks one after the other."""

    def __getitem__(self, grid):
        def launch(*tensors, window, num_warps, **arguments):
            *descriptors, lse, counter, blocks = tensors
            window = torch.tensor(window).as_subclass(Value)
            blocks = None if blocks is None else Pointer(blocks.view(-1))
            for program in range(grid[0]):
                kernel = kernel_of_block(ATTENTION_KERNEL, program, grid[0])
                kernel(*descriptors, Pointer(lse.view(-1)), counter, blocks, window=window, **arguments)

        return launch


class GradientKernel:
    """Stands in for gradient_kernel, or wide_gradient_kernel, in the same way."""

    def __init__(self, kernel=GRADIENT_KERNEL):
        self.kernel = kernel

    def __getitem__(self, grid):
        def launch(*tensors, num_warps, **arguments):
            *descriptors, sums = tensors
            for program in range(grid[0]):
                kernel = kernel_of_block(self.kernel, program, grid[0])
                kernel(*descriptors, Pointer(sums.view(-1)), **arguments)

        return launch


class Fp8Kernel:
    """Stands in for attention_fp8_kernel in the same way."""

    def __getitem__(self, grid):
        def launch(*tensors, num_warps, **arguments):
            *descriptors, lse, q_scales, k_scales, v_scales, counter = tensors
            flat = [Pointer(tensor.view(-1)) for tensor in (lse, q_scales, k_scales, v_scales)]
            for program in range(grid[0]):
                kernel = kernel_of_block(FP8_KERNEL, program, grid[0])
                kernel(*descriptors, *flat, counter, **arguments)

        return launch


class PagedKernel:
    """Stands in for paged_attention_kernel in the same way."""

    def __getitem__(self, grid):
        def launch(*tensors, num_warps, **arguments):
            *descriptors, lse, counter, table, lengths = tensors
            flat = [Pointer(tensor.view(-1)) for tensor in (table, lengths)]
            for program in range(grid[0]):
                kernel = kernel_of_block(PAGED_KERNEL, program, grid[0])
                kernel(*descriptors, Pointer(lse.view(-1)), counter, *flat, **arguments)

        return launch
