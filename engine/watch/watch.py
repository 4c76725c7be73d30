"""What a kernel does to memory, counted and checked while it runs."""

import re
import sys
import weakref
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from engine.problem.problem import Tiling
from engine.watch.memory import POISON, Memory, Region, View

NOTHING: frozenset = frozenset()
Program = tuple[int, int, int]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where it was first seen."""

    kind: str  # one word for it, such as out_of_bounds
    sentence: str  # what, where and why, for reading
    line: int | None = None  # of the file, or None
    # the index of the program in its grid, or None where no single one is at fault
    program: Program | None = None
    tensor: str | None = None  # Q, K, V, O or the kernel's own name; None where it is no tensor's


def at(line: int | None) -> str:
    """The line in a sentence."""
    return f" in line {line}" if line else ""


def rows(low: int, high: int) -> str:
    """Rows in a sentence, high included."""
    return f"row {low}" if low == high else f"rows {low} to {high}"


def times(count: int) -> str:
    """How often, in words where there is one."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


KINDS = ("load", "store", "atomic", "visit", "meet")  # meet: P times V


class Pointer(NamedTuple):
    """The numbers are addresses; `base` is the one that they were counted from."""

    base: int


class Tile(NamedTuple):
    """Rows low to high (high included) of a head of Q, K or V, and such columns of them."""

    tensor: str
    head: int
    low: int
    high: int
    first_column: int
    last_column: int


class Step(NamedTuple):
    """An access to memory or a matrix product: which program made it, in which line of the file, and bytes.

    tiles: of a load, those that came; of a visit, that of Q and that of K; of a product with V, that of V.
    """

    kind: str
    tensor: str
    launch: int
    program: Program
    line: int | None
    bytes: int = 0
    tiles: tuple[Tile, ...] = ()

    @property
    def q(self) -> Tile | None:
        """The rows of Q that it is about."""
        return next((tile for tile in self.tiles if tile.tensor == "Q"), None)

    @property
    def k(self) -> Tile | None:
        """The rows of K or V that it is about."""
        return next((tile for tile in self.tiles if tile.tensor != "Q"), None)

    def tile(self, tiling: Tiling) -> tuple[int, int]:
        """Of a visit the query block and the key block."""
        return self.q.low // tiling.block_q, self.k.low // tiling.block_kv


class Product(NamedTuple):
    """Products of Q and K, element by element, that are yet to be summed."""


class Tags:
    """Where numbers came from, by the array that owns the memory: a transposed or broadcast view has it."""

    def __init__(self):
        self._held: dict[int, tuple[weakref.ref, frozenset]] = {}

    def of(self, array) -> frozenset:
        """The tags of an array."""
        held = self._held.get(id(_owner(array)))
        return NOTHING if held is None else held[1]

    def put(self, array, tags: frozenset) -> None:
        """Let an array have exactly these tags."""
        owner = _owner(array)
        key = id(owner)
        self._held.pop(key, None)
        if tags:
            self._held[key] = weakref.ref(owner, lambda _: self._held.pop(key, None)), tags


def _owner(array):
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


