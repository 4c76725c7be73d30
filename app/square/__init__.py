"""A square of scores that grows with the sequence, or is cut into fewer blocks as their memory grows."""

from collections.abc import Sequence
from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import bytes_text, chip_bytes_text, digits
from engine.studies.survey import DRAWN

SQUARE = Played("a_square_of_scores", Path(__file__).with_name("square.js"), "A square of scores")


def growing(squares: Sequence[tuple[int, int, int, int, str]]) -> bytes:
    """The payload of a square that grows: a frame for each length, its words and its numbers."""
    frames = []
    for tokens, scores, stored, kept, fits in squares:
        where = f"{fits} can hold" if fits else "no memory here can hold"
        told = f"{tokens:,} tokens make {scores:,} scores per head: {bytes_text(stored)}, "
        told += f"which {where}."
        facts = [
            ["tokens", f"{tokens:,}", "ink"],
            ["scores", f"{scores:,}", "S"],
            ["S stored", bytes_text(stored), "S"],
            ["tiled: m and l of each row", bytes_text(kept), "statistics"],
        ]
        frames.append({"size": tokens, "mark": f"{tokens:,}", "sentence": told, "facts": facts})
    return pack({"frames": frames, "cut": False, "note": "each side is 4 times the one before"}, {})


def cutting(squares: Sequence[tuple[int, int, int, int]]) -> bytes:
    """The payload of a square that is cut into blocks of queries, each of which reads all of K and V."""
    frames = []
    for memory, rows, blocks, requested in squares:
        told = (
            f"With {chip_bytes_text(memory)} for its tiles a block takes {rows} queries. "
            f"All of K and V is read by {blocks} blocks."
        )
        facts = [
            ["M, memory of a block", chip_bytes_text(memory), "ink"],
            ["queries of a block", f"{rows:,}", "Q"],
            [f"blocks of {DRAWN:,} queries", f"{blocks:,}", "Q"],
            ["requested by one head", bytes_text(requested), "K"],
            ["bytes beside the first's", f"{digits(100 * requested / squares[0][3])}%", "K"],
        ]
        frames.append({"size": blocks, "mark": "", "sentence": told, "facts": facts})
    return pack({"frames": frames, "cut": True, "note": f"{DRAWN:,} of its queries are drawn"}, {})
