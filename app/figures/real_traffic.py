"""The real kernel's bytes beside the schedule's, as a table and as a grid of tiles."""

from __future__ import annotations

from app.figures.colours import Palette
from app.figures.shared_tables import tensor_name
from app.figures.tables import Cell, grid, scrolled, table
from engine.measuring.kernel_traffic import RealTraffic

LOW = 420  # px that the grid takes


def by_tensor(counted: RealTraffic) -> str:
    """Bytes read and written of every tensor, the kernel's and the schedule's."""
    rows = [
        [f"{tensor_name(tensor)} {verb}", f"{kernel:,}", f"{schedule:,}", _verdict(kernel, schedule)]
        for verb, moved in (("read", counted.read), ("written", counted.written))
        for tensor, (kernel, schedule) in moved.items()
    ]
    head = ["bytes", "Triton kernel, watched", "schedule, counted", ""]
    return table(head, rows, title="Bytes of the kernel and of the schedule")


def by_tile(counted: RealTraffic, colours: Palette) -> str:
    """kB of Q, K and V that are read for a visit, by query and key block; struck out where they differ."""
    across = [1 + max((tile[axis] for tile in counted.tiles), default=-1) for axis in (0, 1)]
    most = max((max(pair) for pair in counted.tiles.values()), default=1)
    queries, keys = (list(map(str, range(count))) for count in across)
    cells = [
        [_cell(counted.tiles.get((query, key)), most) for key in range(across[1])]
        for query in range(across[0])
    ]
    axes = "key block; the rows are query blocks"
    return scrolled(grid(queries, keys, cells, axes, colours, "kB of Q, K and V by tile"), LOW)


def _verdict(kernel: int, schedule: int) -> str:
    return "equal" if kernel == schedule else "differ"


def _cell(pair: tuple[int, int] | None, most: int) -> Cell:
    if pair is None:
        return Cell("", "not visited")
    kernel, schedule = pair
    words = f"kernel {kernel:,} bytes, schedule {schedule:,} bytes: {_verdict(kernel, schedule)}"
    same = kernel == schedule
    return Cell(f"{kernel / 1e3:.3g}", words, kernel / most, struck=not same)
