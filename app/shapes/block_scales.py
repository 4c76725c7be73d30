"""The picture of block scales: a few numbers of K as bars, which snap to what each format has."""

import numpy as np

from app.figures.units import digits, number_text, share_text
from app.shapes import Frame, payload
from engine.experiment import Experiment
from engine.studies.block_scales import (
    E2M1,
    INT8,
    MXFP4,
    MXFP8,
    NVFP4,
    ONE,
    OUTLIERS,
    error,
    sample,
)  # fmt: skip

LEVELS = (0, 0.5, 1, 1.5, 2, 3, 4, 6)  # of E2M1
HALVES = 2  # blocks of 16 among the numbers that are drawn
TOLD = {
    None: "Numbers of a row of K in 16 bits: one is an outlier, the others are small.",
    ONE: "E4M3, one scale for the tensor: eight steps between powers of two, so small numbers keep theirs.",
    MXFP8: "MXFP8: each 32 numbers have a power of two as their scale; what exceeds the largest is cut off.",
    INT8: "INT8: steps are alike everywhere, so an outlier makes them coarse for all that share its scale.",
    MXFP4: "MXFP4: four bits have eight sizes. The outlier's block has nothing between 0 and its first step.",
    NVFP4: "NVFP4: blocks of 16, so fewer numbers share the outlier's scale, and it need be no power of two.",
}


def picture(experiment: Experiment) -> bytes:
    """The payload: in 16 bits, and in each scheme."""
    numbers, schemes = sample(experiment)
    top = 1.05 * np.abs(numbers).max()
    frames = []
    for scheme, told in TOLD.items():
        kept, scales = schemes[scheme.name] if scheme else (numbers, None)
        own = np.sqrt(np.mean((kept - numbers) ** 2) / np.mean(numbers**2))
        facts = [("bits of a number", digits(scheme.bits if scheme else 16), "K")]
        if scheme:
            both = map(number_text, dict.fromkeys(scales.tolist()))
            facts += [
                ("error of these numbers", share_text(own, 1), "K"),
                ("error of O, whole head", share_text(error(experiment, scheme, OUTLIERS), 1), "O"),
                ("rounded", "Q, K, V and P" if scheme.all else "Q and K", "ink"),
                ("scale of the numbers drawn", " and ".join(both), "S"),
            ]
        lines = scales if scheme and scheme.of is E2M1 else None
        frames.append(Frame(_boxes(numbers / top, kept / top, lines, top), told, facts))
    tones = ["muted"] * len(numbers) + ["K"] * len(numbers) + ["S"] * HALVES * (2 * len(LEVELS) - 1)
    note = "numbers with outliers, as FlashAttention-3's paper draws them; computed"
    return payload("A few numbers in fewer bits", note, tones, frames)


def _boxes(numbers: np.ndarray, kept: np.ndarray, scales: np.ndarray | None, top: float) -> np.ndarray:
    """What they were, what they are, and the values that there are in each half."""
    many = len(numbers)
    wide, place = 1 / many, np.arange(many)

    def bars(values: np.ndarray, left: float, share: float, strong: float) -> np.ndarray:
        high = np.maximum(np.abs(values) / 2, 0.002)
        flat = np.zeros(many)
        above = 0.5 - high * (values > 0)
        return np.array([(place + left) * wide, above, share * wide + flat, high, strong + flat]).T

    signed = sorted({*LEVELS, *(-each for each in LEVELS)})
    lines = []
    for half in range(HALVES):
        scale = 0 if scales is None else scales[half * many // HALVES] / top
        for level in signed:
            y = 0.5 - level * scale / 2
            inside = scales is not None and 0 <= y <= 0.997
            lines.append((half / HALVES, y, 0.99 / HALVES, 0.003, 0.55 * inside))
    return np.concatenate((bars(numbers, 0.08, 0.84, 0.3), bars(kept, 0.3, 0.4, 0.95), np.array(lines)))
