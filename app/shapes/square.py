"""A square of scores that grows with the sequence, or is cut into fewer blocks as their memory grows."""

from collections.abc import Sequence

from app.canvas.moving import Played
from app.figures.units import bytes_text, chip_bytes_text, digits
from app.shapes import SCRIPT, Frame, payload
from engine.studies.survey import DRAWN

SQUARE = Played("a_square_of_scores", SCRIPT, "A square of scores")
SCORES = 32  # of a side, so many of which are drawn one by one
THIN = 0.002  # of a side: a line between two
AXES = (("Q ↓", 0, -0.015, "Q"), ("keys →", 0.5, -0.015, "K", "center"))


def growing(squares: Sequence[tuple[int, int, int, int, str]]) -> bytes:
    """The payload of a square that grows: a frame for each length, its words and its numbers."""
    sizes = [tokens for tokens, *_ in squares][::-1]
    lined = [(size, n) for size in sizes if size <= SCORES for n in range(1, size)]
    frames = []
    for tokens, scores, stored, kept, fits in squares:
        where = f"{fits} can hold" if fits else "no memory here can hold"
        told = f"{tokens:,} tokens make {scores:,} scores per head: {bytes_text(stored)}, which {where}."
        facts = [
            ("tokens", f"{tokens:,}", "ink"),
            ("scores", f"{scores:,}", "S"),
            ("S stored", bytes_text(stored), "S"),
            ("tiled: m and l of each row", bytes_text(kept), "statistics"),
        ]
        boxes, words = [], []
        for at, size in enumerate(sizes):  # the largest first; of those to come the next alone is seen
            side, ahead = size / tokens, len([each for each in sizes if tokens < each <= size])
            strong = (0.85 - 0.15 * (at - sizes.index(tokens)), 0.3, 0)[min(ahead, 2)]
            boxes.append((0, 0, min(side, 1), min(side, 1), max(strong, 0.3) if side <= 1 else strong))
            mark = f"{size:,}" if 0.1 < side <= 1 else ""
            words.append((mark, side - 0.01, side - 0.015, "ink", "right"))
        for size, n in lined:
            side = size / tokens
            seen = 0.2 < side <= 1
            boxes += [(n / tokens, 0, THIN, side, seen), (0, n / tokens, side, THIN, seen)]
        frames.append(Frame(boxes, told, facts, (*AXES, *words)))
    tones, note = ["S"] * len(sizes) + ["ground"] * 2 * len(lined), "each side is 4 times the one before"
    return payload(SQUARE.title, note, tones, frames, square=True, opaque=True)


def cutting(squares: Sequence[tuple[int, int, int, int]]) -> bytes:
    """The payload of a square that is cut into blocks of queries, each of which reads all of K and V."""
    frames, most = [], max(blocks for _, _, blocks, _ in squares)
    for memory, rows, blocks, requested in squares:
        told = (
            f"With {chip_bytes_text(memory)} for its tiles a block takes {rows} queries. "
            f"All of K and V is read by {blocks} blocks."
        )
        facts = [
            ("M, memory of a block", chip_bytes_text(memory), "ink"),
            ("queries of a block", f"{rows:,}", "Q"),
            (f"blocks of {DRAWN:,} queries", f"{blocks:,}", "Q"),
            ("requested by one head", bytes_text(requested), "K"),
            ("bytes beside the first's", f"{digits(100 * requested / squares[0][3])}%", "K"),
        ]
        boxes, thick = [(0, 0, 1, 1, 0.25)], min(0.01, 0.28 / blocks)
        for band in range(most):
            top = band * blocks // most / blocks
            first = top + 0.2 / blocks
            boxes += [
                (0, top, 1, THIN, 1),
                (0.01, first, 0.98, thick, 1),
                (0.01, first + 1.25 * thick, 0.98, thick, 1),
            ]
        frames.append(Frame(boxes, told, facts, AXES))
    note = f"{DRAWN:,} of its queries are drawn"
    return payload(SQUARE.title, note, ["S"] + ["ground", "K", "V"] * most, frames, square=True, opaque=True)
