"""The picture of linear attention: chunks on the diagonal, a state that keeps its size, a growing cache."""

import numpy as np

from app.figures.units import bytes_text, scaled
from app.shapes import Frame, payload
from engine.experiment import Experiment
from engine.studies.linear_attention import BYTES, CHUNK, HEAD_DIM, decoded, prompt

CHUNKS = 10
CELL_W, CELL_H = 0.062, 0.088
LEFT, STATE, CACHE = 0.7, (0.7, 0.1, 0.2, 0.26), 0.5  # of what stands beside the grid; where the cache begins
ROW = 0.045  # the height of a chunk in the cache


def picture(experiment: Experiment) -> bytes:
    """The payload, alike for all: what softmax attention multiplies, then a chunk after the other."""
    tokens = CHUNKS * CHUNK
    usual = prompt(tokens, False)
    words = [("state", LEFT, STATE[1] - 0.015, "K"), ("cache", LEFT, CACHE - 0.015, "V")]
    frames = [
        Frame(
            _boxes(-1),
            "Attention multiplies every query with all keys before it, and keeps all of them.",
            [
                ("tokens", f"{tokens:,}", "ink"),
                ("kept of them: K and V", bytes_text(usual.kept), "V"),
                ("FLOPs of a head", scaled(usual.flops, "FLOP"), "S"),
            ],
            words[1:],
        )
    ]
    for chunk in range(CHUNKS):
        done = (chunk + 1) * CHUNK
        linear = prompt(done, True)
        told = (
            f"Chunk {chunk + 1}: its own {CHUNK} × {CHUNK} products, and what the state gives of all before."
        )
        facts = [
            ("tokens so far", f"{done:,}", "ink"),
            ("kept of them: the state, float32", bytes_text(linear.kept), "K"),
            ("a cache would keep", bytes_text(2 * done * HEAD_DIM * BYTES), "V"),
            ("FLOPs so far", scaled(linear.flops, "FLOP"), "S"),
            ("attention would take", scaled(prompt(done, False).flops, "FLOP"), "muted"),
            ("next token reads and writes", bytes_text(decoded(done, True).moved), "K"),
        ]
        frames.append(Frame(_boxes(chunk), told, facts, words))
    note = f"one head, d {HEAD_DIM}, chunks of {CHUNK}; K and V in 16 bits; counted"
    tones = ["S"] * CHUNKS**2 + ["K", "K"] + ["V"] * CHUNKS
    return payload("A state in place of a cache", note, tones, frames)


def _boxes(chunk: int) -> np.ndarray:
    """The grid, the state with what is in it, and the cache, at a chunk; -1: of attention."""
    found = []
    for row in range(CHUNKS):
        for column in range(CHUNKS):
            strong = 0.75 * (column <= row) if chunk < 0 else 0.07 * (column < row)
            if column == row and chunk >= 0:
                strong = 0.95 if row == chunk else 0.45 if row < chunk else 0.12
            found.append((column * CELL_W, 0.02 + row * CELL_H, 0.9 * CELL_W, 0.9 * CELL_H, strong))
    x, y, w, h = STATE
    full = min(1.0, (chunk + 1) * CHUNK / HEAD_DIM)
    found += [(x, y, w, h, 0.25 * (chunk >= 0)), (x, y, w, h, 0.7 * full)]
    rows = [0.9 if chunk < 0 else 0.25 * (row <= chunk) for row in range(CHUNKS)]
    found += [(LEFT, CACHE + row * ROW, 0.2, 0.8 * ROW, strong) for row, strong in enumerate(rows)]
    return np.array(found)