class Watch:
    """A listener to `engine.watch.interpreter.reporting`."""

    def __init__(self, memory: Memory, group: int = 1, file: str | None = None):
        """group: heads of Q that share one of K; file: whose lines are named."""
        self.tags, self.memory, self.group, self.file = Tags(), memory, group, file
        self.launches: list[str] = []  # the kernels' names
        self.held: list[tuple[str, Any]] = []  # all tensors that they were given, by name
        self.steps: list[Step] = []  # all accesses and products, in the order of time
        self.atomics = False  # whether any program changed memory that others change too
        self._found: dict[tuple, Finding] = {}  # the first of each kind, tensor and line
        self._programs: list[Program] = []
        self._program: Program = (0, 0, 0)
        self._last: View | None = None

    @property
    def line(self) -> int | None:
        """The line of the file that is at work."""
        return line_of(self.file)

    @property
    def visits(self) -> list[Step]:
        """The products of Q and K."""
        return [step for step in self.steps if step.kind == "visit"]

    @property
    def stores(self) -> dict[str, int | None]:
        """The last line that wrote, by tensor."""
        return {step.tensor: step.line for step in self.steps if step.kind == "store"}

    @property
    def moved(self) -> tuple[Counter[str], Counter[str]]:
        """Bytes read and written by tensor; an atomic is both."""
        read, written = Counter(), Counter()
        for step in self.steps:
            for counted, other in ((read, "store"), (written, "load")):
                if step.bytes and step.kind != other:
                    counted[step.tensor] += step.bytes
        return read, written

    @property
    def findings(self) -> list[Finding]:
        """In the order in which they were seen."""
        return list(self._found.values())

    def launched(self, kernel: str, arguments: dict[str, Any]) -> None:
        """A kernel starts; its tensors are taken in."""
        self.launches.append(kernel)
        self._programs.clear()
        self.memory.launch()
        for name, tensor in tensors_of(arguments):
            self.memory.add(name, tensor)
            self.held.append((name, tensor))

    def program(self, index: Program) -> None:
        """A program starts."""
        self._program = index
        self._programs.append(index)

    def access(self, kind: str, pointers, mask, itemsize: int, base: int | None):
        """Count and check an access; returns the mask without what is out of bounds."""
        mask = np.broadcast_to(np.asarray(mask, bool), pointers.shape)
        self._last = None
        addresses = pointers[mask]
        if not addresses.size:
            return mask
        line, low, high = self.line, int(addresses.min()), int(addresses.max())
        region = self.memory.region(base if base is not None else low) or self.memory.nearest(low)
        if region is None or low < region.start or high + itemsize > region.stop:
            mask = self._inside(kind, pointers, mask, itemsize, region, base)
            addresses = pointers[mask]
            if not addresses.size:
                return mask
        view = region.view(base)
        self._check_step(view, pointers)
        tiles = self._rows(view, addresses) if kind == "load" and view.strides else ()
        self._note(kind, view.name, line, addresses.size * itemsize, *tiles)
        if view.strides == ():
            self._check_order(kind, region, view, addresses)
        self._last = view
        return mask

    def loaded(self, values, mask) -> frozenset:
        """Tags of what came: rows of Q, K or V."""
        if self._last is None:
            return NOTHING
        poison = POISON.get(values.dtype.itemsize) if values.dtype.kind in "fu" else None
        if poison is not None:  # bfloat16 is in whole numbers
            held = np.ascontiguousarray(values).view(poison.dtype) == poison
            if held[np.asarray(mask, bool)].any():
                name, why = self._last.name, " before anything was written there"
                self.report("read_before_written", name, f"reads {name}", why)
        return frozenset(self.steps[-1].tiles)

    def product(self, left: frozenset, right: frozenset, matrix: bool) -> frozenset:
        """Of Q and K it is a visit; of that and V it is checked that the rows of V are those of K."""
        one, other = _named(left), _named(right)
        both = left | right
        if {one, other} == {("Q",), ("K",)}:
            self._visit(both)
            return both if matrix else both | {Product()}
        if {one, other} == {("K", "Q"), ("V",)}:
            self._meet(both)
            return NOTHING
        return NOTHING if matrix else both

    def report(self, kind: str, tensor: str | None, does: str, why: str, who: str = "") -> None:
        """Keep what the program at work does in a line if it is the first of its kind there.

        who: if it is not that program alone.
        """
        line = self.line
        sentence = f"{who or f'Program {self._program}'} {does}{at(line)}{why}."
        self._found.setdefault((kind, tensor, line), Finding(kind, sentence, line, self._program, tensor))

    def rename(self, name: str, new: str) -> None:
        """Call a tensor otherwise: in all that was counted, and as what a finding is about."""
        self.steps = [step._replace(tensor=new) if step.tensor == name else step for step in self.steps]
        for key, found in self._found.items():
            if found.tensor == name:
                self._found[key] = replace(
                    found, tensor=new, sentence=re.sub(rf"\b{re.escape(name)}\b", new, found.sentence)
                )

    def _note(self, kind: str, tensor: str, line: int | None, size: int = 0, *tiles: Tile) -> None:
        """Keep a step of the program at work."""
        self.steps.append(Step(kind, tensor, len(self.launches), self._program, line, size, tiles))

    def _inside(self, kind: str, pointers, mask, itemsize: int, region: Region | None, base: int | None):
        """The mask without what lies outside of the tensor, which is reported."""
        verb = {"load": "reads", "store": "writes"}.get(kind, "changes")
        if region is None:
            self.report("out_of_bounds", None, f"{verb} memory", " that belongs to no tensor")
            return np.zeros_like(mask)
        inside = (pointers >= np.uint64(region.start)) & (pointers + np.uint64(itemsize) <= region.stop)
        outside = pointers[mask & ~inside].astype(np.int64)
        name = region.view(base).name
        beyond = outside.max() + itemsize - region.stop
        where = f"up to {beyond:,} bytes past its end" if beyond > 0 else "before its start"
        all_of_it, why = "", "a mask is missing"
        if not (mask & inside).any():
            all_of_it, why = "all of it ", "its head or its rows are the wrong ones"
        self.report("out_of_bounds", name, f"{verb} {name}", f" {all_of_it}out of bounds, {where}: {why}")
        return mask & inside

    def _check_step(self, view: View, pointers) -> None:
        """An even tile of Q, K or V must step from row to row, or from head to head, as its tensor does."""
        if not view.strides or pointers.ndim != 2 or 1 in pointers.shape:
            return
        *heads, row, column = view.strides
        places = pointers.astype(np.int64) // view.itemsize
        down, along = np.diff(places[:, 0]), np.diff(places[0])
        steps = down if along[0] == column else along if down[0] == column else along[:0]
        if not steps.size or (steps != steps[0]).any() or abs(steps[0]) == row:
            return
        if all(steps[0] % stride for stride in heads if stride):
            why = f" to be {abs(steps[0])} elements apart; they are {row} apart: a stride is wrong"
            self.report("wrong_stride", view.name, f"takes the rows of {view.name}", why)

    def _check_order(self, kind: str, region: Region, view: View, addresses) -> None:
        """No program may write what another reads or writes in the same launch, unless atomically."""
        self.atomics |= kind == "atomic"
        if self.atomics:
            return
        places = (addresses.astype(np.int64) - region.start) // region.itemsize
        own = len(self._programs)
        for other, kinds in ((region.writer, ("store", "load")), (region.reader, ("store",))):
            before = other[places]
            clash = before[(before >= 0) & (before != own)]
            if clash.size and kind in kinds:
                program = self._programs[int(clash[0]) - 1]
                verb = "write" if kind == "store" and other is region.writer else "read and write"
                who, why = f"Programs {program} and {self._program}", ": on a GPU either may come first"
                self.report("race", view.name, f"{verb} the same elements of {view.name}", why, who)
        (region.writer if kind == "store" else region.reader)[places] = own

    def _rows(self, view: View, addresses) -> list[Tile]:
        """The rows of Q, K or V that came; a tile of Q may be of several heads, which share a key head."""
        head, row, column = (np.broadcast_to(each, addresses.shape) for each in view.places(addresses))
        columns = int(column.min()), int(column.max())
        tiles = [
            Tile(view.name, int(each), int(own.min()), int(own.max()), *columns)
            for each in ([head[0]] if head.min() == head.max() else np.unique(head))
            for own in (row[head == each],)
        ]
        if len(tiles) > 1 and (view.name != "Q" or tiles[0].low > tiles[-1].low == 0):
            why = ", into the rows of the next head: a mask is missing"
            self.report("ragged_end", view.name, f"reads past the end of a head of {view.name}", why)
            tiles = tiles[:1]
        return tiles

    def _visit(self, tags: frozenset) -> None:
        line = self.line
        for q in (tag for tag in tags if isinstance(tag, Tile) and tag.tensor == "Q"):
            for k in (tag for tag in tags if isinstance(tag, Tile) and tag.tensor == "K"):
                self._note("visit", "S", line, 0, q, k)
                if q.head // self.group != k.head:
                    does = f"multiplies head {q.head} of Q by head {k.head} of K"
                    self.report("wrong_head", "K", does, f"; it must be head {q.head // self.group}")

    def _meet(self, tags: frozenset) -> None:
        tiles = [tag for tag in tags if isinstance(tag, Tile)]
        keys = [tag for tag in tiles if tag.tensor == "K"]
        values = next(tag for tag in tiles if tag.tensor == "V")
        self._note("meet", "O", self.line, 0, values)
        low, high = min(key.low for key in keys), max(key.high for key in keys)
        if keys[0].head != values.head:
            does = f"multiplies P of head {keys[0].head} of K by head {values.head} of V"
            self.report("wrong_head", "V", does, "; both must be the same head")
        elif values.low < low or values.high > high:
            does = f"multiplies P of key {rows(low, high)} by {rows(values.low, values.high)} of V"
            self.report("wrong_rows", "V", does, "; they must be the same rows")


def line_of(file: str | None) -> int | None:
    """The line of a file that is at work."""
    frame = sys._getframe(1) if file else None
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return frame.f_lineno if frame else None


def _named(tags: frozenset) -> tuple[str, ...]:
    return tuple(sorted({tag.tensor for tag in tags if isinstance(tag, Tile)}))


def tensors_of(arguments: dict[str, Any]):
    """Every tensor among a kernel's arguments, in tuples and host descriptors too, with its name."""
    for name, value in arguments.items():
        several = isinstance(value, tuple)
        names = [f"{name}[{place}]" for place in range(len(value))] if several else [name]
        names = getattr(value, "_fields", names) if several else names
        for name_of_part, part in zip(names, value if several else (value,), strict=True):
            part = getattr(part, "base", part) if type(part).__name__ == "TensorDescriptor" else part
            if hasattr(part, "untyped_storage"):
                yield name_of_part, part
