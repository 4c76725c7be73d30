"""Memory as Gluon names it, in torch tensors: shared, global by pointers, and global by TMA's descriptors."""

import math
from types import SimpleNamespace

import torch

from kernels.backward.places import FAR, packed_shape
from kernels.tilings.flash3 import padded


class Shared:
    """Shared memory: a tensor with Gluon's names for looking at it."""

    place = None  # in tensor memory

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
        if len(shape) == 4:  # its first columns
            return Shared(self.memory[..., : shape[3]])
        return Boxes(self.memory, *shape[3:])


class TensorMemory:
    """Blackwell's: float32 columns, and beneath them numbers of 16 bits in the same place, two a column."""

    def __init__(self, memory, beneath):
        self.memory, self.beneath = memory, beneath

    @classmethod
    def of(cls, shape):
        return cls(torch.full(shape, torch.nan), torch.full((*shape[:-1], 2 * shape[-1]), torch.nan))

    def index(self, i):
        return TensorMemory(self.memory[i], self.beneath[i])

    def slice(self, start, length):
        columns = (self.memory.narrow(-1, start, length), self.beneath.narrow(-1, 2 * start, 2 * length))
        return TensorMemory(*columns)

    def _reinterpret(self, _dtype, shape, _layout):
        assert list(shape) == list(self.beneath.shape)
        return Packed(self.beneath, self.memory)

    def load(self, _layout=None):
        return self.memory.clone()

    def store(self, value):
        """What shares its place is lost."""
        self.beneath.fill_(torch.nan)
        self.memory.copy_(value)


class Packed(TensorMemory):
    """Numbers of 16 bits in it."""

    @property
    def place(self):
        return self.beneath.data_ptr()

    def slice(self, start, length):
        return Packed(self.memory.narrow(-1, start, length), self.beneath.narrow(-1, start // 2, length // 2))


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
    """What TMA knows of a tensor [batch, heads, seq, ...]: outside it it reads 0, writes nothing."""

    def __init__(self, tensor, rows, columns=None):
        self.base = tensor
        self.shape = tensor.shape
        self.dtype = tensor.dtype
        self.layout = None
        shape = [1, 1, rows, *([columns or padded(tensor.shape[3])] if tensor.dim() == 4 else [])]
        self.block_type = SimpleNamespace(shape=shape, nbytes=math.prod(shape) * tensor.element_size())

    def rows(self, batch, head, row, column=0):
        head_rows = self.base[batch, head, max(row, 0) : row + self.block_type.shape[2]]
        return head_rows[..., column : column + self.block_type.shape[-1]]


class Sequences(Descriptor):
    """What it knows of a tensor of packed sequences, as `kernels.backward.places.packed_shape` says."""

    def __init__(self, tensor, rows):
        super().__init__(tensor, rows)
        self.shape, _ = packed_shape(tensor)
        self.block_type.shape.insert(0, 1)

    def rows(self, far, outer, head, row, column=0):
        assert far == FAR
        count = max(0, min(self.block_type.shape[3], FAR - int(row)))
        batch, first = divmod(int(outer + row) - FAR, self.base.shape[2])
        assert count == 0 or 0 <= first <= self.base.shape[2] - count, "rows outside of the tensor"
        return self.base[batch if count else 0, head, first : first + count]


class Parts:
    """What TMA knows of sums that it adds to: parts [16, 256]."""

    layout = None

    def __init__(self, sums):
        self.parts = sums.view(-1, 16, 256)


class Pointer:
    """A place, or a tensor of places, in a flat tensor."""

    def __init__(self, memory, offsets=0):
        self.memory = memory
        self.offsets = offsets

    def __add__(self, offsets):
        return Pointer(self.memory, self.offsets + offsets)


def pointer_to(tensor):
    """A place in the memory that a contiguous tensor lies in: others may lie before it."""
    assert tensor.is_contiguous()
    storage = tensor.untyped_storage()
    numbers = storage.nbytes() // tensor.element_size()
    return Pointer(tensor.as_strided((numbers,), (1,), 0), tensor.storage_offset())


def store(pointer, value, mask=None):
    if mask is None:
        pointer.memory[pointer.offsets] = value
    else:
        pointer.memory[pointer.offsets[mask]] = value[mask].to(pointer.memory.dtype)


def load(pointer, mask=True, other=None):
    """One number, or a tensor of them; what is not wanted is not looked at."""
    return pointer.memory[pointer.offsets] if mask is True or mask else torch.tensor(other)


def atomic_add(pointer, value, sem):
    """What lay there, where it is one number."""
    if isinstance(pointer.offsets, torch.Tensor):
        return pointer.memory.index_add_(0, pointer.offsets, value)
    before = int(pointer.memory[pointer.offsets])
    pointer.memory[pointer.offsets] += value
    return before
