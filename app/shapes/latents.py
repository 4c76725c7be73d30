"""The picture of a latent: what is cached of one token, and where K and V of its heads come from."""

import numpy as np

from app.figures.units import bytes_text, digits, scaled, seconds_text
from app.shapes import Frame, payload
from engine.experiment import Experiment
from engine.studies.latents import ABSORBED, BYTES, DEEPSEEK, HEADS, PROJECTED, cost

LINE, TOP, HIGH = 16, 0.42, 0.57  # heads in a row of the picture; where their cells are
QUERIES, ROW, FIRST = 5, 0.034, 0.195  # that are drawn, the height of one, and where the first is
TALL, WIDE = 0.06, 0.9  # of the latent as a bar, and where all of its width is needed
OF = DEEPSEEK
STEPS = (  # a way, whether its costs are told, how strong cells are, and whether bar and queries are long
    (HEADS, True, (0.95, 0.95), False, f"Each of {OF.heads} heads keeps its own K and V of every token."),
    (
        *(ABSORBED, False, (0.05, 0.05), False),
        f"A latent of {OF.latent} numbers is kept instead, and {OF.rotary} that carry positions: "
        f"{OF.of_heads / OF.cached:.0f} times fewer numbers.",
    ),
    (
        *(PROJECTED, True, (0.4, 0.1), False),
        "Projected: each call makes K and V of all cached tokens again, for many queries or for one.",
    ),
    (
        *(ABSORBED, True, (0.05, 0.05), True),
        f"Absorbed: each query grows from {OF.plain} to {OF.latent} numbers, and the latent itself, drawn "
        "wider here, is K and V.",
    ),
)


def picture(experiment: Experiment) -> bytes:
    """The payload: cached of every head, as a latent, projected again, and absorbed."""
    keys, gpu = experiment.problem.seq_kv, experiment.gpu
    cells = _cells()
    area = cells[0, 2] * cells[0, 3] / OF.plain / TALL  # of one number, over the bar's height
    full, small = WIDE / OF.cached, area
    frames = []
    for way, costs, (strong, rotated), long, told in STEPS:
        found, unit = cost(way, 1, keys), full if long else small
        bar = [(0, 0.06, unit * OF.latent, TALL), (unit * OF.latent + 0.004, 0.06, unit * OF.rotary, TALL)]
        wide = full * (OF.latent if long else OF.plain)
        rows = [
            (left, FIRST + row * ROW, width, 0.7 * ROW)
            for row in range(QUERIES)
            for left, width in ((0, wide), (wide + 0.004, full * OF.rotary))
        ]
        strengths = [*[strong, rotated, strong] * OF.heads, *[0.95 * (way != HEADS)] * 2, *[0.9] * len(rows)]
        facts = [
            ("cached of a token", f"{found.kept // BYTES:,} numbers", "K"),
            ("cached of all tokens", bytes_text(found.kept * keys), "K"),
            ("read and written for a query", bytes_text(found.moved), "ink"),
            ("its FLOPs", scaled(found.flops, "FLOP"), "S"),
            ("FLOPs per byte", digits(found.flops / found.moved), "S"),
            ("a query, at best", seconds_text(found.seconds(gpu)), "O"),
        ]
        above = "cached of one token" if way == HEADS else f"latent of {OF.latent}, {OF.rotary} rotated"
        words = [
            (above, 0, 0.04, "ink"),
            (f"queries of {QUERIES} of {OF.heads} heads", 0, FIRST - 0.012, "Q"),
        ]
        words += [(f"K and V of {OF.heads} heads", 0, TOP - 0.012, "ink")] * (way != ABSORBED)
        boxes = np.c_[np.concatenate((cells, bar, rows)), strengths]
        frames.append(Frame(boxes, told, facts if costs else facts[:2], words))
    note = f"DeepSeek-V2's sizes, {keys:,} tokens, computed; seconds: {gpu.name}'s peaks"
    tones = ["K", "statistics", "V"] * OF.heads + ["K", "statistics"] + ["Q", "statistics"] * QUERIES
    return payload("What is cached of a token", note, tones, frames)


def _cells() -> np.ndarray:
    """[3 heads, 4] K, its rotated numbers, and V of every head, as wide as they have numbers."""
    numbers = np.array([OF.plain, OF.rotary, OF.v_dim])
    w, h = 0.96 / LINE, HIGH / -(-OF.heads // LINE)
    shares = 0.88 * w * numbers / numbers.sum()
    line, place = np.divmod(np.arange(OF.heads), LINE)
    lefts = (place[:, None] * w + np.cumsum(shares) - shares).ravel()
    return np.c_[
        lefts, np.repeat(TOP + line * h, 3), np.tile(shares, OF.heads), np.full(3 * OF.heads, 0.78 * h)
    ]
