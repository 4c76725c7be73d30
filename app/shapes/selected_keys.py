"""The picture of chosen keys: the grid of query and key blocks, what is visited, and what that leaves out."""

from functools import lru_cache

import numpy as np

from app.figures.units import counted, share_text
from app.shapes import Frame, payload
from engine.experiment import Experiment
from engine.studies.selected_keys import ALL, BEST, MEANS, SIDE, WINDOW, grids, lost, shared, subject

ABOVE = 0.05  # of the grid: the compressed keys
FEW = 8  # blocks that a query visits


@lru_cache(maxsize=8)
def picture(experiment: Experiment) -> bytes:
    """The payload: all blocks, their weight, compressed scores, what these choose, a window, the best."""
    numbers, (shades, visited, half) = subject(experiment), grids(experiment, FEW)
    keys, block, heads = len(numbers.k), numbers.block, counted(len(numbers.q), "head")
    left = {rule: share_text(lost(experiment, rule)[FEW * block], 1) for rule in (WINDOW, MEANS, BEST)}
    together, own = shared(numbers, FEW * block)
    seen = np.tri(SIDE, dtype=bool)
    steps = (
        (seen * 0.75, seen, f"Attention visits all {int(seen.sum())} blocks that the mask leaves."),
        (shades[ALL], seen, f"Half of the last query's weight lies on {half} of its {SIDE} blocks."),
        (shades[MEANS], seen, "Compressed: a query is compared with one key of each block, its mean."),
        (MEANS, visited[MEANS], f"Chosen: the {FEW} blocks with most of that weight are visited."),
        (visited[ALL] * 0.9, visited[ALL], "A window is the third branch; a gate weighs each of the three."),
        (WINDOW, visited[WINDOW], f"A window alone would leave out {left[WINDOW]} of the weight."),
        (BEST, visited[BEST], f"No choice leaves out less than {left[BEST]}, known after all scores."),
    )  # fmt: skip
    frames = []
    for at, (strong, seen_now, told) in enumerate(steps):
        facts = [
            ("blocks visited", f"{seen_now.sum():,} of {seen.sum():,}", "S"),
            ("keys of the last query", f"{seen_now[-1].sum() * block:,} of {keys:,}", "K"),
        ]
        if isinstance(strong, str):
            facts.append(("weight left out, computed", left[strong], "O"))
            strong = seen_now * 0.9
        if at == 3:
            facts.append(("blocks of 64 neighbours", f"{together:.1f} together, {own} each", "K"))
        frames.append(Frame(_boxes(strong, seen, at in (2, 3)), told, facts))
    whose = "heads of a file" if numbers.real else "drawn numbers"
    note = f"{whose}, {keys:,} keys in blocks of {block}, {heads} on one key head"
    return payload("Chosen keys", note, ["S"] * SIDE**2 + ["K"] * SIDE, frames, square=True)


def _boxes(strong: np.ndarray, seen: np.ndarray, compressed: bool) -> np.ndarray:
    """The grid, and the compressed keys above it."""
    cell, place = (1 - ABOVE) / SIDE, np.arange(SIDE)
    columns, rows = (each.ravel() for each in np.meshgrid(place, place))
    size, flat = np.full(SIDE**2, 0.9 * cell), np.maximum(strong, 0.08 * seen).ravel()
    grid = np.array([columns * cell, ABOVE + rows * cell, size, size, flat]).T
    above = np.array([place * cell, 0 * place, size[:SIDE], size[:SIDE] / 2, 0 * place + 0.95 * compressed]).T
    return np.concatenate((grid, above))
