"""A square of scores that grows with the sequence, or is cut into fewer blocks as their memory grows."""

from collections.abc import Sequence
from pathlib import Path

from app.canvas.moving import Played
from app.canvas.pack import pack
from app.figures.units import bytes_text, chip_bytes_text, digits
from engine.studies.squares import DRAWN, Cut, Grown

SQUARE = Played("a_square_of_scores", Path(__file__).with_name("square.js"), "A square of scores")


def growing(squares: Sequence[Grown]) -> bytes:
    """The payload of a square that grows: a frame for each length, its words and its numbers."""
    frames = []
    for at in squares:
        where = f"{at.fits} can hold" if at.fits else "no memory here can hold"
        told = f"{at.tokens:,} tokens make {at.scores:,} scores per head: {bytes_text(at.stored)}, "
        told += f"which {where}."
        facts = [
            ["tokens", f"{at.tokens:,}", "ink"],
            ["scores", f"{at.scores:,}", "S"],
            ["S stored", bytes_text(at.stored), "S"],
            ["tiled: m and l of each row", bytes_text(at.kept), "statistics"],
        ]
        frames.append({"size": at.tokens, "mark": f"{at.tokens:,}", "sentence": told, "facts": facts})
    return pack(
        {
            "frames": frames,
            "cut": False,
            "note": "each side is 4 times the one before",
        },
        {},
    )


def cutting(squares: Sequence[Cut]) -> bytes:
    """The payload of a square that is cut into blocks of queries, each of which reads all of K and V."""
    first, frames = squares[0], []
    for at in squares:
        told = (
            f"With {chip_bytes_text(at.memory)} for its tiles a block takes {at.rows} queries. "
            f"All of K and V is read by {at.blocks} blocks."
        )
        facts = [
            ["M, memory of a block", chip_bytes_text(at.memory), "ink"],
            ["queries of a block", f"{at.rows:,}", "Q"],
            [f"blocks of {DRAWN:,} queries", f"{at.blocks:,}", "Q"],
            ["requested by one head", bytes_text(at.requested), "K"],
            ["bytes beside the first's", f"{digits(100 * at.requested / first.requested)}%", "K"],
        ]
        frames.append({"size": at.blocks, "mark": "", "sentence": told, "facts": facts})
    return pack({"frames": frames, "cut": True, "note": f"{DRAWN:,} of its queries are drawn"}, {})
